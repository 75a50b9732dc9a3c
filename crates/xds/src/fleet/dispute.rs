//! What some clients refuse and others may not. Who refuses a version falls back by itself; the fleet falls back with them only if
//! nobody is left who takes it, so that a stranger's refusal keeps nothing from those who do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Fleet;
use super::alarms::Alarms;
use crate::event::{MOST_OBJECTIONS, Objection};
use crate::facts::ClientId;
use crate::resource::{Need, Version};
use crate::snapshot::{Entry, Item, Key};

/// So long the others have to take what one client refuses. They answer within milliseconds, but may be sent it 10 s later: a listener
/// and then its route configuration each wait up to 5 s for clusters (`PATIENCE` in `session::blockers`). Who never asked for it does not
/// answer at all.
const PATIENCE: Duration = Duration::from_secs(12);

/// One who refuses. With its places here and in [`Disputes::by_client`] it costs some 100 bytes, so that 10,000 clients that all refuse 100
/// names are 100 MB; words, of up to 4 KB, are kept of the first [`MOST_OBJECTIONS`] for each name, those that are the same once.
struct Refuser {
    /// The number of the item that was refused.
    seq: u64,
    /// In which words. Who has become one of the first without words of its own is told of in the last ones.
    text: Option<Arc<str>>,
}

/// The refusals of the current version of one name.
pub(super) struct Dispute {
    version: Version,
    /// The words of the last refusal.
    text: Arc<str>,
    /// Whose they are, if no other client has this id.
    node: Option<Arc<str>>,
    /// The fleet's refusal was told in these words, with the item of this number.
    decided: Option<(u64, Arc<str>)>,
    /// Who refuses.
    clients: BTreeMap<ClientId, Refuser>,
    /// When it is the fleet's refusal if nobody has taken the version by then; none if that is decided.
    until: Option<Duration>,
    /// Of whom the outside knows that they have another opinion than others.
    published: Vec<Objection>,
}

/// All that are open or decided. A client that comes or goes costs what concerns it.
#[derive(Default)]
pub(super) struct Disputes {
    by_name: BTreeMap<Key, Dispute>,
    /// Those that are the fleet's refusals.
    shared: BTreeSet<Key>,
    /// Those that were until another client came, which has some time to take the version.
    offered: BTreeSet<Key>,
    by_client: BTreeMap<ClientId, BTreeSet<Key>>,
    /// When they are decided.
    decisions: Alarms,
    /// The change up to which it is known that they are about what is current.
    checked: u64,
}

impl Disputes {
    /// The number of the item that a client refused last under a name; 0 if none.
    pub(super) fn refused_by(&self, client: ClientId, name: &Need) -> u64 {
        if self.by_name.is_empty() {
            return 0;
        }
        let dispute = self.by_name.get(&Key::Put(name.clone()));
        dispute.and_then(|dispute| dispute.clients.get(&client)).map_or(0, |refuser| refuser.seq)
    }

    /// Whether a client refuses the current version of this name.
    pub(super) fn is_refuser(&self, client: ClientId, key: &Key) -> bool {
        self.by_client.get(&client).is_some_and(|keys| keys.contains(key))
    }

    /// A client refuses the current version of this name, item `seq`. Gives what it refused of it before.
    fn insert(&mut self, key: &Key, client: ClientId, seq: u64, text: &Arc<str>) -> Option<Refuser> {
        self.by_client.entry(client).or_default().insert(key.clone());
        let clients = &mut self.by_name.get_mut(key)?.clients;
        let first = || clients.iter().take(MOST_OBJECTIONS);
        let speaks = first().nth(MOST_OBJECTIONS - 1).is_none_or(|(last, _)| client <= *last);
        let text = speaks.then(|| {
            let mut said = first().filter_map(|(_, refuser)| refuser.text.as_ref());
            Arc::clone(said.find(|said| *said == text).unwrap_or(text))
        });
        let before = clients.insert(client, Refuser { seq, text });
        if let Some((_, beyond)) = clients.iter_mut().nth(MOST_OBJECTIONS) {
            beyond.text = None;
        }
        before
    }

    /// A client does not refuse it any more.
    fn remove(&mut self, key: &Key, client: ClientId) -> Option<Refuser> {
        self.forget(key, client);
        self.by_name.get_mut(key)?.clients.remove(&client)
    }

    fn forget(&mut self, key: &Key, client: ClientId) {
        if let Some(keys) = self.by_client.get_mut(&client) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_client.remove(&client);
            }
        }
    }

    /// These refusals are of this version of another name.
    pub(super) fn open(&mut self, key: &Key, version: Version, dispute: Dispute) {
        for client in dispute.clients.keys() {
            self.by_client.entry(*client).or_default().insert(key.clone());
        }
        self.by_name.insert(key.clone(), Dispute { version, ..dispute });
    }

    fn close(&mut self, key: &Key) -> Option<Dispute> {
        self.shared.remove(key);
        let dispute = self.by_name.remove(key)?;
        dispute.clients.keys().for_each(|client| self.forget(key, *client));
        Some(dispute)
    }
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
        let node = Some(self.facts.node(client)).filter(|node| self.namesakes.most(node) < 2);
        let accepted = self.is_accepted(&key, version);
        let disputes = &mut self.disputes;
        let opens = !disputes.by_name.contains_key(&key);
        let dispute = disputes.by_name.entry(key.clone()).or_insert_with(|| Dispute {
            version,
            text: Arc::clone(text),
            node: node.clone(),
            decided: None,
            clients: BTreeMap::new(),
            until: None,
            published: Vec::new(),
        });
        // one that was decided is open again since another client came
        if opens || dispute.until.is_none() && !accepted {
            dispute.until = Some(now + PATIENCE);
            disputes.decisions.set(now + PATIENCE, &key);
        }
        (dispute.text, dispute.node) = (Arc::clone(text), node);
        let refusers = dispute.clients.len() + usize::from(!dispute.clients.contains_key(&client));
        let before = disputes.insert(&key, client, item.seq, text).map(|before| before.seq);
        if refusers >= self.facts.connected() {
            self.share(&key);
            return true;
        }
        disputes.shared.remove(&key);
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
        self.disputes.by_name.get(key).map(|dispute| Arc::clone(&dispute.text))
    }

    /// A client uses the current version after all. Gives the number of the item that it refused.
    pub(super) fn agree(&mut self, client: ClientId, item: &Item) -> Option<u64> {
        if self.disputes.by_name.is_empty() || !self.is_current(item) {
            return None;
        }
        let key = item.key();
        let refused = self.disputes.remove(&key, client);
        let dispute = self.disputes.by_name.get_mut(&key)?;
        dispute.decided = None;
        if dispute.clients.is_empty() {
            self.close(&key);
            self.retries.remove(&key);
        } else {
            self.tell(&key);
        }
        refused.map(|refused| refused.seq)
    }

    /// Tells the outside who refuses what others may take. What was told to be the fleet's refusal is that until some client takes it.
    fn tell(&mut self, key: &Key) {
        let Some(dispute) = self.disputes.by_name.get_mut(key).filter(|dispute| dispute.decided.is_none()) else {
            return;
        };
        let first = dispute.clients.iter().take(MOST_OBJECTIONS);
        let words = |refuser: &Refuser| Arc::clone(refuser.text.as_ref().unwrap_or(&dispute.text));
        let by = first.map(|(client, refuser)| Objection { node: self.facts.shown(*client), text: words(refuser) });
        let by: Vec<Objection> = by.collect();
        if dispute.published != by {
            dispute.published.clone_from(&by);
            self.facts.dispute(key, by);
        }
    }

    /// A client is gone, and its refusals with it: they stay only if there is nobody else, for when it comes again.
    pub(super) fn withdraw_objections(&mut self, client: ClientId) {
        let alone = self.facts.connected() == 0;
        let (mut over, mut fewer) = (Vec::new(), Vec::new());
        for key in self.disputes.by_client.remove(&client).unwrap_or_default() {
            let Some(dispute) = self.disputes.by_name.get_mut(&key) else { continue };
            dispute.clients.remove(&client);
            if !dispute.clients.is_empty() {
                fewer.push(key);
            } else if !(alone && self.disputes.shared.contains(&key)) {
                over.push((key, dispute.version));
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

    /// A client has come. What others refuse is not kept from it, and they are not asked again; what it refused itself, when it was the only
    /// one, is.
    pub(super) fn ask_again(&mut self, client: ClientId, node: &str) {
        for key in std::mem::take(&mut self.disputes.shared) {
            let Some(dispute) = self.disputes.by_name.get(&key) else { continue };
            let nobody = dispute.clients.is_empty();
            if nobody && dispute.node.as_deref() == Some(node) {
                let text = Arc::clone(&dispute.text);
                self.disputes.insert(&key, client, 0, &text);
                self.disputes.shared.insert(key);
                continue;
            }
            if !nobody && self.snapshot.is_inside(&key) {
                // those who have it with others in one would be sent that again
                self.disputes.shared.insert(key);
                continue;
            }
            self.snapshot.offer(&key);
            if nobody {
                self.close(&key);
            } else {
                self.disputes.offered.insert(key);
            }
        }
    }

    /// Refusals of versions that are not current any more mean nothing. Only what changed is looked at.
    pub(super) fn drop_outdated_disputes(&mut self) {
        let since = std::mem::replace(&mut self.disputes.checked, self.snapshot.seq());
        let disputes = &self.disputes.by_name;
        if disputes.is_empty() || since == self.disputes.checked {
            return;
        }
        let current = |key: &Key| self.snapshot.at(key).map(|entry| entry.current().version());
        let outdated = |key: &&Key| disputes.get(key).is_some_and(|dispute| current(key) != Some(dispute.version));
        let old: BTreeSet<Key> = match self.snapshot.changes_since(since) {
            Some(changes) => changes.filter(outdated).cloned().collect(),
            None => disputes.keys().filter(outdated).cloned().collect(),
        };
        old.iter().for_each(|key| drop(self.close(key)));
    }

    /// A client has taken this: who refuses what came after it can have it too.
    pub(super) fn show_to_refusers(&mut self, item: &Arc<Item>) {
        if self.disputes.by_name.is_empty() {
            return;
        }
        for item in std::iter::once(item).chain(&item.parts) {
            if self.is_disputed(&item.key()) && !self.is_current(item) {
                self.snapshot.show(&item.key());
            }
        }
    }

    /// Decides what is due. Gives the time of the next decision.
    pub(super) fn decide(&mut self, now: Duration) -> Option<Duration> {
        self.drop_outdated_disputes();
        for key in std::mem::take(&mut self.disputes.offered) {
            let Disputes { by_name, shared, decisions, .. } = &mut self.disputes;
            if let Some(dispute) =
                by_name.get_mut(&key).filter(|dispute| dispute.until.is_none() && !shared.contains(&key))
            {
                dispute.until = Some(now + PATIENCE);
                decisions.set(now + PATIENCE, &key);
            }
        }
        loop {
            let Disputes { by_name, decisions, .. } = &mut self.disputes;
            let Some(key) = decisions.due(now, |key| by_name.get(key)?.until) else { break };
            let Some(dispute) = by_name.get_mut(&key) else { continue };
            dispute.until = None;
            let version = dispute.version;
            if !self.is_accepted(&key, version) {
                self.share(&key);
                // what is made of that is another version now
                self.drop_outdated_disputes();
            }
        }
        let Disputes { by_name, decisions, .. } = &mut self.disputes;
        decisions.next(|key| by_name.get(key)?.until)
    }

    /// Whether the current version of this name is disputed.
    pub(super) fn is_disputed(&self, key: &Key) -> bool {
        self.disputes.by_name.contains_key(key)
    }

    /// The fleet refuses the current version of this name, or the part of it that is to blame.
    pub(super) fn share(&mut self, key: &Key) {
        let Some(item) = self.snapshot.at(key).map(|entry| Arc::clone(entry.current())) else { return };
        if self.blame_part(key, &item) {
            return;
        }
        let Disputes { by_name, shared, .. } = &mut self.disputes;
        let Some(dispute) = by_name.get_mut(key) else { return };
        dispute.until = None;
        shared.insert(key.clone());
        if !std::mem::take(&mut dispute.published).is_empty() {
            self.facts.dispute(key, Vec::new());
        }
        self.facts.refuse(&item);
        let decision = (item.seq, Arc::clone(&dispute.text));
        if dispute.decided.as_ref() != Some(&decision) {
            let has_previous = self.snapshot.at(key).is_some_and(|entry| entry.accepted().is_some());
            self.facts.tell_refused(&item, Arc::clone(&decision.1), has_previous);
            dispute.decided = Some(decision);
        }
        self.snapshot.forget_report(&item.parts.first().map_or_else(|| key.clone(), |route| route.key()));
        self.snapshot.refuse(&item);
    }

    /// Nobody is known to refuse the current version of this name any more. Who did.
    pub(super) fn close(&mut self, key: &Key) -> Option<Dispute> {
        let mut dispute = self.disputes.close(key)?;
        if !std::mem::take(&mut dispute.published).is_empty() {
            self.facts.dispute(key, Vec::new());
        }
        Some(dispute)
    }

    pub(super) fn is_accepted(&self, key: &Key, version: Version) -> bool {
        let accepted = self.snapshot.at(key).and_then(Entry::accepted);
        accepted.is_some_and(|accepted| accepted.version() == version)
    }
}
