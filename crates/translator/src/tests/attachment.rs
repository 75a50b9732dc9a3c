//! Attachment: parents, kinds, namespaces, counts, and the conditions that follow.

use serde_json::json;

use crate::testing::{World, aged, gateway, object, service, short, with_meta};
use api::{Kind, Object, ObjectKey, ObjectMeta};

fn parent_route(name: &str, parent: serde_json::Value) -> Object {
    object(
        Kind::HttpRoute,
        name,
        json!({"parentRefs": [parent], "rules": [{"backendRefs": [{"name": "v1", "port": 80}]}]}),
    )
}

#[test]
fn a_parent_is_judged_by_section_and_port_then_namespace_then_host() {
    let listeners = json!([
        {"name": "a", "port": 80, "protocol": "HTTP", "hostname": "a.org"},
        {"name": "b", "port": 8080, "protocol": "HTTP", "hostname": "b.org", "allowedRoutes": {"namespaces": {"from": "All"}}},
    ]);
    let mut world = World::with([gateway("web", listeners), service("v1", 80)]);
    let cases = [
        ("default/r1", json!({"name": "web", "sectionName": "c"}), "Accepted=False/NoMatchingParent"),
        ("default/r2", json!({"name": "web", "port": 81}), "Accepted=False/NoMatchingParent"),
        ("default/r3", json!({"name": "web", "sectionName": "a", "port": 8080}), "Accepted=False/NoMatchingParent"),
        ("default/r4", json!({"name": "web", "sectionName": "b", "port": 8080}), "Accepted=True/Accepted"),
        (
            "other/r5",
            json!({"name": "web", "namespace": "default", "sectionName": "a"}),
            "Accepted=False/NotAllowedByListeners",
        ),
        ("other/r6", json!({"name": "web", "namespace": "default"}), "Accepted=True/Accepted"),
    ];
    for (name, parent, expected) in cases {
        world.apply([parent_route(name, parent)]);
        assert_eq!(world.parent(name, 0)[0], expected, "{name}");
    }
    assert_eq!(world.listener("web", "a").attached_routes, 0);
    assert_eq!(world.listener("web", "b").attached_routes, 2);
    world.apply([object(
        Kind::HttpRoute,
        "r7",
        json!({
            "parentRefs": [{"name": "web"}, {"name": "web", "sectionName": "b"}], "hostnames": ["b.org"],
            "rules": [{"backendRefs": [{"name": "v1", "port": 80}]}],
        }),
    )]);
    assert_eq!(world.listener("web", "b").attached_routes, 3, "a route counts once, however many parents lead there");
    assert_eq!(world.route_status("r7").parents.len(), 2);
}

#[test]
fn parents_that_are_not_there_or_not_ours_have_no_entry() {
    let class = |name: &str, controller: &str| object(Kind::GatewayClass, name, json!({"controllerName": controller}));
    let of = |name: &str, class: &str| {
        let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
        object(Kind::Gateway, name, json!({"gatewayClassName": class, "listeners": listeners}))
    };
    let mut world = World::with([
        class("ours", "gateway.envoyproxy.io/gatewayclass-controller"),
        class("theirs", "example.com/other"),
        of("web", "ours"),
        of("alien", "theirs"),
        object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "alien"}, {"name": "nowhere"}, {"name": "web"}]})),
    ]);
    let status = world.route_status("r");
    assert_eq!(status.parents.iter().map(|parent| &*parent.parent_ref.name).collect::<Vec<_>>(), ["web"]);
    assert_eq!(status.parents[0].parent_ref.namespace.as_deref(), Some("default"));
    let classes = world.translator.outputs().gateway_class_statuses;
    assert_eq!(world.translator.graph().len(classes), 1);
    let (_, class_status) = world.translator.graph().iter(classes).next().expect("ours");
    assert_eq!(short(&class_status.conditions), ["Accepted=True/Accepted", "SupportedVersion=True/SupportedVersion"]);

    world.apply([class("ours", "example.com/other")]);
    assert_eq!(world.route_status("r").parents.len(), 0);
    assert_eq!(world.translator.graph().len(world.translator.outputs().gateway_statuses), 0);
}

#[test]
fn namespaces_are_selected_by_label_also_where_none_has_an_object() {
    let selector = |labels: serde_json::Value| {
        json!([{"name": "http", "port": 80, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "Selector", "selector": {"matchLabels": labels}}}}])
    };
    let parent = json!({"name": "web", "namespace": "default"});
    let mut world = World::with([
        gateway("web", selector(json!({"kubernetes.io/metadata.name": "team"}))),
        parent_route("team/r", parent.clone()),
        parent_route("other/r", parent),
    ]);
    assert_eq!(world.parent("team/r", 0)[0], "Accepted=True/Accepted");
    assert_eq!(world.parent("other/r", 0)[0], "Accepted=False/NotAllowedByListeners");

    world.apply([gateway("web", selector(json!({"stage": "prod"})))]);
    assert_eq!(world.parent("team/r", 0)[0], "Accepted=False/NotAllowedByListeners");
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::Namespace, "", "team"));
    meta.labels = [("stage", "prod")].into_iter().collect();
    world.apply([with_meta(Kind::Namespace, meta, json!({}))]);
    assert_eq!(world.parent("team/r", 0)[0], "Accepted=True/Accepted");
    assert_eq!(world.listener("web", "http").attached_routes, 1);
}

#[test]
fn listeners_that_cannot_be_told_apart_are_all_conflicted() {
    let world = World::with([gateway(
        "web",
        json!([
            {"name": "a", "port": 80, "protocol": "HTTP", "hostname": "x.org"},
            {"name": "b", "port": 80, "protocol": "HTTP", "hostname": "x.org"},
            {"name": "c", "port": 80, "protocol": "HTTP", "hostname": "y.org"},
            {"name": "d", "port": 443, "protocol": "HTTP"},
            {"name": "e", "port": 443, "protocol": "HTTPS"},
            {"name": "f", "port": 9, "protocol": "SPDY"},
        ]),
    )]);
    let of = |name: &str| short(&world.listener("web", name).conditions);
    assert!(of("a").contains(&"Conflicted=True/HostnameConflict".into()), "{:?}", of("a"));
    assert!(of("b").contains(&"Programmed=False/HostnameConflict".into()));
    assert_eq!(of("c")[0], "Accepted=True/Accepted");
    assert_eq!(of("d")[0], "Accepted=False/ProtocolConflict");
    assert_eq!(of("e")[0], "Accepted=False/ProtocolConflict");
    assert_eq!(of("f")[0], "Accepted=False/UnsupportedProtocol");
    assert_eq!(world.listener("web", "f").supported_kinds.len(), 0);
    let status = world.gateway_status("web");
    assert_eq!(short(&status.conditions)[0], "Accepted=True/ListenersNotValid");
}

#[test]
fn of_two_gateways_that_want_one_port_of_the_machine_the_older_has_it() {
    let listeners =
        || json!([{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "own", "port": 81, "protocol": "HTTP"}]);
    let single = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let mut world = World::with([aged(gateway("a", listeners()), 2), aged(gateway("b", single.clone()), 1)]);
    let accepted =
        |world: &World, gateway: &str, listener: &str| short(&world.listener(gateway, listener).conditions)[0].clone();
    assert_eq!(accepted(&world, "a", "http"), "Accepted=False/PortUnavailable");
    assert_eq!(accepted(&world, "a", "own"), "Accepted=True/Accepted");
    assert_eq!(accepted(&world, "b", "http"), "Accepted=True/Accepted");
    assert!(world.listener("a", "http").conditions[0].message.contains("default/b"), "the winner is named");

    // With addresses of their own both can have it; without an age the name decides.
    let at = |name: &str, address: &str| {
        object(
            Kind::Gateway,
            name,
            json!({"gatewayClassName": "eg", "listeners": single, "addresses": [{"value": address}]}),
        )
    };
    world.apply([at("a", "127.0.0.1"), at("b", "127.0.0.2")]);
    assert_eq!(accepted(&world, "a", "http"), "Accepted=True/Accepted");
    world.apply([at("b", "127.0.0.1")]);
    assert_eq!(accepted(&world, "b", "http"), "Accepted=False/PortUnavailable");
    world.delete(Kind::Gateway, "default", "a");
    assert_eq!(accepted(&world, "b", "http"), "Accepted=True/Accepted");
}

#[test]
fn kinds_and_addresses_and_parameters_that_are_not_supported_are_said() {
    let http = |kinds: serde_json::Value| json!([{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"kinds": kinds}}]);
    let mut world = World::with([gateway("web", http(json!([{"kind": "InvalidRoute"}])))]);
    let listener = world.listener("web", "http");
    assert!(short(&listener.conditions).contains(&"ResolvedRefs=False/InvalidRouteKinds".into()));
    assert_eq!(listener.supported_kinds.len(), 0);
    world.apply([gateway("web", http(json!([{"kind": "InvalidRoute"}, {"kind": "HTTPRoute"}])))]);
    assert_eq!(&*world.listener("web", "http").supported_kinds[0].kind, "HTTPRoute");

    let with = |extra: (&str, serde_json::Value)| {
        let mut spec =
            json!({"gatewayClassName": "eg", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]});
        spec[extra.0] = extra.1;
        object(Kind::Gateway, "web", spec)
    };
    let parameters = |kind: &str| {
        let group = if kind == "EnvoyProxy" { "gateway.envoyproxy.io" } else { "invalid.io" };
        json!({"parametersRef": {"group": group, "kind": kind, "name": "p"}})
    };
    world.apply([with(("infrastructure", parameters("Invalid")))]);
    assert_eq!(short(&world.gateway_status("web").conditions)[0], "Accepted=False/InvalidParameters");
    world.apply([with(("infrastructure", parameters("EnvoyProxy")))]);
    assert_eq!(short(&world.gateway_status("web").conditions)[0], "Accepted=False/InvalidParameters");
    world.apply([object(Kind::EnvoyProxy, "p", json!({"concurrency": 3}))]);
    assert_eq!(short(&world.gateway_status("web").conditions)[0], "Accepted=True/Accepted");
    let outputs = world.translator.outputs();
    let (_, infra) = world.translator.graph().iter(outputs.infra).next().expect("a fleet");
    assert_eq!(infra.options.concurrency, Some(3));

    world.apply([with(("addresses", json!([{"type": "test/fake-invalid-type", "value": "x"}])))]);
    assert_eq!(short(&world.gateway_status("web").conditions)[0], "Accepted=False/UnsupportedAddress");
    world.apply([with(("addresses", json!([{"type": "IPAddress", "value": "x"}])))]);
    assert_eq!(short(&world.gateway_status("web").conditions)[1], "Programmed=False/AddressNotAssigned");
    world.apply([with(("tls", json!({"backend": {"clientCertificateRef": {"name": "x"}}})))]);
    assert_eq!(short(&world.gateway_status("web").conditions)[2], "ResolvedRefs=False/InvalidClientCertificateRef");
    assert!(world.problems().iter().any(|problem| problem.contains("clientCertificateRef")), "{:?}", world.problems());
}

#[test]
fn in_a_cluster_a_gateway_whose_settings_cannot_be_read_serves_on() {
    let class = json!({"controllerName": api::envoy_gateway::DEFAULT_CONTROLLER_NAME});
    let parameters = json!({"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "gone"});
    let gateway = |infrastructure: serde_json::Value| {
        let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
        let spec = json!({"gatewayClassName": "eg", "listeners": listeners, "infrastructure": infrastructure});
        object(Kind::Gateway, "web", spec)
    };
    let mut world = World::in_cluster();
    world.apply([object(Kind::GatewayClass, "eg", class), service("v1", 80), gateway(json!({}))]);
    world.apply([crate::testing::route("r", "web", &[], &[("/", "v1")])]);
    let outputs = world.translator.outputs();
    let served = |world: &World| {
        let graph = world.translator.graph();
        let listeners: Vec<u16> = graph.iter(outputs.listeners).map(|(_, listener)| listener.port).collect();
        let infra = graph.iter(outputs.infra).map(|(_, infra)| infra.ports.clone()).collect::<Vec<_>>();
        (listeners, world.ask("default/web/80", "x.org", "/"), infra)
    };
    let before = served(&world);
    assert_eq!(before, (vec![80], "default/v1/80*1".to_owned(), vec![vec![80]]));
    world.apply([gateway(json!({"parametersRef": parameters}))]);
    assert_eq!(world.gateway_status("web").conditions[0].reason.as_ref(), "InvalidParameters");
    // objects of a fleet without ports stay what they are
    assert_eq!(served(&world), (before.0, before.1, vec![Vec::new()]));
}

#[test]
fn gateway_of_a_class_that_is_not_there_is_a_warning_unless_its_name_is_known() {
    for (class, severity) in [("chancery", "note"), ("eg", "note"), ("chancry", "warning")] {
        let listeners = json!([{"name": "http", "protocol": "HTTP", "port": 80}]);
        let spec = json!({"gatewayClassName": class, "listeners": listeners});
        let problems = World::with([object(Kind::Gateway, "web", spec)]).all_problems();
        let line = format!("{severity}: Gateway default/web: spec.gatewayClassName");
        assert!(problems.iter().any(|problem| problem.starts_with(&line)), "{class}: {problems:?}");
    }
}
