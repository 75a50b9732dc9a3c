//! `ListenerSet`s: who takes them, what conflicts, what attaches, what one change of many costs.

use api::reference::ParentRef;
use api::status::Status;
use api::{Kind, Object, ObjectKey, ObjectMeta};
use serde_json::{Value, json};
use store::{ProxyFacts, Rejected};

use crate::testing::{World, aged, object, service, short, with_meta};

fn parent(allowed: Value, listeners: Value) -> Object {
    let spec = json!({"gatewayClassName": "eg", "allowedListeners": {"namespaces": allowed}, "listeners": listeners});
    object(Kind::Gateway, "web", spec)
}

fn http(name: &str, hostname: &str) -> Value {
    json!({"name": name, "port": 80, "protocol": "HTTP", "hostname": hostname})
}

fn set(name: &str, listeners: Value) -> Object {
    object(
        Kind::ListenerSet,
        name,
        json!({"parentRef": {"name": "web", "namespace": "default"}, "listeners": listeners}),
    )
}

fn route(name: &str, parents: Value, backend: &str) -> Object {
    let rules = json!([{"backendRefs": [{"name": backend, "port": 80}]}]);
    object(Kind::HttpRoute, name, json!({"parentRefs": parents, "rules": rules}))
}

fn certificate(name: &str) -> Object {
    let made = rcgen::generate_simple_self_signed(["own.com".to_owned()]).expect("a certificate");
    let pair = json!({"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()});
    object(Kind::Secret, name, json!({"type": "kubernetes.io/tls", "stringData": pair}))
}

fn of_set(name: &str) -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": name})
}

/// Name, count of routes, and conditions of a listener.
type Entry = (String, u32, Vec<String>);

/// Conditions of a set, and of each of its listeners with the count of routes.
fn told(world: &World, name: &str) -> (Vec<String>, Vec<Entry>) {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let key = ObjectKey::of(Kind::ListenerSet, namespace, name);
    let table = world.translator.outputs().listener_set_statuses;
    let status = world.translator.graph().get(table, &key).expect("a status");
    let entries = status.listeners.iter();
    let entries = entries.map(|entry| (entry.name.to_string(), entry.attached_routes, short(&entry.conditions)));
    (short(&status.conditions), entries.collect())
}

fn accepted(world: &World, name: &str) -> String {
    told(world, name).0[0].clone()
}

fn attached_sets(world: &World) -> Option<u32> {
    world.gateway_status("web").attached_listener_sets
}

#[test]
fn a_gateway_takes_sets_from_where_it_says_and_from_nowhere_by_itself() {
    let labelled = |name: &str, value: &str| {
        let mut meta = ObjectMeta::new(ObjectKey::of(Kind::Namespace, "", name));
        meta.labels = [("team", value)].into_iter().collect();
        with_meta(Kind::Namespace, meta, json!({}))
    };
    let own = json!([http("own", "own.com")]);
    let gateway = |allowed: Value| parent(allowed, own.clone());
    let none = object(Kind::Gateway, "web", json!({"gatewayClassName": "eg", "listeners": own}));
    let mut world = World::with([none, labelled("blue", "b"), labelled("red", "r")]);
    world.apply(
        ["default/a", "blue/b", "red/c"].map(|name| set(name, json!([http("x", &format!("{}.com", &name[..3]))]))),
    );
    let taken =
        |world: &World| ["default/a", "blue/b", "red/c"].map(|name| accepted(world, name) == "Accepted=True/Accepted");
    assert_eq!((taken(&world), attached_sets(&world)), ([false; 3], None));
    for name in ["default/a", "blue/b"] {
        assert_eq!(
            told(&world, name),
            (vec!["Accepted=False/NotAllowed".into(), "Programmed=False/NotAllowed".into()], vec![])
        );
    }
    let cases = [
        (json!({"from": "None"}), [false, false, false]),
        (json!({"from": "Same"}), [true, false, false]),
        (json!({"from": "All"}), [true, true, true]),
        (json!({"from": "Selector", "selector": {"matchLabels": {"team": "b"}}}), [false, true, false]),
        (json!({"from": "Selector"}), [false, false, false]),
        (json!({"from": "Everywhere"}), [false, false, false]),
    ];
    for (allowed, expected) in cases {
        world.apply([gateway(allowed.clone())]);
        assert_eq!(taken(&world), expected, "{allowed}");
        let count = u32::try_from(expected.iter().filter(|taken| **taken).count()).unwrap();
        assert_eq!(attached_sets(&world).unwrap_or_default(), count, "{allowed}");
    }
    // labels change, and so does what is selected
    world.apply([
        gateway(json!({"from": "Selector", "selector": {"matchLabels": {"team": "b"}}})),
        labelled("red", "b"),
    ]);
    assert_eq!(taken(&world), [false, true, true]);
    world.delete(Kind::Gateway, "default", "web");
    let table = world.translator.outputs().listener_set_statuses;
    assert_eq!(world.translator.graph().iter(table).count(), 0, "of no Gateway of ours");
}

#[test]
fn what_comes_before_has_the_host_name_and_what_lost_is_in_nobodys_way() {
    let mut world = World::with([
        parent(json!({"from": "All"}), json!([http("own", "own.com"), http("x", "x.com")])),
        aged(set("z-first", json!([http("own", "z.com"), http("x", "x.com"), http("y", "y.com")])), 1),
        aged(set("b", json!([http("own", "b.com"), http("y", "y.com")])), 2),
        aged(set("a", json!([{"name": "t", "port": 80, "protocol": "TCP"}])), 1),
        aged(set("c", json!([http("y", "y.com"), http("same", "x.com")])), 3),
    ]);
    let losing = |reason: &str| {
        ["Accepted=False", "Programmed=False", "ResolvedRefs=True", "Conflicted=True"]
            .map(|word| format!("{word}/{}", if word.starts_with("Res") { "ResolvedRefs" } else { reason }))
    };
    let entry = |set: &str, name: &str| {
        let (_, entries) = told(&world, set);
        entries.into_iter().find(|(found, ..)| found == name).expect("an entry").2
    };
    assert_eq!(short(&world.listener("web", "x").conditions)[0], "Accepted=True/Accepted");
    assert_eq!(accepted(&world, "z-first"), "Accepted=True/ListenersNotValid");
    assert_eq!(entry("z-first", "x"), losing("HostnameConflict"));
    assert_eq!(entry("z-first", "y")[0], "Accepted=True/Accepted");
    assert_eq!(entry("b", "y"), losing("HostnameConflict"));
    assert_eq!(entry("b", "own")[0], "Accepted=True/Accepted");
    assert_eq!(entry("a", "t"), losing("ProtocolConflict"));
    for set in ["a", "c"] {
        let conditions = told(&world, set).0;
        assert_eq!(conditions, ["Accepted=False/ListenersNotValid", "Programmed=False/ListenersNotValid"], "{set}");
    }
    assert_eq!(attached_sets(&world), Some(2));
    // the winner goes, and the next one in the row has it
    world.delete(Kind::ListenerSet, "default", "z-first");
    assert_eq!(accepted(&world, "b"), "Accepted=True/Accepted");
    assert_eq!(accepted(&world, "c"), "Accepted=False/ListenersNotValid");
}

#[test]
fn of_one_set_no_winner_is_chosen() {
    let tcp = json!({"name": "t", "port": 9000, "protocol": "TCP"});
    let plain = json!({"name": "h", "port": 9000, "protocol": "HTTP"});
    let world = World::with([
        parent(json!({"from": "Same"}), json!([http("own", "own.com")])),
        aged(set("a", json!([tcp, plain, http("fine", "fine.com")])), 1),
        aged(set("b", json!([plain])), 2),
    ]);
    let (_, entries) = told(&world, "a");
    let words: Vec<_> = entries.iter().map(|(_, _, conditions)| conditions[0].as_str()).collect();
    assert_eq!(words, ["Accepted=False/ProtocolConflict", "Accepted=False/ProtocolConflict", "Accepted=True/Accepted"]);
    assert_eq!(accepted(&world, "b"), "Accepted=True/Accepted", "what is refused has no port");
}

#[test]
fn routes_attach_to_the_listeners_of_their_parent_only() {
    let mut world = World::with([
        parent(json!({"from": "Same"}), json!([http("own", "own.com")])),
        set("s", json!([http("one", "one.com"), http("own", "two.com")])),
        service("v1", 80),
        service("v2", 80),
        service("v3", 80),
    ]);
    world.apply([
        route("gateway", json!([{"name": "web"}]), "v1"),
        route("set", json!([of_set("s")]), "v2"),
        route("lost", json!([{"name": "web", "sectionName": "one"}, of_set("no")]), "v3"),
    ]);
    let ask = |world: &World| ["own.com", "one.com", "two.com"].map(|host| world.ask("default/web/80", host, "/"));
    assert_eq!(ask(&world), ["v1", "v2", "v2"].map(|name| format!("default/{name}/80*1")));
    assert_eq!(world.parent("lost", 0)[0], "Accepted=False/NoMatchingParent");
    assert_eq!(world.route_status("lost").parents.len(), 1, "of a set that is not there nothing is known");
    let named = &world.route_status("set").parents[0].parent_ref;
    assert_eq!((&*named.kind, &*named.name, named.namespace.as_deref()), ("ListenerSet", "s", Some("default")));
    let counts: Vec<_> = told(&world, "s").1.into_iter().map(|(name, routes, _)| (name, routes)).collect();
    assert_eq!(counts, [("one".to_owned(), 1), ("own".to_owned(), 1)]);
    assert_eq!(world.listener("web", "own").attached_routes, 1);
    // by section, and on both parents
    let mut section = of_set("s");
    section["sectionName"] = "own".into();
    world.apply([route("set", json!([section, {"name": "web"}]), "v3")]);
    assert_eq!(ask(&world)[1], "404");
    assert_eq!(ask(&world)[2], "default/v3/80*1");
    assert_eq!(world.listener("web", "own").attached_routes, 2);
    // the Gateway does not take the set any more
    world.apply([parent(json!({"from": "None"}), json!([http("own", "own.com")]))]);
    assert_eq!(world.parent("set", 0)[0], "Accepted=False/NotAllowedByListeners");
    assert_eq!(world.parent("set", 1)[0], "Accepted=True/Accepted");
    assert_eq!(world.ask("default/web/80", "two.com", "/"), "404");
}

#[test]
fn same_is_the_namespace_of_the_set() {
    let mut world = World::with([
        parent(json!({"from": "All"}), json!([http("own", "own.com")])),
        set("other/s", json!([http("one", "one.com")])),
    ]);
    let there =
        json!([{"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": "s", "namespace": "other"}]);
    world.apply([route("other/near", there.clone(), "v1"), route("default/far", there, "v1")]);
    assert_eq!(world.parent("other/near", 0)[0], "Accepted=True/Accepted");
    assert_eq!(world.parent("default/far", 0)[0], "Accepted=False/NotAllowedByListeners");
}

#[test]
fn certificates_need_a_grant_for_the_set() {
    let tls = json!({"certificateRefs": [{"name": "cert", "namespace": "certs"}]});
    let https =
        |name: &str, host: &str| json!({"name": name, "port": 443, "protocol": "HTTPS", "hostname": host, "tls": tls});
    let grant = |kind: &str| {
        let from = json!([{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": "default"}]);
        object(Kind::ReferenceGrant, "certs/grant", json!({"from": from, "to": [{"group": "", "kind": "Secret"}]}))
    };
    let pair = certificate("certs/cert");
    let mut world = World::with([
        parent(json!({"from": "Same"}), json!([https("own", "own.com")])),
        set("s", json!([https("one", "one.com")])),
        pair,
        grant("Gateway"),
    ]);
    let resolved = |world: &World| {
        let own = short(&world.listener("web", "own").conditions)[2].clone();
        (own, told(world, "s").1[0].2[2].clone())
    };
    let (yes, no) = ("ResolvedRefs=True/ResolvedRefs".to_owned(), "ResolvedRefs=False/RefNotPermitted".to_owned());
    assert_eq!(resolved(&world), (yes.clone(), no.clone()));
    assert_eq!(accepted(&world, "s"), "Accepted=False/ListenersNotValid");
    world.apply([grant("ListenerSet")]);
    assert_eq!(resolved(&world), (no, yes));
    assert_eq!(accepted(&world, "s"), "Accepted=True/Accepted");
}

#[test]
fn one_change_of_many_sets_is_no_work_for_the_others_and_names_of_other_chains_stay_few() {
    let tls = json!({"certificateRefs": [{"name": "cert"}]});
    let https = |host: &str| json!([{"name": "x", "port": 443, "protocol": "HTTPS", "hostname": host, "tls": tls}]);
    let mut world = World::with([
        parent(json!({"from": "Same"}), https("own.com")),
        certificate("default/cert"),
        service("v1", 80),
    ]);
    let many = 300;
    world.apply((0..many).map(|n| set(&format!("s{n:03}"), https(&format!("{n}.com")))));
    world.apply((0..many).map(|n| route(&format!("r{n:03}"), json!([of_set(&format!("s{n:03}"))]), "v1")));
    assert_eq!(attached_sets(&world), Some(many));
    let misdirected: usize = (0..many).map(|n| world.hosts(&format!("default/web/443/{n}.com")).len()).sum();
    assert_eq!(misdirected, 2 * many as usize, "the own host, and one for all that are not its own");
    assert_eq!(world.ask("default/web/443/7.com", "8.com", "/"), "421");
    let stats = world.apply([set("s007", https("other.com"))]);
    assert_eq!(accepted(&world, "s007"), "Accepted=True/Accepted");
    // its own rows; and the Gateway, which has all of them
    assert!(stats.runs < 60, "{stats:?}");
}

#[test]
fn a_set_is_as_good_as_its_gateway() {
    let conditions = |world: &World| told(world, "s").0;
    let gateway = |addresses: Value, protocol: &str| {
        let listener = json!({"name": "own", "port": 90, "protocol": protocol});
        let allowed = json!({"namespaces": {"from": "Same"}});
        let spec = json!({
            "gatewayClassName": "eg", "listeners": [listener], "allowedListeners": allowed, "addresses": addresses,
        });
        object(Kind::Gateway, "web", spec)
    };
    let mut world = World::with([gateway(json!([]), "SCTP"), set("s", json!([http("one", "one.com")]))]);
    assert_eq!(conditions(&world), ["Accepted=False/ParentNotAccepted", "Programmed=False/ParentNotProgrammed"]);
    assert_eq!(attached_sets(&world), Some(0));
    world.apply([gateway(json!([{"type": "IPAddress", "value": "nonsense"}]), "HTTP")]);
    assert_eq!(conditions(&world), ["Accepted=True/Accepted", "Programmed=False/ParentNotProgrammed"]);
    world.apply([gateway(json!([]), "HTTP")]);
    assert_eq!(conditions(&world)[1], "Programmed=False/Pending", "no proxy has said anything");
    // a port that cannot be bound
    let facts = ProxyFacts { refused_ports: vec![(80, "taken".into())], ..ProxyFacts::default() };
    let tables = world.translator.stored().tables();
    world.translator.store().1.set(tables.proxies, "default/web".into(), facts.into());
    world.translator.tick();
    assert_eq!(conditions(&world)[0], "Accepted=False/ListenersNotValid");
    assert_eq!(attached_sets(&world), Some(0));
}

#[test]
fn a_set_has_the_ports_of_its_gateway_against_others_unless_it_disputes_them_itself() {
    let tcp = json!({"name": "t", "port": 9000, "protocol": "TCP"});
    let plain = |port: u16| json!({"name": "h", "port": port, "protocol": "HTTP"});
    let younger = |port: u16| crate::testing::gateway("younger", json!([plain(port)]));
    let mut world = World::with([
        aged(parent(json!({"from": "Same"}), json!([http("own", "own.com")])), 1),
        aged(set("s", json!([tcp, plain(9000), plain(9001)])), 2),
        younger(9000),
    ]);
    let accepted = |world: &World| short(&world.listener("younger", "h").conditions)[0].clone();
    assert_eq!(accepted(&world), "Accepted=True/Accepted");
    world.apply([younger(9001)]);
    assert_eq!(accepted(&world), "Accepted=False/PortUnavailable");
}

#[test]
fn a_route_that_cannot_be_read_says_so_at_a_set_too() {
    let mut world = World::with([
        parent(json!({"from": "Same"}), json!([http("own", "own.com")])),
        set("s", json!([http("one", "one.com")])),
    ]);
    let key = ObjectKey::of(Kind::HttpRoute, "default", "r");
    let parent: ParentRef = serde_json::from_value(of_set("s")).expect("a reference");
    let rejected = Rejected { generation: 1, belongs_to: "".into(), refers_to: [parent].into(), words: "no".into() };
    let tables = world.translator.stored().tables();
    world.translator.store().1.set(tables.rejected, key.clone(), rejected.into());
    world.translator.tick();
    let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
    let Some(Status::Route(status)) = outputs.with_rejection(graph, &key, None) else { panic!("a status") };
    assert_eq!(short(&status.parents[0].conditions), ["Accepted=False/UnsupportedValue"]);
}

#[test]
fn ports_beyond_what_a_service_has_refuse_the_youngest_sets_only() {
    let mut world = World::in_cluster();
    let class = json!({"controllerName": api::envoy_gateway::DEFAULT_CONTROLLER_NAME});
    let all = json!({"from": "All"});
    let own = json!([{"name": "own", "port": 80, "protocol": "HTTP"}]);
    world.apply([object(Kind::GatewayClass, "eg", class), parent(all, own)]);
    let many = |number: i64| {
        let port =
            |port: i64| json!({"name": format!("p{port}"), "port": 1000 + number * 64 + port, "protocol": "HTTP"});
        aged(set(&format!("t{number}/s"), Value::Array((0..64).map(port).collect())), number)
    };
    world.apply([many(0)]);
    // A set of the same namespace as an older one has no further share, however many ports are left.
    let shared = json!({"name": "shared", "port": 80, "protocol": "HTTP", "hostname": "a.b"});
    let new = json!({"name": "new", "port": 9999, "protocol": "HTTP"});
    world.apply([aged(set("t0/more", json!([new, shared])), 9)]);
    let entries = told(&world, "t0/more").1;
    assert_eq!(entries[0].2[0], "Accepted=False/PortUnavailable");
    assert_eq!(entries[1].2[0], "Accepted=True/Accepted", "a port that is there costs nothing");
    world.apply((1..5).map(many));
    let refused = |world: &World, name: &str| {
        told(world, name).1.iter().filter(|entry| entry.2[0] == "Accepted=False/PortUnavailable").count()
    };
    assert_eq!([0, 1, 2, 3, 4].map(|number| refused(&world, &format!("t{number}/s"))), [0, 0, 0, 1, 64]);
    let outputs = world.translator.outputs();
    let ports = |world: &World| world.translator.graph().iter(outputs.infra).next().expect("a fleet").1.ports.len();
    assert_eq!(ports(&world), 256);
}

/// A set of 64 listeners of one port, made at a time.
fn full(name: &str, age: i64) -> Object {
    let listener = |at: usize| http(&format!("l{at}"), &format!("h{at}.{}.test", name.replace('/', ".")));
    aged(set(name, Value::Array((0..64).map(listener).collect())), age)
}

#[test]
fn listeners_of_a_namespace_beyond_the_bound_are_refused() {
    for mut world in [World::new(), World::in_cluster()] {
        let class = json!({"controllerName": api::envoy_gateway::DEFAULT_CONTROLLER_NAME});
        let own = json!([{"name": "own", "port": 80, "protocol": "HTTP"}]);
        world.apply([object(Kind::GatewayClass, "eg", class), parent(json!({"from": "All"}), own)]);
        world.apply((0..9).map(|age| full(&format!("evil/s{age}"), age)));
        world.apply([full("good/late", 99)]);
        world.apply((0..9).map(|age| full(&format!("default/s{age}"), age)));
        let refused = |world: &World, name: &str| {
            told(world, name).1.iter().filter(|entry| entry.2[0] == "Accepted=False/TooManyListeners").count()
        };
        assert_eq!([7, 8].map(|age| refused(&world, &format!("evil/s{age}"))), [0, 64]);
        assert_eq!(refused(&world, "good/late"), 0, "other namespaces do not notice");
        assert_eq!(refused(&world, "default/s8"), 0, "the Gateway is theirs");
        let problems = world.problems();
        assert!(problems.iter().any(|text| text.contains("one too many") && text.contains("512")), "{problems:?}");
        world.delete(Kind::ListenerSet, "evil", "s0");
        assert_eq!(refused(&world, "evil/s8"), 0);
    }
}

#[test]
fn backends_that_listeners_of_a_namespace_ask_are_bounded() {
    let asking = |at: usize| {
        let server = json!({"name": format!("auth{at}"), "port": 80});
        let auth = json!({"protocol": "HTTP", "http": {}, "backendRef": server});
        let mut listener = http(&format!("l{at}"), &format!("h{at}.test"));
        listener["filters"] = json!({"requests": [{"type": "ExternalAuth", "externalAuth": auth}]});
        listener
    };
    let mut world = World::new();
    world.apply([parent(json!({"from": "All"}), json!([{"name": "own", "port": 80, "protocol": "HTTP"}]))]);
    world.apply((0..33).map(|at| service(&format!("evil/auth{at}"), 80)));
    world.apply([set("evil/s", Value::Array((0..33).map(asking).collect()))]);
    let conditions = |at: usize| told(&world, "evil/s").1[at].2[0].clone();
    assert_eq!(
        [0, 31, 32].map(conditions),
        ["Accepted=True/Accepted", "Accepted=True/Accepted", "Accepted=False/TooManyBackends"]
    );
    assert!(!world.clusters().iter().any(|name| name.contains("auth32")), "{:?}", world.clusters());
    // It keeps its host name, which a wider listener would serve.
    assert!(world.hosts("default/web/80").keys().any(|host| host.contains("h32.test")));
}

#[test]
fn route_whose_host_a_set_of_others_takes_gets_a_notice() {
    let general =
        json!([{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}]);
    let of = |name: &str, parents: Value, hosts: Value| {
        let rules = json!([{"backendRefs": [{"name": "v1", "port": 80}]}]);
        object(Kind::HttpRoute, name, json!({"parentRefs": parents, "hostnames": hosts, "rules": rules}))
    };
    let edge = || json!({"name": "web", "namespace": "default"});
    let mut world = World::with([
        parent(json!({"from": "All"}), general),
        of("blue/one", json!([edge()]), json!(["one.test", "free.test"])),
        of("blue/deep", json!([edge()]), json!(["x.deep.test", "*.wide.test"])),
        of("red/own", json!([edge()]), json!(["one.test"])),
    ]);
    let lost = |world: &World| {
        let mut all = world.problems();
        all.retain(|problem| problem.contains("is more specific and gets them"));
        all
    };
    assert_eq!(lost(&world), [""; 0]);
    world.apply([set(
        "red/set",
        json!([http("one", "one.test"), http("deep", "*.deep.test"), http("in", "in.wide.test")]),
    )]);
    let found = lost(&world);
    let [deep, one] = &*found else { panic!("{found:?}") };
    let words = "warning: HTTPRoute blue/one: spec.hostnames: requests for one.test do not come to this route at listener http: listener one of ListenerSet \
                 red/set is more specific and gets them; ";
    assert!(one.starts_with(words), "{one}");
    assert!(deep.contains("HTTPRoute blue/deep") && deep.contains("x.deep.test"), "{deep}");
    // One that is attached to the set too gets its requests there.
    let mut both = of_set("set");
    both["namespace"] = json!("red");
    let shared = json!([http("one", "one.test")].map(|mut listener| {
        listener["allowedRoutes"] = json!({"namespaces": {"from": "All"}});
        listener
    }));
    world.apply([set("red/set", shared), of("blue/one", json!([edge(), both]), json!(["one.test", "free.test"]))]);
    assert_eq!(lost(&world), [""; 0]);
    world.apply([of("blue/one", json!([edge()]), json!(["one.test", "free.test"]))]);
    assert_eq!(lost(&world).len(), 1);
    // The Gateway's own listener is whom its operator lets have it.
    let own = json!([
        {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}},
        {"name": "own", "port": 80, "protocol": "HTTP", "hostname": "one.test"},
    ]);
    world.apply([parent(json!({"from": "All"}), own)]);
    assert_eq!(lost(&world), [""; 0]);
    world.delete(Kind::ListenerSet, "red", "set");
    assert_eq!(lost(&world), [""; 0]);
}

#[test]
fn routes_of_a_gateway_without_sets_ask_once_for_each_host() {
    let general = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let of = |at: usize, backend: &str| {
        let rules = json!([{"backendRefs": [{"name": backend, "port": 80}]}]);
        let spec = json!({"parentRefs": [{"name": "web"}], "hostnames": [format!("h{at}.test")], "rules": rules});
        object(Kind::HttpRoute, &format!("r{at}"), spec)
    };
    let mut world = World::with([parent(json!({"from": "All"}), general)]);
    world.apply((0..20).map(|at| of(at, "v1")));
    let runs = |world: &World| {
        let nodes = world.translator.graph().nodes().filter(|node| node.name.starts_with("shadowed_"));
        nodes.map(|node| node.runs).sum::<u64>()
    };
    assert_eq!(runs(&world), 20);
    world.apply((0..20).map(|at| of(at, "v2")));
    assert_eq!(runs(&world), 20, "an edit of a route asks nothing");
}

/// The author of sets may attach them to a Gateway of others, or has Gateways of its own.
#[test]
fn ports_of_sets_are_bounded_for_each_gateway_and_namespace_of_a_machine() {
    let tcp = |first: u16, count: u16| -> Value {
        (first..first + count)
            .map(|port| json!({"name": format!("p{port}"), "port": port, "protocol": "HTTP"}))
            .collect()
    };
    let entries = |world: &World, name: &str| -> Vec<String> {
        told(world, name).1.into_iter().map(|(_, _, conditions)| conditions[0].clone()).collect()
    };
    let (yes, no) = ("Accepted=True/Accepted", "Accepted=False/PortUnavailable");
    let own = json!([http("own", "own.com")]);
    let mut world = World::with([parent(json!({"from": "All"}), own)]);
    world.apply([aged(set("evil/a", tcp(1000, 60)), 1), aged(set("evil/b", tcp(2000, 10)), 2)]);
    world.apply([aged(set("bank/c", tcp(2008, 10)), 3)]);
    assert!(entries(&world, "evil/a").iter().all(|found| found == yes));
    let late = entries(&world, "evil/b");
    assert!(late[..4].iter().all(|found| found == yes) && late[4..].iter().all(|found| found == no), "{late:?}");
    assert!(entries(&world, "bank/c").iter().all(|found| found == yes), "others do not notice");
    // What the Gateway has is for all.
    world.apply([aged(set("evil/b", json!([http("x", "x.com")])), 4)]);
    assert_eq!(entries(&world, "evil/b"), [yes]);

    // The port that was refused is not held against another Gateway: an older one has the first 1,024, younger ones what is free.
    let gateway = |name: &str, first: u16| {
        let spec = json!({"gatewayClassName": "eg", "allowedListeners": {"namespaces": {"from": "All"}},
            "listeners": tcp(first, 64)});
        object(Kind::Gateway, name, spec)
    };
    let mut world =
        World::with((0..17).map(|n| aged(gateway(&format!("evil/g{n:02}"), 1000 + 100 * n), i64::from(n) + 1)));
    world.apply([aged(gateway("bank/web", 2600), 90)]);
    let of = |world: &World, gateway: &str, port: u16| {
        let (namespace, name) = gateway.split_once('/').unwrap();
        let key = ObjectKey::of(Kind::Gateway, namespace, name);
        let table = world.translator.outputs().gateway_statuses;
        let status = world.translator.graph().get(table, &key).expect("a status");
        let found = status.listeners.iter().find(|entry| *entry.name == *format!("p{port}")).expect("a listener");
        short(&found.conditions)[0].clone()
    };
    assert_eq!(of(&world, "evil/g15", 2563), yes);
    assert_eq!(of(&world, "evil/g16", 2600), no, "the youngest has none");
    assert_eq!(of(&world, "bank/web", 2600), yes, "nor holds it against others");
    world.delete(Kind::Gateway, "evil", "g00");
    assert_eq!(of(&world, "evil/g16", 2600), yes);
    assert_eq!(of(&world, "bank/web", 2600), no);
}
