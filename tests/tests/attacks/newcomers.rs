//! Authors of one namespace who claim what another one's objects have: a port, a host name of a listener, a match. Their objects come first by name, or
//! say that they are old, and come while Chancery runs or while it does not.

use tests::backend::Backend;
use tests::objects::documents;
use tests::ports::free_ports;
use tests::running::Running;
use tests::{client, wait};

/// Requests that all have to get the victim's answer.
const REQUESTS: usize = 20;

/// The thief's namespaces, each with the metadata of what is in it: first by name, by a forged age, and by both once Chancery was away.
const THIEVES: [(&str, &str); 3] = [("aaa", ""), ("zzz", FORGED), ("0aa", FORGED)];
const FORGED: &str = ", creationTimestamp: \"1999-01-01T00:00:00Z\"";

fn object(kind: &str, (namespace, more): (&str, &str), name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}{more}}}\nspec:\n{spec}\n"
    )
}

/// A Gateway that takes routes and sets of all namespaces.
fn gateway(who: (&str, &str), name: &str, port: u16) -> String {
    let spec = format!(
        "  gatewayClassName: chancery\n  allowedListeners: {{namespaces: {{from: All}}}}\n  listeners:\n  \
         - {{name: http, protocol: HTTP, port: {port}, allowedRoutes: {{namespaces: {{from: All}}}}}}"
    );
    object("Gateway", who, name, &spec)
}

/// A set of the shared Gateway with listeners for these host names.
fn set(who: (&str, &str), port: u16, hosts: &[&str]) -> String {
    let listeners: String = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| format!("\n  - {{name: l{at}, protocol: HTTP, port: {port}, hostname: {host}}}"))
        .collect();
    object(
        "ListenerSet",
        who,
        "set",
        &format!("  parentRef: {{name: shared, namespace: infra}}\n  listeners:{listeners}"),
    )
}

/// A route to the namespace's Service from these prefixes.
fn route(who: (&str, &str), parent: &str, prefixes: &[&str]) -> String {
    let matches: String =
        prefixes.iter().map(|prefix| format!("\n    - path: {{type: PathPrefix, value: {prefix}}}")).collect();
    let spec = format!(
        "  parentRefs: [{parent}]\n  rules:\n  - backendRefs: [{{name: app, port: 80}}]\n    matches:{matches}"
    );
    object("HTTPRoute", who, "r", &spec)
}

fn service(namespace: &str, backend: &Backend) -> String {
    tests::objects::service("app", backend.port)
        .replace("  name: app\n", &format!("  name: app\n  namespace: {namespace}\n"))
        .replace("  name: app-1\n", &format!("  name: app-1\n  namespace: {namespace}\n"))
}

const BANK: (&str, &str) = ("bank", "");

/// A victim that is served, and the thief's server.
struct Scene {
    running: Running,
    victim: Backend,
    thief: Backend,
}

impl Scene {
    fn start(parts: &[String]) -> Self {
        let (victim, thief) = (Backend::start("victim").unwrap(), Backend::start("thief").unwrap());
        let mut running = Running::prepare().unwrap();
        let service = service("bank", &victim);
        let parts = parts.iter().map(String::as_str).chain([service.as_str()]);
        running.write("bank.yaml", &documents(parts)).unwrap();
        running.start().unwrap();
        Self { running, victim, thief }
    }

    /// Waits until requests get this answer.
    fn until(&self, (port, host, path): (u16, &str, &str), name: &str) {
        wait::until(name, || {
            client::get(port, host, path).is_ok_and(|answer| answer.body.trim() == name).then_some(())
        })
        .unwrap();
    }

    /// All thieves come one after the other, the last one while Chancery is away. `claims` makes what a thief writes, and `own` is something of it that
    /// no other object claims: once that is served, all of the thief's objects count. The victim keeps what it has, and so after a restart.
    fn play(
        mut self,
        asked: (u16, &str, &str),
        own: &[(u16, &str, &str); 3],
        claims: impl Fn(usize) -> Vec<String>,
    ) -> Running {
        self.until(asked, &self.victim.name);
        for (at, (who, own)) in THIEVES.iter().zip(own).enumerate() {
            let service = service(who.0, &self.thief);
            let parts = claims(at);
            let text = documents(parts.iter().map(String::as_str).chain([service.as_str()]));
            let is_away = at == THIEVES.len() - 1;
            if is_away {
                self.running.kill_chancery().unwrap();
            }
            self.running.write(&format!("{}.yaml", who.0), &text).unwrap();
            if is_away {
                self.running.start().unwrap();
            }
            self.until(*own, &self.thief.name);
            self.keeps(asked, who.0);
        }
        // Nothing is new at this start.
        self.running.kill_chancery().unwrap();
        self.running.start().unwrap();
        self.keeps(asked, "the restart");
        self.running
    }

    fn keeps(&self, (port, host, path): (u16, &str, &str), who: &str) {
        for _ in 0..REQUESTS {
            let answer = client::get(port, host, path).unwrap().body;
            assert_eq!(answer.trim(), self.victim.name, "after {who}\n{}", self.running.status(&["problems"]).unwrap());
        }
    }
}

#[test]
fn a_newcomer_takes_no_port_of_a_gateway_that_is_served() {
    let [port, one, two, three] = free_ports().unwrap();
    let scene = Scene::start(&[gateway(BANK, "edge", port), route(BANK, "{name: edge}", &["/"])]);
    let own = [one, two, three];
    let running = scene.play((port, "x.example", "/"), &own.map(|port| (port, "x.example", "/")), |at| {
        let who = THIEVES[at];
        let parents = "{name: edge}, {name: own}";
        vec![gateway(who, "edge", port), gateway(who, "own", own[at]), route(who, parents, &["/"])]
    });
    let words = format!("port {port} belongs to Gateway bank/edge");
    let shown = |status: String| status.matches(&words).count() >= THIEVES.len();
    wait::until(&words, || shown(running.status(&["problems"]).unwrap()).then_some(())).unwrap();
}

#[test]
fn a_newcomer_takes_no_host_name_of_a_listener_set_that_is_served() {
    const OWN: [&str; 3] = ["one.example", "two.example", "three.example"];
    let [port, other] = free_ports().unwrap();
    let parent = "{group: gateway.networking.k8s.io, kind: ListenerSet, name: set}";
    let scene = Scene::start(&[
        gateway(("infra", ""), "shared", other),
        set(BANK, port, &["bank.example"]),
        route(BANK, parent, &["/"]),
    ]);
    scene.play((port, "bank.example", "/"), &OWN.map(|host| (port, host, "/")), |at| {
        vec![set(THIEVES[at], port, &["bank.example", OWN[at]]), route(THIEVES[at], parent, &["/"])]
    });
}

#[test]
fn a_newcomer_takes_no_match_of_a_route_that_is_served() {
    const OWN: [&str; 3] = ["/one", "/two", "/three"];
    let [port] = free_ports().unwrap();
    let parent = "{name: shared, namespace: infra}";
    let scene = Scene::start(&[gateway(("infra", ""), "shared", port), route(BANK, parent, &["/pay"])]);
    scene.play((port, "bank.example", "/pay"), &OWN.map(|path| (port, "bank.example", path)), |at| {
        vec![route(THIEVES[at], parent, &["/pay", OWN[at]])]
    });
}
