//! Backends, references and policies through the whole graph.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::testing::{World, aged, gateway, object, route, service, short, slice};
use crate::{Options, OwnPlaces, Translator};
use api::{Kind, Object};
use ir::infra::kubernetes::CONFIG_PORT;
use ir::{Address, Cluster, EndpointSource};

fn web() -> Object {
    gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}]))
}

fn to(refs: Value) -> Object {
    object(Kind::HttpRoute, "r", json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": refs}]}))
}

fn cluster(world: &World, name: &str) -> Arc<Cluster> {
    let outputs = world.translator.outputs();
    let mut found = outputs.clusters(world.translator.graph()).filter(|(key, _)| key.name.as_str() == name);
    found.next().map(|(_, cluster)| cluster.clone()).unwrap_or_else(|| panic!("{name} in {:?}", world.clusters()))
}

#[test]
fn a_broken_reference_costs_its_share_and_says_why() {
    let mut world = World::with([web(), service("v1", 80), service("other/v2", 80)]);
    let cases = [
        (json!({"name": "nowhere", "port": 80}), "BackendNotFound"),
        (json!({"name": "v1", "port": 81}), "BackendNotFound"),
        (json!({"name": "v1"}), "BackendNotFound"),
        (json!({"name": "v2", "namespace": "other", "port": 80}), "RefNotPermitted"),
        (json!({"name": "nowhere", "namespace": "other", "port": 80}), "RefNotPermitted"),
        (json!({"group": "x.io", "kind": "Strange", "name": "v1"}), "InvalidKind"),
    ];
    for (bad, reason) in cases {
        world.apply([to(json!([{"name": "v1", "port": 80, "weight": 3}, bad]))]);
        assert_eq!(world.parent("r", 0), ["Accepted=True/Accepted".to_owned(), format!("ResolvedRefs=False/{reason}")]);
        assert_eq!(world.ask("default/web/80", "x", "/"), "default/v1/80*3 broken*1");
        assert_eq!(world.problems().len(), 1, "{:?}", world.problems());
        world.apply([to(json!([bad]))]);
        assert_eq!(world.ask("default/web/80", "x", "/"), "broken*1", "500 for every request");
    }
    for none in [json!([]), json!([{"name": "v1", "port": 80, "weight": 0}])] {
        world.apply([to(none)]);
        let conditions = ["Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs", "Warning=True/NoBackends"];
        assert_eq!(world.parent("r", 0), conditions);
        assert_eq!(world.ask("default/web/80", "x", "/"), "500");
    }
    world.apply([to(json!([{"name": "v1", "port": 80}]))]);
    assert_eq!(world.parent("r", 0).len(), 2, "and no warning with a backend");
}

#[test]
fn a_grant_opens_a_reference_and_its_end_closes_it() {
    let grant =
        |from: Value, target: Value| object(Kind::ReferenceGrant, "other/g", json!({"from": [from], "to": [target]}));
    let from = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "default"});
    let mut world =
        World::with([web(), service("other/v2", 80), to(json!([{"name": "v2", "namespace": "other", "port": 80}]))]);
    let wrong = [
        (json!({"group": "x", "kind": "HTTPRoute", "namespace": "default"}), json!({"group": "", "kind": "Service"})),
        (
            json!({"group": "gateway.networking.k8s.io", "kind": "TLSRoute", "namespace": "default"}),
            json!({"kind": "Service"}),
        ),
        (
            json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "x"}),
            json!({"kind": "Service"}),
        ),
        (from.clone(), json!({"group": "x", "kind": "Service"})),
        (from.clone(), json!({"kind": "Secret"})),
        (from.clone(), json!({"kind": "Service", "name": "v3"})),
    ];
    for (from, target) in wrong {
        world.apply([grant(from, target)]);
        assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=False/RefNotPermitted");
    }
    for target in [json!({"kind": "Service", "name": "v2"}), json!({"kind": "Service"})] {
        world.apply([grant(from.clone(), target)]);
        assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=True/ResolvedRefs");
        assert_eq!(world.clusters(), ["other/v2/80"]);
    }
    world.delete(Kind::ReferenceGrant, "other", "g");
    assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=False/RefNotPermitted");
    assert_eq!(world.clusters(), [""; 0]);
}

#[test]
fn services_become_clusters_by_type_and_app_protocol() {
    let with = |spec: Value| object(Kind::Service, "s", spec);
    let port = |protocol: &str| json!({"ports": [{"port": 80, "appProtocol": protocol}]});
    let mut world = World::with([web(), to(json!([{"name": "s", "port": 80}])), with(port("kubernetes.io/h2c"))]);
    assert_eq!(cluster(&world, "default/s/80").protocol, ir::cluster::Protocol::Http2);
    for word in ["kubernetes.io/ws", "https", "HTTPS", "example.com/else"] {
        world.apply([with(port(word))]);
        let cluster = cluster(&world, "default/s/80");
        assert_eq!((cluster.protocol, cluster.tls.is_some()), (ir::cluster::Protocol::Http1, false), "{word}");
    }
    world.apply([with(port("kubernetes.io/wss"))]);
    assert!(cluster(&world, &world.clusters()[0]).tls.is_some());
    assert!(world.problems().iter().any(|problem| problem.contains("is not verified")), "{:?}", world.problems());

    let external = json!({"type": "ExternalName", "externalName": "db.example.com.", "ports": [{"port": 80}]});
    world.apply([with(external)]);
    let EndpointSource::Dns(names) = &cluster(&world, "default/s/80").endpoints else { panic!("a name") };
    assert_eq!((&*names[0].host, names[0].port), ("db.example.com", 80));
    world.apply([with(json!({"ports": [{"port": 80, "protocol": "UDP"}, {"port": 80}]}))]);
    assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=True/ResolvedRefs", "TCP counts where both are there");
    world.apply([with(json!({"ports": [{"port": 80, "protocol": "UDP"}]}))]);
    assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=False/BackendNotFound");
}

#[test]
fn backend_objects_give_addresses_names_and_sockets() {
    let backend = |endpoints: Value| object(Kind::Backend, "b", json!({"endpoints": endpoints}));
    let group = "gateway.envoyproxy.io";
    let mut world = World::with([
        web(),
        to(json!([{"group": group, "kind": "Backend", "name": "b"}])),
        backend(json!([{"ip": {"address": "127.0.0.1", "port": 9000}}, {"unix": {"path": "/run/x.sock"}}])),
    ]);
    assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=True/ResolvedRefs");
    let outputs = world.translator.outputs();
    let EndpointSource::Discovered(set) = &cluster(&world, "Backend/default/b").endpoints else { panic!("a set") };
    let addresses: Vec<_> = outputs.endpoint_set(world.translator.graph(), set).expect("the set").localities[0]
        .endpoints
        .iter()
        .map(|endpoint| endpoint.address.clone())
        .collect();
    let ip = Address::Ip("127.0.0.1".parse().expect("an address"), 9000);
    assert_eq!(addresses, [ip, Address::Unix("/run/x.sock".into())]);

    world.translator.set_own_places(Arc::new(OwnPlaces { folders: vec!["/run".into()], ..OwnPlaces::default() }));
    for private in ["/run/x.sock", "/./var/../run/deep/x.sock", "/proc/self/root/run/x.sock"] {
        world.apply([backend(json!([{"unix": {"path": private}}]))]);
        assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=False/BackendNotFound", "{private}");
    }
    world.apply([backend(json!([{"fqdn": {"hostname": "a.example.com", "port": 443}, "zone": "z1"}]))]);
    assert!(matches!(&cluster(&world, "Backend/default/b").endpoints, EndpointSource::Dns(names) if names.len() == 1));
    for bad in [
        json!([{"fqdn": {"hostname": "a.example.com", "port": 443}}, {"ip": {"address": "10.0.0.1", "port": 1}}]),
        json!([{"ip": {"address": "10.0.0.300", "port": 1}}]),
        json!([{"ip": {"address": "0.0.0.0", "port": 1}}]),
        json!([{"ip": {"address": "10.0.0.1", "port": 0}}]),
        json!([{"unix": {"path": ""}}]),
        json!([{}]),
    ] {
        world.apply([backend(bad)]);
        assert_eq!(world.parent("r", 0)[1], "ResolvedRefs=False/BackendNotFound");
        assert_eq!(world.clusters(), [""; 0]);
    }
}

#[test]
fn in_a_cluster_no_backend_leads_to_what_a_proxy_shows_on_its_own_loopback() {
    let group = "gateway.envoyproxy.io";
    let mut world = World { translator: Translator::new(Options::default()) };
    world.apply([
        web(),
        object(Kind::GatewayClass, "eg", json!({"controllerName": "x.io/us"})),
        object(
            Kind::EnvoyGateway,
            "",
            json!({"gateway": {"controllerName": "x.io/us"}, "extensionApis": {"enableBackend": true}}),
        ),
        to(json!([{"group": group, "kind": "Backend", "name": "b"}])),
    ]);
    let ip = |address: &str, port: u16| json!({"ip": {"address": address, "port": port}});
    let name = |port: u16| json!({"fqdn": {"hostname": "lead.example.com", "port": port}});
    let cases = [
        (ip("10.0.0.1", CONFIG_PORT), true),
        (name(CONFIG_PORT + 1), true),
        (name(CONFIG_PORT), false),
        (ip("127.0.0.1", 80), false),
        (ip("::1", 80), false),
        (ip("::ffff:127.0.0.1", 80), false),
        (ip("::ffff:0.0.0.0", 80), false),
    ];
    for (endpoint, good) in cases {
        world.apply([object(Kind::Backend, "b", json!({"endpoints": [endpoint]}))]);
        assert_eq!(world.parent("r", 0)[1] == "ResolvedRefs=True/ResolvedRefs", good, "{endpoint}");
    }
}

#[test]
fn a_policy_changes_clusters_and_no_route_and_the_most_specific_holds() {
    let policy = |name: &str, target: Value, limit: u32| {
        object(
            Kind::BackendTrafficPolicy,
            name,
            json!({"targetRefs": [target], "circuitBreaker": {"maxConnections": limit}}),
        )
    };
    let group = "gateway.networking.k8s.io";
    let on_gateway = json!({"group": group, "kind": "Gateway", "name": "web"});
    let on_route = json!({"group": group, "kind": "HTTPRoute", "name": "r"});
    let mut world = World::with([
        web(),
        service("v1", 80),
        to(json!([{"name": "v1", "port": 80}])),
        route("o", "web", &["o.org"], &[("/", "v1")]),
    ]);
    let limit = |world: &World, name: &str| {
        cluster(world, name).circuit_breaker.as_ref().and_then(|limits| limits.max_connections)
    };
    assert_eq!(limit(&world, "default/v1/80"), None);
    world.apply([policy("gw", on_gateway.clone(), 10)]);
    assert_eq!(limit(&world, "default/v1/80"), Some(10));
    let stats = world.apply([policy("gw", on_gateway.clone(), 11)]);
    assert_eq!(limit(&world, "default/v1/80"), Some(11));
    let routes = world.translator.outputs().route_statuses;
    assert_eq!(world.translator.graph().changes(routes).count(), 0);
    assert!(stats.runs < 10, "{stats:?}");

    world.apply([aged(policy("old", on_route.clone(), 20), 1), aged(policy("new", on_route, 30), 2)]);
    let names = world.clusters();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(limit(&world, &names[1]), Some(20));
    assert!(names[1].starts_with("default/v1/80~"));
    world.apply([aged(policy("old", json!({"group": group, "kind": "HTTPRoute", "name": "r"}), 21), 1)]);
    assert_eq!(world.clusters(), names, "an edit changes the cluster and not its name");

    let status = |world: &World, name: &str| {
        let key = api::ObjectKey::of(Kind::BackendTrafficPolicy, "default", name);
        let table = world.translator.outputs().policy_statuses;
        short(&world.translator.graph().get(table, &key).expect("a status").ancestors[0].conditions)
    };
    assert_eq!(status(&world, "old"), ["Accepted=True/Accepted"]);
    assert_eq!(status(&world, "new"), ["Accepted=False/Conflicted"]);
    world.apply([policy("gw", json!({"group": group, "kind": "HTTPRoute", "name": "nowhere"}), 1)]);
    assert_eq!(status(&world, "gw"), ["Accepted=False/TargetNotFound"]);
}

#[test]
fn a_slice_touches_its_set_and_nothing_else() {
    let slice = |address: &str| slice("v1", 9000, &[address]);
    let mut world = World::with([web(), service("v1", 80), to(json!([{"name": "v1", "port": 80}])), slice("10.0.0.1")]);
    let stats = world.apply([slice("10.0.0.2")]);
    assert!(stats.runs <= 4, "the slice, its set and how many are in that: {stats:?}");
    let outputs = world.translator.outputs();
    let changed: Vec<_> = outputs.endpoint_changes(world.translator.graph()).map(ToString::to_string).collect();
    assert_eq!(changed, ["default/v1/80"]);
    assert_eq!(outputs.cluster_changes(world.translator.graph()).count(), 0);
}

#[test]
fn a_service_without_endpoints_is_told_as_soon_as_a_route_needs_it_and_as_long_as_it_has_none() {
    let bare = object(Kind::Service, "bare", json!({"ports": [{"port": 80, "name": "http"}, {"port": 81}]}));
    let mut world = World::with([web(), bare]);
    assert_eq!(world.problems(), [""; 0], "nobody needs it");
    let check = |world: &World, expected: &str| match &*world.problems() {
        [told] => assert!(told.starts_with("warning: Service default/bare: ") && told.contains(expected), "{told}"),
        told => panic!("{expected}: {told:?}"),
    };
    let [http, other] = [80, 81].map(|port| json!({"name": "bare", "port": port}));
    world.apply([to(json!([http, other]))]);
    check(&world, "no EndpointSlice gives it endpoints");
    world.apply([slice("bare", 9000, &["10.0.0.1"])]);
    check(&world, "no EndpointSlice of it has a TCP port with the same name as its port 80");
    world.apply([to(json!([other]))]);
    assert_eq!(world.problems(), [""; 0]);
    world.apply([slice("bare", 9000, &[])]);
    check(&world, "no endpoint of port 81 is ready");
}

#[test]
fn selector_finds_no_endpoints_in_files_and_says_what_to_write() {
    let mut world = World::with([web(), service("cart", 80)]);
    let of_cart = |world: &World| {
        let problems = world.all_problems().into_iter();
        problems.filter(|problem| problem.contains("Service default/cart: ")).collect::<Vec<_>>()
    };
    assert_eq!(of_cart(&world), [""; 0]);
    world.apply([to(json!([{"name": "cart", "port": 80}]))]);
    let [warning] = &*of_cart(&world) else { panic!("{:?}", of_cart(&world)) };
    assert!(warning.starts_with("warning: ") && warning.contains("kubernetes.io/service-name: cart"), "{warning}");
    assert!(warning.contains("a Backend of gateway.envoyproxy.io"), "{warning}");
    world.apply([slice("cart", 9000, &["10.0.0.1"])]);
    assert_eq!(of_cart(&world), [""; 0]);
}

#[test]
fn endpoints_of_no_service_are_told_until_it_is_there() {
    let mut world = World::with([web(), slice("late", 9000, &["10.0.0.1"])]);
    let told = "warning: EndpointSlice default/late-1: metadata.labels: Service default/late does not exist, \
                so these endpoints get no requests";
    assert_eq!(world.problems(), [told]);
    let stats = world.apply([slice("late", 9000, &["10.0.0.2"])]);
    assert!(stats.runs <= 2, "an edit that leaves the name alone: {stats:?}");
    world.apply([service("late", 80)]);
    assert_eq!(world.problems(), [""; 0]);

    world.apply([object(Kind::EndpointSlice, "unlabelled", json!({}))]);
    assert!(world.problems()[0].contains("the label kubernetes.io/service-name is missing"), "{:?}", world.problems());
}

#[test]
fn affinity_and_distribution_of_a_used_service_are_warnings() {
    let with = |fields: Value| {
        let mut spec = json!({"ports": [{"port": 80}]});
        spec.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
        object(Kind::Service, "cart", spec)
    };
    let both = || with(json!({"sessionAffinity": "ClientIP", "trafficDistribution": "PreferClose"}));
    let mut world = World::with([web(), both(), slice("cart", 9000, &["10.0.0.1"])]);
    assert_eq!(world.problems(), [""; 0], "no route uses it");
    world.apply([to(json!([{"name": "cart", "port": 80}]))]);
    let [affinity, distribution] = &*world.problems() else { panic!("{:?}", world.problems()) };
    assert!(
        affinity.starts_with("warning: Service default/cart: spec.sessionAffinity: ClientIP is ignored"),
        "{affinity}"
    );
    assert!(
        distribution.starts_with("warning: Service default/cart: spec.trafficDistribution: it is"),
        "{distribution}"
    );
    world.apply([with(json!({"sessionAffinity": "None", "trafficDistribution": null}))]);
    assert_eq!(world.problems(), [""; 0]);
    world.apply([both(), slice("cart", 9000, &[])]);
    assert_eq!(world.problems().len(), 3, "and without endpoints: {:?}", world.problems());
}
