//! A translator with its publisher, and what proxies would have from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use api::{Object, ObjectKey, Timestamp};
use chancery::publish::Publisher;
use store::{Batch, Change, ClusterState, FactKey, Origin, Source};
use translator::{Options, Translator};
use xds::{Resource, TypeUrl};

/// Fleet, kind and name of a resource.
pub type ResourceKey = (Arc<str>, TypeUrl, Arc<str>);

/// Some time in 2026, so that certificates are neither too young nor all too old.
const NOW: Timestamp = Timestamp(1_790_000_000);

/// The core thread of the binary without its threads.
pub struct World {
    translator: Translator,
    publisher: Publisher,
    objects: BTreeMap<ObjectKey, Object>,
    published: BTreeMap<ResourceKey, Arc<Resource>>,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// Nothing is there.
    pub fn new() -> Self {
        let mut translator = Translator::new(Options { file_mode: true, ..Options::default() });
        translator.set_time(NOW);
        let publisher = Publisher::new(translator.outputs(), envoy::Options::default());
        Self { translator, publisher, objects: BTreeMap::new(), published: BTreeMap::new() }
    }

    /// Objects come or change. A later one of the same key is the one that stays.
    pub fn apply(&mut self, objects: Vec<Object>) {
        let origin = || Origin { file: "file.yaml".into(), line: 1 };
        self.objects.extend(objects.iter().map(|object| (object.key().clone(), object.clone())));
        self.change(objects.into_iter().map(|object| Change::Apply(object, origin())).collect());
    }

    /// One of the objects goes, chosen by a number.
    pub fn delete(&mut self, at: u8) {
        let Some(key) = self.objects.keys().nth(usize::from(at) % self.objects.len().max(1)).cloned() else { return };
        self.objects.remove(&key);
        self.change(vec![Change::Delete(key)]);
    }

    fn change(&mut self, changes: Vec<Change>) {
        let (store, graph) = self.translator.store();
        store.apply(graph, Batch { source: Source::File, changes, listed: true });
    }

    /// Every fleet that is published has a proxy with its first configuration.
    pub fn live(&mut self) {
        let fleets: Vec<Arc<str>> = self.published.keys().map(|(fleet, ..)| fleet.clone()).collect();
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        for fleet in fleets {
            graph.set(tables.fleet_live, fleet, ());
        }
    }

    /// A proxy says something of a cluster, chosen by a number.
    pub fn cluster(&mut self, at: u8, state: ClusterState) {
        let clusters: Vec<_> =
            self.published.keys().filter(|(_, kind, _)| *kind == TypeUrl::Cluster).cloned().collect();
        let Some((fleet, _, name)) = clusters.get(usize::from(at) % clusters.len().max(1)) else { return };
        let fact = FactKey::new(fleet.clone(), name.clone());
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        graph.set(tables.cluster_state, fact, state);
    }

    /// One turn of the core thread. A panic inside of the graph is contained there; here it counts.
    pub fn publish(&mut self) {
        self.translator.tick();
        assert_eq!(self.translator.graph().panics().len(), 0, "{:?}", self.translator.graph().panics());
        for update in self.publisher.updates(self.translator.graph(), Instant::now()) {
            for change in update.changes {
                match change {
                    xds::Change::Put(put) => {
                        let key = (update.fleet.clone(), put.type_url.clone(), put.name.clone());
                        self.published.insert(key, put);
                    }
                    xds::Change::Remove { type_url, name } => {
                        self.published.remove(&(update.fleet.clone(), type_url, name));
                    }
                }
            }
        }
        self.translator.remember_served();
        self.translator.settle();
    }

    /// Envoy would take every resource, as far as the rules in its API say.
    pub fn check_rules(&self) {
        for ((fleet, kind, name), resource) in &self.published {
            let broken = protojson::check(kind.as_str(), &resource.body.concat());
            assert!(broken.is_empty(), "{fleet} {kind} {name}: {broken:?}");
        }
    }

    /// The same objects in a translator that has seen nothing else.
    pub fn afresh(&self) -> Self {
        let mut fresh = Self::new();
        fresh.apply(self.objects.values().cloned().collect());
        fresh.publish();
        fresh
    }

    /// What every proxy has: version by resource.
    pub fn resources(&self) -> BTreeMap<&ResourceKey, xds::Version> {
        self.published.iter().map(|(key, resource)| (key, resource.version)).collect()
    }

    /// Statuses and problems as text.
    pub fn state(&self) -> BTreeMap<String, String> {
        let (graph, outputs) = (self.translator.graph(), self.translator.outputs());
        let mut all = BTreeMap::new();
        macro_rules! note {
            ($($rows:expr),+ $(,)?) => {$(
                for (key, value) in $rows {
                    all.insert(format!("{} {key:?}", stringify!($rows)), format!("{value:?}"));
                }
            )+};
        }
        note!(
            graph.iter(outputs.infra),
            graph.iter(outputs.gateway_class_statuses),
            graph.iter(outputs.gateway_statuses),
            graph.iter(outputs.route_statuses),
            graph.iter(outputs.policy_statuses),
            outputs.problems(graph),
        );
        all
    }
}

/// The objects of a text, whatever is wrong beside them. Of one key the first counts, as with files.
pub fn objects(text: &str) -> Vec<Object> {
    let file: Arc<str> = "file.yaml".into();
    let mut found: BTreeMap<ObjectKey, Object> = BTreeMap::new();
    for object in api::yaml::documents(text).flat_map(|document| api::read(&document, &file).objects) {
        found.entry(object.key().clone()).or_insert(object);
    }
    found.into_values().collect()
}
