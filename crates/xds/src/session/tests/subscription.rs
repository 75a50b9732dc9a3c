//! Subscriptions: wildcard, names, leaving and coming again.

use super::rig::Rig;

#[test]
fn a_subscription_to_what_the_client_has_is_answered_again() {
    let mut rig = Rig::started("cds a; eds a; sds s");
    assert_eq!(rig.subscribe("eds", &["a"]), "EDS a@1");
    rig.ack_all(0);
    assert_eq!(rig.unsubscribe("sds", &["s"]), "");
    assert_eq!(rig.subscribe("sds", &["s"]), "SDS s@1");
}

#[test]
fn nothing_is_sent_twice_and_an_acknowledgement_is_not_answered() {
    let mut rig = Rig::started("cds a; eds a");
    assert_eq!(rig.publish("eds a@2"), "EDS a@2");
    assert_eq!(rig.publish("eds a@2"), "");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.pass(60_000), "");
}

#[test]
fn only_what_is_subscribed_is_sent() {
    let mut rig = Rig::new("");
    rig.subscribe("cds", &["a"]);
    rig.ack_all(0);
    assert_eq!(rig.publish("cds a; cds b; eds a; eds b; rds r"), "CDS a@1");
}

#[test]
fn a_named_cluster_that_does_not_exist_is_denied_and_sent_when_it_appears() {
    let mut rig = Rig::new("");
    assert_eq!(rig.subscribe("cds", &["a"]), "CDS -a");
    rig.ack_all(0);
    assert_eq!(rig.publish("cds a"), "CDS a@1");
}

#[test]
fn the_explicit_wildcard_works_for_every_kind() {
    let mut rig = Rig::new("cds a; eds a; eds b; rtds x");
    assert_eq!(rig.subscribe("cds", &["*"]), "CDS a@1");
    assert_eq!(rig.subscribe("eds", &["*"]), "EDS a@1 b@1");
    assert_eq!(rig.subscribe("rtds", &[]), "RTDS x@1");
    rig.ack_all(0);
    assert_eq!(rig.publish("eds c"), "EDS c@1");
    rig.ack_all(0);
    assert_eq!(rig.unsubscribe("eds", &["*"]), "");
    assert_eq!(rig.publish("eds c@2"), "");
}

#[test]
fn an_unsubscription_inside_the_wildcard_is_answered_with_what_the_wildcard_has() {
    let mut rig = Rig::new("cds a");
    rig.subscribe("cds", &["*", "a", "b"]);
    rig.ack_all(0);
    assert_eq!(rig.unsubscribe("cds", &["a", "b", "phantom"]), "CDS -b | CDS a@1");
}

#[test]
fn an_acknowledgement_of_an_unasked_set_is_no_wildcard() {
    let mut rig = Rig::started("cds a; eds a; eds other");
    assert_eq!(rig.publish("cds b; eds b"), "CDS b@1 | EDS b@1");
    assert_eq!(rig.ack("eds"), "");
    assert_eq!(rig.subscribe("eds", &["b"]), "EDS b@1");
}

#[test]
fn of_several_changes_a_client_gets_the_last() {
    let mut rig = Rig::started("cds a; eds a");
    assert_eq!(rig.publish("eds a@2"), "EDS a@2");
    assert_eq!(rig.publish("eds a@3"), "");
    assert_eq!(rig.publish("eds a@4"), "");
    assert_eq!(rig.ack("eds"), "EDS a@4");
}

#[test]
fn a_client_that_does_not_answer_is_not_waited_for_for_ever() {
    let mut rig = Rig::started("cds a; eds a");
    rig.publish("eds a@2");
    assert_eq!(rig.publish("eds a@3"), "");
    assert_eq!(rig.deadline(), Some(2000));
    assert_eq!(rig.pass(2000), "");
    assert_eq!(rig.deadline(), Some(3000));
    assert_eq!(rig.pass(3000), "EDS a@3");
}

#[test]
fn unknown_and_stale_nonces_mean_nothing() {
    let mut rig = Rig::started("cds a; eds a");
    rig.publish("eds a@2");
    let mut stale = super::rig::request("eds", &[], &[]);
    stale.nonce = "999".into();
    assert_eq!(rig.say(0, stale.clone()), "");
    stale.error = Some("no".into());
    assert_eq!(rig.say(0, stale), "");
    assert_eq!(rig.events(), "");
}

#[test]
fn a_client_that_is_far_behind_compares_everything() {
    let mut rig = Rig::started("cds a; eds a");
    let many: String = (0..5000).map(|n| format!("sds s{n};")).collect();
    rig.fleet.publish(super::rig::changes(&many));
    rig.fleet.publish(super::rig::changes("eds a@2"));
    for round in 0..3 {
        let again: String = (0..5000).map(|n| format!("sds s{n}@{};", round + 2)).collect();
        rig.fleet.publish(super::rig::changes(&again));
    }
    assert_eq!(rig.advance(0), "EDS a@2");
}
