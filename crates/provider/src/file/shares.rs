//! [`Shares`]: how many directories each folder directly below a root may have, and by which of several ways a directory is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;

use crate::file::spot::Spot;

/// Directories read at most, each with a watch of about 1 kB in the kernel: 64 MB.
const MAX_DIRECTORIES: usize = 1 << 16;

/// Watches of a user that are left to other programs: an eighth.
const LEFT_TO_OTHERS: usize = 8;

/// The last quarter of all is for folders that have less than an eighth of all: with 65,536 no folder has more than 49,152, and the seven
/// others that can be as large still leave room.
const LAST: usize = 4;
const LARGE: usize = 8;

/// Places of a folder that are looked at each by itself when room comes. Where there are more, the whole folder is looked at.
const MOST_WAITING: usize = 64;

/// A root, and the first name below it: files of one author are below one. Without a name it is the root itself.
pub(crate) type Share = (usize, Option<OsString>);

/// A real directory: its device and inode, once for each share.
pub(crate) type Real = (Share, u64, u64);

/// The directories that are read, counted and by their identity.
#[derive(Debug)]
pub(crate) struct Shares {
    most: usize,
    all: usize,
    counts: BTreeMap<Share, usize>,
    /// By which way each directory is read.
    ways: BTreeMap<Real, Arc<Spot>>,
    /// The ways by which it is not read, and their directories.
    others: BTreeMap<Arc<Spot>, Real>,
    by_real: BTreeMap<Real, BTreeSet<Arc<Spot>>>,
    /// Directories for which there was no room.
    waiting: BTreeMap<Share, Waiting>,
    /// Something was given up since room was looked for.
    freed: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    spots: BTreeSet<Arc<Spot>>,
    /// There are more: in their place stands the folder.
    all_of: Option<Arc<Spot>>,
}

impl Default for Shares {
    fn default() -> Self {
        Self::of(MAX_DIRECTORIES)
    }
}

impl Shares {
    /// Shares of so many directories.
    pub(crate) fn of(most: usize) -> Self {
        Self {
            most,
            all: 0,
            counts: BTreeMap::new(),
            ways: BTreeMap::new(),
            others: BTreeMap::new(),
            by_real: BTreeMap::new(),
            waiting: BTreeMap::new(),
            freed: false,
        }
    }

    /// Shares of as many directories as this user may watch.
    pub(crate) fn watched() -> Self {
        let setting = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").ok();
        let watches = setting.and_then(|text| text.trim().parse::<usize>().ok());
        Self::of(watches.map_or(MAX_DIRECTORIES, |most| (most - most / LEFT_TO_OTHERS).clamp(1, MAX_DIRECTORIES)))
    }

    /// The number of directories that are read at most.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns true if one more directory of a share may be read. Roots always are.
    pub(crate) fn fits(&self, share: &Share) -> bool {
        let own = self.counts.get(share).copied().unwrap_or_default();
        let is_last = self.all >= self.most - self.most / LAST;
        share.1.is_none() || self.all < self.most && (!is_last || own < self.most / LARGE)
    }

    /// Notes a directory that is read by this way. Returns another way of the same share by which it is read already.
    pub(crate) fn take(&mut self, spot: &Arc<Spot>, device: u64, inode: u64) -> Result<Real, Arc<Spot>> {
        let real = (spot.share(), device, inode);
        if let Some(first) = self.ways.get(&real) {
            let first = Arc::clone(first);
            self.others.insert(spot.clone(), real.clone());
            self.by_real.entry(real).or_default().insert(spot.clone());
            return Err(first);
        }
        self.forget_other(spot);
        self.ways.insert(real.clone(), spot.clone());
        *self.counts.entry(real.0.clone()).or_default() += 1;
        self.all += 1;
        Ok(real)
    }

    /// Gives up a directory that was read.
    pub(crate) fn release(&mut self, real: &Real) {
        if self.ways.remove(real).is_none() {
            return;
        }
        self.all = self.all.saturating_sub(1);
        self.freed = true;
        if let Some(count) = self.counts.get_mut(&real.0) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&real.0);
            }
        }
    }

    /// Returns the way by which a directory is read.
    pub(crate) fn way(&self, real: &Real) -> Option<&Arc<Spot>> {
        self.ways.get(real)
    }

    /// Returns the ways by which a directory is not read.
    pub(crate) fn others(&self, real: &Real) -> impl Iterator<Item = &Arc<Spot>> {
        self.by_real.get(real).into_iter().flatten()
    }

    /// Returns the way that is taken in place of this one.
    pub(crate) fn taken_for(&self, other: &Spot) -> Option<&Arc<Spot>> {
        self.way(self.others.get(other)?)
    }

    /// Notes a directory for which there is no room. Returns the folder in its place where there are too many to note each.
    pub(crate) fn wait(&mut self, spot: &Arc<Spot>) -> Arc<Spot> {
        let waiting = self.waiting.entry(spot.share()).or_default();
        if waiting.spots.len() < MOST_WAITING || waiting.spots.contains(spot) {
            waiting.spots.insert(spot.clone());
            return spot.clone();
        }
        Arc::clone(waiting.all_of.get_or_insert_with(|| spot.top()))
    }

    /// Forgets what is known of places at and below this one, but for directories that are read.
    pub(crate) fn forget(&mut self, top: &Arc<Spot>) {
        let others = self.others.range(top.clone()..).map(|(spot, _)| spot);
        for spot in others.take_while(|spot| spot.is_under(top)).cloned().collect::<Vec<_>>() {
            self.forget_other(&spot);
        }
        if top.is_root() {
            self.waiting.retain(|(root, _), _| *root != top.root_index());
        } else if let Some(waiting) = self.waiting.get_mut(&top.share()) {
            waiting.spots.retain(|spot| !spot.is_under(top));
            if waiting.all_of.as_ref().is_some_and(|all| all.is_under(top)) {
                waiting.all_of = None;
            }
            if waiting.spots.is_empty() && waiting.all_of.is_none() {
                self.waiting.remove(&top.share());
            }
        }
    }

    fn forget_other(&mut self, spot: &Arc<Spot>) {
        let Some(real) = self.others.remove(spot) else { return };
        if let Some(spots) = self.by_real.get_mut(&real) {
            spots.remove(spot);
            if spots.is_empty() {
                self.by_real.remove(&real);
            }
        }
    }

    /// Takes the places for which there may be room now. Nothing where nothing was given up since the last call.
    pub(crate) fn take_fitting(&mut self) -> BTreeSet<Arc<Spot>> {
        if !std::mem::take(&mut self.freed) || self.waiting.is_empty() {
            return BTreeSet::new();
        }
        let shares: Vec<Share> = self.waiting.keys().filter(|share| self.fits(share)).cloned().collect();
        let mut found = BTreeSet::new();
        for share in shares {
            let Some(waiting) = self.waiting.get(&share) else { continue };
            // A folder that waits for much is looked at whole, which is worth it only for much room.
            let own = self.counts.get(&share).copied().unwrap_or_default();
            let is_roomy = own < self.most / LARGE || self.all + self.most / LAST + self.most / LARGE < self.most;
            match &waiting.all_of {
                Some(folder) if is_roomy => drop(found.insert(Arc::clone(folder))),
                _ => found.extend(waiting.spots.iter().cloned()),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
