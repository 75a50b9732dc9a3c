//! Until when a report counts, and when it is told.

use std::time::Duration;

use super::rig::{INTERVAL, Rig, cluster, per_second, zone};

const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn a_reporter_that_is_silent_for_three_intervals_does_not_count_and_is_no_zero() {
    let mut rig = Rig::new();
    let (silent, other) = (rig.open("1"), rig.open("2"));
    rig.report(&silent, &[cluster("a", 10.0, vec![zone("x", 10)]), cluster("b", 10.0, vec![zone("x", 10)])]);
    rig.pass(2 * INTERVAL);
    rig.report(&other, &[cluster("a", 10.0, vec![zone("x", 20)])]);
    rig.pass(INTERVAL - MOMENT);
    assert_eq!((rig.load("a", "x").issued, rig.told["a"].reporters), (per_second(3), 2));
    rig.pass(MOMENT);
    assert_eq!((rig.load("a", "x").issued, rig.told["a"].reporters), (per_second(2), 1));
    assert!(!rig.told.contains_key("b"), "no data, not zero load");
    rig.report(&silent, &[cluster("b", 10.0, vec![zone("x", 10)])]);
    rig.gather();
    assert_eq!(rig.load("b", "x").issued, per_second(1), "its stream is still there");
}

#[test]
fn what_a_lost_stream_said_counts_for_three_intervals() {
    let mut rig = Rig::new();
    let lost = rig.open("1");
    rig.report(&lost, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    rig.gather();
    rig.loads.close(lost);
    rig.pass(2 * INTERVAL);
    assert_eq!(rig.load("a", "x").issued, per_second(1));
    rig.pass(INTERVAL);
    assert!(rig.told.is_empty());
    assert_eq!(rig.loads.next_deadline(), None, "nothing is left");
}

#[test]
fn the_first_report_on_a_new_stream_takes_the_place_of_the_lost_one_of_its_node() {
    let mut rig = Rig::new();
    let (lost, live) = (rig.open("same"), rig.open("same"));
    rig.report(&lost, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    rig.report(&live, &[cluster("a", 10.0, vec![zone("x", 20)])]);
    rig.loads.close(lost);
    let (again, other) = (rig.open("same"), rig.open("other"));
    rig.report(&other, &[cluster("a", 10.0, vec![zone("x", 40)])]);
    rig.gather();
    assert_eq!(rig.load("a", "x").issued, per_second(7), "one of another node takes nobody's place");
    rig.report(&again, &[cluster("a", 10.0, vec![zone("x", 80)])]);
    rig.gather();
    assert_eq!(rig.load("a", "x").issued, per_second(14), "a live stream of the same node goes on");
}

#[test]
fn a_shorter_interval_lets_nobody_be_late_who_was_not() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    rig.report(&envoy, &[cluster("a", 10.0, vec![zone("x", 10)])]);
    rig.pass(INTERVAL - MOMENT);
    rig.loads.set_interval(Duration::from_secs(1), rig.now);
    rig.pass(Duration::from_secs(3) - MOMENT);
    assert_eq!(rig.load("a", "x").issued, per_second(1));
    rig.pass(MOMENT);
    assert!(rig.told.is_empty());
}

#[test]
fn many_reports_in_a_tenth_of_an_interval_are_told_once() {
    let mut rig = Rig::new();
    let reporters: Vec<_> = (0..100).map(|n| rig.open(&n.to_string())).collect();
    for reporter in &reporters {
        rig.report(reporter, &[cluster("a", 10.0, vec![zone("x", 10)])]);
        rig.pass(INTERVAL / 10 / 100);
    }
    assert_eq!((rig.events, rig.load("a", "x").issued), (1, per_second(100)));
}

#[test]
fn what_does_not_change_is_not_told_again() {
    let mut rig = Rig::new();
    let envoy = rig.open("e");
    for _ in 0..5 {
        rig.report(&envoy, &[cluster("idle", 10.0, Vec::new()), cluster("live", 10.0, vec![zone("x", 5)])]);
        rig.pass(INTERVAL);
    }
    assert_eq!(rig.events, 1 + 5);
}
