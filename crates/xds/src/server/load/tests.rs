//! What fleets have apart.

use std::sync::mpsc;

use prost::Message as _;
use proto::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use proto::envoy::service::load_stats::v3::LoadStatsRequest;

use super::*;

/// For what is expected to be.
const DEADLINE: Duration = Duration::from_secs(30);

/// A client of a fleet reports on one cluster.
fn report(desk: &Desk, fleet: &str, now: Duration) -> ReporterId {
    let fleet: Arc<str> = fleet.into();
    let stats = ClusterStats {
        cluster_name: "a".into(),
        upstream_locality_stats: vec![UpstreamLocalityStats::default()],
        ..ClusterStats::default()
    };
    let report = LoadStatsRequest { node: None, cluster_stats: vec![stats] }.encode_to_vec();
    let loads = desk.of(&fleet);
    let mut loads = locked(&loads);
    let reporter = loads.open(Arc::default(), now).unwrap();
    let due = loads.receive(reporter, &report, now, &|_| true).unwrap().unwrap();
    desk.look_at(&fleet, due);
    reporter
}

#[test]
fn nobody_waits_while_a_report_of_another_fleet_is_read() {
    let desk = Desk::default();
    let (one, other) = (desk.of(&"one".into()), desk.of(&"other".into()));
    let reading = locked(&one);
    assert!(other.try_lock().is_ok_and(|mut loads| loads.open(Arc::default(), Duration::ZERO).is_ok()));
    drop(reading);
    assert!(Arc::ptr_eq(&one, &desk.of(&"one".into())), "clients of one fleet are added up");
}

#[test]
fn a_fleet_is_told_of_while_a_report_of_another_is_read_and_that_one_soon_after() {
    let desk = Arc::new(Desk::default());
    let now = Duration::from_secs(5);
    report(&desk, "one", Duration::ZERO);
    report(&desk, "other", Duration::ZERO);
    assert_eq!(desk.take_due(now), ["one".into(), "other".into()]);
    let one = desk.of(&"one".into());
    let reading = locked(&one);
    let (sender, told) = mpsc::channel();
    let looking = Arc::clone(&desk);
    std::thread::spawn(move || {
        for fleet in ["one", "other"] {
            let _nobody_waits = sender.send(looking.look(&fleet.into(), now).len());
        }
    });
    let told: Vec<usize> = (0..2).map(|_| told.recv_timeout(DEADLINE).unwrap()).collect();
    // of each cluster, and of an interval that was not said
    assert_eq!(told, [0, 2]);
    drop(reading);
    let again = desk.next().unwrap();
    assert_eq!((desk.take_due(again), desk.look(&"one".into(), again).len()), (vec!["one".into()], 2));
}

#[test]
fn a_fleet_of_which_nobody_reports_any_more_is_forgotten() {
    let desk = Desk::default();
    let fleet: Arc<str> = "one".into();
    let is_known = || locked(&desk.fleets).contains_key(&fleet);
    let reporter = report(&desk, "one", Duration::ZERO);
    locked(&desk.of(&fleet)).close(reporter);
    let mut told = Vec::new();
    while let Some(time) = desk.next() {
        assert!(is_known(), "its last report counts for a while");
        assert_eq!(desk.take_due(time), [Arc::clone(&fleet)]);
        told.extend(desk.look(&fleet, time));
    }
    assert!(matches!(told[..], [.., Event::Load { load: None, .. }]) && !is_known());
    // a stream that begins
    let begins = desk.of(&fleet);
    assert!(desk.look(&fleet, Duration::from_secs(60)).is_empty() && is_known());
    drop(begins);
    let time = desk.next().unwrap();
    assert!(desk.look(&fleet, time).is_empty() && !is_known());
}
