//! Objects from files: directories (recursive), single files and texts, YAML and JSON.
//!
//! [`load()`] reads once; [`watch`] reads, and then follows every change on a thread of its own.
//!
//! What is read: of a directory all files `*.yaml`, `*.yml` and `*.json` at any depth, but nothing hidden and no backup
//! or swap files; a single file whatever its name. Roots within other roots are read once. Of equal identities the
//! first one counts, in the order of roots, paths (name by name) and lines, and a [`api::Problem`] names both places.
//!
//! What happens to what cannot be read: a document that cannot be understood keeps what it gave last, and so does a
//! file or directory that cannot be read, and a root that is gone; all others go on. What can be read another time (permissions, a mount, no
//! descriptor) is tried again every second. A root that was never read holds up all: nothing is complete without it. So does, at the start, a file
//! that was found and that somebody changes while it is read; but for five seconds at most (`unread`). And so does what is broken at a start
//! after which proxies have something, if what it gave before is not known (`past`, `texts`). What a link gave is gone when it leads to nothing, as if it were removed, and is reported. A
//! document is parsed again only if its text changed.
//!
//! When a change counts: when a file that was written is closed, or a file is moved into place; there is no waiting.
//! A file that takes long to parse is read by a thread of its own (`background`), so that edits of others count meanwhile; the start waits for all files.
//! Only a file that vanishes or becomes empty is believed a moment later ([`VANISH_GRACE`], [`EMPTY_GRACE`]), because editors that keep
//! backups, and git, remove or rename the old file before they write the new one, and others empty it first.
//!
//! Links that lead out of the roots are not followed unless [`Links`] says so; nothing below `/proc`, `/sys` and `/dev` is read, and no pipe, socket or device.
//!
//! Map: `access` what may be read, `spot` places and names, `resolve` links, `watches` inotify, `tree` which files there are, `read` and
//! `document` from bytes to objects, `background` those that take long, `guard` and `held` what does not overtake them, `merge` from one version of a file to the next, `offer` and `catalog` who is
//! in force, `events` from events to what has to be looked at, `unread` what the start waits for, `past` and `texts` what a broken place gave before it,
//! `ages` since when objects are known,
//! `follower` the thread, `report` wording.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::{Object, Problem};
use store::{Batch, Change, Origin, Source};

mod access;
mod ages;
mod background;
mod catalog;
mod document;
mod events;
mod follower;
mod guard;
mod held;
mod load;
mod merge;
mod offer;
mod past;
mod read;
mod report;
mod resolve;
mod shares;
mod sockets;
mod spot;
mod texts;
mod tree;
mod unread;
mod watches;

pub use access::{Links, Texts};
pub use ages::journal::AgeFile;
pub use follower::{Watcher, watch};
#[cfg(test)]
use load::load_following;
pub use load::{Input, load, load_inputs, load_inputs_following};
pub use past::Past;
pub use sockets::SocketPaths;
pub use texts::TextFile;

/// How long a file that vanished or became empty is given to come back. `git checkout` and editors that write backups need well under
/// a millisecond between removing the old file and creating the new one; a busy machine may take some tens.
pub const VANISH_GRACE: Duration = Duration::from_millis(50);

/// The same for a file that is there and empty. Whoever writes in place empties it first, and the kernel says so a moment after that: for as long as
/// a busy machine lets the writer wait in between, nothing tells a file that is being written from one that was emptied.
pub const EMPTY_GRACE: Duration = Duration::from_secs(1);

/// What a single load found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Objects in force, in the order of files and lines.
    pub objects: Vec<(Object, Origin)>,
    /// Problems by file, in the order of files.
    pub problems: Vec<(Arc<str>, Vec<Problem>)>,
}

impl Loaded {
    fn new(changes: Vec<Change>) -> Self {
        let mut loaded = Self { objects: Vec::with_capacity(changes.len()), problems: Vec::new() };
        for change in changes {
            match change {
                Change::Apply(object, origin) => loaded.objects.push((object, origin)),
                Change::Problems { origin, problems } => loaded.problems.push((origin, problems)),
                Change::Delete(_) | Change::Reject(..) | Change::Definitions(_) | Change::SocketPath(..) => {}
            }
        }
        loaded
    }

    /// The same as a complete batch of the source [`Source::File`].
    #[must_use]
    pub fn into_batch(self) -> Batch {
        let objects = self.objects.into_iter().map(|(object, origin)| Change::Apply(object, origin));
        let problems = self.problems.into_iter().map(|(origin, problems)| Change::Problems { origin, problems });
        let mut batch = Batch { source: Source::File, changes: objects.chain(problems).collect(), listed: true };
        SocketPaths::read_once().add(&mut batch);
        batch
    }
}

/// Why files cannot be followed at all. What is wrong with a single file is a [`Problem`] instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// inotify is not to be had.
    #[error("cannot watch files: {0}; the kernel setting fs.inotify.max_user_instances may be too low")]
    Inotify(#[source] io::Error),
    /// Relative roots need the current directory.
    #[error("the current directory cannot be read: {0}; give absolute paths")]
    CurrentDirectory(#[source] io::Error),
    /// The thread cannot be started, or its pipe not made.
    #[error("cannot start the thread that follows files: {0}")]
    Thread(#[source] io::Error),
    /// The ages of objects cannot be read.
    #[error("{0}")]
    Ages(String),
    /// The thread ended by a panic, a fault of the program.
    #[error("the thread that follows files ended by a fault: {0}")]
    Panic(String),
}

/// Where a watcher sends batches. [`ControlFlow::Break`] ends the watcher, as when nobody receives any more. It may
/// block: nothing is lost meanwhile, and changes to the same file become one.
pub trait Sink: FnMut(Batch) -> ControlFlow<()> + Send + 'static {}

impl<F: FnMut(Batch) -> ControlFlow<()> + Send + 'static> Sink for F {}

/// The absolute form of a root.
fn current_directory(roots: &[PathBuf]) -> Result<PathBuf, Error> {
    if roots.iter().all(|root| root.is_absolute()) {
        return Ok(PathBuf::from("/"));
    }
    std::env::current_dir().map_err(Error::CurrentDirectory)
}

#[cfg(test)]
mod tests;
