//! What waits for a client, and which calls are under way because of it.

use super::super::limits::{Accounts, Limits};
use super::*;

fn backlog() -> Arc<Backlog> {
    Arc::default()
}

#[test]
fn reading_stops_while_many_answers_wait_for_a_stuck_socket() {
    let backlog = backlog();
    (0..MOST).for_each(|_| backlog.end(None));
    assert_eq!(backlog.holds(), None, "the socket takes them");
    assert!(backlog.wants_turn());
    assert!(!backlog.note_socket(true));
    assert_eq!(backlog.holds(), Some(Held::Untaken));
    backlog.note_turn();
    assert!(!backlog.wants_turn());
    assert_eq!(backlog.holds(), Some(Held::Untaken), "a turn in which nothing is written");
    backlog.note_ends(1);
    assert!(backlog.note_socket(true), "there is room for one more");
    backlog.note_resets(1);
    assert_eq!(backlog.holds(), Some(Held::Untaken), "what is reset waits too");
    assert!(backlog.note_socket(false), "reading goes on");
    backlog.note_turn();
    assert_eq!((backlog.holds(), backlog.waiting()), (None, 0));
}

#[test]
fn reading_stops_until_the_streams_had_their_turn() {
    let backlog = backlog();
    backlog.note_blocks(MOST_FRESH - 1);
    assert_eq!((backlog.holds(), backlog.wants_streams()), (None, false));
    backlog.note_blocks(1);
    assert_eq!((backlog.holds(), backlog.wants_streams()), (Some(Held::Asking), true));
    backlog.note_streams();
    assert!(backlog.wants_turn() && !backlog.wants_streams());
    assert_eq!(backlog.holds(), None);
}

#[test]
fn reading_stops_while_many_requests_wait_to_be_let_in() {
    let backlog = backlog();
    let mut asking: Vec<Asking> = (0..MOST_ASKING).map(|_| backlog.ask()).collect();
    assert_eq!(backlog.holds(), Some(Held::Asking));
    assert!(!backlog.wants_turn());
    asking.pop();
    assert!(backlog.wants_turn());
    assert_eq!(backlog.holds(), None);
}

#[tokio::test]
async fn a_call_is_under_way_until_the_end_of_its_answer_is_written() {
    let accounts = Accounts::new(Limits::default());
    let account = accounts.of(&"a".into());
    for by_end in [true, false] {
        let backlog = backlog();
        let place = account.call().await.ok();
        assert!(place.is_some());
        backlog.note_socket(true);
        drop(UnderWay::new(place, &backlog));
        backlog.note_turn();
        assert_eq!(account.under_way(), 1);
        if by_end {
            backlog.note_ends(1);
        } else {
            // it was reset, and so nothing is written of it
            backlog.note_socket(false);
            backlog.note_turn();
        }
        assert_eq!(account.under_way(), 0);
    }
}
