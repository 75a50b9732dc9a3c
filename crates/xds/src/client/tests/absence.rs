//! What does not exist, and how that is known.

use super::rig::{Rig, config};
use crate::client::{Config, Variant};

fn rig() -> Rig {
    Rig::of(Variant::Delta)
}

fn with_ttl() -> Rig {
    let mut rig = Rig::new(Config { ttl: true, ..config(&["s"]) });
    rig.subscribe("CDS *").subscribe("RDS r").open(1);
    rig
}

#[test]
fn what_does_not_come_in_fifteen_seconds_does_not_exist() {
    let mut rig = rig();
    rig.subscribe("RDS r s").open(1);
    rig.tell(1, "RDS 1 r@1");
    rig.pass(14_999);
    assert_eq!(rig.has("RDS s"), "unknown");
    rig.pass(1);
    assert_eq!((rig.has("RDS r"), rig.has("RDS s")), ("1 r@1".into(), "Timeout".into()));
    assert_eq!(rig.events(), "in use 0, RDS r, RDS s Timeout");
    rig.tell(1, "RDS 2 s@1");
    assert_eq!(rig.has("RDS s"), "1 s@1");
}

#[test]
fn the_time_begins_when_it_is_asked_for_and_ends_with_the_stream() {
    let mut rig = rig();
    rig.subscribe("RDS r").open(1);
    rig.tell(1, "RDS 1 r@1");
    rig.pass(10_000);
    rig.subscribe("RDS s").does();
    rig.pass(10_000);
    assert_eq!(rig.has("RDS s"), "unknown");
    rig.end(1);
    rig.pass(20_000);
    assert_eq!(rig.has("RDS s"), "unknown", "no stream on which it could have come");
}

#[test]
fn a_wildcard_and_a_collection_are_not_waited_for() {
    let mut rig = rig();
    rig.subscribe("CDS *").subscribe("EDS xdstp://a/*").open(1);
    rig.pass(60_000);
    assert_eq!(rig.events(), "in use 0");
}

#[test]
fn a_removal_tells_that_it_does_not_exist() {
    let mut rig = rig();
    rig.subscribe("RDS r").open(1);
    assert_eq!(rig.tell(1, "RDS 1 -r"), "RDS ack 1");
    assert_eq!(rig.has("RDS r"), "Removed");
    rig.pass(60_000);
    assert_eq!(rig.events(), "in use 0, RDS r Removed");
}

#[test]
fn an_error_tells_why_it_does_not_come_and_not_found_that_it_does_not_exist() {
    for (mut rig, version) in [(rig(), ""), (Rig::of(Variant::Sotw), "v1 ")] {
        rig.subscribe("RDS p q r").open(1);
        rig.tell(1, &format!("RDS {version}1 p@1 q@1"));
        rig.tell(1, &format!("RDS {version}2 ?p:7 ?q:5 ?r:7"));
        assert!(rig.has("RDS p").ends_with(", failed: no (code 7)"), "{}", rig.has("RDS p"));
        assert_eq!((rig.has("RDS q"), rig.has("RDS r")), ("Removed".into(), "unknown, failed: no (code 7)".into()));
        assert_eq!(rig.events(), "in use 0, RDS p, RDS q, RDS p failed, RDS q Removed, RDS r failed");
        rig.tell(1, &format!("RDS {version}3 p@2"));
        assert!(!rig.has("RDS p").contains("failed"));
    }
}

#[test]
fn what_has_a_time_to_live_goes_when_it_is_over_unless_a_heartbeat_comes() {
    let mut rig = with_ttl();
    rig.tell(1, "CDS 1 a@1~5 b@1");
    rig.tell(1, "RDS 2 r@1~5");
    rig.events();
    rig.pass(4_000);
    assert_eq!(rig.tell(1, "CDS 3 a~5"), "CDS ack 3");
    rig.pass(4_000);
    assert_eq!(rig.events(), "RDS r Expired");
    assert_eq!((rig.has("CDS a"), rig.has("RDS r")), ("1 a@1".into(), "Expired".into()));
    rig.pass(1_000);
    assert_eq!(rig.events(), "CDS a Expired");
    rig.pass(60_000);
    assert_eq!(rig.has("CDS b"), "1 b@1");
}

#[test]
fn a_new_version_without_a_time_to_live_lives_on() {
    let mut rig = with_ttl();
    rig.tell(1, "CDS 1 a@1~5");
    rig.tell(1, "CDS 2 a@2");
    rig.pass(60_000);
    assert_eq!(rig.has("CDS a"), "2 a@2");
}

#[test]
fn a_heartbeat_for_what_has_expired_here_makes_the_client_ask_anew() {
    let mut rig = with_ttl();
    rig.tell(1, "CDS 1 a@1~5");
    rig.pass(5_000);
    assert_eq!(rig.tell(1, "CDS 2 a~5"), "close 1");
    assert_eq!(rig.pass(100), "connect 2 to 0");
    assert_eq!(rig.open(2), "node CDS +* | RDS +r");
}

#[test]
fn without_the_feature_there_is_neither_a_time_to_live_nor_a_heartbeat() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    rig.tell(1, "CDS 1 a@1~5");
    rig.pass(60_000);
    assert_eq!(rig.has("CDS a"), "1 a@1");
    assert_eq!(
        rig.tell(1, "CDS 2 a~5"),
        "CDS nack 2: Error adding/updating resource(s) a: a heartbeat, which this client has not announced"
    );
    assert!(rig.has("CDS a").starts_with("1 a@1"));
}
