//! Whatever the history, the graph is what a fresh one makes of the same objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use store::{ClusterState, FactKey};

use crate::testing::{World, aged, gateway, object, slice, with_meta};
use crate::{Options, Translator};
use api::{Kind, Object, ObjectKey, ObjectMeta};

/// One edit: an object comes, changes or goes.
#[derive(Clone, Debug)]
enum Edit {
    Apply(Object),
    Delete(ObjectKey),
}

fn pick(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(words)
}

const NAMESPACES: &[&str] = &["default", "other"];
const HOSTS: &[&str] = &["a.x.org", "*.x.org", "*.org", "b.y.org", "bad host"];

fn listener() -> impl Strategy<Value = Value> {
    let name = pick(&["l1", "l2", "l3"]);
    let host = prop::option::of(pick(&["a.x.org", "*.x.org", "*.org"]));
    let port = prop::sample::select(vec![80, 81]);
    let from = pick(&["Same", "All", "Selector", "Odd"]);
    let protocol = pick(&["HTTP", "HTTP", "HTTP", "HTTPS", "TCP"]);
    let asked = prop::option::weighted(0.3, pick(&["s1", "s2"]));
    (name, host, port, from, protocol, asked).prop_map(|(name, host, port, from, protocol, asked)| {
        let filters = asked.map(|server| json!({"requests": [external_auth(server, "default", "HTTP")]}));
        json!({
            "filters": filters,
            "name": name, "hostname": host, "port": port, "protocol": protocol,
            "allowedRoutes": {"namespaces": {"from": from, "selector": {"matchLabels": {"team": "blue"}}}},
            "tls": {"certificateRefs": [{"name": "cert"}]},
        })
    })
}

fn gateways() -> impl Strategy<Value = Object> {
    let name = pick(&["default/g1", "default/g2", "other/g3"]);
    let settings = prop::option::of(pick(&["p", "q"]));
    let more = (prop::collection::vec(listener(), 0..4), pick(&["None", "Same", "All", "Selector"]));
    (name, more, 0..3_i64, settings).prop_map(|(name, (listeners, from), age, settings)| {
        let settings = settings.map(|name| json!({"parametersRef": proxy_ref(name)}));
        let allowed = json!({"namespaces": {"from": from, "selector": {"matchLabels": {"team": "blue"}}}});
        let spec = json!({
            "gatewayClassName": "eg", "listeners": listeners, "infrastructure": settings, "allowedListeners": allowed,
        });
        aged(object(Kind::Gateway, name, spec), age)
    })
}

fn sets() -> impl Strategy<Value = Object> {
    let name = pick(&["default/g1", "default/t1", "other/t1", "other/t2"]);
    let parent = (pick(&["g1", "g3", "no"]), prop::option::of(pick(NAMESPACES)), pick(&["Gateway", "Gateway", "Odd"]));
    let parent = parent.prop_map(|(name, namespace, kind)| json!({"name": name, "namespace": namespace, "kind": kind}));
    (name, parent, prop::collection::vec(listener(), 1..4), 0..3_i64).prop_map(|(name, parent, listeners, age)| {
        aged(object(Kind::ListenerSet, name, json!({"parentRef": parent, "listeners": listeners})), age)
    })
}

fn proxy_ref(name: &str) -> Value {
    json!({"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "namespace": "default", "name": name})
}

fn external_auth(name: &str, namespace: &str, protocol: &str) -> Value {
    let server = json!({"name": name, "namespace": namespace, "port": 80});
    let asked = json!({"protocol": protocol, "backendRef": server, protocol.to_lowercase(): {}});
    json!({"type": "ExternalAuth", "externalAuth": asked})
}

fn rule() -> impl Strategy<Value = Value> {
    let path = pick(&["/", "/a", "/a/b", "no-path"]);
    let kind = pick(&["PathPrefix", "Exact", "RegularExpression", "Strange"]);
    let filter = prop::option::of(prop::sample::select(vec![
        json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}),
        json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s2", "port": 80}}}),
        external_auth("s2", "default", "HTTP"),
        external_auth("s3", "other", "GRPC"),
        json!({"type": "Unknown"}),
    ]));
    let backend = (pick(&["s1", "s2", "s3"]), prop::option::of(pick(NAMESPACES)), 0..3_u32).prop_map(
        |(name, namespace, weight)| json!({"name": name, "namespace": namespace, "port": 80, "weight": weight}),
    );
    let name = prop::option::of(pick(&["one", "two"]));
    (path, kind, filter, prop::collection::vec(backend, 0..3), name).prop_map(|(path, kind, filter, backends, name)| {
        json!({
            "name": name,
            "matches": [{"path": {"type": kind, "value": path}}],
            "filters": filter.into_iter().collect::<Vec<_>>(),
            "backendRefs": backends,
        })
    })
}

fn routes() -> impl Strategy<Value = Object> {
    let kind = pick(&["Gateway", "Gateway", "ListenerSet"]);
    let parent = (kind, pick(&["g1", "g2", "g3", "t1"]), pick(NAMESPACES), prop::option::of(pick(&["l1", "l2"])));
    let parent = parent.prop_map(|(kind, name, namespace, section)| {
        json!({"kind": kind, "name": name, "namespace": namespace, "sectionName": section})
    });
    let name =
        (pick(NAMESPACES), pick(&["r1", "r2", "r3"])).prop_map(|(namespace, name)| format!("{namespace}/{name}"));
    let parents = prop::collection::vec(parent, 0..3);
    let hosts = prop::collection::vec(pick(HOSTS), 0..3);
    (name, parents, hosts, prop::collection::vec(rule(), 0..3), 0..3_i64).prop_map(
        |(name, parents, hosts, rules, age)| {
            let spec = json!({"parentRefs": parents, "hostnames": hosts, "rules": rules});
            aged(object(Kind::HttpRoute, &name, spec), age)
        },
    )
}

fn others() -> impl Strategy<Value = Object> {
    let service = (pick(NAMESPACES), pick(&["s1", "s2", "s3"]), pick(&["", "kubernetes.io/h2c"]), 79..81_u16).prop_map(
        |(namespace, name, protocol, port)| {
            let spec = json!({"ports": [{"port": port, "appProtocol": protocol}, {"port": 80, "name": "x"}]});
            object(Kind::Service, &format!("{namespace}/{name}"), spec)
        },
    );
    let slices =
        (pick(&["s1", "s2"]), 1..4_u8).prop_map(|(name, last)| slice(name, 9000, &[&*format!("10.0.0.{last}")]));
    let namespace = (pick(NAMESPACES), pick(&["blue", "red"])).prop_map(|(name, team)| {
        let mut meta = ObjectMeta::new(ObjectKey::of(Kind::Namespace, "", name));
        meta.labels = [("team", team)].into_iter().collect();
        with_meta(Kind::Namespace, meta, json!({}))
    });
    let grant = (pick(NAMESPACES), prop::option::of(pick(&["s1", "s2"]))).prop_map(|(namespace, target)| {
        let from: Vec<Value> = NAMESPACES
            .iter()
            .map(|from| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": from}))
            .collect();
        object(
            Kind::ReferenceGrant,
            &format!("{namespace}/g"),
            json!({"from": from, "to": [{"kind": "Service", "name": target}]}),
        )
    });
    let target = (pick(&["Gateway", "HTTPRoute", "Odd"]), pick(&["g1", "r1", "r2"]), prop::option::of(pick(&["one"])))
        .prop_map(|(kind, name, section)| {
            json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": name, "sectionName": section})
        });
    let policy =
        (pick(&["p1", "p2"]), prop::collection::vec(target, 1..3), 1..4_u32).prop_map(|(name, targets, limit)| {
            object(
                Kind::BackendTrafficPolicy,
                name,
                json!({"targetRefs": targets, "circuitBreaker": {"maxConnections": limit}}),
            )
        });
    let controller = pick(&["gateway.envoyproxy.io/gatewayclass-controller", "example.com/other"]);
    let class = (controller, prop::option::of(pick(&["p", "q"]))).prop_map(|(controller, settings)| {
        let spec = json!({"controllerName": controller, "parametersRef": settings.map(proxy_ref)});
        object(Kind::GatewayClass, "eg", spec)
    });
    let proxy = (pick(&["p", "q"]), prop::option::of(pick(&["IPv4", "IPv6"])))
        .prop_map(|(name, family)| object(Kind::EnvoyProxy, name, json!({"ipFamily": family})));
    let backend = pick(&["127.0.0.1", "no address"]).prop_map(|address| {
        object(Kind::Backend, "b", json!({"endpoints": [{"ip": {"address": address, "port": 80}}]}))
    });
    prop_oneof![4 => service, 3 => slices, 1 => namespace, 2 => grant, 2 => policy, 1 => class, 1 => proxy, 1 => backend]
}

fn edit() -> impl Strategy<Value = Edit> {
    let any = prop_oneof![
        3 => gateways().boxed(),
        3 => sets().boxed(),
        6 => routes().boxed(),
        5 => others().boxed()
    ];
    (any, 0..4_u8)
        .prop_map(|(object, dice)| if dice == 0 { Edit::Delete(object.key().clone()) } else { Edit::Apply(object) })
}

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
        "secret": graph.iter(outputs.secrets),
        "infra": graph.iter(outputs.infra),
        "class": graph.iter(outputs.gateway_class_statuses),
        "gateway": graph.iter(outputs.gateway_statuses),
        "set": graph.iter(outputs.listener_set_statuses),
        "route": graph.iter(outputs.route_statuses).map(|(key, _)| (key, outputs.route_status(graph, key))),
        "policy": graph.iter(outputs.policy_statuses),
        "backend": graph.iter(outputs.backend_statuses),
        "proxy": graph.iter(outputs.envoy_proxy_statuses),
        "problem": outputs.problems(graph),
        "effective": graph.iter(outputs.effective),
    );
    all
}

fn fresh(objects: impl Iterator<Item = Object>) -> Translator {
    World::with(objects).translator
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_where_a_fresh_graph_begins(edits in prop::collection::vec(edit(), 1..40)) {
        let mut world = World::new();
        let mut objects: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for (at, edit) in edits.into_iter().enumerate() {
            match edit {
                Edit::Apply(object) => {
                    objects.insert(object.key().clone(), object.clone());
                    world.apply([object]);
                }
                Edit::Delete(key) => {
                    objects.remove(&key);
                    world.change(vec![store::Change::Delete(key)]);
                }
            }
            if at % 8 == 7 {
                world.translator.remember_served();
                world.translator.tick();
            }
        }
        world.translator.tick();
        prop_assert_eq!(world.translator.tick().runs, 0, "a second tick has nothing to do");
        world.translator.settle();
        let mut forward = fresh(objects.values().cloned());
        let backward = fresh(objects.values().rev().cloned());
        prop_assert_eq!(everything(&world.translator), everything(&forward));
        prop_assert_eq!(everything(&backward), everything(&forward));
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
