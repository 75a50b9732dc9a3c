//! Shared endpoint sets, renamed listeners and virtual hosts with a real Envoy 1.40.

use proto::envoy::config::cluster::v3::Cluster;

use super::proxy::{Loop, free_address, get, wait_for};
use super::real_envoy::{SOON, Stage, over};
use super::resources::{altered, gone, host_of, listener_of, routes, routes_of_hosts_of};
use crate::{Change, Event, Need, Resource, TypeUrl};

over!(delta_ads: Variant::Delta, true, [
    clusters_on_a_shared_endpoint_set_are_active_at_once,
    a_listener_is_renamed_on_its_port_without_a_refused_connection,
    virtual_hosts_of_a_second_configuration_come_later_and_may_be_none,
]);

over!(sotw_ads: Variant::Sotw, true, [
    clusters_on_a_shared_endpoint_set_are_active_at_once,
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
