//! Certificates of clients at listeners (`tls.frontend`): from files, through a real Envoy, while what is believed changes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tests::backend::Backend;
use tests::certificate::{Pair, authority, issued, self_signed};
use tests::client::{Answer, Caller, Kept};
use tests::objects::{ca_config_map, documents, listeners, on_set, route, service, tls_secret, trust_bundle};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

const HOST: &str = "x.example";

/// A client is known to be refused when so many connections of its were: more than an Envoy has threads that could have missed a change.
const REFUSALS: usize = 30;

/// An Envoy with two HTTPS ports in front of `web`, two authorities, and a client of each.
struct World {
    running: Running,
    ports: [u16; 2],
    server: Pair,
    authorities: [Pair; 2],
    clients: [Pair; 2],
    _backend: Backend,
}

impl World {
    /// With what is asked of clients at these ports; the bundle of the cluster has the first authority.
    fn start(frontend: impl Fn([u16; 2]) -> String) -> Self {
        let ports: [u16; 2] = free_ports().unwrap();
        let backend = Backend::start("web").unwrap();
        let server = self_signed(&[HOST], false).unwrap();
        let authorities = [authority("a.example").unwrap(), authority("b.example").unwrap()];
        let clients = authorities.each_ref().map(|authority| issued("client.example", authority).unwrap());
        let mut running = Running::prepare().unwrap();
        let rest = [
            tls_secret("cert", &server.certificate, &server.key),
            service("web", backend.port),
            route("shop", &[("/", "web")]),
        ];
        running.write("rest.yaml", &documents(rest.iter().map(String::as_str))).unwrap();
        running.write("gateway.yaml", &gateway(ports, &frontend(ports))).unwrap();
        running.write("bundle.yaml", &trust_bundle("clients", &authorities[0].certificate)).unwrap();
        running.start().unwrap();
        Self { running, ports, server, authorities, clients, _backend: backend }
    }

    fn frontend(&self, frontend: &str) {
        self.running.write("gateway.yaml", &gateway(self.ports, frontend)).unwrap();
    }

    /// A client with these certificates.
    fn caller(&self, own: &[&Pair]) -> Caller {
        Caller::new(HOST, &self.server, own).unwrap()
    }

    /// A client of the first authority, one of the second, and one with nothing to show.
    fn callers(&self) -> [Caller; 3] {
        let [a, b] = &self.clients;
        [self.caller(&[a]), self.caller(&[b]), self.caller(&[])]
    }

    fn until_told(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let told = || self.running.status(&["gateway", "edge", "-o", "yaml"]).ok().filter(|status| is_so(status));
        wait::until(what, told).unwrap();
    }
}

/// The Gateway with its two ports and this as `tls.frontend` (in one line); with nothing nobody is asked.
fn gateway(ports: [u16; 2], frontend: &str) -> String {
    let listener = |name: &str, port: u16| {
        format!("  - {{name: {name}, port: {port}, protocol: HTTPS, tls: {{certificateRefs: [{{name: cert}}]}}}}\n")
    };
    let tls = if frontend.is_empty() { String::new() } else { format!("  tls: {{frontend: {{{frontend}}}}}\n") };
    let taken = "  allowedListeners: {namespaces: {from: Same}}\n";
    listeners(&(listener("first", ports[0]) + &listener("second", ports[1]))) + &tls + taken
}

const OF_CLUSTER: &str =
    "validation: {caCertificateRefs: [{group: certificates.k8s.io, kind: ClusterTrustBundle, name: clients}]}";

/// A default that believes these ConfigMaps.
fn believing(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{{group: \"\", kind: ConfigMap, name: {name}}}")).collect();
    format!("default: {{validation: {{caCertificateRefs: [{}]}}}}", names.join(", "))
}

fn until_served(caller: &Caller, port: u16) {
    let served = || caller.get(port, "/", &[]).ok().filter(|answer| *answer == web());
    wait::until("a client to be served", served).unwrap();
}

fn until_refused(caller: &Caller, port: u16) {
    let refused = || (0..REFUSALS).all(|_| caller.get(port, "/", &[]).is_err()).then_some(());
    wait::until("a client to be refused", refused).unwrap();
}

fn web() -> Answer {
    Answer { status: 200, body: "web".to_owned() }
}

#[test]
fn a_bundle_of_the_cluster_says_which_clients_are_served_and_its_content_is_replaced() {
    let world = World::start(|_| format!("default: {{{OF_CLUSTER}}}"));
    let [first, second, none] = world.callers();
    let port = world.ports[0];
    until_served(&first, port);
    until_refused(&second, port);
    until_refused(&none, port);

    // both have been here before, and sessions that they could take up again do not count for the other authority
    world.running.write("bundle.yaml", &trust_bundle("clients", &world.authorities[1].certificate)).unwrap();
    until_served(&second, port);
    until_refused(&first, port);
    until_refused(&none, port);
    until_served(&second, port);

    // with nothing to believe nobody is let in
    world.running.remove("bundle.yaml").unwrap();
    world.until_told("NoValidCACertificate", |status| status.contains("reason: NoValidCACertificate"));
    for caller in [&first, &second, &none] {
        until_refused(caller, port);
    }
    world.running.write("bundle.yaml", &trust_bundle("clients", &world.authorities[0].certificate)).unwrap();
    until_served(&first, port);
    until_refused(&second, port);
    until_refused(&none, port);
}

#[test]
fn only_the_port_with_a_fallback_serves_clients_without_a_certificate() {
    let frontend = |mode: &str, port: u16| {
        let of_port = OF_CLUSTER.replace("validation: {", &format!("validation: {{{mode}"));
        format!("default: {{{OF_CLUSTER}}}, perPort: [{{port: {port}, tls: {{{of_port}}}}}]")
    };
    let world = World::start(|[lax, _]| frontend("mode: AllowInsecureFallback, ", lax));
    let [first, second, none] = world.callers();
    let [lax, strict] = world.ports;
    for caller in [&first, &second, &none] {
        until_served(caller, lax);
    }
    until_served(&first, strict);
    until_refused(&second, strict);
    until_refused(&none, strict);
    world.until_told("InsecureFrontendValidationMode", |status| status.contains("InsecureFrontendValidationMode"));

    // the port is as strict as the other one
    world.frontend(&frontend("", lax));
    until_refused(&none, lax);
    until_refused(&second, lax);
    until_served(&first, lax);
    world.until_told("no fallback", |status| {
        !status.split("- type: ").any(|one| one.starts_with("InsecureFrontend") && one.contains("status: \"True\""))
    });

    // and the other way round
    world.frontend(&frontend("mode: AllowInsecureFallback, ", strict));
    until_served(&none, strict);
    until_refused(&none, lax);
}

#[test]
fn a_port_with_an_entry_that_says_nothing_asks_nobody() {
    let world = World::start(|[_, open]| format!("default: {{{OF_CLUSTER}}}, perPort: [{{port: {open}, tls: {{}}}}]"));
    let [first, second, none] = world.callers();
    let [strict, open] = world.ports;
    for caller in [&first, &second, &none] {
        until_served(caller, open);
    }
    until_served(&first, strict);
    until_refused(&second, strict);
    until_refused(&none, strict);
}

#[test]
fn a_listener_of_a_set_asks_as_the_gateway_says_of_its_port() {
    let world = World::start(|_| format!("default: {{{OF_CLUSTER}}}"));
    let [first, second, none] = world.callers();
    let [port] = free_ports().unwrap();
    let set = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: more}}\nspec:\n  parentRef: {{name: edge}}\n  \
         listeners: [{{name: more, port: {port}, protocol: HTTPS, tls: {{certificateRefs: [{{name: cert}}]}}}}]\n"
    );
    let on_set = on_set(&route("more", &[("/", "web")]), "more");
    world.running.write("set.yaml", &documents([&*set, &on_set])).unwrap();
    until_served(&first, port);
    until_refused(&second, port);
    until_refused(&none, port);
    world.frontend(&format!("default: {{{OF_CLUSTER}}}, perPort: [{{port: {port}, tls: {{}}}}]"));
    until_served(&none, port);
    until_refused(&none, world.ports[0]);
    world.frontend(&format!("default: {{{OF_CLUSTER}}}"));
    until_refused(&none, port);
    until_served(&first, port);
}

/// Asks on one connection for as long as the server keeps it.
fn on_kept(caller: &Caller, port: u16) -> impl FnMut(&str) -> anyhow::Result<Answer> {
    let mut kept: Option<Kept> = None;
    move |path| {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => caller.keep(port)?,
        };
        let (answer, last) = connection.get_and_tell(HOST, path)?;
        kept = (!last).then_some(connection);
        Ok(answer)
    }
}

/// The client with certificates of all authorities never gets a wrong answer, and one without is never served while all that may be in
/// force asks for one.
#[test]
fn nobody_right_is_lost_and_nobody_else_served_while_what_is_asked_changes() {
    let world = World::start(|_| String::new());
    let port = world.ports[0];
    let (known, stranger) = (world.caller(&[&world.clients[0], &world.clients[1]]), world.caller(&[]));
    world.running.write("a.yaml", &ca_config_map("a", &world.authorities[0].certificate)).unwrap();
    world.running.write("b.yaml", &ca_config_map("b", &world.authorities[1].certificate)).unwrap();
    until_served(&known, port);
    let (prober, strangers, in_force) = (Prober::default(), Prober::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _asking = (prober.until_dropped(), strangers.until_dropped());
        let allowed: &[(&str, &[&str])] = &[("/", &["web"])];
        scope.spawn(|| prober.run(|path| known.get(port, path, &[]), allowed));
        scope.spawn(|| prober.run(on_kept(&known, port), allowed));
        scope.spawn(|| {
            let ask = |path: &str| {
                let before = in_force.load(Ordering::SeqCst);
                let answer = stranger.get(port, path, &[]);
                let asked = before && in_force.load(Ordering::SeqCst);
                // whose answer is nobody's business counts as one that was right
                if asked { answer } else { Err(anyhow::anyhow!("not asked for")) }
            };
            strangers.run(ask, &[("/", &["down"])]);
        });
        for _ in 0..2 {
            let mut old = stranger.keep(port).unwrap();
            assert_eq!(old.get(HOST, "/").unwrap(), web());
            world.frontend(&believing(&["a"]));
            until_refused(&stranger, port);
            wait::until("the end of a connection from before", || old.get(HOST, "/").is_err().then_some(())).unwrap();
            in_force.store(true, Ordering::SeqCst);
            // the content of what is believed, what is named, both of them, and back
            for authority in [1, 0] {
                world.running.write("a.yaml", &ca_config_map("a", &world.authorities[authority].certificate)).unwrap();
                strangers.more(20).unwrap();
                prober.more(20).unwrap();
            }
            for names in [&["b"][..], &["a", "b"], &["b", "a"], &["a"]] {
                world.frontend(&believing(names));
                strangers.more(20).unwrap();
                prober.more(20).unwrap();
            }
            in_force.store(false, Ordering::SeqCst);
            world.frontend(&believing(&["a"]).replace("validation: {", "validation: {mode: AllowInsecureFallback, "));
            until_served(&stranger, port);
            world.frontend("");
            until_served(&stranger, port);
        }
    });
    for (asked, wrong) in [prober.told(), strangers.told()] {
        assert!(asked > 0 && wrong.is_empty(), "{wrong:?} of {asked}");
    }
}
