//! `ObjectKey`: which object, in eight bytes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use smol_str::{SmolStr, SmolStrBuilder};

use crate::kind::Kind;

/// Group, kind, namespace and name of an object.
///
/// One `Arc`: cloning is a count, equality starts with the pointer, and the hash is computed once. The hash is seeded
/// per process, because tenants choose names; it never reaches output. Cluster-scoped objects have an empty namespace.
///
/// The order is namespace, name, kind, group, each as text.
#[derive(Clone)]
pub struct ObjectKey(Arc<Inner>);

struct Inner {
    hash: u64,
    /// Namespace and name without a border. As a rule they fit in here.
    text: SmolStr,
    kind: GroupKind,
}

/// Kinds that we read are one byte; any other pair is kept as text. `split` is the length of the namespace, in here because here is
/// room for it: there are some 200,000 keys.
#[derive(PartialEq, Eq)]
enum GroupKind {
    Known { split: u32, kind: Kind },
    Other { split: u32, names: Box<(Box<str>, Box<str>)> },
}

impl GroupKind {
    fn split(&self) -> usize {
        match self {
            Self::Known { split, .. } | Self::Other { split, .. } => *split as usize,
        }
    }
}

impl ObjectKey {
    /// The key of an object; `group` is empty for core kinds, `namespace` for cluster-scoped ones.
    #[must_use]
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let split = split(namespace);
        let kind = match Kind::find(group, kind) {
            Some(kind) => GroupKind::Known { split, kind },
            None => GroupKind::Other { split, names: Box::new((group.into(), kind.into())) },
        };
        Self::build(kind, namespace, name)
    }

    /// The key of an object of a kind that we read.
    #[must_use]
    pub fn of(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::build(GroupKind::Known { split: split(namespace), kind }, namespace, name)
    }

    /// API group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        match &self.0.kind {
            GroupKind::Known { kind, .. } => kind.group(),
            GroupKind::Other { names, .. } => &names.0,
        }
    }

    /// Kind as written in YAML, for example `HTTPRoute`.
    #[must_use]
    pub fn kind_name(&self) -> &str {
        match &self.0.kind {
            GroupKind::Known { kind, .. } => kind.name(),
            GroupKind::Other { names, .. } => &names.1,
        }
    }

    /// The kind, if it is one that we read.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match &self.0.kind {
            GroupKind::Known { kind, .. } => Some(*kind),
            GroupKind::Other { .. } => None,
        }
    }

    /// Namespace, empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.text.get(..self.0.kind.split()).unwrap_or_default()
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.text.get(self.0.kind.split()..).unwrap_or_default()
    }

    fn build(kind: GroupKind, namespace: &str, name: &str) -> Self {
        let mut text = SmolStrBuilder::new();
        text.push_str(namespace);
        text.push_str(name);
        let text = text.finish();
        let mut hasher = seed().build_hasher();
        match &kind {
            GroupKind::Known { kind, .. } => hasher.write_u8(*kind as u8),
            GroupKind::Other { names, .. } => names.hash(&mut hasher),
        }
        hasher.write_usize(kind.split());
        text.hash(&mut hasher);
        Self(Arc::new(Inner { hash: hasher.finish(), text, kind }))
    }
}

/// A text of 4 GiB cannot be a name (the API allows 253 characters); a border outside the text reads as empty.
fn split(namespace: &str) -> u32 {
    u32::try_from(namespace.len()).unwrap_or(u32::MAX)
}

/// One seed for the life of the process.
fn seed() -> &'static foldhash::quality::RandomState {
    static SEED: OnceLock<foldhash::quality::RandomState> = OnceLock::new();
    SEED.get_or_init(foldhash::quality::RandomState::default)
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash && self.0.text == other.0.text && self.0.kind == other.0.kind)
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.namespace()
            .cmp(other.namespace())
            .then_with(|| self.name().cmp(other.name()))
            .then_with(|| self.kind_name().cmp(other.kind_name()))
            .then_with(|| self.group().cmp(other.group()))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.namespace(), self.name()) {
            ("", "") => f.write_str(self.kind_name()),
            ("", name) => write!(f, "{} {name}", self.kind_name()),
            (namespace, name) => write!(f, "{} {namespace}/{name}", self.kind_name()),
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for ObjectKey {
    /// As `Kind namespace/name`, for dumps.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
