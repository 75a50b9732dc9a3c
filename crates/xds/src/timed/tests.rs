//! What is due, and that nothing is left behind.

use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn due(timed: &Timed, now: u64) -> Vec<&str> {
    timed.due(at(now)).map(|name| &**name).collect()
}

#[test]
fn a_name_has_the_time_that_it_was_given_last_until_it_is_released() {
    let mut timed = Timed::default();
    for (name, time) in [("a", 5), ("b", 3), ("c", 3), ("a", 2)] {
        timed.set(at(time), &name.into());
    }
    assert_eq!((timed.of("a"), timed.of("x")), (Some(at(2)), None));
    assert_eq!((due(&timed, 2), due(&timed, 9)), (vec!["a"], vec!["a", "b", "c"]));
    assert_eq!((timed.next(at(2)), timed.next(at(3))), (Some(at(3)), None));
    timed.release("a");
    timed.release("x");
    timed.retain(|name| name != "b");
    assert_eq!((due(&timed, 9), timed.names().count()), (vec!["c"], 1));
    timed.release("c");
    assert!(timed.0.is_none(), "nothing is left behind");
}
