//! When something is to be decided about a name: every client asks for the next of these whenever it is looked at.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::snapshot::Key;

#[cfg(test)]
mod tests;

/// Times and names. What has another time by now, or none, is found out when its turn comes: an alarm is never taken back.
#[derive(Default)]
pub(super) struct Alarms(BTreeSet<(Duration, Key)>);

impl Alarms {
    /// Something is to be decided about this name then.
    pub(super) fn set(&mut self, at: Duration, key: &Key) {
        self.0.insert((at, key.clone()));
    }

    /// The next name that is due, of those that have this time still.
    pub(super) fn due(&mut self, now: Duration, time_of: impl Fn(&Key) -> Option<Duration>) -> Option<Key> {
        self.next(time_of).filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, key)| key)
    }

    /// When the next is due.
    pub(super) fn next(&mut self, time_of: impl Fn(&Key) -> Option<Duration>) -> Option<Duration> {
        loop {
            let (at, key) = self.0.first()?;
            if time_of(key) == Some(*at) {
                return Some(*at);
            }
            self.0.pop_first();
        }
    }
}
