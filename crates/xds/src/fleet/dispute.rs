//! What some clients refuse and others may not. Who refuses a version falls back by itself; the fleet falls back with them only if
//! nobody is left who takes it, so that a stranger's refusal keeps nothing from those who do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Fleet;
use crate::event::{MOST_OBJECTIONS, Objection};
use crate::facts::ClientId;
use crate::redact;
use crate::resource::{Need, Version};
use crate::snapshot::{Entry, Item, Key};

/// So long the others have to take what one client refuses. A client answers within milliseconds of being sent something, which
/// can be twice [`crate::session`]'s patience with clusters after the first; one that never asked for it does not answer at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// One who refuses.
struct Refuser {
    /// The number of the item that was refused.
    seq: u64,
    said: Objection,
}

/// The refusals of the current version of one name.
pub(super) struct Dispute {
    version: Version,
    /// The words of the last refusal.
    text: Arc<str>,
    /// Whose they are.
    node: Arc<str>,
    /// Who refuses.
    clients: BTreeMap<ClientId, Refuser>,
    /// When it is the fleet's refusal if nobody has taken the version by then; none if that is decided.
    until: Option<Duration>,
    /// Of whom the outside knows that they have another opinion than others.
    told: Vec<Objection>,
    /// It is the fleet's refusal.
    shared: bool,
}

impl Fleet {
    /// A client refuses the item, in words that may be shown. False if that is nothing new.
    pub(super) fn object(
        &mut self,
        (client, confirmed): (ClientId, u64),
        item: &Arc<Item>,
        text: &Arc<str>,
        now: Duration,
    ) -> bool {
        if !self.is_current(item) || self.is_refused(item) {
            return false;
        }
        let (key, version) = (item.key(), item.version());
        let node = self.facts.node(client);
        let accepted = self.is_accepted(&key, version);
        let opens = !self.disputes.contains_key(&key);
        let dispute = self.disputes.entry(key.clone()).or_insert_with(|| Dispute {
            version,
            text: Arc::clone(text),
            node: Arc::clone(&node),
            clients: BTreeMap::new(),
            until: None,
            told: Vec::new(),
            shared: false,
        });
        // one that was decided is open again since another client came
        if opens || dispute.until.is_none() && !accepted {
            dispute.until = Some(now + PATIENCE);
            self.decisions.set(now + PATIENCE, &key);
        }
        (dispute.text, dispute.node) = (Arc::clone(text), node);
        let said = Objection { node: self.facts.shown(client), text: Arc::clone(text) };
        let before = dispute.clients.insert(client, Refuser { seq: item.seq, said }).map(|before| before.seq);
        if dispute.clients.len() >= self.facts.connected() {
            self.share(&key);
            return true;
        }
        dispute.shared = false;
        self.tell(&key);
        if before == Some(item.seq) {
            return true;
        }
        // who had a part already is not waited for with that
        let before = before.max(Some(confirmed).filter(|_| !item.parts.is_empty()));
        let since = self.snapshot.made_since(item, confirmed);
        for part in item.parts_since(since) {
            let waiting = self.facts.object(client, part, before);
            if waiting == 0 && self.is_accepted(&part.key(), part.version()) {
                self.facts.settle(part, &mut self.snapshot);
            }
        }
        true
    }

    /// The words in which the current version of a name was refused last.
    pub(crate) fn objection(&self, key: &Key) -> Option<Arc<str>> {
        self.disputes.get(key).map(|dispute| Arc::clone(&dispute.text))
    }

    /// A client uses the current version after all. Gives the number of the item that it refused.
    pub(super) fn agree(&mut self, client: ClientId, item: &Item) -> Option<u64> {
        if self.disputes.is_empty() || !self.is_current(item) {
            return None;
        }
        let key = item.key();
        let dispute = self.disputes.get_mut(&key)?;
        let refused = dispute.clients.remove(&client);
        if dispute.clients.is_empty() {
            self.close(&key);
            self.retries.remove(&key);
        } else {
            self.tell(&key);
        }
        refused.map(|refused| refused.seq)
    }

    /// Tells the outside who refuses what others may take.
    fn tell(&mut self, key: &Key) {
        let Some(dispute) = self.disputes.get_mut(key).filter(|dispute| !dispute.shared) else { return };
        let by = dispute.clients.values().take(MOST_OBJECTIONS).map(|refuser| refuser.said.clone());
        let by: Vec<Objection> = by.collect();
        if dispute.told != by {
            dispute.told.clone_from(&by);
            self.facts.dispute(key, by);
        }
    }

    /// A client is gone, and its refusals with it: they stay only if there is nobody else, for when it comes again.
    pub(super) fn withdraw_objections(&mut self, client: ClientId) {
        let alone = self.facts.connected() == 0;
        let (mut over, mut fewer) = (Vec::new(), Vec::new());
        for (key, dispute) in &mut self.disputes {
            let left = dispute.clients.remove(&client).is_some();
            if left && dispute.clients.is_empty() && !(alone && dispute.shared) {
                over.push((key.clone(), dispute.version));
            } else if left && !dispute.clients.is_empty() {
                fewer.push(key.clone());
            }
        }
        fewer.iter().for_each(|key| self.tell(key));
        for (key, version) in over {
            self.close(&key);
            self.retries.remove(&key);
            self.snapshot.forgive(&key);
            let accepted = self.snapshot.at(&key).map(|entry| Arc::clone(entry.current()));
            let accepted = accepted.filter(|_| self.is_accepted(&key, version) && !self.facts.is_pending(&key));
            if let Some(item) = accepted.filter(|_| !alone) {
                self.facts.settle(&item, &mut self.snapshot);
            }
        }
    }

    /// A client has come. What others refuse is not kept from it; what it refused itself, when it was the only one, is.
    pub(super) fn ask_again(&mut self, client: ClientId, node: &str) {
        let mut again = Vec::new();
        for (key, dispute) in self.disputes.iter_mut().filter(|(_, dispute)| dispute.shared) {
            if *dispute.node == *node {
                let said = Objection { node: redact::node(node), text: Arc::clone(&dispute.text) };
                dispute.clients.insert(client, Refuser { seq: 0, said });
            } else {
                dispute.shared = false;
                again.push((key.clone(), dispute.clients.is_empty()));
            }
        }
        for (key, over) in again {
            if over {
                self.close(&key);
            }
            self.snapshot.forgive(&key);
        }
    }

    /// Refusals of versions that are not current any more mean nothing. Only what changed is looked at.
    pub(super) fn drop_outdated_disputes(&mut self) {
        let since = std::mem::replace(&mut self.disputed_at, self.snapshot.seq());
        if self.disputes.is_empty() || since == self.disputed_at {
            return;
        }
        let current = |key: &Key| self.snapshot.at(key).map(|entry| entry.current().version());
        let outdated = |key: &&Key| self.disputes.get(key).is_some_and(|dispute| current(key) != Some(dispute.version));
        let old: BTreeSet<Key> = match self.snapshot.changes_since(since) {
            Some(changes) => changes.filter(outdated).cloned().collect(),
            None => self.disputes.keys().filter(outdated).cloned().collect(),
        };
        old.iter().for_each(|key| self.close(key));
    }

    /// Decides what is due. Gives the time of the next decision.
    pub(super) fn decide(&mut self, now: Duration) -> Option<Duration> {
        self.drop_outdated_disputes();
        while let Some(key) = self.decisions.due(now, |key| self.disputes.get(key)?.until) {
            let Some(dispute) = self.disputes.get_mut(&key) else { continue };
            dispute.until = None;
            let version = dispute.version;
            if !self.is_accepted(&key, version) {
                self.share(&key);
            }
        }
        self.decisions.next(|key| self.disputes.get(key)?.until)
    }

    /// Whether the current version of this name is disputed.
    pub(super) fn is_disputed(&self, key: &Key) -> bool {
        !self.disputes.is_empty() && self.disputes.contains_key(key)
    }

    /// The fleet refuses the current version of this name.
    fn share(&mut self, key: &Key) {
        let Some(item) = self.snapshot.at(key).map(|entry| Arc::clone(entry.current())) else { return };
        let Some(dispute) = self.disputes.get_mut(key) else { return };
        (dispute.shared, dispute.until) = (true, None);
        if !std::mem::take(&mut dispute.told).is_empty() {
            self.facts.dispute(key, Vec::new());
        }
        self.facts.refuse(&item, Arc::clone(&dispute.text));
        self.snapshot.forget_report(&item.parts.first().map_or_else(|| key.clone(), |route| route.key()));
        self.snapshot.refuse(&item);
    }

    fn close(&mut self, key: &Key) {
        if self.disputes.remove(key).is_some_and(|dispute| !dispute.told.is_empty()) {
            self.facts.dispute(key, Vec::new());
        }
    }

    fn is_accepted(&self, key: &Key, version: Version) -> bool {
        let accepted = self.snapshot.at(key).and_then(Entry::accepted);
        accepted.is_some_and(|accepted| accepted.version() == version)
    }
}

/// The number of the item that a client refused last under a name, as far as that is disputed; 0 if none.
pub(super) fn objection(disputes: &BTreeMap<Key, Dispute>, client: ClientId, key: Need) -> u64 {
    disputes.get(&Key::Put(key)).and_then(|dispute| dispute.clients.get(&client)).map_or(0, |refuser| refuser.seq)
}
