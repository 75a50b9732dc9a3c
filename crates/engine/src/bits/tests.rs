//! The set of small numbers, and the units to run.

use super::{Bits, Dirty};

#[test]
fn a_number_is_new_once() {
    let mut bits = Bits::default();
    for number in [0, 63, 64, 1_000] {
        assert!(!bits.contains(number));
        assert!(bits.insert(number));
        assert!(!bits.insert(number));
        assert!(bits.contains(number));
    }
    bits.remove(64);
    bits.remove(100_000);
    assert!(bits.contains(63) && !bits.contains(64) && bits.insert(64));
}

#[test]
fn units_are_taken_in_order_and_once() {
    let mut dirty = Dirty::default();
    let mut units = vec![99];
    for round in 0..2 {
        [5, 3, 5, 900, 3].into_iter().for_each(|unit| dirty.insert(unit));
        dirty.take(&mut units);
        assert_eq!(units, [3, 5, 900], "round {round}");
        assert!(dirty.is_empty());
    }
}
