//! Whatever the history, what was published is what a fresh process publishes for the same objects.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use store::{Batch, Change as Edit, Source};
use translator::Translator;

use super::*;

/// Everything that a proxy has, by fleet, type and name: bytes, and what they need.
type Published = BTreeMap<(Arc<str>, String, Arc<str>), (Vec<u8>, BTreeSet<Need>)>;

/// An object is put, or deleted.
type Step = (Value, bool);

/// A translator and what has been published from it.
struct World {
    translator: Translator,
    publisher: Publisher,
    published: Published,
}

impl World {
    fn new() -> Self {
        let mut translator = Translator::new(translator::Options { file_mode: true, ..translator::Options::default() });
        translator.store().0.expect(Source::File);
        let options = envoy::Options { ipv6: false, access_log: envoy::AccessLog::Off };
        let publisher = Publisher::new(translator.outputs(), options);
        Self { translator, publisher, published: Published::new() }
    }

    fn commit(&mut self, steps: &BTreeMap<String, Step>) {
        let text: String = steps.values().map(|(object, _)| format!("---\n{object}\n")).collect();
        let input = provider::file::Input::Text { name: "test".into(), bytes: text.into_bytes() };
        let loaded = provider::file::load_inputs(&[input]).into_batch();
        let changes = loaded.changes.into_iter().filter_map(|change| match change {
            Edit::Apply(object, origin) => {
                let (_, deleted) = &steps[&format!("{} {}", object.key().kind_name(), object.key().name())];
                Some(if *deleted { Edit::Delete(object.key().clone()) } else { Edit::Apply(object, origin) })
            }
            _ => None,
        });
        let changes = changes.collect();
        let (store, graph) = self.translator.store();
        store.apply(graph, Batch { source: Source::File, changes, listed: true });
        self.translator.tick();
        for FleetUpdate { fleet, changes } in self.publisher.updates(self.translator.graph(), Instant::now()) {
            for change in changes {
                match change {
                    Change::Put(resource) => {
                        let key = (Arc::clone(&fleet), resource.type_url.to_string(), Arc::clone(&resource.name));
                        self.published.insert(key, (resource.body.concat(), resource.needs().cloned().collect()));
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

/// One of a few routes: to one of a few backends, of which one is seldom there, or a redirect.
fn route() -> impl Strategy<Value = Value> {
    let host = prop::sample::select(vec![None, Some("a.test"), Some("b.test"), Some("*.test")]);
    (0..4_usize, host, 0..5_u32, prop::sample::select(vec!["/", "/x"])).prop_map(|(number, host, target, path)| {
        let matches = json!([{"path": {"type": "PathPrefix", "value": path}}]);
        let rule = if target < 3 {
            let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"port": 9000 + target}});
            json!({"matches": matches, "filters": [redirect]})
        } else {
            json!({"matches": matches, "backendRefs": [{"name": format!("s{target}"), "port": 80}]})
        };
        let hosts: Vec<&str> = host.into_iter().collect();
        let spec = json!({"parentRefs": [{"name": "g"}], "hostnames": hosts, "rules": [rule]});
        let metadata = json!({"name": format!("r{number}")});
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata, "spec": spec})
    })
}

/// What a route of number 3 or 4 leads to: the service, or its endpoints.
fn backend() -> impl Strategy<Value = Value> {
    (3..5_u32, any::<bool>(), 8000..8003_u32).prop_map(|(number, is_service, port)| {
        let name = format!("s{number}");
        if is_service {
            let spec = json!({"ports": [{"port": 80, "targetPort": port}]});
            return json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        }
        let metadata = json!({"name": name, "labels": {"kubernetes.io/service-name": name}});
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4",
            "ports": [{"port": port}], "endpoints": [{"addresses": ["127.0.0.1"]}],
        })
    })
}

/// A policy with one or two operations on what the others come to, or on what there is not.
fn patches() -> impl Strategy<Value = Value> {
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let of = |kind: &str, name: &str, operation: Value| json!({"type": format!("type.googleapis.com/envoy.config.{kind}"), "name": name, "operation": operation});
    let (cluster, routes) = ("cluster.v3.Cluster", "route.v3.RouteConfiguration");
    let extra = json!({"name": "extra", "connect_timeout": "1s", "type": "STATIC", "load_assignment": {"cluster_name": "extra"}});
    let to_extra = json!({"match": {"prefix": "/extra"}, "route": {"cluster": "extra"}});
    let choices = vec![
        of(cluster, "default/s3/80", add("/connect_timeout", json!("3s"))),
        of(cluster, "default/s3/80", add("/connect_timeout", json!("4s"))),
        of(cluster, "default/s3/80", add("/conect_timeout", json!("4s"))),
        of(cluster, "extra", add("", extra)),
        of(cluster, "extra", json!({"op": "replace", "path": "/connect_timeout", "value": "7s"})),
        of(routes, "default/g/80", add("/virtual_hosts/0/routes/-", to_extra)),
        of(routes, "default/g/80", add("/request_headers_to_remove/-", json!("x-test"))),
        of("listener.v3.Listener", "default/g/80", add("/per_connection_buffer_limit_bytes", json!(1))),
        of(
            "listener.v3.Listener",
            "default/g/80",
            json!({
                "op": "replace", "path": "/filter_chains/0/filters/0/typed_config/rds/route_config_name", "value": "other",
            }),
        ),
        of(routes, "other", add("", json!({"name": "other"}))),
        of("endpoint.v3.ClusterLoadAssignment", "default/s4/80", add("/endpoints/0/priority", json!(0))),
    ];
    let some = prop::collection::vec(prop::sample::select(choices), 1..3);
    (0..3_u32, -1..2_i32, some).prop_map(|(number, priority, patches)| {
        let target = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g"});
        let spec = json!({"type": "JSONPatch", "targetRef": target, "priority": priority, "jsonPatches": patches});
        let metadata = json!({"name": format!("p{number}")});
        json!({"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyPatchPolicy", "metadata": metadata, "spec": spec})
    })
}

/// Patches have an effect, or not.
fn settings() -> impl Strategy<Value = Value> {
    prop::bool::weighted(0.8).prop_map(|on| {
        let apis = json!({"enableEnvoyPatchPolicy": on});
        json!({"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway", "metadata": {"name": "settings"}, "extensionApis": apis})
    })
}

fn named((object, deleted): &Step) -> (String, Step) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])), (object.clone(), *deleted))
}

fn check(ticks: &[Vec<Step>]) {
    let mut world = World::new();
    let mut objects = BTreeMap::new();
    for tick in ticks {
        let tick: BTreeMap<String, Step> = tick.iter().map(named).collect();
        world.commit(&tick);
        objects.extend(tick.clone());
        objects.retain(|_, (_, deleted)| !*deleted);
        let mut fresh = World::new();
        fresh.commit(&objects);
        let wanted = fresh.published;
        let differs = wanted.iter().find(|(key, value)| world.published.get(*key) != Some(*value)).map(|(key, _)| key);
        assert_eq!(differs, None, "after {tick:?}");
        assert_eq!(world.published.len(), wanted.len(), "after {tick:?}");
    }
}

/// Sixty-four hosts travel inside their configuration, more one by one.
#[test]
fn hosts_that_become_many_and_few_again_are_published_whole() {
    let route = |number: usize, deleted: bool| {
        let rule = json!({"backendRefs": [{"name": "s", "port": 80}]});
        let spec = json!({"parentRefs": [{"name": "g"}], "hostnames": [format!("h{number}.test")], "rules": [rule]});
        let metadata = json!({"name": format!("r{number}")});
        let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata, "spec": spec});
        (route, deleted)
    };
    let spec = json!({"gatewayClassName": "chancery", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]});
    let gateway = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"}, "spec": spec});
    let mut ticks = vec![vec![(gateway, false)]];
    ticks.push((0..60).map(|number| route(number, false)).collect());
    ticks.extend((60..70).map(|number| vec![route(number, false)]));
    ticks.extend((60..70).map(|number| vec![route(number, true)]));
    ticks.extend((60..70).map(|number| vec![route(number, false)]));
    check(&ticks);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn what_was_published_is_what_a_fresh_process_publishes(
        ticks in prop::collection::vec(
            prop::collection::vec((prop_oneof![2 => gateway(), 3 => route(), 3 => backend()], prop::bool::weighted(0.2)), 1..4),
            1..16),
    ) {
        check(&ticks);
    }

    #[test]
    fn what_was_published_with_patches_is_what_a_fresh_process_publishes(
        first in settings(),
        ticks in prop::collection::vec(
            prop::collection::vec(
                (prop_oneof![1 => settings(), 3 => gateway(), 4 => route(), 4 => backend(), 8 => patches()], prop::bool::weighted(0.15)), 1..5),
            1..12),
    ) {
        let ticks: Vec<Vec<Step>> = std::iter::once(vec![(first, false)]).chain(ticks).collect();
        check(&ticks);
    }
}
