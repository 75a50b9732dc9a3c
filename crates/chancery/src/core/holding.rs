//! [`Holding`]: while clusters are new to the proxies of a fleet, what else changes in it waits until they are ready.
//!
//! A route waits for its own clusters in the translator, in the form that was served. Beside it other routes and listeners change at once, so that
//! between the two requests would meet what neither the edit before nor the edit after says: a listener without its route, or the route that one
//! which is gone was before. So clusters, their endpoints and secrets go out first, and the rest when they are ready, refused or late. What changes
//! meanwhile waits with it, of each resource the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use xds::{Change, FleetUpdate, STALLED, TypeUrl, Version};

/// What the store knows of the clusters of fleets.
pub(super) trait Readiness {
    /// Proxies had their first complete configuration: until then everything is delivered in Envoy's own order.
    fn is_live(&self, fleet: &Arc<str>) -> bool;
    /// It is there, and nobody has said yet that it is ready, refused or late.
    fn is_awaited(&self, fleet: &Arc<str>, cluster: &Arc<str>) -> bool;
}

/// See the module.
#[derive(Default)]
pub(super) struct Holding(BTreeMap<Arc<str>, Waiting>);

struct Waiting {
    /// Clusters that are new.
    awaited: BTreeSet<Arc<str>>,
    changes: BTreeMap<Of, Change>,
    /// As long as a proxy that keeps up may take ([`xds::Event::Stalled`]): what is not ready by then holds up nobody else.
    until: Instant,
}

/// What a change is of.
type Of = (TypeUrl, Arc<str>);

impl Holding {
    /// What of this, and of what was held, is to be published now.
    pub(super) fn pass(&mut self, updates: Vec<FleetUpdate>, known: &impl Readiness, now: Instant) -> Vec<FleetUpdate> {
        let mut passed = Vec::with_capacity(updates.len());
        for update in updates {
            self.pass_one(update, known, now, &mut passed);
        }
        self.0.retain(|fleet, waiting| {
            while waiting.awaited.first().is_some_and(|cluster| !known.is_awaited(fleet, cluster)) {
                waiting.awaited.pop_first();
            }
            let waits = !waiting.awaited.is_empty() && now < waiting.until && known.is_live(fleet);
            if !waits {
                let changes = std::mem::take(&mut waiting.changes).into_values().collect();
                passed.push(FleetUpdate { fleet: Arc::clone(fleet), changes });
            }
            waits
        });
        passed
    }

    fn pass_one(&mut self, update: FleetUpdate, known: &impl Readiness, now: Instant, passed: &mut Vec<FleetUpdate>) {
        let FleetUpdate { fleet, changes } = update;
        // At the start there is nobody yet, and very many clusters.
        if !self.0.contains_key(&fleet) && !known.is_live(&fleet) {
            return passed.push(FleetUpdate { fleet, changes });
        }
        let is_new = |change: &Change| match change {
            Change::Put(resource) if resource.type_url == TypeUrl::Cluster => {
                known.is_awaited(&fleet, &resource.name).then(|| Arc::clone(&resource.name))
            }
            _ => None,
        };
        let awaited: BTreeSet<Arc<str>> = changes.iter().filter_map(is_new).collect();
        if awaited.is_empty() && !self.0.contains_key(&fleet) {
            return passed.push(FleetUpdate { fleet, changes });
        }
        let (first, rest): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(goes_first);
        let waiting = self.0.entry(Arc::clone(&fleet)).or_insert_with(|| Waiting {
            awaited: BTreeSet::new(),
            changes: BTreeMap::new(),
            until: now + STALLED,
        });
        waiting.awaited.extend(awaited);
        let back = waiting.take_back(&first);
        waiting.changes.extend(rest.into_iter().map(|change| (of(&change), change)));
        for changes in [back, first] {
            if !changes.is_empty() {
                passed.push(FleetUpdate { fleet: Arc::clone(&fleet), changes });
            }
        }
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

    /// When something is to be published though nothing has happened.
    pub(super) fn wakes(&self) -> Option<Instant> {
        self.0.values().map(|waiting| waiting.until).min()
    }
}

impl Waiting {
    /// Removals of what is there again now. Those of clusters and endpoints are published before it, so that it is awaited anew.
    fn take_back(&mut self, puts: &[Change]) -> Vec<Change> {
        let removals = puts.iter().filter_map(|put| self.changes.remove(&of(put)));
        removals.filter(|removal| of(removal).0 != TypeUrl::Secret).collect()
    }
}

/// Clusters, and what these need.
fn goes_first(change: &Change) -> bool {
    let is_needed = |resource: &Arc<xds::Resource>| {
        [TypeUrl::Cluster, TypeUrl::Endpoints, TypeUrl::Secret].contains(&resource.type_url)
    };
    matches!(change, Change::Put(resource) if is_needed(resource))
}

fn of(change: &Change) -> Of {
    match change {
        Change::Put(resource) => (resource.type_url.clone(), Arc::clone(&resource.name)),
        Change::Remove { type_url, name } => (type_url.clone(), Arc::clone(name)),
    }
}

#[cfg(test)]
mod tests;
