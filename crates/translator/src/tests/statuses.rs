//! Statuses of objects that neither serve nor route: `Backend`, `EnvoyProxy`, policies.

use std::sync::Arc;

use api::reference::ParentRef;
use api::status::{Condition, EnvoyProxyStatus, PolicyStatus, Status};
use api::{Fault, Kind, Object, ObjectKey};
use serde_json::{Value, json};

use crate::testing::{World, gateway, object, route, route_spec, service, short};

const GROUP: &str = "gateway.networking.k8s.io";

fn fault() -> Option<Box<Fault>> {
    Some(Box::new(Fault { path: "spec.x".into(), text: "1 is not in the range".into() }))
}

fn web() -> Object {
    gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}]))
}

fn proxy_ref() -> Value {
    json!({"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "p", "namespace": "default"})
}

fn with_parameters(name: &str, port: u16) -> Object {
    let listeners = json!([{"name": "http", "port": port, "protocol": "HTTP"}]);
    let infrastructure = json!({"parametersRef": proxy_ref()});
    object(
        Kind::Gateway,
        name,
        json!({"gatewayClassName": "eg", "listeners": listeners, "infrastructure": infrastructure}),
    )
}

#[test]
fn a_backend_says_whether_it_can_be_used_whoever_names_it() {
    let backend = |address: &str| json!({"endpoints": [{"ip": {"address": address, "port": 80}}]});
    let status = |world: &World| {
        let key = ObjectKey::of(Kind::Backend, "default", "b");
        let table = world.translator.outputs().backend_statuses;
        let found = world.translator.graph().get(table, &key)?;
        Some((short(&found.conditions), found.conditions[0].message.to_string()))
    };
    let mut world = World::new();
    let mut becomes = |object: Object| {
        world.apply([object]);
        status(&world).expect("a status")
    };
    let (conditions, _) = becomes(object(Kind::Backend, "b", backend("127.0.0.1")));
    assert_eq!(conditions, ["Accepted=True/Accepted"]);
    let (conditions, why) = becomes(object(Kind::Backend, "b", backend("127.0.0.300")));
    assert_eq!(conditions, ["Accepted=False/Invalid"]);
    assert!(why.contains("spec.endpoints[0]: \"127.0.0.300\" is not an IP address"), "{why}");

    let Object::Backend(broken) = object(Kind::Backend, "b", backend("127.0.0.1")) else { panic!("a Backend") };
    let mut broken = Arc::unwrap_or_clone(broken);
    broken.spec.fault = fault();
    let (conditions, why) = becomes(Object::Backend(Arc::new(broken)));
    assert_eq!(conditions, ["Accepted=False/Invalid"]);
    assert!(why.ends_with("spec.x: 1 is not in the range"), "{why}");

    becomes(object(Kind::Backend, "b", backend("127.0.0.1")));
    let forbidden = json!({"extensionApis": {"enableBackend": false}});
    let (conditions, why) = becomes(object(Kind::EnvoyGateway, "", forbidden));
    assert_eq!(conditions, ["Accepted=False/Invalid"]);
    assert!(why.contains("enableBackend"), "{why}");
    world.delete(Kind::Backend, "default", "b");
    assert_eq!(status(&world), None);
}

fn proxy_status(world: &World) -> Option<EnvoyProxyStatus> {
    let key = ObjectKey::of(Kind::EnvoyProxy, "default", "p");
    let table = world.translator.outputs().envoy_proxy_statuses;
    world.translator.graph().get(table, &key).map(|status| (**status).clone())
}

/// `Kind/name: conditions` of each ancestor.
fn ancestors(world: &World) -> Vec<String> {
    let found = proxy_status(world).map(|status| status.ancestors).unwrap_or_default();
    let one = |at: &api::status::EnvoyProxyAncestorStatus| {
        format!("{}/{}: {}", at.ancestor_ref.kind, at.ancestor_ref.name, short(&at.conditions).join(" "))
    };
    found.iter().map(one).collect()
}

#[test]
fn an_envoy_proxy_says_for_each_that_names_it_whether_it_holds() {
    let mut world = World::with([web(), object(Kind::EnvoyProxy, "p", json!({"concurrency": 1}))]);
    assert_eq!(proxy_status(&world), None, "nobody names it");
    let class =
        json!({"controllerName": "gateway.envoyproxy.io/gatewayclass-controller", "parametersRef": proxy_ref()});
    let foreign = json!({"controllerName": "example.com/other", "parametersRef": proxy_ref()});
    world.apply([
        with_parameters("b", 82),
        with_parameters("a", 81),
        object(Kind::GatewayClass, "eg", class),
        object(Kind::GatewayClass, "other", foreign),
    ]);
    let good = |name: &str| format!("{name}: Accepted=True/Accepted");
    // The Gateway `web` has the settings of its class and does not name them.
    assert_eq!(ancestors(&world), [good("GatewayClass/eg"), good("Gateway/a"), good("Gateway/b")]);

    world.apply([with_parameters("a", 83)]);
    let table = world.translator.outputs().envoy_proxy_statuses;
    assert_eq!(world.translator.graph().changes(table).count(), 0, "an edit that leaves the name alone");
    world.delete(Kind::GatewayClass, "", "eg");
    world.apply([object(Kind::EnvoyProxy, "p", json!({"ipFamily": "IPv6"}))]);
    assert_eq!(ancestors(&world)[0], "Gateway/a: Accepted=True/Accepted Warning=True/UnsupportedValue");

    let Object::EnvoyProxy(broken) = object(Kind::EnvoyProxy, "p", json!({})) else { panic!("an EnvoyProxy") };
    let mut broken = Arc::unwrap_or_clone(broken);
    broken.spec.fault = fault();
    world.apply([Object::EnvoyProxy(Arc::new(broken))]);
    assert_eq!(ancestors(&world)[1], "Gateway/b: Accepted=False/InvalidParameters");
    let refused = &world.gateway_status("b").conditions[0];
    assert_eq!(short(std::slice::from_ref(refused)), ["Accepted=False/InvalidParameters"]);
    assert!(refused.message.ends_with("spec.x: 1 is not in the range"), "{}", refused.message);
}

#[test]
fn an_envoy_proxy_that_very_many_name_says_how_many_are_left_out() {
    let many = (0..1_030).map(|at| with_parameters(&format!("g{at:04}"), 80));
    let world = World::with(many.chain([object(Kind::EnvoyProxy, "p", json!({}))]));
    let found = ancestors(&world);
    assert_eq!((found.len(), &*found[1_022]), (1_024, "Gateway/g1022: Accepted=True/Accepted"));
    assert_eq!(found[1_023], "Gateway/g1023: Accepted=True/Accepted Aggregated=True/Aggregated");
}

fn policy_status(world: &World, name: &str) -> PolicyStatus {
    let key = ObjectKey::of(Kind::BackendTrafficPolicy, "default", name);
    let table = world.translator.outputs().policy_statuses;
    (**world.translator.graph().get(table, &key).expect("a status")).clone()
}

fn target(kind: &str, name: &str) -> Value {
    json!({"group": GROUP, "kind": kind, "name": name})
}

#[test]
fn a_policy_with_too_many_ancestors_shows_those_first_that_it_does_not_hold_for() {
    let name = |at: usize| format!("g{at:02}");
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let targets: Vec<Value> = (0..20).map(|at| target("Gateway", &name(at))).collect();
    let policy = object(Kind::BackendTrafficPolicy, "p", json!({"targetRefs": targets}));
    let world = World::with((0..19).map(|at| gateway(&name(at), listeners.clone())).chain([policy]));
    let found = policy_status(&world, "p").ancestors;
    assert_eq!(found.len(), 16);
    assert_eq!(&*found[0].ancestor_ref.name, "g19");
    assert_eq!(short(&found[0].conditions), ["Accepted=False/TargetNotFound"]);
    assert_eq!(short(&found[1].conditions), ["Accepted=True/Accepted"]);
    assert_eq!(short(&found[15].conditions), ["Accepted=True/Accepted", "Aggregated=True/Aggregated"]);
    assert!(found[15].conditions[1].message.starts_with("4 more entries"), "{:?}", found[15]);
}

#[test]
fn a_policy_is_overridden_where_what_is_inside_its_target_has_one() {
    let policy = |name: &str, target: Value| object(Kind::BackendTrafficPolicy, name, json!({"targetRefs": [target]}));
    let mut rule = target("HTTPRoute", "r");
    rule["sectionName"] = json!("one");
    let mut absent = rule.clone();
    absent["sectionName"] = json!("two");
    let mut spec = route_spec("web", &[], &[("/", "v1")]);
    spec["rules"][0]["name"] = json!("one");
    let mut world = World::with([
        web(),
        service("v1", 80),
        object(Kind::HttpRoute, "r", spec),
        policy("absent", absent),
        policy("gateway", target("Gateway", "web")),
        policy("rule", rule),
    ]);
    let conditions = |world: &World, name: &str| short(&policy_status(world, name).ancestors[0].conditions);
    let both = ["Accepted=True/Accepted", "Overridden=True/Overridden"];
    assert_eq!(conditions(&world, "gateway"), both);
    assert_eq!(conditions(&world, "rule"), both[..1]);
    assert_eq!(conditions(&world, "absent"), ["Accepted=False/TargetNotFound"]);
    world.apply([policy("route", target("HTTPRoute", "r"))]);
    assert_eq!(conditions(&world, "route"), both);
    let told = policy_status(&world, "gateway").ancestors[0].conditions[1].message.to_string();
    assert!(told.ends_with("BackendTrafficPolicy default/route, BackendTrafficPolicy default/rule"), "{told}");
    world.delete(Kind::BackendTrafficPolicy, "default", "rule");
    assert_eq!(conditions(&world, "route"), both[..1]);
    let itself = json!({"targetRefs": [target("Gateway", "web"), target("HTTPRoute", "r")]});
    world.delete(Kind::BackendTrafficPolicy, "default", "route");
    world.apply([object(Kind::BackendTrafficPolicy, "gateway", itself)]);
    assert_eq!(conditions(&world, "gateway"), both[..1], "nobody overrides himself");
}

#[test]
fn a_policy_that_cannot_be_used_holds_for_nothing_and_one_with_odd_fields_warns() {
    let old = object(Kind::BackendTrafficPolicy, "p", json!({"targetRef": target("Gateway", "web")}));
    let mut world = World::with([web(), old]);
    let conditions = |world: &World| short(&policy_status(world, "p").ancestors[0].conditions);
    assert_eq!(conditions(&world), ["Accepted=True/Accepted", "Warning=True/DeprecatedField"]);

    let spec = json!({"targetRefs": [target("Gateway", "web")], "circuitBreaker": {"maxConnections": 3}});
    let Object::BackendTrafficPolicy(broken) = object(Kind::BackendTrafficPolicy, "p", spec.clone()) else {
        panic!("a policy")
    };
    let mut broken = Arc::unwrap_or_clone(broken);
    broken.spec.fault = fault();
    world.apply([Object::BackendTrafficPolicy(Arc::new(broken)), object(Kind::BackendTrafficPolicy, "q", spec)]);
    assert_eq!(conditions(&world), ["Accepted=False/Invalid"]);
    let other = policy_status(&world, "q").ancestors;
    assert_eq!(short(&other[0].conditions), ["Accepted=True/Accepted"], "the next in line holds");
}

#[test]
fn an_edit_of_settings_that_stand_alone_does_not_reach_the_plan_of_a_gateway() {
    let mut world = World::with([object(Kind::EnvoyProxy, "p", json!({"concurrency": 1})), with_parameters("a", 81)]);
    let runs = |world: &World| {
        let mut nodes = world.translator.graph().nodes();
        nodes.find(|node| node.name == "gateway_plan").map(|node| node.runs).expect("the node")
    };
    let before = runs(&world);
    world.apply([object(Kind::EnvoyProxy, "p", json!({"concurrency": 2}))]);
    assert_eq!(runs(&world), before);
    world.apply([object(Kind::EnvoyProxy, "p", json!({"concurrency": 2, "mergeType": "JSONMerge"}))]);
    assert_eq!(runs(&world), before + 1);
}

#[test]
fn what_a_cluster_refuses_of_the_settings_is_said_of_them_for_each_gateway() {
    let mut world =
        World::with([with_parameters("a", 81), with_parameters("b", 82), object(Kind::EnvoyProxy, "p", json!({}))]);
    let tables = world.translator.stored().tables();
    let facts = store::ProxyFacts {
        problem: Some("the API server refuses it".into()),
        faults: vec![("spec.provider".into(), "the API server refuses it".into())],
        ..store::ProxyFacts::default()
    };
    let (_, graph) = world.translator.store();
    for fleet in ["default/a", "default/b"] {
        graph.set(tables.proxies, fleet.into(), Arc::new(facts.clone()));
    }
    world.translator.tick();
    let refused = |of: &str| {
        format!("error: EnvoyProxy default/p: spec.provider: the API server refuses it (for Gateway default/{of})")
    };
    let found = world.problems();
    for gateway in ["a", "b"] {
        assert!(found.contains(&refused(gateway)), "{found:#?}");
        assert_eq!(short(&world.gateway_status(gateway).conditions)[1], "Programmed=False/NoResources");
    }
}

#[test]
fn an_object_that_cannot_be_used_at_all_says_so_where_it_is_ours() {
    let mut world = World::with([web()]);
    let tables = world.translator.stored().tables();
    let reject = |world: &mut World, kind, name: &str, belongs_to: &str, refers_to: &[&str]| {
        let refers_to = refers_to.iter().map(|name| ParentRef { name: (*name).into(), ..ParentRef::default() });
        let rejected = store::Rejected {
            generation: 3,
            belongs_to: belongs_to.into(),
            refers_to: refers_to.collect(),
            words: "spec.rules: is no list".into(),
        };
        let key = ObjectKey::of(kind, "default", name);
        world.translator.store().1.set(tables.rejected, key.clone(), Arc::new(rejected));
        world.translator.tick();
        let status = world.translator.outputs().with_rejection(world.translator.graph(), &key, None);
        status.map(|status| serde_json::to_value(&status).expect("JSON"))
    };
    let route = reject(&mut world, Kind::HttpRoute, "r", "", &["web", "theirs"]).expect("a status");
    assert_eq!(route["parents"].as_array().map(Vec::len), Some(1));
    let condition = &route["parents"][0]["conditions"][0];
    assert_eq!((&condition["status"], &condition["observedGeneration"]), (&json!("False"), &json!(3)));
    assert_eq!(condition["message"], "spec.rules: is no list");
    assert_eq!(reject(&mut world, Kind::HttpRoute, "s", "", &["theirs"]), None);
    assert_eq!(reject(&mut world, Kind::Gateway, "g", "theirs", &[]), None);
    assert_eq!(reject(&mut world, Kind::GatewayClass, "c", "example.com/theirs", &[]), None);
    let controller = api::envoy_gateway::DEFAULT_CONTROLLER_NAME;
    assert!(reject(&mut world, Kind::GatewayClass, "c", controller, &[]).is_some());
    let policy = reject(&mut world, Kind::BackendTrafficPolicy, "p", "", &["web"]).expect("a status");
    assert_eq!(policy["ancestors"][0]["conditions"][0]["reason"], "Invalid");
}

#[test]
fn an_object_that_falls_back_to_what_it_was_before_says_why() {
    let mut world = World::with([web(), route("r", "web", &[], &[("/", "cart")])]);
    let tables = world.translator.stored().tables();
    let rejected = store::Rejected {
        generation: 3,
        belongs_to: "".into(),
        // it does not even say any more what it belongs to
        refers_to: Box::default(),
        words: "spec.rules: is no list".into(),
    };
    let key = ObjectKey::of(Kind::HttpRoute, "default", "r");
    world.translator.store().1.set(tables.rejected, key.clone(), Arc::new(rejected));
    world.translator.tick();
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    let usable = outputs.route_status(graph, &key).map(Status::Route);
    let status = serde_json::to_value(outputs.with_rejection(graph, &key, usable)).expect("JSON");
    let conditions = status["parents"][0]["conditions"].as_array().expect("conditions");
    assert_eq!((&conditions[0]["type"], &conditions[0]["status"]), (&json!("Accepted"), &json!("True")));
    let last = conditions.last().expect("one");
    assert_eq!((&last["type"], &last["status"]), (&json!("PartiallyInvalid"), &json!("True")));
    assert_eq!(last["observedGeneration"], 3);
    assert_eq!(last["message"], "Fall Back: what it was before is in force; spec.rules: is no list");
}

#[test]
fn proxies_of_a_gateway_that_nobody_can_read_stay() {
    let mut world = World::in_cluster();
    let class =
        object(Kind::GatewayClass, "eg", json!({"controllerName": api::envoy_gateway::DEFAULT_CONTROLLER_NAME}));
    let theirs = object(Kind::GatewayClass, "theirs", json!({"controllerName": "example.org/theirs"}));
    world.apply([class, theirs, with_parameters("read", 80)]);
    let reject = |kind: Kind, namespace: &str, name: &str, belongs_to: &str| {
        let rejected =
            store::Rejected { generation: 2, belongs_to: belongs_to.into(), words: "bad".into(), ..Default::default() };
        store::Change::Reject(ObjectKey::of(kind, namespace, name), Some(Arc::new(rejected)))
    };
    let held = |world: &World| -> Vec<String> {
        let (graph, tables) = (world.translator.graph(), world.translator.outputs().held);
        let mut held: Vec<_> =
            tables.iter().flat_map(|table| graph.iter(*table)).map(|(key, _)| key.to_string()).collect();
        held.sort();
        held
    };
    world.change(vec![
        reject(Kind::Gateway, "default", "unread", "eg"),
        reject(Kind::Gateway, "default", "read", "eg"),
        reject(Kind::Gateway, "default", "theirs", "theirs"),
    ]);
    assert_eq!(held(&world), ["default/unread"], "what it was before is in force of the other");
    // a class that was never read
    world.delete(Kind::GatewayClass, "", "eg");
    assert_eq!(held(&world), [""; 0], "a class that is gone is nobody's");
    world.change(vec![reject(Kind::GatewayClass, "", "eg", api::envoy_gateway::DEFAULT_CONTROLLER_NAME)]);
    assert_eq!(held(&world), ["default/read", "default/unread"]);
}

#[test]
fn no_list_is_longer_than_the_api_allows_and_the_last_entry_counts_what_is_left_out() {
    const GATEWAYS: usize = 40;
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let spec = json!({"gatewayClassName": "eg", "defaultScope": "All", "listeners": listeners});
    let all = (0..GATEWAYS).map(|at| object(Kind::Gateway, &format!("g{at:02}"), spec.clone()));
    let x_backend = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "b"});
    let rule = json!({"backendRefs": [{"name": "s", "port": 80}, x_backend]});
    let everywhere = json!({"useDefaultGateways": "All", "rules": [rule]});
    let to_service = json!([{"group": "", "kind": "Service", "name": "s"}]);
    let validation = json!({"wellKnownCACertificates": "System", "hostname": "s.example"});
    let world = World::with(all.chain([
        object(Kind::HttpRoute, "r", everywhere.clone()),
        object(Kind::GrpcRoute, "r", everywhere),
        service("s", 80),
        object(Kind::BackendTlsPolicy, "p", json!({"targetRefs": to_service, "validation": validation})),
        object(Kind::XBackendTrafficPolicy, "p", json!({"targetRefs": to_service, "retryConstraint": {}})),
        object(
            Kind::XBackend,
            "b",
            json!({"type": "ExternalHostname", "port": {"number": 80}, "externalHostname": {"hostname": "b.example"}}),
        ),
    ]));
    let full = |conditions: Vec<&[Condition]>, most: usize| {
        assert_eq!(conditions.len(), most);
        let told = |conditions: &[Condition]| {
            let found = conditions.iter().find(|condition| &*condition.condition_type == "Aggregated")?;
            Some(found.message.split(' ').next()?.to_owned())
        };
        let (last, others) = conditions.split_last().expect("entries");
        assert!(others.iter().all(|conditions| told(conditions).is_none()));
        assert_eq!(told(last), Some((GATEWAYS - most).to_string()));
    };
    let (outputs, graph) = (world.translator.outputs(), world.translator.graph());
    for kind in [Kind::HttpRoute, Kind::GrpcRoute] {
        let status = outputs.route_status(graph, &ObjectKey::of(kind, "default", "r")).expect("a status");
        full(status.parents.iter().map(|parent| &*parent.conditions).collect(), 32);
    }
    for (table, kind, name, most) in [
        (outputs.tls_policy_statuses, Kind::BackendTlsPolicy, "p", 16),
        (outputs.backend_policy_statuses, Kind::XBackendTrafficPolicy, "p", 16),
        (outputs.x_backend_statuses, Kind::XBackend, "b", 32),
    ] {
        let status =
            graph.get(table, &ObjectKey::of(kind, "default", name)).unwrap_or_else(|| panic!("no status of {kind:?}"));
        full(status.ancestors.iter().map(|ancestor| &*ancestor.conditions).collect(), most);
    }
}
