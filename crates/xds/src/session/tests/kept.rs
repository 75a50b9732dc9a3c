//! What is kept for a client goes with what it is about.

use super::rig::Rig;

/// What is kept for the client after each of so many rounds of a story about names that come and go.
fn kept(start: &str, mut round: impl FnMut(&mut Rig, usize)) -> Vec<usize> {
    let mut rig = Rig::started(start);
    let mut after = |number| {
        round(&mut rig, number);
        rig.ack_all(0);
        rig.pass(1_000_000);
        rig.ack_all(0);
        rig.clients[0].session.entries()
    };
    (0..5).map(&mut after).collect()
}

#[test]
fn what_waits_for_a_cluster_and_goes_is_waited_for_no_more() {
    let rounds = kept("cds a; eds a; lds l -> v; rds v; vhds v/x -> a", |rig, n| {
        rig.publish(&format!("vhds v/h{n} -> a"));
        rig.ack_all(0);
        rig.publish(&format!("cds c{n}; eds c{n}; vhds v/h{n}@2 -> c{n}"));
        assert!(!rig.clients[0].session.waits.is_empty());
        rig.publish(&format!("-vhds v/h{n}; -cds c{n}; -eds c{n}"));
    });
    assert_eq!(rounds, [rounds[0]; 5]);
}

#[test]
fn a_refusal_of_what_is_not_asked_for_any_more_is_forgotten_when_that_goes() {
    let rounds = kept("cds a; eds a", |rig, n| {
        let name = format!("x{n}");
        rig.subscribe("rtds", &[&name]);
        rig.ack_all(0);
        rig.publish(&format!("rtds {name}"));
        rig.nack("rtds", "no");
        rig.ack_all(0);
        rig.unsubscribe("rtds", &[&name]);
        assert_eq!(rig.clients[0].session.refused.len(), 1);
        rig.publish(&format!("-rtds {name}"));
    });
    assert_eq!(rounds, [rounds[0]; 5]);
}

#[test]
fn that_a_cluster_was_taken_back_does_not_count_once_it_is_acknowledged() {
    let mut rig = Rig::started("cds a; eds a");
    rig.publish("cds g; eds g");
    rig.ack("eds");
    rig.clients[0].open.clear();
    assert_eq!(rig.pass(5_000), "CDS -g");
    assert_eq!(rig.clients[0].session.clusters.haunted.len(), 1);
    rig.ack_all(0);
    assert!(rig.clients[0].session.clusters.haunted.is_empty());
}

#[test]
fn endpoints_that_a_cluster_has_left_are_no_witness_of_it() {
    let mut rig = Rig::started("cds c -> eds:s; eds s; eds t");
    rig.publish("cds c@2 -> eds:t");
    rig.publish("eds s@2");
    let moved = rig.clients[0].open.iter().position(|response| response.puts.iter().any(|item| &**item.name() == "t"));
    let moved = rig.clients[0].open.remove(moved.expect("its endpoints go behind it")).expect("it is there");
    assert_eq!(rig.events(), "");
    rig.answer(0, "eds", None);
    assert_eq!(rig.events(), "", "that set says nothing");
    rig.clients[0].open.push_front(moved);
    rig.answer(0, "eds", None);
    assert_eq!(rig.events(), "warm c");
}
