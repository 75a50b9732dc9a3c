//! Who gets what of resources that users wrote, and what they are told. What a resource says is read by a stand-in: its name, what it names, its parts.

use std::sync::Arc;

use api::problem::{Fault, FieldPath};
use api::{Kind, Labels, Object, ObjectKey, ObjectMeta};
use ir::raw::{RawAddress, RawFault, RawPart, RawReading};
use ir::{ClosedAddresses, FleetName, RawName, RawResource};
use serde_json::{Value, json};
use store::{FactKey, RawState};

use crate::key::InFleet;
use crate::testing::{World, with_meta};
use crate::{Options, OwnPlaces, Translator};

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "envoy.config.listener.v3.Listener";
const ROUTES: &str = "envoy.config.route.v3.RouteConfiguration";

fn read(message: &'static str, config: &Value, strict: bool) -> RawReading {
    let texts = |field: &str| -> Vec<Arc<str>> {
        let items = config[field].as_array().into_iter().flatten();
        items.map(|text| Arc::from(text.as_str().unwrap_or_default())).collect()
    };
    let fault = || vec![RawFault::new("odd", "it is not known")];
    let odd = config.get("odd").is_some();
    if odd && strict {
        return RawReading { errors: fault(), ..RawReading::default() };
    }
    let part = |claim: &Arc<str>| RawPart { claims: vec![Arc::clone(claim)], bytes: claim.as_bytes().into() };
    let address = |host: &Arc<str>| RawAddress { host: (**host).into(), port: 80, path: "addresses".into() };
    let resource = RawResource {
        id: RawName { message, name: config["name"].as_str().unwrap_or_default().into() },
        bytes: config["text"].as_str().unwrap_or_default().as_bytes().into(),
        names: texts("clusters").into_iter().map(|name| RawName { message: CLUSTER, name }).collect(),
        parts: texts("parts").iter().map(part).collect(),
        says_more: false,
        tail: None,
        slow: false,
        uses: Vec::new(),
        addresses: texts("addresses").iter().map(address).collect(),
        sockets: Vec::new(),
        bound: Vec::new(),
        endpoints: None,
    };
    RawReading {
        resource: Some(Arc::new(resource)),
        ignored: if odd { fault() } else { Vec::new() },
        errors: Vec::new(),
    }
}

fn world() -> World {
    World { translator: Translator::new(Options { file_mode: true, read_raw: read, ..Options::default() }) }
}

fn pod(namespace: &str, name: &str, labels: &[(&str, &str)]) -> Object {
    let mut meta = ObjectMeta::new(ObjectKey::of(Kind::Pod, namespace, name));
    meta.labels = labels.iter().copied().collect::<Labels>();
    with_meta(Kind::Pod, meta, json!({}))
}

fn raw(kind: Kind, name: &str, labels: Option<Value>, more: Value, config: Value) -> Object {
    let mut spec = more;
    spec["config"] = config;
    if let Some(labels) = labels {
        spec["workloadSelector"] = labels;
    }
    with_meta(kind, ObjectMeta::new(ObjectKey::of(kind, "shop", name)), spec)
}

fn cluster(name: &str, labels: Option<Value>) -> Object {
    raw(Kind::BootesCluster, name, labels, json!({}), json!({ "name": name }))
}

/// What each workload of the namespace gets, as `workload: name`.
fn given(world: &World) -> Vec<String> {
    let graph = world.translator.graph();
    let rows = graph
        .iter(world.translator.outputs().raw)
        .map(|(key, _)| format!("{}: {}", key.fleet.0.trim_start_matches("workload/"), key.name.name));
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    rows
}

fn said(world: &World, kind: Kind, name: &str) -> Vec<String> {
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    let status = graph.get(outputs.raw_statuses, &ObjectKey::of(kind, "shop", name)).expect("a status");
    let told = status.conditions.iter();
    told.map(|one| format!("{}={}/{}: {}", one.condition_type, one.status, one.reason, one.message)).collect()
}

#[test]
fn secrets_that_many_objects_name_fill_a_bounded_number() {
    let mut world =
        World { translator: Translator::new(Options { file_mode: true, read_raw: verbatim, ..Options::default() }) };
    let secret = |name: &str, length: usize| {
        let meta = ObjectMeta::new(ObjectKey::of(Kind::Secret, "shop", name));
        with_meta(Kind::Secret, meta, json!({"stringData": {"token": "x".repeat(length), "small": "y"}}))
    };
    let object = |name: &str, key: &str| {
        let more = json!({"secretRef": {"name": "s", "key": key}});
        raw(Kind::EnvoySecret, name, None, more, json!({"name": name, "generic_secret": {}}))
    };
    world.apply([pod("shop", "a", &[]), secret("s", (1 << 20) - 10)]);
    world.apply((0..40).map(|at| object(&format!("o{at:02}"), "token")));
    let found = given(&world);
    assert_eq!(found.len(), 8, "8 MiB of 1 MiB each: {found:?}");
    assert!(found.iter().any(|one| one.ends_with("o00")) && !found.iter().any(|one| one.ends_with("o08")), "{found:?}");
    let words = said(&world, Kind::EnvoySecret, "o39").concat();
    assert!(words.contains("ResolvedRefs=False/InvalidSecret") && words.contains("8 MiB"), "{words}");
    // The remedy that it names; and a Secret that becomes small.
    world.apply([object("o39", "small")]);
    assert_eq!(given(&world).len(), 9);
    world.apply([secret("s", 100)]);
    assert_eq!(given(&world).len(), 40);
}

#[test]
fn a_resource_goes_to_the_workloads_of_its_namespace_that_have_all_its_labels() {
    let mut world = world();
    world.apply([
        pod("shop", "a", &[("app", "cart"), ("tier", "web")]),
        pod("shop", "b", &[("app", "cart")]),
        pod("blog", "a", &[("app", "cart"), ("tier", "web")]),
        cluster("all", None),
        cluster("some", Some(json!({ "labels": { "app": "cart", "tier": "web" } }))),
        raw(
            Kind::EnvoyCluster,
            "sets",
            Some(json!({ "matchExpressions": [{ "key": "tier", "operator": "DoesNotExist" }] })),
            json!({}),
            json!({ "name": "sets" }),
        ),
    ]);
    assert_eq!(given(&world), ["shop/a: all", "shop/a: some", "shop/b: all", "shop/b: sets"]);
    // labels flip
    world.apply([pod("shop", "b", &[("app", "cart"), ("tier", "web")])]);
    assert_eq!(given(&world), ["shop/a: all", "shop/a: some", "shop/b: all", "shop/b: some"]);
    world.delete(Kind::Pod, "shop", "a");
    assert_eq!(given(&world), ["shop/b: all", "shop/b: some"]);
}

#[test]
fn an_edit_of_a_resource_costs_its_own_workloads_only() {
    let runs = |count: usize| {
        let mut world = world();
        let app = |number: usize| format!("app{number}");
        world.apply((0..count).flat_map(|number| {
            let selector = json!({ "labels": { "app": app(number) } });
            [pod("shop", &app(number), &[("app", &app(number))]), cluster(&app(number), Some(selector))]
        }));
        let selector = Some(json!({ "labels": { "app": "app0" } }));
        world
            .apply([raw(Kind::BootesCluster, "app0", selector, json!({}), json!({ "name": "app0", "text": "new" }))])
            .runs
    };
    assert_eq!(runs(10), runs(1_000));
}

#[test]
fn changed_addresses_of_chancery_parse_nothing_again() {
    let mut world = world();
    let leads = |host: &str| json!({ "name": "a", "addresses": [host] });
    world.apply([pod("shop", "a", &[]), cluster("b", None)]);
    world.apply([raw(Kind::BootesCluster, "a", None, json!({}), leads("10.0.0.7"))]);
    let parsed = |world: &World| {
        let mut nodes = world.translator.graph().nodes();
        nodes.find(|node| node.name == "raw_parsed").map(|node| node.runs).expect("the node")
    };
    let before = parsed(&world);
    let mut listen = |machine: [u8; 4]| {
        let addresses = ClosedAddresses {
            listeners: ["0.0.0.0:80".parse().unwrap()].into(),
            machine: [machine.into()].into(),
            ..ClosedAddresses::default()
        };
        world.translator.set_own_places(Arc::new(OwnPlaces { addresses, ..OwnPlaces::default() }));
        world.translator.tick();
        (given(&world), said(&world, Kind::BootesCluster, "a"), parsed(&world))
    };
    let (given, said, runs) = listen([10, 0, 0, 7]);
    assert!(said[0].starts_with("Accepted=False"), "{said:?}");
    assert_eq!((given, runs), (vec!["shop/a: b".to_owned()], before), "its earlier form leads there too");
    let (given, said, runs) = listen([10, 0, 0, 8]);
    assert!(said[0].starts_with("Accepted=True"), "{said:?}");
    assert_eq!((given.len(), runs), (2, before));
}

#[test]
fn of_two_for_one_resource_the_one_with_priority_counts_and_the_other_says_so() {
    let mut world = world();
    let one = |name: &str, priority: i32| {
        raw(Kind::EnvoyCluster, name, None, json!({ "priority": priority }), json!({ "name": "c", "text": name }))
    };
    world.apply([pod("shop", "a", &[]), one("low", 0), one("high", 5)]);
    assert_eq!(texts(&world), "high");
    assert!(
        said(&world, Kind::EnvoyCluster, "low")[0].starts_with("Accepted=False/Conflicted: EnvoyCluster shop/high")
    );
    world.delete(Kind::EnvoyCluster, "shop", "high");
    assert_eq!(texts(&world), "low");
    assert!(said(&world, Kind::EnvoyCluster, "low")[0].starts_with("Accepted=True"));
}

#[test]
fn parts_of_several_objects_come_together_and_what_is_claimed_twice_costs_that_part() {
    let mut world = world();
    let one = |name: &str, priority: i32, parts: Value| {
        raw(Kind::EnvoyRoute, name, None, json!({ "priority": priority }), json!({ "name": "r", "parts": parts }))
    };
    world.apply([pod("shop", "a", &[]), one("low", 0, json!(["b", "c"])), one("high", 5, json!(["a", "b"]))]);
    let key =
        InFleet { fleet: FleetName::of_workload("shop", "a"), name: RawName { message: ROUTES, name: "r".into() } };
    let found = world.translator.graph().get(world.translator.outputs().raw, &key).expect("it").parts.concat();
    assert_eq!(String::from_utf8(found).expect("text"), "abc");
    let told = said(&world, Kind::EnvoyRoute, "low");
    assert_eq!(told[3], "PartiallyInvalid=True/Conflicted: Dropped: b is that of EnvoyRoute shop/high");
    assert_eq!(said(&world, Kind::EnvoyRoute, "high").len(), 3);
}

#[test]
fn a_name_that_leads_nowhere_is_told_and_resolved_when_it_comes() {
    let mut world = world();
    let listener = raw(Kind::BootesListener, "l", None, json!({}), json!({ "name": "l", "clusters": ["missing"] }));
    world.apply([pod("shop", "a", &[]), pod("shop", "b", &[]), listener]);
    assert!(
        said(&world, Kind::BootesListener, "l")[2].starts_with(
            "ResolvedRefs=False/ReferenceNotFound: it names Cluster missing, which no object gives shop/a and 1 more"
        ),
        "{:?}",
        said(&world, Kind::BootesListener, "l")
    );
    world.apply([cluster("missing", None)]);
    assert!(said(&world, Kind::BootesListener, "l")[2].starts_with("ResolvedRefs=True"));
}

#[test]
fn programmed_counts_proxies_and_has_the_words_of_one_that_refuses() {
    let mut world = world();
    world.apply([cluster("c", None)]);
    let programmed = |world: &World| said(world, Kind::BootesCluster, "c")[1].clone();
    assert!(programmed(&world).starts_with("Programmed=False/NoWorkload"));
    world.apply([pod("shop", "a", &[]), pod("shop", "b", &[])]);
    assert_eq!(programmed(&world), "Programmed=False/Pending: none of the 2 workloads that it is for is connected");
    let tables = world.translator.stored().tables();
    let fleet = |name: &str| FleetName::of_workload("shop", name).0;
    for name in ["a", "b"] {
        world.translator.store().1.set(tables.connected, fleet(name), ());
    }
    let says = |world: &mut World, name: &str, state: RawState| {
        let key = FactKey::of_kind(fleet(name), "Cluster", "c");
        world.translator.store().1.set(tables.raw_state, key, state);
        world.translator.tick();
    };
    says(&mut world, "a", RawState::Accepted);
    assert_eq!(programmed(&world), "Programmed=False/Pending: 1 of 2 proxies have acknowledged it");
    says(&mut world, "b", RawState::Refused("bad".into()));
    assert_eq!(programmed(&world), "Programmed=False/Invalid: 1 of 2 proxies use it; that of shop/b refused it: bad");
    says(&mut world, "b", RawState::Accepted);
    assert_eq!(programmed(&world), "Programmed=True/Programmed: 2 of 2 proxies have acknowledged it");
}

#[test]
fn what_nobody_knows_is_a_warning_in_objects_of_bootes_and_an_error_in_ours_unless_an_annotation_says_otherwise() {
    let mut world = world();
    let odd = |kind: Kind, name: &str, annotation: Option<&str>| {
        let mut meta = ObjectMeta::new(ObjectKey::of(kind, "shop", name));
        if let Some(word) = annotation {
            let annotations = [(api::raw::STRICT, word)].into_iter().collect::<Labels>();
            meta.more = Some(Box::new(api::meta::MoreMeta { annotations, ..Default::default() }));
        }
        with_meta(kind, meta, json!({ "config": { "name": name, "odd": 1 } }))
    };
    world.apply([
        odd(Kind::BootesListener, "theirs", None),
        odd(Kind::BootesListener, "strict", Some("true")),
        odd(Kind::EnvoyListener, "ours", None),
        odd(Kind::EnvoyListener, "lax", Some("false")),
    ]);
    let warned = "Warning=True/UnsupportedValue: spec.config.odd: it is not known";
    let refused = "Accepted=False/Invalid: spec.config.odd: it is not known";
    assert_eq!(said(&world, Kind::BootesListener, "theirs")[3], warned);
    assert_eq!(said(&world, Kind::BootesListener, "strict")[0], refused);
    assert_eq!(said(&world, Kind::EnvoyListener, "ours")[0], refused);
    assert_eq!(said(&world, Kind::EnvoyListener, "lax")[3], warned);
    assert_eq!(LISTENER, Kind::EnvoyListener.message().expect("one"));
}

#[test]
fn endpoints_of_a_service_come_along_and_follow_it() {
    let mut world = world();
    let service = json!({ "service": { "name": "cart", "port": 80 } });
    world.apply([pod("shop", "a", &[]), raw(Kind::EnvoyEndpoint, "e", None, service, json!({ "name": "c" }))]);
    let told = |world: &World| said(world, Kind::EnvoyEndpoint, "e")[2].clone();
    assert!(told(&world).starts_with("ResolvedRefs=False/BackendNotFound"), "{}", told(&world));
    world.apply([crate::testing::service("shop/cart", 80)]);
    assert!(told(&world).starts_with("ResolvedRefs=True"));
    let set = "shop/cart/80".into();
    let outputs = world.translator.outputs();
    let readers = |world: &World| outputs.raw_with(world.translator.graph(), &set).count();
    assert_eq!(readers(&world), 1);
    world.apply([crate::testing::slice("shop/cart", 3000, &["192.0.2.1"])]);
    let changed: Vec<_> = outputs.endpoint_changes(world.translator.graph()).collect();
    assert_eq!(changed, [&set]);
}

fn grant(namespace: &str, spec: Value) -> Object {
    with_meta(Kind::ReferenceGrant, ObjectMeta::new(ObjectKey::of(Kind::ReferenceGrant, namespace, "g")), spec)
}

#[test]
fn workloads_of_other_namespaces_have_to_be_granted() {
    let mut world = world();
    let everywhere = json!({ "namespaceSelector": { "matchExpressions": [{
        "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop", "blog"] }] } });
    let labels = Some(json!({ "matchLabels": { "app": "web" } }));
    let web: &[(&str, &str)] = &[("app", "web")];
    world.apply([pod("shop", "a", web), pod("blog", "a", web), pod("blog", "b", web), pod("wiki", "a", web)]);
    world.apply([raw(Kind::EnvoyCluster, "c", labels, everywhere, json!({ "name": "c" }))]);
    assert_eq!(given(&world), ["shop/a: c"], "its own need no grant");
    let from = json!([{ "group": "chancery.io", "kind": "EnvoyCluster", "namespace": "shop" }]);
    let to = |name: Value| json!({ "from": from, "to": [{ "group": "", "kind": "Pod", "name": name }] });
    world.apply([grant("blog", to(Value::Null)), grant("wiki", to(Value::Null))]);
    assert_eq!(given(&world), ["blog/a: c", "blog/b: c", "shop/a: c"], "wiki is not selected");
    world.apply([grant("blog", to(json!("b")))]);
    assert_eq!(given(&world), ["blog/b: c", "shop/a: c"]);
    world.delete(Kind::ReferenceGrant, "blog", "g");
    assert_eq!(given(&world), ["shop/a: c"]);
    let other = json!([{ "group": "chancery.io", "kind": "EnvoyListener", "namespace": "shop" }]);
    world.apply([grant("blog", json!({ "from": other, "to": [{ "group": "", "kind": "Pod" }] }))]);
    assert_eq!(given(&world), ["shop/a: c"], "the grant is for another kind");
}

/// What reads a config as it stands: its bytes are its text.
fn verbatim(message: &'static str, config: &Value, _: bool) -> RawReading {
    let name = config["name"].as_str().unwrap_or_default().into();
    let resource = RawResource {
        id: RawName { message, name },
        bytes: config.to_string().as_bytes().into(),
        names: Vec::new(),
        parts: Vec::new(),
        says_more: false,
        tail: None,
        slow: false,
        uses: Vec::new(),
        addresses: Vec::new(),
        sockets: Vec::new(),
        bound: Vec::new(),
        endpoints: None,
    };
    RawReading { resource: Some(Arc::new(resource)), ..RawReading::default() }
}

#[test]
fn what_is_secret_comes_from_a_secret_and_follows_it() {
    let mut world =
        World { translator: Translator::new(Options { file_mode: true, read_raw: verbatim, ..Options::default() }) };
    let secret = |namespace: &str, text: &str| {
        let key = ObjectKey::of(Kind::Secret, namespace, "s");
        with_meta(Kind::Secret, ObjectMeta::new(key), json!({ "stringData": { "token": text } }))
    };
    let wanted = |more: Value, config: Value| raw(Kind::EnvoySecret, "t", None, more, config);
    let reference = |namespace: Value| json!({ "secretRef": { "name": "s", "namespace": namespace, "key": "token" } });
    let given = |world: &World| {
        let rows = world.translator.graph().iter(world.translator.outputs().raw);
        let texts = rows.map(|(_, output)| String::from_utf8(output.resource.bytes.to_vec()).expect("text"));
        texts.collect::<Vec<_>>().concat()
    };
    let resolved = |world: &World| said(world, Kind::EnvoySecret, "t")[2].clone();
    world.apply([pod("shop", "a", &[]), wanted(reference(Value::Null), json!({ "name": "t" }))]);
    assert!(resolved(&world).starts_with("ResolvedRefs=False/SecretNotFound: spec.secretRef: Secret shop/s"));
    assert_eq!(given(&world), "");
    world.apply([secret("shop", "one")]);
    assert_eq!(given(&world), r#"{"name":"t","generic_secret":{"secret":{"inline_bytes":"b25l"}}}"#);
    world.apply([secret("shop", "two")]);
    assert!(given(&world).contains("dHdv"));
    world.apply([
        wanted(reference(json!("vault")), json!({ "name": "t", "genericSecret": {} })),
        secret("vault", "far"),
    ]);
    assert!(resolved(&world).starts_with("ResolvedRefs=False/RefNotPermitted"), "{}", resolved(&world));
    assert_eq!(given(&world), "", "what may not be used is not");
    let from = json!([{ "group": "chancery.io", "kind": "EnvoySecret", "namespace": "shop" }]);
    world.apply([grant("vault", json!({ "from": from, "to": [{ "group": "", "kind": "Secret" }] }))]);
    assert_eq!(given(&world), r#"{"name":"t","genericSecret":{"secret":{"inline_bytes":"ZmFy"}}}"#);
}

#[test]
fn what_is_secret_may_not_stand_in_an_object_and_a_broken_pair_goes_nowhere() {
    let mut world = world();
    let inline = json!({ "name": "t", "tlsCertificate": { "private_key": { "inline_string": "hidden" } } });
    let pair = json!({ "stringData": { "tls.crt": "no certificate", "tls.key": "hidden" } });
    let reference = json!({ "secretRef": { "name": "pair" } });
    world.apply([
        pod("shop", "a", &[]),
        raw(Kind::EnvoySecret, "inline", None, json!({}), inline),
        raw(Kind::EnvoySecret, "pair", None, reference, json!({ "name": "u" })),
        with_meta(Kind::Secret, ObjectMeta::new(ObjectKey::of(Kind::Secret, "shop", "pair")), pair),
    ]);
    assert_eq!(given(&world), [""; 0]);
    let inline = said(&world, Kind::EnvoySecret, "inline")[0].clone();
    assert!(
        inline.starts_with("Accepted=False/Invalid: spec.config.tlsCertificate.private_key: what is secret"),
        "{inline}"
    );
    let pair = said(&world, Kind::EnvoySecret, "pair")[2].clone();
    assert!(
        pair.starts_with("ResolvedRefs=False/InvalidSecret: spec.secretRef: Secret shop/pair: tls.crt: "),
        "{pair}"
    );
    assert!(!inline.contains("hidden") && !pair.contains("hidden"));
}

/// What tells what it has found.
fn quoting(_: &'static str, config: &Value, _: bool) -> RawReading {
    let text = format!("expected an object, found {}", config["genericSecret"]["secret"]);
    let fault = RawFault::new("genericSecret.secret", text);
    RawReading { errors: vec![fault], ..RawReading::default() }
}

#[test]
fn what_is_wrong_with_a_secret_does_not_quote_it() {
    let mut world =
        World { translator: Translator::new(Options { file_mode: true, read_raw: quoting, ..Options::default() }) };
    let config = json!({ "name": "t", "genericSecret": { "secret": "hidden" } });
    world.apply([pod("shop", "a", &[]), raw(Kind::EnvoySecret, "t", None, json!({}), config)]);
    let told = said(&world, Kind::EnvoySecret, "t")[0].clone();
    assert_eq!(told, "Accepted=False/Invalid: spec.config.genericSecret.secret: expected an object");
    assert!(!world.problems().concat().contains("hidden"));
}

/// An object of which a field cannot be used, which is therefore not in it.
fn spoiled(object: Object) -> Object {
    let Object::Raw(kind, raw) = object else { panic!("another kind") };
    let mut raw = Arc::unwrap_or_clone(raw);
    raw.spec.fault = Some(Box::new(Fault { path: FieldPath::default(), text: "wrong".into() }));
    Object::Raw(kind, Arc::new(raw))
}

/// What proxies get, all of it together.
fn texts(world: &World) -> String {
    let rows = world.translator.graph().iter(world.translator.outputs().raw);
    rows.map(|(_, output)| String::from_utf8_lossy(&output.resource.bytes).into_owned()).collect()
}

#[test]
fn of_an_object_that_is_edited_by_mistake_the_form_before_stays() {
    let mut world = world();
    let one = |config: Value| raw(Kind::EnvoyListener, "l", None, json!({}), config);
    world.apply([pod("shop", "a", &[]), one(json!({ "name": "l", "text": "good" }))]);
    world.translator.remember_served();
    world.apply([one(json!({ "name": "l", "text": "bad", "odd": 1 }))]);
    assert_eq!(texts(&world), "good");
    let told = said(&world, Kind::EnvoyListener, "l");
    assert!(told[0].starts_with("Accepted=False/Invalid"), "{told:?}");
    assert!(told[1].starts_with("Programmed=False/Invalid: it is not accepted; what it was before stays"), "{told:?}");
    assert!(told[3].starts_with("PartiallyInvalid=True/UnsupportedValue: Fall Back: what it was before"), "{told:?}");
    // A Pod that comes gets it too; and it goes with the object.
    world.apply([pod("shop", "b", &[])]);
    assert_eq!(texts(&world), "goodgood");
    world.delete(Kind::EnvoyListener, "shop", "l");
    assert_eq!(texts(&world), "");
    world.translator.remember_served();
    world.apply([one(json!({ "name": "l", "text": "bad", "odd": 1 }))]);
    assert_eq!(texts(&world), "", "another object of that name");
}

#[test]
fn the_form_before_stays_with_the_workloads_and_the_priority_that_it_had() {
    let mut world = world();
    let one = |labels: Value, priority: i32, text: &str| {
        let more = json!({ "priority": priority });
        raw(Kind::EnvoyListener, "l", Some(labels), more, json!({ "name": "l", "text": text }))
    };
    let other = raw(Kind::EnvoyListener, "m", None, json!({ "priority": 3 }), json!({ "name": "l", "text": "other" }));
    let (a, b) = (pod("shop", "a", &[("app", "a")]), pod("shop", "b", &[("app", "b")]));
    world.apply([a, b, one(json!({ "labels": { "app": "a" } }), 5, "good"), other]);
    world.translator.remember_served();
    let before = texts(&world);
    assert!(before.contains("good") && before.contains("other"), "{before}");
    world.apply([spoiled(one(json!({}), 1, "edited"))]);
    assert_eq!(texts(&world), before);
    let told = said(&world, Kind::EnvoyListener, "l");
    assert!(told[0].starts_with("Accepted=False/Invalid"), "{told:?}");
    assert!(told[3].starts_with("PartiallyInvalid=True/UnsupportedValue: Fall Back"), "{told:?}");
}

#[test]
fn a_form_before_that_lost_to_another_object_or_is_refused_says_so() {
    let mut world = world();
    let one = |name: &str, more: Value, config: Value| raw(Kind::EnvoyListener, name, None, more, config);
    let good = json!({ "name": "l", "text": "good" });
    world.apply([pod("shop", "a", &[]), one("a", json!({}), good.clone())]);
    world.translator.remember_served();
    let (fleet, tables): (Arc<str>, _) = ("workload/shop/a".into(), world.translator.stored().tables());
    world.translator.store().1.set(tables.connected, Arc::clone(&fleet), ());
    let key = FactKey::of_kind(fleet, "Listener", "l");
    world.translator.store().1.set(tables.raw_state, key, RawState::Refused("no".into()));
    let bad = json!({ "name": "l", "odd": 1 });
    world.apply([one("a", json!({}), bad)]);
    let told = said(&world, Kind::EnvoyListener, "a");
    assert!(told[1].ends_with("refused it: no"), "{told:?}");
    world.apply([one("b", json!({ "priority": 1 }), good)]);
    let told = said(&world, Kind::EnvoyListener, "a");
    assert_eq!(told[1], "Programmed=False/Invalid: it is not accepted");
    assert!(!told.iter().any(|one| one.starts_with("PartiallyInvalid")), "{told:?}");
}

#[test]
fn an_object_that_takes_the_name_of_a_deleted_one_does_not_get_its_form() {
    let mut world = world();
    let one = |uid: &str, config: Value| {
        let mut meta = ObjectMeta::new(ObjectKey::of(Kind::EnvoyListener, "shop", "l"));
        meta.more = Some(Box::new(api::meta::MoreMeta { uid: uid.into(), ..Default::default() }));
        with_meta(Kind::EnvoyListener, meta, json!({ "config": config }))
    };
    world.apply([pod("shop", "a", &[]), one("1", json!({ "name": "l", "text": "good" }))]);
    world.translator.remember_served();
    world.apply([one("2", json!({ "name": "l", "odd": 1 }))]);
    assert_eq!(texts(&world), "");
}

#[test]
fn the_form_before_of_a_secret_is_not_used_once_its_secret_may_not_be() {
    let mut world =
        World { translator: Translator::new(Options { file_mode: true, read_raw: verbatim, ..Options::default() }) };
    let vault = |text: &str| {
        let token = json!({ "stringData": { "token": text } });
        with_meta(Kind::Secret, ObjectMeta::new(ObjectKey::of(Kind::Secret, "vault", "s")), token)
    };
    let from = json!([{ "group": "chancery.io", "kind": "EnvoySecret", "namespace": "shop" }]);
    let allowed = || grant("vault", json!({ "from": from, "to": [{ "group": "", "kind": "Secret" }] }));
    let reference = json!({ "secretRef": { "name": "s", "namespace": "vault" } });
    let wanted = |more: Value| raw(Kind::EnvoySecret, "t", None, more, json!({ "name": "t", "genericSecret": {} }));
    world.apply([pod("shop", "a", &[]), vault("far"), allowed(), wanted(reference.clone())]);
    world.translator.remember_served();
    assert!(texts(&world).contains("ZmFy"), "{}", texts(&world));
    world.apply([spoiled(wanted(reference))]);
    assert!(texts(&world).contains("ZmFy"), "edited by mistake: {}", texts(&world));
    world.translator.remember_served();
    world.delete(Kind::ReferenceGrant, "vault", "g");
    assert_eq!(texts(&world), "");
    let told = said(&world, Kind::EnvoySecret, "t");
    assert!(told[0].starts_with("Accepted=False/Invalid"), "{told:?}");
    assert!(told[2].starts_with("ResolvedRefs=False/RefNotPermitted"), "{told:?}");
    world.translator.remember_served();
    world.apply([allowed()]);
    assert!(texts(&world).contains("ZmFy"), "allowed again: {}", texts(&world));
    world.apply([spoiled(wanted(json!({}))), vault("near")]);
    assert!(texts(&world).contains("bmVhcg=="), "the Secret of today: {}", texts(&world));
}
