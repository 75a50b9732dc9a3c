//! Two clients that call themselves the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::rig::{Rig, changes, request};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::{Need, TypeUrl};
use crate::saved::{Doubt, SavedFleet};
use crate::session::Session;
use crate::wire::Variant;

const SMALL: &str = "cds a; eds a; lds l -> r; rds r -> a";

/// The usual client and another of the same id, both with everything.
fn two() -> (Rig, usize) {
    let mut rig = Rig::started(SMALL);
    let second = rig.connect("envoy");
    rig.start(second);
    rig.events();
    (rig, second)
}

/// All clients go.
fn leave(rig: &mut Rig) {
    rig.clients.drain(..).for_each(|client| client.session.leave(&mut rig.fleet));
}

#[test]
fn what_one_of_two_left_in_doubt_is_cleared_up_with_each() {
    let (mut rig, second) = two();
    rig.publish("cds c; eds c");
    rig.advance(second);
    assert_eq!(rig.answer(second, "cds", Some("no")), "CDS -c");
    rig.ack_all(0);
    leave(&mut rig);
    rig.fleet.publish(changes("-cds c; -eds c"));
    for _ in 0..2 {
        let client = rig.connect("envoy");
        assert_eq!(rig.say(client, request("cds", &["*"], &[])), "CDS -c | CDS a@1");
        rig.ack_all(client);
    }
    let third = rig.connect("envoy");
    assert_eq!(rig.say(third, request("cds", &["*"], &[])), "CDS a@1");
}

#[test]
fn what_one_of_two_left_in_doubt_is_not_said_to_who_does_not_ask_for_it() {
    let (mut rig, second) = two();
    rig.publish("eds x; eds y");
    assert_eq!(rig.say(second, request("eds", &["x", "y"], &[])), "EDS x@1 y@1");
    rig.answer(second, "eds", Some("no"));
    leave(&mut rig);
    let first = rig.connect("envoy");
    assert_eq!(rig.say(first, request("eds", &["a", "x"], &[])), "EDS a@1 x@1");
    rig.ack_all(first);
    assert_eq!(rig.say(first, request("eds", &["y"], &[])), "EDS y@1");
}

#[test]
fn what_both_refused_is_not_kept_from_the_one_that_comes_first() {
    let (mut rig, second) = two();
    rig.publish("rds r@2 -> a");
    rig.advance(second);
    rig.nack("rds", "no");
    rig.answer(second, "rds", Some("no"));
    leave(&mut rig);
    let first = rig.connect("envoy");
    assert_eq!(rig.say(first, request("rds", &["r"], &[])), "RDS r@2");
}

#[test]
fn they_are_told_of_once_and_not_because_one_came_again_before_its_last_stream_ended() {
    let (mut rig, second) = two();
    let speak = |rig: &mut Rig, client| {
        rig.now += Duration::from_secs(6);
        rig.say(client, request("rtds", &["x"], &[]));
        rig.events()
    };
    // what was on its way
    rig.say(0, request("rtds", &["x"], &[]));
    assert_eq!([speak(&mut rig, second), speak(&mut rig, second)], ["", ""]);
    assert_eq!(speak(&mut rig, 0), "namesakes envoy");
    assert_eq!([speak(&mut rig, 0), speak(&mut rig, second)], ["", ""]);
}

#[test]
fn channels_of_one_grpc_client_are_not_told_of() {
    let mut rig = Rig::foreign(SMALL);
    let node = Node { id: "foreign".into(), user_agent: "gRPC C-core linux".into(), ..Node::default() };
    let _second = Session::new(&mut rig.fleet, Arc::new(node), Variant::Delta, true);
    rig.events();
    for _ in 0..3 {
        rig.now += Duration::from_secs(6);
        rig.subscribe("rtds", &["x"]);
    }
    assert_eq!(rig.events(), "");
}

#[test]
fn what_each_may_hold_as_ghosts_is_saved_together_and_once() {
    let (mut rig, second) = two();
    rig.fleet.keep(false);
    let fleet: Arc<str> = "ns/gw".into();
    rig.fleet.take_unsaved(&fleet);
    let node: Arc<str> = "envoy".into();
    let (one, other) = (rig.clients[0].session.id(), rig.clients[second].session.id());
    rig.fleet.haunt(one, &node, BTreeSet::from(["c".into()]));
    rig.fleet.haunt(other, &node, BTreeSet::from(["d".into()]));
    let unsaved = rig.fleet.take_unsaved(&fleet).expect("ghosts");
    let both = ["c", "d"].map(|name| Need::new(TypeUrl::Cluster, name));
    assert_eq!(unsaved.doubts, [(Arc::clone(&node), Doubt { needs: both.into(), heirs: 2 })]);
    rig.fleet.haunt(one, &node, BTreeSet::from(["c".into()]));
    rig.fleet.haunt(other, &node, BTreeSet::from(["d".into()]));
    assert!(!rig.fleet.has_unsaved());
    rig.fleet.haunt(other, &node, BTreeSet::new());
    let unsaved = rig.fleet.take_unsaved(&fleet).expect("one is laid");
    let needs = BTreeSet::from([Need::new(TypeUrl::Cluster, "c")]);
    assert_eq!(unsaved.doubts, [(node, Doubt { needs, heirs: 2 })]);
}

#[test]
fn what_one_of_two_may_have_is_cleared_up_with_each_after_a_restart_too() {
    let mut rig = Rig::started(SMALL);
    rig.fleet.keep(false);
    let (fleet, node): (Arc<str>, Arc<str>) = ("ns/gw".into(), "envoy".into());
    rig.fleet.haunt(rig.clients[0].session.id(), &node, BTreeSet::from(["c".into()]));
    let mut file: Vec<u8> = rig.fleet.take_unsaved(&fleet).expect("ghosts").parts().flatten().collect();
    rig.connect("envoy");
    let unsaved = rig.fleet.take_unsaved(&fleet).expect("they are two");
    file.extend(unsaved.parts().flatten());
    let saved = SavedFleet::read(&file.into()).expect("what was saved");
    rig.fleet = Fleet::new(fleet);
    rig.fleet.restore(saved);
    let mut taken = || rig.fleet.take_doubts("envoy", &TypeUrl::Cluster).len();
    assert_eq!([taken(), taken(), taken()], [1, 1, 0]);
}
