//! From what single clients acknowledge to what is true for their fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::event::{Event, MOST_OBJECTIONS, Node, Objection};
use crate::redact;
use crate::resource::{Need, TypeUrl};
use crate::snapshot::{Item, Key, Look, Snapshot};

/// A client of a fleet, numbered in the order of their coming.
pub(crate) type ClientId = u64;

/// A version that not all counted clients have yet.
struct Pending {
    /// Number of the item.
    seq: u64,
    /// The change with which it became wanted: a later one than the item's own where it is tried again.
    at: u64,
    /// How many of the clients that were counted at that time have it not.
    waiting: usize,
}

struct Member {
    node: Arc<Node>,
    /// The change since which this client is waited for; none while it has no complete configuration or does not keep up.
    counted_since: Option<u64>,
}

/// The clients of a fleet and what they have in common.
#[derive(Default)]
pub(crate) struct Facts {
    fleet: Arc<str>,
    clients: BTreeMap<ClientId, Member>,
    next: ClientId,
    counted: usize,
    live: bool,
    pending: BTreeMap<Need, Pending>,
    /// Told to be refused, and not accepted since.
    refused: BTreeSet<Need>,
    /// Clusters that do not get ready, and the clients on which they do not.
    stalled: BTreeMap<Arc<str>, BTreeSet<ClientId>>,
    events: Vec<Event>,
}

impl Facts {
    pub(crate) fn new(fleet: Arc<str>) -> Self {
        Self { fleet, ..Self::default() }
    }

    /// A client came.
    pub(crate) fn join(&mut self, node: Arc<Node>) -> ClientId {
        self.next += 1;
        self.clients.insert(self.next, Member { node: Arc::clone(&node), counted_since: None });
        let (fleet, connected) = (Arc::clone(&self.fleet), self.clients.len());
        self.events.push(Event::Connected { fleet, node, connected });
        self.next
    }

    /// A client went; `confirmed` tells the number of the item that it was last reported to use.
    pub(crate) fn leave(&mut self, id: ClientId, snapshot: &mut Snapshot, confirmed: impl Fn(&Need) -> u64) {
        self.uncount(id, snapshot, confirmed);
        let stalled = self.stalled.iter().filter(|(_, clients)| clients.contains(&id));
        let names: Vec<Arc<str>> = stalled.map(|(name, _)| Arc::clone(name)).collect();
        names.iter().for_each(|name| self.unstall(id, name, snapshot));
        let Some(client) = self.clients.remove(&id) else { return };
        let connected = self.clients.len();
        self.events.push(Event::Gone { fleet: Arc::clone(&self.fleet), node: client.node, connected });
        if connected == 0 {
            self.live = false;
            self.pending.clear();
            snapshot.forget_reports();
        }
    }

    /// The id that a client gives itself.
    pub(crate) fn node(&self, id: ClientId) -> Arc<str> {
        self.clients.get(&id).map(|client| Arc::clone(&client.node.id)).unwrap_or_default()
    }

    /// The same for people.
    pub(crate) fn shown(&self, id: ClientId) -> Arc<str> {
        redact::node(&self.node(id))
    }

    /// Whether a client is waited for with this name.
    pub(crate) fn is_pending(&self, key: &Key) -> bool {
        matches!(key, Key::Put(need) if self.pending.get(need).is_some_and(|pending| pending.waiting > 0))
    }

    /// How many clients there are.
    pub(crate) fn connected(&self) -> usize {
        self.clients.len()
    }

    /// The client has everything and keeps up: from now on new versions wait for it too.
    pub(crate) fn count(&mut self, id: ClientId, seq: u64) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.counted_since.is_none()) else { return };
        client.counted_since = Some(seq);
        self.counted += 1;
        if !self.live {
            self.live = true;
            self.events.push(Event::Live { fleet: Arc::clone(&self.fleet) });
        }
    }

    /// Nothing waits for this client any more.
    pub(crate) fn uncount(&mut self, id: ClientId, snapshot: &mut Snapshot, confirmed: impl Fn(&Need) -> u64) {
        let Some(since) = self.clients.get_mut(&id).and_then(|client| client.counted_since.take()) else { return };
        self.counted -= 1;
        let mut done = Vec::new();
        for (key, pending) in &mut self.pending {
            if since < pending.at && confirmed(key) < pending.seq {
                pending.waiting = pending.waiting.saturating_sub(1);
                if pending.waiting == 0 {
                    done.push(key.clone());
                }
            }
        }
        for key in done {
            self.pending.remove(&key);
            let accepted = snapshot.accepted(&key.type_url, &key.name).map(|item| item.version());
            let item = snapshot.target(&key.type_url, &key.name).cloned();
            // those who are not waited for may have refused it
            if let Some(item) = item.filter(|item| self.counted > 0 && accepted == Some(item.version())) {
                self.report(&item, snapshot);
            }
        }
    }

    /// Nobody is waited for, and nothing was left waiting: what is published now is nothing to note.
    pub(crate) fn is_idle(&self) -> bool {
        self.counted == 0 && self.pending.is_empty()
    }

    /// A new version is published, or one that was refused is tried again, with the change number `at`.
    pub(crate) fn published(&mut self, key: &Need, target: Option<&Arc<Item>>, at: u64) {
        match target {
            Some(item) if self.counted > 0 && key.type_url != TypeUrl::Endpoints => {
                self.pending.insert(key.clone(), Pending { seq: item.seq, at, waiting: self.counted });
            }
            _ => {
                self.pending.remove(key);
            }
        }
    }

    /// A client has this item in use; told once per client and item. `before` is the number of the item that it was last known to use or
    /// to refuse: one that is tried again waits for nobody twice.
    pub(crate) fn confirm(&mut self, id: ClientId, item: &Item, before: u64, snapshot: &mut Snapshot) {
        let kind = &item.resource.type_url;
        if *kind == TypeUrl::Endpoints || item.seq == 0 {
            return;
        }
        let key = Need::new(kind.clone(), Arc::clone(item.name()));
        if let Some(pending) = self.pending.get_mut(&key) {
            if pending.seq > item.seq {
                return;
            }
            let since = self.clients.get(&id).and_then(|client| client.counted_since);
            if before < pending.seq && since.is_some_and(|since| since < pending.at) {
                pending.waiting = pending.waiting.saturating_sub(1);
            }
            if pending.waiting > 0 {
                return;
            }
            self.pending.remove(&key);
        }
        self.report(item, snapshot);
    }

    /// A client refuses this item and is not waited for any more. Gives how many others are. `before` is the number of the item, of the
    /// same version, that it refused before.
    pub(crate) fn object(&mut self, id: ClientId, item: &Item, before: Option<u64>) -> usize {
        let key = Need::new(item.resource.type_url.clone(), Arc::clone(item.name()));
        let since = self.clients.get(&id).and_then(|client| client.counted_since);
        let Some(pending) = self.pending.get_mut(&key) else { return 0 };
        let counts = before.is_none_or(|before| before < pending.seq);
        if counts && since.is_some_and(|since| since < pending.at) {
            pending.waiting = pending.waiting.saturating_sub(1);
        }
        pending.waiting
    }

    /// Nobody is waited for any more with this name; whoever has it uses it.
    pub(crate) fn settle(&mut self, item: &Item, snapshot: &mut Snapshot) {
        self.pending.remove(&Need::new(item.resource.type_url.clone(), Arc::clone(item.name())));
        self.report(item, snapshot);
    }

    /// All clients refuse this item.
    pub(crate) fn refuse(&mut self, item: &Item) {
        if let Key::Put(put) = item.key() {
            self.pending.remove(&put);
        }
    }

    /// Reports that they do, in which words, and whether they have an accepted version before it.
    pub(crate) fn tell_refused(&mut self, item: &Item, text: Arc<str>, has_previous: bool) {
        let need = item.key().need();
        self.refused.insert(need.clone());
        let Need { type_url, name } = need;
        self.events.push(Event::Refused {
            fleet: Arc::clone(&self.fleet),
            type_url,
            name,
            version: item.version(),
            has_previous,
            text,
        });
    }

    /// Several clients have one id.
    pub(crate) fn tell_namesakes(&mut self, node: Arc<Node>) {
        self.events.push(Event::Namesakes { fleet: Arc::clone(&self.fleet), node });
    }

    /// Some clients refuse the current version of a name; nobody if no longer.
    pub(crate) fn dispute(&mut self, key: &Key, by: Vec<Objection>) {
        let Need { type_url, name } = key.need();
        self.events.push(Event::Disputed { fleet: Arc::clone(&self.fleet), type_url, name, by });
    }

    /// A new cluster does not get ready on a client.
    pub(crate) fn stall(&mut self, id: ClientId, name: &Arc<str>, snapshot: &Snapshot) {
        if self.stalled.entry(Arc::clone(name)).or_default().insert(id) {
            self.tell_stalled(name, snapshot);
        }
    }

    /// It is ready there after all, or not wanted any more.
    pub(crate) fn unstall(&mut self, id: ClientId, name: &Arc<str>, snapshot: &Snapshot) {
        if self.stalled.get_mut(name).is_some_and(|clients| clients.remove(&id)) {
            self.tell_stalled(name, snapshot);
        }
    }

    fn tell_stalled(&mut self, name: &Arc<str>, snapshot: &Snapshot) {
        let clients = self.stalled.get(name).into_iter().flatten();
        let nodes: Vec<Arc<str>> = clients.take(MOST_OBJECTIONS).map(|client| self.shown(*client)).collect();
        if nodes.is_empty() {
            self.stalled.remove(name);
        }
        let (fleet, was_warm) = (Arc::clone(&self.fleet), snapshot.was_reported(&TypeUrl::Cluster, name));
        self.events.push(Event::Stalled { fleet, name: Arc::clone(name), nodes, was_warm });
    }

    /// What is gone from the fleet is not refused any more.
    pub(crate) fn forget_gone(&mut self, changed: &Key, snapshot: &Snapshot) {
        if !self.refused.is_empty() && snapshot.current(changed.type_url(), changed.name()).is_none() {
            self.refused.remove(&changed.need());
        }
    }

    /// What happened since this was last called, in order.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn report(&mut self, item: &Item, snapshot: &mut Snapshot) {
        if !snapshot.report(item) {
            return;
        }
        let (fleet, name) = (Arc::clone(&self.fleet), Arc::clone(item.name()));
        self.events.push(match &item.resource.type_url {
            TypeUrl::Cluster => Event::ClusterWarm { fleet, name },
            type_url => {
                let key = Need::new(type_url.clone(), Arc::clone(&name));
                let was_refused = self.refused.remove(&key);
                Event::Accepted { fleet, type_url: key.type_url, name, version: item.version(), was_refused }
            }
        });
    }
}
