//! What is due, and how much is looked at for it.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;
use crate::resource::{Need, TypeUrl};

fn key(number: u64) -> Key {
    Key::Put(Need::new(TypeUrl::Cluster, format!("{number:05}")))
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn what_is_due_comes_in_order_and_once_and_what_has_another_time_at_that() {
    let mut alarms = Alarms::default();
    let mut times = BTreeMap::new();
    for (number, time) in [(1, 5), (2, 3), (3, 4), (2, 7)] {
        times.insert(key(number), at(time));
        alarms.set(at(time), &key(number));
    }
    times.remove(&key(3));
    assert_eq!(alarms.next(|key| times.get(key).copied()), Some(at(5)));
    assert_eq!(alarms.due(at(4), |key| times.get(key).copied()), None);
    assert_eq!(alarms.due(at(9), |key| times.get(key).copied()), Some(key(1)));
    assert_eq!(alarms.due(at(9), |key| times.get(key).copied()), Some(key(2)));
    assert_eq!(alarms.due(at(9), |key| times.get(key).copied()), None);
}

#[test]
fn one_is_looked_at_of_however_many() {
    let mut alarms = Alarms::default();
    (0..10_000).for_each(|number| alarms.set(at(10), &key(number)));
    let looked_at = Cell::new(0);
    let time_of = |_: &Key| {
        looked_at.set(looked_at.get() + 1);
        Some(at(10))
    };
    assert_eq!(alarms.due(at(1), time_of), None);
    assert_eq!(alarms.next(time_of), Some(at(10)));
    assert_eq!(looked_at.get(), 2);
}
