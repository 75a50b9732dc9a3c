//! Backends with a name that the proxy resolves: no request is lost while it does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tests::backend::Backend;
use tests::client::get;
use tests::elsewhere::{Elsewhere, socket_example};
use tests::names::Names;
use tests::objects::{documents, gateway, ruled, service};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

/// A `Backend` of a host and port.
fn named(name: &str, host: &str, port: u16) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\n\
         spec: {{endpoints: [{{fqdn: {{hostname: {host}, port: {port}}}}}]}}\n"
    )
}

fn x_backend(name: &str, host: &str, port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {{name: {name}}}\n\
         spec: {{type: ExternalHostname, externalHostname: {{hostname: {host}}}, port: {{number: {port}}}}}\n"
    )
}

fn external_name(name: &str, host: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{type: ExternalName, externalName: {host}, ports: [{{port: {port}}}]}}\n"
    )
}

/// A route to this backend under `/`, and one to another under `/other`.
fn routes(backend: &str, other: &str) -> String {
    ruled(
        "r",
        &format!(
            "  rules:\n  - {{matches: [{{path: {{value: /other}}}}], backendRefs: [{{name: {other}, port: 80}}]}}\n  \
             - {{backendRefs: [{backend}]}}\n"
        ),
    )
}

const OF_ENVOY_GATEWAY: &str = "{group: gateway.envoyproxy.io, kind: Backend, name: far}";
const OF_GATEWAY_API: &str = "{group: gateway.networking.x-k8s.io, kind: XBackend, name: far}";

/// A Chancery, and an Envoy that resolves names by a server.
fn started(port: u16, text: &str, names: &Names, folder: &TempDir) -> (Running, Elsewhere) {
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("r.yaml", text).unwrap();
    running.start().unwrap();
    let bootstrap = socket_example(&running, "default/edge", folder.path()).unwrap();
    let resolver = format!(
        "    query_tries: 2\n    resolvers: [{{socket_address: {{address: 127.0.0.1, port_value: {}}}}}]\n",
        names.port
    );
    assert!(bootstrap.contains("    query_tries: 2\n"));
    let envoy = Elsewhere::run(folder.path(), &bootstrap.replace("    query_tries: 2\n", &resolver)).unwrap();
    (running, envoy)
}

fn answers(port: u16, path: &str, body: &str) {
    let asked = || get(port, "x.example", path).ok().filter(|answer| answer.status == 200 && answer.body == body);
    wait::until(&format!("{body} at {path}"), asked).unwrap();
}

#[test]
fn a_backend_serves_when_its_name_is_resolved_and_the_one_before_until_then() {
    let names = Names::start(Duration::from_millis(300)).unwrap();
    let [one, two] = ["one", "two"].map(|name| Backend::start(name).unwrap());
    let ([port], folder) = (free_ports().unwrap(), TempDir::new().unwrap());
    let near = [service("near", one.port), service("also", two.port)].join("---\n");
    let to = |backend: &str, far: &str| documents([&*near, &routes(backend, "also"), far]);
    let (running, _envoy) = started(port, &to("{name: near, port: 80}", ""), &names, &folder);
    answers(port, "/", "one");
    let prober = Prober::default();
    thread::scope(|scope| {
        let asking = prober.until_dropped();
        scope.spawn(|| prober.run(|path| get(port, "x.example", path), &[("/", &["one", "two"])]));
        let steps = [
            ("two", to(OF_ENVOY_GATEWAY, &named("far", "far.example", two.port))),
            // another name, and another port of the same
            ("one", to(OF_ENVOY_GATEWAY, &named("far", "other.example", one.port))),
            ("two", to(OF_ENVOY_GATEWAY, &named("far", "other.example", two.port))),
            (
                "one",
                to(&format!("{{name: far, port: {}}}", one.port), &external_name("far", "third.example", one.port)),
            ),
            ("two", to(OF_GATEWAY_API, &x_backend("far", "fourth.example", two.port))),
            ("one", to("{name: near, port: 80}", "")),
        ];
        for (body, text) in steps {
            running.write("r.yaml", &text).unwrap();
            answers(port, "/", body);
            prober.more(20).unwrap();
        }
        drop(asking);
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}

#[test]
fn a_name_that_nobody_resolves_holds_up_its_own_route_and_nothing_else() {
    let names = Names::start(Duration::ZERO).unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| Backend::start(name).unwrap());
    let ([port], folder) = (free_ports().unwrap(), TempDir::new().unwrap());
    let services = [service("near", one.port), service("also", two.port), service("new", three.port)].join("---\n");
    let to = |backend: &str, other: &str| {
        documents([&*services, &routes(backend, other), &named("far", "far.example", three.port)])
    };
    let (running, _envoy) = started(port, &to("{name: near, port: 80}", "also"), &names, &folder);
    answers(port, "/", "one");
    names.fall_silent();
    running.write("r.yaml", &to(OF_ENVOY_GATEWAY, "also")).unwrap();
    wait::until("it is late", || running.log().contains("a cluster does not become ready").then_some(())).unwrap();
    assert_eq!(get(port, "x.example", "/").unwrap().body, "one");
    running.write("r.yaml", &to(OF_ENVOY_GATEWAY, "new")).unwrap();
    answers(port, "/other", "three");
}

/// The rule that sends to another namespace, and the grant for it.
const FAR: &str = "  rules: [{matches: [{path: {value: /granted}}], backendRefs: [{name: granted, namespace: elsewhere, port: 80}]}]\n";
const GRANT: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: g, namespace: elsewhere}\nspec: {from: [{group: \
     gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}], to: [{group: '', kind: Service}]}\n";

/// One of several tries: each comes with a name that nobody resolves, for which everything else of its edit waits.
fn before_it_is_late(running: &Running, write: impl Fn(usize), then: impl Fn(usize)) {
    let late = || running.log().matches("a cluster does not become ready").count();
    let in_time = (0..10).any(|try_| {
        write(try_);
        let before = late();
        then(try_);
        let in_time = late() == before;
        wait::until("it is late", || (late() > before).then_some(())).unwrap();
        in_time
    });
    assert!(in_time, "it waits for a name that is none of its own");
}

#[test]
fn a_name_that_nobody_resolves_delays_neither_where_other_backends_are_nor_what_a_grant_forbids() {
    let names = Names::start(Duration::ZERO).unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| Backend::start(name).unwrap());
    let ([port], folder) = (free_ports().unwrap(), TempDir::new().unwrap());
    let near = documents([&*routes("{name: near, port: 80}", "also"), &service("near", one.port)]);
    let (running, _envoy) = started(port, &near, &names, &folder);
    let also = |backend: &Backend| running.write("also.yaml", &service("also", backend.port)).unwrap();
    let grant = || {
        let far = service("granted", one.port).replace("metadata:\n", "metadata:\n  namespace: elsewhere\n");
        running.write("grant.yaml", &documents([&*ruled("granted", FAR), &far, GRANT])).unwrap();
        answers(port, "/granted", "one");
    };
    also(&two);
    grant();
    answers(port, "/other", "two");
    names.fall_silent();
    let unresolved = |try_: usize| {
        let name = format!("far-{try_}");
        let far = named(&name, &format!("{name}.example"), three.port);
        let to = OF_ENVOY_GATEWAY.replace("name: far", &format!("name: {name}"));
        let route =
            ruled(&name, &format!("  rules: [{{matches: [{{path: {{value: /{name}}}}}], backendRefs: [{to}]}}]\n"));
        running.write("slow.yaml", &documents([&*route, &far])).unwrap();
        wait::until("the name is asked for", || names.was_asked(&format!("{name}.example")).then_some(())).unwrap();
    };
    before_it_is_late(&running, unresolved, |try_| {
        let (backend, body) = [(&three, "three"), (&two, "two")][try_ % 2];
        also(backend);
        answers(port, "/other", body);
    });
    let next = |try_: usize| {
        grant();
        unresolved(10 + try_);
    };
    before_it_is_late(&running, next, |_| {
        running.write("grant.yaml", &ruled("granted", FAR)).unwrap();
        let refused = || get(port, "x.example", "/granted").is_ok_and(|answer| answer.status == 500).then_some(());
        wait::until("what is revoked", refused).unwrap();
    });
}
