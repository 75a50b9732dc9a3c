//! Follows a path step by step, so that every step can be watched, checked and counted.
//!
//! The kernel follows 40 links of 4 KiB each for one path: 80,000 names, 0.1 s of its time, and each name may be on a file system that does not answer.
//! Here each name is one system call from the directory before it, and the bounds are small. Swapping a name for a link meanwhile gains nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2, readlinkat};
use rustix::io::Errno;

use crate::file::access::{Denied, descriptor};

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
    /// The file or directory that was found, opened with `O_PATH`.
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
    unlinked(CWD, path, flags).unwrap_or_else(|| walk_unlinked(path, flags))
}

/// Opens a path if it leads over no link. None where the kernel is older than 5.6, or what confines the process refuses the call (gVisor, filters of older
/// container runtimes).
fn unlinked(directory: impl AsFd, path: &Path, flags: OFlags) -> Option<rustix::io::Result<OwnedFd>> {
    #[cfg(test)]
    if testing::lacks_openat2() {
        return None;
    }
    let opened = openat2(directory, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    (!matches!(opened, Err(Errno::NOSYS | Errno::PERM))).then_some(opened)
}

/// The same as [`unlinked`], name by name.
fn walk_unlinked(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    let mut opened = openat(CWD, start, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = names(path).take(MAX_NAMES + 1).enumerate().peekable();
    while let Some((at, name)) = names.next() {
        if at == MAX_NAMES {
            return Err(Errno::NAMETOOLONG);
        }
        let next = openat(&opened, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let is_last = names.peek().is_none();
        opened = match FileType::from_raw_mode(fstat(&next)?.st_mode) {
            FileType::Symlink if !is_last || !flags.contains(OFlags::NOFOLLOW) => return Err(Errno::LOOP),
            FileType::Directory => mounted(&opened, &name, next)?,
            // A link, too.
            _ if is_last && !flags.contains(OFlags::DIRECTORY) => next,
            _ => return Err(Errno::NOTDIR),
        };
    }
    Ok(opened)
}

/// The names of a path that are looked up.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
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
        self.ahead.extend(names(path).rev());
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

/// Returns the directory that is mounted on one, where that happens when a path leads over it (autofs).
fn mounted(parent: &OwnedFd, name: &OsStr, opened: OwnedFd) -> rustix::io::Result<OwnedFd> {
    if !fstatfs(&opened).is_ok_and(|about| i128::from(about.f_type) == i128::from(AUTOFS)) {
        return Ok(opened);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = Path::new(name).join(".");
    unlinked(parent, &path, flags).unwrap_or_else(|| {
        let opened = openat(parent, &path, flags, Mode::empty())?;
        // The name may have been swapped for a link meanwhile: the directory has another path then.
        let place = |of: &OwnedFd| readlinkat(CWD, descriptor(of), Vec::new()).map(|path| path.into_bytes());
        let here = PathBuf::from(OsString::from_vec(place(parent)?)).join(name);
        if place(&opened)? == here.as_os_str().as_bytes() { Ok(opened) } else { Err(Errno::LOOP) }
    })
}

/// A kernel without `openat2`, for tests.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Number of tests that run without it. Others may run without it meanwhile: nothing else is different.
    static LACKING: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        /// What this thread finds, whatever others do.
        static FOUND: Cell<Option<bool>> = const { Cell::new(None) };
    }

    pub(super) fn lacks_openat2() -> bool {
        FOUND.get().unwrap_or_else(|| LACKING.load(Ordering::SeqCst) > 0)
    }

    /// Returns what comes of this on a thread that has it or lacks it.
    pub(crate) fn on_kernel<T>(has_openat2: bool, run: impl FnOnce() -> T) -> T {
        FOUND.set(Some(!has_openat2));
        let result = run();
        FOUND.set(None);
        result
    }

    /// Lasts until it is dropped.
    pub(crate) struct WithoutOpenat2(());

    impl WithoutOpenat2 {
        pub(crate) fn begin() -> Self {
            LACKING.fetch_add(1, Ordering::SeqCst);
            Self(())
        }
    }

    impl Drop for WithoutOpenat2 {
        fn drop(&mut self) {
            LACKING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
