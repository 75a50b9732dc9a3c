//! Clusters that do not warm, ghosts, shared endpoint sets, renamed listeners and virtual hosts with a real Envoy 1.40.

use std::net::{SocketAddr, UdpSocket};

use proto::envoy::config::cluster::v3::{Cluster, cluster};
use proto::envoy::config::core::v3::DnsResolutionConfig;
use proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};

use super::proxy::{Loop, free_address, get, wait_for};
use super::resources::{
    address, altered, cluster, endpoints, ghosts, gone, host_of, listener_of, routes, routes_of, routes_of_hosts_of,
};
use super::stage::{SOON, Stage, over};
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

/// A cluster of one endpoint, whose name only this resolver knows.
pub(super) fn resolved_by(name: &str, resolver: SocketAddr, at: SocketAddr) -> Change {
    altered(super::resources::cluster(name, 1), |resource: &mut Resource, cluster: &mut Cluster| {
        resource.apart = true;
        cluster.eds_cluster_config = None;
        cluster.cluster_discovery_type =
            Some(cluster::ClusterDiscoveryType::Type(cluster::DiscoveryType::StrictDns as i32));
        cluster.dns_lookup_family = cluster::DnsLookupFamily::V4Only as i32;
        let Change::Put(set) = endpoints(name, 1, at) else { return };
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

/// Answers what was asked for so far: every name is 127.0.0.1 (RFC 1035 section 4.1).
pub(super) fn answer_names(resolver: &UdpSocket) {
    resolver.set_nonblocking(true).unwrap();
    let mut question = [0; 512];
    while let Ok((length, from)) = resolver.recv_from(&mut question) {
        let name_and_type = question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
        let asked = &question[..length.min(12 + name_and_type)];
        // a response, with recursion; one question, one answer
        let head = [&asked[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        // the name of the question, A, IN, an hour, the address
        let answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 127, 0, 0, 1];
        resolver.send_to(&[&head, &asked[12..], &answer].concat(), from).unwrap();
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
    requests.lost_none();
    stage.end();
}

/// Envoy acknowledges no cluster while it resolves one, which can be for ever, and on a stream that begins meanwhile it does not even ask
/// for clusters (R13). The routes that need that cluster wait for it, and nothing else does (R3).
fn a_cluster_that_cannot_be_resolved_holds_up_nothing_also_over_a_restart() {
    let mut stage = Stage::new(vec![routes(1, "a")]);
    let requests = Loop::start(stage.at, "any");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(SOON)).unwrap();
    let waits = free_address();
    let dns = |stage: &Stage| {
        let cluster = resolved_by("dns", silent.local_addr().unwrap(), stage.b.address);
        vec![cluster, listener_of("waits", 1, "waits", waits), routes_of("waits", 1, "dns")]
    };
    stage.publish(dns(&stage));
    stage.publish(vec![routes(100, "dns")]);
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
    // they wait until it is told that the cluster does not get ready
    let routes_wait = |stage: &Stage| {
        let events = stage.events.lock().unwrap();
        let accepted = |event: &Event| matches!(event, Event::Accepted { name, .. } if &**name == "waits");
        let stalled = |event: &Event| matches!(event, Event::Stalled { name, .. } if &**name == "dns");
        let first = events.iter().find(|event| accepted(event) || stalled(event));
        assert!(first.is_none_or(stalled), "{first:?}");
    };
    (2..6).for_each(|number| round(&stage, number));
    routes_wait(&stage);
    stage.restart();
    let mut all = dns(&stage);
    all.extend(stage.small(5));
    all.extend([cluster("n5", 1), endpoints("n5", 1, stage.b.address), routes(5, "n5")]);
    stage.publish(all);
    (6..10).for_each(|number| round(&stage, number));
    routes_wait(&stage);
    wait_for("the routes to the cluster", SOON, || {
        answer_names(&silent);
        get(waits, "any") == "200 b"
    });
    round(&stage, 10);
    requests.lost_none();
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
        let ghosts = ghosts(&new, round, stage.b.address);
        stage.publish(ghosts.clone());
        if round % 2 == 0 {
            let refused = |event: &Event| matches!(event, Event::Refused { name, .. } if &**name == "a");
            stage.wait("the ghost to be refused", refused);
        }
        stage.restart();
        stage.publish([stage.small(version), vec![routes(1, "a")]].concat());
        stage.publish(ghosts);
        version += 1;
        stage.publish(vec![cluster("a", version), cluster(&new, 1)]);
        stage.envoy.wait_for_cluster(version, SOON);
        version += 1;
        stage.publish(vec![cluster("a", version), gone(TypeUrl::Cluster, &new), gone(TypeUrl::Endpoints, &new)]);
        stage.envoy.wait_for_cluster(version, SOON);
    }
    requests.lost_none();
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
    requests.lost_none();
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
    requests.lost_none();
    stage.end();
}
