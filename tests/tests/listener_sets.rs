//! `ListenerSet`s that come, change and go under a Gateway that serves: from files, through a real Envoy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;

use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::{get, get_tls};
use tests::objects::{documents, gateway, on_set, route, service, tls_secret};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

/// A Gateway that takes sets of every namespace, with a listener and a route of its own.
struct World {
    running: Running,
    port: u16,
    other_port: u16,
    pair: Pair,
    _servers: (Backend, Backend),
}

/// A set of the Gateway `edge` with these listeners.
fn set(name: &str, listeners: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: {name}}}\n\
         spec:\n  parentRef: {{name: edge}}\n  listeners: [{listeners}]\n"
    )
}

fn http(name: &str, port: u16, host: &str) -> String {
    format!("{{name: {name}, port: {port}, protocol: HTTP, hostname: {host}}}")
}

fn https(name: &str, port: u16, host: &str) -> String {
    let tls = "tls: {certificateRefs: [{name: cert}]}";
    format!("{{name: {name}, port: {port}, protocol: HTTPS, hostname: {host}, {tls}}}")
}

/// A route on a set.
fn route_on(set: &str, name: &str, service: &str) -> String {
    on_set(&route(name, &[("/", service)]), set)
}

impl World {
    fn start() -> Self {
        let servers = (Backend::start("one").unwrap(), Backend::start("two").unwrap());
        let [port, other_port] = free_ports().unwrap();
        let pair = self_signed(&["kept.example.com", "more.example.com"], false).unwrap();
        let taking = "gatewayClassName: chancery\n  allowedListeners: {namespaces: {from: All}}\n";
        let own = gateway(port).replace("protocol: HTTP\n", "protocol: HTTP\n    hostname: own.example.com\n");
        let mut running = Running::prepare().unwrap();
        let all = [
            own.replace("gatewayClassName: chancery\n", taking),
            service("one", servers.0.port),
            service("two", servers.1.port),
            route("own", &[("/", "one")]),
            tls_secret("cert", &pair.certificate, &pair.key),
        ];
        running.write("all.yaml", &documents(all.iter().map(String::as_str))).unwrap();
        running.start().unwrap();
        Self { running, port, other_port, pair, _servers: servers }
    }

    /// The body, or the status where it is another one than 200; none without an answer.
    fn ask(&self, port: u16, host: &str) -> Option<String> {
        let answer = get(port, host, "/").ok()?;
        Some(if answer.status == 200 { answer.body } else { answer.status.to_string() })
    }

    fn until(&self, port: u16, host: &str, expected: Option<&str>) {
        wait::until(&format!("{expected:?} of {host}"), || (self.ask(port, host).as_deref() == expected).then_some(()))
            .unwrap();
    }

    fn until_tls(&self, host: &str, body: &str) {
        let certificates = [&*self.pair.certificate];
        let ask = || get_tls(self.other_port, host, "/", &certificates).ok().filter(|(answer, _)| answer.body == body);
        wait::until(&format!("{body} of {host}"), ask).unwrap();
    }

    fn told(&self) -> String {
        self.running.status(&["listenerset", "-o", "yaml"]).unwrap()
    }
}

#[test]
fn a_set_is_served_on_the_ports_that_it_names_and_told_what_became_of_it() {
    let world = World::start();
    world.until(world.port, "own.example.com", Some("one"));
    world.running.write("set.yaml", &set("more", &http("x", world.port, "more.example.com"))).unwrap();
    world.running.write("route.yaml", &route_on("more", "more", "two")).unwrap();
    world.until(world.port, "more.example.com", Some("two"));
    wait::until("Programmed", || world.told().contains("reason: Programmed").then_some(())).unwrap();
    // another port, and with it the old one has nobody for the host
    world.running.write("set.yaml", &set("more", &http("x", world.other_port, "more.example.com"))).unwrap();
    world.until(world.other_port, "more.example.com", Some("two"));
    world.until(world.port, "more.example.com", Some("404"));
    // the name is the Gateway's
    world.running.write("set.yaml", &set("more", &http("x", world.port, "own.example.com"))).unwrap();
    wait::until("HostnameConflict", || world.told().contains("HostnameConflict").then_some(())).unwrap();
    world.until(world.other_port, "more.example.com", None);
    world.until(world.port, "own.example.com", Some("one"));
    world.running.remove("set.yaml").unwrap();
    wait::until("no set", || (!world.told().contains("HostnameConflict")).then_some(())).unwrap();
}

#[test]
fn no_request_is_lost_while_sets_come_change_and_go() {
    let world = World::start();
    let (port, tls_port) = (world.port, world.other_port);
    world.running.write("kept.yaml", &set("kept", &http("x", port, "kept.example.com"))).unwrap();
    world.running.write("kept-route.yaml", &route_on("kept", "kept", "two")).unwrap();
    world.running.write("tls.yaml", &set("tls", &https("x", tls_port, "kept.example.com"))).unwrap();
    world.running.write("tls-route.yaml", &route_on("tls", "tls", "two")).unwrap();
    world.until(port, "own.example.com", Some("one"));
    world.until(port, "kept.example.com", Some("two"));
    world.until_tls("kept.example.com", "two");
    let (plain, tls) = (Prober::default(), Prober::default());
    let certificates = [&*world.pair.certificate];
    let ask = |host: &str| get_tls(tls_port, host, "/", &certificates).map(|(answer, _)| answer);
    thread::scope(|threads| {
        let _asking = (plain.until_dropped(), tls.until_dropped());
        let allowed: &[(&str, &[&str])] = &[("own.example.com", &["one"]), ("kept.example.com", &["two"])];
        threads.spawn(|| plain.run(|host| get(port, host, "/"), allowed));
        threads.spawn(|| tls.run(ask, &[("kept.example.com", &["two"])]));
        for round in 0..8 {
            let host = format!("more{round}.example.com");
            let both = [http("a", port, &host), https("b", tls_port, "more.example.com")].join(", ");
            world.running.write("more.yaml", &set("more", &both)).unwrap();
            world.running.write("more-route.yaml", &route_on("more", "more", "one")).unwrap();
            world.until(port, &host, Some("one"));
            world.until_tls("more.example.com", "one");
            // what others have is not had by asking for it, before or after them by name
            let greedy = [http("a", port, "own.example.com"), http("b", port, "kept.example.com")].join(", ");
            world.running.write("greedy.yaml", &set("z-greedy", &greedy)).unwrap();
            world.running.write("greedy-route.yaml", &route_on("z-greedy", "greedy", "one")).unwrap();
            wait::until("Conflicted", || world.told().contains("HostnameConflict").then_some(())).unwrap();
            world.running.write("more.yaml", &set("more", &http("a", port, "\"*.example.com\""))).unwrap();
            world.until(port, "any.example.com", Some("one"));
            world.running.remove("greedy.yaml").unwrap();
            world.running.remove("more.yaml").unwrap();
            world.until(port, &host, Some("404"));
            plain.more(4).unwrap();
        }
    });
    for (asked, wrong) in [plain.told(), tls.told()] {
        assert!(asked > 0 && wrong.is_empty(), "{wrong:?} of {asked}");
    }
}

/// As many as GEP-1713 has in mind of one Gateway, each with a route of its own, some with certificates.
#[test]
fn thousands_of_sets_on_one_gateway_are_served_while_one_more_comes_changes_and_goes() {
    const SETS: usize = 2_500;
    const WITH_TLS: usize = 100;
    let world = World::start();
    let (port, tls_port) = (world.port, world.other_port);
    let host = |at: usize| format!("s{at}.example.com");
    let wildcard = self_signed(&["*.example.com"], false).unwrap();
    world.running.write("wild.yaml", &tls_secret("cert", &wildcard.certificate, &wildcard.key)).unwrap();
    world.running.remove("all.yaml").unwrap();
    let (one, two) = &world._servers;
    let own = gateway(port).replace(
        "gatewayClassName: chancery\n",
        "gatewayClassName: chancery\n  allowedListeners: {namespaces: {from: All}}\n",
    );
    let base = [own, service("one", one.port), service("two", two.port)];
    world.running.write("base.yaml", &documents(base.iter().map(String::as_str))).unwrap();
    let all = (0..SETS).flat_map(|at| {
        let name = format!("s{at}");
        let listener = if at < WITH_TLS { https("x", tls_port, &host(at)) } else { http("x", port, &host(at)) };
        [set(&name, &listener), route_on(&name, &name, if at.is_multiple_of(2) { "one" } else { "two" })]
    });
    let all: Vec<String> = all.collect();
    world.running.write("sets.yaml", &documents(all.iter().map(String::as_str))).unwrap();
    let body = |at: usize| if at.is_multiple_of(2) { "one" } else { "two" };
    for at in [WITH_TLS, SETS / 2, SETS / 2 + 1, SETS - 1] {
        world.until(port, &host(at), Some(body(at)));
    }
    let known = [&*wildcard.certificate];
    for at in [0, 1, WITH_TLS - 1] {
        let ask = || get_tls(tls_port, &host(at), "/", &known).ok().filter(|(answer, _)| answer.body == body(at));
        wait::until(&host(at), ask).unwrap();
    }
    let gateway = world.running.status(&["gateway", "edge", "-o", "yaml"]).unwrap();
    assert!(gateway.contains(&format!("attachedListenerSets: {SETS}\n")), "{gateway}");
    let prober = Prober::default();
    let (first, last) = (host(SETS / 2), host(SETS - 1));
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        threads.spawn(|| prober.run(|host| get(port, host, "/"), &[(&*first, &["one"]), (&*last, &["two"])]));
        for more in ["more.example.com", "other.example.com"] {
            world.running.write("more.yaml", &set("more", &http("x", port, more))).unwrap();
            world.running.write("more-route.yaml", &route_on("more", "more", "two")).unwrap();
            world.until(port, more, Some("two"));
        }
        world.running.remove("more.yaml").unwrap();
        world.until(port, "other.example.com", Some("404"));
        prober.more(10).unwrap();
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}
