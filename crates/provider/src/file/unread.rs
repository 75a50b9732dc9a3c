//! [`Unread`]: what of the start nobody has read yet. Without it nothing is complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::file::spot::Spot;

/// For how long a file that there was at the start, and that changes whenever it is read, is waited for. Then what it says counts as it is: somebody
/// who never closes it, or never stops, holds up nobody.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Roots and files that were found, and never read to an end.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Since when each could have been read, but for somebody who changes it.
    places: BTreeMap<Arc<Spot>, Option<Instant>>,
}

impl Unread {
    /// These are to be read.
    pub(crate) fn extend(&mut self, spots: impl IntoIterator<Item = Arc<Spot>>) {
        let mut found: BTreeMap<_, _> = spots.into_iter().map(|spot| (spot, None)).collect();
        if found.len() > self.places.len() {
            // The whole tree, at the start: sorted as it is.
            found.append(&mut self.places);
            self.places = found;
        } else {
            for spot in found.into_keys() {
                self.places.entry(spot).or_default();
            }
        }
    }

    /// Nobody is to blame that it cannot be read: it is waited for as long as it takes.
    pub(crate) fn wait(&mut self, spot: &Spot) {
        if let Some(since) = self.places.get_mut(spot) {
            *since = None;
        }
    }

    /// It was read, or is truly gone.
    pub(crate) fn remove(&mut self, spot: &Spot) {
        self.places.remove(spot);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Spot>> {
        self.places.keys()
    }

    pub(crate) fn contains(&self, spot: &Spot) -> bool {
        self.places.contains_key(spot)
    }

    /// Everything at or below a place.
    pub(crate) fn under(&self, top: &Arc<Spot>) -> impl Iterator<Item = &Arc<Spot>> {
        self.places.range(top.clone()..).map(|(spot, _)| spot).take_while(move |spot| spot.is_under(top))
    }

    /// Somebody is changing a file: whether what was found there has to count all the same. Never that of a file that was read before.
    pub(crate) fn must_count(&mut self, spot: &Spot) -> bool {
        let since = self.places.get_mut(spot);
        since.is_some_and(|since| since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE)
    }

    /// When the patience with the next one ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.places.values().flatten().min().map(|since| *since + PATIENCE)
    }

    /// Those with which the patience has ended.
    pub(crate) fn overdue(&self) -> impl Iterator<Item = &Arc<Spot>> {
        let is_over = |since: &Instant| since.elapsed() >= PATIENCE;
        self.places.iter().filter(move |(_, since)| since.as_ref().is_some_and(is_over)).map(|(spot, _)| spot)
    }
}
