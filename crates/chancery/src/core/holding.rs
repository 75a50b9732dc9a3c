//! [`Holding`]: what names others waits until these are ready, together with all else that comes, changes or goes in the same edit.
//!
//! A route waits for its own clusters in the translator, in the form that was served. Beside it other routes and listeners change at once, so that
//! between the two requests would meet what neither the edit before nor the edit after says: a listener without its route, or the route that one
//! which is gone was before. So clusters, their endpoints and secrets go out first, and the rest when they are ready, refused or late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xds::{Change, FleetUpdate, TypeUrl};

/// What is not ready by then holds up nobody else: as long as a proxy that keeps up may take ([`xds::Event::Stalled`]).
const LONGEST: Duration = Duration::from_secs(2);

/// What the store knows of fleets.
pub(super) trait Facts {
    /// Proxies have their first complete configuration: until then everything is delivered in Envoy's own order.
    fn is_live(&self, fleet: &Arc<str>) -> bool;
    /// It is there, and nobody has said yet that it is ready, refused or late.
    fn is_awaited(&self, fleet: &Arc<str>, cluster: &Arc<str>) -> bool;
}

/// See the module.
#[derive(Default)]
pub(super) struct Holding(BTreeMap<Arc<str>, Held>);

struct Held {
    /// Clusters that are new.
    awaited: BTreeSet<Arc<str>>,
    changes: Vec<Change>,
    until: Instant,
}

impl Holding {
    /// What of this, and of what was held, is to be published now.
    pub(super) fn pass(&mut self, updates: Vec<FleetUpdate>, facts: &impl Facts, now: Instant) -> Vec<FleetUpdate> {
        let mut passed = Vec::with_capacity(updates.len());
        for update in updates {
            self.pass_one(update, facts, now, &mut passed);
        }
        self.0.retain(|fleet, held| {
            held.awaited.retain(|cluster| facts.is_awaited(fleet, cluster));
            let waits = !held.awaited.is_empty() && now < held.until && facts.is_live(fleet);
            if !waits {
                let changes = std::mem::take(&mut held.changes);
                passed.push(FleetUpdate { fleet: Arc::clone(fleet), changes });
            }
            waits
        });
        passed
    }

    fn pass_one(&mut self, update: FleetUpdate, facts: &impl Facts, now: Instant, passed: &mut Vec<FleetUpdate>) {
        let FleetUpdate { fleet, changes } = update;
        // At the start there is nobody yet, and very many clusters.
        if !self.0.contains_key(&fleet) && !facts.is_live(&fleet) {
            return passed.push(FleetUpdate { fleet, changes });
        }
        let is_new = |change: &Change| match change {
            Change::Put(resource) if resource.type_url == TypeUrl::Cluster => {
                facts.is_awaited(&fleet, &resource.name).then(|| Arc::clone(&resource.name))
            }
            _ => None,
        };
        let awaited: BTreeSet<Arc<str>> = changes.iter().filter_map(is_new).collect();
        if awaited.is_empty() && !self.0.contains_key(&fleet) {
            return passed.push(FleetUpdate { fleet, changes });
        }
        let (first, rest): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(goes_first);
        let held = self.0.entry(Arc::clone(&fleet)).or_insert_with(|| Held {
            awaited: BTreeSet::new(),
            changes: Vec::new(),
            until: now + LONGEST,
        });
        held.awaited.extend(awaited);
        let back = held.take_back(&first);
        held.changes.extend(rest);
        for changes in [back, first] {
            if !changes.is_empty() {
                passed.push(FleetUpdate { fleet: Arc::clone(&fleet), changes });
            }
        }
    }

    /// A fleet is no more.
    pub(super) fn forget(&mut self, fleet: &Arc<str>) {
        self.0.remove(fleet);
    }

    /// When something is to be published though nothing has happened.
    pub(super) fn wakes(&self) -> Option<Instant> {
        self.0.values().map(|held| held.until).min()
    }
}

impl Held {
    /// Removals of what is there again now. They are published before it, so that it is awaited anew.
    fn take_back(&mut self, puts: &[Change]) -> Vec<Change> {
        let names: BTreeSet<(&TypeUrl, &str)> = puts.iter().map(name).collect();
        self.changes
            .extract_if(.., |change| matches!(change, Change::Remove { .. }) && names.contains(&name(change)))
            .collect()
    }
}

/// What others name.
fn goes_first(change: &Change) -> bool {
    let is_named = |resource: &Arc<xds::Resource>| {
        [TypeUrl::Cluster, TypeUrl::Endpoints, TypeUrl::Secret].contains(&resource.type_url)
    };
    matches!(change, Change::Put(resource) if is_named(resource))
}

fn name(change: &Change) -> (&TypeUrl, &str) {
    match change {
        Change::Put(resource) => (&resource.type_url, &*resource.name),
        Change::Remove { type_url, name } => (type_url, &**name),
    }
}

#[cfg(test)]
mod tests;
