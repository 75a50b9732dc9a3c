//! Generated resources that users patch: after everything else is encoded, and only these.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Graph;
use envoy::{Base, PatchOutcome, type_url};
use ir::patch::{PATCHABLE, patchable};
use ir::{ClusterName, FleetName, ListenerName, PatchSet, RawName, RouteConfigurationName, SecretName};
use store::{FactKey, PatchState};
use translator::InFleet;
use xds::{Change, Need, TypeUrl, Version};

use super::{Publisher, Sets, Updates, push, push_composed};

/// A generated resource of a fleet.
pub(crate) type ResourceKey = InFleet<RawName>;

/// What became of the patches of a resource, by policy; none: it has none any more.
pub(crate) type Told = (FactKey, Option<Arc<BTreeMap<Arc<str>, PatchState>>>);

/// Which patches are in a version of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It is not what was published last.
    Old,
    /// None.
    None,
    /// Those with this mark.
    Of(u64),
}

/// What is published under a name that has patches.
pub(super) struct Done {
    version: Option<Version>,
    /// 0: no patch is in it.
    mark: u64,
    /// It is there by patches alone.
    added: bool,
    /// What it names, and whether the fleet has that.
    names: BTreeMap<RawName, bool>,
}

/// Resources with patches, as they were published last.
#[derive(Default)]
pub(super) struct Patched {
    done: BTreeMap<ResourceKey, Done>,
    /// By what they name.
    naming: BTreeMap<ResourceKey, BTreeSet<ResourceKey>>,
}

impl Patched {
    fn insert(&mut self, key: ResourceKey, done: Done) {
        for name in done.names.keys() {
            let named = InFleet { fleet: key.fleet.clone(), name: name.clone() };
            self.naming.entry(named).or_default().insert(key.clone());
        }
        self.done.insert(key, done);
    }

    fn remove(&mut self, key: &ResourceKey) -> Option<Done> {
        let done = self.done.remove(key)?;
        for name in done.names.keys() {
            let named = InFleet { fleet: key.fleet.clone(), name: name.clone() };
            if let Entry::Occupied(mut naming) = self.naming.entry(named) {
                naming.get_mut().remove(key);
                if naming.get().is_empty() {
                    naming.remove();
                }
            }
        }
        Some(done)
    }

    /// Those that name what was there and is not any more, or the reverse.
    fn concerned(&self, named: &ResourceKey, is_there: bool) -> impl Iterator<Item = &ResourceKey> {
        let is_news = move |key: &&ResourceKey| {
            self.done.get(*key).and_then(|done| done.names.get(&named.name)).is_some_and(|was| *was != is_there)
        };
        self.naming.get(named).into_iter().flatten().filter(is_news)
    }
}

/// Names of resources that are near to one that there is not: so many are told.
const MOST_NEAR: usize = 2;

impl Publisher {
    /// Which patches are in a version of a resource; none if it has none, nor any that could not be applied.
    pub(crate) fn mark_of(&self, key: &ResourceKey, version: Version) -> Option<Mark> {
        let done = self.patched.done.get(key)?;
        Some(match done.mark {
            _ if done.version != Some(version) => Mark::Old,
            0 => Mark::None,
            mark => Mark::Of(mark),
        })
    }

    /// Which patches are in what was published last.
    pub(crate) fn current_mark(&self, key: &ResourceKey) -> Option<Mark> {
        let done = self.patched.done.get(key)?;
        Some(if done.mark == 0 { Mark::None } else { Mark::Of(done.mark) })
    }

    /// The version of what was published last under a name with patches.
    #[cfg(test)]
    pub(crate) fn version_of_patched(&self, key: &ResourceKey) -> Option<Version> {
        self.patched.done.get(key)?.version
    }

    /// What became of patches since this was asked last.
    pub(crate) fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Patches what is about to be published, and publishes anew what has other patches now.
    pub(super) fn patch(&mut self, graph: &Graph, sets: &mut Sets, updates: &mut Updates) {
        if graph.is_empty(self.outputs.patches) && self.patched.done.is_empty() {
            return;
        }
        let mut due = self.due(graph, updates);
        // What was about to be published, or is, without patches.
        let mut bases: BTreeMap<ResourceKey, Option<Arc<xds::Resource>>> = BTreeMap::new();
        while let Some((_, key)) = due.pop_first() {
            let at = position(updates, &key);
            let before = match (bases.get(&key), &at) {
                (Some(base), _) => base.clone(),
                (None, Some(Change::Put(resource))) => Some(Arc::clone(resource)),
                (None, Some(Change::Remove { .. })) => None,
                (None, None) => self.fresh(graph, sets, &key),
            };
            bases.insert(key.clone(), before.clone());
            let was = self.patched.remove(&key).is_some_and(|was| was.added);
            let fact = FactKey::of_kind(Arc::clone(&key.fleet.0), key.name.kind(), &key.name.name);
            let mut is = false;
            if let Some(set) = graph.get(self.outputs.patches, &key) {
                let (done, resource, outcomes) = self.apply(graph, &key, set, before.as_ref());
                self.told.push((fact, Some(Arc::new(self.states(graph, &key, set, outcomes)))));
                is = done.added;
                if resource.is_some() || was {
                    put(updates, &key, resource);
                }
                self.patched.insert(key.clone(), done);
            } else {
                self.told.push((fact, None));
                if at.is_none() && (before.is_some() || was) {
                    put(updates, &key, before);
                }
            }
            if is != was {
                let is_there = self.has(graph, &key.fleet, &key.name);
                due.extend(self.patched.concerned(&key, is_there).map(|key| (order(key), key.clone())));
            }
        }
    }

    /// What has to be looked at: what changed and has patches, what has other patches, and what names a resource that came or went.
    /// What names others comes behind them.
    fn due(&self, graph: &Graph, updates: &Updates) -> BTreeSet<(usize, ResourceKey)> {
        let mut due: BTreeSet<ResourceKey> =
            graph.changes(self.outputs.patches).map(|change| change.key.clone()).collect();
        for (fleet, change) in
            updates.iter().flat_map(|(fleet, changes)| changes.iter().map(move |change| (fleet, change)))
        {
            let Some(name) = name_of(change) else { continue };
            let key = InFleet { fleet: fleet.clone(), name };
            if self.patched.naming.contains_key(&key) {
                let is_there = self.has(graph, fleet, &key.name);
                due.extend(self.patched.concerned(&key, is_there).cloned());
            }
            if graph.get(self.outputs.patches, &key).is_some() {
                due.insert(key);
            }
        }
        due.into_iter().map(|key| (order(&key), key)).collect()
    }

    fn apply(
        &self,
        graph: &Graph,
        key: &ResourceKey,
        set: &PatchSet,
        before: Option<&Arc<xds::Resource>>,
    ) -> (Done, Option<Arc<xds::Resource>>, Vec<PatchOutcome>) {
        let bytes = before.map(|resource| resource.body.concat());
        let needs = |name: &RawName| {
            let is_named =
                |need: &Need| need.name == name.name && patchable(need.type_url.as_str()) == Some(name.message);
            before.is_some_and(|resource| resource.needs().any(is_named))
        };
        let base =
            before.zip(bytes.as_ref()).map(|(resource, bytes)| Base { bytes, needs: &needs, vhds: resource.vhds });
        let mut has = |name: &RawName| self.has(graph, &key.fleet, name);
        let patched = envoy::patched(&key.name, base.as_ref(), set, &mut has);
        let resource = match patched.resource {
            None => before.cloned(),
            Some(encoded) => {
                let mut scratch = Updates::new();
                let url = TypeUrl::from(encoded.type_url);
                push(&mut scratch, &key.fleet, Some(encoded), url, &key.name.name);
                let mut resource = only(scratch);
                if let Some(resource) = resource.as_mut().filter(|_| patched.slow) {
                    Arc::make_mut(resource).apart = true;
                }
                resource
            }
        };
        let version = resource.as_ref().map(|resource| resource.version);
        let added = before.is_none() && resource.is_some();
        let names = patched.names.into_iter().map(|name| (name.clone(), has(&name))).collect();
        let done = Done { version, mark: patched.mark, added, names };
        (done, resource, patched.outcomes)
    }

    /// Whether a fleet gets a resource.
    fn has(&self, graph: &Graph, fleet: &FleetName, name: &RawName) -> bool {
        let key = InFleet { fleet: fleet.clone(), name: name.clone() };
        if self.patched.done.get(&key).is_some_and(|done| done.added) {
            return true;
        }
        let text = Arc::clone(&name.name);
        match name.kind() {
            "Cluster" => self.outputs.cluster(graph, &InFleet { fleet: key.fleet, name: ClusterName(text) }).is_some(),
            "ClusterLoadAssignment" => {
                let cluster = self.outputs.cluster(graph, &InFleet { fleet: key.fleet, name: ClusterName(text) });
                cluster.is_some_and(|cluster| cluster.endpoints.set().is_some())
            }
            "RouteConfiguration" => {
                let key = InFleet { fleet: key.fleet, name: RouteConfigurationName(text) };
                graph.get(self.outputs.route_configurations, &key).is_some()
            }
            "Secret" => {
                graph.get(self.outputs.secrets, &InFleet { fleet: key.fleet, name: SecretName(text) }).is_some()
            }
            _ => false,
        }
    }

    /// A resource as it is without patches, where this tick did not touch it.
    fn fresh(&mut self, graph: &Graph, sets: &mut Sets, key: &ResourceKey) -> Option<Arc<xds::Resource>> {
        let (InFleet { fleet, name: RawName { name, .. } }, mut scratch) = (key, Updates::new());
        let fleet_key = |name: Arc<str>| (fleet.clone(), name);
        match key.name.kind() {
            "Listener" => {
                let (fleet, name) = fleet_key(Arc::clone(name));
                let listener = graph.get(self.outputs.listeners, &InFleet { fleet, name: ListenerName(name) })?;
                let encoded = envoy::listener(listener, &self.options);
                push(&mut scratch, &key.fleet, Some(encoded), TypeUrl::Listener, &key.name.name);
            }
            "Cluster" | "ClusterLoadAssignment" => {
                let (fleet, name) = fleet_key(Arc::clone(name));
                let own = InFleet { fleet, name: ClusterName(name) };
                let cluster = self.outputs.cluster(graph, &own)?;
                let (encoded, url) = match key.name.kind() {
                    "Cluster" => (envoy::cluster(cluster), TypeUrl::Cluster),
                    _ => (self.assignment(graph, sets, (&own.name, cluster.endpoints.set()?)), TypeUrl::Endpoints),
                };
                push(&mut scratch, &key.fleet, Some(encoded), url, &key.name.name);
            }
            "RouteConfiguration" => {
                let (fleet, name) = fleet_key(Arc::clone(name));
                let key = InFleet { fleet, name: RouteConfigurationName(name) };
                let composed = self.configuration(graph.get(self.outputs.route_configurations, &key)?);
                push_composed(&mut scratch, &key.fleet, Some(composed), TypeUrl::Route, &key.name.0);
            }
            _ => {
                let (configuration, _) = name.rsplit_once('/')?;
                let chain = InFleet { fleet: fleet.clone(), name: translator::chain_of(configuration).into() };
                if !self.outputs.has_separate_hosts(graph, &chain) {
                    return None;
                }
                let (_, host) = self.outputs.hosts_of(graph, &chain).find(|(key, _)| key.name.0 == *name)?;
                push_composed(&mut scratch, fleet, Some(self.host(host)), TypeUrl::VirtualHost, name);
            }
        }
        only(scratch)
    }

    /// What is to be told of each policy.
    fn states(
        &self,
        graph: &Graph,
        key: &ResourceKey,
        set: &PatchSet,
        outcomes: Vec<PatchOutcome>,
    ) -> BTreeMap<Arc<str>, PatchState> {
        let state = |outcome| match outcome {
            PatchOutcome::Applied(missing) => PatchState::Applied(missing.into()),
            PatchOutcome::NotFound => PatchState::NotFound(self.near(graph, key)),
            PatchOutcome::LeftOut(number, words, refusal) => {
                PatchState::LeftOut(number, words.into(), refusal.map(translator::refusal))
            }
            PatchOutcome::Refused(words) => PatchState::Refused(words),
        };
        let policies = set.policies.iter().map(|policy| Arc::clone(&policy.policy));
        policies.zip(outcomes.into_iter().map(state)).collect()
    }

    /// Names near to that of a resource that there is not, of the same kind in the same fleet: that by spelling, or the first of few.
    fn near(&self, graph: &Graph, InFleet { fleet, name }: &ResourceKey) -> Box<[Arc<str>]> {
        let outputs = self.outputs;
        let mut names: Vec<Arc<str>> = match name.kind() {
            "Listener" => of_fleet(graph.iter(outputs.listeners), fleet, |name| &name.0),
            "Cluster" | "ClusterLoadAssignment" => of_fleet(outputs.clusters(graph), fleet, |name| &name.0),
            "RouteConfiguration" => of_fleet(graph.iter(outputs.route_configurations), fleet, |name| &name.0),
            _ => {
                let hosts = outputs.virtual_hosts(graph).filter(|(key, _)| key.fleet == *fleet);
                let separate = hosts.filter(|(key, _)| {
                    let chain = InFleet { fleet: fleet.clone(), name: key.configuration.clone() };
                    outputs.has_separate_hosts(graph, &chain)
                });
                separate.map(|(key, _)| Arc::clone(&key.name.0)).collect()
            }
        };
        names.sort_unstable();
        let near = envoy::nearest(&name.name, names.iter().map(|name| &**name));
        match near {
            Some(near) => [near.into()].into(),
            None => names.into_iter().take(MOST_NEAR).collect(),
        }
    }
}

fn of_fleet<'g, N: 'g, V: 'g>(
    rows: impl Iterator<Item = (&'g InFleet<N>, &'g V)>,
    fleet: &FleetName,
    name: impl Fn(&'g N) -> &'g Arc<str>,
) -> Vec<Arc<str>> {
    rows.filter(|(key, _)| key.fleet == *fleet).map(|(key, _)| Arc::clone(name(&key.name))).collect()
}

/// In which order resources are patched.
fn order(key: &ResourceKey) -> usize {
    PATCHABLE.iter().position(|message| *message == key.name.message).unwrap_or(PATCHABLE.len())
}

/// The name of a resource by its type URL, if it is one that can be patched, or that these can name.
pub(crate) fn named(type_url: &TypeUrl, name: &Arc<str>) -> Option<RawName> {
    let message = match type_url {
        TypeUrl::Secret => type_url::SECRET.strip_prefix("type.googleapis.com/"),
        other => patchable(other.as_str()),
    };
    Some(RawName { message: message?, name: Arc::clone(name) })
}

fn name_of(change: &Change) -> Option<RawName> {
    match change {
        Change::Put(resource) => named(&resource.type_url, &resource.name),
        Change::Remove { type_url, name } => named(type_url, name),
    }
}

/// The change of a resource that is about to be published; taken out.
fn position(updates: &mut Updates, key: &ResourceKey) -> Option<Change> {
    let changes = updates.get_mut(&key.fleet)?;
    // A resource may go and come in one tick: the last counts.
    let at = changes.iter().rposition(|change| name_of(change).as_ref() == Some(&key.name))?;
    Some(changes.get(at)?.clone())
}

/// Publishes a resource, or that it is gone, in the place of what was about to be published under its name.
fn put(updates: &mut Updates, key: &ResourceKey, resource: Option<Arc<xds::Resource>>) {
    let url = TypeUrl::from(&*format!("type.googleapis.com/{}", key.name.message));
    let change = match resource {
        Some(resource) => Change::Put(resource),
        None => Change::Remove { type_url: url, name: Arc::clone(&key.name.name) },
    };
    let changes = updates.entry(key.fleet.clone()).or_default();
    match changes.iter().rposition(|change| name_of(change).as_ref() == Some(&key.name)) {
        Some(at) => changes.get_mut(at).into_iter().for_each(|place| *place = change.clone()),
        None => changes.push(change),
    }
}

/// The resource that was put.
fn only(updates: Updates) -> Option<Arc<xds::Resource>> {
    updates.into_values().flatten().find_map(|change| match change {
        Change::Put(resource) => Some(resource),
        Change::Remove { .. } => None,
    })
}
