//! From inotify's events to what has to be looked at: [`Agenda`].
//!
//! Nothing is read here. Events say *that* a place has to be looked at, and what is there then is what counts; so
//! events that come late, twice, or about places that have changed again do no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use nix::sys::inotify::{AddWatchFlags, InotifyEvent};

use crate::file::access::Access;
use crate::file::spot::{Spot, is_read, is_visible};
use crate::file::tree::Tree;

/// What has to be done about a place. Later ones include earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// Its permissions may be others: only of interest if it could not be read.
    Again,
    /// It may be gone.
    Gone,
    /// It is there again, empty, to be written now.
    Empty,
    /// It came to be, perhaps only to be written now.
    Created,
    /// A file there is complete.
    Read,
    /// Anything may be there.
    Survey,
}

/// What has to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    pub(crate) looks: BTreeMap<Arc<Spot>, Look>,
    /// Files that were written to and not closed since. Reading them would give half of what is meant; their closing
    /// is an event.
    pub(crate) writing: BTreeSet<Arc<Spot>>,
}

impl Agenda {
    /// Notes what an event asks for.
    pub(crate) fn note(&mut self, event: &InotifyEvent, tree: &mut Tree) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            // Events are lost, so everything has to be looked at, and whoever was writing may have finished.
            self.writing.clear();
            for root in tree.roots() {
                self.add(root, Look::Survey);
            }
            return;
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            if let Some(lost) = tree.watches.lost(event.wd) {
                let dependent = lost.lookups.into_values().flatten();
                lost.directories.into_iter().chain(dependent).for_each(|spot| self.add(spot, Look::Survey));
            }
            return;
        }
        let (Some(watched), Some(name)) = (tree.watches.watched(event.wd), event.name.as_deref()) else { return };
        let dependent: Vec<Arc<Spot>> = watched.lookups.get(name).into_iter().flatten().cloned().collect();
        let entries: Vec<Arc<Spot>> = match is_visible(name) {
            true => watched.directories.iter().map(|directory| directory.join(name)).collect(),
            false => Vec::new(),
        };
        for spot in dependent {
            let is_awaited_file = event.mask.contains(AddWatchFlags::IN_CREATE)
                && tree.end(&spot, event.wd, name).is_some_and(|end| created(end, tree.access()) == Created::Empty);
            if is_awaited_file {
                self.add(spot, Look::Empty);
            } else {
                self.note_dependent(event.mask, spot);
            }
        }
        for spot in entries {
            self.note_entry(event.mask, name, spot);
        }
    }

    /// Something happened to a name that the way to this place leads over.
    fn note_dependent(&mut self, mask: AddWatchFlags, spot: Arc<Spot>) {
        if mask.contains(AddWatchFlags::IN_MODIFY) {
            self.writing.insert(spot);
        } else if mask.contains(AddWatchFlags::IN_CLOSE_WRITE) {
            self.writing.remove(&spot);
            // A link whose name is not read leads to a file now, and not to nothing.
            let look = if spot.is_read() { Look::Read } else { Look::Survey };
            self.add(spot, look);
        } else if mask.contains(AddWatchFlags::IN_ATTRIB) {
            self.add(spot, Look::Again);
        } else if mask.intersects(AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM) {
            self.writing.remove(&spot);
            self.add(spot, Look::Gone);
        } else {
            self.writing.remove(&spot);
            self.add(spot, Look::Survey);
        }
    }

    /// Something happened to an entry of a directory that is read.
    fn note_entry(&mut self, mask: AddWatchFlags, name: &OsStr, spot: Arc<Spot>) {
        if mask.contains(AddWatchFlags::IN_MODIFY) {
            if is_read(name) {
                self.writing.insert(spot);
            }
        } else if mask.contains(AddWatchFlags::IN_CLOSE_WRITE) {
            self.writing.remove(&spot);
            if is_read(name) {
                self.add(spot, Look::Read);
            }
        } else if mask.contains(AddWatchFlags::IN_ATTRIB) {
            self.add(spot, Look::Again);
        } else if mask.intersects(AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM) {
            self.writing.remove(&spot);
            self.add(spot, Look::Gone);
        } else if mask.contains(AddWatchFlags::IN_CREATE) && !mask.contains(AddWatchFlags::IN_ISDIR) {
            self.add(spot, Look::Created);
        } else {
            self.writing.remove(&spot);
            self.add(spot, Look::Survey);
        }
    }

    /// Puts a look on the agenda. Of two the more thorough one is taken; a file that was complete and then went, or
    /// was created, may be anything by now.
    pub(crate) fn add(&mut self, spot: Arc<Spot>, look: Look) {
        let present = self.looks.entry(spot).or_insert(look);
        let (less, more) = (look.min(*present), look.max(*present));
        *present = if more == Look::Read && less < Look::Read && less > Look::Again { Look::Survey } else { more };
    }

    /// Takes the next place to look at, those above before those below.
    pub(crate) fn next(&mut self) -> Option<(Arc<Spot>, Look)> {
        self.looks.pop_first()
    }

    /// Whether what was read there just now may be out of date already: it will be looked at again, now or later.
    pub(crate) fn is_changing(&self, spot: &Spot) -> bool {
        self.writing.contains(spot) || self.looks.get(spot).is_some_and(|look| *look > Look::Again)
    }

    /// A place is looked at as if for the first time: what was pending at and below it is done with that. Whoever was
    /// writing a file may finish unheard while watches are set anew; `is_watched_anew` says whether that is so for the
    /// place itself.
    pub(crate) fn done_below(&mut self, top: &Arc<Spot>, is_watched_anew: bool) {
        let below = self.looks.range(top.clone()..).map(|(spot, _)| spot).take_while(|spot| spot.is_under(top));
        for spot in below.cloned().collect::<Vec<_>>() {
            self.looks.remove(&spot);
        }
        self.writing.retain(|spot| !spot.is_under(top) || spot == top && !is_watched_anew);
    }
}

/// What a name that came to be is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    /// It went again.
    Nothing,
    /// An empty file that somebody is about to write: its closing will be an event.
    Empty,
    /// A file with content, made by a link to it, or written to already.
    File,
    /// A link, a directory, or something that cannot be looked at.
    Other,
}

/// Looks at a name that came to be, without following links.
pub(crate) fn created(path: &Path, access: &Access) -> Created {
    match access.about(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Created::Nothing,
        Err(_) => Created::Other,
        Ok(about) if !about.is_file() => Created::Other,
        Ok(about) if about.size() == 0 && about.nlink() == 1 => Created::Empty,
        Ok(_) => Created::File,
    }
}
