//! The state of the world.

use super::rig::{Rig, config};
use crate::client::{Config, Variant};

fn rig() -> Rig {
    Rig::of(Variant::Sotw)
}

#[test]
fn every_message_names_everything_and_repeats_version_and_nonce() {
    let mut rig = rig();
    rig.subscribe("LDS *").subscribe("RDS r");
    assert_eq!(rig.open(1), "node LDS v n [*] | RDS v n [r]");
    assert_eq!(rig.tell(1, "RDS v7 1 r@1"), "RDS v7 n1 [r]");
    assert_eq!(rig.subscribe("RDS s").does(), "RDS v7 n1 [r s]");
    assert_eq!(rig.tell(1, "RDS v8 2 s@1"), "RDS v8 n2 [r s]");
    assert_eq!(rig.unsubscribe("RDS r s").does(), "RDS v8 n2 []");
}

#[test]
fn a_refusal_repeats_the_version_accepted_last() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    rig.tell(1, "CDS v1 1 a@1");
    let refused = rig.tell(1, "CDS v2 2 a@1 b@bad");
    assert!(refused.starts_with("CDS v1 n2 [*]: Error adding/updating resource(s) b: "), "{refused}");
    assert_eq!(rig.tell(1, "CDS v3 3 a@2"), "CDS v3 n3 [*]");
}

#[test]
fn listeners_and_clusters_that_are_not_listed_are_gone_other_kinds_stay() {
    let mut rig = rig();
    rig.subscribe("CDS *").subscribe("LDS l m").subscribe("RDS r s").open(1);
    rig.tell(1, "CDS v1 1 a@1 b@1");
    rig.tell(1, "LDS v1 2 l@1 m@1");
    rig.tell(1, "RDS v1 3 r@1 s@1");
    rig.events();
    rig.tell(1, "CDS v2 4 b@1");
    rig.tell(1, "LDS v2 5 l@1");
    rig.tell(1, "RDS v2 6 r@2");
    assert_eq!(rig.events(), "CDS a Unlisted, LDS m Unlisted, RDS r");
    assert_eq!(rig.has("LDS m"), "Unlisted");
    rig.tell(1, "CDS v3 7");
    assert_eq!(rig.events(), "CDS b Unlisted");
}

#[test]
fn what_was_asked_for_just_now_may_be_missing_from_an_answer_to_an_earlier_request() {
    let mut rig = rig();
    rig.subscribe("LDS l").open(1);
    rig.subscribe("LDS m").does();
    rig.tell(1, "LDS v1 1 l@1");
    assert_eq!(rig.has("LDS m"), "unknown");
    rig.pass(15_000);
    assert_eq!(rig.has("LDS m"), "Timeout");
}

#[test]
fn nothing_counts_as_unlisted_if_not_all_that_is_listed_has_a_name() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    rig.tell(1, "CDS v1 1 a@1 b@1");
    let refused = rig.tell(1, "CDS v2 2 @1");
    assert_eq!(refused, "CDS v1 n2 [*]: a resource has no name");
    assert!(rig.has("CDS a").starts_with("1 "), "{}", rig.has("CDS a"));
}

#[test]
fn a_new_stream_names_the_version_accepted_last() {
    let mut rig = rig();
    rig.subscribe("CDS *").subscribe("RDS r").open(1);
    rig.tell(1, "CDS v1 1 a@1");
    rig.tell(1, "RDS v5 2 r@1");
    rig.end(1);
    rig.pass(100);
    assert_eq!(rig.open(2), "node CDS v1 n [*] | RDS v5 n [r]");
}

#[test]
fn a_new_stream_names_no_version_if_less_is_held_than_came_with_it() {
    let mut rig = rig();
    rig.subscribe("CDS *").subscribe("RDS r").open(1);
    rig.tell(1, "CDS v1 1 a@1");
    rig.tell(1, "RDS v5 2 r@1");
    rig.end(1);
    // more is asked for than version 5 brought
    rig.subscribe("RDS s").pass(100);
    assert_eq!(rig.open(2), "node CDS v1 n [*] | RDS v n [r s]");
    rig.tell(2, "RDS v5 1 r@1 s@1");
    // part of version 2 is refused, the other part taken
    rig.tell(2, "CDS v2 2 a@2 b@bad");
    rig.end(2);
    rig.pass(1_000);
    assert_eq!(rig.open(3), "node CDS v n [*] | RDS v5 n [r s]");
}

#[test]
fn another_server_is_told_no_version_unless_versions_mean_the_same_everywhere() {
    for (shared_versions, expect) in [(false, "node CDS v n [*]"), (true, "node CDS v1 n [*]")] {
        let mut rig = Rig::new(Config { variant: Variant::Sotw, shared_versions, ..config(&["one", "two"]) });
        rig.subscribe("CDS *").open(1);
        rig.tell(1, "CDS v1 1 a@1");
        rig.end(1);
        rig.pass(100);
        assert_eq!(rig.end(2), "connect 3 to 1");
        assert_eq!(rig.open(3), expect);
    }
}

#[test]
fn a_wrapped_resource_has_the_name_of_its_wrapper() {
    let mut rig = Rig::new(Config { variant: Variant::Sotw, ttl: true, ..config(&["s"]) });
    rig.subscribe("CDS *").open(1);
    assert_eq!(rig.tell(1, "CDS v1 1 a@1~5"), "CDS v1 n1 [*]");
    assert_eq!(rig.has("CDS a"), "1 a@1");
    rig.pass(4_000);
    rig.tell(1, "CDS v1 2 a~5");
    rig.pass(4_999);
    assert_eq!(rig.has("CDS a"), "1 a@1");
    rig.pass(1);
    assert_eq!(rig.has("CDS a"), "nothing");
}

#[test]
fn a_wildcard_that_was_let_go_and_is_asked_for_again_is_not_told_the_version_of_what_was_held_before() {
    let mut rig = rig();
    rig.subscribe("CDS *").open(1);
    rig.tell(1, "CDS v1 1 a@1");
    rig.end(1);
    rig.unsubscribe("CDS *").subscribe("CDS *");
    rig.pass(1_000);
    assert_eq!(rig.open(2), "node CDS v n [*]");
}
