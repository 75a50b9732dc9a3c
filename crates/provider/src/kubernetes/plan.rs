//! Which targets there shall be: a function of what the server has, of the scope, and of what is named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Kind, ObjectKey, pods_of};

use crate::kubernetes::discovery::Served;
use crate::kubernetes::target::{Resource, Target, can_be_name};
use crate::kubernetes::wanted::Wanted;
use crate::kubernetes::{Scope, is_named, kinds};

/// Up to so many Secrets (or `ConfigMap`s) of one namespace are watched one by one, each over a connection of its own; of more the
/// whole namespace is watched, and what nobody names is dropped unread. The same of namespaces with Pods that matter, in the cluster. See [`MAX_WATCHES`] for what a connection costs.
pub(crate) const ONE_BY_ONE: usize = 32;

/// Watches at most. Each is a connection and a task: 35 kB with TLS (`bench kubernetes`), and a file descriptor, so 4,096 are 145 MB, more
/// than 50,000 routes. They come about only where many namespaces have names, or where whole namespaces may not be read.
pub(crate) const MAX_WATCHES: usize = 4096;

/// What a plan is made of.
pub(crate) struct Given<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) served: &'a Served,
    pub(crate) wanted: &'a Wanted,
    pub(crate) namespaces: &'a Namespaces,
    /// Targets that may not be read, where there is another way.
    pub(crate) refused: &'a BTreeSet<Target>,
}

/// The namespaces that a selector selects.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    /// Whether they have been listed.
    pub(crate) listed: bool,
    pub(crate) selected: BTreeSet<Arc<str>>,
    /// What came to be selected, or ceased to be, since somebody looked.
    pub(crate) news: BTreeSet<Arc<str>>,
}

impl Given<'_> {
    /// Whether objects of a namespace count.
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Namespaces(names) => names.contains(namespace),
            Scope::Selector(_) => self.namespaces.selected.contains(namespace),
        }
    }

    /// Everything that shall be watched, no more than [`MAX_WATCHES`], and how many are left out.
    pub(crate) fn targets(&self) -> (BTreeSet<Target>, usize) {
        let mut targets = BTreeSet::from([Target::all(Resource::Definitions)]);
        targets.retain(|target| !self.refused.contains(target));
        for kind in kinds() {
            let Some(version) = self.served.get(&kind) else { continue };
            let resource = Resource::Kind(kind, version);
            match kind.scope() {
                api::Scope::Cluster if is_named(kind) => self.of_named_in_cluster(kind, resource, &mut targets),
                api::Scope::Cluster => self.of_cluster(kind, resource, &mut targets),
                // Before it is known which namespaces count, everything would be dropped.
                api::Scope::Namespaced if matches!(self.scope, Scope::Selector(_)) && !self.namespaces.listed => {}
                api::Scope::Namespaced if is_named(kind) => self.of_named(kind, resource, &mut targets),
                api::Scope::Namespaced if kind == Kind::Pod => self.of_pods(resource, &mut targets),
                api::Scope::Namespaced => self.of_namespaces(resource, &mut targets),
            }
        }
        let too_many = targets.len().saturating_sub(MAX_WATCHES);
        let left_out: Vec<Target> =
            targets.iter().rev().filter(|target| target.name.is_some()).take(too_many).cloned().collect();
        for target in &left_out {
            targets.remove(target);
        }
        (targets, left_out.len())
    }

    fn of_namespaces(&self, resource: Resource, targets: &mut BTreeSet<Target>) {
        match self.scope {
            Scope::All | Scope::Selector(_) => targets.extend([Target::all(resource)]),
            Scope::Namespaces(names) => targets.extend(names.iter().map(|name| Target::of(resource, name))),
        }
    }

    /// Pods of the namespaces where they matter, or of all where these are many.
    fn of_pods(&self, resource: Resource, targets: &mut BTreeSet<Target>) {
        let wanted = || self.wanted.of(Kind::Pod).map(ObjectKey::namespace).filter(|name| self.has_namespace(name));
        let is_many = wanted().nth(ONE_BY_ONE).is_some();
        if is_many && !matches!(self.scope, Scope::Namespaces(_)) {
            targets.insert(Target::all(resource));
        } else {
            targets.extend(wanted().map(|name| Target::of(resource, &name.into())));
        }
    }

    /// All of the cluster, or, where that may not be, one by one.
    fn of_cluster(&self, kind: Kind, resource: Resource, targets: &mut BTreeSet<Target>) {
        let all = Target::all(resource);
        let Scope::Namespaces(names) = self.scope else { return targets.extend([all]) };
        if !self.refused.contains(&all) {
            targets.insert(all);
        } else if kind == Kind::Namespace {
            targets.extend(names.iter().map(|name| Target::one(resource, &ObjectKey::of(kind, "", name))));
        } else {
            let named = self.wanted.of(kind).filter(|key| can_be_name(key.name()));
            targets.extend(named.map(|key| Target::one(resource, key)));
        }
    }

    /// Adds the targets of objects that are named and belong to no namespace, one by one or all together.
    fn of_named_in_cluster(&self, kind: Kind, resource: Resource, targets: &mut BTreeSet<Target>) {
        let named = || self.wanted.of(kind).filter(|key| can_be_name(key.name()));
        let all = Target::all(resource);
        if named().nth(ONE_BY_ONE).is_some() && !self.refused.contains(&all) {
            targets.insert(all);
        } else {
            targets.extend(named().map(|key| Target::one(resource, key)));
        }
    }

    /// What is named, one by one or by namespace.
    fn of_named(&self, kind: Kind, resource: Resource, targets: &mut BTreeSet<Target>) {
        let mut by_namespace: BTreeMap<&str, Vec<&ObjectKey>> = BTreeMap::new();
        for key in self.wanted.of(kind).filter(|key| self.can_be_read(key)) {
            by_namespace.entry(key.namespace()).or_default().push(key);
        }
        for (namespace, keys) in by_namespace {
            let whole = Target::of(resource, &namespace.into());
            if keys.len() > ONE_BY_ONE && !self.refused.contains(&whole) {
                targets.insert(whole);
            } else {
                targets.extend(keys.into_iter().map(|key| Target::one(resource, key)));
            }
        }
    }

    fn can_be_read(&self, key: &ObjectKey) -> bool {
        can_be_name(key.name()) && can_be_name(key.namespace()) && self.has_namespace(key.namespace())
    }

    /// Whether an object counts: its namespace does, and something names it where that matters.
    pub(crate) fn counts(&self, key: &ObjectKey) -> bool {
        match key.kind() {
            Some(Kind::Namespace) => match self.scope {
                Scope::Namespaces(names) => names.contains(key.name()),
                Scope::All | Scope::Selector(_) => true,
            },
            Some(kind) if kind.scope() == api::Scope::Cluster => !is_named(kind) || self.wanted.has(key),
            Some(Kind::Pod) => self.has_namespace(key.namespace()) && self.wanted.has(&pods_of(key.namespace())),
            Some(kind) => self.has_namespace(key.namespace()) && (!is_named(kind) || self.wanted.has(key)),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
