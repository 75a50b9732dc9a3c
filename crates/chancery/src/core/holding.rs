//! [`Holding`]: while clusters are new to the proxies of a fleet, what else changes in it waits until they are ready.
//!
//! A route waits for its own clusters in the translator, in the form that was served. Beside it other routes and listeners change at once, so that
//! between the two requests would meet what neither the edit before nor the edit after says: a listener without its route, or the route that one
//! which is gone was before. So new clusters and what these need go out first, and the rest when they are ready, refused or late. What changes
//! meanwhile waits with it, of each resource the last: but for what is new nobody gets a later edit before an earlier one. Two things do not wait for
//! clusters of others: where the backends of a cluster are that proxies have already (those that were there may be gone), and what a grant that is
//! revoked forbids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xds::{Change, FleetUpdate, STALLED, TypeUrl, Version};

/// What the store knows of the resources of fleets.
pub(super) trait Readiness {
    /// Proxies had their first complete configuration: until then everything is delivered in Envoy's own order.
    fn is_live(&self, fleet: &Arc<str>) -> bool;
    /// The cluster is there, and nobody has said yet that it is ready, refused or late.
    fn is_awaited(&self, fleet: &Arc<str>, cluster: &Arc<str>) -> bool;
    /// The secret was not there before.
    fn is_new_secret(&self, fleet: &Arc<str>, secret: &Arc<str>) -> bool;
}

/// See the module.
#[derive(Default)]
pub(super) struct Holding(BTreeMap<Arc<str>, Waiting>);

struct Waiting {
    /// Clusters that are new.
    awaited: BTreeSet<Arc<str>>,
    /// When one of them came last.
    last: Instant,
    changes: BTreeMap<Of, Change>,
    /// What of it goes before it comes: clusters, with their endpoints, that are awaited anew.
    again: BTreeSet<Of>,
    /// As long as a proxy that keeps up may take ([`xds::Event::Stalled`]): what is not ready by then holds up nobody else.
    until: Instant,
}

/// What came just before the end has so long too, for half as long again at most: with every edit there may be another one.
const AT_LEAST: Duration = Duration::from_millis(250);

/// What a change is of.
type Of = (TypeUrl, Arc<str>);

/// What is to be published now, and the clusters (of a fleet) that were waited for as long as anybody waits.
#[derive(Default)]
pub(super) struct Passed {
    pub(super) updates: Vec<FleetUpdate>,
    pub(super) late: Vec<(Arc<str>, Arc<str>)>,
}

impl Passed {
    fn push(&mut self, fleet: &Arc<str>, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.updates.push(FleetUpdate { fleet: Arc::clone(fleet), changes });
        }
    }
}

impl Holding {
    /// What of this, and of what was held, is to be published now; of the fleets that are updated everything where a grant was `revoked` behind what is
    /// held. What a revoked grant forbids is among the updates: a grant of which a fleet has nothing ends no wait there.
    pub(super) fn pass(
        &mut self,
        updates: Vec<FleetUpdate>,
        known: &impl Readiness,
        (revoked, now): (bool, Instant),
    ) -> Passed {
        let mut passed = Passed::default();
        let updated = updates.iter().map(|update| Arc::clone(&update.fleet));
        let updated = updated.filter(|fleet| revoked && self.0.contains_key(fleet));
        let released: BTreeSet<Arc<str>> = updated.collect();
        for update in updates {
            self.pass_one(update, known, now, &mut passed);
        }
        self.0.retain(|fleet, waiting| {
            while waiting.awaited.first().is_some_and(|cluster| !known.is_awaited(fleet, cluster)) {
                waiting.awaited.pop_first();
            }
            let in_time = now < waiting.end();
            let waits = !waiting.awaited.is_empty() && in_time && known.is_live(fleet) && !released.contains(fleet);
            if !waits {
                let late = std::mem::take(&mut waiting.awaited).into_iter().filter(|_| !in_time);
                let late = late.filter(|cluster| known.is_live(fleet) && known.is_awaited(fleet, cluster));
                passed.late.extend(late.map(|cluster| (Arc::clone(fleet), cluster)));
                let again = std::mem::take(&mut waiting.again).into_iter();
                passed.push(fleet, again.map(|(type_url, name)| Change::Remove { type_url, name }).collect());
                passed.push(fleet, std::mem::take(&mut waiting.changes).into_values().collect());
            }
            waits
        });
        passed
    }

    fn pass_one(&mut self, update: FleetUpdate, known: &impl Readiness, now: Instant, passed: &mut Passed) {
        let FleetUpdate { fleet, changes } = update;
        let waiting = self.0.get(&fleet);
        let begins = |change: &Change| match change {
            Change::Put(put) => put.type_url == TypeUrl::Cluster && known.is_awaited(&fleet, &put.name),
            Change::Remove { .. } => false,
        };
        // At the start there is nobody yet, and very many clusters.
        if waiting.is_none() && !(known.is_live(&fleet) && changes.iter().any(begins)) {
            return passed.updates.push(FleetUpdate { fleet, changes });
        }
        let is_held = |key: &Of| waiting.is_some_and(|waiting| waiting.changes.contains_key(key));
        let is_new = |(type_url, name): &Of| match type_url {
            TypeUrl::Cluster | TypeUrl::Endpoints => {
                known.is_awaited(&fleet, name) && !is_held(&(TypeUrl::Cluster, Arc::clone(name)))
            }
            TypeUrl::Secret => known.is_new_secret(&fleet, name),
            _ => false,
        };
        let clusters: BTreeSet<Of> = changes.iter().map(of).filter(|(kind, _)| *kind == TypeUrl::Cluster).collect();
        // Of the edit that begins it endpoints are a part.
        let moves = |(type_url, name): &Of| {
            *type_url == TypeUrl::Endpoints
                && waiting.is_some_and(|waiting| waiting.has_cluster(name))
                && !known.is_awaited(&fleet, name)
                && !clusters.contains(&(TypeUrl::Cluster, Arc::clone(name)))
        };
        let goes_first = |change: &Change| {
            let key = of(change);
            matches!(change, Change::Put(_)) && (moves(&key) || !is_held(&key) && is_new(&key))
        };
        let (first, rest): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(goes_first);
        let awaited = first.iter().map(of).filter(|(type_url, _)| *type_url == TypeUrl::Cluster);
        let awaited: Vec<Arc<str>> = awaited.map(|(_, name)| name).collect();
        let waiting = self.0.entry(Arc::clone(&fleet)).or_insert_with(|| Waiting {
            awaited: BTreeSet::new(),
            changes: BTreeMap::new(),
            again: BTreeSet::new(),
            last: now,
            until: now + STALLED,
        });
        if !awaited.is_empty() {
            waiting.last = now;
        }
        waiting.awaited.extend(awaited);
        for change in &first {
            waiting.changes.remove(&of(change));
        }
        rest.into_iter().for_each(|change| waiting.keep(change));
        passed.push(&fleet, first);
    }

    /// Listeners that are to become these versions, or to go (none).
    pub(super) fn listeners(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, Option<Version>)> {
        let first = (TypeUrl::Listener, Arc::from(""));
        let is_one = |((type_url, _), _): &(&Of, &Change)| *type_url == TypeUrl::Listener;
        self.0.iter().flat_map(move |(fleet, waiting)| {
            let listeners = waiting.changes.range(first.clone()..).take_while(is_one);
            listeners.map(move |((_, name), change)| match change {
                Change::Put(resource) => (fleet, name, Some(resource.version)),
                Change::Remove { .. } => (fleet, name, None),
            })
        })
    }

    /// Whether changes of this fleet wait.
    pub(super) fn holds(&self, fleet: &Arc<str>) -> bool {
        self.0.contains_key(fleet)
    }

    /// When something is to be published though nothing has happened.
    pub(super) fn wakes(&self) -> Option<Instant> {
        self.0.values().map(Waiting::end).min()
    }
}

impl Waiting {
    fn end(&self) -> Instant {
        self.until.max((self.last + AT_LEAST).min(self.until + STALLED / 2))
    }

    /// Proxies have this cluster, and its endpoints, as they are to be behind what waits.
    fn has_cluster(&self, name: &Arc<str>) -> bool {
        let endpoints = (TypeUrl::Endpoints, Arc::clone(name));
        let goes = matches!(self.changes.get(&endpoints), Some(Change::Remove { .. }));
        !goes && !self.again.contains(&endpoints) && !self.changes.contains_key(&(TypeUrl::Cluster, Arc::clone(name)))
    }

    fn keep(&mut self, change: Change) {
        let key = of(&change);
        let was_to_go = matches!(self.changes.get(&key), Some(Change::Remove { .. }));
        match change {
            Change::Remove { .. } => drop(self.again.remove(&key)),
            Change::Put(_) if was_to_go && [TypeUrl::Cluster, TypeUrl::Endpoints].contains(&key.0) => {
                self.again.insert(key.clone());
            }
            Change::Put(_) => {}
        }
        self.changes.insert(key, change);
    }
}

fn of(change: &Change) -> Of {
    match change {
        Change::Put(resource) => (resource.type_url.clone(), Arc::clone(&resource.name)),
        Change::Remove { type_url, name } => (type_url.clone(), Arc::clone(name)),
    }
}

#[cfg(test)]
mod tests;
