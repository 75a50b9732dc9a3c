//! Products of objects that are each small: what is beyond the budget of route entries is not attached, and nothing else changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use api::{Kind, Object, ObjectKey};
use proptest::prelude::*;
use serde_json::{Value, json};
use store::Change;

use crate::testing::{World, aged, gateway, object, service};
use crate::{AttachedRoute, RouteBudget};

/// Why a route is not attached.
const REASON: &str = "Accepted=False/TooManyRouteEntries";
const ACCEPTED: &str = "Accepted=True/Accepted";

/// A Gateway with so many listeners that take routes from everywhere, each with a port of its own.
fn wide(listeners: u16) -> Object {
    let listener = |at: u16| {
        json!({
            "name": format!("l{at}"), "port": 1000 + at, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        })
    };
    gateway("web", (0..listeners).map(listener).collect())
}

/// A route on all listeners with so many matches in a rule and so many rules, without backends.
fn route(name: &str, rules: usize, matches: usize) -> Object {
    object(Kind::HttpRoute, name, spec(json!({"name": "web", "namespace": "default"}), rules, matches))
}

fn spec(parent: Value, rules: usize, matches: usize) -> Value {
    let matches = |rule: usize| -> Vec<Value> {
        (0..matches).map(|at| json!({"path": {"type": "PathPrefix", "value": format!("/{rule}/{at}")}})).collect()
    };
    let rules: Vec<Value> = (0..rules).map(|rule| json!({"matches": matches(rule)})).collect();
    json!({"parentRefs": [parent], "rules": rules})
}

/// The condition `Accepted` of a route's first parent, with its words.
fn accepted(world: &World, kind: Kind, namespace: &str, name: &str) -> (String, String) {
    let key = ObjectKey::of(kind, namespace, name);
    let status = world.translator.outputs().route_status(world.translator.graph(), &key).expect("a status");
    let conditions = &status.parents[0].conditions;
    let found = conditions.iter().find(|condition| &*condition.condition_type == "Accepted").expect("it");
    (crate::testing::short(std::slice::from_ref(found)).concat(), found.message.to_string())
}

fn is_accepted(world: &World, name: &str) -> bool {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let (condition, words) = accepted(world, Kind::HttpRoute, namespace, name);
    assert!(condition == ACCEPTED || condition == REASON, "{condition}: {words}");
    condition == ACCEPTED
}

#[test]
fn the_budget_leaves_room_for_large_uses_and_follows_the_memory() {
    let most = RouteBudget::default();
    // 50,000 routes of a namespace with 3 matches and a backend on 2 listeners, and 128 matches on 64 listeners under 15 host names.
    assert!(most.namespace >= 50_000 * (2 * 3 + crate::route_budget::CLUSTER));
    assert!(most.route() >= 128 * 64 * 15);
    assert_eq!(RouteBudget::within(1 << 30), most);
    assert_eq!(RouteBudget::within(1 << 40), most);
    assert_eq!(RouteBudget::within(512 << 20).namespace, 256 << 10);
    assert!(RouteBudget::within(0).route() >= 128 * 64);
}

#[test]
fn a_route_with_every_match_on_every_listener_is_attached() {
    let world = World::with([wide(64), route("large", 2, 64)]);
    assert!(is_accepted(&world, "large"));
    assert_eq!(world.hosts("default/web/1063")["*"].len(), 128);
}

#[test]
fn a_route_that_makes_too_many_entries_is_not_attached_and_says_why() {
    let mut world = World::within(4_096);
    world.apply([wide(64), route("small", 1, 1), route("flood", 1, 20)]);
    let (condition, words) = accepted(&world, Kind::HttpRoute, "default", "flood");
    assert_eq!(condition, REASON);
    assert!(words.contains("1280 route entries") && words.contains("1024") && words.contains("sectionName"), "{words}");
    assert!(world.problems().iter().any(|problem| problem.contains("1280 route entries")), "{:?}", world.problems());
    assert!(is_accepted(&world, "small"));
    assert_eq!(world.hosts("default/web/1000")["*"], ["/0/0 -> 500"]);
    assert_eq!(world.listener("web", "l0").attached_routes, 1);
    // The remedy that it names.
    let narrow = spec(json!({"name": "web", "sectionName": "l7"}), 1, 20);
    world.apply([object(Kind::HttpRoute, "flood", narrow)]);
    assert!(is_accepted(&world, "flood"));
    assert_eq!(world.hosts("default/web/1007")["*"].len(), 20 + 1);
}

#[test]
fn of_a_namespace_the_youngest_routes_are_left_out() {
    let mut world = World::within(4_096);
    let parts = ["d", "c", "b", "a"];
    let routes = parts.iter().zip(0..).map(|(name, age)| aged(route(name, 1, 16), age));
    world.apply([wide(64)].into_iter().chain(routes));
    assert!(parts.iter().all(|name| is_accepted(&world, name)));
    // Of another namespace, and so none of theirs: that one comes last and stays.
    world.apply([aged(route("other/late", 1, 16), 9), aged(route("e", 1, 1), 4)]);
    assert!(is_accepted(&world, "other/late"));
    let (condition, words) = accepted(&world, Kind::HttpRoute, "default", "e");
    assert_eq!(condition, REASON);
    assert!(
        words.contains("64 route entries") && words.contains("4096") && words.contains("namespace default"),
        "{words}"
    );
    // An older one takes the place of the youngest, which takes all that is left to smaller ones.
    world.apply([aged(route("older", 1, 8), -1)]);
    let found: Vec<bool> = ["older", "d", "c", "b", "a", "e"].iter().map(|name| is_accepted(&world, name)).collect();
    assert_eq!(found, [true, true, true, true, false, true]);
    world.delete(Kind::HttpRoute, "default", "older");
    assert!(is_accepted(&world, "a") && !is_accepted(&world, "e"));
    world.delete(Kind::HttpRoute, "default", "d");
    assert!(is_accepted(&world, "e"));
}

/// A default Gateway with so many listeners from a port on that take routes from everywhere.
fn default_gateway(name: &str, first: u16, listeners: u16) -> Object {
    let listener = |port: u16| {
        json!({
            "name": format!("l{port}"), "port": port, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        })
    };
    let listeners: Vec<Value> = (first..first + listeners).map(listener).collect();
    object(Kind::Gateway, name, json!({"gatewayClassName": "eg", "defaultScope": "All", "listeners": listeners}))
}

/// A route of all default Gateways.
fn on_defaults(name: &str, matches: usize) -> Object {
    let mut spec = spec(json!({}), 1, matches);
    spec["useDefaultGateways"] = json!("All");
    spec["parentRefs"] = json!([]);
    object(Kind::HttpRoute, name, spec)
}

/// Entries on a listener.
fn served(world: &World, listener: &str) -> usize {
    world.hosts(listener).values().map(Vec::len).sum()
}

#[test]
fn gateways_of_others_detach_a_guard_nowhere_else() {
    let mut world = World::within(4_096);
    world.apply([default_gateway("bank/web", 1000, 1), on_defaults("bank/admin", 16), on_defaults("bank/root", 1)]);
    let own = |world: &World| served(world, "bank/web/1000");
    let theirs = |world: &World| -> Vec<usize> {
        (0..10).map(|at| served(world, &format!("evil/g{at}/{}", 2000 + 64 * at))).collect()
    };
    let before = own(&world);
    // Together 10,880 entries of the namespace.
    world.apply((0..10).map(|at| default_gateway(&format!("evil/g{at}"), 2000 + 64 * at, 64)));
    assert_eq!(own(&world), before, "what others attach costs nothing here");
    let there = theirs(&world);
    assert_eq!(there.iter().filter(|made| **made == before).count(), 3, "3 x 1,088 fit next to the own 17: {there:?}");
    assert!(there.iter().all(|made| [0, before].contains(made)), "never without the guard: {there:?}");
    let problems = world.problems();
    let says = |text: &String| text.contains("default Gateway evil/") && text.contains("parentRefs");
    assert!(problems.iter().any(says), "{problems:?}");
    // The guard alone is too large for one of these, and the other route does not come there either.
    world.apply([on_defaults("bank/admin", 17)]);
    assert_eq!(own(&world), before + 1);
    assert!(theirs(&world).iter().all(|made| *made == 0));
    // One that takes less of the namespace is served before these, whatever its name and age.
    world.apply([default_gateway("zone/shared", 900, 2), on_defaults("bank/admin", 15), on_defaults("bank/more", 15)]);
    assert_eq!(own(&world), served(&world, "zone/shared/900"));
}

#[test]
fn listeners_of_a_named_gateway_detach_a_route_there_only() {
    let mut world = World::within(4_096);
    let mut both = spec(json!({}), 1, 20);
    both["parentRefs"] = json!([{"name": "own"}, {"name": "web", "namespace": "shared"}]);
    world.apply([default_gateway("bank/own", 1000, 1), object(Kind::HttpRoute, "bank/r", both)]);
    let found = |world: &World| (served(world, "bank/own/1000"), served(world, "shared/web/2000"));
    world.apply([default_gateway("shared/web", 2000, 2)]);
    assert_eq!(found(&world), (20, 20));
    world.apply([default_gateway("shared/web", 2000, 64)]);
    assert_eq!(found(&world), (20, 0));
}

#[test]
fn long_filters_host_names_clusters_and_redirects_count() {
    let long = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x", "value": "v".repeat(3_800)}]}}]);
    let redirect = json!([{"type": "RequestRedirect", "requestRedirect": {}}]);
    let backend = json!([{"name": "v1", "port": 80}]);
    let parent = || json!([{"name": "web"}]);
    let hosts: Vec<String> = (0..16).map(|at| format!("h{at}.org")).collect();
    let counted = |spec: Value| {
        let mut world = World::within(4);
        world.apply([wide(8), service("v1", 80), object(Kind::HttpRoute, "r", spec)]);
        let (condition, words) = accepted(&world, Kind::HttpRoute, "default", "r");
        assert_eq!(condition, REASON);
        let (_, count) = words.split_once("it makes ").expect("a count");
        count.split(' ').next().and_then(|count| count.parse::<u32>().ok()).expect("a number")
    };
    assert_eq!(counted(json!({"parentRefs": parent(), "rules": [{}]})), 8);
    assert_eq!(counted(json!({"parentRefs": parent(), "rules": [{"backendRefs": backend}]})), 8 + 3);
    assert_eq!(counted(json!({"parentRefs": parent(), "rules": [{"filters": redirect}]})), 8);
    assert_eq!(counted(json!({"parentRefs": parent(), "hostnames": hosts, "rules": [{}]})), 8 * 16);
    // About 800 times two and a bit instructions, in units of 512, in each of three places.
    let expression = "(?:ab?){800}";
    let large = json!([{
        "path": {"type": "RegularExpression", "value": expression},
        "headers": [{"type": "RegularExpression", "name": "a", "value": expression}],
        "queryParams": [{"type": "RegularExpression", "name": "b", "value": expression}],
    }]);
    let programs = counted(json!({"parentRefs": parent(), "rules": [{"matches": large}]}));
    assert!(programs >= 8 * (1 + 3 * 800 * 2 / 512), "{programs}");
    // Of a rule that answers an error the filters are not there.
    let counted = counted(json!({"parentRefs": parent(), "rules": [{"filters": long, "backendRefs": backend}]}));
    assert_eq!(counted, 8 * 8 + 3, "some 4,000 bytes in units of 512");
}

#[test]
fn every_kind_of_route_has_the_bound() {
    let listeners = |protocol: &str, tls: Value| -> Value {
        let all = (0..9).map(|at| {
            let mut listener = json!({"name": format!("l{at}"), "port": 2000 + at, "protocol": protocol});
            if protocol == "TLS" {
                listener["tls"] = tls.clone();
                listener["hostname"] = json!("*.org");
            }
            listener
        });
        all.collect()
    };
    let passthrough = json!({"mode": "Passthrough"});
    let cases = [
        (Kind::GrpcRoute, "HTTP", json!({"parentRefs": [{"name": "web"}], "rules": [{}]})),
        (
            Kind::TlsRoute,
            "TLS",
            json!({"parentRefs": [{"name": "web"}], "hostnames": ["a.org"], "rules": [{"backendRefs": [{"name": "v1", "port": 80}]}]}),
        ),
        (
            Kind::TcpRoute,
            "TCP",
            json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [{"name": "v1", "port": 80}]}]}),
        ),
        (
            Kind::UdpRoute,
            "UDP",
            json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [{"name": "v1", "port": 80}]}]}),
        ),
    ];
    for (kind, protocol, spec) in cases {
        let mut world = World::within(32);
        world.apply([gateway("web", listeners(protocol, passthrough.clone())), object(kind, "r", spec)]);
        let (condition, words) = accepted(&world, kind, "default", "r");
        assert_eq!(condition, REASON, "{kind}: {words}");
        assert!(words.contains("makes 9 route entries"), "{kind}: {words}");
    }
}

#[test]
fn an_edit_that_makes_as_many_entries_adds_nothing_up() {
    let mut world = World::with([wide(2)]);
    world.apply((0..300).map(|at| route(&format!("r{at}"), 1, 2)));
    let runs = |world: &World| {
        let counting = ["route_entries_of_piece", "crowded_namespace", "late_route"];
        let nodes = world.translator.graph().nodes().filter(|node| counting.contains(&node.name));
        nodes.map(|node| node.runs).sum::<u64>()
    };
    let before = runs(&world);
    world.apply([route("r7", 2, 1)]);
    assert_eq!(runs(&world), before);
    world.apply([route("r7", 1, 1)]);
    assert_eq!(runs(&world), before + 2, "its piece, and the sum of its namespace");
}

#[test]
fn old_forms_of_a_large_route_are_forgotten() {
    let mut world = World::with([wide(64)]);
    let mut forms: Vec<Weak<AttachedRoute>> = Vec::new();
    let publish = |world: &mut World, forms: &mut Vec<Weak<AttachedRoute>>| {
        let (graph, outputs) = (world.translator.graph(), world.translator.outputs());
        forms.extend(graph.iter(outputs.effective).map(|(_, effective)| Arc::downgrade(&effective.form)));
        world.translator.remember_served();
        world.translator.settle();
    };
    for edit in 1..20 {
        world.apply([route("r", 1, edit)]);
        publish(&mut world, &mut forms);
    }
    let alive = |forms: &[Weak<AttachedRoute>]| forms.iter().filter(|form| form.strong_count() > 0).count();
    assert!(alive(&forms) <= 2, "the present one and the one before, not {}", alive(&forms));
    world.delete(Kind::HttpRoute, "default", "r");
    publish(&mut world, &mut forms);
    for number in 0..20 {
        let name = format!("r{number}");
        for edit in 1..3 {
            world.apply([route(&name, 1, edit)]);
            publish(&mut world, &mut forms);
        }
        world.delete(Kind::HttpRoute, "default", &name);
        publish(&mut world, &mut forms);
    }
    assert!(alive(&forms) <= 2, "{} forms of routes that are gone", alive(&forms));
}

/// A change of a route, or of the Gateway.
#[derive(Clone, Debug)]
enum Edit {
    Route { name: usize, age: i64, matches: usize },
    Remove { name: usize },
    Listeners(u16),
}

const NAMES: [&str; 6] = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z"];

fn edit() -> impl Strategy<Value = Edit> {
    let name = 0..NAMES.len();
    prop_oneof![
        6 => (name.clone(), 0..3_i64, 1..12_usize).prop_map(|(name, age, matches)| Edit::Route { name, age, matches }),
        1 => name.prop_map(|name| Edit::Remove { name }),
        1 => (1..6_u16).prop_map(Edit::Listeners),
    ]
}

/// Routes as they are written, in order of precedence: age, namespace, name, with what they make on one listener.
type Written = BTreeSet<(i64, &'static str, usize)>;

/// The routes that are attached, by the words of the documentation.
fn expected(written: &Written, listeners: u16, budget: u32) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for namespace in ["a/", "b/"] {
        let mut left = budget;
        for (_, name, matches) in written.iter().filter(|(_, name, _)| name.starts_with(namespace)) {
            let makes = u32::from(listeners) * u32::try_from(*matches).expect("small");
            if makes <= budget / 4 && makes <= left {
                left -= makes;
                found.insert(*name);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_of_events_the_same_routes_are_attached(history in proptest::collection::vec(edit(), 1..30)) {
        const BUDGET: u32 = 64;
        let (mut world, mut written, mut listeners) = (World::within(BUDGET), Written::new(), 1);
        world.apply([wide(listeners)]);
        for edit in history {
            match edit {
                Edit::Route { name, age, matches } => {
                    written.retain(|(_, other, _)| *other != NAMES[name]);
                    written.insert((age, NAMES[name], matches));
                    world.apply([aged(route(NAMES[name], 1, matches), age)]);
                }
                Edit::Remove { name } => {
                    written.retain(|(_, other, _)| *other != NAMES[name]);
                    let (namespace, name) = NAMES[name].split_once('/').expect("both");
                    world.change(vec![Change::Delete(ObjectKey::of(Kind::HttpRoute, namespace, name))]);
                }
                Edit::Listeners(count) => {
                    listeners = count;
                    world.apply([wide(count)]);
                }
            }
            world.translator.remember_served();
            world.translator.settle();
            let attached: BTreeSet<&str> =
                written.iter().map(|(_, name, _)| *name).filter(|name| is_accepted(&world, name)).collect();
            prop_assert_eq!(&attached, &expected(&written, listeners, BUDGET), "{:?} on {}", &written, listeners);
            let served = world.hosts("default/web/1000").values().map(Vec::len).sum::<usize>();
            let made: usize = written.iter().filter(|(_, name, _)| attached.contains(name)).map(|(.., made)| made).sum();
            prop_assert_eq!(served, made, "what is served is what is attached");
        }
    }
}
