//! Reports, read with the generated messages.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use proto::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};

use super::*;

fn reporter() -> Reporter {
    Reporter::new(&ClientNode { id: "agent".into(), ..ClientNode::default() })
}

fn key(cluster: &str) -> ClusterKey {
    ClusterKey { cluster: cluster.into(), service: "".into() }
}

fn place(zone: &str) -> Place {
    Place { zone: zone.into(), priority: 1, ..Place::default() }
}

fn requests(issued: u64, in_progress: u64) -> Load {
    Load { issued, succeeded: issued, in_progress, ..Load::default() }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What a server asks for.
fn asks(reporter: &mut Reporter, clusters: &[&str], seconds: i64, endpoints: bool, now: u64) {
    let response = LoadStatsResponse {
        clusters: clusters.iter().filter(|name| **name != "*").map(|&name| name.to_owned()).collect(),
        send_all_clusters: clusters.contains(&"*"),
        load_reporting_interval: Some(prost_types::Duration { seconds, nanos: 0 }),
        report_endpoint_granularity: endpoints,
    };
    reporter.received(response.encode_to_vec().into(), at(now)).expect("a response");
}

/// A report in short: `a 10s: z 5/1; dropped 2`, issued requests and those in progress by zone, endpoints in brackets.
fn show(report: Bytes) -> String {
    let report = LoadStatsRequest::decode(report).expect("a report");
    let clusters = report.cluster_stats.iter().map(|cluster| {
        let zones = cluster.upstream_locality_stats.iter().map(|stats| {
            let zone = stats.locality.as_ref().map_or("", |locality| locality.zone.as_str());
            let endpoints =
                stats.upstream_endpoint_stats.iter().map(|endpoint| endpoint.total_issued_requests.to_string());
            let endpoints: Vec<String> = endpoints.collect();
            let inside = if endpoints.is_empty() { String::new() } else { format!(" [{}]", endpoints.join(" ")) };
            format!(" {zone} {}/{}{inside}", stats.total_issued_requests, stats.total_requests_in_progress)
        });
        let interval = cluster.load_report_interval.expect("an interval").seconds;
        let dropped = match cluster.total_dropped_requests {
            0 => String::new(),
            count => format!("; dropped {count}"),
        };
        format!("{} {interval}s:{}{dropped}", cluster.cluster_name, zones.collect::<String>())
    });
    clusters.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_first_message_says_who_reports_and_that_all_clusters_can_be_asked_for() {
    let first = LoadStatsRequest::decode(reporter().opened()).expect("a request");
    let node = first.node.expect("a node");
    assert_eq!((node.id.as_str(), first.cluster_stats.len()), ("agent", 0));
    assert_eq!(node.client_features, ["envoy.lrs.supports_send_all_clusters"]);
}

#[test]
fn nothing_is_reported_before_it_is_asked_for() {
    let mut reporter = reporter();
    reporter.opened();
    reporter.add(&key("a"), &place("z"), None, &requests(5, 1), at(1));
    assert_eq!((reporter.next_deadline(), reporter.due(at(100))), (None, None));
}

#[test]
fn counters_are_since_the_last_report_over_the_true_interval_and_gauges_as_they_are() {
    let mut reporter = reporter();
    reporter.opened();
    asks(&mut reporter, &["a"], 10, false, 0);
    reporter.add(&key("a"), &place("z"), None, &requests(5, 3), at(1));
    reporter.add(&key("a"), &place("z"), None, &requests(2, 1), at(2));
    reporter.add(&key("b"), &place("z"), None, &requests(9, 9), at(2));
    assert_eq!(reporter.due(at(9)), None);
    // late: the cluster was first heard of after 1 s
    assert_eq!(reporter.due(at(13)).map(show), Some("a 12s: z 7/1".into()));
    assert_eq!(reporter.next_deadline(), Some(at(23)));
    assert_eq!(reporter.due(at(23)).map(show), Some("a 10s: z 0/1".into()), "one still runs");
    reporter.add(&key("a"), &place("z"), None, &requests(0, 0), at(24));
    reporter.due(at(33));
    assert_eq!(reporter.due(at(43)).map(show), Some("a 10s:".into()), "no requests, which is not nothing known");
    reporter.forget(&key("a"));
    assert_eq!(reporter.due(at(53)).map(show), Some(String::new()));
}

#[test]
fn a_cluster_that_is_newly_asked_for_begins_at_nothing_and_others_go_on() {
    let mut reporter = reporter();
    reporter.opened();
    asks(&mut reporter, &["a"], 10, false, 0);
    reporter.add(&key("a"), &place("z"), None, &requests(5, 2), at(1));
    reporter.add(&key("b"), &place("z"), None, &requests(5, 2), at(1));
    asks(&mut reporter, &["*"], 10, false, 6);
    reporter.add(&key("b"), &place("z"), None, &requests(1, 2), at(7));
    assert_eq!(reporter.due(at(11)).map(show), Some("a 10s: z 5/2, b 5s: z 1/2".into()));
}

#[test]
fn another_interval_counts_from_now_on_and_nonsense_is_not_taken() {
    let mut reporter = reporter();
    reporter.opened();
    asks(&mut reporter, &["a"], 10, false, 0);
    asks(&mut reporter, &["a"], 3, false, 5);
    assert_eq!(reporter.next_deadline(), Some(at(8)));
    asks(&mut reporter, &["a"], -3, false, 6);
    assert_eq!(reporter.next_deadline(), Some(at(6) + SHORTEST_INTERVAL));
    assert!(reporter.received(Bytes::from_static(b"\xff"), at(7)).is_err());
}

#[test]
fn endpoints_are_told_apart_only_if_that_is_asked_for() {
    let mut reporter = reporter();
    reporter.opened();
    let endpoint = |port: u16| Some(SocketAddr::from(([10, 0, 0, 1], port)));
    for (endpoints, expect) in [(false, "a 10s: z 5/0"), (true, "a 10s: z 5/0 [2 3]"), (false, "a 10s: z 5/0")] {
        asks(&mut reporter, &["*"], 10, endpoints, 0);
        reporter.forget(&key("a"));
        reporter.next = Some(at(10));
        reporter.add(&key("a"), &place("z"), endpoint(1), &requests(2, 0), at(0));
        reporter.add(&key("a"), &place("z"), endpoint(2), &requests(3, 0), at(0));
        assert_eq!(reporter.due(at(10)).map(show), Some(expect.into()));
    }
}

#[test]
fn drops_connections_and_metrics_are_in_the_report() {
    let mut reporter = reporter();
    reporter.opened();
    asks(&mut reporter, &["a"], 10, false, 0);
    let metrics = [("m".into(), (2, 1.5)), ("broken".into(), (1, f64::NAN))].into();
    let load = Load { failed: 1, opened: 4, unopened: 3, open: 2, metrics, ..requests(6, 0) };
    reporter.add(&key("a"), &place("z"), None, &load, at(0));
    reporter.dropped(&key("a"), "throttle", 2, at(0));
    reporter.dropped(&key("a"), "", 1, at(0));
    let report = LoadStatsRequest::decode(reporter.due(at(10)).expect("a report")).expect("a report");
    let cluster = &report.cluster_stats[0];
    assert_eq!((cluster.total_dropped_requests, cluster.dropped_requests.len()), (3, 1));
    let stats = &cluster.upstream_locality_stats[0];
    assert_eq!((stats.total_successful_requests, stats.total_error_requests, stats.priority), (6, 1, 1));
    let connections = (stats.total_new_connections, stats.total_fail_connections, stats.total_active_connections);
    assert_eq!(connections, (4, 3, 2));
    let metric = &stats.load_metric_stats[0];
    assert_eq!((metric.metric_name.as_str(), metric.num_requests_finished_with_metric), ("m", 2));
    assert_eq!((metric.total_metric_value, stats.load_metric_stats.len()), (1.5, 1));
}

#[test]
fn a_new_stream_is_asked_anew() {
    let mut reporter = reporter();
    reporter.opened();
    asks(&mut reporter, &["*"], 10, false, 0);
    reporter.add(&key("a"), &place("z"), None, &requests(5, 0), at(1));
    reporter.opened();
    assert_eq!(reporter.next_deadline(), None);
    asks(&mut reporter, &["*"], 10, false, 20);
    assert_eq!(reporter.due(at(30)).map(show), Some("a 10s:".into()), "what was not told is not told late");
}

#[test]
fn there_is_room_for_so_many_places_and_no_more() {
    let mut reporter = reporter();
    let add = |reporter: &mut Reporter, number: usize| {
        reporter.add(&key("a"), &place(&number.to_string()), None, &requests(1, 1), at(0))
    };
    assert!((0..MOST_PLACES - 1).all(|number| add(&mut reporter, number)));
    assert!(!add(&mut reporter, MOST_PLACES));
    reporter.forget(&key("a"));
    assert!(add(&mut reporter, 0));
}

#[test]
fn our_own_server_asks_and_reads_what_is_reported() {
    let mut reporter = reporter();
    let first = reporter.opened();
    let node = crate::load::node_of(&first).expect("a request").expect("a node");
    let mut talk = crate::load::Talk::new(node).expect("a node");
    let mut asked = crate::load::LoadReports::every(at(10));
    asked.endpoints = true;
    let told = talk.tell(Some(&asked), std::iter::empty).expect("something to say");
    let mut frames = crate::client::Frames::default();
    frames.push(&crate::load::frame(told));
    let message = frames.next_message().expect("a frame").expect("a message");
    reporter.received(message, at(0)).expect("a response");
    reporter.add(&key("a"), &place("z"), Some(SocketAddr::from(([10, 0, 0, 1], 80))), &requests(20, 3), at(0));
    let report = reporter.due(at(10)).expect("a report");
    let mut loads = crate::load::Loads::new("fleet".into(), at(10));
    let id = loads.open(Arc::default(), at(0)).expect("room");
    loads.receive(id, &report, at(10), &|_| true).expect("a report");
    let due = loads.next_deadline().expect("something to tell");
    let told = loads.advance(due).into_iter().find_map(|event| match event {
        crate::Event::Load { load, .. } => load,
        _ => None,
    });
    let (_, there) =
        told.expect("the load").localities.first_key_value().map(|(k, v)| (k.clone(), v.clone())).expect("z");
    assert_eq!((there.load.issued.per_second(), there.load.in_progress), (2.0, 3));
    assert_eq!(there.endpoints.keys().map(|address| &**address).collect::<Vec<_>>(), ["10.0.0.1:80"]);
}
