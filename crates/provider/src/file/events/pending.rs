//! [`Pending`]: events by name, so that many about one name count once.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor};

use crate::file::watches::Lookup;

/// Names of which events are kept: 16 times the kernel's queue, some 150 bytes each, so 40 MB. Of more, events count as lost.
const MOST_NAMES: usize = 1 << 18;

/// Events that are noted and not yet spread.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) names: BTreeMap<Lookup, Happened>,
    /// Watches that the kernel gave up.
    pub(super) lost: BTreeSet<WatchDescriptor>,
    /// Events are lost.
    pub(super) overflowed: bool,
    count: u64,
}

/// The last event of each sort about a name, as its number; 0: there was none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Happened {
    /// It was written to.
    pub(super) modified: u64,
    /// It was written, and closed.
    pub(super) closed: u64,
    /// Its permissions were changed.
    pub(super) changed: u64,
    /// It was deleted, or moved to another name.
    pub(super) went: u64,
    /// It came complete: a directory, or something that was moved here.
    pub(super) came: u64,
    /// It came, perhaps only to be written now.
    pub(super) created: u64,
}

impl Happened {
    fn note(&mut self, mask: AddWatchFlags, number: u64) {
        let last = if mask.contains(AddWatchFlags::IN_MODIFY) {
            &mut self.modified
        } else if mask.contains(AddWatchFlags::IN_CLOSE_WRITE) {
            &mut self.closed
        } else if mask.contains(AddWatchFlags::IN_ATTRIB) {
            &mut self.changed
        } else if mask.intersects(AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM) {
            &mut self.went
        } else if mask.contains(AddWatchFlags::IN_CREATE) && !mask.contains(AddWatchFlags::IN_ISDIR) {
            &mut self.created
        } else {
            &mut self.came
        };
        *last = number;
    }

    /// The last event after which nothing is being written that was before.
    pub(super) fn ended(&self) -> u64 {
        self.closed.max(self.went).max(self.came)
    }

    /// The last event of all.
    pub(super) fn last(&self) -> u64 {
        self.ended().max(self.modified).max(self.changed).max(self.created)
    }

    fn and(self, later: Self) -> Self {
        Self {
            modified: self.modified.max(later.modified),
            closed: self.closed.max(later.closed),
            changed: self.changed.max(later.changed),
            went: self.went.max(later.went),
            came: self.came.max(later.came),
            created: self.created.max(later.created),
        }
    }
}

impl Pending {
    pub(super) fn note(&mut self, event: InotifyEvent) {
        let is_full = self.names.len() >= MOST_NAMES;
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) || is_full {
            self.names.clear();
            self.overflowed = true;
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.lost.insert(event.wd);
        } else if let Some(name) = event.name {
            self.count += 1;
            self.names.entry((event.wd, name)).or_default().note(event.mask, self.count);
        }
    }

    /// Keeps events of a name for the next time: those that come later have higher numbers.
    pub(super) fn keep(&mut self, lookup: Lookup, happened: Happened) {
        self.count = self.count.max(happened.last());
        let kept = self.names.entry(lookup).or_default();
        *kept = happened.and(*kept);
    }
}
