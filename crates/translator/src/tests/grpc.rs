//! `GRPCRoute` beside `HTTPRoute`: what each takes, over which clusters, and what is said of it.

use api::{Kind, Object};
use ir::cluster::Protocol;
use serde_json::{Value, json};

use crate::testing::{World, gateway, object, route, service};

fn grpc_route(name: &str, rules: Value) -> Object {
    object(Kind::GrpcRoute, name, json!({ "parentRefs": [{ "name": "web" }], "rules": rules }))
}

fn rule(method: Value, backend: &str) -> Value {
    let matches = if method.is_null() { json!([]) } else { json!([{ "method": method }]) };
    json!({ "matches": matches, "backendRefs": [{ "name": backend, "port": 80 }] })
}

fn world() -> World {
    let listeners = json!([{ "name": "http", "port": 80, "protocol": "HTTP" }]);
    World::with([gateway("web", listeners), service("v1", 80), service("v2", 80)])
}

fn lines(world: &World) -> Vec<String> {
    world.hosts("default/web/80").into_values().flatten().collect()
}

#[test]
fn calls_go_by_service_and_method_the_longer_name_first_and_before_what_is_for_http() {
    let mut world = world();
    let rules = json!([
        rule(Value::Null, "v1"),
        rule(json!({ "method": "Login" }), "v1"),
        rule(json!({ "service": "a.B" }), "v1"),
        rule(json!({ "service": "a.B", "method": "Get" }), "v2"),
        rule(json!({ "type": "RegularExpression", "service": "a[.].*", "method": "Get|Put" }), "v2"),
    ]);
    world.apply([grpc_route("calls", rules), route("pages", "web", &[], &[("/", "v1")])]);
    assert_eq!(
        lines(&world),
        [
            "grpc ~/(?:a[.].*)/(?:Get|Put) -> default/v2/80~grpc*1",
            "grpc =/a.B/Get -> default/v2/80~grpc*1",
            "grpc /a.B -> default/v1/80~grpc*1",
            "grpc ~/[^/]+/Login -> default/v1/80~grpc*1",
            "grpc / -> default/v1/80~grpc*1",
            "/ -> default/v1/80*1",
        ]
    );
    assert_eq!(world.listener("web", "http").attached_routes, 2);
    let clusters = world.translator.outputs().clusters(world.translator.graph());
    let mut clusters: Vec<String> = clusters
        .map(|(_, cluster)| {
            format!("{} {}", cluster.name, if cluster.protocol == Protocol::Http2 { "HTTP/2" } else { "HTTP/1.1" })
        })
        .collect();
    clusters.sort();
    assert_eq!(clusters, ["default/v1/80 HTTP/1.1", "default/v1/80~grpc HTTP/2", "default/v2/80~grpc HTTP/2"]);
}

#[test]
fn what_cannot_be_sent_is_unavailable_and_what_cannot_be_used_is_said_at_its_place() {
    let mut world = world();
    let broken =
        json!({ "matches": [{ "method": { "service": "a" } }], "backendRefs": [{ "name": "gone", "port": 80 }] });
    let odd = json!({ "type": "Fuzzy", "service": "b" });
    let expression = json!({ "type": "RegularExpression", "method": "(" });
    let filter =
        json!({ "filters": [{ "type": "ExtensionRef", "extensionRef": { "group": "x", "kind": "X", "name": "y" } }] });
    let rules = json!([broken, rule(odd, "v1"), rule(expression, "v1"), filter]);
    world.apply([grpc_route("calls", rules)]);
    assert_eq!(lines(&world), ["grpc /a -> broken*1", "grpc / -> 503"]);
    let said = world.problems().join("\n");
    for words in [
        "spec.rules[0].backendRefs[0]: Service default/gone does not exist",
        "spec.rules[1].matches[0].method.type: method match type \"Fuzzy\" is not supported",
        "spec.rules[2].matches[0].method.method:",
        "spec.rules[3].filters[0]: filter X \"y\" is not supported",
    ] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    let status = world.status(Kind::GrpcRoute, "calls");
    assert_eq!(
        status,
        ["Accepted=True/Accepted", "ResolvedRefs=False/BackendNotFound", "PartiallyInvalid=True/UnsupportedValue"]
    );
}

#[test]
fn two_expressions_that_are_none_together_are_refused() {
    let mut world = world();
    let both =
        |service: &str, method: &str| json!({ "type": "RegularExpression", "service": service, "method": method });
    let large = "a{1,1000}";
    let rules = json!([
        rule(both("(?P<n>a)", "(?P<n>b)"), "v1"),
        rule(both(large, large), "v1"),
        rule(both(&large.repeat(2), large), "v1")
    ]);
    world.apply([grpc_route("calls", rules)]);
    assert_eq!(lines(&world), [format!("grpc ~/(?:{large})/(?:{large}) -> default/v1/80~grpc*1")]);
    let said = world.problems().join("\n");
    for index in [0, 2] {
        assert!(said.contains(&format!("spec.rules[{index}].matches[0].method.method: ")), "{said}");
    }
}

#[test]
fn a_listener_takes_the_kinds_that_it_allows() {
    let only = |name: &str, port: u16, kind: &str| {
        let allowed = json!({ "kinds": [{ "kind": kind }] });
        json!({ "name": name, "port": port, "protocol": "HTTP", "allowedRoutes": allowed })
    };
    let listeners =
        json!([only("calls", 80, "GRPCRoute"), only("pages", 81, "HTTPRoute"), only("odd", 82, "FTPRoute")]);
    let mut world = World::with([gateway("web", listeners), service("v1", 80)]);
    world.apply([grpc_route("calls", json!([rule(Value::Null, "v1")])), route("pages", "web", &[], &[("/", "v1")])]);
    let count = |name: &str| world.listener("web", name).attached_routes;
    assert_eq!(["calls", "pages", "odd"].map(count), [1, 1, 0]);
    let kinds = |name: &str| {
        let kinds = world.listener("web", name).supported_kinds;
        kinds.iter().map(|kind| kind.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!([kinds("calls"), kinds("pages"), kinds("odd")], [vec!["GRPCRoute"], vec!["HTTPRoute"], vec![]]);
}

#[test]
fn routes_of_one_name_and_two_kinds_do_not_get_in_each_others_way() {
    let mut world = world();
    world.apply([grpc_route("one", json!([rule(Value::Null, "v1")])), route("one", "web", &[], &[("/", "v1")])]);
    assert_eq!(lines(&world), ["grpc / -> default/v1/80~grpc*1", "/ -> default/v1/80*1"]);
    world.delete(Kind::GrpcRoute, "default", "one");
    assert_eq!(lines(&world), ["/ -> default/v1/80*1"]);
}
