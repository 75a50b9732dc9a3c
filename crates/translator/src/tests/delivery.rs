//! Gating: what is served while clusters warm, stall or are refused; and what proxies' answers do to statuses.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use store::{ClusterState, FactKey, ListenerState, ProxyFacts};

use crate::testing::{World, gateway, object, route, route_spec, service, short};
use api::{Kind, Object};

const FLEET: &str = "default/web";
const HOST: &str = "x.org";

fn world() -> World {
    let mut world = World::with([
        gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
        service("v1", 80),
        service("v2", 80),
        route("r", "web", &[HOST], &[("/", "v1")]),
    ]);
    world.translator.remember_served();
    let tables = world.translator.stored().tables();
    let (_, graph) = world.translator.store();
    graph.set(tables.fleet_live, FLEET.into(), ());
    set(&mut world, "default/v1/80", Some(ClusterState::Warm));
    world
}

fn set(world: &mut World, cluster: &str, state: Option<ClusterState>) {
    let tables = world.translator.stored().tables();
    let (_, graph) = world.translator.store();
    match state {
        Some(state) => graph.set(tables.cluster_state, FactKey::new(FLEET, cluster), state),
        None => drop(graph.remove(tables.cluster_state, &FactKey::new(FLEET, cluster))),
    }
    world.translator.tick();
    world.translator.remember_served();
}

fn edit(world: &mut World, rules: &[(&str, &str)]) {
    world.apply([route("r", "web", &[HOST], rules)]);
    world.translator.remember_served();
}

fn ask(world: &World, path: &str) -> String {
    world.ask("default/web/80", HOST, path)
}

#[test]
fn a_new_cluster_is_delivered_first_and_used_when_it_is_warm() {
    let mut world = world();
    edit(&mut world, &[("/", "v2")]);
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
    assert_eq!(
        world.clusters(),
        ["default/v1/80", "default/v2/80"],
        "the new one is there to warm, the old one still serves"
    );
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(ask(&world, "/"), "default/v2/80*1");
    assert_eq!(world.clusters(), ["default/v2/80"]);
}

#[test]
fn other_tls_is_another_cluster_and_counts_with_the_rest_of_its_edit() {
    let policy = |host: &str| {
        let spec = json!({
            "targetRefs": [{"group": "", "kind": "Service", "name": "v1"}],
            "validation": {"hostname": host, "wellKnownCACertificates": "System"},
        });
        object(Kind::BackendTlsPolicy, "p", spec)
    };
    let mut world = world();
    let edit = |world: &mut World, objects: [Object; 2]| {
        world.apply(objects);
        world.translator.remember_served();
    };
    // a policy comes: cleartext until its cluster is warm
    edit(&mut world, [policy("one.example"), route("r", "web", &[HOST], &[("/a", "v1")])]);
    let [clear, one] = <[String; 2]>::try_from(world.clusters()).expect("both");
    assert!(clear == "default/v1/80" && one.starts_with("default/v1/80~tls-"), "{clear} {one}");
    assert_eq!((ask(&world, "/"), ask(&world, "/a")), (format!("{clear}*1"), format!("{clear}*1")));
    set(&mut world, &one, Some(ClusterState::Warm));
    assert_eq!((ask(&world, "/"), ask(&world, "/a")), ("404".to_owned(), format!("{one}*1")));
    // another one comes as the route leaves: what is on its way meets neither the new policy nor the new route alone
    edit(&mut world, [policy("two.example"), route("r", "web", &[HOST], &[("/", "v2")])]);
    assert_eq!(world.clusters(), [one.clone(), "default/v2/80".to_owned()]);
    let tls = |world: &World, name: &str| {
        let outputs = world.translator.outputs();
        let mut found = outputs.clusters(world.translator.graph()).filter(|(key, _)| key.name.as_str() == name);
        found.next().and_then(|(_, cluster)| cluster.tls.clone()?.server_name)
    };
    assert_eq!(tls(&world, &one).as_deref(), Some("one.example"));
    assert_eq!(ask(&world, "/a"), format!("{one}*1"));
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(world.clusters(), ["default/v2/80"]);
    assert_eq!(ask(&world, "/a"), "default/v2/80*1");
}

#[test]
fn a_backend_that_is_not_ready_for_the_tls_that_is_wanted_is_not_sent_to_without() {
    let policy = json!({
        "targetRefs": [{"group": "", "kind": "Service", "name": "v1"}],
        "validation": {"hostname": "one.example", "wellKnownCACertificates": "System"},
    });
    let mut world = world();
    world.apply([object(Kind::BackendTlsPolicy, "p", policy)]);
    world.translator.remember_served();
    assert_eq!(ask(&world, "/"), "default/v1/80*1", "for as long as clusters take to be ready");
    let secure = world.clusters().into_iter().find(|name| name.contains("~tls-")).expect("a cluster");
    set(&mut world, &secure, Some(ClusterState::Stalled));
    assert_eq!(ask(&world, "/"), "500");
    set(&mut world, &secure, Some(ClusterState::Refused("no such bundle".into())));
    assert_eq!(ask(&world, "/"), "500");
    assert!(world.problems().iter().any(|problem| problem.contains("no such bundle")));
    set(&mut world, &secure, Some(ClusterState::Warm));
    assert_eq!(ask(&world, "/"), format!("{secure}*1"));
    // the other way round nothing is less safe
    world.delete(Kind::BackendTlsPolicy, "default", "p");
    world.translator.remember_served();
    set(&mut world, "default/v1/80", Some(ClusterState::Stalled));
    assert_eq!(ask(&world, "/"), format!("{secure}*1"));
}

#[test]
fn a_cluster_that_comes_back_has_to_warm_again() {
    let mut world = world();
    edit(&mut world, &[("/", "v2")]);
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(world.clusters(), ["default/v2/80"]);
    edit(&mut world, &[("/", "v1")]);
    assert_eq!(ask(&world, "/"), "default/v2/80*1", "v1 went, so it is not warm");
    set(&mut world, "default/v1/80", Some(ClusterState::Warm));
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
}

#[test]
fn a_new_route_is_absent_until_all_its_clusters_are_warm() {
    let mut world = world();
    world.apply([route("new", "web", &["new.org"], &[("/a", "v1"), ("/b", "v2")])]);
    world.translator.remember_served();
    assert_eq!(world.ask("default/web/80", "new.org", "/a"), "404");
    assert_eq!(world.listener("web", "http").attached_routes, 2, "attached all the same");
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(world.ask("default/web/80", "new.org", "/b"), "default/v2/80*1");
}

#[test]
fn a_listener_that_is_new_while_a_cluster_warms_serves_what_the_others_do() {
    let mut world = world();
    edit(&mut world, &[("/a", "v1"), ("/b", "v1")]);
    edit(&mut world, &[("/a", "v2"), ("/b", "v1")]);
    let listener = |name, port| json!({"name": name, "port": port, "protocol": "HTTP"});
    world.apply([gateway("web", json!([listener("http", 80), listener("more", 81)]))]);
    world.translator.remember_served();
    for port in [80, 81] {
        let asked = |path| world.ask(&format!("default/web/{port}"), HOST, path);
        assert_eq!(["/a", "/b"].map(asked), ["default/v1/80*1", "default/v1/80*1"]);
    }
    set(&mut world, "default/v2/80", Some(ClusterState::Stalled));
    assert_eq!(world.ask("default/web/81", HOST, "/a"), "default/v1/80*1");
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(world.ask("default/web/81", HOST, "/a"), "default/v2/80*1");
}

#[test]
fn a_listener_of_its_own_that_is_new_while_a_cluster_warms_serves_what_needs_it_not() {
    let mut world = world();
    let listener = |name, port| json!({"name": name, "port": port, "protocol": "HTTP"});
    edit(&mut world, &[("/a", "v1")]);
    world.apply([
        gateway("web", json!([listener("other", 81)])),
        route("r", "web", &[HOST], &[("/a", "v2"), ("/b", "v1")]),
    ]);
    world.translator.remember_served();
    assert_eq!(["/a", "/b"].map(|path| world.ask("default/web/81", HOST, path)), ["404", "default/v1/80*1"]);
}

#[test]
fn an_edit_that_needs_no_new_cluster_is_served_at_once() {
    let mut world = world();
    edit(&mut world, &[("/a", "v1")]);
    assert_eq!((ask(&world, "/a"), ask(&world, "/")), ("default/v1/80*1".into(), "404".into()));
}

#[test]
fn a_cluster_that_stalls_holds_back_only_what_needs_it() {
    let mut world = world();
    edit(&mut world, &[("/", "v2"), ("/a", "v1"), ("/b", "v2")]);
    assert_eq!(ask(&world, "/a"), "default/v1/80*1");
    set(&mut world, "default/v2/80", Some(ClusterState::Stalled));
    assert_eq!(world.hosts("default/web/80")[HOST], ["/a -> default/v1/80*1", "/ -> default/v1/80*1"]);
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(world.hosts("default/web/80")[HOST].len(), 3);
    assert_eq!(ask(&world, "/b"), "default/v2/80*1");
}

#[test]
fn a_refused_cluster_answers_500_where_nothing_was_served_and_the_status_has_envoys_words() {
    let mut world = world();
    edit(&mut world, &[("/", "v2"), ("/new", "v2")]);
    set(&mut world, "default/v2/80", Some(ClusterState::Refused("no such thing".into())));
    assert_eq!((ask(&world, "/"), ask(&world, "/new")), ("default/v1/80*1".into(), "500".into()));
    let parent = &world.route_status("r").parents[0];
    assert_eq!(short(&parent.conditions)[2], "PartiallyInvalid=True/UnsupportedValue");
    assert!(
        parent.conditions[2].message.starts_with("Fall Back") && parent.conditions[2].message.contains("no such thing")
    );
    assert!(world.problems().iter().any(|problem| problem.contains("no such thing")));
    edit(&mut world, &[("/", "v1")]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn who_authorises_is_waited_for_and_nothing_passes_unasked_when_that_takes_too_long() {
    let mut world = world();
    let asking = |server: &str| {
        let server = json!({"name": server, "port": 80});
        let auth = json!({"protocol": "HTTP", "http": {}, "backendRef": server});
        let mut spec = route_spec("web", &[HOST], &[("/", "v1")]);
        spec["rules"][0]["filters"] = json!([{"type": "ExternalAuth", "externalAuth": auth}]);
        object(Kind::HttpRoute, "r", spec)
    };
    world.apply([service("v3", 80), asking("v2")]);
    world.translator.remember_served();
    assert_eq!(ask(&world, "/"), "default/v1/80*1", "the edit is not in force yet");
    assert_eq!(world.clusters(), ["default/v1/80", "default/v2/80"]);
    set(&mut world, "default/v2/80", Some(ClusterState::Stalled));
    assert_eq!(ask(&world, "/"), "500");
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
    world.apply([asking("v3")]);
    world.translator.remember_served();
    set(&mut world, "default/v3/80", Some(ClusterState::Stalled));
    assert_eq!(ask(&world, "/"), "default/v1/80*1", "the one before is asked still");
    assert_eq!(world.clusters(), ["default/v1/80", "default/v2/80", "default/v3/80"]);
}

/// The route `r` with a rule for each (prefix, who is asked), all of which send to `v1`.
fn guarded(rules: &[(&str, Option<&str>)]) -> Object {
    let plain: Vec<(&str, &str)> = rules.iter().map(|(prefix, _)| (*prefix, "v1")).collect();
    let mut spec = route_spec("web", &[HOST], &plain);
    for (index, server) in rules.iter().enumerate().filter_map(|(index, (_, server))| Some((index, (*server)?))) {
        let auth = json!({"protocol": "HTTP", "http": {}, "backendRef": {"name": server, "port": 80}});
        spec["rules"][index]["filters"] = json!([{"type": "ExternalAuth", "externalAuth": auth}]);
    }
    object(Kind::HttpRoute, "r", spec)
}

#[test]
fn what_is_to_be_asked_about_is_not_left_to_a_wider_match_wherever_its_rule_stands() {
    let mut world = world();
    world.apply([guarded(&[("/admin", Some("v2")), ("/", None)])]);
    world.translator.remember_served();
    set(&mut world, "default/v2/80", Some(ClusterState::Stalled));
    assert_eq!((ask(&world, "/admin"), ask(&world, "/")), ("500".to_owned(), "default/v1/80*1".to_owned()));
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(ask(&world, "/admin"), "default/v1/80*1");
    // another server, and another place
    world.apply([service("v3", 80), guarded(&[("/x", None), ("/admin", Some("v3")), ("/", None)])]);
    world.translator.remember_served();
    set(&mut world, "default/v3/80", Some(ClusterState::Stalled));
    assert_eq!((ask(&world, "/admin"), ask(&world, "/")), ("500".to_owned(), "default/v1/80*1".to_owned()));
}

#[test]
fn the_form_before_a_refused_one_lets_nothing_pass_that_was_to_be_asked_about() {
    let mut world = world();
    edit(&mut world, &[("/", "v1"), ("/old", "v1")]);
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    world.apply([guarded(&[("/", Some("v2")), ("/old", None), ("/new", Some("v2"))])]);
    world.translator.remember_served();
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    refuse(&mut world, "default/web/80/hosts/x.org");
    assert_eq!((ask(&world, "/"), ask(&world, "/new")), ("500".to_owned(), "500".to_owned()));
    assert_eq!(ask(&world, "/old"), "default/v1/80*1");
}

#[test]
fn what_is_to_be_asked_about_in_the_place_of_another_match_is_not_left_to_a_wider_one() {
    let mut world = world();
    edit(&mut world, &[("/a", "v1"), ("/", "v1")]);
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    world.apply([guarded(&[("/b", Some("v2")), ("/", None)])]);
    world.translator.remember_served();
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    refuse(&mut world, "default/web/80/hosts/x.org");
    assert_eq!((ask(&world, "/a"), ask(&world, "/b")), ("default/v1/80*1".to_owned(), "500".to_owned()));
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
}

/// A proxy refuses a resource, as the server tells it.
fn refuse(world: &mut World, resource: &str) {
    let tables = world.translator.stored().tables();
    let (_, graph) = world.translator.store();
    graph.set(tables.route_refusals, FactKey::new(FLEET, resource), "bad route".into());
    world.translator.tick();
    world.translator.remember_served();
    world.translator.tick();
    world.translator.remember_served();
}

#[test]
fn a_refused_virtual_host_costs_the_route_that_changed_last_and_the_next_edit_is_tried() {
    for resource in ["default/web/80", "default/web/80/hosts/x.org"] {
        let mut world = world();
        world.apply([route("innocent", "web", &[HOST], &[("/innocent", "v1")])]);
        world.translator.remember_served();
        edit(&mut world, &[("/bad", "v1")]);
        refuse(&mut world, resource);
        assert_eq!((ask(&world, "/"), ask(&world, "/innocent")), ("default/v1/80*1".into(), "default/v1/80*1".into()));
        let parent = &world.route_status("r").parents[0];
        assert_eq!(short(&parent.conditions)[2], "PartiallyInvalid=True/UnsupportedValue");
        assert!(parent.conditions[2].message.contains("bad route"), "{}", parent.conditions[2].message);
        assert_eq!(world.parent("innocent", 0).len(), 2);
        assert_eq!(world.problems().len(), 1);

        edit(&mut world, &[("/good", "v1")]);
        assert_eq!((ask(&world, "/good"), ask(&world, "/")), ("default/v1/80*1".into(), "404".into()));
        assert_eq!(world.parent("r", 0).len(), 2);
        assert_eq!(world.problems(), [""; 0]);
    }
}

#[test]
fn a_refused_route_that_is_new_answers_500_and_one_with_expressions_is_left_out() {
    let mut world = world();
    let mut spec = route_spec("web", &["new.org"], &[("/plain", "v1"), ("/regex", "v1")]);
    spec["rules"][1]["matches"][0]["path"]["type"] = "RegularExpression".into();
    world.apply([object(Kind::HttpRoute, "new", spec)]);
    world.translator.remember_served();
    refuse(&mut world, "default/web/80/hosts/new.org");
    assert_eq!(world.hosts("default/web/80")["new.org"], ["/plain -> 500"]);
    world.delete(Kind::HttpRoute, "default", "new");
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn of_routes_that_changed_together_the_one_that_the_proxy_names_is_blamed() {
    let mut world = world();
    world.apply([
        regex_route("a", "new.org", "/bad.*route"),
        regex_route("b", "new.org", "/good"),
        route("c", "web", &["new.org"], &[("/c", "v1")]),
    ]);
    world.translator.remember_served();
    let tables = world.translator.stored().tables();
    let (_, graph) = world.translator.store();
    let words = "regex '/bad.*route' RE2 program size of 105 > max program size of 100";
    graph.set(tables.route_refusals, FactKey::new(FLEET, "default/web/80"), words.into());
    world.translator.tick();
    assert_eq!(world.hosts("default/web/80")["new.org"], ["~/good -> default/v1/80*1", "/c -> default/v1/80*1"]);
    assert_eq!([world.parent("a", 0).len(), world.parent("b", 0).len(), world.parent("c", 0).len()], [3, 2, 2]);
}

/// A route of one rule with a regular expression.
fn regex_route(name: &str, host: &str, expression: &str) -> api::Object {
    let mut spec = route_spec("web", &[host], &[(expression, "v1")]);
    spec["rules"][0]["matches"][0]["path"]["type"] = "RegularExpression".into();
    object(Kind::HttpRoute, name, spec)
}

#[test]
fn what_is_refused_at_the_first_start_costs_the_guilty_route_and_the_rest_is_served() {
    for resource in ["default/web/80", "default/web/80/hosts/x.org"] {
        let mut world = World::with([
            gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
            service("v1", 80),
            route("good", "web", &[HOST], &[("/", "v1")]),
            regex_route("bad", HOST, "/a{1,1000}b"),
            regex_route("part", HOST, "/a"),
        ]);
        world.translator.remember_served();
        let tables = world.translator.stored().tables();
        let (_, graph) = world.translator.store();
        let words = "regex '/a{1,1000}b' RE2 program size of 9000 > max program size of 5000";
        graph.set(tables.route_refusals, FactKey::new(FLEET, resource), words.into());
        for _ in 0..3 {
            world.translator.tick();
            world.translator.remember_served();
            assert_eq!(world.hosts("default/web/80")[HOST], ["~/a -> default/v1/80*1", "/ -> default/v1/80*1"]);
        }
        assert_eq!(
            [world.parent("bad", 0).len(), world.parent("good", 0).len(), world.parent("part", 0).len()],
            [3, 2, 2]
        );
        let problems = world.problems();
        assert!(
            problems.len() == 1 && problems[0].contains("default/bad") && problems[0].contains(words),
            "{problems:?}"
        );
        let (_, graph) = world.translator.store();
        graph.set(tables.fleet_live, FLEET.into(), ());
        set(&mut world, "default/v1/80", Some(ClusterState::Warm));
        assert_eq!(world.parent("bad", 0).len(), 3, "the proxy would refuse it again");
    }
}

#[test]
fn a_refused_route_is_found_among_more_than_are_remembered() {
    let mut objects = vec![
        gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
        service("v1", 80),
        regex_route("z", HOST, "/bad.*route"),
    ];
    objects.extend((0..5_000).map(|n| route(&format!("r{n}"), "web", &[HOST], &[(&format!("/{n}"), "v1")])));
    let mut world = World::with(objects);
    world.translator.remember_served();
    let tables = world.translator.stored().tables();
    let (_, graph) = world.translator.store();
    graph.set(tables.route_refusals, FactKey::new(FLEET, "default/web/80"), "regex '/bad.*route': no".into());
    world.translator.tick();
    assert_eq!([world.parent("z", 0).len(), world.parent("r7", 0).len()], [3, 2]);
    assert_eq!(world.hosts("default/web/80")[HOST].len(), 5_000);
}

#[test]
fn a_cluster_that_is_refused_at_the_first_start_answers_500_where_it_is_named() {
    let mut world = World::with([
        gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}])),
        service("v1", 80),
        service("v2", 80),
        route("r", "web", &[HOST], &[("/", "v1"), ("/b", "v2")]),
    ]);
    world.translator.remember_served();
    set(&mut world, "default/v2/80", Some(ClusterState::Refused("no such thing".into())));
    assert_eq!((ask(&world, "/"), ask(&world, "/b")), ("default/v1/80*1".into(), "500".into()));
}

#[test]
fn a_refusal_that_fits_no_change_is_a_problem_of_the_gateway_and_changes_nothing() {
    let mut world = World::with([gateway("web", json!([{"name": "http", "port": 80, "protocol": "HTTP"}]))]);
    world.translator.remember_served();
    refuse(&mut world, "default/web/80");
    assert_eq!(world.problems(), ["error: Gateway default/web: a proxy refused default/web/80: bad route"]);
}

#[test]
fn a_refusal_of_what_is_gone_means_nothing() {
    let mut world = world();
    refuse(&mut world, "default/web/80/hosts/nobody.org");
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn when_the_old_backend_goes_before_the_new_one_is_warm_the_change_is_left_to_the_proxies_own_order() {
    let mut world = world();
    edit(&mut world, &[("/", "v2")]);
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
    world.delete(Kind::Service, "default", "v1");
    assert_eq!(ask(&world, "/"), "default/v2/80*1", "no longer the one that is gone, and not none");
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    assert_eq!(ask(&world, "/"), "default/v2/80*1");
}

#[test]
fn programmed_is_what_proxies_acknowledged() {
    let mut world = world();
    let tables = world.translator.stored().tables();
    let programmed = |world: &World| {
        let status = world.gateway_status("web");
        (short(&status.conditions)[1].clone(), short(&status.listeners[0].conditions)[1].clone())
    };
    assert_eq!(programmed(&world), ("Programmed=False/Pending".into(), "Programmed=False/Pending".into()));

    let listener = FactKey::new(FLEET, "default/web/80");
    let write = |world: &mut World, state: ListenerState, facts: ProxyFacts| {
        let (_, graph) = world.translator.store();
        graph.set(tables.listener_state, listener.clone(), state);
        graph.set(tables.proxies, FLEET.into(), Arc::new(facts));
        world.translator.tick();
    };
    let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    let running = ProxyFacts { ready: true, addresses: vec![address], ..ProxyFacts::default() };
    write(&mut world, ListenerState::Accepted, running.clone());
    assert_eq!(programmed(&world), ("Programmed=True/Programmed".into(), "Programmed=True/Programmed".into()));
    assert_eq!(&*world.gateway_status("web").addresses[0].value, "127.0.0.1");

    let (_, graph) = world.translator.store();
    graph.set(tables.disputes, FactKey::of_kind(FLEET, "Listener", "default/web/80"), "in use (proxy b)".into());
    write(&mut world, ListenerState::Accepted, running.clone());
    assert_eq!(programmed(&world).1, "Programmed=True/Programmed");
    assert!(world.listener("web", "http").conditions[1].message.contains("others refuse it: in use (proxy b)"));

    write(&mut world, ListenerState::Refused("bad listener".into()), running.clone());
    assert_eq!(programmed(&world).1, "Programmed=False/Invalid");
    assert!(world.listener("web", "http").conditions[1].message.contains("bad listener"));

    write(
        &mut world,
        ListenerState::Accepted,
        ProxyFacts { refused_ports: vec![(80, "not permitted".into())], ..running.clone() },
    );
    let status = world.listener("web", "http");
    assert_eq!(short(&status.conditions)[..2], ["Accepted=False/PortUnavailable", "Programmed=False/PortUnavailable"]);
    write(
        &mut world,
        ListenerState::Accepted,
        ProxyFacts { problem: Some("envoy is not there".into()), ..ProxyFacts::default() },
    );
    assert_eq!(programmed(&world).0, "Programmed=False/NoResources");

    let unassigned =
        ProxyFacts { addresses: Vec::new(), unassigned: Some("no load balancer".into()), ..running.clone() };
    write(&mut world, ListenerState::Accepted, unassigned);
    assert_eq!(programmed(&world).0, "Programmed=False/AddressNotAssigned");
    let named = ProxyFacts { hostnames: vec!["lb.example.org".into()], ..running };
    write(&mut world, ListenerState::Accepted, named);
    assert_eq!(programmed(&world).0, "Programmed=True/Programmed");
    let addresses = world.gateway_status("web").addresses;
    let addresses: Vec<_> = addresses.iter().map(|found| (found.address_type.to_string(), &*found.value)).collect();
    assert_eq!(addresses, [("IPAddress".to_owned(), "127.0.0.1"), ("Hostname".to_owned(), "lb.example.org")]);
}

/// Routes may send to Services of the other namespace.
fn grant() -> Object {
    let spec = json!({
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "default"}],
        "to": [{"group": "", "kind": "Service"}],
    });
    object(Kind::ReferenceGrant, "other/g", spec)
}

/// A Service elsewhere, the grant to send there, and a route that sends there and to others.
fn granted(world: &mut World) -> Object {
    let far = object(Kind::Service, "other/far", json!({"ports": [{"port": 80}]}));
    world.apply([far, grant()]);
    let far = |backends: &[&str]| {
        let to = |name: &&str| match *name {
            "far" => json!({"name": "far", "namespace": "other", "port": 80}),
            name => json!({"name": name, "port": 80}),
        };
        let backends: Vec<_> = backends.iter().map(to).collect();
        let mut spec = route_spec("web", &[HOST], &[("/far", "v1"), ("/", "v1")]);
        spec["rules"][0]["backendRefs"] = backends.into();
        object(Kind::HttpRoute, "r", spec)
    };
    world.apply([far(&["far"])]);
    world.translator.remember_served();
    set(world, "other/far/80", Some(ClusterState::Warm));
    assert_eq!(ask(world, "/far"), "other/far/80*1");
    far(&["far", "v2"])
}

#[test]
fn what_no_grant_allows_any_more_is_not_sent_to_in_an_earlier_form_either() {
    for state in [None, Some(ClusterState::Stalled), Some(ClusterState::Refused("no such bundle".into()))] {
        let mut world = self::world();
        let edited = granted(&mut world);
        world.apply([edited]);
        world.translator.remember_served();
        set(&mut world, "default/v2/80", state.clone());
        assert_eq!(ask(&world, "/far"), "other/far/80*1", "the form before, {state:?}");
        world.delete(Kind::ReferenceGrant, "other", "g");
        world.translator.remember_served();
        assert!(!ask(&world, "/far").contains("far"), "{state:?}: {}", ask(&world, "/far"));
        assert!(!world.clusters().contains(&"other/far/80".to_owned()), "{state:?}");
        assert_eq!(ask(&world, "/"), "default/v1/80*1", "{state:?}");
        world.apply([grant()]);
        world.translator.remember_served();
        assert_eq!(ask(&world, "/far"), "other/far/80*1", "granted again, {state:?}");
    }
    // also where other TLS is to be spoken there at the same time
    let policy = json!({
        "targetRefs": [{"group": "", "kind": "Service", "name": "far"}],
        "validation": {"hostname": "one.example", "wellKnownCACertificates": "System"},
    });
    let mut world = world();
    let edited = granted(&mut world);
    world.apply([edited]);
    world.translator.remember_served();
    world.apply([object(Kind::BackendTlsPolicy, "other/p", policy)]);
    world.translator.remember_served();
    assert_eq!(ask(&world, "/far"), "other/far/80*1", "its cluster with TLS is not ready yet");
    world.delete(Kind::ReferenceGrant, "other", "g");
    world.translator.remember_served();
    assert_eq!((ask(&world, "/far"), ask(&world, "/")), ("500".to_owned(), "default/v1/80*1".to_owned()));
    // in place of a form that was refused
    let mut world = self::world();
    let edited = granted(&mut world);
    set(&mut world, "default/v2/80", Some(ClusterState::Warm));
    world.apply([edited]);
    world.translator.remember_served();
    refuse(&mut world, "default/web/80");
    assert_eq!(ask(&world, "/far"), "other/far/80*1");
    world.delete(Kind::ReferenceGrant, "other", "g");
    world.translator.remember_served();
    refuse(&mut world, "default/web/80");
    assert!(!ask(&world, "/far").contains("other/far"), "{}", ask(&world, "/far"));
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
    world.apply([grant()]);
    world.translator.remember_served();
    refuse(&mut world, "default/web/80");
    assert_eq!(ask(&world, "/far"), "other/far/80*1", "granted again");
}

#[test]
fn in_place_of_a_refused_form_nothing_is_sent_without_the_tls_that_is_wanted_now() {
    let mut world = world();
    edit(&mut world, &[("/bad", "v1")]);
    refuse(&mut world, "default/web/80");
    assert_eq!(ask(&world, "/"), "default/v1/80*1");
    let policy = json!({
        "targetRefs": [{"group": "", "kind": "Service", "name": "v1"}],
        "validation": {"hostname": "one.example", "wellKnownCACertificates": "System"},
    });
    world.apply([object(Kind::BackendTlsPolicy, "p", policy)]);
    world.translator.remember_served();
    let secure = world.clusters().into_iter().find(|name| name.contains("~tls-")).expect("a cluster");
    set(&mut world, &secure, Some(ClusterState::Warm));
    refuse(&mut world, "default/web/80");
    assert_eq!(ask(&world, "/"), "500");
    assert_eq!(world.clusters().len(), 1, "{:?}", world.clusters());
}

#[test]
fn an_earlier_form_stays_on_no_listener_that_the_route_has_left() {
    let mut world = world();
    let listener = |port: u16| json!({"name": format!("on-{port}"), "port": port, "protocol": "HTTP"});
    let on = |sections: &[u16], path: &str| {
        let mut spec = route_spec("web", &[HOST], &[(path, "v1")]);
        spec["parentRefs"] = sections.iter().map(|port| json!({"name": "web", "port": port})).collect();
        object(Kind::HttpRoute, "r", spec)
    };
    world.apply([gateway("web", json!([listener(80), listener(81)])), on(&[80, 81], "/")]);
    world.translator.remember_served();
    world.apply([on(&[80, 81], "/bad")]);
    world.translator.remember_served();
    refuse(&mut world, "default/web/80");
    assert_eq!(world.ask("default/web/81", HOST, "/"), "default/v1/80*1");
    world.apply([on(&[80], "/worse")]);
    world.translator.remember_served();
    refuse(&mut world, "default/web/80");
    assert_eq!(ask(&world, "/"), "default/v1/80*1", "where it still is");
    assert_eq!(world.ask("default/web/81", HOST, "/"), "404");
}

#[test]
fn whom_a_listener_asks_stays_warm_when_routes_come_and_go() {
    let filter = json!({"type": "ExternalAuth", "externalAuth": {
        "protocol": "HTTP", "http": {}, "backendRef": {"name": "auth", "port": 80},
    }});
    let listener = json!({"name": "http", "port": 80, "protocol": "HTTP", "filters": {"requests": [filter]}});
    let mut world = World::with([gateway("web", json!([listener])), service("auth", 80), service("v1", 80)]);
    world.translator.remember_served();
    let tables = world.translator.stored().tables();
    world.translator.store().1.set(tables.fleet_live, FLEET.into(), ());
    set(&mut world, "default/auth/80", Some(ClusterState::Warm));
    for _ in 0..2 {
        edit(&mut world, &[("/", "v1")]);
        assert_eq!(world.clusters(), ["default/auth/80", "default/v1/80"]);
        set(&mut world, "default/v1/80", Some(ClusterState::Warm));
        assert_eq!(ask(&world, "/"), "default/v1/80*1");
        world.delete(Kind::HttpRoute, "default", "r");
        world.translator.remember_served();
        assert_eq!((ask(&world, "/"), world.clusters()), ("404".to_owned(), vec!["default/auth/80".to_owned()]));
    }
}
