//! What a client asks for, and which names a change concerns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;

use super::carriers::Left;
use super::channel::Channel;
use super::known::Known;
use super::{Activation, Session, Violation};
use crate::fleet::Fleet;
use crate::names::{EVERYTHING, is_collection};
use crate::order::is_rest;
use crate::resource::{Need, TypeUrl, Version, route_configuration_of};
use crate::snapshot::{Key, Look};
use crate::wire::{Request, StreamId, Variant};

/// Names that one client may subscribe to, or say that it has, on all its streams: four kinds for each of 50,000 clusters, rounded up. A
/// name costs about 100 bytes here. No more may it let go of in one message, at some 0.5 µs each.
pub(crate) const MOST_NAMES: usize = 262_144;

/// Bytes of all names of one client: ours are well below 100 each, which leaves room for names of twice that everywhere.
pub(super) const MOST_NAME_BYTES: usize = 64 << 20;

/// Kinds that one client may use: the ten known ones and some foreign ones.
pub(super) const MOST_KINDS: usize = 32;

/// Kinds where a first request without names means everything. Envoy's first VHDS request has no names either, and its first
/// EDS message may be the answer to a set that came with a cluster.
fn is_legacy_wildcard(type_url: &TypeUrl) -> bool {
    type_url.is_complete() || is_rest(type_url)
}

impl Session {
    /// Takes in what a message says about the client's interest.
    pub(super) fn subscribe(
        &mut self,
        fleet: &mut Fleet,
        type_url: &TypeUrl,
        request: &Request,
        now: Duration,
    ) -> Result<(), Violation> {
        if longest_list(request) > MOST_NAMES {
            return Err(Violation::TooManyNames(MOST_NAMES));
        }
        let has = has_besides(request);
        self.check_bounds(type_url, request, &has)?;
        let mut listed = HashSet::new();
        let had_everything = self.carries_everything(type_url, request.stream);
        let introduces = request.nonce.is_empty() || !request.initial_versions.is_empty();
        let unasked = *type_url == TypeUrl::Cluster && introduces && std::mem::take(&mut self.unasked);
        if unasked || request.nonce.is_empty() && !self.knows_stream(type_url, request.stream) {
            listed = self.open(fleet, type_url, (request, &has), now);
        }
        self.unsubscribe(type_url, request.stream, request.unsubscribe.iter().map(|name| &**name));
        let names: Vec<Arc<str>> = request.subscribe.iter().map(|name| shared(fleet, type_url, name)).collect();
        if !names.is_empty() {
            self.channel(type_url).reserve(names.len());
        }
        for name in &names {
            // a cluster that was sent without its endpoints waits for them whatever the client has of them
            let waits = *type_url == TypeUrl::Endpoints
                && self.clusters.cold.get(name).is_some_and(|cold| cold.nonce.is_some());
            let listed = !waits && listed.contains(&**name);
            self.subscribe_name(fleet, type_url, (request.stream, name), listed);
        }
        if !had_everything && self.carries_everything(type_url, request.stream) {
            self.owe_everything(fleet, type_url, request.stream, &listed);
        }
        if !request.unsubscribe.is_empty() {
            self.channel(type_url).bound_flights();
        }
        if *type_url == TypeUrl::Endpoints {
            if request.initial_versions.is_empty() {
                self.asked.extend(names);
            } else {
                // a client that comes again repeats what it asked for long ago
                names.iter().for_each(|name| self.endpoints_brought(fleet, name));
            }
        }
        Ok(())
    }

    fn check_bounds(&self, type_url: &TypeUrl, request: &Request, has: &HashSet<&str>) -> Result<(), Violation> {
        if !self.channels.contains_key(type_url) && self.channels.len() >= MOST_KINDS {
            return Err(Violation::TooManyKinds(MOST_KINDS));
        }
        let (names, name_bytes) = self.names();
        if names + request.subscribe.len() + has.len() > MOST_NAMES {
            return Err(Violation::TooManyNames(MOST_NAMES));
        }
        let bytes =
            request.subscribe.iter().map(|name| name.len()).chain(has.iter().map(|name| name.len())).sum::<usize>();
        if name_bytes + bytes > MOST_NAME_BYTES {
            return Err(Violation::NamesTooLong(MOST_NAME_BYTES));
        }
        Ok(())
    }

    /// Whether the client has asked for this kind on this stream before.
    fn knows_stream(&mut self, type_url: &TypeUrl, stream: StreamId) -> bool {
        if self.aggregated {
            return self.is(type_url, |channel| channel.opened);
        }
        self.channel(type_url).carriers.meet(stream)
    }

    /// The first request of a kind on a stream. Gives the names that the client says it has something under.
    fn open<'a>(
        &mut self,
        fleet: &mut Fleet,
        type_url: &TypeUrl,
        (request, has): (&'a Request, &HashSet<&str>),
        now: Duration,
    ) -> HashSet<&'a str> {
        self.resumed |= !request.initial_versions.is_empty();
        // a stream that begins with EDS broke while a cluster warmed, and that waits for its endpoints whatever version it lists
        let warms = *type_url == TypeUrl::Endpoints && !self.is(&TypeUrl::Cluster, |clusters| clusters.opened);
        self.clusters.came_warming |= warms && self.aggregated && self.envoy;
        let legacy = request.subscribe.is_empty() && is_legacy_wildcard(type_url);
        if request.subscribe.is_empty() {
            self.carry(type_url, request.stream, &EVERYTHING.into());
        }
        self.hosts_asked |= self.envoy && self.variant == Variant::Delta && self.awaits_hosts(type_url, request);
        let channel = self.channel(type_url);
        let another = std::mem::replace(&mut channel.opened, true);
        channel.wildcard |= legacy;
        let wildcard = legacy || request.subscribe.iter().any(|name| name == EVERYTHING);
        channel.owes_first = wildcard && type_url.is_complete() && request.initial_versions.is_empty();
        // one of many streams, each for one name: only that is compared
        channel.compare |= wildcard || !another;
        let mut listed = HashSet::with_capacity(request.initial_versions.len());
        for (name, version) in &request.initial_versions {
            let new = Known::listed(*version);
            let shared = shared(fleet, type_url, name);
            let channel = self.channel(type_url);
            if has.contains(&**name) && !channel.known.contains_key(&shared) {
                channel.listed.names += 1;
                channel.listed.bytes += name.len();
                self.name_bytes += name.len();
            }
            let known = self.channel(type_url).known.get_or_insert(&shared, new);
            if known.sent == new.sent && !warms {
                listed.insert(&**name);
            }
            if another {
                self.compare_name(fleet, type_url, shared, now);
            }
        }
        listed
    }

    /// Whether the client may wait to be told that a route configuration has no hosts: it asks on a stream for hosts alone, or it comes again
    /// with one, and whether it was told before the break it does not say.
    fn awaits_hosts(&self, type_url: &TypeUrl, request: &Request) -> bool {
        match self.aggregated {
            true => *type_url == TypeUrl::Route && !request.initial_versions.is_empty(),
            false => *type_url == TypeUrl::VirtualHost,
        }
    }

    /// A name, or everything, is asked for on this stream.
    fn carry(&mut self, type_url: &TypeUrl, stream: StreamId, name: &Arc<str>) {
        if self.aggregated {
            return;
        }
        let Channel { carriers, known, .. } = self.channel(type_url);
        // what another stream has not answered yet is nothing to wait for
        known.edit(name, |known| known.flying = None);
        let before = carriers.bytes;
        carriers.ask(stream, name);
        let more = carriers.bytes - before;
        self.name_bytes += more;
    }

    /// Whether everything is asked for on this stream, one of several.
    fn carries_everything(&self, type_url: &TypeUrl, stream: StreamId) -> bool {
        self.is(type_url, |channel| channel.wildcard && channel.carriers.wants(stream, EVERYTHING))
    }

    /// Everything is asked for on this stream, which is told also of what came on others, but for what it says it has.
    fn owe_everything(&mut self, fleet: &Fleet, type_url: &TypeUrl, stream: StreamId, listed: &HashSet<&str>) {
        let channel = self.channel(type_url);
        for item in fleet.snapshot().targets(type_url) {
            let name = item.name();
            if channel.has(name) && !listed.contains(&**name) && !channel.carriers.tells(stream, name) {
                channel.owe(stream, name);
            }
        }
    }

    /// A name, or everything, is not asked for any more on this stream. Whether it is on none.
    fn uncarry(&mut self, type_url: &TypeUrl, stream: StreamId, name: &str) -> bool {
        if self.aggregated {
            return true;
        }
        let channel = self.channel(type_url);
        let before = channel.carriers.bytes;
        let left = channel.carriers.drop(stream, name);
        let freed = before - channel.carriers.bytes;
        if left == Left::Heir && name != EVERYTHING && !channel.is_inherited(name) {
            // what the answers of the other stream were about is not known here
            channel.dirty.insert(name.into());
            channel.force.insert(name.into());
        }
        self.name_bytes = self.name_bytes.saturating_sub(freed);
        left == Left::Nobody
    }

    /// Takes over what an earlier stream left in doubt: it is sent, or denied, whatever the client lists. Only what the client
    /// lists and should not have goes in its turn, because its routes may name it. What is not asked for, as another client of the same id
    /// left it, is sent to who does ask. Hosts come with the route configuration that they are in, and are asked for by nobody.
    pub(super) fn inherit(&mut self, fleet: &Fleet, type_url: &TypeUrl, doubts: BTreeSet<Arc<str>>) {
        let (see, aggregated) = (self.see(fleet), self.aggregated);
        let mut uncured = BTreeSet::new();
        let channel = self.channel(type_url);
        for name in doubts {
            let asked = match aggregated {
                true => channel.subscribed(&name) || channel.has(&name) || *type_url == TypeUrl::VirtualHost,
                false => !channel.carriers.of(&name, channel.wildcard).is_empty(),
            };
            if !asked {
                channel.unsure.extend(see.current(type_url, &name).is_some().then_some(name));
                continue;
            }
            channel.unsure.insert(Arc::clone(&name));
            if !channel.has(&name) || see.target(type_url, &name).is_some() {
                channel.force.insert(Arc::clone(&name));
            }
            channel.known.edit(&name, |known| known.sent = Some(Version::UNSURE.mark()));
            channel.dirty.insert(Arc::clone(&name));
            uncured.insert(name);
        }
        if *type_url == TypeUrl::Cluster {
            self.clusters.ghosts_told &= uncured.is_empty();
            self.clusters.uncured.append(&mut uncured);
        }
    }

    /// One more name. What the client has listed is compared, anything else is sent whatever it has (R9).
    fn subscribe_name(
        &mut self,
        fleet: &Fleet,
        type_url: &TypeUrl,
        (stream, name): (StreamId, &Arc<str>),
        listed: bool,
    ) {
        self.carry(type_url, stream, name);
        let channel = self.channel(type_url);
        channel.opened = true;
        if &**name == EVERYTHING {
            channel.compare |= !std::mem::replace(&mut channel.wildcard, true);
            return;
        }
        let mut members = Vec::new();
        if is_collection(name) {
            channel.collections.insert(Arc::clone(name));
            members.extend(fleet.snapshot().members_of(type_url, name).map(|item| Arc::clone(item.name())));
        }
        if members.is_empty() {
            members.push(Arc::clone(name));
        }
        for name in members {
            if listed && !channel.unsure.contains(&name) {
                channel.dirty.insert(name);
            } else {
                channel.owe(stream, &name);
            }
        }
        if channel.names.insert(Arc::clone(name)) {
            self.name_bytes += name.len();
        }
    }

    /// These names are not asked for any more on this stream, and the client has nothing under those that nobody asks for.
    pub(super) fn unsubscribe<'a>(
        &mut self,
        type_url: &TypeUrl,
        stream: StreamId,
        names: impl Iterator<Item = &'a str>,
    ) {
        let dropped = self.drop_names(type_url, stream, names);
        if *type_url == TypeUrl::Route {
            self.forget_hosts_of(&dropped.iter().copied().collect());
        }
        dropped.into_iter().for_each(|name| self.forget_activity(type_url, name));
    }

    /// The same if perhaps only the stream has broken: what belongs to them, on other streams, the client has still. What costs as much as
    /// there are names is done once for all of them. Those that nobody asks for any more.
    pub(super) fn drop_names<'a>(
        &mut self,
        type_url: &TypeUrl,
        stream: StreamId,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<&'a str> {
        let (mut many, mut dropped) = (false, Vec::new());
        for name in names {
            match self.drop_name(type_url, stream, name) {
                LetGo::Nothing => {}
                LetGo::Many => many = true,
                LetGo::This => dropped.push(name),
            }
        }
        if many {
            self.forget_unsubscribed(type_url);
        }
        dropped
    }

    /// What only everything or a collection brought is not asked for any more.
    fn forget_unsubscribed(&mut self, type_url: &TypeUrl) {
        let Self { channels, sent_items, .. } = self;
        let Some(channel) = channels.get_mut(type_url) else { return };
        channel.forget_unsubscribed();
        if let Some(sent) = sent_items.get_mut(type_url) {
            sent.retain(|name| channel.subscribed(name));
        }
        if *type_url == TypeUrl::Cluster {
            let cold: Vec<Arc<str>> = self.clusters.cold.iter().map(|(name, _)| Arc::clone(name)).collect();
            cold.iter().filter(|name| !channel.subscribed(name)).for_each(|name| self.clusters.forget(name));
        }
    }

    fn drop_name(&mut self, type_url: &TypeUrl, stream: StreamId, name: &str) -> LetGo {
        if !self.uncarry(type_url, stream, name) {
            return LetGo::Nothing;
        }
        let Self { channels, sent_items, .. } = self;
        let channel = channels.entry(type_url.clone()).or_default();
        if name == EVERYTHING {
            return if std::mem::take(&mut channel.wildcard) { LetGo::Many } else { LetGo::Nothing };
        }
        if is_collection(name) {
            if !channel.collections.remove(name) {
                return LetGo::Nothing;
            }
            channel.names.remove(name);
            channel.settle(name);
            self.name_bytes = self.name_bytes.saturating_sub(name.len());
            return LetGo::Many;
        }
        if channel.is_swept_in(name) {
            // still in the wildcard, or not there at all: the client is to be told which
            if let Some(name) = channel.names.take(name) {
                let length = name.len();
                // another stream has been told
                if channel.carriers.sweeps_in(stream, &name) || !channel.is_inherited(&name) {
                    channel.force.insert(Arc::clone(&name));
                }
                channel.dirty.insert(name);
                self.name_bytes = self.name_bytes.saturating_sub(length);
            }
            return LetGo::Nothing;
        }
        if let Some(sent) = sent_items.get_mut(type_url) {
            sent.remove(name);
        }
        let asked = channel.names.remove(name);
        channel.forget(name);
        if asked {
            self.name_bytes = self.name_bytes.saturating_sub(name.len());
        }
        self.waits.remove(&Need::new(type_url.clone(), name));
        LetGo::This
    }

    /// The client has dropped these route configurations, and their virtual hosts with them.
    pub(super) fn forget_hosts_of(&mut self, route_configurations: &HashSet<&str>) {
        if route_configurations.is_empty() {
            return;
        }
        self.lost_hosts.retain(|name| !route_configurations.contains(&**name));
        let Some(hosts) = self.channels.get_mut(&TypeUrl::VirtualHost) else { return };
        let inside = |host: &str| route_configuration_of(host).is_some_and(|name| route_configurations.contains(name));
        self.waits.retain(|need, _| need.type_url != TypeUrl::VirtualHost || !inside(&need.name));
        hosts.suspects.retain(|host, _| !inside(host));
        hosts.unsure.retain(|host| !inside(host));
        hosts.known.retain(|host| !inside(host));
        hosts.dirty.retain(|host| !inside(host));
        hosts.force.retain(|host| !inside(host));
        hosts.kept.retain(|host| !inside(host));
    }

    /// Marks the names that changed since the last time.
    pub(super) fn absorb(&mut self, fleet: &mut Fleet, now: Duration) {
        let seq = fleet.seq();
        if self.cursor != seq {
            match fleet.snapshot().changes_since(self.cursor) {
                Some(changes) => changes.for_each(|change| self.mark(fleet, change, now)),
                None => {
                    self.channels.values_mut().for_each(|channel| channel.compare |= channel.opened);
                    self.forget_gone(fleet);
                }
            }
            self.cursor = seq;
        }
        let due: Vec<TypeUrl> = self.channels.iter().filter(|(_, c)| c.compare).map(|(kind, _)| kind.clone()).collect();
        for type_url in due {
            self.compare(fleet, &type_url, now);
        }
    }

    /// One name changed.
    fn mark(&mut self, fleet: &Fleet, change: &Key, now: Duration) {
        let (type_url, name) = (change.type_url(), change.name());
        self.forget_if_gone(fleet, type_url, name);
        let concerned = match type_url {
            TypeUrl::VirtualHost => self.wants_host(name),
            _ => self.is(type_url, |channel| channel.subscribed(name)),
        };
        if concerned {
            self.channel(type_url).dirty.insert(Arc::clone(name));
        } else {
            self.forget_unasked(fleet, type_url, name);
        }
        match type_url {
            TypeUrl::Cluster if concerned => self.note_cold(fleet, name, now),
            TypeUrl::Endpoints => self.endpoints_came(fleet, name, now),
            _ => {}
        }
        if *type_url == TypeUrl::Route && self.channels.contains_key(&TypeUrl::VirtualHost) {
            // hosts stayed with it while it was gone; it may have come back without them
            self.channel(&TypeUrl::VirtualHost).wake(|host| route_configuration_of(host) == Some(name));
        }
    }

    /// What came unasked, behind what would have used it, and is gone is not remembered.
    pub(super) fn forget_unasked(&mut self, fleet: &Fleet, type_url: &TypeUrl, name: &str) {
        let has = |channel: &Channel| channel.known.contains_key(name) || channel.unsure.contains(name);
        let unasked = self.is(type_url, |channel| !channel.subscribed(name) && has(channel));
        if unasked && self.see(fleet).current(type_url, name).is_none() {
            self.channel(type_url).forget(name);
            if let Some(sent) = self.sent_items.get_mut(type_url) {
                sent.remove(name);
            }
        }
    }

    /// What the client thought of something that the fleet has no more is forgotten.
    fn forget_if_gone(&mut self, fleet: &Fleet, type_url: &TypeUrl, name: &Arc<str>) {
        let nothing = self.refused.is_empty() && self.clusters.haunted.is_empty() && self.lost_hosts.is_empty();
        if nothing || self.see(fleet).current(type_url, name).is_some() {
            return;
        }
        self.refused.remove(&Need::new(type_url.clone(), Arc::clone(name)));
        match type_url {
            TypeUrl::Cluster => _ = self.clusters.haunted.remove(name),
            TypeUrl::Route => _ = self.lost_hosts.remove(name),
            _ => {}
        }
    }

    /// The same where it is not known what has changed.
    fn forget_gone(&mut self, fleet: &Fleet) {
        let mut names: Vec<Need> = self.refused.keys().cloned().collect();
        names.extend(self.clusters.haunted.keys().map(|name| Need::new(TypeUrl::Cluster, Arc::clone(name))));
        names.extend(self.lost_hosts.iter().map(|name| Need::new(TypeUrl::Route, Arc::clone(name))));
        names.iter().for_each(|Need { type_url, name }| self.forget_if_gone(fleet, type_url, name));
    }

    /// Compares everything of a kind: the client's first request, or it is too far behind.
    fn compare(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, now: Duration) {
        let channel = self.channel(type_url);
        channel.compare = false;
        let Channel { known, names: asked, dirty, .. } = channel;
        let mut names: Vec<Arc<str>> = known.keys().cloned().collect();
        let nothing_of = asked.iter().filter(|name| !known.contains_key(name)).cloned();
        match type_url {
            TypeUrl::Cluster => names.extend(nothing_of),
            // of these there is nothing to compare
            _ => dirty.extend(nothing_of),
        }
        if channel.wildcard {
            names.extend(fleet.snapshot().targets(type_url).map(|item| Arc::clone(item.name())));
        }
        for collection in &channel.collections {
            names.extend(fleet.snapshot().members_of(type_url, collection).map(|item| Arc::clone(item.name())));
        }
        if *type_url == TypeUrl::VirtualHost {
            let hosts = fleet.snapshot().targets(type_url).map(|item| item.name());
            names.extend(hosts.filter(|host| self.wants_host(host)).cloned());
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.compare_name(fleet, type_url, name, now);
        }
    }

    fn compare_name(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, name: Arc<str>, now: Duration) {
        if *type_url == TypeUrl::Route && self.is(&TypeUrl::VirtualHost, |hosts| hosts.opened) {
            // they were asked for, on another stream, before it was known what they belong to
            let hosts: Vec<Arc<str>> = self.see(fleet).hosts_of(&name).map(|host| Arc::clone(host.name())).collect();
            hosts.into_iter().for_each(|host| self.compare_name(fleet, &TypeUrl::VirtualHost, host, now));
        }
        let target = self.see(fleet).target(type_url, &name).cloned();
        let known = self.channel(type_url).known.get(&name).unwrap_or_default();
        match target {
            Some(item) if known.sent == Some(item.version().mark()) => {
                if *type_url == TypeUrl::Listener && known.flying.is_none() {
                    // it was taken on the stream before, and may wait for its routes still (R4)
                    self.activations.insert(name, Activation { item, acked: true, changes: false });
                    return;
                }
                if known.flying.is_none() && known.acked == known.sent {
                    fleet.accept(&item);
                    if *type_url != TypeUrl::Cluster || !self.may_be_warming(fleet, &item, now) {
                        self.confirm(fleet, type_url, &name);
                    }
                }
            }
            _ => {
                let snapshot = self.see(fleet);
                let known_bytes = [snapshot.current(type_url, &name), snapshot.previous(type_url, &name)];
                let listed = known_bytes.into_iter().flatten().find(|item| known.acked == Some(item.version().mark()));
                // a listener that is listed may not be active (R4)
                if let Some(listed) = listed.filter(|_| *type_url != TypeUrl::Listener).cloned() {
                    fleet.accept(&listed);
                }
                if *type_url == TypeUrl::Cluster {
                    self.note_cold(fleet, &name, now);
                }
                self.channel(type_url).dirty.insert(name);
            }
        }
    }

    /// A virtual host goes to those that have its route configuration.
    pub(super) fn wants_host(&self, host: &str) -> bool {
        let by_name = self.is(&TypeUrl::VirtualHost, |hosts| hosts.names.contains(host) || hosts.has(host));
        let routes = |routes: &Channel| route_configuration_of(host).is_some_and(|name| routes.has(name));
        by_name || self.variant == Variant::Delta && self.is(&TypeUrl::Route, routes)
    }
}

/// What a client has let go of with a name that it does not ask for any more.
enum LetGo {
    /// It asks for it in another way, or never did.
    Nothing,
    This,
    /// Whatever it does not ask for by its name.
    Many,
}

/// The longest list of names in a message.
fn longest_list(request: &Request) -> usize {
    request.subscribe.len().max(request.unsubscribe.len()).max(request.initial_versions.len())
}

/// The fleet's own copy of a name, if it has one: clients share it.
fn shared(fleet: &Fleet, type_url: &TypeUrl, name: &str) -> Arc<str> {
    fleet.snapshot().target(type_url, name).map_or_else(|| name.into(), |item| Arc::clone(item.name()))
}

/// What a client says it has and does not ask for.
fn has_besides(request: &Request) -> HashSet<&str> {
    if request.initial_versions.is_empty() {
        return HashSet::new();
    }
    let asked: HashSet<&str> = request.subscribe.iter().map(|name| &**name).collect();
    request.initial_versions.iter().map(|(name, _)| &**name).filter(|name| !asked.contains(name)).collect()
}
