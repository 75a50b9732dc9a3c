//! Watches: what happens is handed on, once, and nothing else.

use super::*;

async fn with_routes() -> World {
    let mut world = World::new(|mock| {
        mock.put(Kind::HttpRoute, route("shop", "a", "1"));
        mock.put(Kind::HttpRoute, route("shop", "b", "1"));
    })
    .await;
    world.listed().await;
    world
}

#[tokio::test]
async fn objects_come_change_and_go() {
    let mut world = with_routes().await;
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.mock.put(Kind::HttpRoute, route("shop", "c", "1"));
    world.mock.delete(Kind::HttpRoute, "shop", "b");
    world
        .until("all three are handed on", |state| {
            state.objects.get("HTTPRoute shop/a").is_some_and(|version| version == "2")
                && state.has("HTTPRoute shop/c")
                && !state.has("HTTPRoute shop/b")
        })
        .await;
    world.end().await;
}

#[tokio::test]
async fn what_nobody_reads_is_no_change() {
    let mut world = with_routes().await;
    let applied = world.state.applied;
    let mut same = route("shop", "a", "1");
    same["status"] = json!({ "parents": [{ "controllerName": CONTROLLER, "conditions": [] }] });
    same["metadata"]["managedFields"] = json!([{ "manager": "x" }]);
    same["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": "{}" });
    world.mock.put(Kind::HttpRoute, same);
    let key = api::ObjectKey::of(Kind::HttpRoute, "shop", "a");
    let before = world.observed.get(&key).unwrap().own;
    world.settled().await;
    assert_eq!(world.state.applied, applied + 2, "only the two marks");
    assert_ne!(world.observed.get(&key).unwrap().own, before, "but whoever writes statuses knows");
    world.end().await;
}

#[tokio::test]
async fn events_that_come_twice_or_late_do_nothing() {
    let mut world = with_routes().await;
    world.mock.faults(|faults| faults.stutter = true);
    let applied = world.state.applied;
    for version in 2..=50 {
        world.mock.put(Kind::HttpRoute, route("shop", "a", &version.to_string()));
        if version % 5 == 0 {
            world.mock.delete(Kind::HttpRoute, "shop", "a");
        }
    }
    world.mock.put(Kind::HttpRoute, route("shop", "a", "51"));
    world.until("a is the last", |state| state.objects.get("HTTPRoute shop/a").is_some_and(|v| v == "51")).await;
    world.settled().await;
    assert_eq!(world.state.objects["HTTPRoute shop/a"], "51");
    assert!(world.state.applied <= applied + 50 + 2, "each version once at most: {}", world.state.applied - applied);
    world.end().await;
}

#[tokio::test]
async fn a_watch_that_is_too_old_lists_anew_and_what_went_meanwhile_is_gone() {
    let mut world = with_routes().await;
    world.mock.faults(|faults| faults.silent = true);
    world.mock.delete(Kind::HttpRoute, "shop", "b");
    world.mock.put(Kind::HttpRoute, route("shop", "c", "1"));
    world.mock.compact();
    world.mock.faults(|faults| faults.silent = false);
    world.until("b is gone, c is there", |state| !state.has("HTTPRoute shop/b") && state.has("HTTPRoute shop/c")).await;
    assert!(world.state.has("HTTPRoute shop/a"));
    world.end().await;
}

#[tokio::test]
async fn a_watch_that_breaks_off_goes_on_where_it_stopped() {
    let mut world = with_routes().await;
    for version in 2..=20 {
        world.mock.put(Kind::HttpRoute, route("shop", "a", &version.to_string()));
        world.mock.break_off();
    }
    world.until("a is the last", |state| state.objects["HTTPRoute shop/a"] == "20").await;
    let lists = |request: &&String| request.contains("/v1/httproutes?") && request.contains("sendInitialEvents");
    assert_eq!(world.mock.requests().iter().filter(lists).count(), 1, "listed once");
    world.end().await;
}

#[tokio::test]
async fn a_bookmark_moves_the_place_where_a_watch_goes_on() {
    // Every watch is asked to last for as long.
    let pace = Pace { watch: Duration::ZERO, ..pace() };
    let mut world = World::with(Scope::All, pace, |_| {}).await;
    world.listed().await;
    for index in 0..10 {
        world.mock.put(Kind::Service, service("shop", "other", &index.to_string()));
    }
    world.mock.bookmark();
    let from = format!(
        "gatewayclasses?&watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={}",
        world.mock.lock().version - 1
    );
    let deadline = Instant::now() + DEADLINE;
    while world.mock.asked(&from) == 0 {
        assert!(Instant::now() < deadline, "{:#?}", world.mock.last_requests());
        world.mock.break_off();
        world.settled().await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_watch_that_says_nothing_is_replaced() {
    let pace = Pace { silence: Duration::from_millis(100), ..pace() };
    let mut world = World::with(Scope::All, pace, |mock| {
        mock.put(Kind::HttpRoute, route("shop", "a", "1"));
    })
    .await;
    world.listed().await;
    world.mock.faults(|faults| faults.silent = true);
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.asked("/v1/httproutes?", 3).await;
    assert_eq!(world.state.objects["HTTPRoute shop/a"], "1");
    world.mock.faults(|faults| faults.silent = false);
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    world.end().await;
}

#[tokio::test]
async fn everything_that_waits_goes_into_one_batch() {
    let mut world = with_routes().await;
    for index in 0..300 {
        world.mock.put(Kind::HttpRoute, route("shop", &format!("r{index}"), "1"));
    }
    let mut batches = 0;
    while world.state.objects.len() < 302 {
        let batch = tokio::time::timeout(DEADLINE, world.batches.recv()).await.unwrap().unwrap();
        world.state.apply(batch);
        batches += 1;
    }
    assert!(batches < 150, "{batches} batches");
    world.end().await;
}
