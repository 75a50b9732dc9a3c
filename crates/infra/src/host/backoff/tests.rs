//! Pauses between starts.

use super::*;

#[test]
fn the_pause_doubles_with_jitter_up_to_its_bound_and_starts_anew_after_a_stable_run() {
    let mut backoff = Backoff::default();
    let mut longest = FIRST;
    for death in 1..40 {
        let pause = backoff.died(Duration::from_secs(1));
        assert!(pause >= longest / 2 && pause <= longest, "{pause:?} after {death} deaths");
        assert_eq!(backoff.deaths, death);
        longest = (longest * 2).min(LONGEST);
    }
    assert!(backoff.died(STABLE) <= FIRST);
    assert_eq!(backoff.deaths, 1);
}
