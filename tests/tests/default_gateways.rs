//! Routes that name no Gateway (`useDefaultGateways`), on those that take them (`defaultScope`): from files, through real Envoys.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;

use tests::backend::Backend;
use tests::client::get;
use tests::grpc::{Called, GrpcBackend, call};
use tests::objects::{documents, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

const HOST: &str = "x.example";
const CALLED: &str = "calls.example";

/// A Gateway `edge` for requests and connections, and the servers behind it.
struct World {
    running: Running,
    http: u16,
    tcp: u16,
    other: u16,
    _servers: (Backend, GrpcBackend),
}

impl World {
    fn prepare(routes: &[&str]) -> Self {
        let servers = (Backend::start("web").unwrap(), GrpcBackend::start("calls").unwrap());
        let [http, tcp, other] = free_ports().unwrap();
        let running = Running::prepare().unwrap();
        let services = [service("web", servers.0.port), service("calls", servers.1.port)];
        running.write("services.yaml", &documents(services.iter().map(String::as_str))).unwrap();
        running.write("routes.yaml", &documents(routes.iter().copied())).unwrap();
        let world = Self { running, http, tcp, other, _servers: servers };
        world.scope("All");
        world
    }

    /// The Gateway `edge` with this scope.
    fn scope(&self, scope: &str) {
        let listeners = format!(
            "{{name: http, port: {}, protocol: HTTP}}, {{name: tcp, port: {}, protocol: TCP}}",
            self.http, self.tcp
        );
        self.running.write("edge.yaml", &gateway("edge", scope, &listeners)).unwrap();
    }

    /// The Gateway `other` with this scope.
    fn other_scope(&self, scope: &str) {
        let listener = format!("{{name: http, port: {}, protocol: HTTP}}", self.other);
        self.running.write("other.yaml", &gateway("other", scope, &listener)).unwrap();
    }

    fn until_told(&self, kind: &str, what: &str, is_so: impl Fn(&str) -> bool) {
        let told = || self.running.status(&[kind, "-o", "yaml"]).ok().filter(|status| is_so(status));
        wait::until(&format!("{what} of {kind}"), told).unwrap();
    }

    /// Requests, calls and connections of all three routes arrive, and the statuses name the Gateway.
    fn until_all_served(&self) {
        until(self.http, "200 web");
        until_called(self.http, 0, "calls");
        until(self.tcp, "200 web");
        for kind in ["httproutes", "grpcroutes", "tcproutes"] {
            self.until_told(kind, "the Gateway", |status| status.contains("name: edge") && is_accepted(status));
        }
        self.until_told("gateways", "DefaultGateway", is_default);
        self.until_told("problems", "no warning", |status| !status.contains("defaultScope"));
    }
}

/// With the scope as it is written; with an empty one it has none.
fn gateway(name: &str, scope: &str, listeners: &str) -> String {
    let scope = if scope.is_empty() { String::new() } else { format!("  defaultScope: {scope}\n") };
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}}}\nspec:\n  gatewayClassName: chancery\n{scope}  \
         listeners: [{listeners}]\n"
    )
}

/// A route of this kind for default Gateways: fields of its spec, each with a comma behind it.
fn route(kind: &str, fields: &str, backend: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {backend}}}\nspec: {{useDefaultGateways: All, {fields}rules: \
         [{{backendRefs: [{{name: {backend}, port: 80}}]}}]}}\n"
    )
}

fn of_all_kinds() -> [String; 3] {
    [
        route("HTTPRoute", &format!("hostnames: [{HOST}], "), "web"),
        route("GRPCRoute", &format!("hostnames: [{CALLED}], "), "calls"),
        route("TCPRoute", "", "web"),
    ]
}

/// Whether a condition of this type is true somewhere in the statuses.
fn is_true(status: &str, kind: &str) -> bool {
    status.split("- type: ").any(|one| one.starts_with(&format!("{kind}\n")) && one.contains("status: \"True\""))
}

fn is_accepted(status: &str) -> bool {
    is_true(status, "Accepted")
}

fn is_default(status: &str) -> bool {
    is_true(status, "DefaultGateway")
}

/// The status and the body of an answer, or the status alone where it is another one than 200; without an answer `down`.
fn asked(port: u16) -> String {
    match get(port, HOST, "/") {
        Ok(answer) if answer.status == 200 => format!("200 {}", answer.body),
        Ok(answer) => answer.status.to_string(),
        Err(_) => "down".to_owned(),
    }
}

fn until(port: u16, wanted: &str) {
    wait::until(&format!("{wanted} on {port}"), || (asked(port) == wanted).then_some(())).unwrap();
}

fn until_called(port: u16, code: u32, text: &str) {
    let wanted = Called { code, text: text.to_owned() };
    let called = || call(port, CALLED, "/a.S/Get", &[]).ok().filter(|called| *called == wanted);
    wait::until(&format!("{wanted:?}"), called).unwrap();
}

#[test]
fn routes_of_each_kind_are_served_while_there_is_a_default_gateway() {
    const UNIMPLEMENTED: u32 = 12;
    let routes = of_all_kinds();
    let mut world = World::prepare(&routes.each_ref().map(String::as_str));
    world.running.start().unwrap();
    world.until_all_served();

    for scope in ["", "None"] {
        world.scope(scope);
        until(world.http, "404");
        until_called(world.http, UNIMPLEMENTED, "");
        until(world.tcp, "down");
        for kind in ["httproutes", "grpcroutes", "tcproutes"] {
            world.until_told(kind, "no Gateway", |status| !status.contains("name: edge") && !is_accepted(status));
        }
        world
            .until_told("gateways", "no DefaultGateway", |status| status.contains("name: edge") && !is_default(status));
        world.until_told("problems", "a warning", |status| status.contains("defaultScope"));

        world.scope("All");
        world.until_all_served();
    }
}

#[test]
fn a_route_is_served_by_every_default_gateway_and_by_no_other() {
    let mut world = World::prepare(&[&of_all_kinds()[0]]);
    world.other_scope("");
    world.running.start().unwrap();
    until(world.http, "200 web");
    until(world.other, "404");
    world.other_scope("All");
    until(world.other, "200 web");
    until(world.http, "200 web");
    world.until_told("httproutes", "both Gateways", |status| {
        status.contains("name: edge") && status.contains("name: other")
    });
    world.scope("");
    until(world.http, "404");
    until(world.other, "200 web");
    world.running.remove("other.yaml").unwrap();
    until(world.other, "down");
    world.until_told("httproutes", "no Gateway", |status| !is_accepted(status));
}

#[test]
fn a_route_that_wants_no_default_gateway_is_not_served_by_one() {
    let own = of_all_kinds()[0].clone();
    let mut world = World::prepare(&[&own]);
    world.running.start().unwrap();
    until(world.http, "200 web");
    for spec in ["useDefaultGateways: None, ", ""] {
        world.running.write("routes.yaml", &own.replace("useDefaultGateways: All, ", spec)).unwrap();
        until(world.http, "404");
        world.running.write("routes.yaml", &own).unwrap();
        until(world.http, "200 web");
    }
}

#[test]
fn no_request_of_a_named_gateway_is_lost_while_default_ones_come_and_go() {
    let both = route("HTTPRoute", &format!("parentRefs: [{{name: other}}], hostnames: [{HOST}], "), "web");
    let mut world = World::prepare(&[&both]);
    world.other_scope("");
    world.running.start().unwrap();
    until(world.http, "200 web");
    until(world.other, "200 web");
    let prober = Prober::default();
    thread::scope(|scope| {
        let _asking = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(world.other, HOST, path), &[("/", &["web"])]));
        for _ in 0..4 {
            // named, and the default one as well
            world.other_scope("All");
            world.scope("");
            until(world.http, "404");
            world.other_scope("");
            world.scope("All");
            until(world.http, "200 web");
            prober.more(20).unwrap();
        }
    });
    let (asked, wrong) = prober.told();
    assert!(asked > 0 && wrong.is_empty(), "{wrong:?} of {asked}");
}
