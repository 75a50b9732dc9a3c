//! One fleet: what there shall be for it, what is known to be so, and when the rest is tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::{FleetName, Infra};
use tokio::time::Instant;

use super::Scope;
use super::apply::{Done, Refusal, Settled, content};
use super::name::Owner;
use super::object::{ClusterOptions, Fault, ObjectKind, Wanted, objects};
use super::pace::{Backoff, Pace, Repairs};
use super::seen::{ObjectId, Seen};
use super::world::{Change, World};

/// Objects that one job removes at most: at some 5 ms each 250 ms, after which new work of the fleet comes first. Authors of a namespace can label any number.
const MOST_REMOVED: usize = 50;

/// A fleet that is wanted, or of which objects are left.
pub(super) struct Fleet {
    pub(super) owner: Owner,
    /// None: nobody wants it any more.
    pub(super) infra: Option<Arc<Infra>>,
    /// As whom it was told of.
    pub(super) name: Option<FleetName>,
    /// What there shall be, in the order in which it is made; the hash of each object, or why there is none.
    pub(super) planned: Vec<(ObjectId, Result<u64, Fault>)>,
    settled: BTreeMap<ObjectId, Settled>,
    pub(super) refused: BTreeMap<ObjectId, Refusal>,
    /// Objects that we removed, until we hear that they are gone.
    removed: BTreeMap<ObjectId, Arc<str>>,
    away: Backoff,
    refusals: Backoff,
    repairs: Repairs,
    /// Nothing is tried before this.
    pub(super) not_before: Option<Instant>,
    pub(super) running: bool,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// These are to be looked at, and made if that is for us to do.
    pub(super) wanted: Vec<ObjectId>,
    /// These are to be removed.
    pub(super) stale: Vec<(ObjectId, Arc<str>)>,
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.stale.is_empty()
    }
}

impl Fleet {
    pub(super) fn new(owner: Owner, pace: &Pace) -> Self {
        Self {
            owner,
            infra: None,
            name: None,
            planned: Vec::new(),
            settled: BTreeMap::new(),
            refused: BTreeMap::new(),
            removed: BTreeMap::new(),
            away: Backoff::new(pace.away),
            refusals: Backoff::new(pace.refused),
            repairs: Repairs::new(pace.repair),
            not_before: None,
            running: false,
        }
    }

    /// This is what there shall be from now on. True if that is another thing than before.
    pub(super) fn plan(&mut self, infra: Option<Arc<Infra>>, options: &ClusterOptions, scope: &Scope) -> bool {
        let made = infra.as_deref().map(|infra| objects(infra, options)).unwrap_or_default();
        let planned = made.into_iter().map(|wanted| planned(wanted, scope)).collect();
        self.name = infra.as_ref().map(|infra| infra.fleet.clone()).or_else(|| self.name.take());
        self.infra = infra;
        if self.planned == planned {
            return false;
        }
        self.planned = planned;
        self.settled.retain(|id, _| self.planned.iter().any(|(planned, _)| planned == id));
        // what was refused counts until it is known what comes of the next try
        let is_tried = |id: &ObjectId| self.planned.iter().any(|(planned, content)| planned == id && content.is_ok());
        self.refused.retain(|id, refusal| is_tried(id) && !matches!(refusal, Refusal::Terminating(_)));
        self.not_before = None;
        self.away.reset();
        self.refusals.reset();
        true
    }

    /// What is to be done, as far as is known. Who does not lead only looks whether a name is taken.
    pub(super) fn work(&self, world: &World, leads: bool) -> Work {
        if self.refused.values().any(|refusal| matches!(refusal, Refusal::Terminating(_))) {
            return Work::default();
        }
        let open =
            self.planned.iter().filter(|(id, content)| content.as_ref().is_ok_and(|content| !self.has(id, *content)));
        let open = open.map(|(id, _)| id).filter(|id| leads || world.get(id).is_none());
        let wanted: Vec<ObjectId> = open.cloned().collect();
        // What only lacks an address serves as it is.
        let is_made = |id: &ObjectId| matches!(self.refused.get(id), Some(Refusal::Addresses(_)));
        let whole = leads && wanted.iter().all(is_made) && self.planned.iter().all(|(_, content)| content.is_ok());
        let stale = if whole { self.stale(world) } else { Vec::new() };
        Work { wanted, stale }
    }

    fn has(&self, id: &ObjectId, content: u64) -> bool {
        self.settled.get(id).is_some_and(|settled| settled.content == content)
    }

    /// What is left of an earlier form and not needed any more: Pods go when others serve, their files when they are gone.
    fn stale(&self, world: &World) -> Vec<(ObjectId, Arc<str>)> {
        let serves = self.infra.is_none() || self.serves(world);
        let reached = serves && (self.infra.is_none() || self.is_reached(world));
        let left = || world.of(&self.owner).filter(|(id, _)| self.planned.iter().all(|(planned, _)| planned != *id));
        let has_pods = left().any(|(id, _)| id.kind.has_pods());
        let may_go = |id: &ObjectId| match id.kind {
            ObjectKind::HorizontalPodAutoscaler | ObjectKind::PodDisruptionBudget => true,
            ObjectKind::Deployment | ObjectKind::DaemonSet => serves,
            ObjectKind::Service => reached,
            ObjectKind::ConfigMap | ObjectKind::ServiceAccount => serves && !has_pods,
        };
        let is_new = |id: &ObjectId, seen: &Seen| !seen.deleting && self.removed.get(id) != Some(&seen.uid);
        let stale = left().rev().filter(|(id, seen)| may_go(id) && is_new(id, seen)).take(MOST_REMOVED);
        stale.map(|(id, seen)| (id.clone(), Arc::clone(&seen.uid))).collect()
    }

    pub(super) fn workload<'w>(&self, world: &'w World) -> Option<&'w super::seen::Workload> {
        self.planned.iter().find_map(|(id, _)| world.workload(id).filter(|_| self.is_mine(id, world)))
    }

    pub(super) fn service<'w>(&self, world: &'w World) -> Option<&'w super::seen::Service> {
        self.planned.iter().find_map(|(id, _)| world.service(id).filter(|_| self.is_mine(id, world)))
    }

    fn is_mine(&self, id: &ObjectId, world: &World) -> bool {
        world.get(id).is_some_and(|seen| seen.owner == self.owner)
    }

    /// The Pods that there shall be take requests.
    fn serves(&self, world: &World) -> bool {
        self.workload(world).is_some_and(|workload| workload.current && (workload.available > 0 || workload.is_off))
    }

    /// Clients can come, or cannot before another Service lets its address go.
    fn is_reached(&self, world: &World) -> bool {
        let asks = self.infra.as_ref().is_some_and(|infra| !infra.addresses.is_empty());
        let has_address = |service: &super::seen::Service| {
            &*service.of_type != "LoadBalancer" || !service.ingress.is_empty() || !service.hostnames.is_empty()
        };
        asks || self.service(world).is_some_and(has_address)
    }

    /// Takes what a job came to.
    pub(super) fn take(&mut self, asked: &[ObjectId], done: Done, world: &World, now: Instant) {
        self.running = false;
        self.removed.extend(done.removed);
        for (id, settled) in done.settled {
            // what shall be may be another thing meanwhile
            if self.planned.iter().all(|(planned, _)| *planned != id) {
                continue;
            }
            self.refused.remove(&id);
            self.settled.insert(id.clone(), settled);
            self.check(&id, world, now);
        }
        let open = asked.iter().any(|id| !self.settled.contains_key(id));
        for (id, refusal) in done.refused {
            let refusal = refusal.after(self.refused.get(&id));
            if self.refused.get(&id) != Some(&refusal) {
                tracing::warn!(gateway = self.gateway(), object = %id, why = %refusal, "an object is not as it shall be");
            }
            self.refused.insert(id, refusal);
        }
        if let Some(text) = done.away {
            tracing::debug!(gateway = self.gateway(), text, "what there shall be cannot be made now");
            let wait = self.away.wait();
            self.wait(now + wait);
        } else if open || !self.refused.is_empty() {
            self.away.reset();
            let wait = self.refusals.wait();
            self.wait(now + wait);
        } else {
            self.away.reset();
            self.refusals.reset();
        }
    }

    /// An object is other than before.
    pub(super) fn saw(&mut self, change: &Change, world: &World, now: Instant) {
        let Change { id, before } = change;
        if world.get(id).is_none() {
            let uid = before.as_ref().map(|seen| &seen.uid);
            if self.settled.get(id).is_some_and(|settled| Some(&settled.uid) == uid) {
                self.disturbed(id, "was removed", now);
            }
            self.removed.remove(id);
            // what was in the way may be gone with it
            if self.refused.remove(id).is_some() {
                self.not_before = None;
            }
        }
        self.check(id, world, now);
    }

    /// Whether an object is still as we left it.
    fn check(&mut self, id: &ObjectId, world: &World, now: Instant) {
        let (Some(settled), Some(seen)) = (self.settled.get(id), world.get(id)) else { return };
        // one that is being changed by us is not as we left it
        let at_rest = self.planned.iter().any(|(planned, content)| planned == id && *content == Ok(settled.content));
        let same = settled.uid == seen.uid && settled.own_fields == seen.own_fields;
        if at_rest && seen.version > settled.version && !same {
            let others = seen.others.join(", ");
            self.disturbed(id, &format!("was changed (fields of it belong to {others})"), now);
        }
    }

    fn disturbed(&mut self, id: &ObjectId, what: &str, now: Instant) {
        self.settled.remove(id);
        let due = self.repairs.due(now);
        let wait = due.duration_since(now);
        tracing::info!(gateway = self.gateway(), object = %id, again_in = ?wait, "an object {what}; it is put right");
        self.wait(due);
    }

    fn wait(&mut self, until: Instant) {
        self.not_before = Some(self.not_before.map_or(until, |before| before.max(until)));
    }

    /// Somebody else has written, or may have: nothing is known any more to be as it shall be.
    pub(super) fn forget(&mut self) {
        self.settled.clear();
        self.removed.clear();
        (self.running, self.not_before) = (false, None);
    }

    fn gateway(&self) -> String {
        format!("{}/{}", self.owner.namespace, self.owner.name)
    }
}

fn planned(wanted: Wanted, scope: &Scope) -> (ObjectId, Result<u64, Fault>) {
    let Wanted { kind, namespace, name, object, .. } = wanted;
    let content = match object {
        Ok(_) if !scope.has(&namespace) => {
            let text = format!("the namespace {namespace} is not one of those in which Chancery may work");
            Err(Fault { path: "".into(), text: text.into() })
        }
        Ok(object) => Ok(content(&object)),
        Err(fault) => Err(fault),
    };
    (ObjectId { kind, namespace, name }, content)
}

#[cfg(test)]
mod tests;
