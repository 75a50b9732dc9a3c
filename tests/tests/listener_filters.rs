//! `filters` of listeners that are asked over HTTP and over gRPC: at HTTPS, of a `ListenerSet`, and about gRPC calls; from files, through a real
//! Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tests::authority::{Authority, GOOD};
use tests::certificate::{Pair, self_signed};
use tests::client::{Answer, Caller, get_with};
use tests::grpc::{Called, call};
use tests::objects::{documents, on_set, ruled, service, tls_secret};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

const HOST: &str = "x.example";

/// A change is known to be everywhere when so many connections in a row met it: more than an Envoy has threads that could have missed it.
const IN_A_ROW: usize = 30;

/// What is refused over HTTP, which has a status of its own, and over gRPC; and the same of calls.
const REFUSED: [u16; 2] = [401, 403];
const REFUSED_CALLS: [u32; 2] = [16, 7];

/// Two servers that are asked, and backends that note what they get: `echo` requests, `calls` calls.
struct World {
    running: Running,
    port: u16,
    http: Authority,
    grpc: Authority,
    echo: Authority,
    calls: Authority,
    server: Pair,
}

impl World {
    /// With these objects, and a Gateway as [`World::gateway`] has it.
    fn start(listener: &str, filters: &str, objects: &[&str]) -> Self {
        let [port] = free_ports().unwrap();
        let [http, echo] = [Authority::http().unwrap(), Authority::http().unwrap()];
        let [grpc, calls] = [Authority::grpc().unwrap(), Authority::grpc().unwrap()];
        let server = self_signed(&[HOST], false).unwrap();
        let own = [
            service("http", http.port),
            service("grpc", grpc.port),
            service("echo", echo.port),
            service("calls", calls.port),
            tls_secret("cert", &server.certificate, &server.key),
        ];
        let running = Running::prepare().unwrap();
        running.write("all.yaml", &documents(own.iter().map(String::as_str).chain(objects.iter().copied()))).unwrap();
        let mut world = Self { running, port, http, grpc, echo, calls, server };
        world.gateway(listener, filters);
        world.running.start().unwrap();
        world
    }

    /// One listener (its fields in one line) with these filters.
    fn gateway(&self, listener: &str, filters: &str) {
        let text = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge}}\nspec:\n  gatewayClassName: chancery\n  \
             allowedListeners: {{namespaces: {{from: Same}}}}\n  listeners: [{{name: own, port: {}, {listener}, filters: {{requests: \
             [{filters}]}}}}]\n",
            self.port
        );
        self.running.write("gateway.yaml", &text).unwrap();
    }

    /// A set of one listener with these filters.
    fn set(&self, listener: &str, filters: &str) {
        let text = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: more}}\nspec:\n  parentRef: {{name: edge}}\n  listeners: \
             [{{name: more, port: {}, {listener}, filters: {{requests: [{filters}]}}}}]\n",
            self.port
        );
        self.running.write("set.yaml", &text).unwrap();
    }

    /// Forgets what was asked until now.
    fn forget(&self) {
        for noted in [&self.http, &self.grpc, &self.echo, &self.calls] {
            drop(noted.take());
        }
    }

    /// How often the server over HTTP was asked, that over gRPC, and how many requests and calls arrived, since the last time.
    fn noted(&self) -> [usize; 4] {
        [&self.http, &self.grpc, &self.echo, &self.calls].map(|noted| noted.take().len())
    }
}

/// A filter that asks `http` or `grpc`, for which there are Services of this name.
fn asking(protocol: &str) -> String {
    let name = protocol.to_lowercase();
    format!(
        "{{type: ExternalAuth, externalAuth: {{protocol: {protocol}, {name}: {{}}, backendRef: {{name: {name}, port: 80}}}}}}"
    )
}

fn to_echo() -> String {
    ruled("shop", "  rules:\n  - backendRefs: [{name: echo, port: 80}]\n")
}

/// A GRPCRoute for calls of `a.S`.
fn to_calls() -> &'static str {
    "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: calls}\nspec:\n  parentRefs: [{name: edge}]\n  rules:\n  - matches: \
     [{method: {service: a.S}}]\n    backendRefs: [{name: calls, port: 80}]\n"
}

fn until_status(what: &str, status: u16, ask: impl Fn() -> anyhow::Result<Answer>) {
    until_so(&format!("{status} of {what}"), || ask().is_ok_and(|answer| answer.status == status));
}

fn until_so(what: &str, is_so: impl Fn() -> bool) {
    wait::until(what, || (0..IN_A_ROW).all(|_| is_so()).then_some(())).unwrap();
}

#[test]
fn a_listener_of_https_asks_about_each_request_before_it_arrives() {
    let listener = "protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}";
    let world = World::start(listener, &asking("HTTP"), &[&to_echo()]);
    let caller = Caller::new(HOST, &world.server, &[]).unwrap();
    let ask = |authorization: &str| caller.get(world.port, "/a", &[("authorization", authorization)]);
    for (protocol, refused) in ["HTTP", "GRPC"].into_iter().zip(REFUSED) {
        let by_http = usize::from(protocol == "HTTP");
        world.gateway(listener, &asking(protocol));
        until_status(protocol, refused, || ask("no"));
        world.forget();
        assert_eq!(ask("no").unwrap().status, refused);
        assert_eq!(world.noted(), [by_http, 1 - by_http, 0, 0], "asked, and not served");
        assert_eq!(ask(GOOD).unwrap(), Answer { status: 200, body: "passed".to_owned() });
        assert_eq!(world.noted(), [by_http, 1 - by_http, 1, 0]);
    }
    // who is not there refuses everybody
    world.gateway(listener, &asking("HTTP").replace("name: http", "name: gone"));
    until_status("what is good", 500, || ask(GOOD));
    world.forget();
    assert_eq!(ask(GOOD).unwrap().status, 500);
    assert_eq!(world.noted(), [0, 0, 0, 0]);
    world.gateway(listener, "");
    until_status("anybody", 401, || ask("no"));
    // now it is the backend that says so
    assert_eq!(world.echo.take().last().map(|asked| asked.path.clone()).as_deref(), Some("/a"));
}

#[test]
fn a_listener_of_a_set_asks_about_its_own_requests_only() {
    let own = "protocol: HTTP, hostname: own.example";
    let more = "protocol: HTTP, hostname: more.example";
    let world =
        World::start(own, "", &[&to_echo(), &on_set(&to_echo().replacen("name: shop", "name: more", 1), "more")]);
    let ask = |host: &str, authorization: &str| get_with(world.port, host, "/", &[("authorization", authorization)]);
    for (protocol, refused) in ["HTTP", "GRPC"].into_iter().zip(REFUSED) {
        let by_http = usize::from(protocol == "HTTP");
        world.set(more, &asking(protocol));
        // `echo` refuses as the server over HTTP does: whose word it was is told by what each of them noted
        until_so("the set's listener to ask", || {
            world.forget();
            let is_refused = ask("more.example", "no").is_ok_and(|answer| answer.status == refused);
            is_refused && world.noted() == [by_http, 1 - by_http, 0, 0]
        });
        assert_eq!(ask("more.example", GOOD).unwrap().status, 200);
        assert_eq!(world.noted(), [by_http, 1 - by_http, 1, 0]);
        assert_eq!(ask("own.example", GOOD).unwrap().status, 200);
        assert_eq!(world.noted(), [0, 0, 1, 0], "the Gateway's own listener asks nobody");
    }
    // both listeners, each with a server of its own
    world.gateway(own, &asking("HTTP"));
    until_so("the Gateway's listener to ask", || {
        world.forget();
        ask("own.example", "no").is_ok_and(|answer| answer.status == 401) && world.noted() == [1, 0, 0, 0]
    });
    assert_eq!(ask("more.example", GOOD).unwrap().status, 200);
    assert_eq!(world.noted(), [0, 1, 1, 0]);
    world.set(more, &asking("GRPC").replace("name: grpc", "name: gone"));
    until_status("the set", 500, || ask("more.example", GOOD));
    assert_eq!(ask("own.example", GOOD).unwrap().status, 200);
}

#[test]
fn calls_that_are_refused_do_not_arrive() {
    let listener = "protocol: HTTP";
    let world = World::start(listener, "", &[to_calls()]);
    let call = |path: &str, authorization: &str| call(world.port, HOST, path, &[("authorization", authorization)]);
    until_so("a call", || call("/a.S/Get", GOOD).is_ok_and(|called| called.code == 0));
    for (protocol, refused) in ["HTTP", "GRPC"].into_iter().zip(REFUSED_CALLS) {
        let by_http = usize::from(protocol == "HTTP");
        world.gateway(listener, &asking(protocol));
        until_so(protocol, || call("/a.S/Get", "no").is_ok_and(|called| called.code == refused));
        world.forget();
        let answer = call("/a.S/Get", "no").unwrap();
        assert_eq!(answer, Called { code: refused, text: String::new() });
        assert_eq!(world.noted(), [by_http, 1 - by_http, 0, 0]);
        assert_eq!(call("/a.S/Get", GOOD).unwrap().code, 0);
        assert_eq!(world.noted(), [by_http, 1 - by_http, 0, 1]);
        // also what no route takes
        assert_eq!(call("/b.T/Get", "no").unwrap().code, refused);
        assert_eq!(world.noted(), [by_http, 1 - by_http, 0, 0]);
        assert_eq!(call("/b.T/Get", GOOD).unwrap().code, 12);
        assert_eq!(world.noted(), [by_http, 1 - by_http, 0, 0]);
    }
}

#[test]
fn as_many_as_the_api_allows_are_asked_in_their_order() {
    let filters = |count: usize| {
        let to = |place: usize| asking("HTTP").replace("http: {}", &format!("http: {{path: /{place}}}"));
        (1..=count).map(to).collect::<Vec<_>>().join(", ")
    };
    let listener = "protocol: HTTP";
    let world = World::start(listener, &filters(16), &[&to_echo()]);
    let ask = || get_with(world.port, HOST, "/a", &[("authorization", GOOD)]);
    until_status("what sixteen let pass", 200, ask);
    world.forget();
    assert_eq!(ask().unwrap().status, 200);
    let asked: Vec<_> = world.http.take().into_iter().map(|asked| asked.path).collect();
    let wanted: Vec<_> = (1..=16).map(|place| format!("/{place}/a")).collect();
    assert_eq!(asked, wanted);
    assert_eq!(get_with(world.port, HOST, "/a", &[("authorization", "no")]).unwrap().status, 401);
    assert_eq!(world.http.take().len(), 1, "the first that refuses answers");
    // more than that is more than the API has: who is not asked does not let anybody pass either
    world.gateway(listener, &filters(17));
    until_status("one too many", 500, ask);
}

#[test]
fn a_host_without_any_route_is_asked_about_too() {
    let listener = "protocol: HTTP";
    for protocol in ["HTTP", "GRPC"] {
        let world = World::start(listener, &asking(protocol), &[]);
        let route =
            ruled("shop", &format!("  hostnames: [{HOST}]\n  rules:\n  - backendRefs: [{{name: echo, port: 80}}]\n"));
        world.running.write("route.yaml", &route).unwrap();
        let ask =
            |host: &str, authorization: &str| get_with(world.port, host, "/a", &[("authorization", authorization)]);
        until_status("a host that has a route", 200, || ask(HOST, GOOD));
        world.forget();
        assert!(REFUSED.contains(&ask("other.example", "no").unwrap().status));
        assert_eq!(ask("other.example", GOOD).unwrap().status, 404);
        let by_http = usize::from(protocol == "HTTP");
        assert_eq!(world.noted(), [2 * by_http, 2 - 2 * by_http, 0, 0]);
        // nor does it need a route anywhere
        world.running.remove("route.yaml").unwrap();
        until_status("a host that had a route", 404, || ask(HOST, GOOD));
        assert!(REFUSED.contains(&ask(HOST, "no").unwrap().status));
    }
}
