//! Tests of durations.

use std::time::Duration;

use super::parse;

#[test]
fn durations_of_both_notations_are_read() {
    for (text, milliseconds) in
        [("0", 0), ("0s", 0), ("1h30m", 5_400_000), ("10s", 10_000), ("500ms", 500), ("1.5s", 1_500), (".5s", 500)]
    {
        assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
    }
    assert_eq!(parse("3us"), Some(Duration::from_micros(3)));
}

#[test]
fn what_is_no_duration_is_none() {
    for text in ["", "5", "s", "-1s", "1d", "1s ", " 1s", "1..5s", ".s", "99999999999h", "1e3s"] {
        assert_eq!(parse(text), None, "{text}");
    }
}
