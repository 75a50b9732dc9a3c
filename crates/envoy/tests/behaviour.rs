//! What a real Envoy does with requests when it has the routes that this crate writes.

#[path = "support/binary.rs"]
mod binary;
#[path = "support/real.rs"]
mod real;

use std::sync::Arc;

use ir::Route;
use ir::listener::Application;
use ir::route::*;
use real::{Answer, Proxy};

fn start(routes: Vec<Route>) -> Proxy {
    Proxy::start(routes, Application::Http("r".into()))
}

fn to(cluster: &str, weight: u32, filters: Filters) -> Destination {
    Destination { backend: Backend::Cluster(cluster.into()), weight, filters: filters.into() }
}

fn broken(weight: u32) -> Destination {
    Destination { backend: Backend::Broken("no such Service".into()), weight, filters: Filters::default().into() }
}

fn forward(destinations: Vec<Destination>) -> Action {
    Action::Forward(Box::new(Forward { destinations, timeout: None, try_timeout: None, retry: None }))
}

fn route(path: PathMatch, action: Action, filters: Filters) -> Route {
    let matches = RouteMatch { path, method: None, headers: Vec::new(), query: Vec::new(), grpc: false };
    Route { name: "r".into(), matches, action, filters: filters.into() }
}

fn prefix(path: &str) -> PathMatch {
    PathMatch::Prefix(path.into())
}

fn rewrite(host: Option<&str>, path: Option<PathChange>) -> Filters {
    Filters { rewrite: Some(Box::new(Rewrite { host: host.map(Into::into), path })), ..Filters::default() }
}

fn replaced(matched: &str, replacement: &str) -> Option<PathChange> {
    Some(PathChange::Prefix { matched: matched.into(), replacement: replacement.into() })
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(Arc<str>, Arc<str>)> {
    pairs.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value))).collect()
}

#[test]
fn prefixes_match_whole_segments_and_are_rewritten_in_every_slash_case() {
    let one = |matched: &str, replacement: &str| {
        route(
            prefix(matched),
            forward(vec![to("a", 1, Filters::default())]),
            rewrite(None, replaced(matched, replacement)),
        )
    };
    let proxy = start(vec![one("/foo", "/xyz"), one("/strip", ""), one("/d.t", "/"), one("/", "/root")]);
    for (sent, wanted) in [
        ("/foo/bar", "/xyz/bar"),
        ("/foo", "/xyz"),
        ("/foo/", "/xyz/"),
        ("/foo?q=/foo", "/xyz?q=/foo"),
        ("/foobar", "/root/foobar"),
        ("/strip/bar", "/bar"),
        ("/strip/", "/"),
        ("/strip", "/"),
        ("/strip?q=1", "/?q=1"),
        ("/strip/a/strip/b", "/a/strip/b"),
        ("/d.t/x", "/x"),
        ("/dot/x", "/root/dot/x"),
        ("/a", "/root/a"),
        ("/", "/root/"),
    ] {
        assert_eq!(proxy.get(sent).seen_path(), wanted, "{sent}");
    }
}

#[test]
fn a_prefix_takes_all_spellings_of_its_path_and_is_rewritten_in_each() {
    let one = |matched: &str, replacement: &str| {
        let change = PathChange::Prefix { matched: matched.into(), replacement: replacement.into() };
        route(prefix(matched), forward(vec![to("a", 1, Filters::default())]), rewrite(None, Some(change)))
    };
    let many = format!("/{}", ":".repeat(1023));
    let proxy = start(vec![one("/v1:do", "/x\\1"), one("/caf%C3%A9", ""), one(&many, "/many"), one("/", "/root")]);
    for (sent, wanted) in [
        ("/v1:do/a", "/x\\1/a"),
        ("/v1%3ado", "/x\\1"),
        ("/v1%3Ado?q", "/x\\1?q"),
        ("/v1:doing", "/root/v1:doing"),
        ("/caf%c3%a9/a", "/a"),
        ("/caf%C3%a9", "/"),
        (&*many, "/many"),
    ] {
        assert_eq!(proxy.get(sent).seen_path(), wanted, "{sent}");
    }
}

#[test]
fn a_full_path_is_literal_and_keeps_the_query_and_a_rewritten_host_replaces_the_requests() {
    let full = Some(PathChange::Full("/a%20b/%REQ(x)%/\\1".into()));
    let filters = rewrite(Some("new.example"), full);
    let proxy = start(vec![route(prefix("/"), forward(vec![to("a", 1, Filters::default())]), filters)]);
    let answer = proxy.get("/old/path?q=1");
    assert_eq!(answer.seen_path(), "/a%20b/%REQ(x)%/\\1?q=1");
    assert_eq!(answer.seen_header("host").as_deref(), Some("new.example"));
}

#[test]
fn the_path_reaches_the_backend_normalised_and_the_host_as_sent() {
    let proxy = start(vec![route(prefix("/"), forward(vec![to("a", 1, Filters::default())]), Filters::default())]);
    for (sent, wanted) in [
        ("/a//b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/./b?c=/../d//e", "/a/b?c=/../d//e"),
        ("/%7Euser", "/~user"),
        ("/a%2e%2e/b", "/a../b"),
        ("/a\\..\\b", "/b"),
        ("/a%20%c3%A9%3a:%25", "/a%20%c3%A9%3a:%25"),
    ] {
        assert_eq!(proxy.get(sent).seen_path(), wanted, "{sent}");
    }
    for (sent, wanted) in [("/a%2Fb", "/a/b"), ("/a/..%5cb?c", "/b?c")] {
        let answer = proxy.get(sent);
        assert_eq!((answer.status, answer.header("location").as_deref()), (307, Some(wanted)), "{sent}");
    }
    for refused in ["/a%00", "/a#b"] {
        assert_eq!(proxy.get(refused).status, 400, "{refused}");
    }
    assert_eq!(proxy.get("/").seen_header("host").as_deref(), Some("example.org"));
}

#[test]
fn header_changes_of_the_rule_come_before_those_of_the_destination_also_by_weight() {
    let rule = HeaderChanges {
        remove: vec!["x-remove".into()],
        set: pairs(&[("x-both", "rule"), ("x-rule", "100%"), ("x-readd", "rule")]),
        add: pairs(&[("x-add", "rule"), ("x-dropped", "rule")]),
    };
    let own = HeaderChanges {
        remove: vec!["x-dropped".into()],
        set: pairs(&[("x-both", "own"), ("x-set", "own")]),
        add: pairs(&[("x-add", "own"), ("x-readd", "own")]),
    };
    let both = |changes: HeaderChanges| Filters {
        request_headers: changes.clone().into(),
        response_headers: changes.into(),
        ..Filters::default()
    };
    let single = vec![to("a", 1, both(own.clone()))];
    let weighted = vec![to("a", 1, both(own.clone())), to("b", 1, both(own))];
    let proxy = start(vec![
        route(prefix("/single"), forward(single), both(rule.clone())),
        route(prefix("/weighted"), forward(weighted), both(rule)),
    ]);
    for path in ["/single", "/weighted"] {
        let answer = proxy.send("GET", path, "x-remove: 1\r\nX-Both: client\r\nx-add: client\r\nx-dropped: client\r\n");
        let seen = |name| answer.seen_header(name);
        assert_eq!(seen("x-remove"), None, "{path}");
        assert_eq!(seen("x-both").as_deref(), Some("own"), "{path}");
        assert_eq!(seen("x-rule").as_deref(), Some("100%"), "{path}");
        assert_eq!(seen("x-add").as_deref(), Some("client,rule,own"), "{path}");
        assert_eq!(seen("x-readd").as_deref(), Some("rule,own"), "{path}");
        assert_eq!(seen("x-dropped"), None, "{path}");
        assert_eq!(answer.header("x-set").as_deref(), Some("own"), "{path}");
        assert_eq!(answer.header("x-add").as_deref(), Some("rule,own"), "{path}");
    }
}

#[test]
fn redirects_print_what_they_are_told_and_keep_the_rest() {
    let redirect = |status, scheme: Option<&str>, host: Option<&str>, port, path| {
        let (scheme, host) = (scheme.map(Into::into), host.map(Into::into));
        let redirect = Redirect { status, scheme, host, port, is_default_port: port == Some(80), path };
        Action::Redirect(redirect.into())
    };
    let set = HeaderChanges { set: pairs(&[("x-why", "moved")]), ..HeaderChanges::default() };
    let headers = Filters { response_headers: set.into(), ..Filters::default() };
    let full = Some(PathChange::Full("/all".into()));
    let proxy = start(vec![
        route(prefix("/port"), redirect(302, None, None, Some(8080), None), headers),
        route(prefix("/host"), redirect(301, Some("https"), Some("new.example"), None, full), Filters::default()),
        route(prefix("/pre"), redirect(308, None, None, Some(80), replaced("/pre", "/new")), Filters::default()),
        route(prefix("/strip"), redirect(307, None, Some("h"), None, replaced("/strip", "")), Filters::default()),
        route(prefix("/other"), redirect(303, None, Some("h"), None, None), Filters::default()),
    ]);
    for (sent, status, location) in [
        ("/port/x?q=1", 302, "http://example.org:8080/port/x?q=1"),
        ("/host/x?q=1", 301, "https://new.example/all?q=1"),
        ("/pre/x?q=1", 308, "http://example.org/new/x?q=1"),
        ("/strip/x?q=1", 307, "http://h/x?q=1"),
        ("/strip", 307, "http://h/"),
        ("/other", 303, "http://h/other"),
    ] {
        let answer = proxy.get(sent);
        assert_eq!((answer.status, answer.header("location").as_deref()), (status, Some(location)), "{sent}");
    }
    assert_eq!(proxy.get("/port").header("x-why").as_deref(), Some("moved"));
}

#[test]
fn broken_destinations_answer_500_for_their_share_only() {
    let plain = || to("a", 1, Filters::default());
    let proxy = start(vec![
        route(prefix("/all"), forward(vec![broken(1), broken(2)]), Filters::default()),
        route(prefix("/one"), forward(vec![broken(1)]), Filters::default()),
        route(prefix("/none"), forward(vec![plain(), Destination { weight: 0, ..broken(1) }]), Filters::default()),
        route(prefix("/half"), forward(vec![plain(), broken(1)]), Filters::default()),
    ]);
    assert_eq!(proxy.get("/all").status, 500);
    assert_eq!(proxy.get("/one").status, 500);
    let count = |path: &str| (0..200).filter(|_| proxy.get(path).status == 500).count();
    assert_eq!(count("/none"), 0);
    // 7 standard deviations: fails once in 10^11 runs
    assert!((50..=150).contains(&count("/half")));
}

#[test]
fn destinations_with_filters_of_their_own_get_their_shares() {
    let own = |host: &str| rewrite(Some(host), None);
    let moved = Redirect {
        status: 302,
        scheme: None,
        host: Some("moved".into()),
        port: None,
        is_default_port: false,
        path: None,
    };
    let redirected = Filters { redirect: Some(Box::new(moved)), ..Filters::default() };
    let split = vec![to("a", 3, own("three")), to("b", 2, redirected), to("c", 5, own("five")), broken(0)];
    let proxy = start(vec![route(prefix("/"), forward(split), Filters::default())]);
    let answers: Vec<Answer> = (0..500).map(|_| proxy.get("/")).collect();
    let share = |wanted: &dyn Fn(&Answer) -> bool| answers.iter().filter(|answer| wanted(answer)).count();
    let host = |name: &'static str| move |answer: &Answer| answer.seen_header("host").as_deref() == Some(name);
    // 6 standard deviations each
    let (three, two, five) = (share(&host("three")), share(&|answer| answer.status == 302), share(&host("five")));
    assert_eq!(three + two + five, 500);
    assert!(
        (90..=210).contains(&three) && (45..=155).contains(&two) && (180..=320).contains(&five),
        "{three} {two} {five}"
    );
}

#[test]
fn preflights_are_answered_by_the_proxy_and_origins_are_compared_whole() {
    let cors = |origins: &[&str], credentials| {
        let cors = Cors {
            allow_origins: origins.iter().map(|origin| Arc::from(*origin)).collect(),
            allow_methods: vec!["GET".into(), "PUT".into()],
            allow_headers: vec!["*".into()],
            expose_headers: vec!["x-a".into()],
            max_age: 5,
            allow_credentials: credentials,
        };
        Filters { cors: Some(Arc::new(cors)), ..Filters::default() }
    };
    let all = || forward(vec![to("a", 1, Filters::default())]);
    let proxy = start(vec![
        route(prefix("/any"), all(), cors(&["*"], false)),
        route(prefix("/"), all(), cors(&["https://a.Example", "http://*.b.example:8080"], true)),
    ]);
    let preflight = |path: &str, origin: &str| {
        let headers = "access-control-request-method: PUT\r\naccess-control-request-headers: x-a, x-b\r\n";
        proxy.send("OPTIONS", path, &format!("origin: {origin}\r\n{headers}"))
    };
    for (path, origin, allowed) in [
        ("/", "https://a.example", true),
        ("/", "https://a.example:443", true),
        ("/", "https://a.example:8443", false),
        ("/", "http://a.example", false),
        ("/", "https://aXexample", false),
        ("/", "http://x.y.b.example:8080", true),
        ("/", "http://b.example:8080", false),
        ("/", "http://x.b.example", false),
        ("/", "http://evil.example/x.b.example:8080", false),
        ("/any", "https://whoever.example:12345", true),
    ] {
        let answer = preflight(path, origin);
        assert_eq!((answer.status, answer.seen.as_str()), (200, ""), "{origin}");
        let granted = answer.header("access-control-allow-origin");
        assert_eq!(granted.as_deref(), allowed.then_some(origin), "{origin}");
    }
    let answer = preflight("/", "https://a.example");
    assert_eq!(answer.header("access-control-allow-methods").as_deref(), Some("GET, PUT"));
    assert_eq!(answer.header("access-control-allow-headers").as_deref(), Some("x-a, x-b"));
    assert_eq!(answer.header("access-control-max-age").as_deref(), Some("5"));
    assert_eq!(answer.header("access-control-allow-credentials").as_deref(), Some("true"));
    let foreign = proxy.send("GET", "/", "origin: https://foreign.example\r\n");
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (200, None));
}

#[test]
fn matches_are_exact_about_methods_headers_queries_and_expressions() {
    let named = |name: &str, value| NamedMatch { name: name.into(), value };
    let mut narrow = route(PathMatch::Regex("/[a-z]+/x".into()), Action::Respond(respond(201)), Filters::default());
    narrow.matches.method = Some("POST".into());
    narrow.matches.headers =
        vec![named("x-a", ValueMatch::Exact("1".into())), named("x-b", ValueMatch::Regex("b+".into()))];
    narrow.matches.query = vec![named("q", ValueMatch::Exact("v".into())), named("e", ValueMatch::Regex("".into()))];
    let exact = route(PathMatch::Exact("/exact".into()), Action::Respond(respond(202)), Filters::default());
    let proxy = start(vec![narrow, exact]);
    let good = "x-a: 1\r\nx-b: bbb\r\n";
    assert_eq!(proxy.send("POST", "/abc/x?q=v&e=", good).status, 201);
    for (method, path, headers) in [
        ("GET", "/abc/x?q=v&e=", good),
        ("POST", "/abc/xy?q=v&e=", good),
        ("POST", "/abc/x?q=w&e=", good),
        ("POST", "/abc/x?q=v&e=1", good),
        ("POST", "/abc/x?q=v&e=", "x-a: 1\r\nx-b: abb\r\n"),
        ("POST", "/abc/x?q=v&e=", "x-a: 12\r\nx-b: b\r\n"),
    ] {
        assert_eq!(proxy.send(method, path, headers).status, 404, "{method} {path} {headers}");
    }
    assert_eq!(proxy.get("/exact?q=1").status, 202);
    assert_eq!(proxy.get("/exact/").status, 404);
}

fn respond(status: u16) -> Respond {
    Respond { status, reason: "test".into() }
}

#[test]
fn clients_cannot_steer_the_proxy_by_headers() {
    let proxy = start(vec![route(prefix("/"), forward(vec![to("a", 1, Filters::default())]), Filters::default())]);
    let answer = proxy.send("GET", "/", "x-envoy-retry-on: 5xx\r\nx-envoy-upstream-rq-timeout-ms: 1\r\n");
    assert_eq!(answer.status, 200);
    let steering = answer.seen.lines().filter(|line| line.starts_with("x-envoy-")).collect::<Vec<_>>();
    assert!(steering.is_empty(), "{steering:?}");
    assert_eq!(proxy.send("GET", "/", "x_under: 1\r\n").status, 400);
}

#[test]
fn every_route_lets_websockets_through() {
    let proxy = start(vec![route(prefix("/"), forward(vec![to("a", 1, Filters::default())]), Filters::default())]);
    let answer = proxy.send("GET", "/", "connection: upgrade\r\nupgrade: websocket\r\n");
    assert_eq!((answer.status, answer.header("upgrade").as_deref()), (101, Some("websocket")));
}

#[test]
fn a_chain_that_closes_gives_no_answer() {
    let proxy = Proxy::start(Vec::new(), Application::Close);
    assert_eq!(proxy.get("/").status, 0);
}
