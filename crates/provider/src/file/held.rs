//! [`Held`]: versions of files that wait for costly files that were written before them and may guard what they open.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::file::background::{Background, Waits};
use crate::file::spot::Spot;

/// The version of a file that is not there any more.
pub(crate) const REMOVED: u128 = 0;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Held {
    versions: BTreeMap<Arc<Spot>, Hold>,
    waits: Waits,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    version: u128,
    /// The number of the last costly file that it waits for.
    until: u64,
}

impl Held {
    /// Returns the number up to which a version waits for others, if it waits already. It does not wait for what comes later: else a flood of these would hold
    /// it for ever.
    pub(crate) fn until(&self, spot: &Spot, version: u128) -> Option<u64> {
        self.versions.get(spot).filter(|hold| hold.version == version).map(|hold| hold.until)
    }

    /// Adds a version in place of any other of its file.
    pub(crate) fn add(&mut self, spot: &Arc<Spot>, version: u128, until: u64) {
        self.remove(spot);
        self.waits.add(until, spot);
        self.versions.insert(spot.clone(), Hold { version, until });
    }

    /// Removes a file, if it waits.
    pub(crate) fn remove(&mut self, spot: &Arc<Spot>) {
        if let Some(hold) = self.versions.remove(spot) {
            self.waits.remove(hold.until, spot);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Takes the files for which nothing is waited for any more, each with true if it is to be removed. They are looked at again: until then their versions
    /// are known.
    pub(crate) fn release(&mut self, background: &mut Background) -> Vec<(Arc<Spot>, bool)> {
        let over = background.release(&mut self.waits);
        let is_removal = |spot: &Arc<Spot>| self.versions.get(spot).is_some_and(|hold| hold.version == REMOVED);
        over.into_iter().map(|spot| (spot.clone(), is_removal(&spot))).collect()
    }
}
