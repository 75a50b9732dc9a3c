//! Names as they are charged, and requests with many of them as they take turns.

use std::task::{Context, Poll, Waker};

use super::super::{Accounts, Limits, Place};
use super::*;

fn account() -> Arc<Account> {
    Accounts::new(Limits::default()).of(&"a".into())
}

/// So many connections of it.
fn connections(account: &Arc<Account>, count: usize) -> Vec<Place> {
    (0..count).map(|_| account.take(|account| &account.connections).0).collect()
}

fn owes(account: &Account) -> bool {
    account.owes_names().is_some()
}

#[test]
fn ten_thousand_clients_with_a_thousand_names_come_again_at_once() {
    let account = account();
    let _connections = connections(&account, 10_000);
    for _ in 0..10_000 {
        // clusters and endpoint sets that it has, those that it asks for, and what it is sent
        (0..3).for_each(|_| account.charge_names(1_000));
        account.charge_first_names(1_000);
    }
    assert!(!owes(&account));
}

#[test]
fn one_connection_that_names_without_end_waits() {
    let account = account();
    let _connections = connections(&account, 1);
    account.charge_names(FOR_A_CONNECTION);
    assert!(!owes(&account));
    account.charge_names(2 * PER_SECOND as usize);
    assert!(owes(&account));
    let least = Duration::from_secs(2);
    assert!(account.until_names_are_paid() >= least);
}

#[test]
fn small_requests_cost_no_names_and_do_not_wait() {
    let account = account();
    (0..1_000).for_each(|_| account.charge_names(PAID));
    assert!(account.until_names_are_paid().is_zero());
    assert!(!has_to_wait(PAID, false) && has_to_wait(PAID + 1, false) && has_to_wait(0, true));
}

#[tokio::test]
async fn requests_with_many_names_take_turns_and_let_others_go_on() {
    let account = account();
    let mut cx = Context::from_waker(Waker::noop());
    let mut first = Box::pin(Arc::clone(&account).turn_for_names(MANY + 1));
    assert!(first.as_mut().poll(&mut cx).is_pending(), "other tasks come first");
    let Poll::Ready(Some(turn)) = first.as_mut().poll(&mut cx) else { panic!("no turn") };
    let mut second = Box::pin(Arc::clone(&account).turn_for_names(MANY + 1));
    for _ in 0..3 {
        assert!(second.as_mut().poll(&mut cx).is_pending(), "one at a time");
    }
    assert!(Arc::clone(&account).turn_for_names(MANY).await.is_none(), "others are not held up");
    drop(turn);
    assert!(second.as_mut().poll(&mut cx).is_pending(), "not in the same look");
    assert!(second.await.is_some());
}

#[tokio::test]
async fn a_request_waits_until_earlier_names_are_made_good() {
    let account = account();
    account.charge_names(FOR_A_CONNECTION + PER_SECOND as usize);
    let mut cx = Context::from_waker(Waker::noop());
    for names in [0, MANY + 1] {
        let mut waiting = Box::pin(Arc::clone(&account).turn_for_names(names));
        for _ in 0..3 {
            assert!(waiting.as_mut().poll(&mut cx).is_pending(), "{names} names");
        }
    }
}
