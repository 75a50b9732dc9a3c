//! What clients are asked for.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use proto::envoy::config::core::v3::Node;
use proto::envoy::service::load_stats::v3::LoadStatsResponse;

use crate::load::{LoadReports, Talk, frame};

struct Client(Talk);

impl Client {
    fn new(features: &[&str]) -> Self {
        let client_features = features.iter().map(|&feature| feature.to_owned()).collect();
        Self(Talk::new(&Node { client_features, ..Node::default() }.encode_to_vec()).unwrap())
    }

    fn told(&mut self, reports: Option<&LoadReports>, clusters: &[&str]) -> Option<LoadStatsResponse> {
        let told = self.0.tell(reports, || clusters.iter().map(|&name| Arc::from(name)))?;
        let frame = frame(told);
        assert_eq!(u32::from_be_bytes(frame[1..5].try_into().unwrap()) as usize, frame.len() - 5);
        Some(LoadStatsResponse::decode(&frame[5..]).unwrap())
    }
}

const ALL: &str = "envoy.lrs.supports_send_all_clusters";

fn response(clusters: &[&str], seconds: i64, endpoints: bool) -> Option<LoadStatsResponse> {
    Some(LoadStatsResponse {
        clusters: clusters.iter().map(|&name| name.to_owned()).collect(),
        send_all_clusters: clusters.is_empty(),
        load_reporting_interval: Some(prost_types::Duration { seconds, nanos: 0 }),
        report_endpoint_granularity: endpoints,
    })
}

#[test]
fn all_clusters_are_asked_of_clients_that_can_send_all_and_the_fleets_of_others() {
    let reports = LoadReports::every(Duration::from_secs(10));
    let mut able = Client::new(&["other", ALL]);
    assert_eq!(able.told(Some(&reports), &["a", "b"]), response(&[], 10, false));
    assert_eq!(able.told(Some(&reports), &["a", "c"]), None, "whichever they are");
    assert_eq!(able.0.look_again(), None);
    let mut unable = Client::new(&["other"]);
    assert_eq!(unable.told(Some(&reports), &["a", "b"]), response(&["a", "b"], 10, false));
    assert_eq!(unable.told(Some(&reports), &["a", "b"]), None);
    assert_eq!(unable.told(Some(&reports), &["a", "c"]), response(&["a", "c"], 10, false));
    assert_eq!(unable.0.look_again(), Some(Duration::from_secs(10)));
}

#[test]
fn of_clusters_that_are_asked_for_by_name_a_client_is_told_those_of_its_fleet() {
    let mut reports = LoadReports::every(Duration::from_secs(10));
    reports.clusters = Some(["a".into(), "of another".into()].into());
    let mut client = Client::new(&[ALL]);
    assert_eq!(client.told(Some(&reports), &["a", "b"]), response(&["a"], 10, false));
}

#[test]
fn interval_granularity_and_an_end_are_told_when_they_change() {
    let mut reports = LoadReports::every(Duration::from_secs(10));
    let mut client = Client::new(&[ALL]);
    let nothing = client.told(None, &["a"]).unwrap();
    assert_eq!((nothing.clusters.len(), nothing.send_all_clusters), (0, false));
    assert!(nothing.load_reporting_interval.unwrap().seconds > 0, "Envoy wants one");
    assert_eq!(client.told(Some(&reports), &["a"]), response(&[], 10, false));
    reports.endpoints = true;
    assert_eq!(client.told(Some(&reports), &["a"]), response(&[], 10, true));
    let quick = LoadReports { endpoints: true, ..LoadReports::every(Duration::from_secs(2)) };
    assert_eq!(client.told(Some(&quick), &["a"]), response(&[], 2, true));
    assert_eq!(client.told(None, &["a"]), Some(nothing));
}

#[test]
fn intervals_are_between_a_tenth_of_a_second_and_an_hour() {
    for (wanted, interval) in [(0, 100), (99, 100), (100, 100), (3_600_000, 3_600_000), (3_600_001, 3_600_000)] {
        assert_eq!(
            LoadReports::every(Duration::from_millis(wanted)).interval(),
            Duration::from_millis(interval),
            "{wanted}"
        );
    }
}
