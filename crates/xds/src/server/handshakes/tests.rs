//! Turns among sources.

use std::net::{IpAddr, Ipv4Addr};

use futures::FutureExt;

use super::*;

fn source(last: u8) -> SourceNetwork {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)).into()
}

#[test]
fn a_free_turn_goes_to_the_source_that_has_the_fewest() {
    let turns = Handshakes::new(4);
    let mut greedy: Vec<_> = (0..3).map(|_| turns.turn(source(1)).now_or_never().unwrap()).collect();
    let mut more: Vec<_> = (0..100).map(|_| Box::pin(turns.turn(source(1)))).collect();
    let mut given = move || more.iter_mut().filter_map(|turn| turn.now_or_never()).count();
    assert_eq!(given(), 0, "the last turn is for others");
    let second = turns.turn(source(2)).now_or_never().expect("the last turn");
    let mut third = Box::pin(turns.turn(source(3)));
    assert!((&mut third).now_or_never().is_none());
    greedy.pop();
    let _third = third.now_or_never().expect("the next turn, before a hundred that came earlier");
    drop(second);
    assert_eq!(given(), 0);
}

#[test]
fn turns_of_those_that_give_up_are_given_back() {
    let turns = Handshakes::new(1);
    let first = turns.turn(source(1)).now_or_never().unwrap();
    let mut waiting = Box::pin(turns.turn(source(2)));
    assert!((&mut waiting).now_or_never().is_none());
    let mut last = Box::pin(turns.turn(source(3)));
    assert!((&mut last).now_or_never().is_none());
    // given, and not taken
    drop(first);
    drop(waiting);
    drop(last.now_or_never().expect("a turn"));
    // not given at all
    let held = turns.turn(source(1)).now_or_never().unwrap();
    let mut gone = Box::pin(turns.turn(source(2)));
    assert!((&mut gone).now_or_never().is_none());
    drop(gone);
    drop(held);
    assert_eq!(locked(&turns.0).free, 1);
    assert!(locked(&turns.0).sources.is_empty());
}
