//! Follows a path step by step, so that every step can be watched, checked and counted.
//!
//! The kernel follows 40 links of 4 KiB each for one path: 80,000 names, 0.1 s of its time, and each name may be on a file system that does not answer.
//! Here each name is one system call from the directory before it, and the bounds are small. Nobody gains by swapping a name for a link meanwhile.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2, readlinkat};
use rustix::io::Errno;

use crate::file::access::Denied;

/// Symbolic links followed per path at most; Linux itself stops at 40.
pub(crate) const MAX_LINKS: usize = 40;

/// Names looked up per path at most. Users' paths have some 10, a longest path of a socket 54, and each link on it as many again: 256 names take
/// 0.5 ms.
pub(crate) const MAX_NAMES: usize = 256;

/// `AUTOFS_SUPER_MAGIC` of statfs(2): a directory on which something is mounted once a name in it is looked up.
const AUTOFS: i64 = 0x0187;

/// The end of a path, and every name that was looked up on the way: if one of them changes, so may the end.
#[derive(Debug)]
pub(crate) struct Resolution {
    /// The names in order. The last one is the last name that was there or was missed.
    pub(crate) lookups: Vec<Lookup>,
    /// What is there.
    pub(crate) found: Found,
    /// The path without links as far as it was followed, with the rest behind it.
    pub(crate) real: PathBuf,
    /// What was found, opened with `O_PATH`.
    pub(crate) opened: Option<Arc<OwnedFd>>,
    /// Number of names.
    pub(crate) names: usize,
}

/// A name that was looked up.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    /// A directory, by its path without links.
    pub(crate) directory: PathBuf,
    pub(crate) name: OsString,
    /// The directory itself, opened with `O_PATH`.
    pub(crate) opened: Arc<OwnedFd>,
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        (&self.directory, &self.name) == (&other.directory, &other.name)
    }
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Found {
    /// Not a directory. It may still be a pipe or a device.
    File,
    Directory,
    /// Nothing: a name on the way does not exist. True if a link led there.
    Missing {
        dangling: bool,
    },
    /// There are more links on the way than are followed, as where they lead round in a circle.
    Circle,
    /// There are more names on the way than are looked up.
    Long,
    /// The way leads over a name that may not be looked up.
    Stopped(Denied),
    /// A name on the way cannot be looked up.
    Failed(io::Error),
}

/// Says of the path of each name, which has no links, if it may be looked up.
pub(crate) type Guard<'a> = &'a mut dyn FnMut(&Path) -> Result<(), Denied>;

/// Follows `path` from the directory `from`, a path without links (which it ignores if `path` is absolute).
pub(crate) fn resolve(from: &Path, path: &Path, guard: Guard<'_>) -> Resolution {
    let start = if path.is_absolute() { Path::new("/") } else { from };
    let opened = match open_unlinked(start, OFlags::DIRECTORY) {
        Ok(opened) => Arc::new(opened),
        Err(error) => {
            let found = Found::Failed(error.into());
            return Resolution { lookups: Vec::new(), found, real: start.join(path), opened: None, names: 1 };
        }
    };
    let mut walk = Walk { at: start.to_owned(), opened, ahead: Vec::new(), lookups: Vec::new(), names: 0, links: 0 };
    walk.enter(path);
    walk.run(guard)
}

/// Opens a path with `O_PATH` if it leads over no link. A link at its end is opened itself if `flags` has `NOFOLLOW`.
pub(crate) fn open_unlinked(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Refused by an older kernel, or by what confines the process. The root is not a link.
        Err(Errno::NOSYS | Errno::PERM) if path == Path::new("/") => openat(CWD, path, flags, Mode::empty()),
        Err(Errno::NOSYS | Errno::PERM) => Err(Errno::LOOP),
        opened => opened,
    }
}

struct Walk {
    /// A directory, by its path without links.
    at: PathBuf,
    opened: Arc<OwnedFd>,
    /// Names still to be looked up, last one first.
    ahead: Vec<OsString>,
    lookups: Vec<Lookup>,
    names: usize,
    links: usize,
}

impl Walk {
    fn enter(&mut self, path: &Path) {
        let names = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        });
        self.ahead.extend(names);
    }

    fn run(mut self, guard: Guard<'_>) -> Resolution {
        while let Some(name) = self.ahead.pop() {
            self.names += 1;
            let stopped = match self.names > MAX_NAMES {
                true => Ok(Some((Found::Long, None))),
                false => self.step(&name, guard),
            };
            let (found, opened) = match stopped {
                Ok(None) => continue,
                Ok(Some(end)) => end,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    (Found::Missing { dangling: self.links > 0 }, None)
                }
                Err(error) => (Found::Failed(error), None),
            };
            let Self { mut at, ahead, lookups, names, .. } = self;
            at.push(name);
            at.extend(ahead.iter().rev());
            return Resolution { lookups, found, real: at, opened, names };
        }
        let Self { at, opened, lookups, names, .. } = self;
        Resolution { lookups, found: Found::Directory, real: at, opened: Some(opened), names }
    }

    fn step(&mut self, name: &OsStr, guard: Guard<'_>) -> io::Result<Option<(Found, Option<Arc<OwnedFd>>)>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if name == ".." {
            self.opened = Arc::new(openat(&self.opened, "..", flags | OFlags::DIRECTORY, Mode::empty())?);
            self.at.pop();
            return Ok(None);
        }
        let next = self.at.join(name);
        if let Err(denied) = guard(&next) {
            return Ok(Some((Found::Stopped(denied), None)));
        }
        let (directory, opened) = (self.at.clone(), self.opened.clone());
        self.lookups.push(Lookup { directory, name: name.to_owned(), opened });
        let opened = openat(&self.opened, name, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::Symlink => {
                self.links += 1;
                if self.links > MAX_LINKS {
                    return Ok(Some((Found::Circle, None)));
                }
                let target = PathBuf::from(OsString::from_vec(readlinkat(&opened, "", Vec::new())?.into_bytes()));
                if target.is_absolute() {
                    self.at = PathBuf::from("/");
                    self.opened = Arc::new(open_unlinked(&self.at, OFlags::DIRECTORY)?);
                }
                self.enter(&target);
            }
            FileType::Directory => {
                self.opened = Arc::new(mounted(&self.opened, name, opened)?);
                self.at = next;
            }
            _ if self.ahead.is_empty() => return Ok(Some((Found::File, Some(Arc::new(opened))))),
            _ => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
        Ok(None)
    }
}

/// Returns what is mounted on a directory, where that happens when it is looked at (autofs).
fn mounted(parent: &OwnedFd, name: &OsStr, opened: OwnedFd) -> io::Result<OwnedFd> {
    if !fstatfs(&opened).is_ok_and(|about| i128::from(about.f_type) == i128::from(AUTOFS)) {
        return Ok(opened);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(parent, Path::new(name).join("."), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}
