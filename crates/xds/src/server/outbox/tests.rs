//! What a slow reader is told.

use super::Outbox;
use crate::event::Event;
use crate::resource::{TypeUrl, Version};

fn accepted(version: u128, was_refused: bool) -> Event {
    let (fleet, type_url, name) = ("f".into(), TypeUrl::Route, "r".into());
    Event::Accepted { fleet, type_url, name, version: Version(version), was_refused }
}

fn refused() -> Event {
    let (fleet, type_url, name) = ("f".into(), TypeUrl::Route, "r".into());
    Event::Refused { fleet, type_url, name, version: Version(1), text: "no".into(), has_previous: false }
}

fn waiting(events: Vec<Event>) -> Vec<Event> {
    let outbox = Outbox::default();
    events.into_iter().for_each(|event| outbox.put(vec![event]));
    outbox.take()
}

#[test]
fn that_something_was_refused_before_it_was_accepted_is_not_lost() {
    assert_eq!(waiting(vec![accepted(2, true), accepted(3, false)]), [accepted(3, true)]);
    assert_eq!(waiting(vec![refused(), accepted(3, false)]), [accepted(3, true)]);
    assert_eq!(waiting(vec![accepted(2, false), accepted(3, false)]), [accepted(3, false)]);
}

#[test]
fn whether_a_cluster_is_ready_is_told_in_order() {
    let warm = || Event::ClusterWarm { fleet: "f".into(), name: "c".into() };
    let stalled = |nodes: &[&str]| {
        let nodes = nodes.iter().map(|&node| node.into()).collect();
        Event::Stalled { fleet: "f".into(), name: "c".into(), nodes, was_warm: false }
    };
    assert_eq!(waiting(vec![warm(), stalled(&["a"])]), [warm(), stalled(&["a"])]);
    assert_eq!(waiting(vec![stalled(&["a"]), stalled(&[]), warm()]), [stalled(&[]), warm()]);
    assert_eq!(waiting(vec![stalled(&["a"]), warm(), stalled(&["a"])]), [warm(), stalled(&["a"])]);
}

#[test]
fn a_fact_takes_the_place_of_an_earlier_one_or_goes_last_however_much_waits() {
    let event = |cluster: bool, n: usize, version| {
        let (fleet, name) = ("f".into(), n.to_string().into());
        let type_url = if cluster { TypeUrl::Cluster } else { TypeUrl::Route };
        Event::Accepted { fleet, type_url, name, version: Version(version), was_refused: false }
    };
    // each of these moves as many as there are, if anything does: 10 billion
    const MANY: usize = 100_000;
    let first = (0..MANY).flat_map(|n| [event(true, n, 1), event(false, n, 1)]);
    let second = (0..MANY).flat_map(|n| [event(true, n, 2), event(false, n, 2)]);
    let told = waiting(first.chain(second).collect());
    let routes = (0..MANY).map(|n| event(false, n, 2));
    assert!(told.into_iter().eq(routes.chain((0..MANY).map(|n| event(true, n, 2)))));
}

#[test]
fn how_many_clients_there_are_is_known_though_two_have_one_id() {
    let node = || std::sync::Arc::new(crate::Node { id: "same".into(), ..crate::Node::default() });
    let came = |connected| Event::Connected { fleet: "f".into(), node: node(), connected };
    let gone = |connected| Event::Gone { fleet: "f".into(), node: node(), connected };
    assert_eq!(waiting(vec![came(1), came(2), gone(1)]), [gone(1)]);
    assert_eq!(waiting(vec![came(1), gone(0), came(1), came(2)]), [came(2)]);
}
