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
fn numbers_are_taken_in_order_from_where_somebody_is() {
    let mut bits = Bits::default();
    assert_eq!(bits.take_from(0), None);
    for number in [0, 5, 63, 64, 200] {
        bits.insert(number);
    }
    let mut taken = Vec::new();
    let mut next = 1;
    while let Some(number) = bits.take_from(next) {
        taken.push(number);
        next = number + 1;
        // One that comes behind is met on the way, one that comes before is left.
        if number == 5 {
            bits.insert(100);
            bits.insert(2);
        }
    }
    assert_eq!(taken, [5, 63, 64, 100, 200]);
    assert_eq!((bits.take_from(0), bits.take_from(0), bits.take_from(0)), (Some(0), Some(2), None));
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
