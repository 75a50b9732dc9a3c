//! Names that each have a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// See the module. Most who keep one have none: then it is a pointer.
#[derive(Default)]
pub(crate) struct Timed(Option<Box<Times>>);

#[derive(Default)]
struct Times {
    by_name: BTreeMap<Arc<str>, Duration>,
    by_time: BTreeMap<Duration, BTreeSet<Arc<str>>>,
}

impl Timed {
    /// The next time after `now`.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let times = &self.0.as_ref()?.by_time;
        times.range((Bound::Excluded(now), Bound::Unbounded)).next().map(|(time, _)| *time)
    }

    /// The time of this name.
    pub(crate) fn of(&self, name: &str) -> Option<Duration> {
        self.0.as_ref()?.by_name.get(name).copied()
    }

    /// The name has this time, and no other.
    pub(crate) fn set(&mut self, time: Duration, name: &Arc<str>) {
        self.release(name);
        let times = self.0.get_or_insert_default();
        times.by_name.insert(Arc::clone(name), time);
        times.by_time.entry(time).or_default().insert(Arc::clone(name));
    }

    /// The name has no time any more.
    pub(crate) fn release(&mut self, name: &str) {
        let Some(times) = &mut self.0 else { return };
        let Some(time) = times.by_name.remove(name) else { return };
        if let Some(names) = times.by_time.get_mut(&time) {
            names.remove(name);
            if names.is_empty() {
                times.by_time.remove(&time);
            }
        }
        if times.by_name.is_empty() {
            self.0 = None;
        }
    }

    /// Forgets all but these names.
    pub(crate) fn retain(&mut self, which: impl Fn(&str) -> bool) {
        let gone: Vec<Arc<str>> = self.names().filter(|name| !which(name)).cloned().collect();
        gone.iter().for_each(|name| self.release(name));
    }

    /// Those that have one, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(|times| times.by_name.keys())
    }

    /// Those whose time is not after `now`.
    pub(crate) fn due(&self, now: Duration) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(move |times| times.by_time.range(..=now)).flat_map(|(_, names)| names)
    }
}
