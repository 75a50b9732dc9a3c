//! [`Line`]: the files that wait to be read, and the order in which that happens.
//!
//! Folders below a root take turns, so that the files of one author hold up those of another by one at most. Within a folder files that were never found
//! to be costly and those that were take turns as well, the oldest of each first. Each step costs `O(log n)`, however many files wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use super::guards::{Guards, Waits};
use crate::file::spot::{Folder, Spot};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: BTreeMap<Arc<Spot>, Waiting>,
    /// Folders with files that can be taken.
    folders: BTreeMap<Folder, Queue>,
    /// Files that were read, and wait for files before them that may hold what guards.
    parked: Waits,
    /// Files that may hold what guards: those that wait, and those that were taken and are not read yet.
    pub(super) guards: Guards,
    /// The number of the last file.
    last: u64,
    /// The folder of the file that was taken last.
    turn: Option<Folder>,
}

/// Nothing else is kept of a file that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) path: PathBuf,
    /// Its place in the order in which files came.
    pub(super) number: u64,
    is_costly: bool,
    /// It may hold what guards.
    pub(super) guards: bool,
    /// It is among the files that are `parked`.
    is_parked: bool,
}

/// The files of a folder that can be taken, by number: at least one.
#[derive(Debug, Default)]
struct Queue {
    /// Files that were never found to be costly.
    cheap: BTreeSet<(u64, Arc<Spot>)>,
    costly: BTreeSet<(u64, Arc<Spot>)>,
    /// The last one that was taken had not been found to be costly. At first one that may be cheap is taken.
    was_cheap: bool,
}

impl Queue {
    fn of(&mut self, is_costly: bool) -> &mut BTreeSet<(u64, Arc<Spot>)> {
        if is_costly { &mut self.costly } else { &mut self.cheap }
    }

    fn take(&mut self) -> Option<Arc<Spot>> {
        let takes_costly = if self.was_cheap { !self.costly.is_empty() } else { self.cheap.is_empty() };
        self.was_cheap = !takes_costly;
        self.of(takes_costly).pop_first().map(|(_, spot)| spot)
    }
}

impl Line {
    /// Adds a file. One that waits already keeps its place.
    pub(super) fn add(&mut self, spot: Arc<Spot>, path: PathBuf, (is_costly, guards): (bool, bool)) {
        self.last += 1;
        let before = self.remove(&spot);
        let (number, is_parked) = before.map_or((self.last, false), |before| (before.number, before.is_parked));
        self.insert(spot, Waiting { path, number, is_costly, guards, is_parked });
    }

    /// Puts a file back that was read too early. What came of it meanwhile is read in its place.
    pub(super) fn park(&mut self, spot: Arc<Spot>, path: PathBuf, (number, guards): (u64, bool)) {
        let guards = self.remove(&spot).is_some_and(|later| later.guards) || guards;
        self.insert(spot, Waiting { path, number, is_costly: true, guards, is_parked: true });
    }

    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    /// Takes the next file. If it may hold what guards it is waited for until it is [`Self::finish`]ed.
    pub(super) fn next(&mut self) -> Option<(Arc<Spot>, Waiting)> {
        for spot in self.parked.release(&self.guards) {
            if let Some(waiting) = self.waiting.get_mut(&spot) {
                waiting.is_parked = false;
                let waiting = waiting.clone();
                self.enqueue(&spot, &waiting);
            }
        }
        let after = |turn: &Folder| (Bound::Excluded(turn.clone()), Bound::Unbounded);
        let next = self.turn.as_ref().and_then(|turn| self.folders.range(after(turn)).next());
        let folder = next.or_else(|| self.folders.first_key_value()).map(|(folder, _)| folder.clone())?;
        let spot = self.folders.get_mut(&folder).and_then(Queue::take)?;
        self.drop_if_empty(&folder);
        self.turn = Some(folder);
        let waiting = self.waiting.remove(&spot)?;
        Some((spot, waiting))
    }

    /// Forgets a file that was taken: it was read, or is not to be read any more.
    pub(super) fn finish(&mut self, number: u64, spot: &Spot) {
        self.guards.remove(number, spot);
    }

    pub(super) fn remove(&mut self, spot: &Spot) -> Option<Waiting> {
        let (spot, waiting) = self.waiting.remove_entry(spot)?;
        self.guards.remove(waiting.number, &spot);
        if waiting.is_parked {
            self.parked.remove(before(&waiting), &spot);
        } else {
            let folder = spot.folder();
            if let Some(queue) = self.folders.get_mut(&folder) {
                queue.of(waiting.is_costly).remove(&(waiting.number, spot));
            }
            self.drop_if_empty(&folder);
        }
        Some(waiting)
    }

    /// Removes what is at and below a place and not there any more.
    pub(super) fn remove_below(&mut self, top: &Arc<Spot>, is_there: impl Fn(&Spot) -> bool) {
        let below = self.waiting.range(top.clone()..).map(|(spot, _)| spot).take_while(|spot| spot.is_under(top));
        for spot in below.filter(|spot| !is_there(spot)).cloned().collect::<Vec<_>>() {
            self.remove(&spot);
        }
    }

    fn insert(&mut self, spot: Arc<Spot>, waiting: Waiting) {
        if waiting.guards {
            self.guards.add(waiting.number, &spot);
        }
        if waiting.is_parked {
            self.parked.add(before(&waiting), &spot);
        } else {
            self.enqueue(&spot, &waiting);
        }
        self.waiting.insert(spot, waiting);
    }

    fn enqueue(&mut self, spot: &Arc<Spot>, waiting: &Waiting) {
        let queue = self.folders.entry(spot.folder()).or_default();
        queue.of(waiting.is_costly).insert((waiting.number, spot.clone()));
    }

    fn drop_if_empty(&mut self, folder: &Folder) {
        if self.folders.get(folder).is_some_and(|queue| queue.cheap.is_empty() && queue.costly.is_empty()) {
            self.folders.remove(folder);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// The number up to which a file that is parked waits for others.
fn before(waiting: &Waiting) -> u64 {
    waiting.number.saturating_sub(1)
}
