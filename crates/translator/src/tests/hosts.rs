//! Virtual hosts: precedence by host name, isolation of listeners, many hosts.

use serde_json::json;

use crate::testing::{World, aged, gateway, route, route_spec, service, with_meta};
use api::{Kind, Object, ObjectKey, ObjectMeta};
use ir::listener::Application;

fn services() -> [Object; 3] {
    [service("v1", 80), service("v2", 80), service("v3", 80)]
}

fn http(name: &str, hostname: &str) -> serde_json::Value {
    let mut listener = json!({"name": name, "port": 80, "protocol": "HTTP"});
    if !hostname.is_empty() {
        listener["hostname"] = hostname.into();
    }
    listener
}

#[test]
fn a_more_specific_host_comes_first_and_what_it_misses_falls_through() {
    let mut world = World::with(services());
    world.apply([
        gateway("web", json!([http("http", "")])),
        route("any", "web", &[], &[("/any", "v3")]),
        route("wide", "web", &["*.example.com"], &[("/path/prefix", "v1")]),
        route("exact", "web", &["a.example.com"], &[("/path", "v2")]),
    ]);
    let ask = |host: &str, path: &str| world.ask("default/web/80", host, path);
    assert_eq!(ask("a.example.com", "/path/prefix/longer"), "default/v2/80*1");
    assert_eq!(ask("b.example.com", "/path/prefix/longer"), "default/v1/80*1");
    assert_eq!(ask("a.example.com", "/any"), "default/v3/80*1");
    assert_eq!(ask("other.org", "/any"), "default/v3/80*1");
    assert_eq!(ask("example.com", "/path"), "404");
    assert_eq!(ask("a.example.com", "/nothing"), "404");
}

#[test]
fn of_equal_hosts_behind_a_narrow_listener_the_routes_own_name_decides_and_not_the_age() {
    for (listener, older, newer) in
        [("abc.example.com", "*.example.com", "abc.example.com"), ("*.example.com", "*.com", "*.example.com")]
    {
        let mut world = World::with(services());
        world.apply([
            gateway("web", json!([http("http", listener)])),
            aged(route("older", "web", &[older], &[("/path/prefix", "v1"), ("/old", "v1")]), 1),
            aged(route("newer", "web", &[newer], &[("/path", "v2")]), 2),
        ]);
        let ask = |path: &str| world.ask("default/web/80", "abc.example.com", path);
        assert_eq!(ask("/path/prefix/longer"), "default/v2/80*1");
        assert_eq!(ask("/old"), "default/v1/80*1");
    }
}

#[test]
fn equal_matches_go_to_the_older_route_then_by_name_then_by_rule() {
    let world = World::with([
        gateway("web", json!([http("http", "")])),
        aged(route("b", "web", &["x.org"], &[("/", "v1"), ("/", "v3")]), 5),
        aged(route("a", "web", &["x.org"], &[("/", "v2")]), 5),
        aged(route("z", "web", &["x.org"], &[("/", "v3")]), 4),
        route("0", "web", &["x.org"], &[("/", "v1")]),
        service("v1", 80),
        service("v2", 80),
        service("v3", 80),
    ]);
    let expected = ["v3", "v2", "v1", "v3", "v1"].map(|name| format!("/ -> default/{name}/80*1"));
    assert_eq!(world.hosts("default/web/80")["x.org"], expected);
}

#[test]
fn the_most_specific_listener_alone_answers_for_a_host() {
    let listeners = [
        ("empty-hostname", ""),
        ("wildcard-example-com", "*.example.com"),
        ("wildcard-foo-example-com", "*.foo.example.com"),
        ("abc-foo-example-com", "abc.foo.example.com"),
    ];
    let hosts = ["bar.com", "bar.example.com", "bar.foo.example.com", "abc.foo.example.com"];
    let every_pattern = ["bar.com", "*.example.com", "*.foo.example.com", "abc.foo.example.com"];
    for own in [&[][..], &every_pattern] {
        let mut world = World::with(services());
        let all: Vec<_> = listeners.iter().map(|(name, host)| http(name, host)).collect();
        world.apply([gateway("web", json!(all))]);
        for (name, _) in listeners {
            let prefix = format!("/{name}");
            let mut spec = route_spec("web", own, &[(&*prefix, "v1")]);
            spec["parentRefs"][0]["sectionName"] = name.into();
            let meta = ObjectMeta::new(ObjectKey::of(Kind::HttpRoute, "default", name));
            world.apply([with_meta(Kind::HttpRoute, meta, spec)]);
        }
        for (at, host) in hosts.iter().enumerate() {
            for (other, (name, _)) in listeners.iter().enumerate() {
                let expected = if at == other { "default/v1/80*1" } else { "404" };
                assert_eq!(
                    world.ask("default/web/80", host, &format!("/{name}")),
                    expected,
                    "{host} /{name} own {own:?}"
                );
            }
        }
    }
}

#[test]
fn host_names_that_meet_no_listener_are_left_out() {
    let mut world = World::with(services());
    world.apply([
        gateway("web", json!([http("one", "very.specific.com"), http("two", "*.wildcard.io")])),
        route("s1", "web", &["non.matching.com", "*.nonmatchingwildcard.io", "very.specific.com"], &[("/s1", "v1")]),
        route(
            "s2",
            "web",
            &["non.matching.com", "wildcard.io", "foo.wildcard.io", "foo.bar.wildcard.io"],
            &[("/s2", "v2")],
        ),
        route("s3", "web", &["non.matching.com", "*.specific.com"], &[("/s3", "v3")]),
        route("s5", "web", &["specific.but.wrong.com", "wildcard.io"], &[("/s5", "v1")]),
    ]);
    let ask = |host: &str, path: &str| world.ask("default/web/80", host, path);
    assert_eq!(ask("very.specific.com", "/s1"), "default/v1/80*1");
    assert_eq!(ask("very.specific.com", "/s3"), "default/v3/80*1");
    assert_eq!(ask("foo.bar.wildcard.io", "/s2"), "default/v2/80*1");
    for (host, path) in
        [("non.matching.com", "/s1"), ("wildcard.io", "/s2"), ("other.specific.com", "/s3"), ("x.wildcard.io", "/s2")]
    {
        assert_eq!(ask(host, path), "404", "{host}{path}");
    }
    assert_eq!(world.parent("s5", 0)[0], "Accepted=False/NoMatchingListenerHostname");
    assert_eq!(world.listener("web", "one").attached_routes, 2);
    assert_eq!(world.listener("web", "two").attached_routes, 1);
}

#[test]
fn many_hosts_are_delivered_apart_and_come_back_inside_when_they_are_few() {
    let mut world = World::with(services());
    world.apply([gateway("web", json!([http("http", "")]))]);
    world.apply((0..100).map(|at| route(&format!("r{at}"), "web", &[&*format!("h{at}.org")], &[("/", "v1")])));
    assert_eq!(world.hosts("default/web/80").len(), 101);
    // another name, so that the listener takes all of it at once
    assert_eq!(configuration_of(&world), "default/web/80/hosts");
    for at in 20..100 {
        world.delete(Kind::HttpRoute, "default", &format!("r{at}"));
    }
    assert_eq!(world.hosts("default/web/80").len(), 21);
    assert_eq!(configuration_of(&world), "default/web/80");
}

/// The route configuration that the only listener names.
fn configuration_of(world: &World) -> String {
    let mut listeners = world.translator.graph().iter(world.translator.outputs().listeners);
    let application = listeners.next().map(|(_, listener)| listener.chains[0].application.clone());
    let Some(Application::Http(name)) = application else { panic!("a listener for HTTP") };
    name.to_string()
}

#[test]
fn one_host_with_many_routes_keeps_them_in_order() {
    let mut world = World::with(services());
    world.apply([gateway("web", json!([http("http", "")]))]);
    world.apply(
        (0..1000).map(|at| {
            route(&format!("r{at}"), "web", &["x.org"], &[(&*format!("/{}", "x".repeat(at % 50 + 1)), "v1")])
        }),
    );
    let lines = &world.hosts("default/web/80")["x.org"];
    assert_eq!(lines.len(), 1000);
    assert!(lines.windows(2).all(|pair| pair[0].len() >= pair[1].len()), "longer prefixes first");
}
