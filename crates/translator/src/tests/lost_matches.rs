//! Matches that two routes have: the younger one gets no request, and says so where the older one is of another namespace.

use api::{Kind, Object};
use serde_json::{Value, json};

use crate::testing::{World, aged, gateway, object};

fn shared(listeners: &[&str]) -> Object {
    let listener = |name: &&str| json!({"name": name, "port": 80, "protocol": "HTTP", "hostname": format!("{name}.example"), "allowedRoutes": {"namespaces": {"from": "All"}}});
    gateway("infra/shared", listeners.iter().map(listener).collect())
}

fn path(value: &str) -> Value {
    json!({"path": {"type": "PathPrefix", "value": value}})
}

/// A route on the host `a.example` with these matches in one rule, made at a time.
fn route(name: &str, age: i64, matches: Value) -> Object {
    on(name, age, "a.example", matches)
}

fn on(name: &str, age: i64, host: &str, matches: Value) -> Object {
    let parent = json!({"name": "shared", "namespace": "infra"});
    let spec = json!({"parentRefs": [parent], "hostnames": [host], "rules": [{"matches": matches}]});
    aged(object(Kind::HttpRoute, name, spec), age)
}

/// The warnings about lost matches.
fn lost(world: &World) -> Vec<String> {
    let mut found = world.problems();
    found.retain(|problem| problem.contains("requests do not come to this route"));
    found
}

fn runs(world: &World, nodes: &[&str]) -> u64 {
    let found = world.translator.graph().nodes().filter(|node| nodes.contains(&node.name));
    found.map(|node| node.runs).sum()
}

#[test]
fn lost_match_names_the_older_route_and_the_place() {
    let mut world = World::with([
        shared(&["a"]),
        route("bank/r", 1, json!([path("/pay")])),
        route("aaa/r", 2, json!([path("/own"), path("/pay")])),
    ]);
    let shown = lost(&world);
    assert_eq!(shown.len(), 1, "{shown:?}");
    for words in [
        "warning: HTTPRoute aaa/r",
        "spec.rules[0]",
        "rules[0].matches[1] for a.example on Gateway infra/shared go to HTTPRoute bank/r;",
    ] {
        assert!(shown[0].contains(words), "{words}: {}", shown[0]);
    }
    world.apply([route("aaa/r", 2, json!([path("/own")]))]);
    assert_eq!(lost(&world), Vec::<String>::new(), "it asks for nothing of others any more");
    world.apply([route("aaa/r", 2, json!([path("/pay")]))]);
    world.delete(Kind::HttpRoute, "bank", "r");
    assert_eq!(lost(&world), Vec::<String>::new(), "no other route has it");
}

#[test]
fn matches_that_differ_and_routes_of_one_namespace_lose_nothing() {
    let get = json!({"path": {"type": "PathPrefix", "value": "/pay"}, "method": "GET"});
    let world = World::with([
        shared(&["a", "b"]),
        route("bank/r", 1, json!([path("/pay")])),
        route("bank/s", 2, json!([path("/pay")])),
        route("aaa/r", 3, json!([path("/pay/x"), get])),
        on("bbb/r", 4, "b.example", json!([path("/pay")])),
    ]);
    assert_eq!(lost(&world), Vec::<String>::new());
}

#[test]
fn few_of_many_lost_matches_are_named() {
    let all: Vec<Value> = (0..20).map(|at| path(&format!("/{at}"))).collect();
    let world = World::with([shared(&["a"]), route("bank/r", 1, json!(&all)), route("aaa/r", 2, json!(&all))]);
    let shown = lost(&world);
    assert!(shown.len() == 1 && shown[0].contains("and 16 more such matches"), "{shown:?}");
}

#[test]
fn a_match_behind_many_others_of_its_host_is_found() {
    let mut world = World::with([shared(&["a"])]);
    world.apply((0..1_000).map(|at| route(&format!("bank/r{at}"), 1, json!([path(&format!("/{at:03}"))]))));
    world.apply([route("aaa/r", 2, json!([path("/777")]))]);
    let shown = lost(&world);
    assert!(shown.len() == 1 && shown[0].contains("go to HTTPRoute bank/r777;"), "{shown:?}");
    world.delete(Kind::HttpRoute, "bank", "r777");
    assert_eq!(lost(&world), Vec::<String>::new());
}

#[test]
fn cost_is_that_of_a_piece_and_nothing_where_a_host_is_of_one_namespace() {
    let mut world = World::with([shared(&["a"])]);
    world.apply((0..1_000).map(|at| route(&format!("bank/r{at}"), 1, json!([path(&format!("/{at:03}"))]))));
    let nodes = ["contested_match", "lost_match", "lost_match_problem", "shared_bucket"];
    let claims =
        |world: &World| world.translator.graph().nodes().find(|node| node.name == "contested_match").expect("it").size;
    assert_eq!(claims(&world), 0);
    let before = runs(&world, &nodes);
    world.apply([route("bank/r7", 1, json!([path("/007"), path("/abc")]))]);
    assert!(runs(&world, &nodes) <= before + 2, "{} runs", runs(&world, &nodes) - before);
    world.apply([route("aaa/r", 2, json!([path("/777")]))]);
    let before = runs(&world, &nodes);
    world.apply([route("bank/r9", 1, json!([path("/zzz")]))]);
    let after = runs(&world, &nodes);
    assert!(after <= before + 8, "two pieces and two matches: {} runs", after - before);
}

#[test]
fn a_namespace_that_comes_to_a_host_costs_few_of_its_routes() {
    const ROUTES: usize = 3_000;
    let mut world = World::with([shared(&["a"])]);
    world.apply((0..ROUTES).map(|at| route(&format!("bank/r{at}"), 1, json!([path(&format!("/{at:04}"))]))));
    let nodes = ["contested_match", "contested_claim", "lost_match", "lost_match_problem", "shared_bucket"];
    let before = runs(&world, &nodes);
    // The piece that it is in, of at most four times the usual size, and a look at each of the others.
    let few = (4 * 128 * 2 + ROUTES / 32) as u64;
    world.apply([route("aaa/r", 2, json!([path("/0777")]))]);
    assert_eq!(lost(&world).len(), 1);
    let come = runs(&world, &nodes);
    assert!(come - before <= few, "{} runs", come - before);
    world.delete(Kind::HttpRoute, "aaa", "r");
    assert_eq!(lost(&world), Vec::<String>::new());
    assert!(runs(&world, &nodes) - come <= few, "{} runs", runs(&world, &nodes) - come);
}

#[test]
fn second_rule_with_a_match_of_the_same_route_is_a_warning() {
    let spec = |rules: &[&str]| {
        let rules: Vec<Value> = rules.iter().map(|prefix| json!({"matches": [path(prefix)], "filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]})).collect();
        object(Kind::HttpRoute, "infra/r", json!({"parentRefs": [{"name": "shared"}], "rules": rules}))
    };
    let mut world = World::with([shared(&["a"]), spec(&["/a", "/b", "/a"])]);
    let [warning] = &*world.problems() else { panic!("{:?}", world.problems()) };
    let line = "warning: HTTPRoute infra/r: spec.rules[2].matches[0]: spec.rules[0].matches[0] is the same";
    assert!(warning.starts_with(line), "{warning}");
    world.apply([spec(&["/a", "/b"])]);
    assert_eq!(world.problems(), [""; 0]);
}
