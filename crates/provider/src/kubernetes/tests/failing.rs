//! What goes wrong: told, withdrawn, and never paid for by anything else.

use super::*;

async fn with_route() -> World {
    // Every watch is asked to last for as long, so that requests can be told apart by their texts.
    let pace = Pace { watch: Duration::ZERO, ..pace() };
    let mut world = World::with(Scope::All, pace, |mock| {
        mock.put(Kind::HttpRoute, route("shop", "a", "1"));
    })
    .await;
    world.listed().await;
    world
}

#[tokio::test]
async fn a_server_that_is_away_takes_nothing_along_and_is_told_until_it_is_back() {
    let mut world = with_route().await;
    world.mock.faults(|faults| faults.down = true);
    world.until("it is told", |state| state.says("what was read last stays in force")).await;
    assert!(world.state.has("HTTPRoute shop/a"));
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.mock.faults(|faults| faults.down = false);
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    world.until("it is withdrawn", |state| state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn an_object_that_cannot_be_used_keeps_its_last_usable_form() {
    let mut world = with_route().await;
    let mut broken = route("shop", "a", "2");
    broken["spec"] = json!(17);
    world.mock.put(Kind::HttpRoute, broken);
    world.until("it is told", |state| state.says("HTTPRoute shop/a: spec: expected")).await;
    assert_eq!(world.state.objects["HTTPRoute shop/a"], "1");
    world.mock.put(Kind::HttpRoute, route("shop", "b", "1"));
    world.until("others go on", |state| state.has("HTTPRoute shop/b")).await;
    world.mock.put(Kind::HttpRoute, route("shop", "a", "3"));
    world.until("a is mended", |state| state.objects["HTTPRoute shop/a"] == "3" && state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn an_object_that_never_was_usable_goes_without_having_been_there() {
    let mut world = with_route().await;
    let mut broken = route("shop", "b", "1");
    broken["spec"] = json!([]);
    world.mock.put(Kind::HttpRoute, broken);
    world.until("it is told", |state| state.says("HTTPRoute shop/b")).await;
    world.mock.delete(Kind::HttpRoute, "shop", "b");
    world.until("it is withdrawn", |state| state.problems.is_empty() && state.rejected.is_empty()).await;
    world.end().await;
}

/// A definition that lets everything pass is enough for an author of policies.
#[tokio::test]
async fn a_stored_policy_that_cannot_be_used_is_handed_on_as_its_remnant() {
    let mut world = with_route().await;
    let policy = |version: &str, spec: Value| json!({ "metadata": { "namespace": "shop", "name": "p", "resourceVersion": version }, "spec": spec });
    let mut deep = json!({});
    (0..200).for_each(|_| deep = json!([deep.take()]));
    for (at, spec) in [json!([]), json!({ "targetRefs": "a", "jwt": {} }), json!({ "targetRefs": [], "jwt": deep })]
        .into_iter()
        .enumerate()
    {
        world.mock.put(Kind::SecurityPolicy, policy(&(100 + at).to_string(), spec));
        let is_remnant =
            |state: &State| state.remnants.contains("SecurityPolicy shop/p") && state.says("SecurityPolicy shop/p");
        world.until("what is left of it counts", is_remnant).await;
        assert!(!world.state.rejected.contains_key("SecurityPolicy shop/p"));
        world.mock.delete(Kind::SecurityPolicy, "shop", "p");
        world.until("it is gone", |state| !state.has("SecurityPolicy shop/p")).await;
    }
    world.end().await;
}

#[tokio::test]
async fn of_an_object_that_cannot_be_used_is_told_whose_it_is_until_it_can() {
    let mut world = with_route().await;
    let mut broken = route("shop", "b", "1");
    broken["metadata"]["generation"] = json!(7);
    broken["spec"]["parentRefs"] = json!([{ "name": "web" }]);
    broken["spec"]["rules"] = json!("none");
    world.mock.put(Kind::HttpRoute, broken);
    world.until("it is rejected", |state| state.rejected.contains_key("HTTPRoute shop/b")).await;
    let rejected = &world.state.rejected["HTTPRoute shop/b"];
    assert_eq!((rejected.generation, rejected.refers_to.len()), (7, 1));
    assert!(rejected.words.starts_with("spec.rules: "), "{}", rejected.words);
    world.mock.put(Kind::HttpRoute, route("shop", "b", "2"));
    world.until("it is used", |state| state.objects.contains_key("HTTPRoute shop/b")).await;
    assert!(world.state.rejected.is_empty());
    let mut broken = route("shop", "b", "3");
    broken["spec"] = json!([]);
    world.mock.put(Kind::HttpRoute, broken);
    world.until("it is told", |state| state.says("HTTPRoute shop/b")).await;
    assert!(world.state.rejected.contains_key("HTTPRoute shop/b"));
    assert_eq!(world.state.objects["HTTPRoute shop/b"], "2", "its usable form is in force");
    world.end().await;
}

#[tokio::test]
async fn a_part_that_an_old_definition_let_pass_costs_that_part() {
    let mut world = with_route().await;
    let mut old = route("shop", "a", "2");
    old["spec"]["rules"][0]["backendRefs"][0]["port"] = json!(70000);
    world.mock.put(Kind::HttpRoute, old);
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    assert!(world.state.says("spec.rules[0].backendRefs[0].port"), "{:?}", world.state.problems);
    world.end().await;
}

#[tokio::test]
async fn an_object_that_does_not_say_who_it_is_is_told_and_costs_nothing_else() {
    let mut world = with_route().await;
    for nonsense in [json!({ "spec": {} }), json!([]), json!({ "metadata": { "name": 7 } }), json!(null)] {
        world.mock.say(Kind::HttpRoute, "MODIFIED", nonsense);
    }
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    world.until("it is told", |state| state.says("cannot be read")).await;
    world.mock.compact();
    world.until("a complete list withdraws it", |state| state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn lines_that_are_no_json_are_told_and_followed_by_a_new_list() {
    let mut world = with_route().await;
    for line in [
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{}",
        "{\"type\":\"ADDED\",\"object\":{\"a\":}}",
        "nonsense",
        "{\"object\":7}",
    ] {
        let lists =
            world.mock.asked("/v1/httproutes?&watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents");
        world.mock.say_line(Kind::HttpRoute, line);
        world
            .asked("/v1/httproutes?&watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents", lists + 1)
            .await;
    }
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    world.until("it is withdrawn", |state| state.problems.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn an_event_of_a_kind_that_nobody_knows_is_none() {
    let mut world = with_route().await;
    world.mock.say(Kind::HttpRoute, "RENAMED", route("shop", "z", "1"));
    world.mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    world.until("a is newer", |state| state.objects["HTTPRoute shop/a"] == "2").await;
    assert!(!world.state.has("HTTPRoute shop/z"));
    world.end().await;
}

#[tokio::test]
async fn it_ends_when_it_is_told_to_and_when_nobody_receives() {
    let world = with_route().await;
    world.end().await;
    let World { mock, batches, task, .. } = with_route().await;
    drop(batches);
    mock.put(Kind::HttpRoute, route("shop", "a", "2"));
    tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap().unwrap();
}
