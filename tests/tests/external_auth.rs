//! `ExternalAuth`: from files, through a real Envoy that asks servers over HTTP and over gRPC, while what is asked changes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use tests::authority::{Asked, Authority, GOOD};
use tests::backend::Backend;
use tests::client::{Answer, get, get_with};
use tests::objects::{documents, gateway, ruled, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

/// Two servers that are asked, backends, and a port. `echo` is a backend that notes what it gets.
struct World {
    running: Running,
    port: u16,
    http: Authority,
    grpc: Authority,
    echo: Authority,
    backends: [Backend; 2],
}

impl World {
    /// With these rules (indented by two).
    fn start(rules: &str) -> Self {
        let mut running = Running::prepare().unwrap();
        let [port] = free_ports().unwrap();
        let backends = [Backend::start("one").unwrap(), Backend::start("two").unwrap()];
        let (http, grpc, echo) = (Authority::http().unwrap(), Authority::grpc().unwrap(), Authority::http().unwrap());
        running.write("gateway.yaml", &gateway(port)).unwrap();
        let services = [
            service("one", backends[0].port),
            service("two", backends[1].port),
            service("http", http.port),
            service("grpc", grpc.port),
            service("echo", echo.port),
        ];
        running.write("services.yaml", &documents(services.iter().map(String::as_str))).unwrap();
        running.write("route.yaml", &ruled("shop", &format!("  rules:\n{rules}"))).unwrap();
        running.start().unwrap();
        Self { running, port, http, grpc, echo, backends }
    }

    fn rules(&self, rules: &str) {
        self.running.write("route.yaml", &ruled("shop", &format!("  rules:\n{rules}"))).unwrap();
    }

    fn ask(&self, path: &str, authorization: &str) -> anyhow::Result<Answer> {
        get_with(self.port, "x.example", path, &[("authorization", authorization), ("x-token", "t")])
    }

    fn until(&self, path: &str, authorization: &str, status: u16) {
        wait::until(&format!("{status} at {path}"), || {
            self.ask(path, authorization).ok().filter(|answer| answer.status == status)
        })
        .unwrap();
    }
}

/// A rule for a path that asks this (an `externalAuth` in one line).
fn rule(path: &str, auth: &str, backend: &str) -> String {
    format!(
        "  - matches: [{{path: {{value: {path}}}}}]\n    filters: [{{type: ExternalAuth, externalAuth: {{{auth}}}}}]\n    \
         backendRefs: [{{name: {backend}, port: 80}}]\n"
    )
}

fn http(settings: &str, more: &str) -> String {
    format!("protocol: HTTP, http: {{{settings}}}, backendRef: {{name: http, port: 80}}{more}")
}

fn grpc(settings: &str, more: &str) -> String {
    format!("protocol: GRPC, grpc: {{{settings}}}, backendRef: {{name: grpc, port: 80}}{more}")
}

fn one(authority: &Authority) -> Asked {
    let mut asked = authority.take();
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

fn post(port: u16, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: x.example\r\nauthorization: {GOOD}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_is_told_what_is_written_and_the_backend_gets_what_it_says() {
    let tokens = "allowedHeaders: [X-Token]";
    let world = World::start(
        &[
            rule("/plain", &http("", ""), "echo"),
            rule("/more", &http(&format!("path: check/, {tokens}, allowedResponseHeaders: [X-User]"), ""), "echo"),
            rule("/call", &grpc("", ""), "echo"),
            rule("/few", &grpc("allowedHeaders: [authorization]", ""), "echo"),
            rule("/body", &http("", ", forwardBody: {maxSize: 8}"), "echo"),
            rule("/called", &grpc("", ", forwardBody: {maxSize: 8}"), "echo"),
            rule("/both", &http("", ""), "echo").replace(
                "port: 80}]\n",
                &format!("port: 80, filters: [{{type: ExternalAuth, externalAuth: {{{}}}}}]}}]\n", grpc("", "")),
            ),
        ]
        .concat(),
    );
    world.until("/plain", GOOD, 200);
    let (http, grpc, echo) = (&world.http, &world.grpc, &world.echo);
    drop((http.take(), echo.take()));

    assert_eq!(world.ask("/plain/a?b=c", GOOD).unwrap().status, 200);
    let asked = one(http);
    assert_eq!((&*asked.method, &*asked.path), ("GET", "/plain/a?b=c"));
    assert_eq!(asked.headers["host"], "x.example");
    assert_eq!(asked.headers["content-length"], "0");
    assert!(!asked.headers.contains_key("x-token"), "{asked:?}");
    let got = one(echo).headers;
    assert_eq!((&*got["x-user"], &*got["x-more"]), ("ann", "more"));
    assert_eq!(got["host"], "x.example", "whose request it is stays");
    assert!(!got.contains_key("content-length"), "that of the answer is not the request's: {got:?}");

    assert_eq!(world.ask("/more/a", GOOD).unwrap().status, 200);
    let asked = one(http);
    assert_eq!((&*asked.path, &*asked.headers["x-token"]), ("/check/more/a", "t"));
    let got = one(echo).headers;
    assert_eq!((got.get("x-user").map(|it| &**it), got.get("x-more")), (Some("ann"), None));

    assert_eq!(world.ask("/call/a", GOOD).unwrap().status, 200);
    let asked = one(grpc);
    assert_eq!((&*asked.method, &*asked.path, &*asked.headers["x-token"]), ("GET", "/call/a", "t"));
    let got = one(echo).headers;
    assert_eq!((&*got["x-user"], &*got["host"]), ("ann", "x.example"));

    assert_eq!(world.ask("/few", GOOD).unwrap().status, 200);
    let asked = one(grpc);
    assert_eq!((asked.headers.get("x-token"), &*asked.headers["authorization"]), (None, GOOD));
    drop(echo.take());

    for (path, authority) in [("/body", http), ("/called", grpc)] {
        assert!(post(world.port, path, "12345678").starts_with("HTTP/1.1 200"));
        assert_eq!((one(authority).body, one(echo).body), ("12345678".to_owned(), "12345678".to_owned()));
        assert!(post(world.port, path, "123456789").starts_with("HTTP/1.1 413"), "longer than may be told");
        assert_eq!((authority.take(), echo.take()), (Vec::new(), Vec::new()));
    }
    assert_eq!(world.ask("/both", GOOD).unwrap().status, 200);
    assert_eq!((one(http).path, one(grpc).path, one(echo).path), ("/both".into(), "/both".into(), "/both".into()));
    let denied = get(world.port, "x.example", "/plain").unwrap();
    assert_eq!(denied, Answer { status: 401, body: "who are you?".to_owned() });
    assert_eq!(get(world.port, "x.example", "/call").unwrap().status, 403);
    assert_eq!(echo.take(), Vec::new());
}

#[test]
fn who_cannot_be_asked_lets_nothing_pass() {
    let mut world = World::start(&rule("/a", &http("", ""), "one"));
    world.until("/a", GOOD, 200);
    let port = world.http.port;
    world.http = Authority::grpc().unwrap();
    world.until("/a", GOOD, 403);
    world.http = wait::until("the port again", || Authority::http_on(port).ok()).unwrap();
    world.until("/a", GOOD, 200);
    // Nobody is behind it, and then not even that is there.
    let empty = service("http", port).replace("endpoints:\n- addresses: [\"127.0.0.1\"]\n", "endpoints: []\n");
    let others = [service("one", world.backends[0].port), empty];
    world.running.write("services.yaml", &documents(others.iter().map(String::as_str))).unwrap();
    world.until("/a", GOOD, 403);
    world.running.write("services.yaml", &others[0]).unwrap();
    world.until("/a", GOOD, 500);
    let status = world.running.status(&[]).unwrap();
    assert!(status.contains("Service default/http does not exist"), "{status}");
}

/// While everything about it changes, what is good passes and nothing else does.
#[test]
fn edits_let_nothing_pass_that_is_not_allowed_and_lose_nothing_that_is() {
    let world = World::start("  - backendRefs: [{name: one, port: 80}]\n");
    world.until("/a", "", 200);
    world.rules(&rule("/", &http("", ""), "one"));
    world.until("/a", "", 401);

    let prober = Prober::default();
    let (port, paths) = (world.port, ["/a", "/b"]);
    thread::scope(|scope| {
        let asking = prober.until_dropped();
        for authorization in [GOOD, "no"] {
            let prober = &prober;
            scope.spawn(move || {
                let ask = |path: &str| get_with(port, "x.example", path, &[("authorization", authorization)]);
                prober.run_judged(ask, &paths, |_, _, answer| match answer {
                    Ok(Answer { status: 200, body }) => authorization == GOOD && ["one", "two"].contains(&&**body),
                    Ok(Answer { status: 401 | 403, .. }) => authorization != GOOD,
                    _ => false,
                });
            });
        }
        let forms = [
            rule("/", &grpc("", ""), "one"),
            rule("/", &http("path: /check", ""), "two"),
            [rule("/a", &grpc("", ""), "one"), rule("/", &http("", ""), "two")].concat(),
            [rule("/", &http("", ""), "two"), rule("/a", &grpc("", ""), "two")].concat(),
            rule("/", &http("", ", forwardBody: {maxSize: 100}"), "one"),
            rule("/", &grpc("allowedHeaders: [authorization]", ""), "two"),
            rule("/", &http("", ""), "one"),
        ];
        for _ in 0..4 {
            for form in &forms {
                world.rules(form);
                prober.more(60).unwrap();
            }
        }
        drop(asking);
    });
    let (asked, wrong) = prober.told();
    assert_eq!(wrong, BTreeMap::new(), "of {asked}");
    assert!(!world.grpc.take().is_empty() && !world.http.take().is_empty());
}

/// A Gateway with one listener that asks these, in order.
fn asking(port: u16, filters: &[&str]) -> String {
    let filters: Vec<String> =
        filters.iter().map(|auth| format!("{{type: ExternalAuth, externalAuth: {{{auth}}}}}")).collect();
    format!("{}    filters: {{requests: [{}]}}\n", gateway(port), filters.join(", "))
}

#[test]
fn a_listener_asks_before_a_route_is_chosen_and_the_route_asks_behind_it() {
    let of_user = "  - matches: [{headers: [{name: x-user, value: ann}]}]\n    backendRefs: [{name: two, port: 80}]\n";
    let world = World::start(&[of_user, &rule("/own", &grpc("", ""), "one")].concat());
    world.until("/own", GOOD, 200);
    assert_eq!(world.ask("/none", GOOD).unwrap().status, 404);
    let gateway = |filters: &[&str]| world.running.write("gateway.yaml", &asking(world.port, filters)).unwrap();
    gateway(&[&http("path: /first", "")]);
    world.until("/none", "", 401);
    drop((world.http.take(), world.grpc.take()));
    assert_eq!(world.ask("/own", "").unwrap().status, 401, "asked before the route asks");
    assert_eq!((one(&world.http).path, world.grpc.take()), ("/first/own".to_owned(), Vec::new()));
    let answer = world.ask("/any", GOOD).unwrap();
    assert_eq!(answer, Answer { status: 200, body: "two".to_owned() }, "by the header that the answer brought");
    assert_eq!(one(&world.http).path, "/first/any");

    gateway(&[&grpc("", ""), &http("path: /second, allowedHeaders: [x-more], allowedResponseHeaders: [x-none]", "")]);
    wait::until("both", || {
        drop((world.http.take(), world.grpc.take()));
        world.ask("/any", GOOD).ok().filter(|answer| answer.body == "two")?;
        (world.http.take().first()?.path == "/second/any" && !world.grpc.take().is_empty()).then_some(())
    })
    .unwrap();
    world.ask("/any", GOOD).unwrap();
    assert_eq!(
        one(&world.http).headers.get("x-more").map(|it| &**it),
        Some("more"),
        "the second sees what the first said"
    );

    gateway(&["protocol: HTTP, http: {}, backendRef: {name: gone, port: 80}"]);
    world.until("/any", GOOD, 500);
    gateway(&[]);
    world.until("/none", "", 404);
}

/// Posts over HTTP/2, whose one frame of a body ends the request too. The status.
fn post_at_once(port: u16, path: &str, body: &str) -> String {
    let url = format!("http://127.0.0.1:{port}{path}");
    let posted = Command::new("curl")
        .args(["--silent", "--http2-prior-knowledge", "--output", "/dev/null", "--write-out", "%{http_code}"])
        .args(["--max-time", "15", "--header", "host: x.example", "--header", &format!("authorization: {GOOD}")])
        .args(["--data-binary", body, &url])
        .output()
        .unwrap();
    String::from_utf8(posted.stdout).unwrap()
}

#[test]
fn a_body_longer_than_one_server_is_shown_passes_neither_in_one_frame_nor_behind_another_server() {
    let small = ", forwardBody: {maxSize: 8}";
    let both = rule("/both", &http("", ", forwardBody: {maxSize: 100}"), "echo").replace(
        "port: 80}]\n",
        &format!("port: 80, filters: [{{type: ExternalAuth, externalAuth: {{{}}}}}]}}]\n", grpc("", small)),
    );
    let world =
        World::start(&[rule("/body", &http("", small), "echo"), both, rule("/open", &http("", ""), "echo")].concat());
    world.until("/open", GOOD, 200);
    let (http_server, grpc_server, echo) = (&world.http, &world.grpc, &world.echo);
    let take = || drop((http_server.take(), grpc_server.take(), echo.take()));
    take();
    for path in ["/body", "/both"] {
        assert_eq!(post_at_once(world.port, path, "12345678"), "200", "{path}");
        assert_eq!(one(echo).body, "12345678");
        take();
        assert_eq!(post_at_once(world.port, path, "123456789"), "403", "{path}");
        assert!(!post(world.port, path, "123456789").starts_with("HTTP/1.1 200"), "{path}");
        assert_eq!((grpc_server.take(), echo.take()), (Vec::new(), Vec::new()), "{path}");
    }
    world.running.write("gateway.yaml", &asking(world.port, &[&http("", small)])).unwrap();
    wait::until("the listener's own bound", || (post_at_once(world.port, "/open", "123456789") == "403").then_some(()))
        .unwrap();
    take();
    assert_eq!(post_at_once(world.port, "/open", "12345678"), "200");
    assert_eq!(one(echo).body, "12345678");
}

#[test]
fn what_asks_for_another_protocol_comes_to_no_rule_that_judges_bodies_by_an_answer_of_the_listener() {
    let judged =
        "  - matches: [{headers: [{name: x-user, value: ann}]}]\n    filters: [{type: ExternalAuth, externalAuth: {"
            .to_owned()
            + &grpc("", ", forwardBody: {maxSize: 8}")
            + "}}]\n    backendRefs: [{name: echo, port: 80}]\n";
    let world = World::start(&[judged, rule("/open", &http("", ""), "echo")].concat());
    world.running.write("gateway.yaml", &asking(world.port, &[&http("", "")])).unwrap();
    world.until("/any", GOOD, 200);
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("authorization", GOOD)];
    drop(world.echo.take());
    assert_eq!(get_with(world.port, "x.example", "/socket", &upgrade).unwrap().status, 403);
    assert_eq!(world.echo.take(), Vec::new());
}

/// Filters of a listener come and go, and nothing that is good is lost, nor does anything else pass while there are some.
#[test]
fn edits_of_what_a_listener_asks_let_nothing_pass_and_lose_nothing() {
    let world = World::start("  - backendRefs: [{name: one, port: 80}]\n");
    world.until("/a", "", 200);
    let gateway = |filters: &[&str]| world.running.write("gateway.yaml", &asking(world.port, filters)).unwrap();
    gateway(&[&http("", "")]);
    world.until("/a", "", 401);
    let prober = Prober::default();
    let port = world.port;
    thread::scope(|scope| {
        let asking = prober.until_dropped();
        for authorization in [GOOD, "no"] {
            let prober = &prober;
            scope.spawn(move || {
                let ask = |path: &str| get_with(port, "x.example", path, &[("authorization", authorization)]);
                prober.run_judged(ask, &["/a"], |_, _, answer| match answer {
                    Ok(Answer { status: 200, .. }) => authorization == GOOD,
                    Ok(Answer { status: 401 | 403, .. }) => authorization != GOOD,
                    _ => false,
                });
            });
        }
        for _ in 0..4 {
            for filters in [vec![grpc("", "")], vec![http("path: /x", ""), grpc("", "")], vec![http("", "")]] {
                gateway(&filters.iter().map(String::as_str).collect::<Vec<_>>());
                prober.more(100).unwrap();
            }
        }
        drop(asking);
    });
    let (asked, wrong) = prober.told();
    assert_eq!(wrong, BTreeMap::new(), "of {asked}");
}
