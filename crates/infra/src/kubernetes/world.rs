//! What the API server has of ours, as far as we have heard.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::name::Owner;
use super::seen::{About, ObjectId, Seen, Service, Workload};
use super::watch::{Event, News, Target, Told};

/// All of it.
#[derive(Debug, Default)]
pub(super) struct World {
    objects: BTreeMap<ObjectId, Seen>,
    by_owner: BTreeMap<Owner, BTreeSet<ObjectId>>,
    listed: BTreeSet<Target>,
    forbidden: BTreeMap<Target, String>,
    nodes: BTreeMap<Arc<str>, Vec<IpAddr>>,
}

/// What happened to an object: how it was, if it was known.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) id: ObjectId,
    pub(super) before: Option<Seen>,
}

impl World {
    pub(super) fn get(&self, id: &ObjectId) -> Option<&Seen> {
        self.objects.get(id)
    }

    pub(super) fn workload(&self, id: &ObjectId) -> Option<&Workload> {
        match &self.get(id)?.about {
            About::Workload(workload) => Some(workload),
            _ => None,
        }
    }

    pub(super) fn service(&self, id: &ObjectId) -> Option<&Service> {
        match &self.get(id)?.about {
            About::Service(service) => Some(service),
            _ => None,
        }
    }

    /// All objects of a Gateway.
    pub(super) fn of(&self, owner: &Owner) -> impl DoubleEndedIterator<Item = (&ObjectId, &Seen)> {
        self.by_owner.get(owner).into_iter().flatten().filter_map(|id| Some((id, self.objects.get(id)?)))
    }

    /// Whether there is any object of a Gateway.
    pub(super) fn has(&self, owner: &Owner) -> bool {
        self.by_owner.contains_key(owner)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.by_owner.keys()
    }

    /// Whether all of a target is known.
    pub(super) fn is_listed(&self, target: &Target) -> bool {
        self.listed.contains(target)
    }

    /// What may not be looked at, in the server's words.
    pub(super) fn forbidden(&self) -> impl Iterator<Item = (&Target, &str)> {
        self.forbidden.iter().map(|(target, text)| (target, text.as_str()))
    }

    /// The addresses of nodes; or why they are not known.
    pub(super) fn nodes(&self) -> Result<BTreeSet<IpAddr>, Option<&str>> {
        let target = Target { kind: None, namespace: None };
        match (self.listed.contains(&target), self.forbidden.get(&target)) {
            (true, _) => Ok(self.nodes.values().flatten().copied().collect()),
            (false, text) => Err(text.map(String::as_str)),
        }
    }

    /// Takes news; gives what is other than before, and whether something is that concerns all.
    pub(super) fn take(&mut self, News { target, event }: News) -> (Vec<Change>, bool) {
        if let Event::Forbidden(text) = event {
            // what was read before still holds
            let news = !self.listed.contains(&target) && self.forbidden.insert(target, text).is_none();
            return (Vec::new(), news);
        }
        let mut all = self.forbidden.remove(&target).is_some();
        if matches!(event, Event::Objects(Told::Listed(_)) | Event::Nodes(Told::Listed(_))) {
            all |= self.listed.insert(target.clone());
        }
        match event {
            Event::Objects(event) => (self.take_objects(&target, event), all),
            Event::Nodes(event) => (Vec::new(), self.take_nodes(event) || all),
            Event::Forbidden(_) => (Vec::new(), all),
        }
    }

    fn take_objects(&mut self, Target { kind, namespace }: &Target, event: Told<ObjectId, Seen>) -> Vec<Change> {
        match event {
            Told::Changed(id, seen) => self.put(id, *seen).into_iter().collect(),
            Told::Gone(id) => self.remove(&id).into_iter().collect(),
            Told::Listed(all) => {
                let there: BTreeMap<ObjectId, Seen> = all.into_iter().collect();
                let of_target = |id: &&ObjectId| {
                    *kind == Some(id.kind) && namespace.as_ref().is_none_or(|wanted| *wanted == id.namespace)
                };
                let known = self.objects.keys().filter(of_target);
                let gone: Vec<ObjectId> = known.filter(|id| !there.contains_key(*id)).cloned().collect();
                let mut changes: Vec<Change> = gone.iter().filter_map(|id| self.remove(id)).collect();
                changes.extend(there.into_iter().filter_map(|(id, seen)| self.put(id, seen)));
                changes
            }
        }
    }

    fn put(&mut self, id: ObjectId, seen: Seen) -> Option<Change> {
        let before = self.remove(&id).and_then(|change| change.before);
        self.by_owner.entry(seen.owner.clone()).or_default().insert(id.clone());
        let news = before.as_ref() != Some(&seen);
        self.objects.insert(id.clone(), seen);
        news.then_some(Change { id, before })
    }

    fn remove(&mut self, id: &ObjectId) -> Option<Change> {
        let before = self.objects.remove(id)?;
        if let Some(ids) = self.by_owner.get_mut(&before.owner) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_owner.remove(&before.owner);
            }
        }
        Some(Change { id: id.clone(), before: Some(before) })
    }

    /// True if addresses are other than before: most of what is told of nodes is not about them.
    fn take_nodes(&mut self, event: Told<Arc<str>, Vec<IpAddr>>) -> bool {
        match event {
            Told::Listed(all) => {
                let now = all.into_iter().collect();
                std::mem::replace(&mut self.nodes, now) != self.nodes
            }
            Told::Changed(name, addresses) => {
                let before = self.nodes.insert(Arc::clone(&name), *addresses);
                before.as_ref() != self.nodes.get(&name)
            }
            Told::Gone(name) => self.nodes.remove(&name).is_some(),
        }
    }
}
