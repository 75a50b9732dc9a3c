//! Tests of the store: precedence, equality, problems, readiness, facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Kind, Object, ObjectKey, ObjectMeta, Problem, Severity};
use engine::Graph;
use proptest::prelude::*;

use super::*;
use crate::fact::{ClusterState, ListenerState, SecretRefusal};

/// A namespace, because it is the smallest object; the label tells versions apart.
fn object(name: &str, version: u8) -> Object {
    let meta = ObjectMeta {
        labels: [("version", version.to_string())].into_iter().collect(),
        ..ObjectMeta::new(ObjectKey::of(Kind::Namespace, "", name))
    };
    Object::from(api::Namespace { meta, spec: Default::default() })
}

fn settings(name: &str) -> Object {
    let meta = ObjectMeta::new(ObjectKey::of(Kind::EnvoyGateway, "", name));
    Object::from(api::EnvoyGateway { meta, spec: Default::default() })
}

fn origin(file: &str, line: u32) -> Origin {
    Origin { file: file.into(), line }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::of(Kind::Namespace, "", name)
}

struct Setup {
    graph: Graph,
    store: Store,
}

impl Setup {
    fn new() -> Self {
        let mut graph = Graph::new();
        let store = Store::declare(&mut graph);
        Self { graph, store }
    }

    fn send(&mut self, source: Source, changes: Vec<Change>) {
        self.store.apply(&mut self.graph, Batch { source, changes, listed: false });
    }

    fn version(&self, name: &str) -> Option<String> {
        let namespaces = self.store.tables().namespaces;
        self.graph.get(namespaces, &key(name)).and_then(|object| object.meta.labels.get("version").map(str::to_owned))
    }

    fn texts(&self) -> Vec<String> {
        self.store.problems().map(ToString::to_string).collect()
    }
}

#[test]
fn an_object_is_in_force_until_its_source_deletes_it() {
    let mut s = Setup::new();
    s.send(Source::File, vec![Change::Apply(object("a", 1), origin("a.yaml", 3))]);
    assert_eq!(s.version("a").as_deref(), Some("1"));
    assert_eq!(s.store.origin(&key("a")), Some(origin("a.yaml", 3)));
    s.send(Source::File, vec![Change::Apply(object("a", 2), origin("a.yaml", 3))]);
    assert_eq!(s.version("a").as_deref(), Some("2"));
    s.send(Source::Kubernetes, vec![Change::Delete(key("a"))]);
    assert_eq!(s.version("a").as_deref(), Some("2"), "another source cannot delete it");
    s.send(Source::File, vec![Change::Delete(key("a"))]);
    assert_eq!((s.version("a"), s.store.len()), (None, 0));
}

#[test]
fn an_equal_object_causes_nothing() {
    let mut s = Setup::new();
    let namespaces = s.store.tables().namespaces;
    let runs = s.graph.map("probe", namespaces, |_, _, object| object.clone());
    s.send(Source::File, vec![Change::Apply(object("a", 1), origin("a.yaml", 1))]);
    s.graph.tick();
    s.graph.settle();
    s.send(Source::File, vec![Change::Apply(object("a", 1), origin("a.yaml", 9))]);
    assert_eq!(s.graph.tick().runs, 0);
    assert_eq!(s.graph.changes(runs).count(), 0);
    assert_eq!(s.store.origin(&key("a")), Some(origin("a.yaml", 9)), "the new line is known all the same");
}

#[test]
fn the_stronger_source_wins_and_the_weaker_takes_over_with_a_warning_that_names_both() {
    let mut s = Setup::new();
    s.send(Source::Kubernetes, vec![Change::Apply(object("a", 1), origin("cluster", 0))]);
    s.send(Source::File, vec![Change::Apply(object("a", 2), origin("a.yaml", 7))]);
    assert_eq!(s.version("a").as_deref(), Some("2"));
    let warnings = s.texts();
    assert_eq!(warnings.len(), 1);
    let warning = &warnings[0];
    assert!(warning.contains("files (a.yaml:7)") && warning.contains("Kubernetes (cluster)"), "{warning}");

    s.send(Source::Kubernetes, vec![Change::Apply(object("a", 3), origin("cluster", 0))]);
    assert_eq!(s.version("a").as_deref(), Some("2"));
    s.send(Source::File, vec![Change::Delete(key("a"))]);
    assert_eq!(s.version("a").as_deref(), Some("3"), "the latest object of the weaker source");
    assert_eq!(s.store.source(&key("a")), Some(Source::Kubernetes));
    assert!(s.texts().is_empty());
}

#[test]
fn a_weaker_source_that_gives_up_an_object_takes_its_warning_along() {
    let mut s = Setup::new();
    s.send(Source::LocalApi, vec![Change::Apply(object("a", 1), origin("api", 0))]);
    s.send(Source::Xds, vec![Change::Apply(object("a", 2), origin("upstream", 0))]);
    let revision = s.store.problems_revision();
    s.send(Source::Xds, vec![Change::Delete(key("a"))]);
    assert!(s.texts().is_empty());
    assert_ne!(s.store.problems_revision(), revision);
    s.send(Source::LocalApi, vec![Change::Delete(key("a"))]);
    assert_eq!(s.version("a"), None);
}

#[test]
fn the_static_configuration_is_one_row_whatever_its_name() {
    let mut s = Setup::new();
    let table = s.store.tables().settings;
    s.send(Source::File, vec![Change::Apply(settings("mine"), origin("eg.yaml", 1))]);
    assert!(s.graph.get(table, &()).is_some());
    s.send(Source::LocalApi, vec![Change::Apply(settings("other"), origin("--config", 0))]);
    assert_eq!(s.graph.get(table, &()).map(|object| object.meta.name().to_owned()).as_deref(), Some("other"));
    s.send(Source::LocalApi, vec![Change::Delete(ObjectKey::of(Kind::EnvoyGateway, "", "other"))]);
    assert_eq!(s.graph.get(table, &()).map(|object| object.meta.name().to_owned()).as_deref(), Some("mine"));
    s.send(Source::File, vec![Change::Delete(ObjectKey::of(Kind::EnvoyGateway, "", "mine"))]);
    assert!(s.graph.get(table, &()).is_none());
}

#[test]
fn problems_are_replaced_per_place_and_sorted() {
    let problem = |file: &str, line: u32, text: &str| Problem {
        place: Some(api::Place { file: file.into(), line, column: 1 }),
        ..Problem::of(&key("a"), "", Severity::Error, text)
    };
    let mut s = Setup::new();
    let problems = vec![problem("b", 9, "late"), problem("b", 1, "early")];
    s.send(Source::File, vec![Change::Problems { origin: "b".into(), problems: problems.clone() }]);
    s.send(Source::File, vec![Change::Problems { origin: "a".into(), problems: vec![problem("a", 5, "other")] }]);
    let lines: Vec<u32> = s.store.problems().filter_map(|p| p.place.as_ref().map(|place| place.line)).collect();
    assert_eq!(lines, [5, 1, 9]);
    let revision = s.store.problems_revision();
    s.send(Source::File, vec![Change::Problems { origin: "b".into(), problems }]);
    assert_eq!(s.store.problems_revision(), revision, "the same again is no change");
    s.send(Source::File, vec![Change::Problems { origin: "b".into(), problems: vec![] }]);
    assert_eq!(s.texts().len(), 1);
}

#[test]
fn nothing_is_ready_before_every_registered_source_has_listed() {
    let mut s = Setup::new();
    assert!(s.store.ready());
    s.store.expect(Source::File);
    s.store.expect(Source::Kubernetes);
    let listed = |source| Batch { source, changes: vec![], listed: true };
    s.store.apply(&mut s.graph, listed(Source::File));
    s.store.apply(&mut s.graph, listed(Source::KeyValue));
    assert!(!s.store.ready());
    assert_eq!(s.store.awaited().collect::<Vec<_>>(), [Source::Kubernetes]);
    s.store.apply(&mut s.graph, listed(Source::Kubernetes));
    s.send(Source::Kubernetes, vec![]);
    assert!(s.store.ready(), "a later batch does not take it back");
}

#[test]
fn a_forgotten_fleet_leaves_no_fact_and_other_fleets_alone() {
    let mut s = Setup::new();
    let tables = s.store.tables();
    for fleet in ["ns/one", "ns/two"] {
        let fact = |name: &str| FactKey::new(fleet, name);
        s.graph.set(tables.fleet_live, fleet.into(), ());
        s.graph.set(tables.cluster_state, fact("c"), ClusterState::Warm);
        s.graph.set(tables.listener_state, fact("l"), ListenerState::Accepted);
        s.graph.set(tables.secret_refusals, fact("s"), SecretRefusal { words: "no".into(), has_previous: false });
        s.graph.set(tables.route_refusals, fact("r"), "no".into());
        s.graph.set(tables.disputes, fact("Listener l"), "no".into());
        s.graph.set(tables.proxies, fleet.into(), Arc::default());
    }
    s.store.forget_fleet(&mut s.graph, "ns/one");
    assert!(s.graph.get(tables.fleet_live, &"ns/one".into()).is_none());
    let rows = |s: &Setup| {
        [
            s.graph.iter(tables.fleet_live).count(),
            s.graph.iter(tables.cluster_state).count(),
            s.graph.iter(tables.listener_state).count(),
            s.graph.iter(tables.secret_refusals).count(),
            s.graph.iter(tables.route_refusals).count(),
            s.graph.iter(tables.disputes).count(),
            s.graph.iter(tables.proxies).count(),
        ]
    };
    assert_eq!(rows(&s), [1; 7]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever sources send in whatever order: the strongest source's latest object is in force, the others are
    /// aside, and there is one warning for each of those.
    #[test]
    fn the_strongest_latest_object_is_in_force(
        steps in prop::collection::vec((0..5usize, 0..4u8, prop::option::of(0..3u8)), 0..60),
    ) {
        let mut s = Setup::new();
        let mut model: BTreeMap<(u8, Source), u8> = BTreeMap::new();
        for (source, name, version) in steps {
            let (source, text) = (Source::ALL[source], name.to_string());
            let change = match version {
                Some(version) => Change::Apply(object(&text, version), origin(&text, u32::from(version) + 1)),
                None => Change::Delete(key(&text)),
            };
            match version {
                Some(version) => model.insert((name, source), version),
                None => model.remove(&(name, source)),
            };
            let (before, revision) = (s.texts(), s.store.problems_revision());
            s.send(source, vec![change]);
            prop_assert!(before == s.texts() || revision != s.store.problems_revision());
            for name in 0..4u8 {
                let mut holders = model.range((name, Source::LocalApi)..=(name, Source::Xds));
                let first = holders.next();
                let name = name.to_string();
                prop_assert_eq!(s.version(&name), first.map(|(_, version)| version.to_string()));
                prop_assert_eq!(s.store.source(&key(&name)), first.map(|((_, source), _)| *source));
                let line = first.map(|(_, version)| u32::from(*version) + 1);
                prop_assert_eq!(s.store.origin(&key(&name)).map(|origin| origin.line), line);
                let rest: Vec<Source> = holders.map(|((_, source), _)| *source).collect();
                prop_assert_eq!(s.store.aside(&key(&name)).map(|(source, _)| source).collect::<Vec<_>>(), rest);
            }
            let names: std::collections::BTreeSet<u8> = model.keys().map(|(name, _)| *name).collect();
            prop_assert_eq!(s.store.problems().count(), model.len() - names.len());
            prop_assert_eq!(s.store.len(), names.len());
        }
    }
}
