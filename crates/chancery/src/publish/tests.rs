//! Whatever the history, what was published is what a fresh process publishes for the same objects.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use store::{Batch, Change as Edit, Source};
use translator::Translator;

use super::*;

/// Everything that a proxy has: bytes by fleet, type and name.
type Published = BTreeMap<(Arc<str>, String, Arc<str>), Vec<u8>>;

/// A translator and what has been published from it.
struct World {
    translator: Translator,
    publisher: Publisher,
    published: Published,
}

impl World {
    fn new() -> Self {
        let mut translator = Translator::new(translator::Options { file_mode: true, offline: false });
        translator.store().0.expect(Source::File);
        let options = envoy::Options { ipv6: false, access_log: envoy::AccessLog::Off };
        let publisher = Publisher::new(translator.outputs(), options);
        Self { translator, publisher, published: Published::new() }
    }

    fn commit(&mut self, objects: &[Value]) {
        let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        let input = provider::file::Input::Text { name: "test".into(), bytes: text.into_bytes() };
        let loaded = provider::file::load_inputs(&[input]).into_batch();
        let applied = loaded.changes.into_iter().filter(|change| matches!(change, Edit::Apply(..))).collect();
        let (store, graph) = self.translator.store();
        store.apply(graph, Batch { source: Source::File, changes: applied, listed: true });
        self.translator.tick();
        for FleetUpdate { fleet, changes } in self.publisher.updates(self.translator.graph()) {
            for change in changes {
                match change {
                    Change::Put(resource) => {
                        let key = (Arc::clone(&fleet), resource.type_url.to_string(), Arc::clone(&resource.name));
                        self.published.insert(key, resource.body.concat());
                    }
                    Change::Remove { type_url, name } => {
                        self.published.remove(&(Arc::clone(&fleet), type_url.to_string(), name));
                    }
                }
            }
        }
        self.translator.settle();
    }
}

/// One listener on one port; its name and host name change.
fn gateway() -> impl Strategy<Value = Value> {
    let host = prop::sample::select(vec![None, None, Some("*.test"), Some("a.test")]);
    (prop::sample::select(vec!["one", "two"]), host, any::<bool>()).prop_map(|(name, host, second)| {
        let mut listeners = vec![json!({"name": name, "hostname": host, "port": 80, "protocol": "HTTP"})];
        if second {
            listeners.push(json!({"name": "more", "hostname": "b.test", "port": 80, "protocol": "HTTP"}));
        }
        let spec = json!({"gatewayClassName": "any", "listeners": listeners});
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"}, "spec": spec})
    })
}

/// One of a few routes, to one of a few backends.
fn route() -> impl Strategy<Value = Value> {
    let host = prop::sample::select(vec![None, Some("a.test"), Some("b.test"), Some("*.test")]);
    (0..4_usize, host, 0..3_u32, prop::sample::select(vec!["/", "/x"])).prop_map(|(number, host, backend, path)| {
        let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"port": 9000 + backend}});
        let rule = json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}], "filters": [redirect]});
        let hosts: Vec<&str> = host.into_iter().collect();
        let spec = json!({"parentRefs": [{"name": "g"}], "hostnames": hosts, "rules": [rule]});
        let metadata = json!({"name": format!("r{number}")});
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata, "spec": spec})
    })
}

fn fresh(objects: &BTreeMap<String, Value>) -> Published {
    let mut world = World::new();
    world.commit(&objects.values().cloned().collect::<Vec<_>>());
    world.published
}

fn check(ticks: &[Vec<Value>]) {
    let mut world = World::new();
    let mut objects = BTreeMap::new();
    for tick in ticks {
        let named = |object: &Value| (format!("{}{}", object["kind"], object["metadata"]["name"]), object.clone());
        let tick: BTreeMap<String, Value> = tick.iter().map(named).collect();
        world.commit(&tick.values().cloned().collect::<Vec<_>>());
        objects.extend(tick.clone());
        let wanted = fresh(&objects);
        let differs = wanted.iter().find(|(key, bytes)| world.published.get(*key) != Some(*bytes)).map(|(key, _)| key);
        assert_eq!(differs, None, "after {tick:?}");
        assert_eq!(world.published.len(), wanted.len(), "after {tick:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn what_was_published_is_what_a_fresh_process_publishes(
        ticks in prop::collection::vec(
            prop::collection::vec(prop_oneof![2 => gateway(), 3 => route()], 1..4), 1..16),
    ) {
        check(&ticks);
    }
}
