//! Tests of labels and timestamps.

use super::{Labels, Timestamp};

#[test]
fn timestamps_are_read_and_shown_as_rfc_3339() {
    for (text, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:34:56Z", 951_827_696),
        ("2026-11-21T10:04:00Z", 1_795_255_440),
        ("1969-12-31T23:59:59Z", -1),
    ] {
        assert_eq!(Timestamp::parse(text), Some(Timestamp(seconds)), "{text}");
        assert_eq!(Timestamp(seconds).to_string(), text);
    }
}

#[test]
fn zones_and_fractions_are_understood() {
    assert_eq!(Timestamp::parse("1970-01-01T02:00:00.75+02:00"), Some(Timestamp(0)));
    assert_eq!(Timestamp::parse("1969-12-31T23:30:00-00:30"), Some(Timestamp(0)));
}

#[test]
fn what_is_no_timestamp_is_none() {
    for text in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-21", "2026-11-21T10:04:00", "+026-11-21T10:04:00Z"] {
        assert_eq!(Timestamp::parse(text), None, "{text}");
    }
}

#[test]
fn labels_are_sorted_and_the_last_of_equal_names_counts() {
    let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
    assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
    assert_eq!(labels.get("b"), Some("3"));
    assert_eq!(labels.get("c"), None);
}
