//! The first list: complete before anything counts as listed, in whatever form the server gives it.

use super::*;

fn three(mock: &Mock) {
    for name in ["a", "b", "c"] {
        mock.put(Kind::HttpRoute, route("shop", name, "1"));
    }
    mock.put(Kind::Service, service("shop", "cart", "1"));
    mock.put(Kind::Namespace, namespace("shop", ("x", "y")));
}

const ALL: [&str; 5] =
    ["HTTPRoute shop/a", "HTTPRoute shop/b", "HTTPRoute shop/c", "Namespace shop", "Service shop/cart"];

#[tokio::test]
async fn what_there_is_at_first_is_all_there_when_it_counts_as_listed() {
    let mut world = World::new(three).await;
    world.listed().await;
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), ALL);
    assert_eq!(world.state.problems, BTreeMap::new());
    assert_eq!(world.mock.asked("limit="), 0, "lists come as watches where the server can do that");
    world.end().await;
}

#[tokio::test]
async fn a_server_without_streaming_lists_is_asked_for_pages() {
    let mut world = World::new(|mock| {
        three(mock);
        mock.faults(|faults| (faults.no_streaming, faults.page) = (true, Some(2)));
    })
    .await;
    world.listed().await;
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), ALL);
    assert!(world.mock.asked("continue=2") >= 1);
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    world.end().await;
}

#[tokio::test]
async fn a_list_that_is_too_old_in_the_middle_is_begun_again() {
    let mut world = World::new(|mock| {
        three(mock);
        mock.faults(|faults| (faults.no_streaming, faults.page, faults.gone_pages) = (true, Some(1), 3));
    })
    .await;
    world.listed().await;
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), ALL);
    world.end().await;
}

#[tokio::test]
async fn a_list_that_breaks_off_deletes_nothing_and_is_begun_again() {
    let mut world = World::new(|mock| {
        three(mock);
        mock.faults(|faults| faults.broken_lists = 15);
    })
    .await;
    world.listed().await;
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), ALL);
    world.mock.faults(|faults| faults.broken_lists = 15);
    world.mock.compact();
    world.settled().await;
    assert!(ALL.iter().all(|key| world.state.has(key)), "{:?}", world.state.objects);
    world.end().await;
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_is_waited_for_and_told() {
    let mut world = World::new(|mock| {
        three(mock);
        mock.faults(|faults| faults.down = true);
    })
    .await;
    world.until("it is told", |state| state.says("what was read last stays in force")).await;
    assert!(!world.state.listed);
    world.mock.faults(|faults| faults.down = false);
    world.listed().await;
    world.until("it is withdrawn", |state| state.problems.is_empty()).await;
    assert_eq!(world.state.objects.keys().collect::<Vec<_>>(), ALL);
    world.end().await;
}

#[tokio::test]
async fn a_kind_that_may_not_be_read_holds_up_all_and_is_told_with_the_right_that_is_missing() {
    let mut world = World::new(|mock| {
        three(mock);
        mock.faults(|faults| faults.forbidden = vec!["/httproutes".to_owned()]);
    })
    .await;
    world
        .until("it is told", |state| state.says("allow get, list and watch on httproutes.gateway.networking.k8s.io"))
        .await;
    world.mock.put(Kind::Service, service("shop", "cart", "2"));
    world.until("others go on", |state| state.objects.get("Service shop/cart").is_some_and(|v| v == "2")).await;
    assert!(!world.state.listed);
    world.mock.faults(|faults| faults.forbidden.clear());
    world.listed().await;
    world.until("it is withdrawn", |state| state.problems.is_empty()).await;
    world.end().await;
}
