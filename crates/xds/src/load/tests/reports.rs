//! What a report means.

use prost::Message as _;
use proto::envoy::config::endpoint::v3::cluster_stats::DroppedRequests;
use proto::envoy::config::endpoint::v3::{ClusterStats, UnnamedEndpointLoadMetricStats, UpstreamLocalityStats};
use proto::envoy::service::load_stats::v3::LoadStatsRequest;

use super::rig::{Rig, cluster, endpoint, in_zone, metric, per_second, zone};
use crate::load::{Metric, Rate};

#[test]
fn counters_are_divided_by_the_interval_that_the_report_is_about() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    rig.report(&envoy, &[cluster("a", 2.5, vec![zone("z", 100)])]);
    rig.gather();
    let load = rig.load("a", "z");
    assert_eq!((load.issued, load.succeeded, load.failed), (per_second(40), per_second(36), per_second(4)));
    rig.report(&envoy, &[cluster("a", 0.998, vec![zone("z", 100)])]);
    rig.gather();
    let rate = rig.load("a", "z").issued;
    assert_eq!((rate.per_second() * 0.998).round(), 100.0);
    assert_eq!(rig.told["a"].requests, 200);
}

#[test]
fn requests_in_progress_are_a_gauge() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    let proxied = |new, live| UpstreamLocalityStats { total_requests_in_progress: live, ..zone("z", new) };
    rig.report(&envoy, &[cluster("tcp", 10.0, vec![proxied(50, 7)])]);
    rig.report(&envoy, &[cluster("tcp", 10.0, vec![proxied(0, 6)])]);
    rig.gather();
    assert_eq!((rig.load("tcp", "z").issued, rig.load("tcp", "z").in_progress), (Rate(0), 6));
}

#[test]
fn reporters_are_added_up() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open("1"), rig.open("2"));
    rig.report(&one, &[cluster("a", 10.0, vec![zone("x", 100), zone("y", 10)])]);
    rig.report(&two, &[cluster("a", 5.0, vec![zone("x", 100)])]);
    rig.gather();
    assert_eq!((rig.load("a", "x").issued, rig.load("a", "y").issued), (per_second(30), per_second(1)));
    assert_eq!((rig.told["a"].reporters, rig.told["a"].requests), (2, 210));
}

#[test]
fn clusters_that_share_a_service_are_one_and_so_are_the_priorities_of_a_locality() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    let of_service = |name: &str, localities| ClusterStats {
        cluster_service_name: "service".into(),
        ..cluster(name, 10.0, localities)
    };
    let backup = UpstreamLocalityStats { priority: 1, ..zone("x", 40) };
    rig.report(&envoy, &[of_service("a", vec![zone("x", 10), backup]), of_service("b", vec![zone("x", 50)])]);
    rig.gather();
    assert_eq!(rig.told.keys().map(|name| &**name).collect::<Vec<_>>(), ["service"]);
    assert_eq!((rig.load("service", "x").issued, rig.told["service"].reporters), (per_second(10), 1));
    rig.report(&envoy, &[of_service("a", vec![zone("x", 10)])]);
    rig.gather();
    assert_eq!(rig.load("service", "x").issued, per_second(1), "nothing of the other is left");
}

#[test]
fn a_locality_in_two_encodings_is_one() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open("1"), rig.open("2"));
    rig.report(&one, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    // UpstreamLocalityStats { locality: { sub_zone: "", zone: "x" }, issued: 10 }, with the empty text written out
    let locality = [0x0a, 5, 0x1a, 0, 0x12, 1, b'x', 0x40, 10];
    let mut stats = cluster("a", 10.0, Vec::new()).encode_to_vec();
    stats.extend([0x12, 9]);
    stats.extend(locality);
    let mut message = vec![0x12, u8::try_from(stats.len()).unwrap()];
    message.extend(stats);
    assert_eq!(LoadStatsRequest::decode(&message[..]).unwrap().cluster_stats[0].upstream_locality_stats.len(), 1);
    rig.try_report(&two, &message).unwrap();
    rig.gather();
    assert_eq!(rig.load("a", "x").issued, per_second(2));
}

#[test]
fn drops_are_told_by_category() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    let category = |category: &str, dropped_count| DroppedRequests { category: category.into(), dropped_count };
    let stats = ClusterStats {
        total_dropped_requests: 50,
        dropped_requests: vec![category("throttle", 30), category("lb", 10)],
        ..cluster("a", 10.0, Vec::new())
    };
    rig.report(&envoy, &[stats]);
    rig.gather();
    assert_eq!(rig.told["a"].dropped, per_second(5));
    let by: Vec<_> = rig.told["a"].dropped_by.iter().map(|(name, rate)| (&**name, *rate)).collect();
    assert_eq!(by, [("lb", per_second(1)), ("throttle", per_second(3))]);
    rig.report(&envoy, &[cluster("a", 10.0, Vec::new())]);
    rig.gather();
    assert_eq!(rig.told["a"].dropped_by.len(), 0);
}

#[test]
fn endpoints_are_parts_of_their_locality() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    let endpoints = vec![endpoint("10.0.0.1", 80, 20), endpoint("2001:db8::1", 443, 80)];
    let locality = UpstreamLocalityStats { upstream_endpoint_stats: endpoints, ..zone("x", 100) };
    rig.report(&envoy, &[cluster("a", 10.0, vec![locality])]);
    rig.gather();
    let told = &rig.told["a"].localities[&in_zone("x")];
    let endpoints: Vec<_> = told.endpoints.iter().map(|(address, load)| (&**address, load.issued)).collect();
    assert_eq!(endpoints, [("10.0.0.1:80", per_second(2)), ("[2001:db8::1]:443", per_second(8))]);
    assert_eq!(told.load.issued, per_second(10));
}

#[test]
fn metrics_are_means_over_the_requests_of_all() {
    let mut rig = Rig::new();
    let (one, two) = (rig.open("1"), rig.open("2"));
    let with = |metrics, utilization| UpstreamLocalityStats {
        load_metric_stats: metrics,
        cpu_utilization: utilization,
        ..zone("x", 100)
    };
    let cpu = UnnamedEndpointLoadMetricStats { num_requests_finished_with_metric: 100, total_metric_value: 50.0 };
    rig.report(&one, &[cluster("a", 10.0, vec![with(vec![metric("named_metrics.q", 10, 20.0)], Some(cpu))])]);
    rig.report(&two, &[cluster("a", 1.0, vec![with(vec![metric("named_metrics.q", 9, 36.0)], None)])]);
    rig.gather();
    let metrics = rig.load("a", "x").metrics;
    assert_eq!(metrics["cpu_utilization"], Metric { requests: per_second(10), mean: 500_000 });
    // one request each second of value 2, nine of value 4
    assert_eq!(metrics["named_metrics.q"], Metric { requests: per_second(10), mean: 3_800_000 });
}

#[test]
fn connections_of_clients_that_report_them_are_told() {
    let mut rig = Rig::new();
    let agent = rig.open("agent");
    let (total_new_connections, total_fail_connections, total_active_connections) = (30, 10, 5);
    let connections = UpstreamLocalityStats {
        total_new_connections,
        total_fail_connections,
        total_active_connections,
        ..zone("x", 0)
    };
    rig.report(&agent, &[cluster("a", 10.0, vec![connections])]);
    rig.gather();
    let told = rig.load("a", "x").connections;
    assert_eq!((told.opened, told.failed, told.active), (per_second(3), per_second(1), 5));
}

#[test]
fn what_a_report_leaves_out_is_zero_and_what_it_brings_back_is_counted_again() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    rig.report(&envoy, &[cluster("a", 10.0, vec![zone("x", 10), zone("y", 10)]), cluster("b", 10.0, Vec::new())]);
    rig.gather();
    rig.report(&envoy, &[cluster("a", 10.0, vec![zone("y", 20)])]);
    rig.gather();
    assert_eq!(rig.told["a"].localities.keys().collect::<Vec<_>>(), [&in_zone("y")]);
    assert!(!rig.told.contains_key("b"), "nobody reports on it");
    rig.report(&envoy, &[cluster("a", 10.0, vec![zone("x", 30)])]);
    rig.gather();
    assert_eq!(rig.load("a", "x").issued, per_second(3));
}

#[test]
fn clusters_that_the_fleet_does_not_have_do_not_count() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    rig.report(&envoy, &[cluster("strange", 10.0, vec![zone("x", 10)]), cluster("a", 10.0, Vec::new())]);
    rig.gather();
    assert_eq!(rig.told.keys().map(|name| &**name).collect::<Vec<_>>(), ["a"]);
}
