//! Where each kind of resource has streams of its own: which of them asked for which names.
//!
//! Envoy asks for the endpoints of each version of a cluster on a stream of its own, and ends the stream of the version before later. So
//! several streams can want one name. Each is told; the answers of the one that asked last are those that count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::names::collection_of;
use crate::wire::StreamId;

/// What a stream asks for that asks for everything, or for nothing in particular.
pub(super) const EVERYTHING: &str = "*";

/// See the module.
#[derive(Default)]
pub(super) struct Carriers {
    /// Who wants a name, in the order in which they asked.
    askers: HashMap<Arc<str>, Vec<StreamId>>,
    /// What each stream wants.
    asked: BTreeMap<StreamId, BTreeSet<Arc<str>>>,
    /// How many names that is over all streams, and how long they are together.
    pub(super) names: usize,
    pub(super) bytes: usize,
}

/// Who still wants a name that a stream does not want any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nobody,
    /// The answers of another stream count now.
    Heir,
    /// Nothing changes.
    Others,
}

impl Carriers {
    /// Whether this stream has spoken before. From now on it has.
    pub(super) fn meet(&mut self, stream: StreamId) -> bool {
        let known = self.asked.contains_key(&stream);
        self.asked.entry(stream).or_default();
        known
    }

    /// The stream asks for this name.
    pub(super) fn ask(&mut self, stream: StreamId, name: &Arc<str>) {
        let askers = self.askers.entry(Arc::clone(name)).or_default();
        askers.retain(|asker| *asker != stream);
        askers.push(stream);
        if self.asked.entry(stream).or_default().insert(Arc::clone(name)) {
            self.names += 1;
            self.bytes += name.len();
        }
    }

    /// The stream does not want this name any more, if it ever did.
    pub(super) fn drop(&mut self, stream: StreamId, name: &str) -> Left {
        if self.asked.get_mut(&stream).is_some_and(|names| names.remove(name)) {
            self.names -= 1;
            self.bytes -= name.len();
        }
        let Some(askers) = self.askers.get_mut(name) else { return Left::Nobody };
        let counts = askers.last() == Some(&stream);
        askers.retain(|asker| *asker != stream);
        if askers.is_empty() {
            self.askers.remove(name);
            return Left::Nobody;
        }
        if counts { Left::Heir } else { Left::Others }
    }

    /// The stream has ended: what it wanted.
    pub(super) fn names_of(&mut self, stream: StreamId) -> Vec<Arc<str>> {
        self.asked.get(&stream).into_iter().flatten().cloned().collect()
    }

    /// The stream has ended, and wants nothing any more.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.asked.remove(&stream);
    }

    /// The streams that are to be told about this name; the last one's answers count.
    pub(super) fn of(&self, name: &str) -> &[StreamId] {
        let collection = || self.askers.get(&*collection_of(name)?);
        let askers = self.askers.get(name).or_else(collection).or_else(|| self.askers.get(EVERYTHING));
        askers.map_or(&[], Vec::as_slice)
    }
}
