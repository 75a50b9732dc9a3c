//! Connections that are passed on, whatever is spoken on them: TLSRoute and TCPRoute from files, through a real Envoy to real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpStream;
use std::thread;

use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::{Answer, KeptPlain, get, get_tls};
use tests::objects::{documents, listeners, ruled, service, tls_secret};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

/// A route of the kind on the Gateway `edge`: fields of its spec (indented by two), and weighted Services.
fn stream_route(kind: &str, name: &str, spec: &str, backends: &[(&str, u32)]) -> String {
    let backends: Vec<_> =
        backends.iter().map(|(name, weight)| format!("{{name: {name}, port: 80, weight: {weight}}}")).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n{spec}  rules:\n  - backendRefs: [{}]\n",
        backends.join(", ")
    )
}

fn tls_route(name: &str, hostnames: &str, backends: &[(&str, u32)]) -> String {
    let spec = format!("  parentRefs: [{{name: edge}}]\n  hostnames: [{hostnames}]\n");
    stream_route("TLSRoute", name, &spec, backends)
}

fn tcp_route(name: &str, section: &str, backends: &[(&str, u32)]) -> String {
    let spec = format!("  parentRefs: [{{name: edge, sectionName: {section}}}]\n");
    stream_route("TCPRoute", name, &spec, backends)
}

/// A port on which TLS is passed through, or ended, and one on which two backends behind TLS answer.
struct Tls {
    running: Running,
    port: u16,
    pair: Pair,
    _servers: (Backend, Backend),
}

impl Tls {
    fn start() -> Self {
        let servers = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
        let [port, inner] = free_ports().unwrap();
        let pair = self_signed(&["*.example.com", "ended.example.org"], false).unwrap();
        let tls = |name: &str, port: u16, protocol: &str, host: &str, tls: &str| {
            format!("  - {{name: {name}, port: {port}, protocol: {protocol}, hostname: {host}, tls: {{{tls}}}}}\n")
        };
        let certificate = "certificateRefs: [{name: all}]";
        let all = [
            tls("passed", port, "TLS", "\"*.example.com\"", "mode: Passthrough"),
            tls("ended", port, "TLS", "ended.example.org", certificate),
            tls("one", inner, "HTTPS", "one.example.com", certificate),
            tls("two", inner, "HTTPS", "two.example.com", certificate),
            tls("all", inner, "HTTPS", "\"*.example.com\"", certificate),
        ];
        let http = |name: &str, listeners: &[&str]| {
            let hosts: Vec<_> = listeners.iter().map(|host| format!("\"{host}.example.com\"")).collect();
            let rules = format!(
                "  hostnames: [{}]\n  rules:\n  - backendRefs: [{{name: plain-{name}, port: 80}}]\n",
                hosts.join(", ")
            );
            ruled(name, &rules)
        };
        let mut running = Running::prepare().unwrap();
        let files = [
            ("gateway", documents([&*listeners(&all.concat()), &tls_secret("all", &pair.certificate, &pair.key)])),
            ("plain", documents([&*service("plain-one", servers.0.port), &service("plain-two", servers.1.port)])),
            ("inner", documents([&*http("one", &["one", "*"]), &http("two", &["two"]), &service("inner", inner)])),
        ];
        for (name, text) in files {
            running.write(&format!("{name}.yaml"), &text).unwrap();
        }
        running.start().unwrap();
        Self { running, port, pair, _servers: servers }
    }

    fn ask(&self, host: &str) -> anyhow::Result<Answer> {
        Ok(get_tls(self.port, host, "/", &[&self.pair.certificate])?.0)
    }

    fn until(&self, host: &str, body: &str) {
        let asked = || self.ask(host).ok().filter(|answer| answer.status == 200 && answer.body == body);
        wait::until(&format!("{body} of {host}"), asked).unwrap();
    }

    /// Connections are taken, and end before a handshake is done.
    fn until_closed(&self, host: &str) {
        let closed = || {
            drop(TcpStream::connect(("127.0.0.1", self.port)).ok()?);
            self.ask(host).is_err().then_some(())
        };
        wait::until(&format!("the end of {host}"), closed).unwrap();
    }
}

#[test]
fn tls_is_passed_through_or_ended_by_its_server_name() {
    let world = Tls::start();
    // where no route is, the port is bound and closes what comes
    wait::until("the port", || TcpStream::connect(("127.0.0.1", world.port)).ok()).unwrap();
    world.until_closed("one.example.com");
    world.running.write("a.yaml", &tls_route("a", "one.example.com", &[("inner", 1)])).unwrap();
    world.until("one.example.com", "one");
    world.until_closed("two.example.com");
    assert!(world.ask("other.example.net").is_err());
    // under a wildcard all other names; ended where the listener says so
    world.running.write("b.yaml", &tls_route("b", "\"*.com\"", &[("inner", 1)])).unwrap();
    world.until("two.example.com", "two");
    world.running.write("c.yaml", &tls_route("c", "ended.example.org", &[("plain-two", 1)])).unwrap();
    world.until("ended.example.org", "two");
    // a more specific host name of a younger route takes its name
    let refused = tls_route("d", "two.example.com", &[("nowhere", 1)]);
    world.running.write("d.yaml", &refused).unwrap();
    world.until_closed("two.example.com");
    assert_eq!(world.ask("one.example.com").unwrap().body, "one");
    world.running.remove("d.yaml").unwrap();
    world.until("two.example.com", "two");
    let status = world.running.status(&["-o", "yaml"]).unwrap();
    assert!(!status.contains("Conflicted"), "{status}");
}

#[test]
fn tls_connections_are_not_lost_while_routes_come_and_go() {
    let world = Tls::start();
    world.running.write("a.yaml", &tls_route("a", "one.example.com", &[("inner", 1)])).unwrap();
    world.running.write("c.yaml", &tls_route("c", "ended.example.org", &[("plain-one", 1)])).unwrap();
    world.until("one.example.com", "one");
    world.until("ended.example.org", "one");
    let prober = Prober::default();
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        let allowed: &[(&str, &[&str])] = &[("one.example.com", &["one"]), ("ended.example.org", &["one", "two"])];
        threads.spawn(|| prober.run(|host| world.ask(host), allowed));
        for round in 0..10 {
            // another server name, another route for the same, another backend
            world.running.write("b.yaml", &tls_route("b", "\"*.com\"", &[("inner", 1)])).unwrap();
            world.until("two.example.com", "two");
            world.running.write("z.yaml", &tls_route("z", "one.example.com", &[("plain-two", 1)])).unwrap();
            world.running.write("c.yaml", &tls_route("c", "ended.example.org", &[("plain-two", 1)])).unwrap();
            world.until("ended.example.org", "two");
            world.running.remove("b.yaml").unwrap();
            world.until_closed("two.example.com");
            world.running.remove("z.yaml").unwrap();
            let weights = [("plain-one", 1), ("plain-two", round)];
            world.running.write("c.yaml", &tls_route("c", "ended.example.org", &weights)).unwrap();
            world.until("ended.example.org", "one");
            prober.more(3).unwrap();
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}

/// Two ports for TCP and two backends.
struct Tcp {
    running: Running,
    ports: [u16; 2],
    _servers: (Backend, Backend),
}

impl Tcp {
    fn start() -> Self {
        let servers = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
        let ports: [u16; 2] = free_ports().unwrap();
        let [a, b] = ports;
        let mut running = Running::prepare().unwrap();
        let both = format!("  - {{name: a, port: {a}, protocol: TCP}}\n  - {{name: b, port: {b}, protocol: TCP}}\n");
        running.write("gateway.yaml", &listeners(&both)).unwrap();
        running.write("one.yaml", &service("one", servers.0.port)).unwrap();
        running.write("two.yaml", &service("two", servers.1.port)).unwrap();
        running.write("a.yaml", &tcp_route("a", "a", &[("one", 1)])).unwrap();
        running.start().unwrap();
        Self { running, ports, _servers: servers }
    }

    fn until(&self, port: u16, body: &str) {
        let asked = || get(port, "x.example", "/").ok().filter(|answer| answer.body == body);
        wait::until(&format!("{body} on {port}"), asked).unwrap();
    }

    fn until_closed(&self, port: u16) {
        let closed = || {
            drop(TcpStream::connect(("127.0.0.1", port)).ok()?);
            get(port, "x.example", "/").is_err().then_some(())
        };
        wait::until(&format!("the end of connections on {port}"), closed).unwrap();
    }
}

#[test]
fn tcp_connections_go_on_while_new_ones_go_elsewhere() {
    let world = Tcp::start();
    let [a, b] = world.ports;
    world.until(a, "one");
    world.until_closed(b);
    let mut kept = KeptPlain::connect(a).unwrap();
    assert_eq!(kept.get("x.example", "/").unwrap().body, "one");
    let prober = Prober::default();
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        threads.spawn(|| prober.run(|_| get(a, "x.example", "/"), &[("/", &["one", "two"])]));
        for _ in 0..5 {
            world.running.write("a.yaml", &tcp_route("a", "a", &[("two", 1)])).unwrap();
            world.until(a, "two");
            assert_eq!(kept.get("x.example", "/").unwrap().body, "one");
            // the first of two routes counts
            world.running.write("z.yaml", &tcp_route("z", "a", &[("one", 1)])).unwrap();
            world.running.write("b.yaml", &tcp_route("b", "b", &[("one", 1)])).unwrap();
            world.until(b, "one");
            world.until(a, "two");
            world.running.write("a.yaml", &tcp_route("a", "a", &[("one", 2), ("two", 0)])).unwrap();
            world.until(a, "one");
            world.running.remove("b.yaml").unwrap();
            world.running.remove("z.yaml").unwrap();
            world.until_closed(b);
            prober.more(3).unwrap();
        }
        assert_eq!(kept.get("x.example", "/").unwrap().body, "one");
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}

#[test]
fn the_share_of_a_broken_backend_is_closed_and_weights_count_for_each_connection() {
    let world = Tcp::start();
    let [a, _] = world.ports;
    world.until(a, "one");
    world.running.write("a.yaml", &tcp_route("a", "a", &[("one", 1), ("nowhere", 1)])).unwrap();
    world.until_closed(a);
    let good = (0..200).filter(|_| get(a, "x.example", "/").is_ok_and(|answer| answer.body == "one")).count();
    assert!((50..150).contains(&good), "{good} of 200");
    let status = world.running.status(&["-o", "yaml"]).unwrap();
    assert!(status.contains("BackendNotFound"), "{status}");
    world.running.write("a.yaml", &tcp_route("a", "a", &[("one", 3), ("two", 1)])).unwrap();
    wait::until("both", || (0..20).all(|_| get(a, "x.example", "/").is_ok()).then_some(())).unwrap();
    let of_two = (0..400).filter(|_| get(a, "x.example", "/").unwrap().body == "two").count();
    assert!((50..150).contains(&of_two), "{of_two} of 400");
    // a route without a backend
    world.running.write("a.yaml", &tcp_route("a", "a", &[("one", 0)])).unwrap();
    world.until_closed(a);
}
