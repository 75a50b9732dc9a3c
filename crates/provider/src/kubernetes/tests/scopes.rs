//! Scopes: namespaces by name and by label.

use super::*;

fn two_teams(mock: &Mock) {
    mock.put(Kind::Namespace, namespace("one", ("team", "ours")));
    mock.put(Kind::Namespace, namespace("two", ("team", "theirs")));
    for name in ["one", "two"] {
        mock.put(Kind::HttpRoute, route(name, "r", "1"));
        mock.put(Kind::Service, service(name, "s", "1"));
    }
    mock.put(Kind::GatewayClass, class("ours", "1"));
    mock.put(Kind::GatewayClass, class("other", "1"));
}

fn only_one() -> Scope {
    Scope::Namespaces(BTreeSet::from(["one".into()]))
}

fn selector() -> Scope {
    let match_labels = [("team", "ours")].into_iter().collect();
    Scope::Selector(LabelSelector { match_labels, ..LabelSelector::default() })
}

#[tokio::test]
async fn of_namespaces_by_name_only_these_are_asked_for() {
    let mut world = World::with(only_one(), pace(), two_teams).await;
    world.listed().await;
    let expected = ["GatewayClass other", "GatewayClass ours", "HTTPRoute one/r", "Namespace one", "Service one/s"];
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), expected);
    assert_eq!(world.mock.asked("/v1/httproutes"), 0);
    assert!(world.mock.asked("/namespaces/one/httproutes") > 0 && world.mock.asked("/namespaces/two/") == 0);
    world.end().await;
}

#[tokio::test]
async fn without_rights_in_the_cluster_classes_and_namespaces_are_read_one_by_one() {
    let mut world = World::with(only_one(), pace(), |mock| {
        two_teams(mock);
        let mut gateway = gateway("web", &[]);
        gateway["metadata"]["namespace"] = json!("one");
        mock.put(Kind::Gateway, gateway);
        let whole = ["/v1/gatewayclasses $", "/v1/namespaces $", "customresourcedefinitions"];
        mock.faults(|faults| faults.forbidden = whole.map(str::to_owned).to_vec());
    })
    .await;
    world.listed().await;
    let expected = ["Gateway one/web", "GatewayClass ours", "HTTPRoute one/r", "Namespace one", "Service one/s"];
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), expected);
    assert!(world.state.says("gatewayclasses.gateway.networking.k8s.io may not be listed and watched together"));
    world.end().await;
}

#[tokio::test]
async fn a_namespace_that_may_not_be_read_at_all_has_no_labels_and_holds_up_nothing() {
    let mut world = World::with(only_one(), pace(), |mock| {
        two_teams(mock);
        mock.faults(|faults| faults.forbidden = vec!["/v1/namespaces ".to_owned()]);
    })
    .await;
    world.listed().await;
    assert!(world.state.has("HTTPRoute one/r") && !world.state.has("Namespace one"));
    assert!(world.state.says("are taken to have no labels"));
    world.end().await;
}

#[tokio::test]
async fn of_namespaces_by_label_only_the_objects_of_those_count() {
    let mut world = World::with(selector(), pace(), two_teams).await;
    world.listed().await;
    let expected = ["GatewayClass other", "GatewayClass ours", "HTTPRoute one/r", "Namespace one", "Service one/s"];
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), expected);
    world.mock.put(Kind::HttpRoute, route("two", "r", "2"));
    world.mock.put(Kind::HttpRoute, route("one", "r", "2"));
    world.until("one is newer", |state| state.objects["HTTPRoute one/r"] == "2").await;
    assert!(!world.state.has("HTTPRoute two/r"));
    world.end().await;
}

#[tokio::test]
async fn a_namespace_that_begins_to_count_brings_its_objects_and_one_that_ceases_takes_them() {
    let mut world = World::with(selector(), pace(), two_teams).await;
    world.listed().await;
    for _ in 0..5 {
        world.mock.put(Kind::Namespace, namespace("two", ("team", "ours")));
        world.mock.put(Kind::HttpRoute, route("two", "r", "2"));
        world
            .until("two has come", |state| {
                state.objects.get("HTTPRoute two/r").is_some_and(|version| version == "2") && state.has("Service two/s")
            })
            .await;
        assert!(world.state.has("Namespace two"));
        world.mock.put(Kind::Namespace, namespace("two", ("team", "theirs")));
        world.until("two has gone", |state| !state.objects.keys().any(|key| key.contains("two"))).await;
        world.mock.put(Kind::HttpRoute, route("two", "r", "1"));
    }
    assert!(world.state.has("HTTPRoute one/r"));
    world.mock.delete(Kind::Namespace, "", "one");
    world.until("one has gone", |state| !state.objects.keys().any(|key| key.contains("one"))).await;
    world.end().await;
}

#[tokio::test]
async fn secrets_of_namespaces_that_do_not_count_are_not_asked_for() {
    let mut world = World::with(only_one(), pace(), |mock| {
        two_teams(mock);
        let mut gateway = gateway("web", &["one/a", "two/a"]);
        gateway["metadata"]["namespace"] = json!("one");
        mock.put(Kind::Gateway, gateway);
        mock.put(Kind::Secret, secret("one", "a", "1"));
        mock.put(Kind::Secret, secret("two", "a", "1"));
    })
    .await;
    world.listed().await;
    assert!(world.state.has("Secret one/a") && !world.state.has("Secret two/a"));
    assert_eq!(world.mock.asked("/namespaces/two/"), 0);
    world.end().await;
}
