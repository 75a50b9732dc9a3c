//! Addresses of Gateways: in a cluster what their Service is asked for, and what is told of it (GEP-5093); on this machine what is bound.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::Kind;
use ir::infra::kubernetes::ServiceType;
use serde_json::{Value, json};
use store::{Change, Definitions, GatewayApi, ListenerState, ProxyFacts};

use crate::testing::{World, object, short};

const FLEET: &str = "default/web";

fn gateway(addresses: &Value) -> api::Object {
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    object(Kind::Gateway, "web", json!({"gatewayClassName": "eg", "listeners": listeners, "addresses": addresses}))
}

/// A cluster with definitions of this release and channel.
fn world(version: &str, is_experimental: bool) -> World {
    let mut world = World::in_cluster();
    let gateway_api = Some(GatewayApi { versions: [version.into()].into(), is_experimental });
    let kinds = [Kind::Gateway, Kind::GatewayClass].into();
    world.change(vec![Change::Definitions(Arc::new(Definitions { kinds, gateway_api }))]);
    let class = json!({"controllerName": api::envoy_gateway::DEFAULT_CONTROLLER_NAME});
    world.apply([object(Kind::GatewayClass, "eg", class)]);
    world
}

fn told(world: &mut World, facts: ProxyFacts) {
    let tables = world.translator.stored().tables();
    let (_, graph) = world.translator.store();
    graph.set(tables.listener_state, store::FactKey::new(FLEET, "default/web/80"), ListenerState::Accepted);
    graph.set(tables.proxies, FLEET.into(), Arc::new(ProxyFacts { ready: true, ..facts }));
    world.translator.tick();
}

fn balanced(outside: &[&str], inside: &[&str]) -> ProxyFacts {
    let ip = |text: &&str| text.parse::<IpAddr>().expect("an address");
    ProxyFacts {
        addresses: outside.iter().map(|text| SocketAddr::new(ip(text), 80)).collect(),
        cluster_addresses: inside.iter().map(ip).collect(),
        ..ProxyFacts::default()
    }
}

fn addresses(world: &World) -> Value {
    serde_json::to_value(world.gateway_status("web").addresses).expect("JSON")
}

fn conditions(world: &World) -> Vec<String> {
    short(&world.gateway_status("web").conditions)
}

#[test]
fn who_asks_for_the_cluster_only_is_not_reached_from_outside() {
    let mut world = world("v1.7.0", true);
    let outputs = world.translator.outputs();
    let infra = |world: &World| {
        let (_, infra) = world.translator.graph().iter(outputs.infra).next().expect("a fleet");
        let kubernetes = infra.kubernetes.clone().expect("in a cluster");
        (kubernetes.service.service_type, infra.addresses.clone(), kubernetes.cluster_addresses)
    };
    world.apply([gateway(&json!([{"routability": "Cluster", "value": "10.96.0.7"}]))]);
    let inside: IpAddr = "10.96.0.7".parse().expect("an address");
    assert_eq!(infra(&world), (ServiceType::ClusterIp, vec![], vec![inside]));
    world.apply([gateway(&json!([{"routability": "Cluster"}, {"value": "192.0.2.1"}]))]);
    let outside: IpAddr = "192.0.2.1".parse().expect("an address");
    assert_eq!(infra(&world), (ServiceType::LoadBalancer, vec![outside], vec![]));

    // what would lead others to it is left out, what else the Service shall have is not
    let service = json!({"type": "LoadBalancer", "externalIPs": ["192.0.2.9"], "loadBalancerClass": "example.com/a",
        "externalTrafficPolicy": "Cluster", "sessionAffinity": "ClientIP"});
    let provider = json!({"type": "Kubernetes", "kubernetes": {"envoyService": service}});
    let parameters = json!({"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "p"});
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let spec = json!({"gatewayClassName": "eg", "listeners": listeners, "addresses": [{"routability": "Cluster"}],
        "infrastructure": {"parametersRef": parameters}});
    world.apply([object(Kind::EnvoyProxy, "p", json!({"provider": provider})), object(Kind::Gateway, "web", spec)]);
    let (_, infra) = world.translator.graph().iter(outputs.infra).next().expect("a fleet");
    let service = &infra.kubernetes.as_ref().expect("in a cluster").service;
    assert_eq!(service.service_type, ServiceType::ClusterIp);
    assert_eq!(service.spec.keys().map(|field| &**field).collect::<Vec<_>>(), ["sessionAffinity"]);
}

#[test]
fn every_address_says_from_where_it_is_reachable() {
    let mut world = world("v1.7.0", true);
    world.apply([gateway(&json!([]))]);
    assert_eq!(conditions(&world).len(), 3, "nothing is told of addresses before something is known");
    told(&mut world, balanced(&["203.0.113.10"], &["10.96.0.42"]));
    assert_eq!(addresses(&world), json!([{"type": "IPAddress", "value": "203.0.113.10", "routability": ""}]));
    assert_eq!(conditions(&world)[3], "AddressesAssigned=True/AddressesAssigned");
    told(&mut world, balanced(&["10.96.0.42"], &["10.96.0.42"]));
    assert_eq!(addresses(&world), json!([{"type": "IPAddress", "value": "10.96.0.42", "routability": "Cluster"}]));

    world.apply([gateway(&json!([{}, {"routability": "Cluster"}]))]);
    told(&mut world, balanced(&["203.0.113.10", "203.0.113.11"], &["10.96.0.42"]));
    let both = json!([
        {"type": "IPAddress", "value": "10.96.0.42", "routability": "Cluster"},
        {"type": "IPAddress", "value": "203.0.113.10", "routability": ""},
    ]);
    assert_eq!(addresses(&world), both);
    assert_eq!(conditions(&world)[3], "AddressesAssigned=True/AddressesAssigned");
    let host = ProxyFacts { hostnames: vec!["lb.example.org".into()], ..balanced(&[], &["10.96.0.42"]) };
    told(&mut world, host);
    assert_eq!(addresses(&world).as_array().expect("a list").len(), 1, "a name is no address");
    assert_eq!(conditions(&world)[3], "AddressesAssigned=False/PartiallyAssigned");
    assert_eq!(conditions(&world)[1], "Programmed=True/Programmed");
    let problems = world.problems();
    assert!(problems.iter().any(|problem| problem.contains("spec.addresses[0]") && problem.contains("lb.example.org")));

    world.apply([gateway(&json!([{"routability": "testing.x-k8s.io/sentinel"}]))]);
    told(&mut world, balanced(&["203.0.113.10"], &["10.96.0.42"]));
    assert_eq!(addresses(&world)[0]["routability"], "testing.x-k8s.io/sentinel");
}

#[test]
fn an_entry_that_cannot_be_had_costs_the_others_nothing() {
    let mut world = world("v1.7.0", true);
    let outside = json!({"routability": "Cluster", "value": "192.0.2.1"});
    let missing = || {
        let missing = vec![("192.0.2.1".parse().expect("an address"), "the cluster has not given it".into())];
        ProxyFacts { missing_addresses: missing, ..balanced(&["203.0.113.10"], &["10.96.0.42"]) }
    };
    world.apply([gateway(&json!([{}, outside]))]);
    told(&mut world, missing());
    assert_eq!(conditions(&world)[1], "Programmed=True/Programmed");
    assert_eq!(conditions(&world)[3], "AddressesAssigned=False/PartiallyAssigned");
    let message = world.gateway_status("web").conditions[3].message.to_string();
    assert_eq!(message, "spec.addresses[1]: the cluster has not given it");
    assert_eq!(addresses(&world).as_array().expect("a list").len(), 1);

    world.apply([gateway(&json!([outside]))]);
    told(&mut world, missing());
    assert_eq!(conditions(&world)[1], "Programmed=False/AddressNotAssigned");
    assert_eq!(conditions(&world)[3], "AddressesAssigned=False/NotAssigned");
    assert_eq!(addresses(&world), json!([]));

    world.apply([gateway(&json!([{"routability": "example.com/Wan"}]))]);
    assert_eq!(conditions(&world)[1], "Programmed=False/AddressNotAssigned");
    assert_eq!(conditions(&world)[3], "AddressesAssigned=False/NotAssigned");
    let problem = world.problems().into_iter().find(|problem| problem.contains("spec.addresses[0].routability"));
    assert!(problem.expect("told").contains("\"example.com/Wan\" is not known here"));
}

#[test]
fn where_the_api_has_no_field_for_it_nothing_is_written_to_it() {
    for (version, is_experimental) in [("v1.7.0", false), ("v1.6.3", true)] {
        let mut world = world(version, is_experimental);
        world.apply([gateway(&json!([]))]);
        told(&mut world, balanced(&["10.96.0.42"], &["10.96.0.42"]));
        assert_eq!(addresses(&world), json!([{"type": "IPAddress", "value": "10.96.0.42"}]));
    }
}

#[test]
fn a_listener_on_this_machine_tells_of_each_of_its_addresses() {
    let mut world = World::new();
    world.apply([gateway(&json!([{"value": "127.0.0.1"}, {"value": "127.0.0.2"}]))]);
    let both = ["127.0.0.1", "127.0.0.2"];
    let mut told = |states: [Option<&str>; 2], missing: &[&str]| {
        let tables = world.translator.stored().tables();
        let present: Vec<&str> = both.into_iter().filter(|address| !missing.contains(address)).collect();
        let missing = missing.iter().map(|text| (text.parse().expect("an address"), "no interface has it".into()));
        let facts = ProxyFacts { ready: true, missing_addresses: missing.collect(), ..balanced(&present, &[]) };
        let (_, graph) = world.translator.store();
        graph.set(tables.proxies, FLEET.into(), Arc::new(facts));
        for (address, state) in both.into_iter().zip(states) {
            let key = store::FactKey::new(FLEET, format!("default/web/80/{address}"));
            match state {
                None => _ = graph.remove(tables.listener_state, &key),
                Some("") => graph.set(tables.listener_state, key, ListenerState::Accepted),
                Some(words) => graph.set(tables.listener_state, key, ListenerState::Refused(words.into())),
            }
        }
        world.translator.tick();
        let outputs = world.translator.outputs();
        let listeners = world.translator.graph().iter(outputs.listeners).map(|(key, _)| key.name.to_string());
        let status = world.gateway_status("web");
        let condition = |conditions: &[api::status::Condition]| {
            let programmed =
                conditions.iter().find(|condition| &*condition.condition_type == "Programmed").expect("a condition");
            format!("{}/{}: {}", programmed.status, programmed.reason, programmed.message)
        };
        let gateway = condition(&status.conditions);
        (listeners.collect::<Vec<_>>(), gateway, condition(&status.listeners[0].conditions))
    };
    let both = both.map(|address| format!("default/web/80/{address}"));
    let (listeners, gateway, listener) = told([Some(""), Some("")], &[]);
    assert_eq!(listeners, both);
    assert!(gateway.starts_with("True/Programmed"), "{gateway}");
    assert_eq!(listener, "True/Programmed: every proxy has acknowledged it");

    let (_, gateway, listener) = told([Some(""), Some("cannot bind")], &[]);
    assert!(gateway.starts_with("True/Programmed"), "{gateway}");
    let words = "proxies have acknowledged it at 127.0.0.1; the proxy refused it at 127.0.0.2: cannot bind";
    assert_eq!(listener, format!("True/Programmed: {words}"));
    let (_, _, listener) = told([None, Some("")], &[]);
    let words = "proxies have acknowledged it at 127.0.0.2; no proxy has acknowledged it at 127.0.0.1 yet";
    assert_eq!(listener, format!("True/Programmed: {words}"));
    let (_, gateway, listener) = told([None, Some("cannot bind")], &[]);
    assert!(gateway.starts_with("False/Pending"), "{gateway}");
    assert_eq!(listener, "False/Invalid: the proxy refused it at 127.0.0.2: cannot bind");
    let (_, _, listener) = told([Some("in use"), Some("cannot bind")], &[]);
    let words = "the proxy refused it at 127.0.0.1: in use; the proxy refused it at 127.0.0.2: cannot bind";
    assert_eq!(listener, format!("False/Invalid: {words}"));

    // It is not bound where its address is not there, and asked for no more.
    let (listeners, _, listener) = told([Some(""), None], &["127.0.0.2"]);
    assert_eq!(listeners, both[..1]);
    assert_eq!(listener, "True/Programmed: every proxy has acknowledged it");
    let (_, gateway, listener) = told([Some("cannot bind"), None], &["127.0.0.2"]);
    assert!(gateway.starts_with("False/AddressNotUsable"), "{gateway}");
    assert_eq!(listener, "False/Invalid: the proxy refused it: cannot bind");
    let (listeners, gateway, listener) = told([None, None], &["127.0.0.1", "127.0.0.2"]);
    assert_eq!(listeners, Vec::<String>::new());
    assert!(gateway.starts_with("False/AddressNotAssigned"), "{gateway}");
    assert_eq!(listener, "False/Pending: none of its addresses is on this machine");
}

#[test]
fn operator_narrows_labels_and_annotations_of_what_is_made() {
    let mut world = world("v1.7.0", true);
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let marks = json!({"app": "echo", "team": "a", "example.com/x": "1"});
    let infrastructure = json!({"labels": marks, "annotations": marks});
    world.apply([object(
        Kind::Gateway,
        "web",
        json!({"gatewayClassName": "eg", "listeners": listeners, "infrastructure": infrastructure}),
    )]);
    let outputs = world.translator.outputs();
    let carried = |world: &World| {
        let (_, infra) = world.translator.graph().iter(outputs.infra).next().expect("a fleet");
        let kubernetes = infra.kubernetes.as_ref().expect("in a cluster");
        let names =
            |map: &std::collections::BTreeMap<Arc<str>, Arc<str>>| map.keys().cloned().collect::<Vec<_>>().join(" ");
        (names(&kubernetes.labels), names(&kubernetes.annotations))
    };
    let all = "app example.com/x team".to_owned();
    assert_eq!(carried(&world), (all.clone(), all.clone()));
    let allow = |lists: Value| {
        object(Kind::EnvoyGateway, "own", json!({"provider": {"type": "Kubernetes", "kubernetes": {"deploy": lists}}}))
    };
    world.apply([allow(json!({"allowedLabels": ["team", "example.com/"]}))]);
    assert_eq!(carried(&world), ("example.com/x team".to_owned(), all));
    let of_labels =
        |world: &World| world.problems().iter().filter(|problem| problem.contains("deploy.allowedLabels")).count();
    assert_eq!(of_labels(&world), 1, "{:?}", world.problems());
    world.apply([allow(json!({"allowedLabels": [], "allowedAnnotations": ["example.com"]}))]);
    assert_eq!(carried(&world), (String::new(), String::new()), "a name without / is no prefix");
}
