//! The waits that a crashing container has.

use std::time::Duration;

use super::Backoff;

#[test]
fn waits_double_up_to_five_minutes() {
    let mut backoff = Backoff::default();
    let waits: Vec<u64> = (0..8).map(|_| backoff.after(Duration::ZERO).as_secs()).collect();
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn ten_good_minutes_make_all_well() {
    let mut backoff = Backoff::default();
    backoff.after(Duration::ZERO);
    backoff.after(Duration::ZERO);
    assert_eq!(backoff.after(Duration::from_secs(599)).as_secs(), 20);
    assert_eq!(backoff.after(Duration::from_secs(600)), Duration::ZERO);
    assert_eq!(backoff.after(Duration::from_secs(1)).as_secs(), 10);
}
