//! Backends at a port of the Gateway that would send there, in each spelling: nothing is sent, and the author is told.

use std::sync::Arc;

use api::{Kind, Object};
use ir::ClosedAddresses;
use serde_json::{Value, json};

use crate::OwnPlaces;
use crate::testing::{World, gateway, object, route, service, short, slice};

const MACHINE: &str = "192.0.2.7";

fn world() -> World {
    let mut world = World::with([gateway("web", json!([{"name": "http", "port": 8080, "protocol": "HTTP"}]))]);
    let addresses = ClosedAddresses { machine: [MACHINE.parse().unwrap()].into(), ..Default::default() };
    world.translator.set_own_places(Arc::new(OwnPlaces { addresses, ..OwnPlaces::default() }));
    world.apply([service("app", 80), slice("app", 9000, &["192.0.2.8"])]);
    world
}

fn backend(endpoint: Value) -> Object {
    object(Kind::Backend, "b", json!({"endpoints": [endpoint]}))
}

fn ip(address: &str, port: u16) -> Object {
    backend(json!({"ip": {"address": address, "port": port}}))
}

/// A route to the Backend, whose rule has these filters; to the Service where it has some.
fn rule(filters: Value) -> Object {
    let backend = json!({"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "b"});
    let is_plain = filters.as_array().is_some_and(Vec::is_empty);
    let to = if is_plain { json!([backend]) } else { json!([{"name": "app", "port": 80}]) };
    object(
        Kind::HttpRoute,
        "r",
        json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": to, "filters": filters}]}),
    )
}

fn asked(world: &World) -> String {
    world.ask("default/web/8080", "any.com", "/")
}

/// Answers 500.
fn fails(answer: &str) -> bool {
    ["500", "broken"].iter().any(|word| answer.starts_with(word))
}

fn is_told(world: &World) -> bool {
    let problems = world.problems();
    let found = problems.iter().find(|problem| problem.contains("its own client"));
    found.is_some_and(|text| text.contains("default/r") && text.contains(":8080") && text.contains("another Gateway"))
}

#[test]
fn a_port_of_the_gateway_is_no_backend_in_any_spelling() {
    for address in ["0.0.0.0", "::"] {
        let mut world = world();
        world.apply([rule(json!([])), ip(address, 8080)]);
        assert!(fails(&asked(&world)) && !world.problems().is_empty(), "{address}: {}", asked(&world));
    }
    let spellings = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", MACHINE];
    for address in spellings {
        let mut world = world();
        world.apply([rule(json!([])), ip(address, 8080)]);
        assert!(fails(&asked(&world)), "{address}: {}", asked(&world));
        assert!(is_told(&world), "{address}: {:?}", world.problems());
        let conditions = short(&world.route_status("r").parents[0].conditions);
        assert!(conditions.contains(&"PartiallyInvalid=True/UnsupportedValue".to_owned()), "{conditions:?}");
        world.apply([ip(address, 8081)]);
        assert!(asked(&world).contains("Backend/default/b") && !is_told(&world), "{address}: {}", asked(&world));
    }
    let mut world = world();
    world.apply([rule(json!([])), backend(json!({"fqdn": {"hostname": "localhost", "port": 8080}}))]);
    assert!(fails(&asked(&world)) && is_told(&world), "{}", asked(&world));
}

#[test]
fn slices_mirrors_and_authorities_lead_there_no_more_than_backends() {
    let mut world = world();
    world.apply([route("r", "web", &[], &[("/", "app")])]);
    assert!(asked(&world).contains("default/app"));
    world.apply([slice("app", 8080, &["127.0.0.1"])]);
    assert!(fails(&asked(&world)) && is_told(&world), "{}", asked(&world));
    world.apply([slice("app", 9000, &["127.0.0.1"]), ip("127.0.0.1", 8080)]);
    assert!(asked(&world).contains("default/app") && !is_told(&world));
    let to = json!({"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "b"});
    world.apply([rule(json!([{"type": "RequestMirror", "requestMirror": {"backendRef": to}}]))]);
    assert!(is_told(&world), "{:?}", world.problems());
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    for (_, cluster) in outputs.clusters(graph).filter(|(key, _)| key.name.as_str().starts_with("Backend/")) {
        let set = cluster.endpoints.set().expect("a set");
        assert!(outputs.endpoint_set(graph, set).is_none(), "{cluster:?}");
    }
    let auth = json!({"protocol": "HTTP", "backendRef": to});
    world.apply([rule(json!([{"type": "ExternalAuth", "externalAuth": auth}]))]);
    assert!(fails(&asked(&world)) && is_told(&world), "{}", asked(&world));
}

#[test]
fn another_gateway_and_another_address_are_backends() {
    let mut world = world();
    let spec = json!({"gatewayClassName": "eg", "addresses": [{"value": "127.0.0.2"}],
        "listeners": [{"name": "http", "port": 8082, "protocol": "HTTP"}]});
    world.apply([object(Kind::Gateway, "inner", spec), rule(json!([])), ip("127.0.0.2", 8082)]);
    assert!(asked(&world).contains("Backend/default/b"), "{}", asked(&world));
    // The one that listens at one address is not reached by others.
    let of_inner = |address: &str| {
        let backend = json!({"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "b"});
        let spec = json!({"parentRefs": [{"name": "inner"}], "rules": [{"backendRefs": [backend]}]});
        [object(Kind::HttpRoute, "r", spec), ip(address, 8082)]
    };
    world.apply(of_inner("127.0.0.1"));
    assert!(world.ask("default/inner/8082", "any.com", "/").contains("Backend/default/b"));
    world.apply(of_inner("127.0.0.2"));
    assert!(fails(&world.ask("default/inner/8082", "any.com", "/")));
}
