//! gRPC calls through a real Envoy to real servers, by `GRPCRoute`s from files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::thread;

use tests::backend::Backend;
use tests::client::{Answer, get};
use tests::grpc::{Called, GrpcBackend, call};
use tests::objects::{gateway, route, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

const UNIMPLEMENTED: u32 = 12;
const UNAVAILABLE: u32 = 14;

/// A GRPCRoute on the Gateway `edge` with these rules (indented by two).
fn grpc_route(name: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {{name: {name}}}\nspec:\n  parentRefs: [{{name: edge}}]\n  \
         rules:\n{rules}"
    )
}

/// A rule from a match to a backend.
fn rule(matched: &str, backend: &str) -> String {
    format!("  - matches: [{matched}]\n    backendRefs: [{{name: {backend}, port: 80}}]\n")
}

fn good(text: &str) -> Called {
    Called { code: 0, text: text.into() }
}

fn failed(code: u32) -> Called {
    Called { code, text: String::new() }
}

fn until(port: u16, path: &str, wanted: &Called) {
    let asked = || call(port, "x.example", path, &[]).ok().filter(|called| called == wanted);
    wait::until(&format!("{wanted:?} at {path}"), asked).unwrap();
}

/// A Chancery with two gRPC servers `one` and `two`, an HTTP server `page`, and their Services.
struct World {
    running: Running,
    port: u16,
    _servers: (GrpcBackend, GrpcBackend, Backend),
}

impl World {
    fn start(routes: &[(&str, String)]) -> Self {
        let servers =
            (GrpcBackend::start("one").unwrap(), GrpcBackend::start("two").unwrap(), Backend::start("page").unwrap());
        let mut running = Running::prepare().unwrap();
        let [port] = free_ports().unwrap();
        running.write("gateway.yaml", &gateway(port)).unwrap();
        let ports = [("one", servers.0.port), ("two", servers.1.port), ("page", servers.2.port)];
        for (name, port) in ports {
            running.write(&format!("service-{name}.yaml"), &service(name, port)).unwrap();
        }
        for (name, text) in routes {
            running.write(&format!("{name}.yaml"), text).unwrap();
        }
        running.start().unwrap();
        Self { running, port, _servers: servers }
    }

    fn call(&self, path: &str, headers: &[(&str, &str)]) -> Called {
        call(self.port, "x.example", path, headers).unwrap()
    }
}

#[test]
fn calls_go_by_method_and_header_and_what_nobody_takes_is_unimplemented() {
    let set = "  - matches: [{method: {service: a.S, method: Set}}]\n    filters: [{type: RequestHeaderModifier, requestHeaderModifier: \
               {set: [{name: test-set, value: new}], add: [{name: test-add, value: more}], remove: [test-gone]}}]\n    backendRefs: \
               [{name: one, port: 80}]\n";
    let rules = [
        rule("{method: {service: a.S, method: Get}}", "one"),
        rule("{method: {service: a.S, method: Get}, headers: [{name: Version, value: two}]}", "two"),
        rule("{method: {service: b.T}}", "two"),
        rule("{method: {method: Login}}", "one"),
        rule("{method: {type: RegularExpression, service: 'c[.].+', method: 'Get|Put'}}", "two"),
        rule("{method: {service: d.Gone}}", "nowhere"),
        set.to_owned(),
    ];
    let mixed = "  - matches: [{method: {service: e.Mixed}}]\n    backendRefs: [{name: one, port: 80, weight: 1}, {name: nowhere, port: 80, weight: 1}]\n";
    let rules = rules.concat() + mixed;
    let pages = route("pages", &[("/a.S/Get", "page")]);
    let world = World::start(&[("calls", grpc_route("calls", &rules)), ("pages", pages)]);
    until(world.port, "/a.S/Get", &good("one"));
    type Headers<'h> = &'h [(&'h str, &'h str)];
    let cases: [(&str, Headers<'_>, Called); 14] = [
        ("/a.S/Get", &[("version", "two")], good("two")),
        ("/a.S/Put", &[], failed(UNIMPLEMENTED)),
        ("/a.S/get", &[], failed(UNIMPLEMENTED)),
        ("/a.S/GetAll", &[], failed(UNIMPLEMENTED)),
        ("/aXS/Get", &[], failed(UNIMPLEMENTED)),
        ("/b.T/Any", &[], good("two")),
        ("/b.Tx/Any", &[], failed(UNIMPLEMENTED)),
        ("/z/Login", &[], good("one")),
        ("/z/y/Login", &[], failed(UNIMPLEMENTED)),
        ("/c.x.y/Put", &[], good("two")),
        ("/c.x.y/Puts", &[], failed(UNIMPLEMENTED)),
        ("/d.Gone/Get", &[], failed(UNAVAILABLE)),
        ("/a.S/Set", &[("test-gone", "1"), ("test-set", "old")], good("one test-add=more test-set=new")),
        ("/a.S/Set", &[], good("one test-add=more test-set=new")),
    ];
    for (path, headers, wanted) in cases {
        assert_eq!(world.call(path, headers), wanted, "{path}");
    }
    let codes: BTreeSet<u32> = (0..40).map(|_| world.call("/e.Mixed/Get", &[]).code).collect();
    assert_eq!(codes, BTreeSet::from([0, UNAVAILABLE]), "each has its share");
    let page = get(world.port, "x.example", "/a.S/Get").unwrap();
    assert_eq!((page.status, &*page.body), (200, "page"), "what is no call does not go where calls go");
}

#[test]
fn no_call_is_lost_while_routes_and_backends_change() {
    let to = |backend: &str| grpc_route("calls", &rule("{method: {service: a.S}}", backend));
    let world = World::start(&[("calls", to("one"))]);
    until(world.port, "/a.S/Get", &good("one"));
    let prober = Prober::default();
    let ask = |path: &str| {
        let Called { code, text } = call(world.port, "x.example", path, &[])?;
        Ok(Answer { status: if code == 0 { 200 } else { 500 }, body: text })
    };
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        threads.spawn(|| prober.run(ask, &[("/a.S/Get", &["one", "two"])]));
        for round in 0..6 {
            let (now, other) = if round % 2 == 0 { ("two", "one") } else { ("one", "two") };
            world.running.write("calls.yaml", &to(now)).unwrap();
            until(world.port, "/a.S/Get", &good(now));
            // beside it an HTTP route to the same server comes and goes, which needs a cluster of its own
            if round % 2 == 0 {
                world.running.write("pages.yaml", &route("pages", &[("/", other)])).unwrap();
            } else {
                world.running.remove("pages.yaml").unwrap();
            }
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty() && asked > 0, "{wrong:?} of {asked}");
}
