//! [`Spreads`]: bounds how often events of names are spread over which very many ways lead.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::file::shares::Share;
use crate::file::spot::Spot;

/// Places to which events of names are spread at once, for each folder directly below a root. A look at one takes some 0.1 ms, so that is 1 s.
const BURST: usize = 1 << 13;

/// Places a second in the long run: a tenth of the time. A name over which 2,000 ways lead, and that is swapped all the time, is looked at every 2 s after the
/// first four times.
const RATE: usize = 1 << 10;

/// Time after which what waits is tried again.
pub(super) const REST: Duration = Duration::from_secs(1);

/// Places that were spread to of late, by what is directly below a root.
#[derive(Debug, Default)]
pub(super) struct Spreads {
    spent: BTreeMap<Share, usize>,
    since: Option<Instant>,
}

impl Spreads {
    /// Gives back what the time since the last call is worth.
    pub(super) fn begin(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let elapsed = usize::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(usize::MAX);
        let back = elapsed.saturating_mul(RATE) / 1_000;
        if back > 0 {
            self.since = Some(now);
            self.spent.retain(|_, spent| {
                *spent = spent.saturating_sub(back);
                *spent > 0
            });
        }
    }

    /// Takes the room for events about this many places, of which this is one; false: they wait. What is less than a burst never makes a large spread wait for ever: it
    /// is a debt.
    pub(super) fn take(&mut self, spot: &Spot, places: usize) -> bool {
        // Few ways lead over most names.
        if places <= 1 {
            return true;
        }
        let spent = self.spent.entry(spot.share()).or_default();
        let has_room = *spent < BURST;
        if has_room {
            *spent = spent.saturating_add(places);
        }
        has_room
    }

    /// Returns true if events about a place may wait.
    pub(super) fn is_spent(&self, spot: &Spot) -> bool {
        self.spent.get(&spot.share()).is_some_and(|spent| *spent >= BURST)
    }
}
