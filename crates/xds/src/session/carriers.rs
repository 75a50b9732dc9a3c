//! Where each kind of resource has streams of its own: which of them asked for which names.
//!
//! Envoy asks for the endpoints of each version of a cluster on a stream of its own, and ends the stream of the version before later. So
//! several streams can want one name. Each is told; the answers of the one that asked last are those that count.
//!
//! What the client has of a name belongs to the client, whatever stream it came on: that is in the [`super::channel`]. To a stream belongs
//! what it asked for, and what of that it is owed: an answer, though the client may have it from another stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::names::{EVERYTHING, collection_of};
use crate::wire::{Nonce, StreamId};

/// See the module.
#[derive(Default)]
pub(super) struct Carriers {
    /// Who wants a name, in the order in which they asked.
    askers: HashMap<Arc<str>, Vec<StreamId>>,
    streams: BTreeMap<StreamId, Asked>,
    /// How many names that is over all streams, and how long they are together.
    pub(super) names: usize,
    pub(super) bytes: usize,
}

/// One stream.
#[derive(Default)]
struct Asked {
    /// What it wants.
    names: BTreeSet<Arc<str>>,
    /// What it asked for and was not told since.
    owed: BTreeSet<Arc<str>>,
    /// The last response with what another stream is told too, while it is not answered.
    copy: Option<Nonce>,
    /// It has refused something: what it has of that is not known once its answers count.
    refused: bool,
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
        let known = self.streams.contains_key(&stream);
        self.streams.entry(stream).or_default();
        known
    }

    /// Whether the stream wants this name.
    pub(super) fn wants(&self, stream: StreamId, name: &str) -> bool {
        self.streams.get(&stream).is_some_and(|asked| asked.names.contains(name))
    }

    /// The same, or a collection that the name is in.
    pub(super) fn tells(&self, stream: StreamId, name: &str) -> bool {
        self.wants(stream, name) || collection_of(name).is_some_and(|collection| self.wants(stream, &collection))
    }

    /// Whether the stream wants everything, or a collection that the name is in.
    pub(super) fn sweeps_in(&self, stream: StreamId, name: &str) -> bool {
        self.wants(stream, EVERYTHING) || collection_of(name).is_some_and(|collection| self.wants(stream, &collection))
    }

    /// The stream is to be told what there is under this name.
    pub(super) fn owe(&mut self, stream: StreamId, name: &Arc<str>) {
        self.streams.entry(stream).or_default().owed.insert(Arc::clone(name));
    }

    /// The stream is told what there is under this name. Whether it was owed that.
    pub(super) fn pay(&mut self, stream: StreamId, name: &str) -> bool {
        self.streams.get_mut(&stream).is_some_and(|asked| asked.owed.remove(name))
    }

    /// The stream is told what another one is told too.
    pub(super) fn copied(&mut self, stream: StreamId, nonce: Nonce) {
        if let Some(asked) = self.streams.get_mut(&stream) {
            asked.copy = Some(nonce);
        }
    }

    /// The stream has answered this, and all before it.
    pub(super) fn answered(&mut self, stream: StreamId, nonce: Nonce, refused: bool) {
        let Some(asked) = self.streams.get_mut(&stream) else { return };
        asked.copy.take_if(|copy| *copy <= nonce);
        asked.refused |= refused;
    }

    /// Whether the stream whose answers count for this name has, for all it says, what the client was told last.
    pub(super) fn is_up_to_date(&self, name: &str, everything: bool) -> bool {
        let counts = self.of(name, everything).pop().and_then(|stream| self.streams.get(&stream));
        counts.is_some_and(|asked| !asked.refused && asked.copy.is_none() && !asked.owed.contains(name))
    }

    /// How many names are owed.
    #[cfg(any(test, fuzzing))]
    pub(super) fn owed(&self) -> usize {
        self.streams.values().map(|asked| asked.owed.len()).sum()
    }

    /// The stream asks for this name.
    pub(super) fn ask(&mut self, stream: StreamId, name: &Arc<str>) {
        let askers = self.askers.entry(Arc::clone(name)).or_default();
        askers.retain(|asker| *asker != stream);
        askers.push(stream);
        if self.streams.entry(stream).or_default().names.insert(Arc::clone(name)) {
            self.names += 1;
            self.bytes += name.len();
        }
    }

    /// The stream does not want this name any more, if it ever did.
    pub(super) fn drop(&mut self, stream: StreamId, name: &str) -> Left {
        if let Some(asked) = self.streams.get_mut(&stream) {
            asked.owed.remove(name);
            if asked.names.remove(name) {
                self.names -= 1;
                self.bytes -= name.len();
            }
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
        self.streams.get(&stream).into_iter().flat_map(|asked| &asked.names).cloned().collect()
    }

    /// The stream has ended, and wants nothing any more.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    /// The streams that are to be told about this name, each once: those that asked for everything, then those that asked for the
    /// collection that it is in, then those that asked for the name itself, each group in the order of asking. The answers of the last
    /// stream count. Unless `everything` is set, who asked for everything (or named nothing) is told only what nobody else asked for.
    pub(super) fn of(&self, name: &str, everything: bool) -> Vec<StreamId> {
        let named = self.askers.get(name);
        let collection = collection_of(name).and_then(|collection| self.askers.get(&*collection));
        let all = self.askers.get(EVERYTHING).filter(|_| everything || named.is_none() && collection.is_none());
        let all = all.into_iter().chain(collection).chain(named).flatten().copied();
        let mut streams: Vec<StreamId> = Vec::new();
        for stream in all {
            streams.retain(|other| *other != stream);
            streams.push(stream);
        }
        streams
    }
}
