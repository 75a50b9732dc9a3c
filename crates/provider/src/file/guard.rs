//! Keeps what guards from being overtaken: while a file waits that may hold a policy, nothing that was written later opens what the policy guards.
//!
//! A file that takes long to read is read by a thread of its own, and files that were written later are not. Routes of these wait for it then, if a quick
//! look at its text finds the name of a kind that guards.

use std::io::Read as _;
use std::path::Path;

use api::{Kind, Object};
use memchr::memmem::Finder;

use crate::file::access::Access;
use crate::file::document::{Document, Known as _, Parsed};

/// The end of the names of most kinds that guard.
const POLICY: &str = "Policy";

/// Names of filters of routes that guard.
const FILTERS: [&str; 2] = ["HTTPRouteFilter", "ExternalAuth"];

/// Names of what guards, as they are in texts: every kind of policies, and filters. An author who writes a kind with escapes is overtaken; that opens nothing of
/// others.
fn names() -> impl Iterator<Item = &'static str> {
    let guards = |kind: &&Kind| kind.is_attached() || kind.name().ends_with(POLICY);
    Kind::ALL.iter().filter(guards).map(|kind| kind.name()).chain(FILTERS)
}

/// Bytes that are looked at in one turn, at 2 GB a second: 30 ms, of the 50 ms that an edit of another file may wait. What is beyond may be anything.
const MAX_LOOKED: u64 = 64 << 20;

/// Bytes that are looked at together.
const CHUNK: usize = 256 << 10;

/// The looks of one turn.
pub(crate) struct Scan {
    left: u64,
    policy: Finder<'static>,
    /// Names that end with [`POLICY`], without that.
    policies: Vec<&'static str>,
    others: Vec<Finder<'static>>,
    /// Bytes of the longest name.
    longest: usize,
}

impl Scan {
    pub(crate) fn new() -> Self {
        let (policies, others) = (
            names().filter_map(|name| name.strip_suffix(POLICY)).collect(),
            names().filter(|name| !name.ends_with(POLICY)),
        );
        let longest = names().map(str::len).max().unwrap_or_default();
        let others = others.map(Finder::new).collect();
        Self { left: MAX_LOOKED, policy: Finder::new(POLICY), policies, others, longest }
    }

    /// Returns true if a text names what guards.
    fn names_guard(&self, text: &[u8]) -> bool {
        let is_policy = |at: usize| {
            let before = text.get(..at).unwrap_or_default();
            self.policies.iter().any(|name| before.ends_with(name.as_bytes()))
        };
        self.policy.find_iter(text).any(is_policy) || self.others.iter().any(|name| name.find(text).is_some())
    }

    /// Returns true if a file may hold what guards.
    pub(crate) fn may_guard(&mut self, path: &Path, access: &Access) -> bool {
        // What cannot be read says so once it is its turn.
        let Ok((mut file, _)) = access.file(path) else { return false };
        let (mut buffer, mut kept) = (vec![0; self.longest + CHUNK], 0);
        loop {
            let Some(room) = buffer.get_mut(kept..) else { return true };
            let read = match file.read(room) {
                Ok(0) => return false,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return true,
            };
            self.left = self.left.saturating_sub(read as u64);
            let text = buffer.get(..kept + read).unwrap_or_default();
            if self.left == 0 || self.names_guard(text) {
                return true;
            }
            let end = text.len();
            kept = end.min(self.longest);
            buffer.copy_within(end - kept..end, 0);
        }
    }
}

/// Returns true if the next version of a file opens something, or takes away what guards. Endpoints and certificates do not: their edits wait for nothing.
pub(crate) fn opens(old: &[Document], parsed: &[Parsed]) -> bool {
    let is_kept =
        |index: usize| parsed.iter().any(|one| matches!(one, Parsed::Same { index: same, .. } if *same == index));
    let new = parsed.iter().filter_map(|one| match one {
        Parsed::New { document, .. } => Some(document),
        Parsed::Same { .. } => None,
    });
    new.flat_map(|document| document.objects.iter()).any(|(object, _)| opens_or_guards(object))
        || old.iter().enumerate().any(|(index, document)| guards(std::slice::from_ref(document)) && !is_kept(index))
}

/// Returns true if one of these documents gives what guards.
pub(crate) fn guards(documents: &[Document]) -> bool {
    let objects = documents.iter().flat_map(|document| document.objects.iter());
    objects.map(|(object, _)| object).any(|object| opens_or_guards(object) && !is_opening(object.kind()))
}

/// Returns a number for a version of a file, given the documents that it was compared with.
pub(crate) fn version(old: &[Document], parsed: &[Parsed]) -> u128 {
    let hash = |one: &Parsed| match one {
        Parsed::Same { index, .. } => old.get(*index).map(Document::hash).unwrap_or_default(),
        Parsed::New { document, .. } => document.hash(),
    };
    parsed.iter().fold(1, |version: u128, one| version.rotate_left(1) ^ hash(one))
}

fn opens_or_guards(object: &Object) -> bool {
    !matches!(
        object.kind(),
        Kind::Service
            | Kind::ServiceImport
            | Kind::EndpointSlice
            | Kind::Secret
            | Kind::ConfigMap
            | Kind::ClusterTrustBundle
            | Kind::Namespace
            | Kind::Pod
    )
}

/// Returns true for kinds that open something and guard nothing by themselves.
fn is_opening(kind: Kind) -> bool {
    matches!(kind, Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet | Kind::ReferenceGrant)
}

#[cfg(test)]
mod tests;
