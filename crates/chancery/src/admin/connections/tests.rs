//! Places of a port, and the connections that lose theirs.

use std::net::Ipv4Addr;

use super::*;

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn is_closed(place: &ConnectionPlace) -> bool {
    place.life.close.is_cancelled()
}

fn enter(connections: &Connections, last: u8) -> ConnectionPlace {
    connections.enter(address(last)).0
}

#[test]
fn the_longest_idle_connection_goes_first() {
    let connections = Connections::new(3);
    let places = [1, 1, 1].map(|source| enter(&connections, source));
    // The oldest was answered a moment ago.
    places[0].life.taken.store(60_000, Ordering::Relaxed);
    let (newest, evicted) = connections.enter(address(1));
    assert!(evicted);
    assert_eq!(places.each_ref().map(is_closed), [false, true, false]);
    assert!(!is_closed(&newest));
}

#[test]
fn a_connection_that_is_being_answered_goes_after_all_idle_ones() {
    let connections = Connections::new(2);
    let places = [1, 1].map(|source| enter(&connections, source));
    places[0].life.set_answering(true);
    let third = enter(&connections, 1);
    assert_eq!(places.each_ref().map(is_closed), [false, true]);
    third.life.set_answering(true);
    let _fourth = enter(&connections, 1);
    assert!(is_closed(&places[0]), "where all are being answered the oldest goes");
}

#[test]
fn a_connection_that_waits_for_a_change_is_as_idle_as_others() {
    let connections = Connections::new(2);
    let began = Instant::now().checked_sub(2 * MAX_ANSWER_TIME).unwrap();
    let waiting = Arc::new(Life { began, answering: AtomicBool::new(true), ..Life::new() });
    connections.lock().open.insert(u64::MAX, (address(1).into(), Arc::clone(&waiting)));
    let idle = enter(&connections, 1);
    let _third = enter(&connections, 1);
    assert!(waiting.close.is_cancelled() && !is_closed(&idle));
}

#[test]
fn a_flood_of_one_source_closes_its_own_connections() {
    let connections = Connections::new(4);
    let probe = enter(&connections, 9);
    let flood: Vec<ConnectionPlace> = (0..100).map(|_| enter(&connections, 1)).collect();
    assert!(!is_closed(&probe));
    assert_eq!(flood.iter().filter(|place| !is_closed(place)).count(), 3);
    assert!(connections.lock().open.len() <= 4);
}

#[test]
fn a_place_is_free_when_its_connection_ends() {
    let connections = Connections::new(2);
    drop(enter(&connections, 1));
    let (_first, _second) = (enter(&connections, 1), enter(&connections, 1));
    let (third, evicted) = connections.enter(address(1));
    assert!(evicted);
    drop(third);
    assert!(!connections.enter(address(1)).1);
}

#[test]
fn the_addresses_of_one_ipv6_network_are_one_source() {
    let source = |text: &str| SourceNetwork::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
    assert_ne!(source("2001:db8:0:1::1"), source("2001:db8::1"));
    assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
    assert_ne!(source("10.0.0.2"), source("10.0.0.1"));
}
