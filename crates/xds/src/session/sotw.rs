//! State of the world: what differs for a client that names all that it wants in each request.
//!
//! Its requests become those of a delta client as they come in ([`Session::receive_whole`]): the difference to what it wanted before,
//! and, on its first request of a kind, what it holds of an earlier stream. What it was sent is kept item by item ([`SentItems`]),
//! because a response of clusters or listeners has to repeat all of them, and because the version of a response stands for all that
//! the client has of that kind then: whoever comes again with the version that the fleet would have now gets nothing.
//!
//! Elsewhere it differs in these places, most of which ask [`Session::repeats`], whether a response holds everything anew:
//!
//! - `snapshot::View`: route configurations have their virtual hosts inside, as there is no VHDS (`inline`; `confirmed` in `session`,
//!   `fleet::blame`)
//! - `streams`: what a client wants is kept for each stream ([`Wants`]), and which response on it is the latest
//! - `session::subscribe`: who lets go of a name has it no more in [`SentItems`]
//! - `session::answer`: an answer counts for the earlier responses of its stream too; a refusal blames whatever is in it and not proven;
//!   the first response of a client that comes again may have taken anything away (`resumed`)
//! - `session::send`: one trial at a time, and only while nothing else is unanswered; of kinds other than clusters and listeners it is
//!   not said that something is gone
//! - `session::put`: clusters that may not warm go together; on a resumed stream the first response holds them too; what is denied
//!   goes in the same response; what a refused one left out is left out of one more (`unheard`)
//! - `session::judge`: the first response to who is `uncharted` goes whole or waits, and none goes to who is `muted`; a good
//!   version of an earlier time, which is repeated still, stays
//! - `session::answer`: who came again did not say which versions it has: a cure puts back the one published before, and a listener
//!   of which none is known is not taken back
//! - `session::heartbeat`: times to live only for clients that take wrapped resources
//! - `wire::write`: the version of a response, and all of a kind from [`Whole::all`]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::known::Known;
use super::{Session, Violation};
use crate::fleet::{Fleet, Stage};
use crate::names::{EVERYTHING, is_collection};
use crate::resource::{TypeUrl, Version};
use crate::snapshot::{Item, Look};
use crate::wire::read::LONGEST_NAME;
use crate::wire::{Nonce, Request, Text, Variant, Whole, WholeRequest};

/// What a client wants of one kind on one stream.
#[derive(Default)]
pub(crate) struct Wants {
    /// It has sent a request.
    spoken: bool,
    /// It has named something; if it names nothing after that, it wants nothing.
    named: bool,
    pub(crate) names: BTreeSet<String>,
    /// The response that was sent last.
    pub(crate) latest: Option<Nonce>,
}

impl Wants {
    /// Whether a later response than this is on its way.
    fn is_stale(&self, nonce: &str) -> bool {
        self.latest.is_some_and(|latest| !nonce.is_empty() && nonce.parse() != Ok(latest))
    }

    /// Wants only these any more; what it wants no more.
    fn let_go_of_all_but(&mut self, names: &BTreeSet<&str>) -> Vec<Text> {
        self.names.extract_if(.., |name| !names.contains(name.as_str())).map(Text::from).collect()
    }
}

/// What a client was sent under one name.
struct SentItem {
    sent: Arc<Item>,
    /// The first response that it stands in; none if it came with it.
    since: Option<Nonce>,
    acked: Option<Arc<Item>>,
}

/// What a client has of one kind, by what it was sent.
#[derive(Default)]
pub(super) struct SentItems {
    items: BTreeMap<Arc<str>, SentItem>,
    /// The digests of all that was sent, together.
    state: u64,
}

impl SentItems {
    /// The client is being sent this.
    fn put(&mut self, item: &Arc<Item>, since: Option<Nonce>) {
        self.state ^= digest(item.name(), item.version());
        match self.items.get_mut(item.name()) {
            Some(held) => {
                self.state ^= digest(held.sent.name(), held.sent.version());
                held.sent = Arc::clone(item);
                held.since = since;
            }
            None => {
                self.items.insert(Arc::clone(item.name()), SentItem { sent: Arc::clone(item), since, acked: None });
            }
        }
    }

    /// The client has let go of all but these names.
    pub(super) fn retain(&mut self, which: impl Fn(&str) -> bool) {
        let Self { items, state } = self;
        items.retain(|name, held| {
            let stays = which(name);
            if !stays {
                *state ^= digest(name, held.sent.version());
            }
            stays
        });
    }

    /// The client has this name no more.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(held) = self.items.remove(name) {
            self.state ^= digest(name, held.sent.version());
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the client was sent something of this name last.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.items.contains_key(name)
    }

    /// The client has this.
    pub(super) fn prove(&mut self, item: &Arc<Item>) {
        if let Some(held) = self.items.get_mut(item.name()) {
            held.acked = Some(Arc::clone(item));
        }
    }

    /// What was refused gives way to what there was before; false if that is nothing.
    pub(super) fn revert(&mut self, item: &Arc<Item>) -> bool {
        let Some(held) = self.items.get(item.name()) else { return false };
        if !Arc::ptr_eq(&held.sent, item) {
            return true;
        }
        let since = held.since;
        match held.acked.clone() {
            Some(before) => self.put(&before, since),
            None => self.remove(item.name()),
        }
        self.items.contains_key(item.name())
    }

    /// What stood in this response, stands in each since, and is not known to be taken.
    pub(super) fn unproven(&self, nonce: Nonce) -> Vec<Arc<Item>> {
        let unproven =
            |held: &&SentItem| held.acked.as_ref().is_none_or(|acked| acked.version() != held.sent.version());
        let stood = self.items.values().filter(|held| held.since <= Some(nonce));
        stood.filter(unproven).map(|held| Arc::clone(&held.sent)).collect()
    }
}

/// Whether a refusal is of the kind that names every culprit.
pub(super) fn names_culprits(text: &str) -> bool {
    text.starts_with("Error adding/updating")
}

/// A name may hold what stands behind it one time less: it is not known where it ends.
const MOST_COLONS: usize = 4;

/// Of these resources those that the client names in its refusal: it has taken the others all the same. Where it names none it has taken
/// none, and each may be to blame.
pub(super) fn named_in(text: &str, items: &[Arc<Item>]) -> Vec<Arc<Item>> {
    if !names_culprits(text) {
        return Vec::new();
    }
    let ends: Vec<usize> = text.match_indices(": ").map(|(at, _)| at).collect();
    let begins = ["(s) ", ", "].into_iter().flat_map(|before| text.match_indices(before));
    let mut named = HashSet::new();
    for begin in begins.map(|(at, before)| at + before.len()) {
        let ends = ends.iter().skip(ends.partition_point(|end| *end < begin)).take(MOST_COLONS);
        named.extend(ends.filter_map(|end| text.get(begin..*end)).filter(|name| name.len() <= LONGEST_NAME));
    }
    items.iter().filter(|item| named.contains(&**item.name())).cloned().collect()
}

/// One resource's part in the version of a SotW response: those of all that the client has are joined by exclusive or, so that a
/// response costs what it says and not what the client has.
fn digest(name: &str, version: Version) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), version.0 as u64 ^ (version.0 >> 64) as u64)
}

impl Session {
    /// Takes a message of a SotW client in.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub(crate) fn receive_whole(
        &mut self,
        fleet: &mut Fleet,
        wants: &mut Wants,
        request: WholeRequest,
        now: Duration,
    ) -> Result<(), Violation> {
        let type_url = TypeUrl::from(&*request.type_url);
        let request = if wants.is_stale(&request.nonce) {
            // The answer counts, and what it wants no more. What it wants it says again with the answer to the latest response, and only
            // then is it answered.
            let WholeRequest { stream, type_url, names, nonce, error, .. } = request;
            let unsubscribe = wants.let_go_of_all_but(&names.iter().map(|name| &**name).collect());
            Request { stream, type_url, unsubscribe, nonce, error, ..Request::default() }
        } else {
            self.difference(fleet, &type_url, wants, request)
        };
        self.receive(fleet, request, now)
    }

    /// The request of a delta client who wants the same.
    fn difference(&mut self, fleet: &Fleet, type_url: &TypeUrl, wants: &mut Wants, request: WholeRequest) -> Request {
        let WholeRequest { stream, names, version, nonce, error, .. } = request;
        let initial_versions = if !std::mem::replace(&mut wants.spoken, true) && !version.is_empty() {
            self.resumed = true;
            self.inherited(fleet, type_url, &names, &version)
        } else {
            Vec::new()
        };
        let (mut subscribe, mut unsubscribe) = (Vec::new(), Vec::new());
        // Who never named anything means everything, if that can be; who did, and names nothing now, wants nothing.
        if !names.is_empty() && !std::mem::replace(&mut wants.named, true) {
            unsubscribe.extend(self.is(type_url, |channel| channel.wildcard).then(|| EVERYTHING.into()));
        }
        if wants.named {
            let named: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
            unsubscribe.extend(wants.let_go_of_all_but(&named));
            unsubscribe.retain(|name: &Text| !named.contains(&**name));
            subscribe.extend(names.into_iter().filter(|name| !wants.names.contains(&**name)));
            wants.names.extend(subscribe.iter().map(|name| name.to_string()));
        }
        Request { stream, type_url: request.type_url, subscribe, unsubscribe, initial_versions, nonce, error }
    }

    /// What a client has that comes again with this version. Of a kind whose responses are complete, if it is the version of what the fleet
    /// has now, just that. Else it is not known; but clusters that went lately are taken for what it has, because its routes may still
    /// name them and the first response would take them away. Of other kinds it may have asked for a name since it accepted that version:
    /// it has something or nothing under each.
    fn inherited(
        &mut self,
        fleet: &Fleet,
        type_url: &TypeUrl,
        names: &[Text],
        version: &str,
    ) -> Vec<(Text, Option<Version>)> {
        let wildcard = names.is_empty() || names.iter().any(|name| name == EVERYTHING);
        if !wildcard || !type_url.is_complete() {
            let single = names.iter().filter(|name| !is_collection(name));
            return single.map(|name| (name.clone(), None)).collect();
        }
        if *type_url == TypeUrl::Cluster && self.clusters.spoken_of {
            // it was told of all unasked, which this request did not know of
            return Vec::new();
        }
        let snapshot = fleet.snapshot();
        let state = snapshot.targets(type_url).fold(0, |state, item| state ^ digest(item.name(), item.version()));
        let exact = version == state.to_string();
        if !exact && fleet.stage() != Stage::Published {
            self.channel(type_url).muted = Some(version.to_owned());
            return Vec::new();
        }
        let items: Vec<Arc<Item>> = if exact {
            snapshot.targets(type_url).cloned().collect()
        } else {
            let departed = snapshot.departed().map(|departed| Arc::clone(&departed.cluster));
            departed.filter(|item| item.resource.type_url == *type_url).collect()
        };
        let uncharted = !exact && !self.sent_items.contains_key(type_url);
        let channel = self.channel(type_url);
        (channel.uncharted, channel.had_others) = (uncharted, !exact);
        let sent = self.sent_items.entry(type_url.clone()).or_default();
        for item in &items {
            sent.put(item, None);
            if exact {
                sent.prove(item);
            }
        }
        // of what is gone it may have any version
        items.iter().map(|item| (Text::from(&**item.name()), exact.then_some(item.version()))).collect()
    }

    /// Of what a client may have that came too early it can be said now.
    pub(super) fn unmute(&mut self, fleet: &Fleet) {
        if self.variant == Variant::Delta || fleet.stage() != Stage::Published {
            return;
        }
        let kinds: Vec<TypeUrl> = self.channels.keys().filter(|type_url| type_url.is_complete()).cloned().collect();
        for type_url in kinds {
            let Some(version) = self.channel(&type_url).muted.take() else { continue };
            let has = self.inherited(fleet, &type_url, &[], &version);
            let channel = self.channel(&type_url);
            channel.owes_first &= has.is_empty();
            channel.compare = true;
            for (name, version) in has {
                if type_url == TypeUrl::Cluster {
                    // it was taken for new as long as nothing was known
                    self.clusters.cold.remove(&name);
                }
                self.channel(&type_url).known.get_or_insert(&(&*name).into(), Known::listed(version));
            }
        }
    }

    /// Notes what a response of this kind brings; none for a delta client.
    pub(super) fn note_sent(&mut self, type_url: &TypeUrl, puts: &[Arc<Item>], removed: &[Arc<str>]) -> Option<Whole> {
        if self.variant == Variant::Delta {
            return None;
        }
        let sent = self.sent_items.entry(type_url.clone()).or_default();
        puts.iter().for_each(|item| sent.put(item, Some(self.nonce)));
        removed.iter().for_each(|name| sent.remove(name));
        let all = || sent.items.values().map(|held| Arc::clone(&held.sent)).collect();
        Some(Whole { version: sent.state, all: type_url.is_complete().then(all) })
    }

    /// A response that was sent to try what is under suspicion proves nothing if it repeats something else that is not known to be good.
    pub(super) fn note_crowded(&mut self, type_url: &TypeUrl, nonce: Nonce, puts: &[Arc<Item>]) {
        let trial = self.repeats(type_url) && self.is(type_url, |channel| !channel.suspects.is_empty());
        let Some(sent) = self.sent_items.get(type_url).filter(|_| trial) else { return };
        let tried: HashSet<&str> = puts.iter().map(|item| &**item.name()).collect();
        let crowded = sent.unproven(nonce).iter().any(|item| !tried.contains(&**item.name()));
        if let Some(flight) = self.channel(type_url).flights.back_mut() {
            flight.crowded = crowded;
        }
    }

    /// Endpoint sets that have to go behind the first clusters of a stream besides those of what is new: it repeats clusters that are gone
    /// from the fleet, of which the client may have had another version.
    pub(super) fn sets_of_departed(&self, fleet: &Fleet) -> Vec<Arc<Item>> {
        if !self.repeats(&TypeUrl::Cluster) || self.clusters.spoken_of {
            return Vec::new();
        }
        let repeated = self.sent_items.get(&TypeUrl::Cluster).map(|sent| &sent.items);
        let held = |name: &Arc<str>| repeated.is_some_and(|items| items.contains_key(name));
        let departed = fleet.snapshot().departed().filter(|departed| held(departed.cluster.name()));
        let now = |set: &Arc<Item>| fleet.snapshot().target(&TypeUrl::Endpoints, set.name()).cloned();
        let sets = departed.filter_map(|departed| departed.endpoints.as_ref());
        sets.map(|set| now(set).unwrap_or_else(|| Arc::clone(set))).collect()
    }

    /// Clusters that come with what is sent now for the first time, though they were sent before response `next`: what they were sent with
    /// repeated something that is refused whole, and nothing of it was taken. Their endpoint sets go behind this one (R1).
    pub(super) fn carried_again(&self, next: Nonce) -> Vec<Arc<Item>> {
        let Some(clusters) = self.channels.get(&TypeUrl::Cluster) else { return Vec::new() };
        if !self.repeats(&TypeUrl::Cluster) || clusters.suspects.is_empty() {
            return Vec::new();
        }
        let before = clusters.flights.iter().filter(|flight| flight.last < next);
        let sent = |item: &&Arc<Item>| self.is_unproven(item);
        before.flat_map(|flight| &*flight.puts).filter(sent).cloned().collect()
    }

    /// Whether a SotW client cannot be told that something is gone: it finds out by what names it no more.
    pub(super) fn is_unspeakable(&self, type_url: &TypeUrl, puts: &[Arc<Item>]) -> bool {
        self.variant == Variant::Sotw && puts.is_empty() && !type_url.is_complete()
    }

    /// Whether each response of this kind repeats what was sent before, what may be refused included.
    pub(super) fn repeats(&self, type_url: &TypeUrl) -> bool {
        self.variant == Variant::Sotw && type_url.is_complete()
    }
}
