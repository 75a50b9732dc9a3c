//! That all is made, changed and removed, and what is told of it.

use std::net::IpAddr;

use ir::infra::kubernetes::{Extra, ServiceType};
use serde_json::json;
use tests::wait;

use crate::harness::Namespace;
use crate::stage::{Stage, fleet, name, settings};

/// Everything that is made for a Gateway, as kubectl names it.
const ALL: &str = "serviceaccounts,configmaps,services,deployments,daemonsets,hpa,pdb";

fn left(namespace: &Namespace, gateway: &str) -> String {
    let selector = format!("gateway.networking.k8s.io/gateway-name={gateway}");
    namespace.run(&["get", ALL, "--selector", &selector, "--output=name"])
}

#[test]
fn a_fleet_gets_its_objects_and_they_follow_it() {
    let namespace = Namespace::make("making");
    let mut stage = Stage::new(&namespace.lab, "making", &[]);
    let mut gateway = fleet("making", "gw");
    settings(&mut gateway).disruption_budget =
        Some(Extra { spec: [("minAvailable".into(), json!(0).into())].into(), ..Extra::default() });
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let address = stage.until("an address", &gateway.fleet, |state| {
        assert!(state.missing_addresses.is_empty() && state.faults.is_empty());
        state.unassigned.is_none().then(|| state.addresses[0])
    });
    assert!(address.to_string().starts_with("198.18.0.") && address.port() == 80, "{address}");
    wait::until("all of its objects", || (left(&namespace, "gw").lines().count() == 5).then_some(())).unwrap();

    gateway.ports = vec![80, 8443];
    settings(&mut gateway).workload.replicas = Some(2);
    settings(&mut gateway).disruption_budget = None;
    stage.want([&gateway]);
    let name = name(&gateway);
    namespace.until("two replicas", &format!("deployment/{name}"), |found| {
        (found.pointer("/status/availableReplicas")? == 2).then_some(())
    });
    namespace.until("the port", &format!("service/{name}"), |found| {
        (found.pointer("/spec/ports/1/port")? == 8443).then_some(())
    });
    wait::until("no budget", || left(&namespace, "gw").lines().all(|line| !line.contains("budget")).then_some(()))
        .unwrap();

    stage.want([]);
    stage.until_gone(&gateway.fleet);
    assert_eq!(left(&namespace, "gw"), "");
}

#[test]
fn a_gateway_that_cannot_be_served_now_keeps_what_it_has_also_over_a_restart() {
    let namespace = Namespace::make("held");
    let mut stage = Stage::new(&namespace.lab, "held", &[]);
    let (mut gateway, other) = (fleet("held", "gw"), fleet("held", "other"));
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    let service = |namespace: &Namespace| {
        namespace.get(&format!("service/{}", name(&fleet("held", "gw")))).unwrap()["metadata"]["uid"].clone()
    };
    let before = service(&namespace);
    gateway.ports.clear();
    stage.want([&gateway, &other]);
    stage.until_ready(&other.fleet);
    assert_eq!(left(&namespace, "gw").lines().count(), 4);
    stage.end();
    let mut stage = Stage::new(&namespace.lab, "held", &[]);
    stage.want([&gateway]);
    wait::until("the other is gone", || left(&namespace, "other").is_empty().then_some(())).unwrap();
    assert_eq!(left(&namespace, "gw").lines().count(), 4);
    gateway.ports = vec![80];
    stage.want([&gateway]);
    stage.until_ready(&gateway.fleet);
    assert_eq!(service(&namespace), before);
}

#[test]
fn authorities_that_change_reach_every_fleet_without_new_pods() {
    let namespace = Namespace::make("authorities");
    let mut stage = Stage::new(&namespace.lab, "authorities", &["authorities"]);
    let fleets = [fleet("authorities", "one"), fleet("authorities", "two")];
    stage.want(&fleets);
    fleets.iter().for_each(|gateway| stage.until_ready(&gateway.fleet));
    let generation =
        |name: &str| namespace.get(&format!("deployment/{name}")).unwrap()["metadata"]["generation"].clone();
    let before = fleets.each_ref().map(|gateway| generation(&name(gateway)));
    let options =
        infra::kubernetes::ClusterOptions { authorities: "ANOTHER".into(), ..(**stage.cluster.borrow()).clone() };
    stage.cluster.send_replace(options.into());
    for gateway in &fleets {
        let object = format!("configmap/{}", name(gateway));
        namespace.until("the authority", &object, |found| found["data"].to_string().contains("ANOTHER").then_some(()));
    }
    assert_eq!(fleets.each_ref().map(|gateway| generation(&name(gateway))), before);
}

#[test]
fn who_does_not_lead_tells_and_writes_nothing() {
    let namespace = Namespace::make("following");
    let mut leader = Stage::new(&namespace.lab, "following", &["following"]);
    let mut follower = Stage::start(&namespace.lab, "following", &["following"], false);
    let gateway = fleet("following", "gw");
    follower.want([&gateway]);
    follower.until("the lack", &gateway.fleet, |state| state.unassigned.clone());
    assert_eq!(left(&namespace, "gw"), "");
    leader.want([&gateway]);
    leader.until_ready(&gateway.fleet);
    follower.until_ready(&gateway.fleet);
    assert_eq!(follower.until("an address", &gateway.fleet, |state| state.addresses.first().copied()).port(), 80);

    // the lead goes over; what is wanted meanwhile comes with it
    leader.leading.send_replace(false);
    let other = fleet("following", "other");
    leader.want([&gateway, &other]);
    leader.until("the lack", &other.fleet, |state| state.unassigned.clone());
    assert_eq!(left(&namespace, "other"), "");
    follower.want([&other]);
    follower.leading.send_replace(true);
    follower.until_ready(&other.fleet);
    follower.until_gone(&gateway.fleet);
    assert_eq!(left(&namespace, "gw"), "");
}

#[test]
fn addresses_are_those_of_the_services_type() {
    let namespace = Namespace::make("addresses");
    let mut stage = Stage::new(&namespace.lab, "addresses", &["addresses"]);
    let of_type = |name: &str, service_type, addresses: &[&str]| {
        let mut gateway = fleet("addresses", name);
        settings(&mut gateway).service.service_type = service_type;
        gateway.addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        gateway
    };
    let (on_node, in_cluster) =
        (of_type("node", ServiceType::NodePort, &[]), of_type("cluster", ServiceType::ClusterIp, &[]));
    let static_one = of_type("static", ServiceType::LoadBalancer, &["198.18.0.250"]);
    let foreign = of_type("foreign", ServiceType::LoadBalancer, &["192.0.2.1"]);
    stage.want([&on_node, &in_cluster, &static_one, &foreign]);

    let object = |gateway: &ir::Infra| namespace.get(&format!("service/{}", name(gateway))).unwrap();
    let address = stage.until("a node", &on_node.fleet, |state| state.addresses.first().copied());
    let node = namespace.get("node").unwrap()["items"][0]["status"]["addresses"].clone();
    assert!(node.to_string().contains(&address.ip().to_string()), "{address} of {node}");
    assert_eq!(object(&on_node)["spec"]["ports"][0]["nodePort"], address.port());

    let address = stage.until("an address", &in_cluster.fleet, |state| state.addresses.first().copied());
    assert_eq!(object(&in_cluster)["spec"]["clusterIP"], address.ip().to_string());

    let wanted: IpAddr = "198.18.0.250".parse().unwrap();
    stage.until("the address", &static_one.fleet, |state| {
        (state.missing_addresses.is_empty() && state.addresses.first()?.ip() == wanted).then_some(())
    });
    let (missing, words) =
        stage.until("what is missing", &foreign.fleet, |state| Some(state.missing_addresses.first()?.clone()));
    assert_eq!(missing.to_string(), "192.0.2.1");
    assert!(words.contains("has not given the Gateway the address 192.0.2.1"), "{words}");
}
