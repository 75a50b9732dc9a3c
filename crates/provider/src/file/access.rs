//! [`Access`]: the files that may be read, checked on the opened file itself.
//!
//! A path is looked up once, without opening what is there (`O_PATH`, which neither waits for a pipe nor wakes a device), link by link where there are
//! any (`resolve`). What was found is then judged
//! by its own path and kind, and that very file is read. Swapping a file for a link between the check and the read gains nothing.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use api::RefusalKind;
use nix::libc;
use nix::sys::statfs::{self, FsType, fstatfs};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::file::resolve::{Found, MAX_LINKS, MAX_NAMES, Resolution, open_unlinked, resolve};

/// The treatment of symbolic links that lead out of the folders that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// They are not followed: what they lead to may be a file that their author could not read.
    #[default]
    WithinRoots,
    /// They are followed to any regular file and folder.
    Everywhere,
}

impl Links {
    /// Returns the treatment that `--follow-links` asks for.
    #[must_use]
    pub fn follow(everywhere: bool) -> Self {
        if everywhere { Self::Everywhere } else { Self::WithinRoots }
    }
}

/// Places that hold no user's files: what is read there is made by the kernel.
const SPECIAL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A folder of ordinary files in one of those places.
const SHARED_MEMORY: &str = "/dev/shm";

/// File systems whose files are made by the kernel, wherever they are mounted (statfs(2)).
const MADE_BY_KERNEL: [FsType; 8] = [
    statfs::PROC_SUPER_MAGIC,
    statfs::SYSFS_MAGIC,
    statfs::DEBUGFS_MAGIC,
    statfs::TRACEFS_MAGIC,
    statfs::SECURITYFS_MAGIC,
    statfs::CGROUP_SUPER_MAGIC,
    statfs::CGROUP2_SUPER_MAGIC,
    statfs::BPF_FS_MAGIC,
];

/// The reason why something is not read.
#[derive(Debug)]
pub(crate) enum Denied {
    /// It cannot be opened.
    Io(io::Error),
    /// A link leads out of the folders that are read.
    Outside,
    /// It is below `/proc`, `/sys` or `/dev`.
    Special,
    /// It is no regular file.
    Kind(&'static str),
    /// There are more links or names on the way to it than are followed.
    Long,
}

impl Denied {
    /// Returns the reason for metrics; none where nothing is refused.
    pub(crate) fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::Io(error) => error.get_ref().filter(|error| error.is::<TooLarge>()).map(|_| RefusalKind::LargeFile),
            Self::Outside => Some(RefusalKind::Link),
            Self::Special | Self::Kind(_) => Some(RefusalKind::SpecialFile),
            Self::Long => None,
        }
    }
}

/// A file that is larger than what is read.
#[derive(Debug, thiserror::Error)]
#[error("larger than {0} MiB; split it into several files")]
pub(crate) struct TooLarge(pub(crate) u64);

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Outside => f.write_str(
                "the link leads out of the folder and is not followed: move what it leads to into the folder, or run with --follow-links",
            ),
            Self::Special => f.write_str("not read: nothing below /proc, /sys and /dev is"),
            Self::Kind(what) => write!(f, "not read: {what}, not a regular file"),
            Self::Long => write!(
                f,
                "not read: more than {MAX_LINKS} links or {MAX_NAMES} names are on the way to it; take some links away"
            ),
        }
    }
}

impl From<io::Error> for Denied {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The places that may be read; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    links: Links,
    /// The roots without links. Each is a folder or a file.
    areas: Arc<[PathBuf]>,
    /// The names that the paths of the roots, as they are given, lead over.
    ways: Arc<[PathBuf]>,
}

/// A root: its path without links, and the names that the path as it is given leads over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) real: PathBuf,
    pub(crate) ways: Vec<PathBuf>,
}

impl Area {
    /// Finds the root of an absolute path. None if it is not there, or may not be read.
    pub(crate) fn of(absolute: &Path) -> Option<Self> {
        let resolution = resolve(Path::new("/"), absolute, &mut |_| Ok(()));
        let is_there = matches!(resolution.found, Found::File | Found::Directory);
        (is_there && !is_special(&resolution.real)).then(|| Self::found(&resolution))
    }

    /// Returns the root that was found so.
    pub(crate) fn found(resolution: &Resolution) -> Self {
        let ways = resolution.lookups.iter().map(|lookup| lookup.directory.join(&lookup.name));
        Self { real: resolution.real.clone(), ways: ways.collect() }
    }
}

impl Access {
    /// Returns the access to these roots.
    pub(crate) fn new<'a>(links: Links, areas: impl IntoIterator<Item = &'a Area>) -> Self {
        let areas: Vec<&Area> = areas.into_iter().collect();
        let ways = areas.iter().flat_map(|area| area.ways.iter().cloned()).collect();
        Self { links, areas: areas.iter().map(|area| area.real.clone()).collect(), ways }
    }

    /// Checks that a name may be looked up on the way to something. Elsewhere than on the ways to the roots nothing is: it may be on a file
    /// system that does not answer, and all would wait.
    pub(crate) fn permits_name(&self, next: &Path) -> Result<(), Denied> {
        let is_on_way = || self.areas.iter().any(|area| next.starts_with(area) || area.starts_with(next));
        let is_given = || self.ways.iter().any(|way| way.starts_with(next));
        let is_permitted = self.links == Links::Everywhere || is_on_way() || is_given();
        let is_memory = is_permitted && Path::new(SHARED_MEMORY).starts_with(next);
        match is_special(next) && !is_memory {
            true => Err(Denied::Special),
            false if is_permitted => Ok(()),
            false => Err(Denied::Outside),
        }
    }

    /// Checks that the file or folder of this path, which has no links, may be read. Everything that a root leads to may, but what is special.
    pub(crate) fn permits(&self, real: &Path, is_root: bool) -> Result<(), Denied> {
        if is_special(real) {
            return Err(Denied::Special);
        }
        let inside = || self.areas.iter().any(|area| real.starts_with(area));
        if is_root || self.links == Links::Everywhere || inside() { Ok(()) } else { Err(Denied::Outside) }
    }

    /// Opens a regular file to read it.
    pub(crate) fn file(&self, path: &Path) -> Result<(File, Metadata), Denied> {
        let found = self.find(path, OFlags::empty())?;
        let about = found.metadata()?;
        let kind = about.file_type();
        if kind.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        if !kind.is_file() {
            return Err(Denied::Kind(name_of(kind)));
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(descriptor(&found))?;
        Ok((file, about))
    }

    /// Opens a directory whose path has no links, to be listed and watched by [`descriptor`].
    pub(crate) fn directory(&self, path: &Path) -> io::Result<File> {
        self.find(path, OFlags::DIRECTORY).map_err(|denied| match denied {
            Denied::Io(error) => error,
            // It was swapped for a link since: its parent has an event that says so.
            _ => io::ErrorKind::NotFound.into(),
        })
    }

    /// Returns true if a file or directory can be opened.
    pub(crate) fn is_readable(&self, path: &Path) -> bool {
        let Ok(found) = self.find(path, OFlags::empty()) else { return false };
        match found.metadata() {
            Ok(about) if about.is_dir() => fs::read_dir(descriptor(&found)).is_ok(),
            Ok(_) => self.file(path).is_ok(),
            Err(_) => false,
        }
    }

    /// Returns true if a path leads to something, if only to what may not be read.
    pub(crate) fn is_there(&self, path: &Path) -> bool {
        !matches!(self.find(path, OFlags::empty()), Err(Denied::Io(_)))
    }

    /// Looks at what has this path, without following a link there.
    pub(crate) fn about(&self, path: &Path) -> io::Result<Metadata> {
        let found = match open_unlinked(path, OFlags::NOFOLLOW) {
            Err(Errno::LOOP) => {
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                    return Err(Errno::LOOP.into());
                };
                let directory = self.follow(parent).map_err(|_| io::Error::from(Errno::LOOP))?;
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(&directory, name, flags, Mode::empty())?
            }
            found => found?,
        };
        File::from(found).metadata()
    }

    /// Finds what a path leads to, and judges it by its own path.
    fn find(&self, path: &Path, flags: OFlags) -> Result<File, Denied> {
        let found: File = match open_unlinked(path, flags) {
            Err(Errno::LOOP) => self.follow(path)?,
            found => found.map_err(io::Error::from)?,
        }
        .into();
        let about = found.metadata()?;
        if about.nlink() == 0 {
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        }
        if flags.contains(OFlags::DIRECTORY) && !about.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
        let real = fs::read_link(descriptor(&found))?;
        self.permits(&real, false)?;
        let made_by_kernel = fstatfs(&found).is_ok_and(|about| MADE_BY_KERNEL.contains(&about.filesystem_type()));
        if made_by_kernel { Err(Denied::Special) } else { Ok(found) }
    }

    /// Follows the links on a path.
    fn follow(&self, path: &Path) -> Result<OwnedFd, Denied> {
        let Resolution { found, opened, lookups, .. } =
            resolve(Path::new("/"), &absolute(path)?, &mut |next| self.permits_name(next));
        drop(lookups);
        match (found, opened.and_then(Arc::into_inner)) {
            (Found::File | Found::Directory, Some(opened)) => Ok(opened),
            (Found::Missing { .. } | Found::File | Found::Directory, _) => {
                Err(io::Error::from(io::ErrorKind::NotFound).into())
            }
            (Found::Circle | Found::Long, _) => Err(Denied::Long),
            (Found::Stopped(denied), _) => Err(denied),
            (Found::Failed(error), _) => Err(error.into()),
        }
    }
}

/// Returns true if a path without links is in one of the special places.
pub(crate) fn is_special(real: &Path) -> bool {
    SPECIAL.iter().any(|place| real.starts_with(place)) && !real.starts_with(SHARED_MEMORY)
}

/// The path that leads to an open file and to nothing else (proc(5), `/proc/pid/fd`).
pub(crate) fn descriptor(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn name_of(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

/// Reads the texts of files a second time, to find places in them.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    roots: Arc<[PathBuf]>,
    links: Links,
}

impl Texts {
    /// Returns a reader of files below these roots.
    #[must_use]
    pub fn new(roots: &[PathBuf], links: Links) -> Self {
        Self { roots: roots.into(), links }
    }

    /// The text of a file, by the name that its problems have. None if it is not there, is no text, or may not be read.
    #[must_use]
    pub fn get(&self, file: &str) -> Option<String> {
        let areas: Vec<Area> =
            self.roots.iter().filter_map(|root| absolute(root).ok()).filter_map(|root| Area::of(&root)).collect();
        let access = Access::new(self.links, &areas);
        let (mut file, about) = access.file(Path::new(file)).ok()?;
        String::from_utf8(super::read::bounded(&mut file, about.len()).ok()?).ok()
    }
}

#[cfg(test)]
mod tests;
