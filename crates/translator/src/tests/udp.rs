//! UDP: listeners that take datagrams, whose cluster has the endpoints of all backends of the first route.

use serde_json::{Value, json};

use crate::testing::{World, aged, gateway, object, short, with_meta};
use api::{Kind, Object, ObjectKey, ObjectMeta};
use ir::EndpointSetName;
use store::{ClusterState, FactKey};

fn route(name: &str, backends: Value) -> Object {
    object(Kind::UdpRoute, name, json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": backends}]}))
}

/// A Service with a port for datagrams.
fn service(name: &str, port: u16) -> Object {
    object(Kind::Service, name, json!({"ports": [{"port": port, "protocol": "UDP"}]}))
}

/// Its only slice.
fn slice(service: &str, port: u16, addresses: &[&str]) -> Object {
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    let spec = json!({"endpoints": endpoints, "ports": [{"port": port, "protocol": "UDP"}]});
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::EndpointSlice, "default", &format!("{service}-1")));
    meta.labels = [("kubernetes.io/service-name", service)].into_iter().collect();
    with_meta(Kind::EndpointSlice, meta, spec)
}

fn udp(port: u16) -> Value {
    json!({"name": format!("u{port}"), "port": port, "protocol": "UDP"})
}

/// `weight: address` of each endpoint.
fn shares(world: &World, name: &str) -> Vec<String> {
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    let set = outputs.endpoint_set(graph, &EndpointSetName::from(name)).expect("a set");
    let endpoint =
        |one: &ir::Endpoint| format!("{}: {:?}", one.weight.map_or(1, std::num::NonZeroU32::get), one.address);
    set.localities.iter().flat_map(|locality| locality.endpoints.iter().map(endpoint)).collect()
}

#[test]
fn datagrams_go_to_the_backends_of_the_first_route_by_weight() {
    let mut world = World::with([
        gateway("web", json!([udp(53), {"name": "t", "port": 53, "protocol": "TCP"}])),
        service("a", 53),
        slice("a", 5353, &["10.0.0.1", "10.0.0.2"]),
        service("b", 53),
        slice("b", 5353, &["10.0.0.3"]),
    ]);
    let listeners = world.translator.graph().iter(world.translator.outputs().listeners);
    let mut named: Vec<_> = listeners.map(|(key, listener)| (key.name.to_string(), listener.udp.is_some())).collect();
    named.sort();
    assert_eq!(named, [("default/web/53".to_owned(), false), ("default/web/53/udp".to_owned(), true)]);
    assert_eq!(shares(&world, "default/web/53/udp"), [""; 0], "without a route nothing gets anything");
    let both = json!([{"name": "a", "port": 53, "weight": 7}, {"name": "b", "port": 53, "weight": 3}]);
    world.apply([aged(route("first", both), 1), aged(route("second", json!([{"name": "b", "port": 53}])), 2)]);
    let of = |last: u8| format!("Ip(10.0.0.{last}, 5353)");
    assert_eq!(
        shares(&world, "default/web/53/udp"),
        [format!("7: {}", of(1)), format!("7: {}", of(2)), format!("6: {}", of(3))]
    );
    assert_eq!(world.listener("web", "u53").attached_routes, 2);
    for name in ["first", "second"] {
        assert_eq!(world.status(Kind::UdpRoute, name)[0], "Accepted=True/Accepted");
    }
    let told = |world: &World, of: &str| {
        let problems = world.problems().into_iter();
        problems.filter(|problem| problem.contains("comes first by name") && problem.contains(of)).collect::<Vec<_>>()
    };
    let (first, second) =
        (told(&world, "UDPRoute default/first is older"), told(&world, "UDPRoute default/second is older"));
    assert_eq!((first.len(), second.len()), (1, 0), "{first:?}");
    assert!(first[0].contains("second"), "{first:?}");
    assert_eq!(world.clusters(), ["default/web/53/udp"]);
    // endpoints move, and one backend has none: its share is dropped
    world.apply([slice("a", 5353, &["10.0.0.9"])]);
    world.apply([slice("b", 5353, &[])]);
    assert_eq!(shares(&world, "default/web/53/udp"), [format!("7: {}", of(9)), "3: Ip(127.0.0.1, 9)".to_owned()]);
    world.delete(Kind::UdpRoute, "default", "first");
    assert_eq!(shares(&world, "default/web/53/udp"), ["1: Ip(127.0.0.1, 9)"]);
    assert_eq!(told(&world, ""), [""; 0]);
}

#[test]
fn what_a_route_cannot_do_drops_its_share_and_is_told() {
    let world = World::with([
        gateway("web", json!([udp(53)])),
        service("a", 53),
        slice("a", 5353, &["10.0.0.1"]),
        route("r", json!([{"name": "a", "port": 53}, {"name": "nowhere", "port": 53}])),
    ]);
    assert_eq!(shares(&world, "default/web/53/udp"), ["1: Ip(10.0.0.1, 5353)", "1: Ip(127.0.0.1, 9)"]);
    assert_eq!(world.status(Kind::UdpRoute, "r")[1], "ResolvedRefs=False/BackendNotFound");
}

#[test]
fn a_port_of_tcp_is_none_for_datagrams_and_one_number_can_be_both() {
    let both = json!({"ports": [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "s", "port": 9, "protocol": "SCTP"}]});
    let ports = json!([{"name": "t", "port": 5300}, {"name": "u", "port": 5301, "protocol": "UDP"}]);
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::EndpointSlice, "default", "dns-1"));
    meta.labels = [("kubernetes.io/service-name", "dns")].into_iter().collect();
    let slice = json!({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": ports});
    let backends = json!([{"name": "dns", "port": 53}, {"name": "web", "port": 80}, {"name": "dns", "port": 9}]);
    let world = World::with([
        gateway("web", json!([udp(53)])),
        object(Kind::Service, "dns", both),
        with_meta(Kind::EndpointSlice, meta, slice),
        crate::testing::service("web", 80),
        route("r", backends),
    ]);
    assert_eq!(shares(&world, "default/web/53/udp"), ["1: Ip(10.0.0.1, 5301)", "2: Ip(127.0.0.1, 9)"]);
    let texts: Vec<String> = world.problems().into_iter().filter(|text| text.contains("port")).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("port 80 of Service default/web is for TCP, not UDP"), "{texts:?}");
    assert!(texts[1].contains("port 9 of Service default/dns is for SCTP, not UDP"), "{texts:?}");
}

#[test]
fn a_udp_port_is_one_listeners_and_none_of_tcp() {
    let world = World::with([gateway(
        "web",
        json!([udp(53), {"name": "twin", "port": 53, "protocol": "UDP"}, {"name": "h", "port": 53, "protocol": "HTTP"}]),
    )]);
    let accepted = |name: &str| short(&world.listener("web", name).conditions)[0].clone();
    assert_eq!(accepted("u53"), "Accepted=False/ProtocolConflict");
    assert_eq!(accepted("twin"), "Accepted=False/ProtocolConflict");
    assert_eq!(accepted("h"), "Accepted=True/Accepted");
}

#[test]
fn a_backend_that_only_drains_keeps_its_share() {
    let mut draining = slice("b", 5353, &["10.0.0.2"]);
    if let Object::EndpointSlice(slice) = &mut draining {
        let spec = json!({
            "endpoints": [{"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}}],
            "ports": [{"port": 5353, "protocol": "UDP"}],
        });
        *slice = match with_meta(Kind::EndpointSlice, slice.meta.clone(), spec) {
            Object::EndpointSlice(slice) => slice,
            other => panic!("{other:?}"),
        };
    }
    let world = World::with([
        gateway("web", json!([udp(53)])),
        service("a", 53),
        slice("a", 5353, &["10.0.0.1"]),
        service("b", 53),
        draining,
        route("r", json!([{"name": "a", "port": 53}, {"name": "b", "port": 53}])),
    ]);
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    let set = outputs.endpoint_set(graph, &EndpointSetName::from("default/web/53/udp")).expect("a set");
    let endpoints: Vec<_> = set.localities.iter().flat_map(|locality| &locality.endpoints).collect();
    let takes = |endpoint: &&ir::Endpoint| endpoint.health == ir::cluster::Health::Healthy && endpoint.weight.is_none();
    assert!(endpoints.len() == 2 && endpoints.iter().all(takes), "{set:?}");
}

#[test]
fn an_endpoint_that_another_service_gives_is_the_same_one() {
    let mut world = World::with([
        gateway("web", json!([udp(53)])),
        service("a", 53),
        slice("a", 5353, &["10.0.0.1"]),
        service("b", 53),
        slice("b", 5353, &["10.0.0.1", "10.0.0.2"]),
        route("r", json!([{"name": "a", "port": 53}])),
    ]);
    let set = |world: &World| {
        let outputs = world.translator.outputs();
        outputs.endpoint_set(world.translator.graph(), &EndpointSetName::from("default/web/53/udp")).expect("a set")
    };
    let of_a = set(&world);
    world.apply([slice("b", 5353, &["10.0.0.1"]), route("r", json!([{"name": "b", "port": 53}]))]);
    assert_eq!(set(&world), of_a);
    let both = json!([{"name": "a", "port": 53, "weight": 3}, {"name": "b", "port": 53}]);
    world.apply([slice("b", 5353, &["10.0.0.1", "10.0.0.2"]), route("r", both)]);
    assert_eq!(shares(&world, "default/web/53/udp"), ["7: Ip(10.0.0.1, 5353)", "1: Ip(10.0.0.2, 5353)"]);
}

#[test]
fn sockets_of_the_file_system_take_no_datagrams() {
    let unix = json!({"endpoints": [{"unix": {"path": "/run/dns.sock"}}]});
    let reference = json!([{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "ext"}]);
    let world =
        World::with([gateway("web", json!([udp(53)])), object(Kind::Backend, "ext", unix), route("r", reference)]);
    assert_eq!(shares(&world, "default/web/53/udp"), ["1: Ip(127.0.0.1, 9)"]);
    assert_eq!(world.status(Kind::UdpRoute, "r")[1], "ResolvedRefs=False/UnsupportedProtocol");
}

#[test]
fn what_is_to_be_encrypted_takes_no_datagrams() {
    let endpoints = json!([{"ip": {"address": "10.0.0.1", "port": 53}}]);
    let backend = json!({"endpoints": endpoints, "tls": {"wellKnownCACertificates": "System", "sni": "a.example"}});
    let reference = json!([{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "ext"}]);
    let world =
        World::with([gateway("web", json!([udp(53)])), object(Kind::Backend, "ext", backend), route("r", reference)]);
    assert_eq!(world.status(Kind::UdpRoute, "r")[1], "ResolvedRefs=False/UnsupportedProtocol");
}

#[test]
fn nobody_listens_where_datagrams_are_dropped() {
    let world = World::with([gateway("web", json!([udp(9), udp(53)]))]);
    assert_eq!(short(&world.listener("web", "u9").conditions)[0], "Accepted=False/PortUnavailable");
    assert_eq!(short(&world.listener("web", "u53").conditions)[0], "Accepted=True/Accepted");
}

#[test]
fn a_listener_whose_cluster_is_refused_is_not_programmed() {
    let mut world = World::with([gateway("web", json!([udp(53)])), service("a", 53), slice("a", 5353, &["10.0.0.1"])]);
    world.apply([route("r", json!([{"name": "a", "port": 53}]))]);
    let fact = FactKey { fleet: "default/web".into(), name: "default/web/53/udp".into() };
    let (store, graph) = world.translator.store();
    graph.set(store.tables().cluster_state, fact, ClusterState::Refused("no such thing".into()));
    world.translator.tick();
    let conditions = world.listener("web", "u53").conditions;
    let programmed = conditions.iter().find(|one| &*one.condition_type == "Programmed").expect("a condition");
    assert!(programmed.message.contains("no such thing"), "{programmed:?}");
}

#[test]
fn the_policy_of_a_route_says_how_many_clients_its_listener_serves() {
    let mut world = World::with([gateway("web", json!([udp(53)])), service("a", 53), slice("a", 5353, &["10.0.0.1"])]);
    world.apply([route("r", json!([{"name": "a", "port": 53}]))]);
    let limit = |world: &World| {
        let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
        let runtime = graph.get(outputs.runtimes, &ir::FleetName("default/web".into())).expect("a fleet's");
        let (_, cluster) = outputs.clusters(graph).next().expect("a cluster");
        let of_cluster = cluster.circuit_breaker.as_ref().and_then(|breaker| breaker.max_connections);
        (of_cluster, runtime.max_connections.get(&cluster.name).copied())
    };
    assert_eq!(limit(&world), (Some(16_384), None));
    let target = json!([{"group": "gateway.networking.k8s.io", "kind": "UDPRoute", "name": "r"}]);
    let policy = |most: u32| {
        object(
            Kind::BackendTrafficPolicy,
            "p",
            json!({"targetRefs": target, "circuitBreaker": {"maxConnections": most}}),
        )
    };
    world.apply([policy(100)]);
    assert_eq!(
        limit(&world),
        (Some(16_384), Some(100)),
        "the cluster stays as it is, and with it the answers under way"
    );
    world.apply([policy(1_000_000)]);
    assert_eq!(limit(&world), (Some(16_384), Some(131_072)));
    world.delete(Kind::BackendTrafficPolicy, "default", "p");
    assert_eq!(limit(&world), (Some(16_384), None));
}
