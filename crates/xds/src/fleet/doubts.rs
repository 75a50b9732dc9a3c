//! What clients that went may have without saying so when they come again: it does not note the versions of a response that it
//! refuses, also where it takes them (R11), and does not list ghosts (R11a).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resource::{Need, TypeUrl};

#[cfg(test)]
mod tests;

/// Clients that left something in doubt and did not come again: names of processes that are no more. Beside their names in doubt they are
/// 0.3 MB at 300 bytes each, or 4 MB with the longest ids (4 KiB).
const MOST_CLIENTS: usize = 1024;

/// Names in doubt, of all clients together. Most are few; but who goes during its first clusters leaves all of them, up to 50,000. An entry
/// costs about 50 bytes, so that this is 13 MB of a fleet.
const MOST_NAMES: usize = 262_144;

/// What one client left.
#[derive(Default)]
struct Left {
    /// Who left something later has a higher number.
    turn: u64,
    needs: BTreeSet<Need>,
    /// How many clients had this id: which of them comes first is not known, so that each takes all.
    heirs: usize,
    /// How many have taken what there is of a kind.
    taken: BTreeMap<TypeUrl, usize>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Doubts {
    clients: BTreeMap<Arc<str>, Left>,
    turns: BTreeMap<u64, Arc<str>>,
    latest: u64,
    names: usize,
}

impl Doubts {
    /// A client leaves these too, one of so many of its id. Gives the clients whose doubts are forgotten for them.
    pub(super) fn add(&mut self, node: &Arc<str>, mut needs: BTreeSet<Need>, heirs: usize) -> Vec<Arc<str>> {
        let before = self.remove(node);
        let heirs = heirs.max(before.heirs);
        needs.extend(before.needs);
        while needs.len() > MOST_NAMES {
            needs.pop_last();
        }
        let mut forgotten = Vec::new();
        while self.clients.len() >= MOST_CLIENTS || self.names + needs.len() > MOST_NAMES {
            let Some((_, oldest)) = self.turns.first_key_value() else { break };
            let oldest = Arc::clone(oldest);
            self.remove(&oldest);
            forgotten.push(oldest);
        }
        self.latest += 1;
        self.insert(node, Left { turn: self.latest, needs, heirs, taken: BTreeMap::new() });
        forgotten
    }

    /// Takes what a client left of one kind.
    pub(super) fn take(&mut self, node: &str, type_url: &TypeUrl) -> BTreeSet<Arc<str>> {
        let Some((node, _)) = self.clients.get_key_value(node) else { return BTreeSet::new() };
        let node = Arc::clone(node);
        let mut left = self.remove(&node);
        let (given, mut needs): (BTreeSet<Need>, BTreeSet<Need>) =
            left.needs.into_iter().partition(|need| need.type_url == *type_url);
        if !given.is_empty() {
            let taken = left.taken.entry(type_url.clone()).or_default();
            *taken += 1;
            if *taken < left.heirs {
                needs.extend(given.iter().cloned());
            }
        }
        self.insert(&node, Left { needs, ..left });
        given.into_iter().map(|need| need.name).collect()
    }

    /// What a client left.
    pub(super) fn of(&self, node: &str) -> impl Iterator<Item = &Need> {
        self.clients.get(node).into_iter().flat_map(|left| &left.needs)
    }

    /// Of how many clients it is.
    pub(super) fn heirs(&self, node: &str) -> usize {
        self.clients.get(node).map_or(0, |left| left.heirs)
    }

    /// Who left something.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.clients.keys()
    }

    fn insert(&mut self, node: &Arc<str>, left: Left) {
        if !left.needs.is_empty() {
            self.names += left.needs.len();
            self.turns.insert(left.turn, Arc::clone(node));
            self.clients.insert(Arc::clone(node), left);
        }
    }

    fn remove(&mut self, node: &str) -> Left {
        let left = self.clients.remove(node).unwrap_or_default();
        self.turns.remove(&left.turn);
        self.names -= left.needs.len();
        left
    }
}
