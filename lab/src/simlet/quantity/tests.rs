//! Quantities as the API writes them.

use super::{divided, parse};

fn check(text: &str, milli: Option<i128>) {
    assert_eq!(parse(text), milli, "{text}");
}

#[test]
fn suffixes_scale() {
    check("2", Some(2_000));
    check("100m", Some(100));
    check("1.5", Some(1_500));
    check("1k", Some(1_000_000));
    check("1Ki", Some(1_024_000));
    check("1.5Gi", Some(1_610_612_736_000));
    check("2e3", Some(2_000_000));
    check("1E", Some(1_000_000_000_000_000_000_000));
    check("-1", Some(-1_000));
}

#[test]
fn what_is_less_than_a_thousandth_counts_as_one() {
    check("1n", Some(1));
    check("100u", Some(1));
}

#[test]
fn what_is_no_quantity_is_none() {
    for text in ["", "Gi", "1Xi", "1 Gi", "one"] {
        check(text, None);
    }
}

#[test]
fn parts_are_rounded_up() {
    assert_eq!(divided(1_500, 1_000), 2);
    assert_eq!(divided(250, 1), 250);
}
