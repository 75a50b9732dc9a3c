//! [`Spot`]: a place under the roots, and which names are read.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::shares::Share;

/// A file or directory as the user sees it: a root, and the way from there.
///
/// The order is that of the roots as given, then of the paths, name by name: everything below a directory is one range.
#[derive(Debug)]
pub(crate) struct Spot {
    root: u32,
    /// From the root; empty for the root itself.
    path: Box<Path>,
    /// For people: the root as the user named it, and the way from there.
    pub(crate) display: Arc<str>,
}

/// The number of a root, and the first name below it where that is a folder.
pub(crate) type Folder = (usize, Option<OsString>);

impl Spot {
    /// The place of a root itself.
    pub(crate) fn root(index: u32, given: &str) -> Arc<Self> {
        Arc::new(Self { root: index, path: Path::new("").into(), display: given.into() })
    }

    /// The place of an entry of this directory.
    pub(crate) fn join(&self, name: &OsStr) -> Arc<Self> {
        let border = if self.display.ends_with('/') { "" } else { "/" };
        let display = format!("{}{border}{}", self.display, name.to_string_lossy()).into();
        Arc::new(Self { root: self.root, path: self.path.join(name).into(), display })
    }

    /// The number of its root, and the first name below that if it is a folder: files of one author are in one.
    pub(crate) fn folder(&self) -> Folder {
        let mut names = self.path.iter();
        let first = names.next();
        (self.root_index(), first.filter(|_| names.next().is_some()).map(OsStr::to_owned))
    }

    /// The number of its root, and the first name below that, whether it is a folder or not; none for the root itself.
    pub(crate) fn share(&self) -> Share {
        (self.root_index(), self.path.iter().next().map(OsStr::to_owned))
    }

    /// The place directly below its root that it is at or below.
    pub(crate) fn top(self: &Arc<Self>) -> Arc<Self> {
        let mut top = Arc::clone(self);
        while top.depth() > 1
            && let Some(parent) = top.path.parent()
        {
            let names = top.path.file_name().map_or(0, |name| name.to_string_lossy().len()).saturating_add(1);
            let display = top.display.get(..top.display.len().saturating_sub(names)).unwrap_or_default();
            top = Arc::new(Self { root: top.root, path: parent.into(), display: display.into() });
        }
        top
    }

    /// The number of its root.
    pub(crate) fn root_index(&self) -> usize {
        self.root as usize
    }

    /// Whether this is a root itself.
    pub(crate) fn is_root(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Its own name, and the directory that it is in; none for a root.
    pub(crate) fn parent_and_name(&self) -> Option<(Arc<Self>, &OsStr)> {
        let (parent, name) = (self.path.parent()?, self.path.file_name()?);
        // The display of a look-up key does not matter: it is not compared.
        Some((Arc::new(Self { root: self.root, path: parent.into(), display: Arc::from("") }), name))
    }

    /// Whether a file at this place is read: a root whatever its name.
    pub(crate) fn is_read(&self) -> bool {
        self.path.file_name().is_none_or(is_read)
    }

    /// Whether it is `top` or lies below it.
    pub(crate) fn is_under(&self, top: &Self) -> bool {
        self.root == top.root && self.path.starts_with(&top.path)
    }

    /// The two entries of one directory at which its way and another one part; none where one leads over the other.
    pub(crate) fn fork(&self, other: &Self) -> Option<(Arc<Self>, Arc<Self>)> {
        let shared = self.path.iter().zip(other.path.iter()).take_while(|(one, two)| one == two).count();
        // The display of a look-up key does not matter: it is not compared.
        let entry = |spot: &Self| {
            let path: PathBuf = spot.path.iter().take(shared.saturating_add(1)).collect();
            (spot.depth() > shared)
                .then(|| Arc::new(Self { root: spot.root, path: path.into(), display: Arc::from("") }))
        };
        if self.root == other.root { entry(self).zip(entry(other)) } else { None }
    }

    /// Its path in the file system, given the path of its root.
    pub(crate) fn in_root(&self, root: &Path) -> PathBuf {
        if self.is_root() { root.to_owned() } else { root.join(&self.path) }
    }

    /// The names of its path, which hold no zero, with one between each two: their order is that of names, not of slashes.
    fn names(&self) -> impl Iterator<Item = u8> {
        self.path.as_os_str().as_bytes().iter().map(|byte| if *byte == b'/' { 0 } else { *byte })
    }

    /// How many directories lie between it and its root.
    pub(crate) fn depth(&self) -> usize {
        self.path.components().count()
    }
}

impl PartialEq for Spot {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root && self.path.as_os_str() == other.path.as_os_str()
    }
}

impl Eq for Spot {}

impl Ord for Spot {
    fn cmp(&self, other: &Self) -> Ordering {
        self.root.cmp(&other.root).then_with(|| self.names().cmp(other.names()))
    }
}

impl PartialOrd for Spot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether a directory of this name is entered, and a link of this name followed: all but hidden ones.
pub(crate) fn is_visible(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".")
}

/// Whether a file of this name is read: YAML and JSON, but no hidden, backup or swap files (`.x.yaml.swp`, `x.yaml~`,
/// `x.yaml.bak`, `#x.yaml#` end otherwise).
pub(crate) fn is_read(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    is_visible(name) && [&b".yaml"[..], b".yml", b".json"].iter().any(|end| bytes.ends_with(end))
}
