//! Policies that guard with fields which are not built, and what they close.

use api::status::{Condition, PolicyStatus};
use api::{Kind, Object, ObjectKey};
use serde_json::{Value, json};
use store::Change;

use crate::testing::{World, gateway, object, route, route_spec, service, short, slice, with_meta};
use crate::{Options, Translator, UnsupportedPolicies};

const GROUP: &str = "gateway.networking.k8s.io";

fn target(kind: &str, name: &str) -> Value {
    json!({"group": GROUP, "kind": kind, "name": name})
}

fn section(kind: &str, name: &str, section: &str) -> Value {
    json!({"group": GROUP, "kind": kind, "name": name, "sectionName": section})
}

/// A `SecurityPolicy` that lets no client in.
fn guard(name: &str, targets: Value) -> Object {
    object(Kind::SecurityPolicy, name, json!({"targetRefs": targets, "authorization": {}}))
}

fn selecting(name: &str, selector: Value) -> Object {
    object(Kind::SecurityPolicy, name, json!({"targetSelectors": [selector], "authorization": {}}))
}

fn labelled(object: Object, labels: &[(&str, &str)]) -> Object {
    let (kind, mut meta) = (object.kind(), object.meta().clone());
    meta.labels = labels.iter().copied().collect();
    with_meta(kind, meta, route_spec("web", &[], &[("/labelled", "v1")]))
}

/// A Gateway with two listeners and two routes at each of them.
fn served() -> World {
    World::with([
        gateway(
            "web",
            json!([{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "more", "port": 81, "protocol": "HTTP"}]),
        ),
        route("one", "web", &["one.org"], &[("/", "v1")]),
        route("two", "web", &["two.org"], &[("/", "v1")]),
        service("v1", 80),
    ])
}

/// Answers to requests for two hosts at two ports.
fn answers(world: &World) -> [String; 4] {
    let ask = |port: u16, host: &str| {
        let found = world.ask(&format!("default/web/{port}"), host, "/");
        if found == "default/v1/80*1" { "200".to_owned() } else { found }
    };
    [ask(80, "one.org"), ask(80, "two.org"), ask(81, "one.org"), ask(81, "two.org")]
}

const OPEN: [&str; 4] = ["200"; 4];

fn policy_status(world: &World, kind: Kind, name: &str) -> PolicyStatus {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let key = ObjectKey::of(kind, namespace, name);
    let outputs = world.translator.outputs();
    let table = if kind.is_unbuilt_policy() { outputs.unbuilt_policy_statuses } else { outputs.policy_statuses };
    (**world.translator.graph().get(table, &key).expect("a status")).clone()
}

fn message(conditions: &[Condition], kind: &str) -> String {
    conditions.iter().find(|one| &*one.condition_type == kind).map(|one| one.message.to_string()).unwrap_or_default()
}

#[test]
fn a_guarded_route_answers_500_and_others_go_on() {
    let mut world = served();
    assert_eq!(answers(&world), OPEN);
    world.apply([guard("guard", json!([target("HTTPRoute", "one")]))]);
    assert_eq!(answers(&world), ["500", "200", "500", "200"]);
    let conditions = world.parent("one", 0);
    assert_eq!(
        conditions,
        ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs", "UnsupportedPolicy=True/Closed"]
    );
    let text = message(&world.route_status("one").parents[0].conditions, "UnsupportedPolicy");
    let wanted = "Requests get 500, because this version does not support fields that guard it: SecurityPolicy default/guard (spec.authorization).";
    assert_eq!(text, wanted);
    assert_eq!(world.parent("two", 0).len(), 2);
    let status = policy_status(&world, Kind::SecurityPolicy, "guard");
    let [entry] = &*status.ancestors else { panic!("{status:?}") };
    assert_eq!(&*entry.ancestor_ref.name, "web");
    assert_eq!(short(&entry.conditions), ["Accepted=False/Invalid"]);
    assert!(entry.conditions[0].message.contains("spec.authorization"), "{entry:?}");
    let problems = world.problems();
    let [problem] = &*problems else { panic!("{problems:?}") };
    assert!(problem.starts_with("error: SecurityPolicy default/guard: spec.authorization: "), "{problem}");
    world.delete(Kind::SecurityPolicy, "default", "guard");
    assert_eq!(answers(&world), OPEN);
    assert_eq!(world.parent("one", 0).len(), 2);
}

#[test]
fn each_target_closes_what_it_names_and_no_more() {
    for (targets, wanted) in [
        (json!([target("Gateway", "web")]), ["500", "500", "500", "500"]),
        (json!([section("Gateway", "web", "more")]), ["200", "200", "500", "500"]),
        (json!([section("Gateway", "web", "none")]), OPEN),
        (json!([section("HTTPRoute", "one", "none")]), OPEN),
        (json!([target("HTTPRoute", "none")]), OPEN),
        (json!([target("HTTPRoute", "one"), section("Gateway", "web", "http")]), ["500", "500", "500", "200"]),
        (json!([{"kind": "HTTPRoute", "name": "one"}]), ["500", "200", "500", "200"]),
        (json!({"group": GROUP, "kind": "HTTPRoute", "name": "one"}), ["500", "200", "500", "200"]),
        (json!([target("HTTPRoute", "One ")]), ["500", "200", "500", "200"]),
    ] {
        let mut world = served();
        world.apply([guard("guard", targets.clone())]);
        assert_eq!(answers(&world), wanted, "{targets}");
        world.apply([object(Kind::SecurityPolicy, "guard", json!({"targetRefs": targets}))]);
        let harmless = targets.is_array();
        assert_eq!(
            answers(&world) == OPEN,
            harmless,
            "{targets}: a policy that is broken closes, an empty one does not"
        );
    }
}

#[test]
fn a_rule_is_closed_by_its_name() {
    let mut spec = route_spec("web", &["one.org"], &[("/", "v1"), ("/admin", "v1")]);
    spec["rules"][1]["name"] = json!("admin");
    let mut world = served();
    world.apply([object(Kind::HttpRoute, "one", spec), guard("guard", json!([section("HTTPRoute", "one", "admin")]))]);
    let ask = |world: &World, path: &str| world.ask("default/web/80", "one.org", path);
    assert_eq!((ask(&world, "/"), ask(&world, "/admin/x")), ("default/v1/80*1".to_owned(), "500".to_owned()));
    let text = message(&world.route_status("one").parents[0].conditions, "UnsupportedPolicy");
    assert!(text.starts_with("Rule admin: requests get 500, "), "{text}");
}

#[test]
fn missing_sections_are_errors_and_targets_that_are_missing_too() {
    let mut world = served();
    let targets =
        json!([section("Gateway", "web", "none"), section("HTTPRoute", "one", "none"), target("HTTPRoute", "no")]);
    world.apply([guard("guard", targets)]);
    let problems = world.problems().join("\n");
    for words in
        ["has no listener of the name none", "has no rule of the name none", "HTTPRoute default/no does not exist"]
    {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    assert_eq!(world.parent("one", 0).len(), 2, "nothing of it is closed");
    let found = policy_status(&world, Kind::SecurityPolicy, "guard").ancestors;
    assert!(found.iter().all(|entry| short(&entry.conditions) == ["Accepted=False/TargetNotFound"]), "{found:?}");
}

#[test]
fn policies_of_other_namespaces_close_nothing_without_a_grant() {
    let mut world = served();
    world.apply([
        guard("evil/named", json!([target("HTTPRoute", "one"), target("Gateway", "web")])),
        selecting("evil/selected", json!({"kind": "HTTPRoute", "namespaces": {"from": "All"}})),
        selecting("evil/gateways", json!({"kind": "Gateway", "namespaces": {"from": "All"}})),
    ]);
    assert_eq!(answers(&world), OPEN);
    assert!(policy_status(&world, Kind::SecurityPolicy, "evil/selected").ancestors.is_empty());
    let grant = json!({
        "from": [{"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": "evil"}],
        "to": [{"group": GROUP, "kind": "HTTPRoute", "name": "one"}],
    });
    world.apply([object(Kind::ReferenceGrant, "allow", grant)]);
    assert_eq!(answers(&world), ["500", "200", "500", "200"]);
    let found = policy_status(&world, Kind::SecurityPolicy, "evil/selected").ancestors;
    assert_eq!((found.len(), &*found[0].ancestor_ref.name), (1, "web"));
    world.delete(Kind::ReferenceGrant, "default", "allow");
    assert_eq!(answers(&world), OPEN);
}

#[test]
fn grant_for_one_object_lets_many_selectors_close_no_other() {
    let mut world = served();
    let grant = json!({
        "from": [{"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": "evil"}],
        "to": [{"group": GROUP, "kind": "HTTPRoute", "name": "one"}],
    });
    world.apply([object(Kind::ReferenceGrant, "allow", grant)]);
    let never = |kind: Kind, at: usize| {
        let expression = json!({"key": "team", "operator": "NotIn", "values": [format!("x{at}")]});
        let namespaces = json!({"from": "Selector", "selector": {"matchLabels": {"never": "there"}}});
        let selector = json!({"kind": "HTTPRoute", "matchExpressions": [expression], "namespaces": namespaces});
        let spec = json!({"targetSelectors": [selector], "authorization": {}, "rateLimit": {}});
        object(kind, &format!("evil/p{at:03}"), spec)
    };
    world.apply((0..300).map(|at| never(Kind::BackendTrafficPolicy, at)));
    assert_eq!(answers(&world), OPEN, "the grant names another kind");
    world.apply((0..300).map(|at| never(Kind::SecurityPolicy, at)));
    assert_eq!(answers(&world), ["500", "200", "500", "200"], "what is not compared closes what the grant names");
}

#[test]
fn policies_without_a_grant_cost_other_namespaces_nothing() {
    let mut world = served();
    let runs = |world: &World| {
        let mut nodes = world.translator.graph().nodes();
        nodes.find(|node| node.name == "route_closing").map(|node| node.runs).expect("the node")
    };
    let before = runs(&world);
    let everywhere =
        |at: usize| selecting(&format!("evil/p{at}"), json!({"kind": "HTTPRoute", "namespaces": {"from": "All"}}));
    world.apply((0..100).map(everywhere));
    assert_eq!(runs(&world), before);
}

#[test]
fn selectors_follow_labels() {
    let mut world = served();
    world.apply([selecting("guard", json!({"kind": "HTTPRoute", "matchLabels": {"team": "blue"}}))]);
    assert_eq!(answers(&world), OPEN);
    let ask = |world: &World| world.ask("default/web/80", "any.org", "/labelled");
    let three = |labels: &[(&str, &str)]| labelled(route("three", "web", &[], &[]), labels);
    world.apply([three(&[("team", "red")])]);
    assert_eq!(ask(&world), "default/v1/80*1");
    world.apply([three(&[("a", "b"), ("team", "blue")])]);
    assert_eq!(ask(&world), "500");
    assert_eq!(answers(&world), OPEN);
    world.apply([selecting("all", json!({"kind": "HTTPRoute"}))]);
    assert_eq!(answers(&world), ["500"; 4]);
    world.delete(Kind::SecurityPolicy, "default", "all");
    world.delete(Kind::SecurityPolicy, "default", "guard");
    assert_eq!((ask(&world), answers(&world)), ("default/v1/80*1".to_owned(), OPEN.map(str::to_owned)));
}

/// Rows, groups and recorded reads of all nodes that follow what policies close.
fn closing_size(world: &World) -> (usize, usize) {
    let graph = world.translator.graph();
    let names = ["closing", "ancestor", "selected_", "attached_policy", "unbuilt_policy"];
    let nodes = graph.nodes().filter(|node| names.iter().any(|name| node.name.contains(name)));
    (nodes.map(|node| node.size).sum(), graph.size().edges)
}

#[test]
fn many_policies_of_a_selector_cost_each_object_no_more() {
    const COUNT: usize = 200;
    let every = |at: usize| selecting(&format!("p{at:03}"), json!({"kind": "HTTPRoute"}));
    let mut world = served();
    world.apply((0..COUNT).map(|at| route(&format!("r{at}"), "web", &[], &[(&format!("/r{at}"), "v1")])));
    world.apply([every(0)]);
    let (rows, edges) = closing_size(&world);
    world.apply((1..COUNT).map(every));
    let (more_rows, more_edges) = closing_size(&world);
    assert!(more_rows - rows < 10 * COUNT, "{rows} and {more_rows} rows");
    assert!(more_edges - edges < 20 * COUNT, "{edges} and {more_edges} reads");
    for at in [0, COUNT - 1] {
        assert_eq!(world.ask("default/web/80", "any.org", &format!("/r{at}")), "500");
        let status = policy_status(&world, Kind::SecurityPolicy, &format!("p{at:03}"));
        assert_eq!(status.ancestors.len(), 1, "each policy says what it closes");
    }
    let text = message(&world.route_status("r0").parents[0].conditions, "UnsupportedPolicy");
    assert!(text.ends_with("SecurityPolicy default/p007 (spec.authorization) and more."), "{text}");
    // One more is for the same and changes nothing for any route.
    let stats = world.apply([every(COUNT)]);
    assert!(stats.runs < 30, "{stats:?}");
    let gone =
        (0..=COUNT).map(|at| Change::Delete(ObjectKey::of(Kind::SecurityPolicy, "default", &format!("p{at:03}"))));
    world.change(gone.collect());
    assert_eq!(answers(&world), OPEN);
}

#[test]
fn many_selectors_close_what_they_are_not_compared_with() {
    const COUNT: usize = 300;
    let other = |at: usize| {
        let expression = json!({"key": "team", "operator": "NotIn", "values": ["blue", format!("x{at}")]});
        selecting(&format!("p{at:03}"), json!({"kind": "HTTPRoute", "matchExpressions": [expression]}))
    };
    let blue = |name: &str| labelled(route(name, "web", &[], &[]), &[("team", "blue")]);
    let mut world = served();
    world.apply([blue("three")]);
    let ask = |world: &World| world.ask("default/web/80", "any.org", "/labelled");
    world.apply((0..COUNT - 100).map(other));
    assert_eq!((ask(&world), answers(&world)), ("default/v1/80*1".to_owned(), ["500"; 4].map(str::to_owned)));
    world.apply((0..COUNT).map(other));
    assert_eq!(ask(&world), "500");
    let text = message(&world.route_status("three").parents[0].conditions, "UnsupportedPolicy");
    assert!(text.contains("policies of namespace default with more selectors than are compared"), "{text}");
    let status = policy_status(&world, Kind::SecurityPolicy, "p299");
    assert_eq!(status.ancestors.len(), 1, "{status:?}");
    world.apply([labelled(route("four", "web", &[], &[]), &[("team", "red")])]);
    world.delete(Kind::HttpRoute, "default", "three");
    assert_eq!(ask(&world), "500", "red is selected by all of them");
}

#[test]
fn gateways_and_listeners_say_that_they_are_closed() {
    let mut world = served();
    let guards = json!([section("Gateway", "web", "more")]);
    world.apply([
        guard("guard", guards),
        object(Kind::EnvoyExtensionPolicy, "lua", json!({"targetRefs": [target("Gateway", "web")], "lua": []})),
    ]);
    assert_eq!(answers(&world), ["500"; 4]);
    let text = message(&world.gateway_status("web").conditions, "UnsupportedPolicy");
    assert!(text.ends_with(": EnvoyExtensionPolicy default/lua (spec.lua)."), "{text}");
    let text = message(&world.listener("web", "more").conditions, "UnsupportedPolicy");
    assert!(text.ends_with(": SecurityPolicy default/guard (spec.authorization)."), "{text}");
    assert_eq!(message(&world.listener("web", "http").conditions, "UnsupportedPolicy"), "");
}

#[test]
fn a_policy_without_guards_closes_nothing_and_says_what_is_ignored() {
    let mut world = served();
    let spec = json!({"targetRefs": [target("Gateway", "web")], "tcpKeepalive": {}, "http2": {}});
    world.apply([object(Kind::ClientTrafficPolicy, "clients", spec)]);
    assert_eq!(answers(&world), OPEN);
    let status = policy_status(&world, Kind::ClientTrafficPolicy, "clients");
    let condition = &status.ancestors[0].conditions[0];
    assert_eq!(short(std::slice::from_ref(condition)), ["Accepted=False/Invalid"]);
    assert_eq!(
        &*condition.message,
        "Fields that this version does not support have no effect: spec.tcpKeepalive, spec.http2."
    );
    let spec = json!({"targetRefs": [target("Gateway", "web")], "tls": {"clientValidation": {}}});
    world.apply([object(Kind::ClientTrafficPolicy, "clients", spec)]);
    assert_eq!(answers(&world), ["500"; 4]);
}

#[test]
fn a_backend_traffic_policy_closes_by_what_of_it_guards() {
    let mut world = served();
    let policy = |more: Value| {
        let mut spec = json!({"targetRefs": [target("HTTPRoute", "one"), section("Gateway", "web", "more")], "circuitBreaker": {}});
        spec.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        object(Kind::BackendTrafficPolicy, "p", spec)
    };
    world.apply([policy(json!({}))]);
    assert_eq!(world.ask("default/web/80", "two.org", "/"), "default/v1/80*1");
    assert_ne!(world.ask("default/web/80", "one.org", "/"), "500");
    world.apply([policy(json!({"rateLimit": {"type": "Local"}}))]);
    assert_eq!(answers(&world), ["500", "200", "500", "500"]);
    let found = policy_status(&world, Kind::BackendTrafficPolicy, "p").ancestors;
    assert_eq!(short(&found[0].conditions), ["Accepted=False/Invalid", "Warning=True/UnsupportedValue"]);
    world.apply([policy(json!({"circuitBreaker": {"maxConnections": -1}}))]);
    assert_ne!(world.ask("default/web/80", "one.org", "/"), "500", "what is wrong there guards nothing");
    world.apply([policy(json!({"ratelimit": {}}))]);
    assert_eq!(answers(&world), ["500", "200", "500", "500"], "most likely a guard");
    world.delete(Kind::BackendTrafficPolicy, "default", "p");
    assert_eq!(answers(&world), OPEN);
}

#[test]
fn connections_datagrams_and_calls_are_refused_too() {
    let stream = |kind: Kind, name: &str| {
        object(
            kind,
            name,
            json!({"parentRefs": [{"name": "web"}], "rules": [{"name": "all", "backendRefs": [{"name": "v1", "port": 80}]}]}),
        )
    };
    let mut world = World::with([
        gateway(
            "web",
            json!([{"name": "tcp", "port": 90, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "http", "port": 80, "protocol": "HTTP"}]),
        ),
        stream(Kind::TcpRoute, "tcp"),
        stream(Kind::UdpRoute, "udp"),
        object(
            Kind::GrpcRoute,
            "grpc",
            json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [{"name": "v1", "port": 80}]}]}),
        ),
        object(
            Kind::Service,
            "v1",
            json!({"ports": [{"name": "t", "port": 80}, {"name": "u", "port": 80, "protocol": "UDP"}], "selector": {"a": "b"}}),
        ),
        slice("v1", 80, &["127.0.0.1"]),
    ]);
    let open = |world: &World| {
        let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
        let streams = outputs.streams(graph).filter(|(_, proxy)| format!("{proxy:?}").contains("Cluster(")).count();
        let shared =
            graph.iter(outputs.shared_sets).filter(|(_, set)| format!("{set:?}").contains("set: Some")).count();
        (streams, shared, world.hosts("default/web/80")["*"].join(" "))
    };
    let served = (1, 1, "grpc / -> default/v1/80~grpc*1".to_owned());
    assert_eq!(open(&world), served);
    let all = json!([target("TCPRoute", "tcp"), target("UDPRoute", "udp"), target("GRPCRoute", "grpc")]);
    let rules =
        json!([section("TCPRoute", "tcp", "all"), section("UDPRoute", "udp", "all"), target("GRPCRoute", "grpc")]);
    let closed = (0, 0, "grpc / -> 503".to_owned());
    for targets in [all, rules] {
        world.apply([guard("guard", targets)]);
        assert_eq!(open(&world), closed);
    }
    world.apply([guard("guard", json!([target("Gateway", "web")]))]);
    assert_eq!(open(&world), (0, 0, "/ -> 500".to_owned()));
    world.delete(Kind::SecurityPolicy, "default", "guard");
    assert_eq!(open(&world), served);
}

#[test]
fn a_listener_set_is_closed_by_itself_and_with_its_gateway() {
    let set = json!({"parentRef": {"name": "web"}, "listeners": [{"name": "own", "port": 82, "protocol": "HTTP"}]});
    let open = json!({
        "gatewayClassName": "eg", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        "allowedListeners": {"namespaces": {"from": "Same"}},
    });
    let mut spec = route_spec("web", &[], &[("/", "v1")]);
    spec["parentRefs"] = json!([{"name": "web"}, {"kind": "ListenerSet", "group": GROUP, "name": "set"}]);
    let mut world = World::with([
        object(Kind::Gateway, "web", open),
        object(Kind::ListenerSet, "set", set),
        object(Kind::HttpRoute, "one", spec),
        service("v1", 80),
    ]);
    let ask = |world: &World| [80, 82].map(|port| world.ask(&format!("default/web/{port}"), "x.org", "/") == "500");
    assert_eq!(ask(&world), [false, false]);
    for (targets, wanted) in [
        (json!([target("ListenerSet", "set")]), [false, true]),
        (json!([section("ListenerSet", "set", "own")]), [false, true]),
        (json!([section("Gateway", "web", "own")]), [false, false]),
        (json!([section("Gateway", "web", "http")]), [true, false]),
        (json!([target("Gateway", "web")]), [true, true]),
    ] {
        world.apply([guard("guard", targets.clone())]);
        assert_eq!(ask(&world), wanted, "{targets}");
    }
}

#[test]
fn a_policy_for_what_belongs_to_others_says_and_claims_nothing() {
    let mut world = World::in_cluster();
    let class = |name: &str, controller: &str| object(Kind::GatewayClass, name, json!({"controllerName": controller}));
    let of_class = |name: &str, class: &str| {
        object(
            Kind::Gateway,
            name,
            json!({"gatewayClassName": class, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}),
        )
    };
    world.apply([
        class("eg", "gateway.envoyproxy.io/gatewayclass-controller"),
        class("foreign", "example.com/other"),
        of_class("web", "eg"),
        of_class("far", "foreign"),
        route("near", "web", &[], &[("/", "v1")]),
        route("there", "far", &[], &[("/", "v1")]),
        service("v1", 80),
    ]);
    let before = world.problems();
    world.apply([
        guard("guard", json!([target("HTTPRoute", "there"), target("Gateway", "far"), target("HTTPRoute", "none")])),
        selecting("selecting", json!({"kind": "Gateway", "matchLabels": {"a": "b"}})),
    ]);
    assert_eq!(world.problems(), before);
    assert!(policy_status(&world, Kind::SecurityPolicy, "guard").ancestors.is_empty());
    assert_eq!(world.ask("default/web/80", "x.org", "/"), "default/v1/80*1");
    assert_eq!(world.route_status("there").parents.len(), 0);
}

#[test]
fn allowed_policies_close_nothing_and_everything_says_so() {
    let objects = || {
        let tls = json!({"wellKnownCACertificates": "System", "minVersion": "1.3"});
        let endpoints = json!([{"ip": {"address": "192.0.2.1", "port": 443}}]);
        [
            gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
            route("one", "web", &[], &[("/", "v1")]),
            service("v1", 80),
            guard("guard", json!([target("HTTPRoute", "one"), target("Gateway", "web")])),
            api_backend("b", json!({"endpoints": endpoints, "tls": tls})),
        ]
    };
    let said = |unsupported_policies, setting: Option<&str>| {
        let options = Options { file_mode: true, unsupported_policies, ..Options::default() };
        let mut world = World { translator: Translator::new(options) };
        world.apply(objects());
        world.apply(setting.map(|word| object(Kind::EnvoyGateway, "own", json!({"unsupportedPolicies": word}))));
        world
    };
    let (deny, allow) = (UnsupportedPolicies::Deny, UnsupportedPolicies::Allow);
    for (flag, setting, closed) in [
        (None, None, true),
        (None, Some("Deny"), true),
        (None, Some("Allow"), false),
        (None, Some("Odd"), true),
        (Some(allow), None, false),
        (Some(allow), Some("Deny"), false),
        (Some(deny), Some("Allow"), true),
    ] {
        let world = said(flag, setting);
        assert_eq!(world.ask("default/web/80", "x.org", "/") == "500", closed, "{flag:?} {setting:?}");
        let severity = if closed { "error" } else { "warning" };
        let problems = world.problems();
        let wanted = format!("{severity}: SecurityPolicy default/guard: spec.authorization: ");
        assert!(problems.iter().any(|problem| problem.starts_with(&wanted)), "{flag:?} {setting:?} {problems:?}");
        let of_backend = format!("{severity}: Backend default/b: spec");
        assert!(problems.iter().any(|problem| problem.starts_with(&of_backend)), "{flag:?} {setting:?} {problems:?}");
        let reason = if closed { "UnsupportedPolicy=True/Closed" } else { "UnsupportedPolicy=True/Allowed" };
        assert_eq!(world.parent("one", 0).last().map(String::as_str), Some(reason));
        assert!(short(&world.gateway_status("web").conditions).iter().any(|one| one == reason));
        let status = policy_status(&world, Kind::SecurityPolicy, "guard");
        assert_eq!(short(&status.ancestors[0].conditions), ["Accepted=False/Invalid"]);
    }
}

/// A `Backend` as it is read.
fn api_backend(name: &str, spec: Value) -> Object {
    let text = json!({"metadata": {"name": name}, "spec": spec}).to_string();
    api::json::read(Kind::Backend, &text).expect("JSON").objects.into_iter().next().expect("a Backend")
}

#[test]
fn an_edit_of_a_policy_concerns_its_targets_alone() {
    let mut world = served();
    world.apply((0..50).map(|at| route(&format!("r{at}"), "web", &[&format!("h{at}.org")], &[("/", "v1")])));
    world.apply([guard("guard", json!([target("HTTPRoute", "one")]))]);
    let runs = |world: &World, name: &str| {
        let mut nodes = world.translator.graph().nodes();
        nodes.find(|node| node.name == name).map(|node| node.runs).expect("the node")
    };
    let nodes = ["route", "route_closing", "route_entry", "route_status", "gateway_plan", "own_host"];
    let before = nodes.map(|name| runs(&world, name));
    world.apply([object(
        Kind::SecurityPolicy,
        "guard",
        json!({"targetRefs": [target("HTTPRoute", "one")], "jwt": {}}),
    )]);
    let after = nodes.map(|name| runs(&world, name));
    let runs: Vec<_> =
        nodes.iter().zip(before.iter().zip(after)).map(|(name, (before, after))| (*name, after - before)).collect();
    assert_eq!(
        runs,
        [
            ("route", 0),
            ("route_closing", 1),
            ("route_entry", 1),
            ("route_status", 1),
            ("gateway_plan", 0),
            ("own_host", 2)
        ]
    );
}

/// A policy as an API server stores it under a definition that lets everything pass.
fn stored(kind: Kind, text: &str) -> Object {
    api::json::read(kind, text).expect("JSON").objects.into_iter().next().expect("a policy")
}

#[test]
fn policies_that_cannot_be_used_close_what_can_be_read_of_their_targets() {
    let all = ["500"; 4];
    let one = ["500", "200", "500", "200"];
    for (metadata, spec, wanted) in [
        (r#""labels": {"a": 1}"#, r#"{"targetRefs": [{"kind": "HTTPRoute", "name": "one"}], "jwt": {}}"#, one),
        (r#""annotations": []"#, r#"{"targetRefs": [{"kind": "HttpRoute", "name": "one"}], "jwt": {}}"#, one),
        (r#""labels": {}"#, r#"{"targetRefs": [{"name": "one"}], "jwt": {}}"#, one),
        (r#""labels": {}"#, r#"{"targetrefs": [{"kind": "HTTPRoute", "name": "one"}], "jwt": {}}"#, one),
        (r#""labels": {}"#, r#"{"targetRefs": [{"kind": "HTTPRuote", "name": "one"}], "jwt": {}}"#, one),
        (r#""labels": {}"#, r#"{"targetRefs": [{"kind": "HTTPRoute"}], "jwt": {}}"#, all),
        (r#""labels": {}"#, r#"{"targetRefs": [{"kind": "GRPCRoute"}], "jwt": {}}"#, OPEN),
        (r#""labels": {}"#, r#"{"targetRefs": "one", "jwt": {}}"#, all),
        (r#""labels": {}"#, r#"{"jwt": {}}"#, all),
        (r#""labels": {}"#, r#""one""#, all),
        (r#""labels": {}"#, r#"{"targetSelectors": {"kind": "HTTPRoute"}, "jwt": {}}"#, all),
        (
            r#""labels": {}"#,
            r#"{"targetSelectors": [{"kind": "HTTPRoute", "matchExpressions": [{"key": "a", "operator": "NotExist"}]}], "jwt": {}}"#,
            all,
        ),
        (r#""labels": {}"#, r#"{"targetSelectors": [{"kind": "Ruote", "matchLabels": {"a": "b"}}], "jwt": {}}"#, all),
    ] {
        for namespace in ["default", "other"] {
            let mut world = served();
            let text =
                format!(r#"{{"metadata": {{"name": "p", "namespace": "{namespace}", {metadata}}}, "spec": {spec}}}"#);
            world.apply([stored(Kind::SecurityPolicy, &text)]);
            let wanted = if namespace == "default" { wanted } else { OPEN };
            assert_eq!(answers(&world), wanted, "{text}");
            let says = |problem: &String| problem.contains("cannot be used as it is written, so this is closed");
            assert!(
                namespace == "other" || wanted == OPEN || world.problems().iter().any(says),
                "{text}: {:?}",
                world.problems()
            );
            world.delete(Kind::SecurityPolicy, namespace, "p");
            assert_eq!(answers(&world), OPEN, "{text}");
        }
    }
}

#[test]
fn a_policy_of_which_nothing_is_known_closes_its_namespace() {
    let mut world = served();
    let key = ObjectKey::of(Kind::EnvoyExtensionPolicy, "default", "p");
    world.apply([Object::unread(&key, "no text").expect("a policy")]);
    assert_eq!(answers(&world), ["500"; 4]);
    let problems = world.problems();
    let wanted = "(--unsupported-policies=allow): each Gateway, ListenerSet and route of namespace default";
    assert!(problems.iter().any(|problem| problem.ends_with(wanted)), "{problems:?}");
    let status = policy_status(&world, Kind::EnvoyExtensionPolicy, "p");
    let [entry] = &*status.ancestors else { panic!("{status:?}") };
    assert!(entry.conditions[0].message.contains("(no text). What it selects is closed"), "{entry:?}");
}
