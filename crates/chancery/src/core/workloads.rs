//! What the proxies of workloads say of what users wrote for them. Nothing waits for it but statuses: `xds` alone orders what they get.

use std::sync::Arc;

use store::{FactKey, RawState};
use tracing::{debug, warn};
use xds::{Change, Event, TypeUrl, Version};

use super::facts::{objections, set_fact};
use super::{Core, replicas};

/// What the fleets of workloads begin with ([`ir::FleetName::of_workload`]).
const WORKLOAD: &str = "workload/";

/// Whether a fleet is that of a workload.
pub(crate) fn is_workload(fleet: &str) -> bool {
    fleet.starts_with(WORKLOAD)
}

/// A resource of a fleet.
type Thing<'a> = (&'a Arc<str>, &'a TypeUrl, &'a str);

fn key((fleet, type_url, name): Thing<'_>) -> FactKey {
    FactKey::of_kind(Arc::clone(fleet), replicas::kind(type_url), name)
}

impl Core {
    /// Notes what the server saw of a workload; true if a tick is due. Gives back what is of no workload.
    pub(super) fn note_of_workload(&mut self, event: Event) -> Result<bool, Event> {
        Ok(match event {
            Event::Connected { fleet, node, connected } if is_workload(&fleet) => {
                self.note_coming("connected", &fleet, &node, connected);
                self.set_connected(&fleet, connected > 0)
            }
            Event::Gone { fleet, node, connected } if is_workload(&fleet) => {
                self.note_coming("is gone", &fleet, &node, connected);
                self.set_connected(&fleet, connected > 0)
            }
            Event::ClusterWarm { fleet, name } if is_workload(&fleet) => {
                self.set_raw((&fleet, &TypeUrl::Cluster, &name), RawState::Accepted)
            }
            Event::Stalled { fleet, name, nodes } if is_workload(&fleet) => {
                if !nodes.is_empty() {
                    warn!(workload = %fleet, cluster = %name, "a cluster does not become ready; only routes to it wait");
                }
                false
            }
            Event::Accepted { fleet, type_url, name, version, .. } if is_workload(&fleet) => {
                let thing = (&fleet, &type_url, &*name);
                self.is_current(thing, version) && self.set_raw(thing, RawState::Accepted)
            }
            Event::Refused { fleet, type_url, name, version, text } if is_workload(&fleet) => {
                self.metrics.refused += 1;
                debug!(workload = %fleet, r#type = %type_url, %name, %text, "a proxy refused a resource");
                let thing = (&fleet, &type_url, &*name);
                self.is_current(thing, version) && self.set_raw(thing, RawState::Refused(text))
            }
            Event::Disputed { fleet, type_url, name, by } if is_workload(&fleet) => {
                let state = if by.is_empty() { RawState::Accepted } else { RawState::Refused(objections(&by)) };
                self.set_raw((&fleet, &type_url, &name), state)
            }
            Event::Live { fleet } if is_workload(&fleet) => false,
            other => return Err(other),
        })
    }

    /// Whether a workload has a proxy; true if that is news. What the last one said is nothing that the next one has said.
    fn set_connected(&mut self, fleet: &Arc<str>, connected: bool) -> bool {
        let published = self.published_for(fleet);
        let (store, graph) = self.translator.store();
        let (table, states) = (store.tables().connected, store.tables().raw_state);
        if connected == graph.get(table, fleet).is_some() {
            return false;
        }
        if connected {
            graph.set(table, Arc::clone(fleet), ());
        } else {
            graph.remove(table, fleet);
            for key in &published {
                graph.remove(states, key);
            }
        }
        true
    }

    /// Everything that a workload gets.
    fn published_for(&self, fleet: &Arc<str>) -> Vec<FactKey> {
        let first = FactKey { fleet: Arc::clone(fleet), name: "".into() };
        let of_fleet = self.raw.range(first..).map(|(key, _)| key).take_while(|key| key.fleet == *fleet);
        of_fleet.cloned().collect()
    }

    /// Whether it is about what was published last.
    fn is_current(&self, thing: Thing<'_>, version: Version) -> bool {
        self.raw.get(&key(thing)) == Some(&version)
    }

    /// What proxies made of a resource; true if that is news.
    fn set_raw(&mut self, thing: Thing<'_>, state: RawState) -> bool {
        let (store, graph) = self.translator.store();
        set_fact(graph, store.tables().raw_state, key(thing), state)
    }

    /// A workload is gone, with all that was known of its proxies.
    pub(super) fn forget_workload(&mut self, fleet: &Arc<str>) {
        self.set_connected(fleet, false);
        for key in self.published_for(fleet) {
            self.raw.remove(&key);
            let (store, graph) = self.translator.store();
            graph.remove(store.tables().raw_state, &key);
        }
    }

    /// What was said of an earlier version of this means nothing any more; true if there was anything.
    pub(super) fn outdate_raw(&mut self, fleet: &Arc<str>, change: &Change) -> bool {
        let (type_url, name, version) = match change {
            Change::Put(resource) => (&resource.type_url, &resource.name, Some(resource.version)),
            Change::Remove { type_url, name } => (type_url, name, None),
        };
        let key = key((fleet, type_url, name));
        let before = match version {
            Some(version) => self.raw.insert(key.clone(), version),
            None => self.raw.remove(&key),
        };
        if before == version {
            return false;
        }
        let (store, graph) = self.translator.store();
        graph.remove(store.tables().raw_state, &key)
    }
}
