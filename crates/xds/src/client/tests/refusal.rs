//! Refusals: only what is bad, with the reason, and the version before stays in force.

use bytes::Bytes;

use super::rig::Rig;
use crate::client::{LinkId, Variant};

fn rig() -> Rig {
    let mut rig = Rig::of(Variant::Delta);
    rig.subscribe("CDS *").subscribe("RDS r").open(1);
    rig
}

#[test]
fn the_bad_ones_of_a_response_are_named_and_the_good_ones_taken() {
    let mut rig = rig();
    rig.tell(1, "CDS 1 a@1 b@1");
    rig.events();
    let answer = rig.tell(1, "CDS 2 a@2 b@bad2 c@bad3");
    assert_eq!(answer, "CDS nack 2: Error adding/updating resource(s) b: bad2 is bad, c: bad3 is bad");
    assert_eq!(rig.events(), "CDS a, CDS b refused, CDS c refused");
    assert_eq!(rig.has("CDS a"), "2 a@2");
    assert_eq!(rig.has("CDS b"), "1 b@1, refuses bad2: bad2 is bad");
    assert_eq!(rig.has("CDS c"), "unknown, refuses bad3: bad3 is bad");
}

#[test]
fn a_good_version_ends_the_refusal_and_so_does_a_removal() {
    let mut rig = rig();
    rig.tell(1, "CDS 1 a@1 b@1");
    rig.tell(1, "CDS 2 a@bad b@bad");
    rig.tell(1, "CDS 3 a@3 -b");
    assert_eq!((rig.has("CDS a"), rig.has("CDS b")), ("3 a@3".into(), "nothing".into()));
}

#[test]
fn a_new_stream_lists_the_version_in_force_and_not_the_refused_one() {
    let mut rig = rig();
    rig.tell(1, "CDS 1 a@1 b@bad");
    rig.tell(1, "CDS 2 a@bad");
    rig.end(1);
    rig.pass(100);
    assert_eq!(rig.open(2), "node CDS +* =a@1 | RDS +r");
}

#[test]
fn a_refused_resource_has_come_and_is_not_waited_for() {
    let mut rig = rig();
    rig.tell(1, "RDS 1 r@bad");
    rig.pass(60_000);
    assert_eq!(rig.has("RDS r"), "unknown, refuses bad: bad is bad");
}

#[test]
fn a_name_that_comes_twice_in_one_response_is_refused() {
    let mut rig = rig();
    rig.tell(1, "CDS 1 c@1");
    let answer = rig.tell(1, "CDS 2 a@1 a@2 b@1 c@2 -c");
    let why = "it is named twice in one response";
    assert_eq!(answer, format!("CDS nack 2: Error adding/updating resource(s) a: {why}, a: {why}, c: {why}"));
    assert_eq!(rig.has("CDS b"), "1 b@1");
    assert!(rig.has("CDS c").starts_with("1 c@1, refuses"));
}

#[test]
fn a_resource_of_another_kind_or_without_content_is_refused() {
    let mut rig = rig();
    let wrong = super::rig::delta("CDS 1 a@1");
    // the type of the resource inside, which comes first
    let at = wrong.windows(10).position(|part| part == b"v3.Cluster").expect("the type");
    let mut wrong = wrong;
    wrong[at + 9] = b'Z';
    rig.client.received(LinkId(1), wrong.into(), rig.now, &mut super::rig::judge);
    let answer = rig.does();
    assert!(
        answer.starts_with("CDS nack 1: Error adding/updating resource(s) a: it is a \"type.googleapis.com/envoy.config.cluster.v3.ClusteZ\""),
        "{answer}"
    );
    assert_eq!(rig.tell(1, "CDS 2 b"), "CDS nack 2: Error adding/updating resource(s) b: it has no content");
}

#[test]
fn a_refusal_is_no_longer_than_envoys() {
    let mut rig = rig();
    let many: String = (0..2_000).map(|number| format!(" c{number}@bad")).collect();
    let answer = rig.tell(1, &format!("CDS 1{many}"));
    assert!(answer.starts_with("CDS nack 1: 2000 resources are refused: c0: "), "{answer}");
    assert!(answer.len() < 4_200 && answer.ends_with('…'), "{} bytes", answer.len());
}

#[test]
fn what_others_say_stays_in_one_line() {
    let mut rig = rig();
    rig.client.ended(LinkId(1), "first\nsecond", rig.now);
    assert_eq!(rig.events(), "lost 0: first second");
}

#[test]
fn a_message_that_is_none_ends_the_stream() {
    let mut rig = rig();
    rig.client.received(LinkId(1), Bytes::from_static(b"\xff\xff"), rig.now, &mut super::rig::judge);
    assert_eq!(rig.does(), "close 1");
    let events = rig.events();
    assert!(events.starts_with("lost 0: the server sent what is no response"), "{events}");
    assert_eq!(rig.pass(100), "connect 2 to 0");
}
