//! Clusters that routes must not name yet. There can be 50,000 of them while a client starts, and it is looked at with each of its messages:
//! what each look asks of them all is known without a walk, and what went out together costs a byte for each until Envoy says something of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::snapshot::Item;
use crate::wire::{Nonce, StreamId};

#[cfg(test)]
mod tests;

/// One of them.
#[derive(Clone)]
pub(super) struct Cold {
    pub(super) item: Arc<Item>,
    /// When it became wanted or, later, was sent.
    pub(super) since: Duration,
    /// The CDS response that it went in; none if it was not sent yet.
    pub(super) nonce: Option<Nonce>,
    /// Envoy has acknowledged the cluster itself.
    pub(super) taken: bool,
    /// Envoy had it when it came again, in this version or another, as it asked for its endpoint set then.
    pub(super) had: bool,
    /// It has an endpoint set of its own name, which Envoy asks for if it takes the cluster.
    pub(super) asks: bool,
    /// It was sent in two versions before Envoy asked for its endpoint set: which of them Envoy took is not known.
    pub(super) ambiguous: bool,
    /// Envoy has asked for its endpoint set since, on this stream.
    pub(super) subscribed: Option<StreamId>,
    /// Envoy has acknowledged its endpoint set since.
    pub(super) acked: bool,
    /// It was reported as not getting ready.
    pub(super) stalled: bool,
}

impl Cold {
    pub(super) fn new(item: Arc<Item>, since: Duration, nonce: Option<Nonce>, asks: bool) -> Self {
        Self {
            item,
            since,
            nonce,
            taken: false,
            had: false,
            asks,
            ambiguous: false,
            subscribed: None,
            acked: false,
            stalled: false,
        }
    }

    /// Whether it went in this response or one before.
    pub(super) fn is_sent_by(&self, last: Nonce) -> bool {
        self.nonce.is_some_and(|nonce| nonce <= last)
    }

    /// Whether it may still be getting ready. Envoy asks for the endpoints of what it takes within milliseconds; where there are none to
    /// ask for nothing tells what may not warm from a ghost.
    pub(super) fn may_warm(&self) -> bool {
        self.subscribed.is_some() || self.had || self.item.resource.apart && !self.asks
    }

    fn wait(&self) -> Wait {
        if self.stalled { Wait::Stalled } else { Wait::Since(self.since) }
    }
}

/// The least clusters of a response that are kept together. Histories of tests have few names.
const FEWEST: usize = if cfg!(any(test, fuzzing)) { 2 } else { 64 };

/// What a cluster's byte in [`Together`] says.
const THERE: u8 = 1;
const ASKS: u8 = 2;
const STALLED: u8 = 4;

/// Clusters that went out in one response, of which Envoy has said nothing.
struct Together {
    /// In the order of their names, shared with the response.
    items: Arc<[Arc<Item>]>,
    since: Duration,
    nonce: Nonce,
    states: Box<[u8]>,
    /// How many are there.
    count: usize,
}

impl Together {
    fn place(&self, name: &str) -> Option<usize> {
        self.items.binary_search_by(|item| (**item.name()).cmp(name)).ok()
    }

    fn is_there(&self, place: usize) -> bool {
        self.states.get(place).is_some_and(|state| *state != 0)
    }

    fn at(&self, place: usize) -> Option<Cold> {
        let (state, item) = (*self.states.get(place)?, self.items.get(place)?);
        let new = || Cold::new(Arc::clone(item), self.since, Some(self.nonce), state & ASKS != 0);
        (state != 0).then(|| Cold { stalled: state & STALLED != 0, ..new() })
    }

    fn take(&mut self, name: &str) -> Option<Cold> {
        let place = self.place(name)?;
        let cluster = self.at(place)?;
        self.states.get_mut(place).into_iter().for_each(|state| *state = 0);
        self.count -= 1;
        Some(cluster)
    }

    /// Keeps a cluster that is not there, if it is as it went out.
    fn put(&mut self, name: &str, cluster: &Cold) -> bool {
        let Cold { ref item, since, nonce, taken, had, asks, ambiguous, subscribed, acked, stalled } = *cluster;
        let is_as_sent = !(taken || had || ambiguous || acked) && subscribed.is_none();
        let place = self.place(name).filter(|_| is_as_sent && since == self.since && nonce == Some(self.nonce));
        let place = place.filter(|place| self.items.get(*place).is_some_and(|sent| Arc::ptr_eq(sent, item)));
        let Some(state) = place.and_then(|place| self.states.get_mut(place)) else { return false };
        *state = THERE | if asks { ASKS } else { 0 } | if stalled { STALLED } else { 0 };
        self.count += 1;
        true
    }

    fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Cold)> {
        (0..self.states.len()).filter_map(|place| Some((self.items.get(place)?.name(), self.at(place)?)))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct ColdClusters {
    together: Option<Box<Together>>,
    /// The others.
    clusters: BTreeMap<Arc<str>, Cold>,
    /// Since when those wait that are not stalled: how many since each time.
    waiting: BTreeMap<Duration, usize>,
    /// The fleet knows which are stalled.
    pub(super) told: bool,
}

impl ColdClusters {
    pub(super) fn get(&self, name: &str) -> Option<Cold> {
        let together = || self.together.as_ref().and_then(|together| together.at(together.place(name)?));
        self.clusters.get(name).cloned().or_else(together)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        let is_in = |together: &Together| together.place(name).is_some_and(|place| together.is_there(place));
        self.clusters.contains_key(name) || self.together.as_deref().is_some_and(is_in)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.together.as_ref().is_none_or(|together| together.count == 0)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.clusters.len() + self.waiting.len() + self.together.as_ref().map_or(0, |together| together.count)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Cold)> {
        let together = self.together.iter().flat_map(|together| together.iter());
        self.clusters.iter().map(|(name, cluster)| (name, cluster.clone())).chain(together)
    }

    /// All that are left have been given up.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Since when the first waits that is not stalled.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.waiting.keys().next().copied()
    }

    /// These go out in one response: from now on those of them that are inserted as they were sent are kept together.
    pub(super) fn sent_together(&mut self, items: &Arc<[Arc<Item>]>, nonce: Nonce, since: Duration) {
        let before = self.together.as_ref().map_or(0, |together| together.count);
        if items.len() < FEWEST.max(before) || !items.is_sorted_by(|one, next| one.name() < next.name()) {
            return;
        }
        let states = vec![0; items.len()].into();
        let new = Together { items: Arc::clone(items), since, nonce, states, count: 0 };
        let Some(old) = self.together.replace(Box::new(new)) else { return };
        self.clusters.extend(old.iter().map(|(name, cluster)| (Arc::clone(name), cluster)));
    }

    pub(super) fn insert(&mut self, name: &Arc<str>, cluster: Cold) {
        let after = cluster.wait();
        let before = self.take(name).map(|before| before.wait());
        self.put(name, cluster);
        self.moved(before, Some(after));
    }

    pub(super) fn remove(&mut self, name: &str) {
        let before = self.take(name).map(|before| before.wait());
        self.together.take_if(|together| together.count == 0);
        self.moved(before, None);
    }

    /// Changes one; none if it is not among these.
    pub(super) fn edit<T>(&mut self, name: &str, edit: impl FnOnce(&mut Cold) -> T) -> Option<T> {
        let key = self.clusters.get_key_value(name).map(|(key, _)| Arc::clone(key));
        let mut cluster = self.take(name)?;
        let before = cluster.wait();
        let result = edit(&mut cluster);
        let after = cluster.wait();
        self.put(&key.unwrap_or_else(|| Arc::clone(cluster.item.name())), cluster);
        self.moved(Some(before), Some(after));
        Some(result)
    }

    fn take(&mut self, name: &str) -> Option<Cold> {
        let together = self.together.as_mut();
        self.clusters.remove(name).or_else(|| together?.take(name))
    }

    fn put(&mut self, name: &Arc<str>, cluster: Cold) {
        if !self.together.as_mut().is_some_and(|together| together.put(name, &cluster)) {
            self.clusters.insert(Arc::clone(name), cluster);
        }
    }

    /// Changes those that wait since `limit` or longer.
    pub(super) fn edit_waiting(&mut self, limit: Duration, edit: impl Fn(&mut Cold)) {
        if self.oldest().is_none_or(|since| since > limit) {
            return;
        }
        let waits = self.iter().filter(|(_, cluster)| !cluster.stalled && cluster.since <= limit);
        for name in waits.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
            self.edit(&name, &edit);
        }
    }

    /// One waits in another way than before, or came, or went.
    fn moved(&mut self, before: Option<Wait>, after: Option<Wait>) {
        if before == after {
            return;
        }
        self.told &= ![before, after].contains(&Some(Wait::Stalled));
        if let Some(Wait::Since(time)) = after {
            *self.waiting.entry(time).or_default() += 1;
        }
        if let Some(Wait::Since(time)) = before
            && let Some(count) = self.waiting.get_mut(&time)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&time);
            }
        }
    }
}

/// How a cluster waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Since(Duration),
    Stalled,
}
