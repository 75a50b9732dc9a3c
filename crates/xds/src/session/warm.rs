//! Which clusters of a client are ready for requests (R2, R3).
//!
//! The CDS acknowledgement proves it, but Envoy withholds it while any cluster warms. So for ordinary clusters there is a second
//! witness: for a new one Envoy's subscription to its endpoint set together with the acknowledgement of that set, sent behind
//! the cluster (and of its secrets); for a changed one the latter alone, because either its new or its old version serves.
//!
//! On a stream of its own the CDS acknowledgement is not withheld. It says that Envoy took the cluster, and the other two that it is
//! ready: a request for endpoints alone can be for an earlier version, whose request came late.

use std::sync::Arc;
use std::time::Duration;

use super::Session;
use super::channel::Flight;
use super::cold::Cold;
use super::known::Known;
use crate::fleet::Fleet;
use crate::resource::{Need, TypeUrl, Version};
use crate::snapshot::{Item, Look};
use crate::wire::{Nonce, StreamId};

impl Session {
    /// A cluster is wanted, or not any more.
    pub(super) fn note_cold(&mut self, fleet: &Fleet, name: &Arc<str>, now: Duration) {
        let asked = self.is(&TypeUrl::Cluster, |clusters| clusters.subscribed(name));
        let Some(item) = self.wanted(fleet, &TypeUrl::Cluster, name).filter(|_| asked) else {
            self.clusters.cold.remove(name);
            return;
        };
        let known = self.channels.get(&TypeUrl::Cluster).and_then(|clusters| clusters.known.get(name));
        let sent = known.is_some_and(|known| known.sent.is_some());
        // an acknowledgement on a stream for clusters alone does not say that it was ever ready
        let may_warm = self.clusters.came_warming && item.resource.apart;
        let ready = |known: &Known| known.acked.is_some() && (self.aggregated || known.confirmed != 0) && !may_warm;
        if sent && (known.as_ref().is_some_and(ready) || self.clusters.cold.contains(name)) {
            return;
        }
        // removed and published again while it was on its way: it was sent all the same
        let under_way = known.filter(|known| known.sent == Some(item.version().mark()));
        let under_way = under_way.map(|known| known.flying.unwrap_or(Nonce::MIN));
        let ambiguous = sent && under_way.is_none();
        let asks = fleet.snapshot().target(&TypeUrl::Endpoints, name).is_some();
        self.clusters.cold.insert(name, Cold { ambiguous, ..Cold::new(Arc::clone(item), now, under_way, asks) });
    }

    /// A cluster goes out in response `nonce`, with these endpoint sets.
    pub(super) fn cluster_sent(&mut self, item: &Arc<Item>, nonce: Option<Nonce>, sets: &[Arc<str>], now: Duration) {
        // it asked for its endpoints when it came, before it was told of any cluster
        let again = self.resumed && !self.clusters.spoken_of;
        let asked = again && self.is(&TypeUrl::Endpoints, |sets| sets.subscribed(item.name()));
        self.clusters.cold.edit(item.name(), |cold| {
            let asks = sets.contains(item.name());
            let (had, stalled) = (cold.had || asks && asked, cold.stalled);
            let ambiguous = cold.ambiguous || cold.nonce.is_some() && cold.item.version() != item.version();
            *cold = Cold { had, stalled, ambiguous, ..Cold::new(Arc::clone(item), now, nonce, asks) };
        });
        if item.resource.apart && self.envoy && self.starts() {
            self.clusters.graced.insert((now, Arc::clone(item.name())));
        }
        if lacks_witness(item) {
            self.clusters.without_witness.insert(Arc::clone(item.name()));
        } else {
            self.clusters.without_witness.remove(item.name());
        }
        let others = sets.iter().filter(|set| *set != item.name()).cloned().collect();
        self.clusters.sharers.note(item.name(), others);
        self.clusters.without_secret.forget(item.name());
    }

    /// Envoy asks for an endpoint set.
    pub(super) fn endpoints_asked_for(&mut self, fleet: &mut Fleet, set: &Arc<str>) {
        self.clusters.endpoints_asked |= self.clusters.spoken_of;
        let stream = self.asker_of(set).unwrap_or_default();
        if self.clusters.cold.get(set).is_some_and(|cold| cold.nonce.is_some() || cold.taken) {
            self.clusters.cold.edit(set, |cold| cold.subscribed = Some(stream));
            self.warm_if_witnessed(fleet, set);
        }
    }

    /// Envoy, which comes again, asks for an endpoint set that it asked for before.
    pub(super) fn endpoints_brought(&mut self, fleet: &mut Fleet, set: &Arc<str>) {
        let ready = self.clusters.cold.edit(set, |cold| {
            cold.had = true;
            cold.taken && !cold.item.resource.apart
        });
        if ready == Some(true) && !self.aggregated {
            self.clusters.cold.remove(set);
            self.confirm(fleet, &TypeUrl::Cluster, set);
        }
    }

    /// Whether a cluster that Envoy says it has may not be ready: where it has a stream for each kind it says so before that, and what it
    /// has of the endpoints on another stream.
    pub(super) fn may_be_warming(&mut self, fleet: &Fleet, item: &Arc<Item>, now: Duration) -> bool {
        let name = item.name();
        let asks = fleet.snapshot().target(&TypeUrl::Endpoints, name).is_some();
        if self.clusters.came_warming && item.resource.apart {
            // others are ready once they have their endpoints; of this one nothing but the answer to it says so
            self.clusters.cold.insert(name, Cold::new(Arc::clone(item), now, None, asks));
            let clusters = self.channel(&TypeUrl::Cluster);
            clusters.dirty.insert(Arc::clone(name));
            clusters.force.insert(Arc::clone(name));
            return true;
        }
        let ready = self.aggregated || !self.envoy || self.is(&TypeUrl::Endpoints, |sets| sets.holds(name));
        if !asks || ready {
            return false;
        }
        let new = Cold::new(Arc::clone(item), now, None, true);
        let subscribed = self.asker_of(name);
        self.clusters.cold.insert(name, Cold { taken: true, subscribed, ..new });
        true
    }

    /// There are endpoints that were not saved with their cluster: of one that Envoy said it has it waits for them.
    pub(super) fn endpoints_came(&mut self, fleet: &Fleet, set: &Arc<str>, now: Duration) {
        let Some(item) = self.see(fleet).target(&TypeUrl::Cluster, set).cloned() else { return };
        let has = |known: &Known| known.flying.is_none() && known.acked == Some(item.version().mark());
        if self.resumed
            && !self.clusters.cold.contains(set)
            && self.is(&TypeUrl::Cluster, |clusters| clusters.known.get(set).as_ref().is_some_and(has))
        {
            self.may_be_warming(fleet, &item, now);
        }
    }

    /// The stream that asks for an endpoint set.
    fn asker_of(&mut self, set: &str) -> Option<StreamId> {
        self.channel(&TypeUrl::Endpoints).carriers.of(set, true).pop()
    }

    /// Envoy has acknowledged an endpoint set that went out in this response.
    pub(super) fn endpoints_acked(&mut self, fleet: &mut Fleet, set: &Arc<str>, flight: &Flight) {
        let (nonce, aggregated) = (flight.last, self.aggregated);
        let mut clusters = vec![Arc::clone(set)];
        clusters.extend(self.clusters.sharers.of(set).cloned());
        for cluster in clusters {
            if self.clusters.without_witness.contains(&cluster) {
                continue;
            }
            let witness = |cold: &mut Cold| {
                // on a set of another name nothing tells this cluster from others, and another stream speaks of an earlier version
                let own = cluster == *set && (aggregated || cold.had || cold.subscribed == Some(flight.stream));
                cold.acked |= own && (cold.taken || cold.is_sent_by(nonce));
            };
            if self.clusters.cold.edit(&cluster, witness).is_some() {
                self.warm_if_witnessed(fleet, &cluster);
            } else if aggregated && self.channel(&TypeUrl::Cluster).witness(&cluster, nonce) {
                self.confirm(fleet, &TypeUrl::Cluster, &cluster);
            }
        }
    }

    /// The acknowledgement of a secret can be the last thing that a cluster waited for.
    pub(super) fn secret_acked(&mut self, fleet: &mut Fleet, secret: &str) {
        let waiting: Vec<Arc<str>> = self.clusters.without_secret.of(secret).cloned().collect();
        for cluster in &waiting {
            self.clusters.without_secret.forget(cluster);
            self.warm_if_witnessed(fleet, cluster);
        }
    }

    /// A new cluster is ready for requests if both witnesses say so. That Envoy asked for its endpoints proves that it took the
    /// cluster, so that it is as good as acknowledged. Of one that it had nothing proves that but the acknowledgement; it serves, with
    /// the version that was sent or the one before.
    pub(super) fn warm_if_witnessed(&mut self, fleet: &mut Fleet, name: &Arc<str>) {
        let asked = |cold: &Cold| cold.subscribed.is_some() && (self.aggregated || cold.taken);
        let witnessed = |cold: &Cold| cold.acked && (asked(cold) || cold.had) && !lacks_witness(&cold.item);
        let Some(cold) = self.clusters.cold.get(name).filter(witnessed) else { return };
        let (item, proven) = (Arc::clone(&cold.item), asked(&cold) && !(cold.ambiguous && self.aggregated));
        let mut secrets = item.resource.needs().filter(|need| need.type_url == TypeUrl::Secret);
        let lacking = secrets.find(|Need { type_url, name }| !self.is(type_url, |secrets| secrets.holds(name)));
        let lacking: Vec<Arc<str>> = lacking.map(|secret| Arc::clone(&secret.name)).into_iter().collect();
        let waits = !lacking.is_empty();
        self.clusters.without_secret.note(name, lacking);
        if waits {
            return;
        }
        self.clusters.cold.remove(name);
        let clusters = self.channel(&TypeUrl::Cluster);
        clusters.witness(name, Nonce::MAX);
        clusters.known.edit(name, |known| {
            let before = known.acked.unwrap_or(Version::FOREIGN.mark());
            known.acked = Some(if proven { item.version().mark() } else { before });
        });
        if proven {
            self.clusters.heard_of(&item);
            fleet.accept(&item);
        }
        self.confirm(fleet, &TypeUrl::Cluster, name);
    }
}

/// Whether nothing but its own acknowledgement proves a cluster warm. One that waits for secrets has theirs as witnesses.
fn lacks_witness(cluster: &Item) -> bool {
    cluster.resource.apart && !cluster.resource.needs().any(|need| need.type_url == TypeUrl::Secret)
}
