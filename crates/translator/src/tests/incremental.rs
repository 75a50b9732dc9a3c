//! Whatever the history, the graph is what a fresh one makes of the same objects.

mod objects;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Kind, Object, ObjectKey, Timestamp};
use ir::SecretName;
use ir::secret::SecretContent;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use store::{Change, ClusterState, Definitions, FactKey, Origin};

use self::objects::{Edit, Written};
use crate::digest::Digest;
use crate::testing::{World, gateway, object};
use crate::{Options, Translator};

/// Everything that leaves the graph, in order, as text.
fn everything(translator: &Translator) -> BTreeMap<String, String> {
    let (graph, outputs) = (translator.graph(), translator.outputs());
    let mut all = BTreeMap::new();
    macro_rules! note {
        ($($name:literal: $rows:expr),+ $(,)?) => {$(
            for (key, value) in $rows {
                all.insert(format!("{} {key:?}", $name), format!("{value:?}"));
            }
        )+};
    }
    note!(
        "listener": graph.iter(outputs.listeners),
        "configuration": graph.iter(outputs.route_configurations),
        "host": outputs.virtual_hosts(graph),
        "stream": outputs.streams(graph),
        "piece": graph.iter(outputs.route_pieces),
        "cluster": outputs.clusters(graph),
        "endpoints": outputs.endpoints(graph),
        "own endpoints": outputs.endpoint_sets.rows.into_iter().flat_map(|table| graph.iter(table)),
        "shared endpoints": graph.iter(outputs.shared_sets),
        "secret": graph.iter(outputs.secrets).map(|(key, secret)| (key, content(secret))),
        "runtime": graph.iter(outputs.runtimes),
        "infra": graph.iter(outputs.infra),
        "held": outputs.held.into_iter().flat_map(|table| graph.iter(table)),
        "class": graph.iter(outputs.gateway_class_statuses),
        "gateway": graph.iter(outputs.gateway_statuses),
        "set": graph.iter(outputs.listener_set_statuses),
        "route": graph.iter(outputs.route_statuses).map(|(key, _)| (key, outputs.route_status(graph, key))),
        "told of route": graph.iter(outputs.route_statuses),
        "policy": graph.iter(outputs.policy_statuses),
        "TLS policy": graph.iter(outputs.tls_policy_statuses),
        "backend policy": graph.iter(outputs.backend_policy_statuses),
        "telemetry policy": graph.iter(outputs.telemetry_policy_statuses),
        "patch": graph.iter(outputs.patch_statuses),
        "unbuilt policy": graph.iter(outputs.unbuilt_policy_statuses),
        "patches": graph.iter(outputs.patches),
        "X backend": graph.iter(outputs.x_backend_statuses),
        "backend": graph.iter(outputs.backend_statuses),
        "proxy": graph.iter(outputs.envoy_proxy_statuses),
        "problem": outputs.problems(graph),
        "effective": graph.iter(outputs.effective),
    );
    all
}

/// What is not the same in both; `-` is only in the first.
fn differences(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) -> Vec<String> {
    let lines = |mark: char, all: &BTreeMap<String, String>, others: &BTreeMap<String, String>| {
        let own = all.iter().filter(|(key, value)| others.get(*key) != Some(*value));
        own.map(|(key, value)| format!("{mark} {key}: {value}")).collect::<Vec<_>>()
    };
    [lines('-', first, second), lines('+', second, first)].concat()
}

/// What a secret holds; its own words hide it.
fn content(secret: &ir::Secret) -> (&SecretName, [Digest; 2]) {
    let [first, second]: [&[u8]; 2] = match &secret.content {
        SecretContent::Certificate { chain, key } => [&chain.0, &key.0],
        SecretContent::Bundle(text) => [&text.0, &[]],
    };
    (&secret.name, [Digest::of(&first), Digest::of(&second)])
}

/// What is there.
#[derive(Default)]
struct Present {
    is_cluster: bool,
    objects: BTreeMap<ObjectKey, Written>,
    time: i64,
    definitions: Option<Arc<Definitions>>,
    live: BTreeSet<&'static str>,
}

impl Present {
    /// A world without objects.
    fn begin(&self) -> World {
        let mut world = if self.is_cluster { World::in_cluster() } else { World::new() };
        world.translator.set_time(Timestamp(self.time));
        world.change(self.definitions.iter().cloned().map(Change::Definitions).collect());
        world
    }

    /// The world that objects make if they come together.
    fn fresh<'a>(&self, objects: impl Iterator<Item = &'a Written>) -> Translator {
        let mut world = self.begin();
        world.apply(objects.map(Written::object));
        self.answer(&mut world.translator);
        world.translator
    }

    /// Deletes the Secrets and writes them again: one that holds half of a new pair keeps the pair before it only as long as it is there.
    fn write_secrets_again(&self, world: &mut World) {
        let is_secret = |object: &Object| object.key().kind() == Some(Kind::Secret);
        let secrets: Vec<Object> = self.objects.values().map(Written::object).filter(is_secret).collect();
        world.change(secrets.iter().map(|secret| Change::Delete(secret.key().clone())).collect());
        world.translator.remember_served();
        world.apply(secrets);
        world.translator.remember_served();
    }

    /// The proxies have everything that they were to get, and again what takes the place of it then.
    fn answer(&self, translator: &mut Translator) {
        let tables = translator.stored().tables();
        for _ in 0..3 {
            let clusters = clusters(translator);
            let (_, graph) = translator.store();
            self.live.iter().for_each(|fleet| graph.set(tables.fleet_live, Arc::from(*fleet), ()));
            clusters.into_iter().for_each(|fact| graph.set(tables.cluster_state, fact, ClusterState::Warm));
            translator.tick();
            translator.remember_served();
        }
        translator.tick();
    }

    /// What an edit of an object comes to; none if there is nothing to edit.
    fn edit(&mut self, world: &mut World, edit: Edit) -> Option<Change> {
        let nth = |at: Index| self.objects.keys().nth(at.index(self.objects.len().max(1))).cloned();
        let written = match edit {
            Edit::Write(written) => written,
            Edit::Touch(written, dice) => match self.objects.get(written.object().key()) {
                Some(was) => written.touched(was, dice),
                None => written,
            },
            Edit::Turn(at) => self.objects.get(&nth(at)?)?.turned(),
            Edit::Delete(at) => {
                let key = nth(at)?;
                self.objects.remove(&key);
                return Some(Change::Delete(key));
            }
            Edit::Time(time) => {
                self.time = time;
                world.translator.set_time(Timestamp(time));
                return None;
            }
            Edit::Live(fleet) => {
                let tables = world.translator.stored().tables();
                self.live.insert(fleet);
                world.translator.store().1.set(tables.fleet_live, Arc::from(fleet), ());
                return None;
            }
            Edit::Answer(at, state) => {
                let clusters = clusters(&world.translator);
                let tables = world.translator.stored().tables();
                let fact = clusters.iter().nth(at.index(clusters.len().max(1)))?.clone();
                world.translator.store().1.set(tables.cluster_state, fact, state);
                return None;
            }
            Edit::Kinds(kinds) => {
                let definitions = Definitions { kinds: kinds.iter().copied().collect(), gateway_api: None };
                return Some(Change::Definitions(self.definitions.insert(Arc::new(definitions)).clone()));
            }
        };
        let object = written.object();
        self.objects.insert(object.key().clone(), written);
        Some(Change::Apply(object, Origin { file: "test".into(), line: 0 }))
    }
}

/// Clusters of Envoy's, as proxies name them.
fn clusters(translator: &Translator) -> BTreeSet<FactKey> {
    let all = translator.outputs().clusters(translator.graph());
    all.map(|(key, _)| FactKey::new(key.fleet.0.clone(), key.name.as_str())).collect()
}

/// What was told of changes, in the words of [`everything`], of what is spread over several tables.
fn hear(told: &mut BTreeMap<String, String>, translator: &Translator) {
    let (graph, outputs) = (translator.graph(), translator.outputs());
    let mut put = |key: String, new: Option<String>| match new {
        Some(new) => drop(told.insert(key, new)),
        None => drop(told.remove(&key)),
    };
    macro_rules! note {
        ($($name:literal: $changes:expr),+ $(,)?) => {$(
            for change in $changes {
                put(format!("{} {:?}", $name, change.key), change.new.map(|new| format!("{new:?}")));
            }
        )+};
    }
    note!(
        "host": outputs.virtual_host_changes(graph),
        "stream": outputs.stream_changes(graph),
        "cluster": outputs.cluster_changes(graph),
    );
    for name in outputs.endpoint_changes(graph) {
        put(format!("endpoints {name:?}"), outputs.endpoint_set(graph, name).map(|set| format!("{set:?}")));
    }
}

/// As many as `PROPTEST_CASES` says; a quarter of what is usual where it says nothing, as each is a world with dozens of objects.
fn cases() -> u32 {
    const USUAL: u32 = 256;
    match ProptestConfig::default().cases {
        USUAL => USUAL / 4,
        asked => asked,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_where_a_fresh_graph_begins(
        is_cluster in any::<bool>(),
        history in objects::history(),
    ) {
        let mut present = Present { is_cluster, ..Present::default() };
        let (mut world, mut told) = (present.begin(), BTreeMap::new());
        for edits in history {
            let changes = edits.into_iter().filter_map(|edit| present.edit(&mut world, edit)).collect();
            world.change(changes);
            hear(&mut told, &world.translator);
            world.translator.remember_served();
        }
        let mut spread = everything(&world.translator);
        spread.retain(|key, _| ["host ", "stream ", "cluster ", "endpoints "].iter().any(|table| key.starts_with(table)));
        prop_assert_eq!(differences(&told, &spread), Vec::<String>::new(), "between what was told and what is there");
        present.write_secrets_again(&mut world);
        present.answer(&mut world.translator);
        prop_assert_eq!(world.translator.tick().runs, 0, "a second tick has nothing to do");
        world.translator.settle();
        let mut forward = present.fresh(present.objects.values());
        let backward = present.fresh(present.objects.values().rev());
        let expected = everything(&forward);
        let of = |translator| differences(&everything(translator), &expected);
        prop_assert_eq!(of(&world.translator), Vec::<String>::new(), "between edited and fresh");
        prop_assert_eq!(of(&backward), Vec::<String>::new(), "between two orders of objects");
        forward.tick();
        forward.settle();
        prop_assert_eq!(world.translator.graph().size().edges, forward.graph().size().edges);
    }
}

#[test]
fn the_number_of_runs_per_change_does_not_grow_with_the_number_of_routes() {
    let build = |count: usize| {
        let mut world = World::with([gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}]))]);
        world.apply((0..count).flat_map(|at| {
            let host = format!("h{at}.org");
            let service = format!("s{at}");
            [
                crate::testing::service(&service, 80),
                crate::testing::route(&format!("r{at}"), "web", &[&*host], &[("/", &service)]),
            ]
        }));
        let edited = world.apply([crate::testing::route("r7", "web", &["h7.org"], &[("/x", "s7")])]);
        let added = world.apply([crate::testing::route("new", "web", &["new.org"], &[("/", "s7")])]);
        let ports = world.apply([object(
            Kind::Service,
            "s7",
            json!({"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]}),
        )]);
        let unused = world.apply([crate::testing::service("nobody", 80)]);
        [edited.runs, added.runs, ports.runs, unused.runs]
    };
    assert_eq!(build(100), build(1_000));
}

#[test]
fn a_live_fleet_and_its_facts_do_not_depend_on_history_either() {
    let objects = |backend: &str| {
        [
            gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
            crate::testing::service("v1", 80),
            crate::testing::service("v2", 80),
            crate::testing::route("r", "web", &["x.org"], &[("/", backend)]),
        ]
    };
    let live = |world: &mut World| {
        let tables = world.translator.stored().tables();
        let (_, graph) = world.translator.store();
        graph.set(tables.fleet_live, Arc::from("default/web"), ());
        for name in ["default/v1/80", "default/v2/80"] {
            graph.set(tables.cluster_state, FactKey::new("default/web", name), ClusterState::Warm);
        }
        world.translator.tick();
        world.translator.remember_served();
        world.translator.tick();
    };
    let mut edited = World::with(objects("v1"));
    live(&mut edited);
    edited.apply(objects("v2"));
    edited.translator.remember_served();
    live(&mut edited);
    let mut made = World::with(objects("v2"));
    live(&mut made);
    assert_eq!(everything(&edited.translator), everything(&made.translator));
    let Options { file_mode, offline, .. } = Options::default();
    assert!(!file_mode && !offline);
}

#[test]
fn a_listeners_port_concerns_no_route_but_those_that_redirect() {
    let listener = |port: u16| gateway("web", json!([{"name": "http", "port": port, "protocol": "HTTP"}]));
    let redirect = json!({
        "parentRefs": [{"name": "web"}], "hostnames": ["r.org"],
        "rules": [{"filters": [{"type": "RequestRedirect", "requestRedirect": {}}]}],
    });
    let mut world = World::with([listener(80), crate::testing::service("v1", 80)]);
    world.apply((0..20).map(|at| crate::testing::route(&format!("r{at}"), "web", &["x.org"], &[("/", "v1")])));
    world.apply([object(Kind::HttpRoute, "redirect", redirect)]);
    let runs = |world: &World| {
        let mut nodes = world.translator.graph().nodes();
        nodes.find(|node| node.name == "route").map(|node| node.runs)
    };
    let before = runs(&world).expect("the node");
    world.apply([listener(81)]);
    assert_eq!(runs(&world), Some(before + 1));
    assert_eq!(world.ask("default/web/81", "x.org", "/"), "default/v1/80*1");
}
