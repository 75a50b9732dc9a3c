//! What the proxies of workloads say of what users wrote for them. Nothing waits for it but statuses: `xds` alone orders what they get.

use std::sync::Arc;

use api::pod::PodSpec;
use api::{Kind, ObjectKey, ObjectMeta, Pod};
use ir::FleetName;
use store::{FactKey, RawState};
use tracing::{debug, warn};
use translator::InFleet;
use xds::{Change, Event, Node, TypeUrl, Version};

use super::facts::{objections, set_fact};
use super::replicas::{Answered, WorkloadSaid};
use super::{Core, replicas};
use crate::publish::{ResourceKey, named};

#[cfg(test)]
mod tests;

/// What the names of endpoints begin with ([`FactKey::of_kind`]).
const ENDPOINTS: &str = "ClusterLoadAssignment ";

/// Whether a fleet is that of a workload.
pub(crate) fn is_workload(fleet: &str) -> bool {
    FleetName::workload_of(fleet).is_some()
}

/// A resource of a fleet.
type Thing<'a> = (&'a Arc<str>, &'a TypeUrl, &'a str);

/// So many refusals of one resource are remembered: with 400 objects to blame among many each is found in some 10 tries. One takes 200 bytes, all of one
/// resource 800 KB.
const MOST_REFUSALS: usize = 4_096;

fn is_endpoints(key: &FactKey) -> bool {
    key.name.starts_with(ENDPOINTS)
}

fn key((fleet, type_url, name): Thing<'_>) -> FactKey {
    FactKey::of_kind(Arc::clone(fleet), replicas::kind(type_url), name)
}

fn target((fleet, type_url, name): Thing<'_>) -> Option<ResourceKey> {
    Some(InFleet { fleet: FleetName(Arc::clone(fleet)), name: named(type_url, &name.into())? })
}

impl Core {
    /// Notes what the server saw of a workload; true if a tick is due. Gives back what is of no workload.
    pub(super) fn note_of_workload(&mut self, event: Event) -> Result<bool, Event> {
        Ok(match event {
            Event::Connected { fleet, node, connected } if is_workload(&fleet) => {
                self.note_coming("connected", &fleet, &node, connected);
                self.note_labels(&fleet, Some(&node)) | self.note_proxies(&fleet, connected)
            }
            Event::Gone { fleet, node, connected } if is_workload(&fleet) => {
                self.note_coming("is gone", &fleet, &node, connected);
                let gone = connected == 0 && self.note_labels(&fleet, None);
                let due = gone | self.note_proxies(&fleet, connected);
                if connected == 0 {
                    self.note_left(&fleet);
                }
                due
            }
            Event::ClusterWarm { fleet, name } if is_workload(&fleet) => {
                self.set_raw((&fleet, &TypeUrl::Cluster, &name), RawState::Accepted)
            }
            Event::Stalled { fleet, name, nodes, .. } if is_workload(&fleet) => {
                if !nodes.is_empty() {
                    warn!(workload = %fleet, cluster = %name, "a cluster does not become ready; only routes to it wait");
                }
                false
            }
            Event::Accepted { fleet, type_url, name, version, .. } if is_workload(&fleet) => {
                let thing = (&fleet, &type_url, &*name);
                self.is_current(thing, version)
                    && (self.set_raw(thing, RawState::Accepted) | self.note_joint_acceptance(thing))
            }
            Event::Refused { fleet, type_url, name, version, text, .. } if is_workload(&fleet) => {
                self.metrics.refused += 1;
                debug!(workload = %fleet, r#type = %type_url, %name, %text, "a proxy refused a resource");
                let thing = (&fleet, &type_url, &*name);
                self.is_current(thing, version)
                    && (self.note_joint_refusal(thing, &text) | self.set_raw(thing, RawState::Refused(text)))
            }
            Event::Disputed { fleet, type_url, name, by } if is_workload(&fleet) => {
                let state = if by.is_empty() { RawState::Accepted } else { RawState::Refused(objections(&by)) };
                self.set_raw((&fleet, &type_url, &name), state)
            }
            Event::Live { fleet } if is_workload(&fleet) => false,
            other => return Err(other),
        })
    }

    /// Where that is asked for, a workload that no source has is there as long as a proxy says so, with the labels that it says; true if that is news.
    fn note_labels(&mut self, fleet: &Arc<str>, node: Option<&Node>) -> bool {
        let Some(said) = &mut self.said_labels else { return false };
        let Some((namespace, name)) =
            FleetName(Arc::clone(fleet)).workload().map(|(a, b)| (a.to_owned(), b.to_owned()))
        else {
            return false;
        };
        let (key, ours) = (ObjectKey::of(Kind::Pod, &namespace, &name), said.remove(fleet));
        let (store, graph) = self.translator.store();
        let pods = store.tables().pods;
        let known = graph.get(pods, &key);
        let is_ours = known.is_none() || known.zip(ours.as_ref()).is_some_and(|(known, ours)| Arc::ptr_eq(known, ours));
        match node {
            // A source has said it meanwhile.
            _ if !is_ours => false,
            None => graph.remove(pods, &key),
            Some(node) => {
                let mut meta = ObjectMeta::new(key.clone());
                meta.labels = node.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
                let pod = Arc::new(Pod { meta, spec: PodSpec::default() });
                said.insert(Arc::clone(fleet), Arc::clone(&pod));
                graph.set(pods, key, pod);
                true
            }
        }
    }

    /// So many proxies of a workload are connected to us; true if that is news.
    fn note_proxies(&mut self, fleet: &Arc<str>, connected: usize) -> bool {
        let (had, has) = (self.replicas.has_workload(fleet), connected > 0);
        self.replicas.note_workload(fleet, connected);
        match (had, has) {
            // What another replica said of it is not what this one says.
            (false, true) => self.set_connected(fleet, false) | self.set_connected(fleet, true),
            (_, true) => self.set_connected(fleet, true),
            (_, false) => self.set_connected(fleet, false) | self.settle_workload(fleet),
        }
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
            for (key, _) in &published {
                graph.remove(states, key);
            }
            // Another proxy may be of another mind.
            published.iter().for_each(|(key, _)| _ = self.forget_refusals(key));
        }
        true
    }

    /// Writes what follows from what other replicas say of a workload that has no proxy here; true if that is news.
    pub(super) fn settle_workload(&mut self, fleet: &Arc<str>) -> bool {
        if self.replicas.has_workload(fleet) || !self.replicas.hears() {
            return false;
        }
        let Some(said) = self.replicas.workload(fleet) else { return self.set_connected(fleet, false) };
        let published = self.published_for(fleet);
        let answered = published.iter().filter(|(key, _)| !said.awaited.contains(&key.name) && !is_endpoints(key));
        let wanted = answered.fold(Answered::default(), |all, (key, version)| all.and(&key.name, *version));
        let mut news = self.set_connected(fleet, true);
        for (key, _) in published {
            let refused = said.refused.get(&key.name);
            let answered = said.answered == wanted && !said.awaited.contains(&key.name);
            if answered && refused.is_none() {
                let target = replicas::split(&key.name).and_then(|(url, name)| target((fleet, &url, &name)));
                news |= target.is_some_and(|target| self.translator.note_accepted(&target));
            }
            let (store, graph) = self.translator.store();
            let states = store.tables().raw_state;
            news |= match refused {
                _ if said.awaited.contains(&key.name) => graph.remove(states, &key),
                // It is about other versions of some. What it said of those that have not changed here still holds.
                _ if !answered => false,
                Some(words) => set_fact(graph, states, key, RawState::Refused(Arc::clone(words))),
                None => set_fact(graph, states, key, RawState::Accepted),
            };
        }
        news
    }

    /// Gathers what is to be told of workloads, and tells it with all else.
    pub(super) fn tell_replicas(&mut self) {
        for fleet in self.replicas.changed_workloads() {
            let states = self.translator.stored().tables().raw_state;
            let mut said = WorkloadSaid::default();
            for (key, version) in self.published_for(&fleet) {
                match self.translator.graph().get(states, &key) {
                    // Nobody tells of acknowledged endpoints.
                    None if is_endpoints(&key) => continue,
                    None => {
                        said.awaited.insert(key.name);
                        continue;
                    }
                    Some(RawState::Refused(words)) => {
                        drop(said.refused.insert(Arc::clone(&key.name), Arc::clone(words)))
                    }
                    Some(RawState::Accepted) => {}
                }
                if is_endpoints(&key) {
                    continue;
                }
                said.answered = said.answered.and(&key.name, version);
            }
            self.replicas.say(&fleet, said);
        }
        self.replicas.tell();
    }

    /// Everything that a workload gets.
    fn published_for(&self, fleet: &Arc<str>) -> Vec<(FactKey, Version)> {
        let first = FactKey { fleet: Arc::clone(fleet), name: "".into() };
        let of_fleet = self.raw.range(first..).take_while(|(key, _)| key.fleet == *fleet);
        of_fleet.map(|(key, version)| (key.clone(), *version)).collect()
    }

    /// Whether it is about what was published last.
    fn is_current(&self, thing: Thing<'_>, version: Version) -> bool {
        self.raw.get(&key(thing)) == Some(&version)
    }

    /// Where several objects make a resource, which of them is to blame has to be found out; true if a tick is due for that.
    fn note_joint_refusal(&mut self, thing: Thing<'_>, words: &Arc<str>) -> bool {
        let mark = target(thing).and_then(|target| self.translator.mark_of(&target));
        mark.is_some_and(|mark| self.note_refusal(key(thing), mark, words, MOST_REFUSALS))
    }

    /// The same of what is accepted.
    fn note_joint_acceptance(&mut self, thing: Thing<'_>) -> bool {
        let Some(target) = target(thing) else { return false };
        let mark = self.translator.mark_of(&target);
        let found_out = mark.is_some_and(|mark| self.note_acceptance(&key(thing), mark));
        self.translator.note_accepted(&target) | found_out
    }

    /// What proxies made of a resource; true if that is news.
    fn set_raw(&mut self, thing: Thing<'_>, state: RawState) -> bool {
        self.replicas.touch(thing.0);
        let (store, graph) = self.translator.store();
        set_fact(graph, store.tables().raw_state, key(thing), state)
    }

    /// The last proxy of a workload is gone for which there is nothing.
    fn note_left(&mut self, fleet: &Arc<str>) {
        if self.leaving.remove(&FleetName(Arc::clone(fleet))) {
            self.server.forget(fleet);
            self.forget_workload(fleet);
            self.send_workloads();
        }
    }

    /// A workload is gone, with all that was known of its proxies.
    pub(super) fn forget_workload(&mut self, fleet: &Arc<str>) {
        self.set_connected(fleet, false);
        self.replicas.forget_fleet(fleet);
        for (key, _) in self.published_for(fleet) {
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
            None => {
                self.forget_refusals(&key);
                self.raw.remove(&key)
            }
        };
        if before == version {
            return false;
        }
        if !is_endpoints(&key) {
            self.replicas.touch(fleet);
        }
        let (store, graph) = self.translator.store();
        graph.remove(store.tables().raw_state, &key)
    }
}
