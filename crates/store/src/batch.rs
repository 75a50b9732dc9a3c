//! What sources send: [`Batch`] and its [`Change`]s.

use std::fmt;
use std::sync::Arc;

use api::{Object, ObjectKey, Problem};

use crate::fact::{Definitions, Rejected};

/// A source of objects. Declaration order is precedence, strongest first; the crate's opening says what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The admin API of this process.
    LocalApi,
    /// Files and directories.
    File,
    /// A Kubernetes API server.
    Kubernetes,
    /// A key-value store.
    KeyValue,
    /// Another xDS server.
    Xds,
}

impl Source {
    /// Every source, strongest first.
    pub const ALL: [Self; 5] = [Self::LocalApi, Self::File, Self::Kubernetes, Self::KeyValue, Self::Xds];

    /// The source as people know it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LocalApi => "the local API",
            Self::File => "files",
            Self::Kubernetes => "Kubernetes",
            Self::KeyValue => "the key-value store",
            Self::Xds => "xDS",
        }
    }

    /// Its bit in a set of sources.
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one source has to say at one time. All of it comes into force in one tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Who says it.
    pub source: Source,
    /// In this order; a later change of a key replaces an earlier one.
    pub changes: Vec<Change>,
    /// True once the source has listed all that it has. It stays listed from then on, whatever later batches say.
    pub listed: bool,
}

/// The target of a socket's path after links, or the reason why it is not to be used, in words that follow the path.
pub type SocketTarget = Result<Arc<str>, Arc<str>>;

/// One thing that is different at a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The object is there, as given.
    Apply(Object, Origin),
    /// The source has no object of this identity (any more).
    Delete(ObjectKey),
    /// The source has one that cannot be used at all, and no usable form from before; none: not any more.
    Reject(ObjectKey, Option<Arc<Rejected>>),
    /// The path of a Unix socket that a `Backend` names, and what is known of it; none: no `Backend` names it (any more).
    SocketPath(Arc<str>, Option<SocketTarget>),
    /// Which kinds of objects the source can have.
    Definitions(Arc<Definitions>),
    /// Replaces what the source said was wrong at this place before.
    Problems {
        /// A file, or whatever else the source keeps apart. It only tells lists of one source from each other.
        origin: Arc<str>,
        /// Empty: nothing is wrong there (any more).
        problems: Vec<Problem>,
    },
}

/// Where an object is written, for people. The file's name is shared by all objects of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The file as the user named it, or what else stands for the place.
    pub file: Arc<str>,
    /// The line in the file, from 1; 0 where there are no lines.
    pub line: u32,
}

impl fmt::Display for Origin {
    /// `file:line`, or `file` where there are no lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}
