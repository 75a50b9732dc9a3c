//! [`Watches`]: which directories the kernel watches for us, and whose sake each watch is for.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use crate::file::spot::Spot;

/// `IN_MASK_ADD` of inotify(7), which the bindings lack: a directory that is watched already is watched for more.
const ADD_TO_MASK: AddWatchFlags = AddWatchFlags::from_bits_retain(0x2000_0000);

/// What names do in a directory. Permissions are among it: with others a path may lead on.
const NAMES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_ONLYDIR)
    .union(ADD_TO_MASK);

/// What happens to the files in a directory. Opening and reading is not among it, so reading wakes nobody.
const FILES: AddWatchFlags = AddWatchFlags::IN_MODIFY.union(AddWatchFlags::IN_CLOSE_WRITE);

/// Events read at one time at most: 16 times the kernel's default queue, so that one round always ends.
const MAX_EVENTS: usize = 1 << 18;

/// A read that gives fewer events than this gave all there were: the bindings read 4 KiB at a time, and an event takes 272 bytes
/// at most.
const FULL_READ: usize = 4096 / 272;

/// A name in a watched directory, on the way that a path or a link takes.
pub(crate) type Lookup = (WatchDescriptor, OsString);

/// The watches. Without inotify (a single load) they all do nothing.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    inotify: Option<Inotify>,
    watched: BTreeMap<WatchDescriptor, Watched>,
}

/// One watched directory.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The places at which its files are read; several if links lead to it.
    pub(crate) directories: BTreeSet<Arc<Spot>>,
    /// Names in it that paths lead over, and the places that depend on them.
    pub(crate) lookups: BTreeMap<OsString, BTreeSet<Arc<Spot>>>,
}

impl Watches {
    /// Watches for changes from now on.
    pub(crate) fn new() -> Result<Self, Errno> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        Ok(Self { inotify: Some(inotify), watched: BTreeMap::new() })
    }

    /// The descriptor to wait for.
    pub(crate) fn inotify(&self) -> Option<&Inotify> {
        self.inotify.as_ref()
    }

    /// What happened since the last call; empty if nothing.
    pub(crate) fn events(&self) -> Result<Vec<InotifyEvent>, Errno> {
        let mut events = Vec::new();
        let Some(inotify) = &self.inotify else { return Ok(events) };
        while events.len() < MAX_EVENTS {
            match inotify.read_events() {
                Ok(more) => {
                    let is_all = more.len() < FULL_READ;
                    events.extend(more);
                    if is_all {
                        break;
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(events)
    }

    /// What a watch is for.
    pub(crate) fn watched(&self, watch: WatchDescriptor) -> Option<&Watched> {
        self.watched.get(&watch)
    }

    /// The kernel gave a watch up, because the directory is gone.
    pub(crate) fn lost(&mut self, watch: WatchDescriptor) -> Option<Watched> {
        self.watched.remove(&watch)
    }

    /// Watches a directory whose files are read.
    pub(crate) fn directory(&mut self, real: &Path, spot: &Arc<Spot>) -> Result<Option<WatchDescriptor>, Errno> {
        let Some(inotify) = &self.inotify else { return Ok(None) };
        let watch = inotify.add_watch(real, NAMES | FILES)?;
        self.watched.entry(watch).or_default().directories.insert(spot.clone());
        Ok(Some(watch))
    }

    /// Watches a name that a path leads over; `is_file` if that is where the path ends, so that its content counts.
    ///
    /// A directory that may not be watched (directories above a root often belong to somebody else) is left out.
    pub(crate) fn lookup(&mut self, directory: &Path, name: &OsStr, spot: &Arc<Spot>, is_file: bool) -> Option<Lookup> {
        let mask = if is_file { NAMES | FILES } else { NAMES };
        let watch = self.inotify.as_ref()?.add_watch(directory, mask).ok()?;
        let lookups = &mut self.watched.entry(watch).or_default().lookups;
        lookups.entry(name.to_owned()).or_default().insert(spot.clone());
        Some((watch, name.to_owned()))
    }

    /// A place no longer reads the files of a directory.
    pub(crate) fn release_directory(&mut self, watch: WatchDescriptor, spot: &Arc<Spot>) {
        if let Some(watched) = self.watched.get_mut(&watch) {
            watched.directories.remove(spot);
            self.release_if_unused(watch);
        }
    }

    /// A place no longer leads over a name.
    pub(crate) fn release_lookup(&mut self, (watch, name): &Lookup, spot: &Arc<Spot>) {
        if let Some(watched) = self.watched.get_mut(watch) {
            if let Some(spots) = watched.lookups.get_mut(name) {
                spots.remove(spot);
                if spots.is_empty() {
                    watched.lookups.remove(name);
                }
            }
            self.release_if_unused(*watch);
        }
    }

    fn release_if_unused(&mut self, watch: WatchDescriptor) {
        let unused = |watched: &Watched| watched.directories.is_empty() && watched.lookups.is_empty();
        if self.watched.get(&watch).is_some_and(unused) {
            self.watched.remove(&watch);
            if let Some(inotify) = &self.inotify {
                // It fails if the directory is gone, and then there is nothing to release.
                let _ = inotify.rm_watch(watch);
            }
        }
    }
}
