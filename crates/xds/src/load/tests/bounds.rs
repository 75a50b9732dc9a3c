//! Reports that are none, that cannot be, or that are too much.

use prost::Message as _;
use proto::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use proto::envoy::service::load_stats::v3::LoadStatsRequest;

use super::rig::{Rig, cluster, endpoint, metric, per_second, zone};
use crate::load::rows::Bounds;

#[test]
fn an_interval_that_cannot_be_is_taken_for_the_one_that_was_asked_for() {
    for seconds in [0.0, -1.0, -0.5, 1e-4, 7201.0, 1e15] {
        let mut rig = Rig::new();
        let envoy = rig.open("liar");
        rig.report(&envoy, &[cluster("a", seconds, vec![zone("x", 100)])]);
        rig.gather();
        assert_eq!(rig.load("a", "x").issued, per_second(10), "{seconds}");
        assert_eq!(rig.misreports, [("liar".into(), "a load_report_interval that cannot be")]);
    }
    let mut rig = Rig::new();
    let envoy = rig.open("liar");
    let none = ClusterStats { load_report_interval: None, ..cluster("a", 1.0, vec![zone("x", 100)]) };
    rig.report(&envoy, &[none]);
    rig.gather();
    assert_eq!(rig.load("a", "x").issued, per_second(10));
}

#[test]
fn figures_that_cannot_be_are_cut_to_what_can_and_told_once_for_each_stream() {
    let mut rig = Rig::new();
    let (liar, honest) = (rig.open("liar"), rig.open("honest"));
    let lies = UpstreamLocalityStats {
        total_issued_requests: u64::MAX,
        total_successful_requests: u64::MAX,
        total_requests_in_progress: u64::MAX,
        load_metric_stats: vec![
            metric("nan", 10, f64::NAN),
            metric("infinite", 10, f64::INFINITY),
            metric("negative", 10, -5.0),
            metric("huge", 10, 1e300),
            metric("of nothing", 0, 5.0),
        ],
        ..zone("x", 0)
    };
    for _ in 0..3 {
        rig.report(&liar, &[cluster("a", 10.0, vec![lies.clone()])]);
        rig.gather();
    }
    assert_eq!(rig.misreports, [("liar".into(), "figures beyond what is possible")]);
    let load = rig.load("a", "x");
    assert_eq!((load.issued, load.in_progress), (per_second(100_000_000), 100_000_000));
    let metrics: Vec<_> = load.metrics.iter().map(|(name, metric)| (&**name, metric.mean)).collect();
    assert_eq!(metrics, [("huge", 10u64.pow(18)), ("negative", 0)]);
    rig.report(&honest, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    rig.report(&liar, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    rig.gather();
    assert_eq!((rig.load("a", "x").issued, rig.load("a", "x").in_progress), (per_second(2), 0), "nothing is left");
    assert_eq!(rig.misreports.len(), 1);
}

#[test]
fn of_a_report_that_is_none_nothing_counts() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    rig.report(&envoy, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    rig.gather();
    let clusters = vec![cluster("a", 10.0, vec![zone("x", 90), zone("y", 90)]), cluster("b", 10.0, Vec::new())];
    let whole = LoadStatsRequest { node: None, cluster_stats: clusters }.encode_to_vec();
    for length in 1..whole.len() {
        let cut = rig.try_report(&envoy, &whole[..length]);
        if cut.is_ok() {
            // cut between two clusters
            rig.report(&envoy, &[cluster("a", 10.0, vec![zone("x", 10)])]);
        }
    }
    rig.gather();
    assert_eq!(rig.load("a", "x").issued, per_second(1));
    assert_eq!((rig.told.len(), rig.told["a"].localities.len()), (1, 1));
    rig.loads.close(envoy);
    rig.pass(std::time::Duration::from_secs(60));
    assert!(rig.told.is_empty() && rig.loads.next_deadline().is_none(), "no row is left behind");
}

#[test]
fn of_too_much_the_first_part_counts() {
    let check = |clusters: Vec<ClusterStats>, text: &str| {
        let mut rig = Rig::new();
        let envoy = rig.open("e");
        rig.report(&envoy, &clusters);
        rig.gather();
        assert_eq!(rig.misreports, [("e".into(), text)]);
        rig
    };
    let many = (0..16_385).map(|n| cluster(&format!("{n:05}"), 10.0, Vec::new())).collect();
    assert_eq!(check(many, "more than 16384 clusters in one report").told.len(), 16_384);
    let localities = (0..257).map(|n| zone(&n.to_string(), 1)).collect();
    let rig = check(vec![cluster("a", 10.0, localities)], "more than 256 localities of one cluster");
    assert_eq!(rig.told["a"].localities.len(), 256);
    let endpoints = (0..8_193).map(|port| endpoint("10.0.0.1", port, 1)).collect();
    let locality = UpstreamLocalityStats { upstream_endpoint_stats: endpoints, ..zone("x", 1) };
    let rig = check(vec![cluster("a", 10.0, vec![locality])], "more than 8192 endpoints of one locality");
    assert_eq!(rig.told["a"].localities.values().next().unwrap().endpoints.len(), 8_192);
    let metrics = (0..17).map(|n| metric(&n.to_string(), 1, 1.0)).collect();
    let locality = UpstreamLocalityStats { load_metric_stats: metrics, ..zone("x", 1) };
    let rig = check(vec![cluster("a", 10.0, vec![locality])], "more than 16 metrics of one place");
    assert_eq!(rig.load("a", "x").metrics.len(), 16);
    let each = || (0..256).map(|n| zone(&n.to_string(), 1)).collect();
    let many = (0..600).map(|n| cluster(&n.to_string(), 10.0, each())).collect();
    let rig = check(many, "more than 131072 places and metrics in one report");
    assert_eq!(rig.told.values().map(|load| 1 + load.localities.len()).sum::<usize>(), 131_072);
}

#[test]
fn names_that_are_no_names_cost_their_row_only() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    let long = "z".repeat(4097);
    rig.report(&envoy, &[cluster("a", 10.0, vec![zone(&long, 10), zone("x", 10)]), cluster(&long, 10.0, Vec::new())]);
    rig.gather();
    assert_eq!((rig.told.len(), rig.told["a"].localities.len()), (1, 1));
}

#[test]
fn the_reports_of_a_fleet_are_bounded_together_and_what_goes_makes_room() {
    let zones = |names: &[&str]| vec![cluster("a", 10.0, names.iter().map(|name| zone(name, 10)).collect())];
    for (bounds, text) in [
        (Bounds { rows: 5, ..Bounds::default() }, "more places than the proxies of one Gateway may name"),
        (Bounds { name_bytes: 14, ..Bounds::default() }, "more places than the proxies of one Gateway may name"),
        (Bounds { parts: 6, ..Bounds::default() }, "more places and metrics than the reports of one Gateway may hold"),
    ] {
        let mut rig = Rig::new();
        rig.loads.rows.bounds = bounds;
        let (one, two) = (rig.open("one"), rig.open("two"));
        rig.report(&one, &zones(&["v", "w", "x"]));
        rig.report(&two, &zones(&["y", "z"]));
        rig.gather();
        assert_eq!(rig.misreports, [("two".into(), text)]);
        assert_eq!(rig.told["a"].localities.len(), 4, "{bounds:?}");
        rig.report(&one, &zones(&["v"]));
        rig.report(&two, &zones(&["y", "z"]));
        rig.gather();
        assert_eq!(rig.told["a"].localities.len(), 3, "{bounds:?}");
        let _malformed = rig.try_report(&one, &[0x12, 0xff]);
        rig.report(&one, &zones(&["v", "w"]));
        rig.gather();
        assert_eq!(rig.told["a"].localities.len(), 4, "{bounds:?}");
    }
}

#[test]
fn a_metric_with_a_long_name_counts_as_several() {
    let mut rig = Rig::new();
    rig.loads.rows.bounds.parts = 100;
    let envoy = rig.open("e");
    let metrics = (0..4).map(|n| metric(&format!("{n:01900}"), 1, 1.0)).collect();
    let locality = UpstreamLocalityStats { load_metric_stats: metrics, ..zone("x", 1) };
    rig.report(&envoy, &[cluster("a", 10.0, vec![locality])]);
    rig.gather();
    assert_eq!(rig.load("a", "x").metrics.len(), 3);
}

#[test]
fn the_names_of_metrics_of_one_place_are_bounded_together_and_what_goes_makes_room() {
    let mut rig = Rig::new();
    let reporters: Vec<_> = (0..17).map(|n| rig.open(&n.to_string())).collect();
    let named = |prefix: &str| {
        let metrics = (0..16).map(|n| metric(&format!("{prefix} {n:02}"), 1, 1.0)).collect();
        let locality = UpstreamLocalityStats { load_metric_stats: metrics, ..zone("x", 1) };
        [cluster("a", 10.0, vec![locality])]
    };
    for (n, reporter) in reporters.iter().enumerate() {
        rig.report(reporter, &named(&n.to_string()));
    }
    rig.gather();
    assert_eq!(rig.load("a", "x").metrics.len(), 256);
    assert_eq!(rig.misreports, [("16".into(), "more than 256 names of metrics of one place in all reports")]);
    rig.report(&reporters[0], &named("1"));
    rig.report(&reporters[16], &named("16"));
    rig.gather();
    assert!(rig.load("a", "x").metrics.contains_key("16 00") && !rig.load("a", "x").metrics.contains_key("0 00"));
}

#[test]
fn of_a_report_that_is_none_the_new_places_go_and_no_others() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    let zones = |names: &[&str]| names.iter().map(|name| zone(name, 10)).collect::<Vec<_>>();
    rig.report(&envoy, &[cluster("a", 10.0, zones(&["v", "w"]))]);
    let other = rig.open("f");
    let clusters = vec![cluster("a", 10.0, zones(&["x", "v", "y", "z"])), cluster("b", 10.0, zones(&["x"]))];
    let mut whole = LoadStatsRequest { node: None, cluster_stats: clusters }.encode_to_vec();
    whole.push(0xff);
    rig.try_report(&other, &whole).unwrap_err();
    // the places that are left go one by one, whichever took the place of which
    rig.report(&other, &[cluster("a", 10.0, zones(&["z"]))]);
    rig.report(&envoy, &[cluster("a", 10.0, zones(&["w"]))]);
    rig.gather();
    let left: Vec<_> = rig.told["a"].localities.keys().map(|locality| &*locality.zone).collect();
    assert_eq!((left, rig.told.len()), (vec!["w", "z"], 1));
    rig.loads.close(envoy);
    rig.loads.close(other);
    rig.pass(std::time::Duration::from_secs(60));
    assert!(rig.told.is_empty() && rig.loads.next_deadline().is_none(), "no row is left behind");
}

#[test]
fn reporters_are_as_many_as_may_be() {
    let mut rig = Rig::new();
    rig.loads.rows.bounds.reporters = 2;
    let (one, _two) = (rig.open("one"), rig.open("two"));
    assert!(rig.loads.open(std::sync::Arc::default(), rig.now).is_err());
    rig.loads.close(one);
    assert!(rig.loads.open(std::sync::Arc::default(), rig.now).is_ok());
}
