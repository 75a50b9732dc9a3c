//! Clusters that routes must not name yet. There can be 50,000 of them while a client starts, and it is looked at with each of its messages:
//! what each look asks of them all is known without a walk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::snapshot::Item;
use crate::wire::{Nonce, StreamId};

#[cfg(test)]
mod tests;

/// One of them.
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

/// See the module.
#[derive(Default)]
pub(super) struct ColdClusters {
    clusters: BTreeMap<Arc<str>, Cold>,
    /// Since when those wait that are not stalled: how many since each time.
    waiting: BTreeMap<Duration, usize>,
    /// The fleet knows which are stalled.
    pub(super) told: bool,
}

impl ColdClusters {
    pub(super) fn get(&self, name: &str) -> Option<&Cold> {
        self.clusters.get(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.clusters.contains_key(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.clusters.len() + self.waiting.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Cold)> {
        self.clusters.iter()
    }

    /// All that are left have been given up.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Since when the first waits that is not stalled.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.waiting.keys().next().copied()
    }

    pub(super) fn insert(&mut self, name: &Arc<str>, cluster: Cold) {
        let after = cluster.wait();
        let before = self.clusters.insert(Arc::clone(name), cluster).map(|before| before.wait());
        self.moved(before, Some(after));
    }

    pub(super) fn remove(&mut self, name: &str) {
        let before = self.clusters.remove(name).map(|before| before.wait());
        self.moved(before, None);
    }

    /// Changes one; none if it is not among these.
    pub(super) fn edit<T>(&mut self, name: &str, edit: impl FnOnce(&mut Cold) -> T) -> Option<T> {
        let cluster = self.clusters.get_mut(name)?;
        let before = cluster.wait();
        let result = edit(cluster);
        let after = cluster.wait();
        self.moved(Some(before), Some(after));
        Some(result)
    }

    /// Changes those that wait since `limit` or longer.
    pub(super) fn edit_waiting(&mut self, limit: Duration, edit: impl Fn(&mut Cold)) {
        if self.oldest().is_none_or(|since| since > limit) {
            return;
        }
        let waits = self.clusters.iter().filter(|(_, cluster)| !cluster.stalled && cluster.since <= limit);
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
