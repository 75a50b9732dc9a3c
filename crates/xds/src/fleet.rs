//! One fleet: its resources and what its clients have in common. Everything that belongs to one client is in its
//! [`crate::session`].
//!
//! "Refused" is said by several, each of its own. A *session* knows which item its client refused alone (`Session::refused`), and gives
//! it the accepted one. The *dispute* of a name ([`dispute`]) knows which clients refuse its current version, and decides when that is
//! the fleet's refusal: if all of them do, or if one does and nobody takes it in time. The *snapshot* has that decision
//! (`Entry::refused`): from then on every client is to have the accepted version, until there is another, a trial, or a new client that
//! may take it. [`blame`] is asked before: of a route configuration with its hosts inside it makes the refusal that of one host.
//! `retries` is when a refused listener is tried again, as its port may be free by then. `taken_back` are listeners that no client
//! refused, but that we took back because what they need did not come; they are disputed like the others, and tried again when one of
//! these needs changes. [`Facts`] know what the outside was told to be refused and was not told to be accepted since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Event, Node};
use crate::facts::{ClientId, Facts};
use crate::listing::{Listing, Listings};
use crate::redact;
use crate::resource::{Change, Need, TypeUrl, route_configuration_of};
use crate::snapshot::{Item, Key, Look, Snapshot};
use crate::wire::Variant;

mod alarms;
mod blame;
mod dispute;
mod doubts;
mod namesakes;
mod saving;

use alarms::Alarms;
use dispute::Disputes;
use doubts::Doubts;
use namesakes::Namesakes;
use saving::Memory;

/// A listener can be refused because its port is taken, which passes, within milliseconds where another proxy of ours is giving it
/// up: it is tried again after this time, then after twice as long and so on up to [`LONGEST_PAUSE`]. What is refused for its
/// content costs one response of some kilobytes at each trial.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A refused listener.
struct Retry {
    /// When it is tried again; none while it is being tried.
    at: Option<Duration>,
    pause: Duration,
    /// It was tried out of turn since the pause before this one.
    early: bool,
}

/// A listener that was taken back.
#[derive(Default)]
struct TakenBack {
    /// The number of its item.
    seq: u64,
    waits_for: BTreeSet<Need>,
}

/// What clients are answered from.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was published: nobody is answered, because "nothing" would be taken for an answer, and remove
    /// what there is.
    #[default]
    Unknown,
    /// Nothing was published, and what was saved is given to those who have nothing.
    LastGood,
    /// What was published.
    Published,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Fleet {
    snapshot: Snapshot,
    facts: Facts,
    stage: Stage,
    doubts: Doubts,
    /// Listeners that were taken back because what they need did not come (R5).
    taken_back: BTreeMap<Key, TakenBack>,
    /// The change up to which those were looked at.
    chances: u64,
    /// Listeners that were refused.
    retries: BTreeMap<Key, Retry>,
    /// When they are tried again.
    trials: Alarms,
    /// Who knows no VHDS.
    sotw_clients: BTreeSet<ClientId>,
    /// What clients refuse of what is current.
    disputes: Disputes,
    namesakes: Namesakes,
    memory: Memory,
    listings: Listings,
}

impl Fleet {
    /// A fleet without resources.
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self { facts: Facts::new(name), ..Self::default() }
    }

    /// Takes changes over.
    pub(crate) fn publish(&mut self, changes: Vec<Change>) {
        let before = self.snapshot.hold_changes();
        if std::mem::replace(&mut self.stage, Stage::Published) == Stage::LastGood {
            self.snapshot.supersede();
        }
        self.snapshot.apply(changes);
        if !self.retries.is_empty() {
            let changed: BTreeSet<&Key> = self.snapshot.changes_since(before).into_iter().flatten().collect();
            self.retries.retain(|key, _| !changed.contains(key));
        }
        self.drop_outdated_disputes();
        self.give_another_chance();
        let (snapshot, facts) = (&self.snapshot, &mut self.facts);
        snapshot.changes_since(before).into_iter().flatten().for_each(|key| facts.forget_gone(key, snapshot));
        if !self.facts.is_idle() {
            self.note_published(before);
        }
        self.snapshot.trim();
    }

    /// Clients that keep up are waited for with what changed since.
    fn note_published(&mut self, before: u64) {
        let (snapshot, facts) = (&self.snapshot, &mut self.facts);
        let each = |key: &Key| match key {
            Key::Put(need) => facts.published(need, snapshot.target(&need.type_url, &need.name), snapshot.seq()),
            // what is made of several is waited for part by part
            Key::Inlined(_) => {}
        };
        snapshot.changes_since(before).into_iter().flatten().for_each(each);
    }

    /// What clients are answered from.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Nobody is answered until something is published again. What was only saved is not good any more.
    pub(crate) fn withdraw(&mut self) {
        self.withdraw_last_good();
        self.stage = Stage::Unknown;
    }

    /// The same if nothing was published until now.
    pub(crate) fn withdraw_last_good(&mut self) {
        if self.is_last_good() {
            self.publish(Vec::new());
            self.stage = Stage::Unknown;
        }
    }

    /// Nobody uses it and nothing is in it.
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Unknown && self.connected() == 0 && self.snapshot.is_empty()
    }

    /// The resources of a response, as clients that are sent the same share them, and what they have of these in common.
    pub(crate) fn share_items(
        &mut self,
        type_url: &TypeUrl,
        items: Vec<Arc<Item>>,
    ) -> (Arc<[Arc<Item>]>, Option<Arc<Listing>>) {
        self.listings.share(type_url, items)
    }

    /// The resources.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The number of the latest change: if it moved, other clients have to look.
    pub(crate) fn seq(&self) -> u64 {
        self.snapshot.seq()
    }

    /// A client came.
    pub(crate) fn join(&mut self, node: Arc<Node>, variant: Variant) -> ClientId {
        let client = self.facts.join(Arc::clone(&node));
        if variant == Variant::Sotw {
            self.sotw_clients.insert(client);
            self.snapshot.set_inlines(true);
        }
        if self.namesakes.come(&node.id, client) {
            self.note_namesake(&node.id);
        }
        self.ask_again(client, &node.id);
        client
    }

    /// A client went; `confirmed` tells the number of the item that it was last reported to use.
    pub(crate) fn leave(&mut self, client: ClientId, confirmed: impl Fn(&Need) -> u64) {
        // who had a listener that others refuse may have given up its port
        let held = |key: &Key| !self.disputes.is_refuser(client, key) && confirmed(&key.need()) != 0;
        let freed = self.retries.iter().filter(|(key, retry)| !retry.early && held(key));
        let freed: Vec<Key> = freed.map(|(key, _)| key.clone()).collect();
        let confirmed = |key: &Need| confirmed(key).max(self.disputes.refused_by(client, key));
        let node = self.facts.node(client);
        self.memory.leave(&node, client);
        self.namesakes.go(&node, client);
        self.facts.leave(client, &mut self.snapshot, confirmed);
        self.withdraw_objections(client);
        if self.sotw_clients.remove(&client) {
            self.snapshot.set_inlines(!self.sotw_clients.is_empty());
        }
        for key in freed.iter().filter(|_| self.facts.connected() > 0) {
            if let Some(retry) = self.retries.get_mut(key) {
                (retry.at, retry.early) = (None, true);
                self.snapshot.forgive(key);
            }
        }
    }

    /// A client says something on its only stream: if another has come meanwhile under its id, they are two.
    pub(crate) fn hear(&mut self, client: ClientId, node: &Arc<Node>, now: Duration) {
        if self.namesakes.hear(&node.id, client, now) {
            self.facts.tell_namesakes(Arc::clone(node));
        }
    }

    /// A client went while these resources were not known to be taken or gone.
    pub(crate) fn doubt(&mut self, node: &Arc<str>, doubts: BTreeSet<Need>) {
        if doubts.is_empty() {
            return;
        }
        self.memory.note(node);
        for forgotten in self.doubts.add(node, doubts, self.namesakes.most(node)) {
            self.memory.note(&forgotten);
        }
    }

    /// What is to be cleared up about one kind with a client that has come again: from now on that is its session's business.
    pub(crate) fn take_doubts(&mut self, node: &str, type_url: &TypeUrl) -> BTreeSet<Arc<str>> {
        let taken = self.doubts.take(node, type_url);
        if !taken.is_empty() {
            self.memory.note(&node.into());
        }
        taken
    }

    /// How many clients there are.
    pub(crate) fn connected(&self) -> usize {
        self.facts.connected()
    }

    /// The client has everything and keeps up.
    pub(crate) fn count(&mut self, client: ClientId) {
        self.facts.count(client, self.snapshot.seq());
    }

    /// The client does not keep up.
    pub(crate) fn uncount(&mut self, client: ClientId, confirmed: impl Fn(&Need) -> u64) {
        let confirmed = |key: &Need| confirmed(key).max(self.disputes.refused_by(client, key));
        self.facts.uncount(client, &mut self.snapshot, confirmed);
    }

    /// A client refuses the item: unless it was accepted, it is nothing to go back to.
    pub(crate) fn disown(&mut self, item: &Item) {
        self.snapshot.disown(item);
    }

    /// A client has acknowledged the item: it can be gone back to.
    pub(crate) fn accept(&mut self, item: &Arc<Item>) {
        if !self.retries.is_empty() && !self.is_disputed(&item.key()) {
            self.retries.remove(&item.key());
        }
        if self.snapshot.accept(item) {
            self.show_to_refusers(item);
        }
    }

    /// A client has the item in use. `before` is the number of the item that it was last reported to use.
    pub(crate) fn confirm(&mut self, client: ClientId, item: &Arc<Item>, before: u64) {
        if self.is_last_good() {
            return;
        }
        let whole = self.agree(client, item);
        let since = self.snapshot.made_since(item, before);
        for part in item.parts_since(since) {
            let refused = whole.or_else(|| self.agree(client, part)).unwrap_or(0);
            self.facts.confirm(client, part, before.max(refused), &mut self.snapshot);
        }
        if !item.parts.is_empty() {
            self.let_in(item);
        }
    }

    /// A client refuses the item in these words. With the number of the item that it was last reported to use.
    pub(crate) fn refuse(&mut self, client: (ClientId, u64), item: &Arc<Item>, text: &str, now: Duration) {
        if self.is_last_good() {
            return;
        }
        let text = redact::refusal(&item.resource.type_url, text);
        let news = self.object(client, item, &text, now);
        if !news || item.resource.type_url != TypeUrl::Listener {
            return;
        }
        let new = Retry { at: None, pause: FIRST_PAUSE / 2, early: false };
        let retry = self.retries.entry(item.key()).or_insert(new);
        if retry.at.is_none() {
            retry.pause = (retry.pause * 2).min(LONGEST_PAUSE);
            let at = now + retry.pause;
            retry.at = Some(at);
            self.trials.set(at, &item.key());
        }
    }

    /// A client has a listener whose parts did not come in time.
    pub(crate) fn take_back(&mut self, client: ClientId, item: &Arc<Item>, waits_for: Vec<Need>, now: Duration) {
        let Some(first) = waits_for.first() else { return };
        let text = format!("taken back: {} {} was not acknowledged in time", first.type_url, first.name);
        self.give_another_chance();
        if self.object((client, 0), item, &text.into(), now) {
            let taken_back = self.taken_back.entry(item.key()).or_default();
            taken_back.seq = item.seq;
            taken_back.waits_for.extend(waits_for);
        }
    }

    /// Tries again and decides what is due. Gives the time of the next.
    pub(crate) fn retry(&mut self, now: Duration) -> Option<Duration> {
        while let Some(key) = self.trials.due(now, |key| self.retries.get(key)?.at) {
            if let Some(retry) = self.retries.get_mut(&key) {
                (retry.at, retry.early) = (None, false);
            }
            self.snapshot.forgive(&key);
        }
        self.snapshot.forget_departed(now);
        self.give_another_chance();
        let decision = self.decide(now);
        let trial = self.trials.next(|key| self.retries.get(key)?.at);
        trial.into_iter().chain(decision).min()
    }

    /// A new cluster does not get ready on a client that answers.
    pub(crate) fn stall(&mut self, client: ClientId, cluster: &Arc<str>) {
        self.facts.stall(client, cluster, &self.snapshot);
    }

    /// It does after all, or need not any more.
    pub(crate) fn unstall(&mut self, client: ClientId, cluster: &Arc<str>) {
        self.facts.unstall(client, cluster, &self.snapshot);
    }

    /// What happened since this was last called.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.facts.take_events()
    }

    fn is_current(&self, item: &Item) -> bool {
        self.snapshot.at(&item.key()).is_some_and(|entry| entry.current().version() == item.version())
    }

    fn is_refused(&self, item: &Item) -> bool {
        self.snapshot.is_refused(&item.key())
    }

    /// What a listener that was taken back waits for has changed, be it because something else was refused: the listener is tried again.
    fn give_another_chance(&mut self) {
        let since = std::mem::replace(&mut self.chances, self.snapshot.seq());
        if self.taken_back.is_empty() || since == self.chances {
            return;
        }
        let snapshot = &self.snapshot;
        let is_as_taken_back =
            |listener: &Key, seq| snapshot.at(listener).is_some_and(|entry| entry.current().seq == seq);
        self.taken_back.retain(|listener, TakenBack { seq, .. }| is_as_taken_back(listener, *seq));
        let changed: Option<BTreeSet<Need>> = snapshot.changes_since(since).map(|changes| changes.map(part).collect());
        let hopes = |(_, one): &(&Key, &TakenBack)| changed.as_ref().is_none_or(|all| !all.is_disjoint(&one.waits_for));
        let again: Vec<Key> = self.taken_back.iter().filter(hopes).map(|(listener, _)| listener.clone()).collect();
        for listener in again {
            self.taken_back.remove(&listener);
            self.snapshot.forgive(&listener);
        }
    }
}

/// What a listener needs that this is or belongs to.
fn part(changed: &Key) -> Need {
    match changed {
        Key::Put(Need { type_url: TypeUrl::VirtualHost, name }) => {
            Need::new(TypeUrl::Route, route_configuration_of(name).unwrap_or_default())
        }
        other => other.need(),
    }
}
