//! The steps that bring something new.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::channel::{Channel, Flight};
use super::clusters::Cure;
use super::judge::Ready;
use super::{Activation, Session, Turn};
use crate::empty::stand_in;
use crate::fleet::Fleet;
use crate::resource::{TypeUrl, route_configuration_of};
use crate::snapshot::{Item, Look};
use crate::wire::Nonce;

impl Session {
    /// Clusters, with their endpoint sets and secrets right behind.
    pub(super) fn put_clusters(&mut self, turn: &mut Turn<'_>) {
        for Cure { puts, removed } in std::mem::take(&mut self.clusters.cures) {
            let names: Vec<Arc<str>> = puts.iter().map(|item| Arc::clone(item.name())).chain(removed.clone()).collect();
            self.send_clusters(turn, puts, removed);
            let clusters = self.channel(&TypeUrl::Cluster);
            clusters.dirty.extend(names.iter().cloned());
            if let Some(flight) = clusters.flights.back_mut() {
                flight.cure = true;
            }
            // what was sent away to be tried again is not ready
            names.iter().for_each(|name| self.note_cold(turn.fleet, name, turn.now));
        }
        if !self.is(&TypeUrl::Cluster, |clusters| clusters.opened) {
            return;
        }
        let Ready { puts, denied } = self.sort_out(turn, &TypeUrl::Cluster);
        // the first response of a SotW stream takes away what is not in it
        let at_once = self.repeats(&TypeUrl::Cluster) && self.resumed && !self.clusters.spoken_of;
        let (apart, ordinary): (Vec<_>, Vec<_>) = puts.into_iter().partition(|item| item.resource.apart && !at_once);
        let batches = self.batches(&TypeUrl::Cluster, ordinary);
        let mut along = self.deny_before(turn, &TypeUrl::Cluster, denied, &batches);
        for batch in batches {
            along.extend(self.replaced(turn.fleet, &TypeUrl::Cluster, &batch));
            self.send_clusters(turn, batch, std::mem::take(&mut along));
        }
        if !apart.is_empty() && self.others_settled() && self.has_begun_clusters(turn.now) {
            let together = if self.repeats(&TypeUrl::Cluster) { apart.len().max(1) } else { 1 };
            for items in apart.chunks(together) {
                self.send_clusters(turn, items.to_vec(), Vec::new());
            }
        }
        self.respond_first(turn, &TypeUrl::Cluster);
    }

    /// Resources of a kind that needs nothing special but its order.
    pub(super) fn put(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) {
        let Ready { puts, denied } = self.sort_out(turn, type_url);
        let batches = self.batches(type_url, puts);
        let mut along = self.deny_before(turn, type_url, denied, &batches);
        for batch in batches {
            along.extend(self.replaced(turn.fleet, type_url, &batch));
            let along = std::mem::take(&mut along);
            match type_url {
                TypeUrl::Listener => self.send_listeners(turn, batch, along),
                TypeUrl::Route => self.send_routes(turn, batch),
                _ => self.send(turn, type_url, batch, along),
            }
        }
        if *type_url == TypeUrl::Listener {
            self.respond_first(turn, type_url);
        }
    }

    /// Virtual hosts of VHDS, one response per route configuration; what is gone from it goes in the same, so that a domain can
    /// move from host to host. The next waits for the answer: for each, Envoy makes the whole route configuration anew, and what
    /// changes meanwhile costs no more than one change if it goes together.
    pub(super) fn put_virtual_hosts(&mut self, turn: &mut Turn<'_>) {
        let kind = TypeUrl::VirtualHost;
        if std::mem::take(&mut self.hosts_asked) {
            let none = self.without_hosts(turn.fleet);
            if !none.is_empty() {
                self.send(turn, &kind, Vec::new(), none);
            }
        }
        if !self.channels.contains_key(&kind) {
            return;
        }
        let Ready { puts, denied } = self.sort_out(turn, &kind);
        self.deny(turn, &kind, denied);
        for batch in self.batches(&kind, puts) {
            let parent = batch.first().and_then(|item| route_configuration_of(item.name())).map(str::to_owned);
            if parent.as_deref().is_some_and(|parent| self.is_taking_hosts_of(parent, &batch)) {
                self.channel(&kind).waiting += batch.len();
                continue;
            }
            let mut removed = self.replaced(turn.fleet, &kind, &batch);
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

    /// Denies these names before what is sent, or gives those back that go in the same response: one before it that repeats everything would
    /// take away what was not sent yet, and be all that Envoy answers for while a cluster warms.
    fn deny_before(
        &mut self,
        turn: &mut Turn<'_>,
        type_url: &TypeUrl,
        denied: Vec<Arc<str>>,
        batches: &[Vec<Arc<Item>>],
    ) -> Vec<Arc<str>> {
        if self.repeats(type_url) && !batches.is_empty() {
            return denied;
        }
        self.deny(turn, type_url, denied);
        Vec::new()
    }

    /// What the resources of a response take the place of, as far as the client has it and it is gone.
    fn replaced(&self, fleet: &Fleet, type_url: &TypeUrl, batch: &[Arc<Item>]) -> Vec<Arc<str>> {
        let names = batch.iter().filter_map(|item| item.resource.replaces.as_deref());
        let gone = |name: &&Arc<str>| self.see(fleet).target(type_url, name).is_none();
        names.filter(gone).filter(|name| self.is(type_url, |channel| channel.has(name))).cloned().collect()
    }

    /// Whether hosts of this route configuration are on their way. Those under suspicion are each tried by themselves, all at once, and hold
    /// nobody up.
    fn is_taking_hosts_of(&self, parent: &str, batch: &[Arc<Item>]) -> bool {
        let of_parent = |item: &Arc<Item>| route_configuration_of(item.name()) == Some(parent);
        self.is(&TypeUrl::VirtualHost, |hosts| {
            let is_tried = || batch.iter().any(|item| hosts.suspects.contains_key(item.name()));
            let flies = |flight: &Flight| {
                flight.puts.iter().any(of_parent) && !hosts.is_trial(flight) && hosts.is_awaited(flight)
            };
            hosts.flights.iter().any(flies) && !is_tried()
        })
    }

    fn gone_hosts_of(&self, fleet: &Fleet, parent: &str) -> Vec<Arc<str>> {
        let hosts = self.channels.get(&TypeUrl::VirtualHost).filter(|_| !fleet.is_last_good());
        let Some(hosts) = hosts else { return Vec::new() };
        let free =
            |name: &Arc<str>| hosts.known.get(name).is_some_and(|known| known.sent.is_some() && known.flying.is_none());
        let gone = |name: &&Arc<str>| self.see(fleet).target(&TypeUrl::VirtualHost, name).is_none() && free(name);
        hosts.dirty.iter().filter(|name| route_configuration_of(name) == Some(parent)).filter(gone).cloned().collect()
    }

    fn send_clusters(&mut self, turn: &mut Turn<'_>, puts: Vec<Arc<Item>>, removed: Vec<Arc<str>>) {
        let next = self.nonce;
        self.send(turn, &TypeUrl::Cluster, puts.clone(), removed);
        let departed = self.sets_of_departed(turn.fleet);
        let mut behind: BTreeMap<Arc<str>, Arc<Item>> =
            departed.into_iter().map(|set| (Arc::clone(set.name()), set)).collect();
        let (again, last) = (self.carried_again(next), Nonce::new(self.nonce.get() - 1));
        if let Some(flight) = self.channels.get(&TypeUrl::Cluster).and_then(|clusters| clusters.flights.back()) {
            self.clusters.cold.sent_together(&flight.puts, flight.last, turn.now);
        }
        // clusters that go out on several streams are in a response of their own each
        let new = puts.iter().map(|item| (item, self.flying(&TypeUrl::Cluster, item.name())));
        let new: Vec<(&Arc<Item>, Option<Nonce>)> = new.chain(again.iter().map(|item| (item, last))).collect();
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
        self.clusters.spoken_of = true;
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

    /// R8: a secret behind what names it, one per response. A cluster of names asks for its own when these are resolved; where it is the first to
    /// ask for any, Envoy would drop what comes before, and be answered only when nobody waits for that any more.
    fn send_secrets_of(&mut self, turn: &mut Turn<'_>, users: &[Arc<Item>]) {
        let is_asked = self.is(&TypeUrl::Secret, |secrets| secrets.opened);
        let fleet = &*turn.fleet;
        let asks_late =
            |item: &Arc<Item>| item.resource.type_url == TypeUrl::Cluster && endpoint_sets(fleet, item).is_empty();
        let users = users.iter().filter(|item| is_asked || !asks_late(item));
        let needs = users.flat_map(|item| item.resource.needs());
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

    /// Behind a route configuration that is new to the client go all its hosts. If it has none, Envoy waits for them all the same: it is told
    /// that there is none of some name, as it takes an empty response for no answer (measured).
    fn send_routes(&mut self, turn: &mut Turn<'_>, puts: Vec<Arc<Item>>) {
        let mut without: Vec<Arc<str>> = Vec::new();
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
            } else if self.envoy && item.resource.vhds {
                without.push(none_of(item.name()));
            }
        }
        self.send(turn, &TypeUrl::Route, puts, Vec::new());
        for name in without {
            self.send(turn, &TypeUrl::VirtualHost, Vec::new(), vec![name]);
        }
    }

    /// Where hosts have streams of their own Envoy opens one once it has the route configuration: only then it can be told that there is
    /// none. It does not say which configuration the stream is for, so that each is told what concerns all; of others Envoy takes no
    /// notice (measured). Nor does a client that comes again take notice of what it was told before.
    fn without_hosts(&self, fleet: &Fleet) -> Vec<Arc<str>> {
        let Some(routes) = self.channels.get(&TypeUrl::Route) else { return Vec::new() };
        let asking = fleet.snapshot().targets(&TypeUrl::Route).filter(|item| item.resource.vhds);
        let known = asking.map(|item| item.name()).filter(|name| routes.has(name));
        known.filter(|name| self.see(fleet).hosts_of(name).next().is_none()).map(|name| none_of(name)).collect()
    }

    /// On a first start everything new is asked for: sending it unasked would be sending it twice.
    fn will_ask(&self, type_url: &TypeUrl, name: &str) -> bool {
        (self.starts() || !self.envoy) && !self.is(type_url, |channel: &Channel| channel.subscribed(name))
    }

    /// A first request gets an answer, if need be an empty one: Envoy waits for it before it serves.
    fn respond_first(&mut self, turn: &mut Turn<'_>, type_url: &TypeUrl) {
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
        let cold = self
            .clusters
            .cold
            .iter()
            .any(|(_, cold)| !cold.item.resource.apart && cold.nonce.is_some() && !cold.stalled);
        let flying = |channel: &Channel| {
            let ordinary = |item: &Arc<Item>| !item.resource.apart;
            channel.flights.iter().any(|flight| flight.puts.iter().any(ordinary) && channel.is_awaited(flight))
        };
        !cold && !self.is(&TypeUrl::Cluster, flying)
    }
}

/// A host that there is not, of a route configuration that has none.
fn none_of(route_configuration: &str) -> Arc<str> {
    format!("{route_configuration}/none").into()
}

/// The endpoint sets of a cluster: those that it names, else the one of its name, if there is one.
fn endpoint_sets(fleet: &Fleet, cluster: &Item) -> Vec<Arc<str>> {
    let named = cluster.resource.needs().filter(|need| need.type_url == TypeUrl::Endpoints);
    let named: Vec<Arc<str>> = named.map(|need| Arc::clone(&need.name)).collect();
    let own = || fleet.snapshot().target(&TypeUrl::Endpoints, cluster.name()).map(|_| Arc::clone(cluster.name()));
    if named.is_empty() { own().into_iter().collect() } else { named }
}
