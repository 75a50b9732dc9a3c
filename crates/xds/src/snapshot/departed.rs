//! Clusters that went lately.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use super::Item;

#[cfg(test)]
mod tests;

/// A SotW client that comes again does not say what it has, only that it is something else than what it should have. What went in this
/// time stays with it until its routes do without: it comes again within the 1 s of our bootstrap's back-off, with time for a restart.
const DEPARTED_FOR: Duration = Duration::from_secs(60);

/// So many of them are kept: 4,096 clusters of some 300 bytes are 1 MB.
const MOST_DEPARTED: usize = 4096;

/// A cluster that went.
pub(crate) struct Departed {
    pub(crate) cluster: Arc<Item>,
    pub(crate) endpoints: Option<Arc<Item>>,
    /// When, if anybody has looked since.
    at: Option<Duration>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Departures {
    /// Oldest first, so that those without a time are the last.
    clusters: VecDeque<Departed>,
    /// The number of the oldest; each has one more than the one before.
    first: u64,
    /// By the name of their endpoint set: their numbers, oldest first.
    by_set: HashMap<Arc<str>, VecDeque<u64>>,
}

impl Departures {
    /// A cluster goes, and may take its endpoint set along.
    pub(super) fn add(&mut self, cluster: Arc<Item>, endpoints: Option<Arc<Item>>) {
        if self.clusters.len() >= MOST_DEPARTED {
            self.forget_oldest();
        }
        if let Some(set) = &endpoints {
            let number = self.first + self.clusters.len() as u64;
            self.by_set.entry(Arc::clone(set.name())).or_default().push_back(number);
        }
        self.clusters.push_back(Departed { cluster, endpoints, at: None });
    }

    /// Forgets those that went too long ago.
    pub(super) fn forget(&mut self, now: Duration) {
        self.clusters
            .iter_mut()
            .rev()
            .map_while(|departed| departed.at.is_none().then_some(&mut departed.at))
            .for_each(|at| *at = Some(now));
        let over = |departed: &Departed| departed.at.is_some_and(|at| now >= at + DEPARTED_FOR);
        while self.clusters.front().is_some_and(over) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.clusters.pop_front() else { return };
        self.first += 1;
        if let Some(set) = oldest.endpoints
            && let Some(numbers) = self.by_set.get_mut(set.name())
        {
            numbers.pop_front();
            if numbers.is_empty() {
                self.by_set.remove(set.name());
            }
        }
        if self.clusters.is_empty() {
            *self = Self::default();
        }
    }

    /// All, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Departed> {
        self.clusters.iter()
    }

    /// Those that had an endpoint set of this name, oldest first.
    pub(super) fn of_set(&self, name: &str) -> impl Iterator<Item = &Departed> {
        let numbers = self.by_set.get(name).into_iter().flatten();
        numbers.filter_map(|number| self.clusters.get(usize::try_from(number - self.first).ok()?))
    }
}
