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
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey(Arc<Inner>);

/// 32 bytes, 48 with the counts of the `Arc`: there are some 200,000 keys.
#[derive(PartialEq, Eq)]
struct Inner {
    /// First, because it is what differs.
    hash: u32,
    /// The length of the namespace.
    split: u16,
    /// None: any other kind, whose names are in `text`.
    kind: Option<Kind>,
    /// Namespace and name without a border, which fit in here as a rule. Behind them, where the kind is none that we read, the names
    /// of kind and group, and after [`BORDER`] the lengths of these two.
    text: SmolStr,
}

/// What stands before the lengths at the end of a text; they are digits, so the last one is meant.
const BORDER: char = '\0';

impl ObjectKey {
    /// The key of an object; `group` is empty for core kinds, `namespace` for cluster-scoped ones.
    #[must_use]
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        match Kind::find(group, kind) {
            Some(kind) => Self::of(kind, namespace, name),
            None => {
                let lengths = format!("{BORDER}{} {}", kind.len(), group.len());
                Self::build(None, namespace, &[namespace, name, kind, group, &lengths])
            }
        }
    }

    /// The key of an object of a kind that we read.
    #[must_use]
    pub fn of(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::build(Some(kind), namespace, &[namespace, name])
    }

    /// API group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        let [.., group] = self.parts();
        group
    }

    /// Kind as written in YAML, for example `HTTPRoute`.
    #[must_use]
    pub fn kind_name(&self) -> &str {
        let [_, kind, _] = self.parts();
        kind
    }

    /// The kind, if it is one that we read.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.0.kind
    }

    /// Namespace, empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.text.get(..usize::from(self.0.split)).unwrap_or_default()
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        let [name, ..] = self.parts();
        name
    }

    /// Name, kind and group.
    fn parts(&self) -> [&str; 3] {
        let rest = self.0.text.get(usize::from(self.0.split)..).unwrap_or_default();
        if let Some(kind) = self.0.kind {
            return [rest, kind.name(), kind.group()];
        }
        let (names, lengths) = rest.rsplit_once(BORDER).unwrap_or_default();
        let (kind, group) = lengths.split_once(' ').unwrap_or_default();
        let length = |digits: &str| digits.parse::<usize>().unwrap_or_default();
        let (names, group) = names.split_at_checked(names.len().saturating_sub(length(group))).unwrap_or_default();
        let (name, kind) = names.split_at_checked(names.len().saturating_sub(length(kind))).unwrap_or_default();
        [name, kind, group]
    }

    fn build(kind: Option<Kind>, namespace: &str, parts: &[&str]) -> Self {
        let mut text = SmolStrBuilder::new();
        parts.iter().for_each(|part| text.push_str(part));
        let text = text.finish();
        // The API allows a name of 253 bytes; of a longer namespace than this the rest counts as name.
        let split = u16::try_from(namespace.floor_char_boundary(usize::from(u16::MAX))).unwrap_or_default();
        let mut hasher = seed().build_hasher();
        hasher.write_u8(kind.map_or(u8::MAX, |kind| kind as u8));
        hasher.write_u16(split);
        text.hash(&mut hasher);
        Self(Arc::new(Inner { hash: hasher.finish() as u32, split, kind, text }))
    }
}

/// One seed for the life of the process.
fn seed() -> &'static foldhash::quality::RandomState {
    static SEED: OnceLock<foldhash::quality::RandomState> = OnceLock::new();
    SEED.get_or_init(foldhash::quality::RandomState::default)
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0.hash);
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
