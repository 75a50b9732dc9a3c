//! From one life of the process to the next: a fleet is served from what its clients had acknowledged (the last good) until something is
//! published for it, and what they acknowledge is told to be saved.
//!
//! The last good only adds: who has nothing under a name is given it, and nobody is denied anything or has anything taken away or
//! replaced, because the sources may have moved on. Nothing is told to the outside either. With the first publication each resource
//! counts as published anew: clients that have it are sent nothing, and what they use is told then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Fleet, Stage};
use crate::facts::ClientId;
use crate::resource::{Need, TypeUrl};
use crate::saved::{Doubt, SavedFleet, Unsaved};

#[cfg(test)]
mod tests;

/// Clients whose doubts may wait to be saved; beyond, all is saved anew. With ids of 100 bytes they are 0.6 MB, with the longest (4 KiB) 16 MB.
const MOST_NODES: usize = 4096;

/// What is to be remembered of clients.
#[derive(Default)]
pub(super) struct Memory {
    keeps: bool,
    /// By connected client: the clusters that it may hold as ghosts.
    ghosts: BTreeMap<(Arc<str>, ClientId), BTreeSet<Arc<str>>>,
    /// Of whom something else is to be saved than is.
    nodes: BTreeSet<Arc<str>>,
    /// Of so many that all is to be saved.
    all: bool,
    /// Something was saved, or is about to be.
    kept: bool,
}

impl Memory {
    /// Something is different about this client.
    pub(super) fn note(&mut self, node: &Arc<str>) {
        if self.keeps && !self.all {
            self.nodes.insert(Arc::clone(node));
            self.all = self.nodes.len() > MOST_NODES;
        }
        if self.all {
            self.nodes.clear();
        }
    }

    /// What clients of this id may hold as ghosts.
    fn ghosts_of(&self, node: &Arc<str>) -> impl Iterator<Item = &Arc<str>> {
        let all = (Arc::clone(node), ClientId::MIN)..=(Arc::clone(node), ClientId::MAX);
        self.ghosts.range(all).flat_map(|(_, clusters)| clusters)
    }

    /// The client's stream has ended: what it may hold is the fleet's business again.
    pub(super) fn leave(&mut self, node: &Arc<str>, client: ClientId) {
        if !self.ghosts.is_empty() && self.ghosts.remove(&(Arc::clone(node), client)).is_some() {
            self.note(node);
        }
    }
}

impl Fleet {
    /// From now on it is noted what is to be saved.
    pub(crate) fn keep(&mut self, secrets: bool) {
        self.memory.keeps = true;
        self.snapshot.keep(secrets);
    }

    /// Begins with what was saved, if nothing is known better.
    pub(crate) fn restore(&mut self, saved: SavedFleet) {
        if self.stage != Stage::Unknown || !self.snapshot.is_empty() {
            return;
        }
        self.memory.kept = true;
        for (node, Doubt { needs, heirs }) in saved.doubts {
            self.doubts.add(&node, needs, heirs.max(1));
        }
        self.snapshot.restore(saved.resources.into_values());
        if !self.snapshot.is_empty() {
            self.stage = Stage::LastGood;
        }
    }

    /// Nothing is known but what was saved.
    pub(crate) fn is_last_good(&self) -> bool {
        self.stage == Stage::LastGood
    }

    /// Clusters that a connected client may hold as ghosts (R11a), all of them.
    pub(crate) fn haunt(&mut self, client: ClientId, node: &Arc<str>, clusters: BTreeSet<Arc<str>>) {
        let ghosts = &mut self.memory.ghosts;
        if !self.memory.keeps || ghosts.is_empty() && clusters.is_empty() {
            return;
        }
        let who = (Arc::clone(node), client);
        if ghosts.get(&who).map_or(clusters.is_empty(), |known| *known == clusters) {
            return;
        }
        if clusters.is_empty() {
            ghosts.remove(&who);
        } else {
            ghosts.insert(who, clusters);
        }
        self.memory.note(node);
    }

    /// Whether all of these are noted, if anything is.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn knows_ghosts(&self, client: ClientId, node: &Arc<str>, clusters: &BTreeSet<Arc<str>>) -> bool {
        let known = self.memory.ghosts.get(&(Arc::clone(node), client));
        !self.memory.keeps || clusters.is_empty() || known.is_some_and(|known| known.is_superset(clusters))
    }

    /// There is something to save.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.snapshot.has_unsaved() || self.memory.all || !self.memory.nodes.is_empty()
    }

    /// Something of it is saved.
    pub(crate) fn is_kept(&self) -> bool {
        self.memory.kept
    }

    /// What is saved is lost: everything is to be saved again.
    pub(crate) fn save_again(&mut self) {
        self.snapshot.save_again();
    }

    /// What is to be saved; it counts as saved.
    pub(crate) fn take_unsaved(&mut self, fleet: &Arc<str>) -> Option<Unsaved> {
        if !self.has_unsaved() {
            return None;
        }
        if std::mem::take(&mut self.memory.all) {
            self.snapshot.save_again();
        }
        self.memory.kept = true;
        let (whole, edits) = self.snapshot.take_unsaved();
        let mut nodes = std::mem::take(&mut self.memory.nodes);
        if whole {
            nodes = self.doubts.nodes().chain(self.memory.ghosts.keys().map(|(node, _)| node)).cloned().collect();
        }
        let doubts: Vec<_> = nodes.into_iter().map(|node| (Arc::clone(&node), self.doubts_about(&node))).collect();
        Some(Unsaved { fleet: Arc::clone(fleet), whole, edits, doubts, gone: false })
    }

    /// What may be wrong with a client, or with several of this id.
    fn doubts_about(&self, node: &Arc<str>) -> Doubt {
        let ghosts = self.memory.ghosts_of(node).map(|name| Need::new(TypeUrl::Cluster, Arc::clone(name)));
        let heirs = self.doubts.heirs(node).max(self.namesakes.most(node));
        Doubt { needs: self.doubts.of(node).cloned().chain(ghosts).collect(), heirs }
    }

    /// There are more clients of this id at once than there were.
    pub(super) fn note_namesake(&mut self, node: &Arc<str>) {
        if self.doubts.of(node).next().is_some() || self.memory.ghosts_of(node).next().is_some() {
            self.memory.note(node);
        }
    }
}
