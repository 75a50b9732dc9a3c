//! Definitions that are missing, come, go and change their versions.

use super::*;

#[tokio::test]
async fn a_kind_that_is_missing_holds_up_nothing_and_is_read_when_it_comes() {
    let mut world = World::new(|mock| {
        mock.uninstall(Kind::HttpRoute);
        mock.uninstall(Kind::Backend);
        mock.put(Kind::Service, service("shop", "cart", "1"));
    })
    .await;
    world.listed().await;
    world.until("it is told", |state| state.says("httproutes.gateway.networking.k8s.io is not installed")).await;
    assert!(!world.state.says("backends.gateway.envoyproxy.io"));
    world.mock.install(Kind::HttpRoute, &["v1"]);
    world.mock.put(Kind::HttpRoute, route("shop", "a", "1"));
    world.until("it is read", |state| state.has("HTTPRoute shop/a") && state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn it_is_known_whether_there_are_gateways_at_all() {
    let mut world = World::new(|mock| mock.uninstall(Kind::Gateway)).await;
    let mut has = world.observed.has_gateways();
    world.listed().await;
    assert!(!*has.borrow());
    world.mock.install(Kind::Gateway, &["v1"]);
    has.wait_for(|has| *has).await.unwrap();
    world.mock.uninstall(Kind::Gateway);
    has.wait_for(|has| !*has).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_kind_that_comes_is_found_where_definitions_may_not_be_watched() {
    let mut world = World::new(|mock| {
        mock.uninstall(Kind::HttpRoute);
        mock.faults(|faults| faults.forbidden = vec!["customresourcedefinitions".to_owned()]);
    })
    .await;
    world.listed().await;
    world.mock.install(Kind::HttpRoute, &["v1"]);
    world.mock.put(Kind::HttpRoute, route("shop", "a", "1"));
    world.until("it is read", |state| state.has("HTTPRoute shop/a") && state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn a_definition_that_goes_takes_its_objects_along() {
    let mut world = World::new(|mock| {
        mock.put(Kind::HttpRoute, route("shop", "a", "1"));
        mock.put(Kind::Service, service("shop", "cart", "1"));
    })
    .await;
    world.listed().await;
    world.mock.uninstall(Kind::HttpRoute);
    world.until("it is gone", |state| !state.has("HTTPRoute shop/a")).await;
    assert!(world.state.has("Service shop/cart"));
    world.mock.install(Kind::HttpRoute, &["v1beta1"]);
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.until("it is back", |state| state.has("HTTPRoute shop/a")).await;
    world.end().await;
}

#[tokio::test]
async fn a_kind_is_read_in_the_newest_version_of_both_and_changing_it_loses_nothing() {
    let mut world = World::new(|mock| {
        mock.install(Kind::HttpRoute, &["v1beta1", "v1alpha2"]);
        mock.put(Kind::HttpRoute, route("shop", "a", "1"));
    })
    .await;
    world.listed().await;
    let applied = world.state.applied;
    assert_eq!(world.mock.asked("/v1/httproutes"), 0);
    for versions in [&["v1beta1", "v1"][..], &["v1beta1"]] {
        let newest = versions[versions.len() - 1];
        world.mock.install(Kind::HttpRoute, versions);
        // The watch of an old version that has not ended yet is taken up again without a request.
        world.asked(&format!("/{newest}/httproutes"), 1).await;
        world.settled().await;
        assert!(world.state.has("HTTPRoute shop/a"));
    }
    world.mock.put(Kind::HttpRoute, route("shop", "b", "1"));
    world.until("b is there", |state| state.has("HTTPRoute shop/b")).await;
    assert_eq!(world.state.applied, applied + 2 * 2 + 1, "the marks and b: what is equal is no change");
    world.end().await;
}

#[tokio::test]
async fn an_old_version_is_watched_until_the_new_one_has_been_listed() {
    let mut world = World::new(|mock| {
        mock.install(Kind::HttpRoute, &["v1beta1"]);
        mock.put(Kind::HttpRoute, route("shop", "a", "1"));
        mock.faults(|faults| faults.forbidden = vec!["/v1/httproutes".to_owned()]);
    })
    .await;
    world.listed().await;
    world.mock.install(Kind::HttpRoute, &["v1beta1", "v1"]);
    world.until("the new one is refused", |state| state.says("httproutes.gateway.networking.k8s.io")).await;
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    world.end().await;
}
