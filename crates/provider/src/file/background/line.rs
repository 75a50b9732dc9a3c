//! [`Line`]: the files that wait to be read, and the order in which that happens.
//!
//! Folders below a root take turns, so that the files of one author hold up those of another by one at most. Within a folder files that were never found
//! to be costly and those that were take turns as well, the oldest of each first.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::file::spot::Spot;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: BTreeMap<Arc<Spot>, Waiting>,
    /// The number of the last file.
    last: u64,
    /// The folder of the file that was taken last, and by folder with files that wait: true if its last one had been found to be costly.
    turn: Option<Folder>,
    was_costly: BTreeMap<Folder, bool>,
}

/// Nothing else is kept of a file that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) path: PathBuf,
    /// Its place in the order in which files came.
    pub(super) number: u64,
    is_costly: bool,
    /// It may hold what guards.
    pub(super) guards: bool,
    /// It was read, and waits for files before it that may hold what guards.
    is_parked: bool,
}

/// A root, and the first name below it where that is a folder.
type Folder = (usize, Option<OsString>);

/// A file that waits, by its number.
type Numbered<'a> = (u64, &'a Arc<Spot>);

impl Line {
    /// Adds a file. One that waits already keeps its place.
    pub(super) fn add(&mut self, spot: Arc<Spot>, path: PathBuf, (is_costly, guards): (bool, bool)) {
        self.last += 1;
        let (number, is_parked) =
            self.waiting.get(&spot).map_or((self.last, false), |before| (before.number, before.is_parked));
        self.waiting.insert(spot, Waiting { path, number, is_costly, guards, is_parked });
    }

    /// Puts a file back that was read too early. What came of it meanwhile is read in its place.
    pub(super) fn park(&mut self, spot: Arc<Spot>, path: PathBuf, (number, guards): (u64, bool)) {
        let guards = guards || self.waiting.get(&spot).is_some_and(|later| later.guards);
        self.waiting.insert(spot, Waiting { path, number, is_costly: true, guards, is_parked: true });
    }

    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    /// Returns true if a file up to this number may hold what guards.
    pub(super) fn guards_until(&self, number: u64) -> bool {
        self.waiting.values().any(|waiting| waiting.guards && waiting.number <= number)
    }

    /// Takes the next file.
    pub(super) fn next(&mut self) -> Option<(Arc<Spot>, Waiting)> {
        // By folder: the first of those that were never found to be costly, and of those that were.
        let mut firsts: BTreeMap<Folder, [Option<Numbered<'_>>; 2]> = BTreeMap::new();
        let guard = self.waiting.values().filter(|waiting| waiting.guards).map(|waiting| waiting.number).min();
        let is_ready = |waiting: &Waiting| !waiting.is_parked || guard.is_none_or(|first| first >= waiting.number);
        for (spot, waiting) in self.waiting.iter().filter(|(_, waiting)| is_ready(waiting)) {
            let [cheap, costly] = firsts.entry(spot.folder()).or_default();
            let first = if waiting.is_costly { costly } else { cheap };
            if first.is_none_or(|(number, _)| waiting.number < number) {
                *first = Some((waiting.number, spot));
            }
        }
        self.was_costly.retain(|folder, _| firsts.contains_key(folder));
        let after = firsts.iter().find(|(folder, _)| self.turn.as_ref().is_none_or(|turn| *folder > turn));
        let (folder, [cheap, costly]) = after.or(firsts.iter().next())?;
        // At first one that may be cheap.
        let was_costly = self.was_costly.get(folder).copied().unwrap_or(true);
        let (_, spot) = if was_costly { cheap.or(*costly) } else { costly.or(*cheap) }?;
        let (folder, spot) = (folder.clone(), spot.clone());
        let waiting = self.waiting.remove(&spot)?;
        self.was_costly.insert(folder.clone(), waiting.is_costly);
        self.turn = Some(folder);
        Some((spot, waiting))
    }

    pub(super) fn remove(&mut self, spot: &Spot) {
        self.waiting.remove(spot);
    }

    /// Removes what is at and below a place and not there any more.
    pub(super) fn remove_below(&mut self, top: &Arc<Spot>, is_there: impl Fn(&Spot) -> bool) {
        let below = self.waiting.range(top.clone()..).map(|(spot, _)| spot).take_while(|spot| spot.is_under(top));
        for spot in below.filter(|spot| !is_there(spot)).cloned().collect::<Vec<_>>() {
            self.waiting.remove(&spot);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
