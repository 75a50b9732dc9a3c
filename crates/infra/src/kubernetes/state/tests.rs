//! Addresses and words, from objects as a server gives them.

use std::sync::Arc;

use ir::Infra;
use ir::infra::kubernetes::{KubernetesInfra, ServiceType};
use serde_json::{Value, json};

use super::super::object::tests::{infra, options, plain};
use super::super::object::{ObjectKind, objects};
use super::super::seen::{Raw, Seen};
use super::super::watch::{Event, News, Target, Told};
use super::super::world::World;
use super::super::{Pace, PodsState, Scope};
use super::state;
use crate::kubernetes::fleet::Fleet;
use crate::kubernetes::name::Owner;

/// What is told when the cluster has these objects of the fleet, each with something more, and this of its nodes.
fn told(infra: &Infra, has: &[(ObjectKind, Value)], nodes: Option<Event>) -> PodsState {
    let mut world = World::default();
    for (kind, more) in has {
        let wanted = objects(infra, &options()).into_iter().find(|wanted| wanted.kind == *kind);
        let mut object = wanted.unwrap().object.unwrap();
        patch::json_merge(&mut object, more);
        let raw: Raw = serde_json::from_value(object).unwrap();
        let (id, seen) = Seen::read(*kind, &raw, &options().namespace).unwrap();
        let event = Event::Objects(Told::Listed(vec![(id, seen.unwrap())]));
        world.take(News { target: Target { kind: Some(*kind), namespace: None }, event });
    }
    if let Some(event) = nodes {
        world.take(News { target: Target { kind: None, namespace: None }, event });
    }
    let mut fleet = Fleet::new(Owner::of(&infra.gateway), &Pace::default());
    fleet.plan(Some(Arc::new(infra.clone())), &options(), &Scope::All);
    state(&fleet, infra, &world)
}

fn of_type(service_type: ServiceType) -> Infra {
    let mut kubernetes = KubernetesInfra { mapped_ports: Vec::new(), ..plain() };
    kubernetes.service.service_type = service_type;
    Infra { ports: vec![80], ..infra("gw", kubernetes) }
}

fn service(more: Value) -> [(ObjectKind, Value); 1] {
    [(ObjectKind::Service, more)]
}

fn addresses(state: &PodsState) -> Vec<String> {
    state.addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn a_load_balancer_has_addresses_and_host_names() {
    let infra = of_type(ServiceType::LoadBalancer);
    let ingress = json!([{ "hostname": "b.example.org" }, { "ip": "192.0.2.2" }, { "hostname": "a.example.org" }]);
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    let state = told(&infra, &service(status), None);
    assert_eq!(addresses(&state), ["192.0.2.2:80"]);
    assert_eq!(state.hostnames, [Arc::from("a.example.org"), Arc::from("b.example.org")]);
    assert_eq!(state.unassigned, None);

    let state = told(&infra, &service(json!({})), None);
    assert!(state.unassigned.unwrap().contains("no load balancer has given the Service an address"));
    let state = told(&infra, &service(json!({ "spec": { "externalIPs": ["192.0.2.9"] } })), None);
    assert_eq!((addresses(&state), state.unassigned), (vec!["192.0.2.9:80".to_owned()], None));
    assert_eq!(told(&infra, &[], None).unassigned.as_deref(), Some("the Service is not there yet"));
}

#[test]
fn at_nodes_it_is_the_nodes_addresses_and_ports_external_ones_first() {
    let infra = of_type(ServiceType::NodePort);
    let spec = json!({ "spec": { "clusterIPs": ["10.0.0.1"], "ports": [{ "port": 80, "nodePort": 30_080 }] } });
    let node = |name: &str, addresses: Value| {
        let node = json!({ "metadata": { "name": name }, "status": { "addresses": addresses } });
        let node: Raw = serde_json::from_value(node).unwrap();
        (Arc::from(name), node.node_addresses())
    };
    let inside = json!({ "type": "InternalIP", "address": "10.1.0.1" });
    let outside = json!({ "type": "ExternalIP", "address": "192.0.2.1" });
    let name = json!({ "type": "Hostname", "address": "node" });
    let nodes = vec![node("a", json!([inside, outside, name])), node("b", json!([name, inside]))];
    let state = told(&infra, &service(spec.clone()), Some(Event::Nodes(Told::Listed(nodes))));
    assert_eq!(addresses(&state), ["10.1.0.1:30080", "192.0.2.1:30080"]);
    let state = told(&infra, &service(spec), Some(Event::Forbidden("nodes is forbidden".to_owned())));
    let words = state.unassigned.unwrap();
    assert!(words.contains("allow list and watch on nodes") && words.ends_with("nodes is forbidden)"), "{words}");
}

#[test]
fn an_address_that_is_asked_for_is_missing_until_it_is_there() {
    let mut infra = of_type(ServiceType::ClusterIp);
    infra.addresses = vec!["10.0.0.7".parse().unwrap()];
    let at = |address: &str| told(&infra, &service(json!({ "spec": { "clusterIPs": [address] } })), None);
    assert_eq!(at("10.0.0.7").missing_addresses, []);
    let other = at("10.0.0.8");
    assert_eq!(other.missing_addresses[0].0, infra.addresses[0]);
    assert!(other.missing_addresses[0].1.ends_with("the Service has 10.0.0.8"), "{other:?}");
    let headless = at("None");
    assert!(headless.missing_addresses[0].1.ends_with("the Service has none") && headless.unassigned.is_none());
}

#[test]
fn an_address_in_the_cluster_is_there_whatever_the_type() {
    let mut infra = of_type(ServiceType::LoadBalancer);
    infra.kubernetes.as_mut().unwrap().cluster_addresses = vec!["10.0.0.7".parse().unwrap()];
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.2" }] } });
    let at =
        |address: &str| told(&infra, &service(json!({ "spec": { "clusterIPs": [address] }, "status": ingress })), None);
    let found = at("10.0.0.7");
    assert_eq!((addresses(&found), &*found.missing_addresses), (vec!["192.0.2.2:80".to_owned()], &[][..]));
    assert_eq!(found.cluster_addresses, ["10.0.0.7".parse::<std::net::IpAddr>().unwrap()]);
    let other = at("10.0.0.8").missing_addresses;
    assert!(other[0].1.ends_with("the Service has 10.0.0.8, 192.0.2.2"), "{other:?}");
}

#[test]
fn what_keeps_pods_from_being_made_is_told() {
    let infra = of_type(ServiceType::ClusterIp);
    let deployment = |more: Value| told(&infra, &[(ObjectKind::Deployment, more)], None);
    let condition = json!({ "type": "ReplicaFailure", "status": "True", "message": "exceeded quota" });
    let failing = deployment(json!({ "status": { "conditions": [condition] } }));
    let problem = failing.problem.unwrap();
    assert!(problem.starts_with("Pods of Deployment shop/gw-") && problem.ends_with("cannot be made: exceeded quota"));
    assert!(!failing.ready);
    let serving = deployment(json!({ "status": { "availableReplicas": 1 } }));
    assert!(serving.ready && serving.problem.is_none());
    let off = deployment(json!({ "spec": { "replicas": 0 } }));
    assert!(off.problem.unwrap().contains("has 0 replicas"));
}

#[test]
fn an_object_of_another_gateway_says_nothing_of_ours() {
    let infra = of_type(ServiceType::ClusterIp);
    let owner =
        json!([{ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "other", "uid": "u-2" }]);
    let owned = json!({ "metadata": { "ownerReferences": owner } });
    let mut theirs = json!({ "spec": { "clusterIPs": ["10.0.0.1"] } });
    patch::json_merge(&mut theirs, &owned);
    assert_eq!(addresses(&told(&infra, &service(theirs), None)), [""; 0]);
}
