//! Follows a path step by step, so that every step can be watched.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Symbolic links followed per path at most; Linux itself stops at 40.
const MAX_LINKS: usize = 40;

/// Where a path leads, and every name that was looked up on the way: if one of them changes, so may the answer.
#[derive(Debug)]
pub(crate) struct Resolution {
    /// Real directory and name, in order. The last one is the last name that was there or was missed.
    pub(crate) lookups: Vec<(PathBuf, OsString)>,
    /// What is there.
    pub(crate) found: Found,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Found {
    /// Not a directory, by its real path. It may still be a pipe or a device.
    File(PathBuf),
    /// A directory, by its real path.
    Directory(PathBuf),
    /// Nothing: a name on the way does not exist. True if a link led there.
    Missing { dangling: bool },
    /// Links lead round in a circle, or so often on that it comes to the same.
    Circle,
    /// A name on the way cannot be looked up.
    Failed(io::Error),
}

/// Follows `path` from the real directory `from` (which it ignores if it is absolute).
pub(crate) fn resolve(from: &Path, path: &Path) -> Resolution {
    let mut walk = Walk { at: from.to_owned(), ahead: Vec::new(), lookups: Vec::new(), links: 0 };
    walk.enter(path);
    let found = walk.run();
    Resolution { lookups: walk.lookups, found }
}

struct Walk {
    /// A real directory.
    at: PathBuf,
    /// Names still to be looked up, last one first.
    ahead: Vec<OsString>,
    lookups: Vec<(PathBuf, OsString)>,
    links: usize,
}

impl Walk {
    fn enter(&mut self, path: &Path) {
        if path.is_absolute() {
            self.at = PathBuf::from("/");
        }
        let names = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        });
        self.ahead.extend(names);
    }

    fn run(&mut self) -> Found {
        while let Some(name) = self.ahead.pop() {
            if name == ".." {
                self.at.pop();
                continue;
            }
            self.lookups.push((self.at.clone(), name.clone()));
            match self.step(&name) {
                Ok(None) => {}
                Ok(Some(found)) => return found,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    return Found::Missing { dangling: self.links > 0 };
                }
                Err(error) => return Found::Failed(error),
            }
        }
        Found::Directory(std::mem::take(&mut self.at))
    }

    fn step(&mut self, name: &OsStr) -> io::Result<Option<Found>> {
        let next = self.at.join(name);
        let kind = next.symlink_metadata()?.file_type();
        if kind.is_symlink() {
            self.links += 1;
            if self.links > MAX_LINKS {
                return Ok(Some(Found::Circle));
            }
            self.enter(&next.read_link()?);
        } else if kind.is_dir() {
            self.at = next;
        } else if self.ahead.is_empty() {
            return Ok(Some(Found::File(next)));
        } else {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(None)
    }
}
