//! Waits.

use std::time::Duration;

use tokio::time::Instant;

use super::{Backoff, Repairs};

const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

#[test]
fn waits_double_and_end_somewhere() {
    let mut backoff = Backoff::new(BOUNDS);
    for turn in [1, 2, 4, 8, 8, 8] {
        let wait = backoff.wait();
        assert!(wait <= Duration::from_secs(turn) && wait >= Duration::from_secs(turn) / 2, "{wait:?} of {turn} s");
    }
    backoff.reset();
    assert!(backoff.wait() <= Duration::from_secs(1));
}

#[test]
fn one_change_is_put_right_at_once_and_a_fight_ever_later() {
    let mut repairs = Repairs::new(BOUNDS);
    let begin = Instant::now();
    assert_eq!(repairs.due(begin), begin);
    let mut now = begin;
    for turn in [1, 2, 4, 8, 8] {
        let due = repairs.due(now);
        assert!(due > now && due <= now + Duration::from_secs(turn), "{:?} of {turn} s", due - now);
        now = due;
    }
    let later = now + Duration::from_mins(1);
    assert_eq!(repairs.due(later), later);
}
