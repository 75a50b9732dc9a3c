//! Two clients of one fleet that do not agree: who takes a version has it, who refuses it is heard as long as it is there.

use super::rig::{Rig, request};
use crate::event::{Event, Objection};
use crate::resource::{Need, TypeUrl};
use crate::snapshot::Key;

const SMALL: &str = "cds a; eds a; lds l -> r; rds r -> a";

/// The usual client and another, both with everything.
fn two(resources: &str) -> (Rig, usize) {
    let mut rig = Rig::started(resources);
    let second = rig.connect("second");
    rig.start(second);
    rig.events();
    (rig, second)
}

/// These two and a third; a listener has been published to all, and the first has it.
fn three_with_a_listener() -> (Rig, usize, usize) {
    let (mut rig, second) = two(SMALL);
    let third = rig.connect("third");
    rig.start(third);
    rig.events();
    rig.publish("lds m -> r");
    rig.advance(second);
    rig.advance(third);
    rig.ack("lds");
    (rig, second, third)
}

/// The last client goes.
fn leave(rig: &mut Rig) {
    rig.clients.pop().expect("a client").session.leave(&mut rig.fleet);
}

#[test]
fn what_a_stranger_refuses_first_reaches_those_who_take_it() {
    let (mut rig, second) = two(SMALL);
    assert_eq!(rig.publish("rds r@2 -> a"), "RDS r@2");
    assert_eq!(rig.advance(second), "RDS r@2");
    assert_eq!(rig.answer(second, "rds", Some("no")), "");
    assert_eq!(rig.events(), "disputed rds r: no");
    assert_eq!(rig.ack("rds"), "");
    assert_eq!(rig.events(), "accepted rds r@2");
    assert_eq!(rig.pass(600_000), "");
    assert_eq!(rig.advance(second), "");
    let third = rig.connect("third");
    assert_eq!(rig.say(third, request("rds", &["r"], &[])), "RDS r@2");
}

#[test]
fn with_the_one_who_refuses_goes_its_refusal() {
    let (mut rig, second) = two(SMALL);
    rig.publish("rds r@2 -> a");
    rig.advance(second);
    rig.answer(second, "rds", Some("no"));
    rig.ack("rds");
    rig.events();
    leave(&mut rig);
    assert_eq!(rig.advance(0), "");
    assert_eq!(rig.events(), "gone second, 1 left, settled rds r");
    assert_eq!(rig.publish("rds r@3 -> a"), "RDS r@3");
    rig.ack("rds");
    assert_eq!(rig.events(), "accepted rds r@3");
}

#[test]
fn what_all_refuse_is_the_refusal_of_the_fleet_and_told_once() {
    let (mut rig, second) = two(SMALL);
    rig.publish("rds r@2 -> a");
    rig.advance(second);
    rig.answer(second, "rds", Some("no"));
    rig.nack("rds", "no");
    assert_eq!(rig.events(), "disputed rds r: no, settled rds r, refused rds r@2: no");
    assert_eq!((rig.pass(600_000), rig.advance(second)), (String::new(), String::new()));
    leave(&mut rig);
    assert_eq!(rig.advance(0), "");
    assert_eq!(rig.events(), "gone second, 1 left");
}

#[test]
fn a_client_that_never_asked_does_not_keep_the_fleet_from_falling_back() {
    let mut rig = Rig::started(SMALL);
    rig.connect("onlooker");
    rig.events();
    rig.publish("rds r@2 -> a");
    rig.nack("rds", "no");
    assert_eq!(rig.events(), "disputed rds r: no");
    assert_eq!(rig.deadline(), Some(12_000));
    rig.pass(12_000);
    assert_eq!(rig.events(), "settled rds r, refused rds r@2: no");
}

#[test]
fn what_the_only_client_refused_is_offered_to_another_that_comes() {
    let mut rig = Rig::started(SMALL);
    rig.publish("rds r@2 -> a");
    rig.nack("rds", "no");
    let second = rig.connect("second");
    assert_eq!(rig.say(second, request("rds", &["r"], &[])), "RDS r@2");
    assert_eq!(rig.advance(0), "");
    rig.answer(second, "rds", None);
    assert_eq!(rig.events(), "refused rds r@2: no, connected second, disputed rds r: no, accepted rds r@2");
    leave(&mut rig);
    rig.events();
    rig.reconnect();
    assert!(rig.events().contains("settled rds r"));
}

#[test]
fn a_listener_that_one_client_cannot_bind_is_active_as_the_other_says_also_when_that_one_has_gone() {
    let (mut rig, second) = two(SMALL);
    rig.publish("lds m -> r");
    rig.advance(second);
    let busy = "cannot bind '127.0.0.1:80': Address already in use";
    rig.answer(second, "lds", Some(busy));
    rig.ack("lds");
    let events = rig.events();
    assert!(events.contains("disputed lds m") && events.ends_with("accepted lds m@1"), "{events}");
    for _ in 0..5 {
        rig.pass(60_000);
        assert_eq!(rig.advance(second), "LDS m@1");
        rig.answer(second, "lds", Some(busy));
    }
    assert_eq!(rig.events(), "");
    leave(&mut rig);
    assert_eq!(rig.pass(600_000), "");
    assert_eq!(rig.events(), "gone second, 1 left, settled lds m");
    assert_eq!(rig.deadline(), None);
}

#[test]
fn a_port_that_a_gone_client_held_is_taken_at_once() {
    let (mut rig, second) = two(SMALL);
    rig.publish("lds m -> r");
    rig.advance(second);
    rig.answer(second, "lds", None);
    for _ in 0..12 {
        rig.nack("lds", "Address already in use");
        assert_eq!(rig.pass(60_000), "LDS m@1");
    }
    rig.nack("lds", "Address already in use");
    rig.events();
    leave(&mut rig);
    assert_eq!(rig.advance(0), "LDS m@1");
    rig.ack("lds");
    assert!(rig.events().ends_with("settled lds m"), "the listener is active already");
}

#[test]
fn a_new_cluster_that_a_stranger_refuses_is_warm_for_the_fleet() {
    let (mut rig, second) = two(SMALL);
    assert_eq!(rig.publish("cds c; eds c"), "CDS c@1 | EDS c@1");
    rig.advance(second);
    assert_eq!(rig.answer(second, "cds", Some("no")), "CDS -c");
    rig.ack_all(0);
    rig.ack_all(second);
    assert_eq!(rig.events(), "disputed cds c: no, warm c");
    rig.pass(600_000);
    assert_eq!(rig.advance(second), "");
    assert_eq!(rig.events(), "", "nor is it reported as not getting ready");
}

#[test]
fn a_changed_cluster_goes_back_only_where_it_is_refused() {
    let (mut rig, second) = two(SMALL);
    rig.publish("cds a@2");
    rig.advance(second);
    assert_eq!(rig.answer(second, "cds", Some("no")), "CDS a@1 | EDS a@1");
    assert_eq!(rig.ack_all(0), "");
    assert_eq!(rig.events(), "disputed cds a: no, warm a");
}

#[test]
fn a_disputed_name_that_is_removed_meanwhile_is_no_dispute_any_more() {
    let (mut rig, second) = two("cds a; eds a; cds c; eds c; lds l -> r; rds r -> a, c");
    rig.publish("cds c@2");
    rig.advance(second);
    rig.answer(second, "cds", Some("no"));
    // the accepted route still names it, until the next is accepted
    rig.publish("-cds c; -eds c; rds r@2 -> a");
    rig.advance(second);
    for client in [0, second] {
        rig.ack_all(client);
        rig.advance(client);
    }
    let events = rig.events();
    assert!(events.contains("settled cds c"), "{events}");
    rig.pass(600_000);
    rig.advance(second);
    for client in [0, second] {
        rig.ack_all(client);
        rig.advance(client);
    }
    assert_eq!(rig.deadline(), None);
}

#[test]
fn what_all_refuse_is_not_sent_to_them_again_because_others_come_and_go() {
    let mut rig = Rig::started(SMALL);
    for _ in 0..4 {
        let client = rig.connect("another");
        rig.start(client);
    }
    rig.publish("rds r@2 -> a; lds m -> r");
    for client in 0..5 {
        rig.advance(client);
        rig.answer(client, "rds", Some("no"));
        rig.ack_all(client);
    }
    rig.events();
    let quiet = |rig: &mut Rig| (0..rig.clients.len().min(5)).for_each(|client| assert_eq!(rig.advance(client), ""));
    for pod in ["p1", "p2", "p3"] {
        let new = rig.connect(pod);
        quiet(&mut rig);
        assert_eq!(rig.say(new, request("rds", &["r"], &[])), "RDS r@2");
        quiet(&mut rig);
        assert_eq!(rig.answer(new, "rds", Some("no")), "RDS r@1");
        quiet(&mut rig);
        leave(&mut rig);
        quiet(&mut rig);
    }
    assert_eq!(rig.pass(600_000), "");
    assert!(!rig.events().contains("rds"), "nothing new");
    // one of those who refuse goes and comes again: it is asked once
    leave(&mut rig);
    quiet(&mut rig);
    let again = rig.connect("another");
    quiet(&mut rig);
    assert_eq!(rig.say(again, request("rds", &["r"], &[])), "RDS r@2");
    assert_eq!(rig.answer(again, "rds", Some("no")), "RDS r@1");
    rig.ack_all(again);
    // mended
    rig.publish("rds r@3 -> a");
    (1..5).for_each(|client| assert_eq!(rig.advance(client), "RDS r@3"));
}

#[test]
fn a_listener_that_all_refuse_is_tried_in_its_time_whoever_of_them_goes() {
    let (mut rig, second, third) = three_with_a_listener();
    rig.publish("lds n -> r");
    for client in [0, second, third] {
        rig.ack_all(client);
    }
    rig.publish("lds n@2 -> r");
    for client in [0, second, third] {
        rig.advance(client);
        rig.answer(client, "lds", Some("no"));
    }
    rig.ack_all(0);
    assert!(rig.deadline() <= Some(50));
    leave(&mut rig);
    assert_eq!((rig.advance(0), rig.advance(second)), (String::new(), String::new()));
    let new = rig.connect("new");
    rig.say(new, request("lds", &[], &[]));
    leave(&mut rig);
    assert_eq!((rig.advance(0), rig.advance(second)), (String::new(), String::new()));
    assert_eq!(rig.pass(50), "LDS n@2");
}

#[test]
fn a_port_is_looked_for_out_of_turn_once_however_many_go_who_had_it() {
    let mut rig = Rig::started(SMALL);
    let mut others: Vec<usize> = Vec::new();
    for _ in 0..3 {
        let client = rig.connect("another");
        rig.start(client);
        others.push(client);
    }
    rig.publish("lds m -> r");
    for client in others {
        rig.advance(client);
        rig.ack_all(client);
    }
    rig.nack("lds", "Address already in use");
    for sent in ["LDS m@1", "", ""] {
        leave(&mut rig);
        assert_eq!(rig.advance(0), sent);
        if !sent.is_empty() {
            rig.nack("lds", "Address already in use");
        }
    }
    assert_eq!(rig.pass(100), "LDS m@1");
}

#[test]
fn what_all_refused_is_the_fleets_refusal_again_if_who_came_does_not_take_it() {
    let mut rig = Rig::started(SMALL);
    rig.publish("rds r@2 -> a");
    rig.nack("rds", "no");
    assert_eq!(rig.events(), "refused rds r@2: no");
    let _onlooker = rig.connect("onlooker");
    rig.events();
    assert_eq!(rig.advance(0), "");
    let refused = |rig: &Rig| rig.fleet.snapshot().is_refused(&Key::Put(Need::new(TypeUrl::Route, "r")));
    assert!(!refused(&rig));
    assert_eq!(rig.deadline(), Some(12_000));
    assert_eq!(rig.pass(12_000), "");
    assert!(refused(&rig));
    assert_eq!(rig.events(), "", "it was told");
}

#[test]
fn one_client_that_refuses_again_and_again_does_not_count_for_others() {
    let (mut rig, second, third) = three_with_a_listener();
    for pause in [50, 100, 200] {
        rig.answer(second, "lds", Some("Address already in use"));
        rig.pass(pause);
        rig.advance(second);
    }
    let events = rig.events();
    assert!(!events.contains("accepted"), "the third has not said anything yet: {events}");
    rig.answer(third, "lds", None);
    rig.advance(third);
    assert!(rig.events().contains("accepted lds m@1"));
}

#[test]
fn one_client_that_refuses_and_goes_does_not_count_for_others() {
    let (mut rig, second, third) = three_with_a_listener();
    rig.answer(third, "lds", Some("Address already in use"));
    rig.pass(50);
    // it is tried again, and goes before it answers
    assert_eq!(rig.advance(third), "LDS m@1");
    leave(&mut rig);
    let events = rig.events();
    assert!(!events.contains("accepted"), "the second has not said anything yet: {events}");
    rig.answer(second, "lds", None);
    rig.advance(second);
    assert!(rig.events().contains("accepted lds m@1"));
}

#[test]
fn each_client_that_refuses_what_others_take_is_told_with_its_words_as_long_as_it_does_and_is_there() {
    let (mut rig, second) = two(SMALL);
    let third = rig.connect("third");
    rig.start(third);
    rig.events();
    rig.publish("rds r@2 -> a");
    rig.advance(second);
    rig.advance(third);
    rig.answer(second, "rds", Some("no"));
    let told = |rig: &mut Rig| -> Vec<Vec<Objection>> {
        let disputed = |event| if let Event::Disputed { by, .. } = event { Some(by) } else { None };
        rig.fleet.take_events().into_iter().filter_map(disputed).collect()
    };
    let said = |node: &str, text: &str| Objection { node: node.into(), text: text.into() };
    assert_eq!(told(&mut rig), [vec![said("second", "no")]]);
    rig.answer(third, "rds", Some("goo.gle/debugstr  name: \"r\" Proto constraint validation failed (X)"));
    let never = said("third", "Proto constraint validation failed (X)");
    assert_eq!(told(&mut rig), [vec![said("second", "no"), never]]);
    rig.ack("rds");
    leave(&mut rig);
    assert_eq!(told(&mut rig), [vec![said("second", "no")]]);
    // it takes the next one
    rig.publish("rds r@3 -> a");
    assert_eq!(told(&mut rig), [Vec::new()]);
}

#[test]
fn a_cluster_that_does_not_get_ready_on_one_client_is_told_of_that_client_until_it_does() {
    let (mut rig, second) = two(SMALL);
    rig.publish("cds c; eds c");
    rig.advance(second);
    rig.subscribe("eds", &["c"]);
    rig.ack_all(0);
    rig.answer(second, "eds", None);
    rig.events();
    rig.pass(2_000);
    rig.advance(second);
    let events = rig.fleet.take_events();
    let is_second = |event: &Event| matches!(event, Event::Stalled { nodes, .. } if **nodes == ["second".into()]);
    assert!(events.iter().any(is_second), "{events:?}");
    rig.say(second, request("eds", &["c"], &[]));
    rig.ack_all(second);
    let events = rig.events();
    assert!(events.contains("stalled no more c") && events.contains("warm c"), "{events}");
}

#[test]
fn that_a_resource_is_accepted_says_whether_it_was_refused_before() {
    let mut rig = Rig::started(SMALL);
    let accepted = |rig: &mut Rig| -> Vec<bool> {
        let was_refused =
            |event| if let Event::Accepted { was_refused, .. } = event { Some(was_refused) } else { None };
        rig.fleet.take_events().into_iter().filter_map(was_refused).collect()
    };
    rig.publish("rds r@2 -> a");
    rig.nack("rds", "no");
    rig.publish("rds r@3 -> a");
    rig.ack("rds");
    assert_eq!(accepted(&mut rig), [true]);
    rig.publish("rds r@4 -> a");
    rig.ack("rds");
    assert_eq!(accepted(&mut rig), [false]);
    // what is gone is not refused any more
    rig.subscribe("rtds", &["x"]);
    rig.ack_all(0);
    rig.publish("rtds x@1");
    rig.nack("rtds", "no");
    rig.publish("-rtds x");
    rig.ack_all(0);
    rig.publish("rtds x@2");
    rig.ack_all(0);
    assert_eq!(accepted(&mut rig), [false]);
}

#[test]
fn words_are_kept_of_as_many_as_are_told_of_and_the_others_are_counted() {
    let mut rig = Rig::started(SMALL);
    let others: Vec<usize> = (0..10).map(|n| rig.connect(&format!("n{n}"))).collect();
    others.iter().for_each(|other| rig.start(*other));
    rig.events();
    rig.publish("rds r@2 -> a");
    // the later ones first
    for other in others.iter().rev() {
        rig.advance(*other);
        rig.answer(*other, "rds", Some(&format!("no {other}")));
    }
    let told = rig.events();
    let last = told.rsplit("disputed rds r: ").next();
    let first = "n0 no 1; n1 no 2; n2 no 3; n3 no 4; n4 no 5; n5 no 6; n6 no 7; n7 no 8";
    assert_eq!(last, Some(first));
    // one of them takes it after all: the next, whose own words were not kept, is told of in the last
    let item = rig.fleet.snapshot().at(&Key::Put(Need::new(TypeUrl::Route, "r"))).map(|entry| entry.current().clone());
    rig.fleet.confirm(rig.clients[1].session.id(), &item.unwrap(), 0);
    assert_eq!(rig.events(), format!("disputed rds r: {}; n8 no 1", first.split_once("; ").unwrap().1));
    rig.ack("rds");
    assert_eq!(rig.events(), "accepted rds r@2");
}
