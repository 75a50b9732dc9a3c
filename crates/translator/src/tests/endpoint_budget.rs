//! Endpoints of clusters: each policy gives a route clusters of its own, so their product is in the budget of a namespace on each Gateway.

use api::{Kind, Object, ObjectKey, ObjectMeta};
use serde_json::{Value, json};

use crate::testing::{World, aged, gateway, object, service, with_meta};

const REASON: &str = "Accepted=False/TooManyEndpoints";
const ACCEPTED: &str = "Accepted=True/Accepted";

fn web() -> Object {
    let routes = json!({"namespaces": {"from": "All"}});
    gateway("web", json!([{"name": "l", "port": 80, "protocol": "HTTP", "allowedRoutes": routes}]))
}

/// A Service of so many ports.
fn ports(name: &str, count: u16) -> Object {
    let ports: Vec<Value> = (0..count).map(|at| json!({"name": format!("p{at}"), "port": 80 + at})).collect();
    object(Kind::Service, name, json!({"ports": ports, "selector": {"app": name}}))
}

/// A slice of a Service with so many ready endpoints at each of its ports.
fn slice(service: &str, count: u16, endpoints: u16) -> Object {
    let (namespace, name) = service.split_once('/').unwrap_or(("default", service));
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::EndpointSlice, namespace, &format!("{name}-1")));
    meta.labels = [("kubernetes.io/service-name", name)].into_iter().collect();
    let ports: Vec<Value> = (0..count).map(|at| json!({"name": format!("p{at}"), "port": 8080 + at})).collect();
    let ports = if count == 0 { json!([{"port": 8080}]) } else { ports.into() };
    let address = |at: u16| json!({"addresses": [format!("10.0.{}.{}", at >> 8, at & 255)]});
    let endpoints: Vec<Value> = (0..endpoints).map(address).collect();
    with_meta(Kind::EndpointSlice, meta, json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports}))
}

/// A route to all these ports of a Service.
fn route(name: &str, to: &str, ports: u16) -> Object {
    let backends: Vec<Value> = (0..ports.max(1)).map(|at| json!({"name": to, "port": 80 + at})).collect();
    let parent = json!({"name": "web", "namespace": "default"});
    object(Kind::HttpRoute, name, json!({"parentRefs": [parent], "rules": [{"backendRefs": backends}]}))
}

/// A policy that gives a route clusters of its own.
fn policy(route: &str) -> Object {
    let (_, name) = route.split_once('/').unwrap_or(("default", route));
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
    let spec = json!({"targetRefs": [target], "circuitBreaker": {"maxConnections": 7}});
    object(Kind::BackendTrafficPolicy, route, spec)
}

fn accepted(world: &World, kind: Kind, name: &str) -> (bool, String) {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let key = ObjectKey::of(kind, namespace, name);
    let status = world.translator.outputs().route_status(world.translator.graph(), &key).expect("a status");
    let conditions = &status.parents[0].conditions;
    let found = conditions.iter().find(|condition| &*condition.condition_type == "Accepted").expect("it");
    let short = crate::testing::short(std::slice::from_ref(found)).concat();
    assert!(short == ACCEPTED || short == REASON, "{short}: {}", found.message);
    (short == ACCEPTED, found.message.to_string())
}

fn are_accepted<const N: usize>(world: &World, names: [&str; N]) -> [bool; N] {
    names.map(|name| accepted(world, Kind::HttpRoute, name).0)
}

/// Endpoints that the clusters of the Gateway have together.
fn delivered(world: &World) -> usize {
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    let sets = outputs.clusters(graph).filter_map(|(_, cluster)| cluster.endpoints.set().cloned());
    let counts = sets.filter_map(|set| outputs.endpoint_set(graph, &set));
    counts.flat_map(|set| set.localities).map(|locality| locality.endpoints.len()).sum()
}

#[test]
fn ports_addresses_and_policies_multiply_within_a_bound() {
    let mut world = World::within(2_048);
    world.apply([web(), ports("v1", 16), slice("v1", 16, 60)]);
    let names: Vec<String> = (0..10).map(|at| format!("r{at}")).collect();
    world.apply(names.iter().map(|name| policy(name)));
    world.apply(names.iter().zip(0..).map(|(name, age)| aged(route(name, "v1", 16), age)));
    world.apply([service("other/v1", 80), slice("other/v1", 0, 60), aged(route("other/late", "v1", 1), 99)]);
    let found: Vec<bool> = names.iter().map(|name| accepted(&world, Kind::HttpRoute, name).0).collect();
    // 16 ports of 64 are 1,024.
    assert_eq!(found, [true, true, true, true, false, false, false, false, false, false]);
    assert_eq!(delivered(&world), 4 * 16 * 60 + 60);
    let (is_accepted, words) = accepted(&world, Kind::HttpRoute, "r4");
    assert!(!is_accepted && words.contains("4096") && words.contains("namespace default"), "{words}");
    assert!(world.problems().iter().any(|problem| problem.contains("r4") && problem.contains("endpoints")));
    assert_eq!(are_accepted(&world, ["other/late"]), [true], "routes of other namespaces do not notice");
    world.delete(Kind::HttpRoute, "default", "r0");
    assert_eq!(are_accepted(&world, ["r4", "r5"]), [true, false]);
}

#[test]
fn a_cluster_that_many_routes_share_counts_once() {
    let mut world = World::within(2_048);
    world.apply([web(), service("v1", 80), slice("v1", 0, 1_000)]);
    world.apply((0..200).map(|at| route(&format!("r{at}"), "v1", 1)));
    assert!((0..200).all(|at| accepted(&world, Kind::HttpRoute, &format!("r{at}")).0));
}

#[test]
fn endpoints_that_change_move_no_route_within_their_step() {
    let mut world = World::within(2_048);
    world.apply([web(), service("v1", 80), slice("v1", 0, 70), policy("r0")]);
    world.apply((0..100).map(|at| aged(route(&format!("r{at}"), "v1", 1), at)));
    let runs = |world: &World, names: &[&str]| {
        let nodes = world.translator.graph().nodes().filter(|node| names.contains(&node.name));
        nodes.map(|node| node.runs).sum::<u64>()
    };
    let routes = ["route_draft", "route", "route_form", "route_entry"];
    let sums = ["cluster_endpoints", "cluster_endpoints_of_piece", "crowded_payer"];
    let (of_routes, of_sums) = (runs(&world, &routes), runs(&world, &sums));
    world.apply([slice("v1", 0, 128)]);
    assert_eq!((runs(&world, &routes), runs(&world, &sums)), (of_routes, of_sums));
    world.apply([slice("v1", 0, 129)]);
    assert_eq!(runs(&world, &routes), of_routes, "no route is evaluated for endpoints");
    let steps = runs(&world, &sums) - of_sums;
    assert!(steps <= 4, "two clusters, their piece and one sum, not {steps}");
    // What is too much takes the youngest that has the cluster, and gives it back.
    world.apply([slice("v1", 0, 2_049)]);
    assert_eq!(are_accepted(&world, ["r0", "r1", "r99"]), [true, false, false]);
    assert!(world.ask("default/web/80", "a.org", "/").starts_with("default/v1/80~"), "the older one serves");
    world.apply([slice("v1", 0, 2_048)]);
    assert_eq!(are_accepted(&world, ["r0", "r1", "r99"]), [true, true, true]);
}

#[test]
fn each_listener_of_datagrams_has_the_endpoints_once_more() {
    let listeners: Vec<Value> =
        (0..9).map(|at| json!({"name": format!("l{at}"), "port": 2_000 + at, "protocol": "UDP"})).collect();
    let mut world = World::within(512);
    let to = json!([{"backendRefs": [{"name": "u", "port": 53}]}]);
    let udp = json!([{"port": 53, "protocol": "UDP"}]);
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::EndpointSlice, "default", "u-1"));
    meta.labels = [("kubernetes.io/service-name", "u")].into_iter().collect();
    let endpoints: Vec<Value> = (0..100).map(|at| json!({"addresses": [format!("10.0.0.{at}")]})).collect();
    let slice = json!({"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 53, "protocol": "UDP"}]});
    world.apply([
        gateway("web", listeners.into()),
        object(Kind::Service, "u", json!({"ports": udp, "selector": {"app": "u"}})),
        with_meta(Kind::EndpointSlice, meta, slice),
        object(Kind::UdpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": to})),
    ]);
    assert!(!accepted(&world, Kind::UdpRoute, "r").0, "nine times 128");
    let one = json!([{"name": "web", "sectionName": "l0"}]);
    world.apply([object(Kind::UdpRoute, "r", json!({"parentRefs": one, "rules": to}))]);
    assert!(accepted(&world, Kind::UdpRoute, "r").0);
}

#[test]
fn large_honest_uses_stay_below_the_bound() {
    let most = crate::RouteBudget::default().endpoints();
    // 1,000 Services of 100 endpoints, 50,000 of two, and what benchmarks and the product's promise have: 50,000 of ten.
    for endpoints in [1_000 * 128, 50_000 * 2, 50_000 * 16] {
        assert!(endpoints <= most, "{endpoints}");
    }
}
