//! The steps that bring something new.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::carriers::EVERYTHING;
use super::channel::Channel;
use super::gate::Gate;
use super::{Activation, Cure, Session, Turn};
use crate::empty::stand_in;
use crate::fleet::Fleet;
use crate::names::is_collection;
use crate::resource::{Need, TypeUrl, Version, route_configuration_of};
use crate::snapshot::Item;
use crate::wire::write::AROUND;
use crate::wire::{Manner, Response, StreamId};

/// Size at which a response of independent resources is closed and another begun: gRPC libraries other than Envoy refuse messages
/// above 4 MiB, and one resource is seldom above 1 MiB.
const LARGEST_RESPONSE: usize = 3 << 20;

/// What is to be done about a dirty name now.
pub(super) enum Verdict {
    /// Nothing: the client has it, or does not want it.
    Drop,
    /// Not yet.
    Wait,
    /// Not before something is published.
    Blocked,
    /// Send this.
    Send(Arc<Item>),
    /// Say at once that it does not exist.
    Deny,
    /// It is gone: for the removals at the end.
    Gone,
}

/// Dirty names of one kind, sorted out.
#[derive(Default)]
struct Ready {
    puts: Vec<Arc<Item>>,
    denied: Vec<Arc<str>>,
}

/// One stream's part of a response.
#[derive(Default)]
struct Part {
    puts: Vec<Arc<Item>>,
    removed: Vec<Arc<str>>,
}

impl Session {
    /// Clusters, with their endpoint sets and secrets right behind.
    pub(super) fn put_clusters(&mut self, turn: &mut Turn<'_>) {
        for Cure { puts, removed } in std::mem::take(&mut self.cures) {
            let names: Vec<Arc<str>> = puts.iter().map(|item| Arc::clone(item.name())).chain(removed.clone()).collect();
            self.send_clusters(turn, puts, removed);
            let clusters = self.channel(&TypeUrl::Cluster);
            clusters.dirty.extend(names);
            if let Some(flight) = clusters.flights.back_mut() {
                flight.cure = true;
            }
        }
        if !self.is(&TypeUrl::Cluster, |clusters| clusters.opened) {
            return;
        }
        let Ready { puts, denied } = self.sort_out(turn, &TypeUrl::Cluster);
        // the first response of a SotW stream takes away what is not in it
        let at_once = self.repeats(&TypeUrl::Cluster) && self.resumed && !self.spoke_of_clusters;
        let (apart, ordinary): (Vec<_>, Vec<_>) = puts.into_iter().partition(|item| item.resource.apart && !at_once);
        if !denied.is_empty() {
            self.deny(turn, &TypeUrl::Cluster, denied);
        }
        for batch in self.batches(&TypeUrl::Cluster, ordinary) {
            let replaced = self.replaced(turn.fleet, &TypeUrl::Cluster, &batch);
            self.send_clusters(turn, batch, replaced);
        }
        if !apart.is_empty() && self.others_settled() {
            let together = if self.repeats(&TypeUrl::Cluster) { apart.len().max(1) } else { 1 };
            for items in apart.chunks(together) {
                self.send_clusters(turn, items.to_vec(), Vec::new());
            }
        }
        self.answer_first(turn, &TypeUrl::Cluster);
    }

    /// Resources of a kind that needs nothing special but its order.
    pub(super) fn put(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) {
        let Ready { puts, denied } = self.sort_out(turn, type_url);
        if !denied.is_empty() {
            self.deny(turn, type_url, denied);
        }
        for batch in self.batches(type_url, puts) {
            let replaced = self.replaced(turn.fleet, type_url, &batch);
            match type_url {
                TypeUrl::Listener => self.send_listeners(turn, batch, replaced),
                TypeUrl::Route => self.send_routes(turn, batch),
                _ => self.send(turn, type_url, batch, replaced),
            }
        }
        if *type_url == TypeUrl::Listener {
            self.answer_first(turn, type_url);
        }
    }

    /// Virtual hosts of VHDS, one response per route configuration; what is gone from it goes in the same, so that a domain can
    /// move from host to host.
    pub(super) fn put_virtual_hosts(&mut self, turn: &mut Turn<'_>) {
        let kind = TypeUrl::VirtualHost;
        if !self.channels.contains_key(&kind) {
            return;
        }
        let Ready { puts, denied } = self.sort_out(turn, &kind);
        if !denied.is_empty() {
            self.deny(turn, &kind, denied);
        }
        for batch in self.batches(&kind, puts) {
            let mut removed = self.replaced(turn.fleet, &kind, &batch);
            let parent = batch.first().and_then(|item| route_configuration_of(item.name())).map(str::to_owned);
            if let Some(parent) =
                parent.filter(|parent| !self.is(&TypeUrl::Route, |routes| routes.dirty.contains(&**parent)))
            {
                removed.extend(self.gone_hosts_of(turn.fleet, &parent));
            }
            removed.sort_unstable();
            removed.dedup();
            self.send(turn, &kind, batch, removed);
        }
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

    /// Tells the client that there is nothing of these names.
    fn deny(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl, names: Vec<Arc<str>>) {
        let manner = if self.envoy { Manner::News } else { Manner::Denial };
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
        if self.aggregated {
            self.send_on((0, manner), turn, type_url, puts, removed);
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
        let whole = self.hold(type_url, &[], &[]);
        self.nonce += 1;
        let (nonce, with_ttl) = (self.nonce, self.understands_ttl());
        turn.out.push(Response { stream, type_url: type_url.clone(), nonce, puts, removed, manner, with_ttl, whole });
    }

    fn send_on(
        &mut self,
        (stream, manner): (StreamId, Manner),
        turn: &mut Turn<'_>,
        type_url: &TypeUrl,
        puts: Vec<Arc<Item>>,
        removed: Vec<Arc<str>>,
    ) {
        let whole = self.hold(type_url, &puts, &removed);
        if manner == Manner::News && self.is_unspeakable(type_url, &puts) {
            self.channel(type_url).unsaid(&removed);
            return;
        }
        self.nonce += 1;
        let nonce = self.nonce;
        for item in &puts {
            let key = Need::new(type_url.clone(), Arc::clone(item.name()));
            self.waits.remove(&key);
            if !self.refused.is_empty() && self.refused.get(&key).is_some_and(|seq| *seq < item.seq) {
                self.refused.remove(&key);
            }
        }
        let channel = self.channel(type_url);
        channel.owes_first = false;
        channel.sent((stream, nonce), &puts, &removed, turn.now);
        puts.iter().for_each(|item| self.note_ttl(item, turn.now));
        let with_ttl = self.understands_ttl();
        turn.out.push(Response { stream, type_url: type_url.clone(), nonce, puts, removed, manner, with_ttl, whole });
    }

    /// Looks at each dirty name of a kind.
    fn sort_out(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) -> Ready {
        let mut ready = Ready::default();
        let (mut waiting, mut blocked) = (0, 0);
        let channel = self.channel(type_url);
        if channel.paused_until.is_some_and(|until| turn.now < until) {
            (channel.waiting, channel.blocked) = (channel.dirty.len(), 0);
            return ready;
        }
        let dirty: Vec<Arc<str>> = self.channel(type_url).dirty.iter().cloned().collect();
        for name in dirty {
            match self.judge(turn.fleet, type_url, &name, turn.now) {
                Verdict::Drop => self.settled(turn.fleet, type_url, name),
                Verdict::Send(item) => ready.puts.push(item),
                Verdict::Deny => ready.denied.push(name),
                Verdict::Wait => waiting += 1,
                Verdict::Blocked => {
                    blocked += 1;
                    if !turn.fleet.is_last_good() {
                        self.stall(type_url, &name);
                    }
                }
                Verdict::Gone => {}
            }
        }
        let channel = self.channel(type_url);
        (channel.waiting, channel.blocked) = (waiting, blocked);
        ready
    }

    /// Nothing is to be done about a name that was dirty.
    fn settled(&mut self, fleet: &mut Fleet, type_url: &TypeUrl, name: Arc<str>) {
        let channel = self.channel(type_url);
        channel.settle(&name);
        if channel.known.get(&name).is_some_and(|known| known.acked.is_some() && known.acked == known.sent) {
            // the version is an old acquaintance, published anew
            self.confirm_again(fleet, type_url, &name);
        }
        if self.see(fleet).current(type_url, &name).is_none() {
            self.forget_refusal(type_url, &name);
        }
        self.waits.remove(&Need::new(type_url.clone(), name));
    }

    /// What is to be done about one dirty name.
    pub(super) fn judge(&mut self, fleet: &Fleet, type_url: &TypeUrl, name: &Arc<str>, now: Duration) -> Verdict {
        let channel = self.channel(type_url);
        let known = channel.known.get(name).copied().unwrap_or_default();
        let forced = channel.force.contains(name);
        let subscribed = channel.subscribed(name);
        let wanted = subscribed || forced || (*type_url == TypeUrl::VirtualHost && self.wants_host(name));
        if !wanted {
            return if known.sent.is_some() { Verdict::Gone } else { Verdict::Drop };
        }
        let target = self.see(fleet).target(type_url, name).filter(|_| forced);
        let last_good = fleet.is_last_good();
        let Some(item) = self.wanted(fleet, type_url, name).or(target) else {
            return if last_good { Verdict::Blocked } else { self.judge_absent(fleet, type_url, name, forced) };
        };
        if !forced && known.sent == Some(item.version().mark()) {
            return Verdict::Drop;
        }
        // what the client has may be newer
        let has = !forced && known.sent.is_some() || self.is(type_url, |channel| channel.muted.is_some());
        if last_good && has {
            return Verdict::Blocked;
        }
        if known.flying != 0 || self.is_before_its_parent(fleet, item) {
            return Verdict::Wait;
        }
        match self.gate(fleet, item, now) {
            Gate::Open => Verdict::Send(Arc::clone(item)),
            Gate::Wait => Verdict::Wait,
            Gate::Blocked => Verdict::Blocked,
        }
    }

    /// What a client gets for a name that does not exist (R6).
    fn judge_absent(&mut self, fleet: &Fleet, type_url: &TypeUrl, name: &Arc<str>, forced: bool) -> Verdict {
        let starts = !self.resumed && !self.complete;
        let channel = self.channel(type_url);
        channel.suspects.remove(name);
        let sent = channel.known.get(name).and_then(|known| known.sent);
        let named = channel.names.contains(name);
        let acked = channel.known.get(name).and_then(|known| known.acked);
        let refused = self.see(fleet).current(type_url, name).map(|item| item.version().mark());
        let mended =
            self.repeats(type_url) && sent.is_some() && sent != Some(Version::UNSURE.mark()) && sent != refused;
        if refused.is_some() && (mended || acked.is_some() && acked != refused) {
            // it has a good version of an earlier time that the fleet has not: better than none
            return Verdict::Drop;
        }
        match type_url {
            // the protocol's own rule: unknown names are answered at once
            _ if !self.envoy && forced => Verdict::Deny,
            _ if !self.envoy => {
                if sent.is_some() {
                    Verdict::Gone
                } else {
                    Verdict::Drop
                }
            }
            // there are no resources of this name to wait for
            _ if forced && is_collection(name) => Verdict::Deny,
            TypeUrl::Secret => Verdict::Drop,
            // a changed version of a cluster that is about to go: it need not get warm, the one before serves until then
            TypeUrl::Endpoints
                if !self.aggregated
                    && self.see(fleet).target(&TypeUrl::Cluster, name).is_none()
                    && self.is(&TypeUrl::Cluster, |clusters| clusters.has(name)) =>
            {
                Verdict::Drop
            }
            TypeUrl::Endpoints | TypeUrl::Route if sent == Some(Version::STAND_IN.mark()) && !forced => Verdict::Drop,
            TypeUrl::Endpoints if named && (sent.is_none() || forced) => {
                let departed = fleet.snapshot().departed_endpoints(name).cloned();
                Verdict::Send(departed.unwrap_or_else(|| stand_in(type_url.clone(), name)))
            }
            TypeUrl::Route if named && starts && (sent.is_none() || forced) => {
                Verdict::Send(stand_in(type_url.clone(), name))
            }
            _ if forced => Verdict::Deny,
            _ if sent.is_some() => Verdict::Gone,
            _ => Verdict::Drop,
        }
    }

    /// A virtual host that comes before the route configuration that asks for hosts is dropped by Envoy without a word.
    fn is_before_its_parent(&self, fleet: &Fleet, item: &Item) -> bool {
        if item.resource.type_url != TypeUrl::VirtualHost {
            return false;
        }
        let Some(parent) = route_configuration_of(item.name()) else { return false };
        self.is(&TypeUrl::Route, |routes| routes.dirty.contains(parent)) && !self.has_hosts_of(fleet, parent)
    }

    /// Resources that go together: suspects in their groups, secrets one by one, virtual hosts by route configuration, clusters
    /// and listeners all at once, the rest in responses of bounded size.
    fn batches(&mut self, type_url: &TypeUrl, items: Vec<Arc<Item>>) -> Vec<Vec<Arc<Item>>> {
        let repeats = self.repeats(type_url);
        let channel = self.channel(type_url);
        let mut batches: BTreeMap<(u64, Arc<str>), Vec<Arc<Item>>> = BTreeMap::new();
        let (mut size, mut part) = (0, 0u64);
        for item in items {
            let group = channel.suspects.get(item.name()).copied();
            let key = match type_url {
                TypeUrl::Secret => (0, Arc::clone(item.name())),
                TypeUrl::VirtualHost => (group.unwrap_or(0), route_configuration_of(item.name()).unwrap_or("").into()),
                TypeUrl::Cluster | TypeUrl::Listener => (group.unwrap_or(0), "".into()),
                _ if group.is_some() => (group.unwrap_or(0), "".into()),
                _ => {
                    size += AROUND + item.name().len() + item.resource.size();
                    part += u64::from(size > LARGEST_RESPONSE);
                    size = if size > LARGEST_RESPONSE { item.resource.size() } else { size };
                    (0, format!("{part:08}").into())
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

    /// What the resources of a response take the place of, as far as the client has it and it is gone.
    fn replaced(&self, fleet: &Fleet, type_url: &TypeUrl, batch: &[Arc<Item>]) -> Vec<Arc<str>> {
        let names = batch.iter().filter_map(|item| item.resource.replaces.as_deref());
        let gone = |name: &&Arc<str>| self.see(fleet).target(type_url, name).is_none();
        names.filter(gone).filter(|name| self.is(type_url, |channel| channel.has(name))).cloned().collect()
    }

    fn gone_hosts_of(&self, fleet: &Fleet, parent: &str) -> Vec<Arc<str>> {
        let hosts = self.channels.get(&TypeUrl::VirtualHost).filter(|_| !fleet.is_last_good());
        let Some(hosts) = hosts else { return Vec::new() };
        let free =
            |name: &Arc<str>| hosts.known.get(name).is_some_and(|known| known.sent.is_some() && known.flying == 0);
        let gone = |name: &&Arc<str>| self.see(fleet).target(&TypeUrl::VirtualHost, name).is_none() && free(name);
        hosts.dirty.iter().filter(|name| route_configuration_of(name) == Some(parent)).filter(gone).cloned().collect()
    }

    fn send_clusters(&mut self, turn: &mut Turn<'_>, puts: Vec<Arc<Item>>, removed: Vec<Arc<str>>) {
        let before = self.nonce;
        self.send(turn, &TypeUrl::Cluster, puts.clone(), removed);
        let departed = self.sets_of_departed(turn.fleet);
        self.spoke_of_clusters = true;
        let mut behind: BTreeMap<Arc<str>, Arc<Item>> =
            departed.into_iter().map(|set| (Arc::clone(set.name()), set)).collect();
        let (again, last) = (self.carried_again(before), self.nonce);
        // clusters that go out on several streams are in a response of their own each
        let new = puts.iter().map(|item| (item, self.flying(&TypeUrl::Cluster, item.name())));
        let new: Vec<(&Arc<Item>, u64)> = new.chain(again.iter().map(|item| (item, last))).collect();
        for (item, nonce) in new {
            let sets = endpoint_sets(turn.fleet, item);
            self.cluster_sent(item, nonce, &sets, turn.now);
            for set in sets.into_iter().filter(|_| self.aggregated) {
                let asked = self.is(&TypeUrl::Endpoints, |endpoints| endpoints.subscribed(&set));
                let target = self.see(turn.fleet).target(&TypeUrl::Endpoints, &set).cloned();
                let empty = asked && !turn.fleet.is_last_good();
                let target = target.or_else(|| empty.then(|| stand_in(TypeUrl::Endpoints, &set)));
                if let Some(target) = target.filter(|_| asked || !self.will_ask(&TypeUrl::Endpoints, &set)) {
                    behind.insert(set, target);
                }
            }
        }
        for batch in self.batches(&TypeUrl::Endpoints, behind.into_values().collect()) {
            self.send(turn, &TypeUrl::Endpoints, batch, Vec::new());
        }
        self.send_secrets_of(turn, &puts);
    }

    fn send_listeners(&mut self, turn: &mut Turn<'_>, puts: Vec<Arc<Item>>, removed: Vec<Arc<str>>) {
        let changed: Vec<bool> = puts.iter().map(|item| self.is(&TypeUrl::Listener, |c| c.has(item.name()))).collect();
        self.send(turn, &TypeUrl::Listener, puts.clone(), removed);
        for (item, changes) in puts.iter().zip(changed) {
            let activation = Activation { item: Arc::clone(item), acked: false, changes };
            self.activations.insert(Arc::clone(item.name()), activation);
        }
        self.send_secrets_of(turn, &puts);
    }

    /// R8: a secret behind what names it, one per response.
    fn send_secrets_of(&mut self, turn: &mut Turn<'_>, users: &[Arc<Item>]) {
        let needs = users.iter().flat_map(|item| item.resource.needs());
        let mut names: Vec<&Arc<str>> =
            needs.filter(|need| need.type_url == TypeUrl::Secret).map(|need| &need.name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let secret = self.see(turn.fleet).target(&TypeUrl::Secret, name).cloned();
            if let Some(secret) = secret.filter(|_| !self.will_ask(&TypeUrl::Secret, name)) {
                self.send(turn, &TypeUrl::Secret, vec![secret], Vec::new());
            }
        }
    }

    /// Behind a route configuration that is new to the client go all its hosts.
    fn send_routes(&mut self, turn: &mut Turn<'_>, puts: Vec<Arc<Item>>) {
        for item in &puts {
            let lost = self.lost_hosts.remove(item.name());
            let routes = self.channel(&TypeUrl::Route);
            if routes.has(item.name()) && !routes.force.contains(item.name()) && !lost {
                continue;
            }
            let hosts: Vec<Arc<str>> =
                self.see(turn.fleet).hosts_of(item.name()).map(|h| Arc::clone(h.name())).collect();
            if !hosts.is_empty() {
                let channel = self.channel(&TypeUrl::VirtualHost);
                channel.force.extend(hosts.iter().cloned());
                channel.dirty.extend(hosts);
            }
        }
        self.send(turn, &TypeUrl::Route, puts, Vec::new());
    }

    /// On a first start everything new is asked for: sending it unasked would be sending it twice.
    fn will_ask(&self, type_url: &TypeUrl, name: &str) -> bool {
        let starts = !self.resumed && !self.complete;
        (starts || !self.envoy) && !self.is(type_url, |channel: &Channel| channel.subscribed(name))
    }

    /// A first request gets an answer, if need be an empty one: Envoy waits for it before it serves.
    fn answer_first(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) {
        let first = |channel: &Channel| channel.owes_first && channel.waiting == 0 && channel.muted.is_none();
        // what was left out of a refused response is left out of the next, which is this one if there is no other
        let again = |channel: &Channel| channel.unheard && !channel.is_flying();
        if self.is(type_url, |channel| first(channel) || again(channel)) {
            self.channel(type_url).unheard = false;
            self.send(turn, type_url, Vec::new(), Vec::new());
        }
    }

    /// Whether the clusters that can be expected to warm at once have done so.
    fn others_settled(&self) -> bool {
        let cold = self.cold.values().any(|cold| !cold.item.resource.apart && cold.nonce != 0 && !cold.stalled);
        let flying = |channel: &Channel| {
            let ordinary = |item: &Arc<Item>| !item.resource.apart;
            channel.flights.iter().any(|flight| flight.puts.iter().any(ordinary) && channel.is_awaited(flight))
        };
        !cold && !self.is(&TypeUrl::Cluster, flying)
    }
}

/// The endpoint sets of a cluster: those that it names, else the one of its name, if there is one.
fn endpoint_sets(fleet: &Fleet, cluster: &Item) -> Vec<Arc<str>> {
    let named = cluster.resource.needs().filter(|need| need.type_url == TypeUrl::Endpoints);
    let named: Vec<Arc<str>> = named.map(|need| Arc::clone(&need.name)).collect();
    let own = || fleet.snapshot().target(&TypeUrl::Endpoints, cluster.name()).map(|_| Arc::clone(cluster.name()));
    if named.is_empty() { own().into_iter().collect() } else { named }
}
