//! [`Guards`]: costly files that may hold what guards, by folder, and [`Waits`]: files that wait for them. Each step costs `O(log n)`.
//!
//! An edit waits for every such file of its own folder that was written before it. For those of another folder it waits while their reading has taken no
//! more than [`MAX_WAITED`] of CPU time: a folder beyond that is late, and no other folder waits for it until all of its files are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::file::spot::{Folder, Spot};

/// CPU time that reading the files of one folder may take while edits of other folders wait. The largest file (256 MiB) takes 2.7 s at 10 ns a byte, so one
/// that is written as users do is never overtaken, and one author stalls others for 5 s.
pub(super) const MAX_WAITED: Duration = Duration::from_secs(5);

/// Files that may hold what guards, and are not read yet. Each has a number, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    folders: BTreeMap<Folder, Pending>,
    /// The first file of each folder that is not late.
    firsts: BTreeMap<u64, Folder>,
}

/// The files of one folder: at least one.
#[derive(Debug, Default)]
struct Pending {
    files: BTreeMap<u64, Arc<Spot>>,
    /// CPU time that files of the folder took since the first of these came.
    used: Duration,
}

impl Pending {
    fn is_late(&self) -> bool {
        self.used > MAX_WAITED
    }

    fn first(&self) -> Option<u64> {
        self.files.first_key_value().map(|(number, _)| *number)
    }
}

impl Guards {
    pub(super) fn add(&mut self, number: u64, spot: &Arc<Spot>) {
        self.change(&spot.folder(), |pending| drop(pending.files.insert(number, spot.clone())));
    }

    pub(super) fn remove(&mut self, number: u64, spot: &Spot) {
        self.change(&spot.folder(), |pending| drop(pending.files.remove(&number)));
    }

    /// Returns true if no other folder waits for that of a file.
    pub(super) fn is_late(&self, spot: &Spot) -> bool {
        self.folders.get(&spot.folder()).is_some_and(Pending::is_late)
    }

    /// Counts CPU time that reading a file took. Returns true if its folder is late from now on.
    pub(super) fn charge(&mut self, spot: &Spot, time: Duration) -> bool {
        let was_late = self.is_late(spot);
        self.change(&spot.folder(), |pending| pending.used += time);
        !was_late && self.is_late(spot)
    }

    /// Returns the first file up to this number that a file waits for.
    pub(crate) fn first(&self, spot: &Spot, until: u64) -> Option<&Arc<Spot>> {
        let own = self.folders.get(&spot.folder());
        let others = self.firsts.first_key_value().and_then(|(_, folder)| self.folders.get(folder));
        let mut all = own.into_iter().chain(others).filter_map(|pending| pending.files.first_key_value());
        all.find(|(number, _)| **number <= until).map(|(_, first)| first)
    }

    fn change(&mut self, folder: &Folder, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.folders.remove(folder).unwrap_or_default();
        if let Some(first) = pending.first() {
            self.firsts.remove(&first);
        }
        change(&mut pending);
        if let Some(first) = pending.first() {
            if !pending.is_late() {
                self.firsts.insert(first, folder.clone());
            }
            self.folders.insert(folder.clone(), pending);
        }
    }
}

/// Files that wait, each for the [`Guards`] up to a number.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    all: BTreeSet<(u64, Arc<Spot>)>,
    /// By folder: those that wait for nothing but files of their own folder, which is late.
    late: BTreeMap<Folder, BTreeSet<(u64, Arc<Spot>)>>,
}

impl Waits {
    pub(crate) fn add(&mut self, until: u64, spot: &Arc<Spot>) {
        self.remove(until, spot);
        self.all.insert((until, spot.clone()));
    }

    pub(crate) fn remove(&mut self, until: u64, spot: &Arc<Spot>) {
        let one = (until, spot.clone());
        if !self.all.remove(&one) {
            let folder = spot.folder();
            let Some(late) = self.late.get_mut(&folder) else { return };
            late.remove(&one);
            if late.is_empty() {
                self.late.remove(&folder);
            }
        }
    }

    /// Takes those for which nothing is waited for any more.
    pub(crate) fn release(&mut self, guards: &Guards) -> Vec<Arc<Spot>> {
        let mut over = Vec::new();
        let first = guards.firsts.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        while self.all.first().is_some_and(|(until, _)| *until < first) {
            let Some((until, spot)) = self.all.pop_first() else { break };
            match guards.first(&spot, until) {
                Some(_) => drop(self.late.entry(spot.folder()).or_default().insert((until, spot))),
                None => over.push(spot),
            }
        }
        // Few: each of these folders took 5 s.
        self.late.retain(|folder, waits| {
            let first = guards.folders.get(folder).and_then(Pending::first).unwrap_or(u64::MAX);
            while waits.first().is_some_and(|(until, _)| *until < first) {
                over.extend(waits.pop_first().map(|(_, spot)| spot));
            }
            !waits.is_empty()
        });
        over
    }
}
