//! Clusters that do not warm, ghosts, shared endpoint sets, renamed listeners and virtual hosts with a real Envoy 1.40.

use std::net::{SocketAddr, UdpSocket};

use proto::envoy::config::cluster::v3::{Cluster, cluster};
use proto::envoy::config::core::v3::DnsResolutionConfig;
use proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};

use super::proxy::{Loop, free_address, get, wait_for};
use super::real_envoy::{SOON, Stage, over};
use super::resources::{
    address, altered, cluster, endpoints, ghost, gone, host_of, listener, listener_of, routes, routes_of_hosts_of,
};
use crate::{Change, Event, Need, Resource, TypeUrl};

over!(delta_ads: Variant::Delta, true, [
    clusters_on_a_shared_endpoint_set_are_active_at_once,
    a_cluster_that_cannot_be_resolved_holds_up_nothing_also_over_a_restart,
    ghosts_hold_up_nothing_also_over_a_restart,
    a_listener_is_renamed_on_its_port_without_a_refused_connection,
    virtual_hosts_of_a_second_configuration_come_later_and_may_be_none,
]);

over!(sotw_ads: Variant::Sotw, true, [
    clusters_on_a_shared_endpoint_set_are_active_at_once,
    a_cluster_that_cannot_be_resolved_holds_up_nothing_also_over_a_restart,
    ghosts_hold_up_nothing_also_over_a_restart,
    a_listener_is_renamed_on_its_port_without_a_refused_connection,
]);

/// A cluster whose endpoint set is that of another.
fn sharing(name: &str, version: u128, set: &str) -> Change {
    altered(super::resources::cluster(name, version), |resource: &mut Resource, cluster: &mut Cluster| {
        resource.needs = [[Need::new(TypeUrl::Endpoints, set)].into()].into();
        if let Some(eds) = &mut cluster.eds_cluster_config {
            eds.service_name = set.into();
        }
    })
}

/// A cluster whose resolver is this.
fn resolved_by(name: &str, resolver: SocketAddr) -> Change {
    altered(super::resources::cluster(name, 1), |resource: &mut Resource, cluster: &mut Cluster| {
        resource.apart = true;
        cluster.eds_cluster_config = None;
        cluster.cluster_discovery_type =
            Some(cluster::ClusterDiscoveryType::Type(cluster::DiscoveryType::StrictDns as i32));
        let Change::Put(set) = endpoints(name, 1, resolver) else { return };
        let mut set: ClusterLoadAssignment = prost::Message::decode(&*set.body.concat()).unwrap();
        set.endpoints.iter_mut().for_each(unresolved);
        cluster.load_assignment = Some(set);
        #[expect(deprecated, reason = "the extension in its place says the same in more words")]
        let _old = cluster.dns_resolution_config.insert(DnsResolutionConfig {
            resolvers: address(resolver).into_iter().collect(),
            ..DnsResolutionConfig::default()
        });
    })
}

/// Its endpoints have a name.
fn unresolved(locality: &mut LocalityLbEndpoints) {
    use proto::envoy::config::core::v3::address::Address;
    use proto::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
    let addresses =
        locality.lb_endpoints.iter_mut().filter_map(|LbEndpoint { host_identifier, .. }| match host_identifier {
            Some(HostIdentifier::Endpoint(endpoint)) => endpoint.address.as_mut()?.address.as_mut(),
            _ => None,
        });
    for address in addresses {
        if let Address::SocketAddress(socket) = address {
            socket.address = "nobody.test".into();
        }
    }
}

fn clusters_on_a_shared_endpoint_set_are_active_at_once() {
    let stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    for round in 2..12 {
        let name = format!("s{round}");
        stage.publish(vec![sharing(&name, 1, "a"), routes(round, &name)]);
        stage.wait_for_routes(round);
        stage.publish(vec![super::resources::cluster("a", round)]);
        stage.envoy.wait_for_cluster(round, SOON);
        stage.publish(vec![sharing(&name, 100 + round, "a")]);
        stage.envoy.wait_for_cluster(100 + round, SOON);
    }
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

/// Envoy acknowledges no cluster while it resolves one, which can be for ever, and on a stream that begins meanwhile it does not even ask
/// for clusters (R13).
fn a_cluster_that_cannot_be_resolved_holds_up_nothing_also_over_a_restart() {
    let mut stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(SOON)).unwrap();
    let dns = || resolved_by("dns", silent.local_addr().unwrap());
    stage.publish(vec![dns()]);
    assert!(silent.peek(&mut [0; 512]).is_ok(), "the resolver is asked");
    let round = |stage: &Stage, round: u128| {
        let (name, backend) = (format!("n{round}"), if round.is_multiple_of(2) { &stage.a } else { &stage.b });
        stage.publish(vec![
            cluster("a", round),
            cluster(&name, 1),
            endpoints(&name, 1, backend.address),
            routes(round, &name),
        ]);
        stage.envoy.wait_for_cluster(round, SOON);
        stage.wait_for_answer("any", if round.is_multiple_of(2) { "200 a" } else { "200 b" });
    };
    (2..6).for_each(|number| round(&stage, number));
    stage.restart();
    stage.publish(vec![
        dns(),
        cluster("a", 5),
        endpoints("a", 1, stage.a.address),
        listener(stage.at),
        cluster("n5", 1),
        endpoints("n5", 1, stage.b.address),
        routes(5, "n5"),
    ]);
    (6..10).for_each(|number| round(&stage, number));
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

/// A ring whose minimum is above its maximum, of a new and of a changed cluster (R11a). The server is restarted when it knows of their
/// refusal, or at once; the next one knows the good versions, as it does from what was saved.
fn ghosts_hold_up_nothing_also_over_a_restart() {
    let mut stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    let mut version = 1;
    for round in 0..6 {
        let new = format!("g{round}");
        let ghosts =
            |stage: &Stage| vec![ghost(&new, 50 + round), endpoints(&new, 1, stage.b.address), ghost("a", 60 + round)];
        stage.publish(ghosts(&stage));
        if round % 2 == 0 {
            let refused = |event: &Event| matches!(event, Event::Refused { name, .. } if &**name == "a");
            stage.wait("the ghost to be refused", refused);
        }
        stage.restart();
        stage.publish(vec![
            cluster("a", version),
            endpoints("a", 1, stage.a.address),
            listener(stage.at),
            routes(1, "a"),
        ]);
        stage.publish(ghosts(&stage));
        version += 1;
        stage.publish(vec![cluster("a", version), cluster(&new, 1)]);
        stage.envoy.wait_for_cluster(version, SOON);
        version += 1;
        stage.publish(vec![cluster("a", version), gone(TypeUrl::Cluster, &new), gone(TypeUrl::Endpoints, &new)]);
        stage.envoy.wait_for_cluster(version, SOON);
    }
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn a_listener_is_renamed_on_its_port_without_a_refused_connection() {
    let stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    let mut old = "l".to_owned();
    for round in 1..11 {
        let new = format!("l{round}");
        let renamed = altered(
            listener_of(&new, 1, "r", stage.at),
            |resource: &mut Resource, _: &mut proto::envoy::config::listener::v3::Listener| {
                resource.replaces = Some(Box::new(old.as_str().into()));
            },
        );
        stage.publish(vec![renamed, gone(TypeUrl::Listener, &old)]);
        stage.wait(
            "the renamed listener",
            |event| matches!(event, Event::Accepted { type_url: TypeUrl::Listener, name, .. } if **name == *new),
        );
        old = new;
    }
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}

fn virtual_hosts_of_a_second_configuration_come_later_and_may_be_none() {
    let stage = Stage::new(vec![routes_of_hosts_of("r", 1), host_of("r", "one.test", 1, "a")]);
    let requests = Loop::start(stage.at, "one.test");
    let second = free_address();
    stage.publish(vec![
        listener_of("second", 1, "s", second),
        routes_of_hosts_of("s", 1),
        host_of("s", "two.test", 1, "a"),
    ]);
    wait_for("the second", SOON, || get(second, "two.test") == "200 a");
    stage.publish(vec![gone(TypeUrl::VirtualHost, "s/two.test")]);
    wait_for("the host to be gone", SOON, || get(second, "two.test").starts_with("404"));
    // a configuration without any host, and the hosts that it gets later
    let third = free_address();
    stage.publish(vec![listener_of("third", 1, "t", third), routes_of_hosts_of("t", 1)]);
    stage.publish(vec![host_of("s", "two.test", 2, "a")]);
    wait_for("the host to be back", SOON, || get(second, "two.test") == "200 a");
    stage.publish(vec![host_of("t", "three.test", 1, "a")]);
    wait_for("the third", SOON, || get(third, "three.test") == "200 a");
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    stage.end();
}
