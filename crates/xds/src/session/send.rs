//! Responses: what goes in one, on which of the client's streams, and what is noted of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::channel::Channel;
use super::{Session, Turn};
use crate::names::EVERYTHING;
use crate::resource::{Need, TypeUrl, route_configuration_of};
use crate::snapshot::Item;
use crate::wire::write::AROUND;
use crate::wire::{AGGREGATED, Manner, Nonce, Response, StreamId, Variant};

/// Size at which a response of independent resources is closed and another begun: gRPC libraries other than Envoy refuse messages
/// above 4 MiB, and one resource is seldom above 1 MiB.
const LARGEST_RESPONSE: usize = 3 << 20;

/// One stream's part of a response.
#[derive(Default)]
struct Part {
    puts: Vec<Arc<Item>>,
    removed: Vec<Arc<str>>,
}

impl Session {
    /// Resources that go together: suspects in their groups, secrets one by one, virtual hosts by route configuration, clusters
    /// and listeners all at once, the rest in responses of bounded size.
    pub(super) fn batches(&mut self, type_url: &TypeUrl, items: Vec<Arc<Item>>) -> Vec<Vec<Arc<Item>>> {
        let repeats = self.repeats(type_url);
        let channel = self.channel(type_url);
        // by group, by what goes together, and by size
        let mut batches: BTreeMap<(u64, Arc<str>, u64), Vec<Arc<Item>>> = BTreeMap::new();
        let together: Arc<str> = "".into();
        let (mut size, mut part) = (0, 0u64);
        for item in items {
            let group = channel.suspects.get(item.name()).copied();
            let key = match type_url {
                TypeUrl::Secret => (0, Arc::clone(item.name()), 0),
                TypeUrl::VirtualHost => {
                    (group.unwrap_or(0), route_configuration_of(item.name()).unwrap_or("").into(), 0)
                }
                TypeUrl::Cluster | TypeUrl::Listener => (group.unwrap_or(0), Arc::clone(&together), 0),
                _ if group.is_some() => (group.unwrap_or(0), Arc::clone(&together), 0),
                _ => {
                    size += AROUND + item.name().len() + item.resource.size();
                    part += u64::from(size > LARGEST_RESPONSE);
                    size = if size > LARGEST_RESPONSE { item.resource.size() } else { size };
                    (0, Arc::clone(&together), part)
                }
            };
            batches.entry(key).or_default().push(item);
        }
        if !channel.suspects.is_empty() {
            let room = if repeats {
                // each repeats what was sent before: a refusal means one trial only while nothing else is on its way
                let others =
                    batches.values().any(|batch| !batch.iter().any(|item| channel.suspects.contains_key(item.name())));
                usize::from(!others && !channel.has_unanswered())
            } else {
                channel.room_for_trials()
            };
            let closed =
                repeats && channel.has_unanswered() && channel.flights.iter().any(|flight| channel.is_trial(flight));
            let mut trials = 0;
            batches.retain(|_, batch| {
                let trial = batch.iter().any(|item| channel.suspects.contains_key(item.name()));
                trials += usize::from(trial);
                let goes = if trial { trials <= room } else { !closed };
                channel.waiting += if goes { 0 } else { batch.len() };
                goes
            });
        }
        batches.into_values().collect()
    }

    /// Sends one response.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_>,
        type_url: &TypeUrl,
        puts: Vec<Arc<Item>>,
        removed: Vec<Arc<str>>,
    ) {
        self.send_as(Manner::News, turn, type_url, puts, removed);
    }

    /// Tells the client that there is nothing of these names, if there are any.
    pub(super) fn deny(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl, names: Vec<Arc<str>>) {
        if names.is_empty() {
            return;
        }
        let manner = match (self.envoy, self.variant, type_url) {
            (true, Variant::Delta, TypeUrl::VirtualHost) => Manner::Unresolved,
            (true, ..) => Manner::News,
            (false, ..) => Manner::Denial,
        };
        self.send_as(manner, turn, type_url, Vec::new(), names);
    }

    /// Sends one response, or one on each of the kind's streams that it concerns.
    pub(super) fn send_as(
        &mut self,
        manner: Manner,
        turn: &mut Turn<'_>,
        type_url: &TypeUrl,
        puts: Vec<Arc<Item>>,
        removed: Vec<Arc<str>>,
    ) {
        let waits = !self.waits.is_empty();
        for name in removed.iter().filter(|_| waits) {
            self.waits.remove(&Need::new(type_url.clone(), Arc::clone(name)));
        }
        for name in &removed {
            match type_url {
                TypeUrl::Listener => _ = self.activations.remove(name),
                TypeUrl::Cluster => self.clusters.forget(name),
                _ => {}
            }
        }
        if self.aggregated {
            self.send_on((AGGREGATED, manner), turn, type_url, puts, removed);
            return;
        }
        let Channel { carriers, known, wildcard, .. } = self.channel(type_url);
        let alive = manner == Manner::Heartbeat;
        let (mut parts, mut copies) = (BTreeMap::<StreamId, Part>::new(), BTreeMap::<StreamId, Part>::new());
        if puts.is_empty() && removed.is_empty() {
            parts.extend(carriers.of(EVERYTHING, true).pop().map(|stream| (stream, Part::default())));
        }
        for item in puts {
            let sent = known.get(item.name()).and_then(|known| known.sent);
            let news = alive || sent != Some(item.version().mark());
            let mut streams = carriers.of(item.name(), *wildcard);
            // what nobody asked for yet has no stream to go out on, and will be asked for
            let Some(stream) = streams.pop() else { continue };
            let mut is_owed = |stream| !alive && carriers.pay(stream, item.name());
            is_owed(stream);
            for other in streams {
                // what did not change goes to who asked for it alone
                if is_owed(other) || news {
                    copies.entry(other).or_default().puts.push(Arc::clone(&item));
                }
            }
            parts.entry(stream).or_default().puts.push(item);
        }
        let mut unheard = Vec::new();
        for name in removed {
            let mut streams = carriers.of(&name, *wildcard);
            streams.iter().for_each(|stream| _ = carriers.pay(*stream, &name));
            let Some(stream) = streams.pop() else {
                unheard.push(name);
                continue;
            };
            streams.iter().for_each(|other| copies.entry(*other).or_default().removed.push(Arc::clone(&name)));
            parts.entry(stream).or_default().removed.push(name);
        }
        self.channel(type_url).unsaid(&unheard);
        for (stream, Part { puts, removed }) in parts {
            self.send_on((stream, manner), turn, type_url, puts, removed);
        }
        for (stream, part) in copies {
            self.send_copy((stream, manner), turn, type_url, part);
        }
    }

    /// Tells a stream what another one is told too. Its answer means nothing.
    fn send_copy(
        &mut self,
        (stream, manner): (StreamId, Manner),
        turn: &mut Turn<'_>,
        type_url: &TypeUrl,
        Part { puts, removed }: Part,
    ) {
        if manner == Manner::News && self.is_unspeakable(type_url, &puts) {
            return;
        }
        let whole = self.note_sent(type_url, &[], &[]);
        let (nonce, with_ttl, puts) = (self.take_nonce(), self.understands_ttl(), puts.into());
        let channel = self.channel(type_url);
        channel.carriers.copied(stream, nonce);
        let (type_url, system_version) = (type_url.clone(), channel.known.digest());
        turn.out.push(Response { stream, type_url, nonce, puts, removed, manner, with_ttl, system_version, whole });
    }

    fn take_nonce(&mut self) -> Nonce {
        let next = self.nonce.saturating_add(1);
        std::mem::replace(&mut self.nonce, next)
    }

    fn send_on(
        &mut self,
        (stream, manner): (StreamId, Manner),
        turn: &mut Turn<'_>,
        type_url: &TypeUrl,
        puts: Vec<Arc<Item>>,
        removed: Vec<Arc<str>>,
    ) {
        let whole = self.note_sent(type_url, &puts, &removed);
        if manner == Manner::News && self.is_unspeakable(type_url, &puts) {
            self.channel(type_url).unsaid(&removed);
            return;
        }
        let nonce = self.take_nonce();
        let waited = !self.waits.is_empty() || !self.refused.is_empty();
        for item in puts.iter().filter(|_| waited) {
            let key = Need::new(type_url.clone(), Arc::clone(item.name()));
            self.waits.remove(&key);
            if self.refused.get(&key).and_then(BTreeSet::last).is_some_and(|seq| *seq < item.seq) {
                self.refused.remove(&key);
            }
        }
        let channel = self.channel(type_url);
        channel.owes_first = false;
        (channel.uncharted, channel.held_since) = (false, None);
        let (puts, listing) = turn.fleet.share_items(type_url, puts);
        let channel = self.channel(type_url);
        channel.sent((stream, nonce), (&puts, listing.as_ref()), &removed, turn.now);
        self.note_crowded(type_url, nonce, &puts);
        puts.iter().for_each(|item| self.note_ttl(item, turn.now));
        let with_ttl = self.understands_ttl();
        let (type_url, system_version) = (type_url.clone(), self.channel(type_url).known.digest());
        turn.out.push(Response { stream, type_url, nonce, puts, removed, manner, with_ttl, system_version, whole });
    }
}
