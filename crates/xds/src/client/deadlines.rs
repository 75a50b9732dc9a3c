//! Moments at which something about a resource is due, one per resource.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::resource::Need;

/// See the module.
#[derive(Default)]
pub(super) struct Deadlines {
    of: BTreeMap<Need, Duration>,
    order: BTreeSet<(Duration, Need)>,
}

impl Deadlines {
    /// From now on this one counts.
    pub(super) fn set(&mut self, key: Need, at: Duration) {
        self.cancel(&key);
        self.order.insert((at, key.clone()));
        self.of.insert(key, at);
    }

    /// Nothing is due about this resource.
    pub(super) fn cancel(&mut self, key: &Need) {
        if let Some((key, at)) = self.of.remove_entry(key) {
            self.order.remove(&(at, key));
        }
    }

    pub(super) fn contains(&self, key: &Need) -> bool {
        self.of.contains_key(key)
    }

    /// The next moment.
    pub(super) fn next(&self) -> Option<Duration> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Need> {
        let (_, key) = self.order.first().filter(|(at, _)| *at <= now)?;
        let key = key.clone();
        self.cancel(&key);
        Some(key)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
