//! [`Usage`]: selects the Secrets, `ConfigMap`s and `ClusterTrustBundle`s to request, among all that objects name. Those that only other controllers' objects
//! name, and those that no `ReferenceGrant` lets an object name, are not requested.
//!
//! A Gateway counts by its class, a `ListenerSet` by its Gateway. A backend or a policy of backends counts where a proxy of this controller can send to it: its
//! namespace has a Gateway of this controller, a set or a route of one, or a grant that lets objects of such a namespace name backends. So what an object names
//! is read only for authors who could read it themselves, or were granted it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::gateway::ListenerNamespacesFrom;
use api::reference::{GatewayScope, ParentRef};
use api::{Gateway, Kind, ListenerSet, Object, ObjectKey, ReferenceGrant, RouteObject, Scope};
use hashbrown::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    controller: Arc<str>,
    /// Classes of this controller.
    classes: BTreeSet<ObjectKey>,
    gateways: HashMap<ObjectKey, GatewayFacts>,
    /// The Gateway of each set.
    sets: HashMap<ObjectKey, ObjectKey>,
    /// The parents of each route.
    routes: HashMap<ObjectKey, Box<[ObjectKey]>>,
    /// By namespace the parents of its routes, each with the number of routes.
    parents: HashMap<Box<str>, HashMap<ObjectKey, usize>>,
    /// By namespace.
    grants: BTreeMap<Box<str>, BTreeMap<ObjectKey, Arc<ReferenceGrant>>>,
    /// The names in objects; only of objects that name anything.
    names: HashMap<ObjectKey, Box<[ObjectKey]>>,
    /// Namespaces to whose backends a proxy of this controller can send, as of the last [`Usage::refresh`].
    used: BTreeSet<Box<str>>,
    /// Objects that count, or that may name something, can be others since then.
    is_stale: bool,
}

/// A Gateway, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct GatewayFacts {
    class: ObjectKey,
    takes: SetsFrom,
}

/// The namespaces from which a Gateway takes `ListenerSet`s.
#[derive(Debug, PartialEq, Eq)]
enum SetsFrom {
    Nowhere,
    Own,
    /// From all namespaces, or from selected ones: which these are, is decided later.
    Others,
}

impl GatewayFacts {
    fn of(gateway: &Gateway) -> Self {
        let allowed = gateway.spec.allowed_listeners.as_deref().map(|allowed| &allowed.namespaces.from);
        let takes = match allowed {
            Some(ListenerNamespacesFrom::Same) => SetsFrom::Own,
            Some(ListenerNamespacesFrom::All | ListenerNamespacesFrom::Selector) => SetsFrom::Others,
            _ => SetsFrom::Nowhere,
        };
        Self { class: ObjectKey::of(Kind::GatewayClass, "", &gateway.spec.gateway_class_name), takes }
    }
}

/// The parent of routes that attach to every default Gateway.
fn any_default() -> ObjectKey {
    ObjectKey::of(Kind::Gateway, "", "")
}

impl Usage {
    /// Returns one that knows no object, for this controller.
    pub(crate) fn new(controller: &str) -> Self {
        Self { controller: controller.into(), ..Self::default() }
    }

    /// Notes an object. Gives what it names and is to be requested.
    pub(crate) fn note(&mut self, object: &Object) -> Vec<ObjectKey> {
        let key = object.key();
        match object {
            Object::GatewayClass(class) => {
                let is_ours = *class.spec.controller_name == *self.controller;
                let was_ours = if is_ours { !self.classes.insert(key.clone()) } else { self.classes.remove(key) };
                self.is_stale |= is_ours != was_ours;
            }
            Object::Gateway(gateway) => {
                let facts = GatewayFacts::of(gateway);
                self.is_stale |= self.gateways.get(key) != Some(&facts);
                self.gateways.insert(key.clone(), facts);
            }
            Object::ListenerSet(set) => {
                let gateway = of_set(set);
                self.is_stale |= self.sets.get(key) != Some(&gateway);
                self.sets.insert(key.clone(), gateway);
            }
            Object::ReferenceGrant(grant) => {
                self.is_stale = true;
                self.grants.entry(key.namespace().into()).or_default().insert(key.clone(), Arc::clone(grant));
            }
            other => {
                if let Ok(route) = RouteObject::try_from(other.clone()) {
                    self.note_route(key, &route);
                }
            }
        }
        let names = object.references();
        if names.is_empty() {
            self.names.remove(key);
            return names;
        }
        self.names.insert(key.clone(), names.into());
        self.requested_by(key)
    }

    /// Forgets an object that is gone, or does not count any more.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.names.remove(key);
        match key.kind() {
            Some(Kind::GatewayClass) => self.is_stale |= self.classes.remove(key),
            Some(Kind::Gateway) => self.is_stale |= self.gateways.remove(key).is_some(),
            Some(Kind::ListenerSet) => self.is_stale |= self.sets.remove(key).is_some(),
            Some(Kind::ReferenceGrant) => {
                let of_namespace = self.grants.get_mut(key.namespace());
                self.is_stale |= of_namespace.is_some_and(|grants| grants.remove(key).is_some());
            }
            Some(kind) if kind.is_route() => {
                for parent in self.routes.remove(key).unwrap_or_default() {
                    self.detach(key, &parent);
                }
            }
            _ => {}
        }
    }

    /// Returns true if [`Usage::refresh`] may give something else than before.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Returns what each object names and is to be requested, for all objects that name anything. They count by classes, Gateways, their sets, grants and
    /// the first route of a namespace: further routes make nothing stale.
    pub(crate) fn refresh(&mut self) -> Vec<(ObjectKey, Vec<ObjectKey>)> {
        self.is_stale = false;
        self.used = self.used_namespaces();
        self.names.keys().map(|by| (by.clone(), self.requested_by(by))).collect()
    }

    fn note_route(&mut self, key: &ObjectKey, route: &RouteObject) {
        let namespace = key.namespace();
        let named = route.parent_refs().iter().map(|parent| parent.object(namespace));
        let default = (route.use_default_gateways() == Some(&GatewayScope::All)).then(any_default);
        let mut parents: Vec<ObjectKey> = named.chain(default).collect();
        parents.sort_unstable();
        parents.dedup();
        let before = self.routes.remove(key).unwrap_or_default();
        let parents: Box<[ObjectKey]> = parents.into_iter().map(|parent| self.attach(key, parent)).collect();
        before.iter().for_each(|parent| self.detach(key, parent));
        self.routes.insert(key.clone(), parents);
    }

    /// Counts a parent of a route. Gives the key that all routes of the namespace share.
    fn attach(&mut self, route: &ObjectKey, parent: ObjectKey) -> ObjectKey {
        let parents = match self.parents.get_mut(route.namespace()) {
            Some(parents) => parents,
            None => self.parents.entry(route.namespace().into()).or_default(),
        };
        if let Some((shared, _)) = parents.get_key_value(&parent) {
            let shared = shared.clone();
            if let Some(count) = parents.get_mut(&shared) {
                *count += 1;
            }
            return shared;
        }
        parents.insert(parent.clone(), 1);
        self.is_stale = true;
        parent
    }

    fn detach(&mut self, route: &ObjectKey, parent: &ObjectKey) {
        let Some(parents) = self.parents.get_mut(route.namespace()) else { return };
        let Some(count) = parents.get_mut(parent) else { return };
        *count -= 1;
        if *count == 0 {
            parents.remove(parent);
            self.is_stale = true;
        }
        if parents.is_empty() {
            self.parents.remove(route.namespace());
        }
    }

    /// Returns what an object names and is to be requested. Classes and Pods always are.
    fn requested_by(&self, by: &ObjectKey) -> Vec<ObjectKey> {
        let names = self.names.get(by).into_iter().flatten();
        let counts = self.counts(by);
        let is_requested = |name: &&ObjectKey| match name.kind() {
            Some(Kind::Secret | Kind::ConfigMap | Kind::ClusterTrustBundle) => counts && self.may_name(by, name),
            _ => true,
        };
        names.filter(is_requested).cloned().collect()
    }

    /// Returns true if the object is of this controller, or a proxy of this controller can use it.
    fn counts(&self, by: &ObjectKey) -> bool {
        match by.kind() {
            Some(Kind::Gateway) => self.is_ours(by),
            Some(Kind::ListenerSet) => self.is_set_of_ours(by),
            Some(Kind::Backend | Kind::XBackend | Kind::BackendTlsPolicy) => self.used.contains(by.namespace()),
            _ => true,
        }
    }

    fn is_ours(&self, gateway: &ObjectKey) -> bool {
        self.gateways.get(gateway).is_some_and(|facts| self.classes.contains(&facts.class))
    }

    fn is_set_of_ours(&self, set: &ObjectKey) -> bool {
        let Some(gateway) = self.sets.get(set) else { return false };
        let is_taken = match self.gateways.get(gateway).map(|facts| &facts.takes) {
            Some(SetsFrom::Own) => gateway.namespace() == set.namespace(),
            Some(SetsFrom::Others) => true,
            Some(SetsFrom::Nowhere) | None => false,
        };
        is_taken && self.is_ours(gateway)
    }

    /// Returns true if an object may name another: one of its own namespace, one of no namespace, or one that a grant lets it name.
    fn may_name(&self, by: &ObjectKey, name: &ObjectKey) -> bool {
        let is_near = name.namespace() == by.namespace();
        let is_of_cluster = name.kind().is_some_and(|kind| kind.scope() == Scope::Cluster);
        is_near || is_of_cluster || self.grants_of(name.namespace()).any(|grant| grant.spec.allows(by, name))
    }

    fn grants_of(&self, namespace: &str) -> impl Iterator<Item = &ReferenceGrant> {
        self.grants.get(namespace).into_iter().flat_map(BTreeMap::values).map(|grant| &**grant)
    }

    fn used_namespaces(&self) -> BTreeSet<Box<str>> {
        let gateways = || self.gateways.keys().filter(|gateway| self.is_ours(gateway));
        let any = gateways().next().is_some();
        let is_ours = |parent: &ObjectKey| match parent.kind() {
            Some(Kind::ListenerSet) => self.is_set_of_ours(parent),
            _ if *parent == any_default() => any,
            _ => self.is_ours(parent),
        };
        let sets = self.sets.keys().filter(|set| self.is_set_of_ours(set));
        let of_routes = self.parents.iter().filter(|(_, parents)| parents.keys().any(is_ours));
        let mut used: BTreeSet<Box<str>> = gateways().chain(sets).map(|key| key.namespace().into()).collect();
        used.extend(of_routes.map(|(namespace, _)| namespace.clone()));
        let lets_in = |grant: &ReferenceGrant| {
            let is_backend = grant.spec.to.iter().any(|to| Kind::find(&to.group, &to.kind).is_some_and(is_backend));
            is_backend && grant.spec.from.iter().any(|from| used.contains(&from.namespace))
        };
        let granted = self.grants.iter().filter(|(_, grants)| grants.values().any(|grant| lets_in(grant)));
        let granted: Vec<Box<str>> = granted.map(|(namespace, _)| namespace.clone()).collect();
        used.extend(granted);
        used
    }
}

fn is_backend(kind: Kind) -> bool {
    matches!(kind, Kind::Service | Kind::ServiceImport | Kind::Backend | Kind::XBackend)
}

fn of_set(set: &ListenerSet) -> ObjectKey {
    ParentRef::object(&set.spec.parent_ref, set.meta.namespace())
}

#[cfg(test)]
mod tests;
