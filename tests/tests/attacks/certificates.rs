//! Secrets that Envoy refuses, and PEM in every form that users have: on a port that others share, from the first start on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};

use nix::sys::signal::{Signal, kill};
use tests::backend::Backend;
use tests::certificate::{Pair, authority, base64, self_signed};
use tests::client::get_tls;
use tests::objects::{documents, route, service, tls_secret};
use tests::ports::free_ports;
use tests::running::{Running, admin_of};
use tests::wait;

use self::forms::{Form, Outcome, forms, of_version_four};

mod forms;

const BANK: &str = "bank.example";

/// The words of a problem at what proxies refuse.
const REFUSED: &str = "the proxies of default/edge refuse its content";

/// A Gateway whose HTTPS port the bank shares with tenants that bring listeners in sets.
struct World {
    running: Running,
    port: u16,
    bank: Pair,
    _backend: Backend,
}

impl World {
    /// Nothing runs yet.
    fn prepare() -> Self {
        let [port] = free_ports().unwrap();
        let backend = Backend::start("web").unwrap();
        let bank = self_signed(&[BANK], false).unwrap();
        let running = Running::prepare().unwrap();
        let gateway = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge}}\nspec:\n  gatewayClassName: chancery\n  \
             allowedListeners: {{namespaces: {{from: All}}}}\n  listeners:\n  - {{name: bank, port: {port}, protocol: HTTPS, hostname: {BANK}, \
             tls: {{certificateRefs: [{{name: bank}}]}}}}\n"
        );
        let all = [
            gateway,
            tls_secret("bank", &bank.certificate, &bank.key),
            service("web", backend.port),
            route("bank", &[("/", "web")]),
            in_namespace(&service("web", backend.port), "x"),
        ];
        running.write("bank.yaml", &documents(all.iter().map(String::as_str))).unwrap();
        Self { running, port, bank, _backend: backend }
    }

    /// A tenant's host with this certificate and key.
    fn tenant(&self, name: &str, certificate: &[u8], key: &[u8]) {
        let (port, certificate, key) = (self.port, base64(certificate), base64(key));
        let objects = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: x}}\ntype: kubernetes.io/tls\ndata: {{tls.crt: \"{certificate}\", \
             tls.key: \"{key}\"}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: {name}, namespace: x}}\n\
             spec:\n  parentRef: {{name: edge, namespace: default}}\n  listeners:\n  - {{name: https, port: {port}, protocol: HTTPS, \
             hostname: {}, tls: {{certificateRefs: [{{name: {name}}}]}}}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: {name}, namespace: x}}\nspec:\n  parentRefs: [{{kind: ListenerSet, group: gateway.networking.k8s.io, name: {name}}}]\n  \
             rules: [{{backendRefs: [{{name: web, port: 80}}]}}]\n",
            host(name)
        );
        self.running.write(&format!("x-{name}.yaml"), &objects).unwrap();
    }

    fn answers(&self, host: &str, certificates: &[&str]) -> bool {
        get_tls(self.port, host, "/", certificates).is_ok_and(|(answer, _)| answer.status == 200)
    }

    fn until_answers(&self, host: &str, certificates: &[&str]) {
        wait::until(&format!("{host} to answer"), || self.answers(host, certificates).then_some(())).unwrap();
    }

    fn until_bank_answers(&self) {
        self.until_answers(BANK, &[&self.bank.certificate]);
    }

    /// The conditions of a tenant's set.
    fn conditions(&self, name: &str) -> String {
        self.running.status(&["listenersets", &format!("x/{name}"), "-o", "yaml"]).unwrap()
    }

    fn until_said(&self, name: &str, words: &str) {
        let said = || Some(self.conditions(name)).filter(|conditions| conditions.contains(words));
        if wait::until(&format!("{words:?} of {name}"), said).is_err() {
            panic!("{words:?} is not among the conditions of {name}:\n{}", self.conditions(name));
        }
    }

    /// Waits until it is said of an object that the proxies refuse its content.
    fn until_problem(&self, object: &str) {
        let problems = || self.running.status(&["problems"]).unwrap();
        let said = |problems: String| (problems.contains(REFUSED) && problems.contains(object)).then_some(());
        if wait::until("the problem", || said(problems())).is_err() {
            panic!("{}", problems());
        }
    }

    /// The status of the bank's answer at a path.
    fn status(&self, path: &str) -> Option<u16> {
        Some(get_tls(self.port, BANK, path, &[&self.bank.certificate]).ok()?.0.status)
    }

    /// Ends the Envoy: another takes its place.
    fn restart_envoy(&self) {
        let before = self.running.envoys();
        assert!(!before.is_empty());
        before.iter().for_each(|envoy| kill(*envoy, Signal::SIGKILL).unwrap());
        let other = || self.running.envoys().iter().any(|envoy| !before.contains(envoy)).then_some(());
        wait::until("another Envoy", other).unwrap();
    }
}

fn host(name: &str) -> String {
    format!("{name}.x.example")
}

fn in_namespace(objects: &str, namespace: &str) -> String {
    objects.replace("metadata:\n", &format!("metadata:\n  namespace: {namespace}\n"))
}

#[test]
fn a_refused_secret_costs_its_own_host_from_the_first_start_on() {
    let mut world = World::prepare();
    let good = self_signed(&["bad.x.example", "late.x.example"], false).unwrap();
    let refused = of_version_four(&good.certificate);
    world.tenant("bad", refused.as_bytes(), good.key.as_bytes());
    world.running.start().unwrap();
    world.until_bank_answers();
    world.until_said("bad", "the proxies refuse its content");
    world.until_said("bad", "InvalidCertificateRef");
    assert!(!world.answers("bad.x.example", &[&good.certificate]));

    // Listeners that come later are served, by Envoys that come later as well.
    world.tenant("late", good.certificate.as_bytes(), good.key.as_bytes());
    world.until_answers("late.x.example", &[&good.certificate]);
    world.restart_envoy();
    world.until_bank_answers();
    world.until_answers("late.x.example", &[&good.certificate]);

    // A Chancery that starts again, with its state and without.
    world.running.kill_chancery().unwrap();
    world.running.start().unwrap();
    world.until_bank_answers();
    world.until_said("bad", "the proxies refuse its content");
    world.running.kill_chancery().unwrap();
    world.running.envoys().iter().for_each(|envoy| kill(*envoy, Signal::SIGKILL).unwrap());
    std::fs::remove_dir_all(world.running.state()).unwrap();
    world.running.start().unwrap();
    world.until_bank_answers();
    world.until_answers("late.x.example", &[&good.certificate]);
    world.until_said("bad", "the proxies refuse its content");

    // Its author can put it right, and then break it: the content that works stays.
    world.tenant("bad", good.certificate.as_bytes(), good.key.as_bytes());
    world.until_answers("bad.x.example", &[&good.certificate]);
    world.until_said("bad", "every proxy has acknowledged it");
    world.tenant("bad", refused.as_bytes(), good.key.as_bytes());
    world.until_said("bad", "serve with the one before");
    assert!(world.answers("bad.x.example", &[&good.certificate]));
    world.restart_envoy();
    world.until_answers("bad.x.example", &[&good.certificate]);
    world.until_bank_answers();
    let log = world.running.log();
    assert!(good.key.lines().filter(|line| line.len() > 40).all(|line| !log.contains(line)));
}

#[test]
fn a_half_written_pair_costs_no_handshake() {
    let mut world = World::prepare();
    let host = host("late");
    let [first, second] = [(); 2].map(|()| self_signed(&[&host], false).unwrap());
    world.tenant("late", first.certificate.as_bytes(), first.key.as_bytes());
    world.running.start().unwrap();
    world.until_answers(&host, &[&first.certificate]);
    // The certificate is written before its key: by other handshakes the earlier pair is still shown.
    world.tenant("late", second.certificate.as_bytes(), first.key.as_bytes());
    world.until_said("late", "InvalidCertificateRef");
    world.until_said("late", "the key does not belong to the certificate; the certificate and key before these stay");
    world.restart_envoy();
    world.until_answers(&host, &[&first.certificate]);
    world.until_bank_answers();
    world.tenant("late", second.certificate.as_bytes(), second.key.as_bytes());
    world.until_answers(&host, &[&second.certificate]);
    assert!(!world.conditions("late").contains("before these stay"));
    // A Secret that is deleted takes its pair with it, also for one of its name.
    world.running.remove("x-late.yaml").unwrap();
    let gone = || (!world.answers(&host, &[&second.certificate])).then_some(());
    wait::until("the host to go", gone).unwrap();
    world.tenant("late", first.certificate.as_bytes(), second.key.as_bytes());
    world.until_said("late", "the key does not belong to the certificate");
    assert!(!world.answers(&host, &[&second.certificate]) && !world.conditions("late").contains("before these stay"));
}

#[test]
fn a_refused_secret_that_is_edited_does_not_cost_others_a_request() {
    let mut world = World::prepare();
    let good = self_signed(&["bad.x.example"], false).unwrap();
    world.tenant("bad", of_version_four(&good.certificate).as_bytes(), good.key.as_bytes());
    world.running.start().unwrap();
    world.until_bank_answers();
    for _ in 0..5 {
        let other = self_signed(&["bad.x.example"], false).unwrap();
        world.tenant("bad", of_version_four(&other.certificate).as_bytes(), other.key.as_bytes());
        world.until_said("bad", "the proxies refuse its content");
        for _ in 0..20 {
            assert!(world.answers(BANK, &[&world.bank.certificate]));
        }
    }
}

#[test]
fn each_form_of_pem_is_served_or_said_and_costs_no_other_host() {
    let mut world = World::prepare();
    let forms = forms().unwrap();
    for Form { name, chain, key, .. } in &forms {
        world.tenant(name, chain, key);
    }
    world.running.start().unwrap();
    world.until_bank_answers();
    let judge = |world: &World| {
        for Form { name, outcome, .. } in &forms {
            match outcome {
                Outcome::Serves(shown) => {
                    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
                    world.until_answers(&host(name), &shown);
                }
                Outcome::Says(words) => world.until_said(name, words),
            }
        }
        world.until_bank_answers();
    };
    judge(&world);
    world.restart_envoy();
    world.until_bank_answers();
    judge(&world);
}

#[test]
fn a_refused_bundle_costs_only_routes_that_need_it() {
    let mut world = World::prepare();
    let refused = of_version_four(&authority("ca.example").unwrap().certificate);
    let policy = "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: tls}\nspec:\n  \
        targetRefs: [{group: \"\", kind: Service, name: secured}]\n  validation: {hostname: secured.example, \
        caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]}\n";
    let all = [
        service("secured", 9),
        policy.to_owned(),
        tests::objects::ca_config_map("ca", &refused),
        route("secured", &[("/secured", "secured")]),
    ];
    world.running.write("secured.yaml", &documents(all.iter().map(String::as_str))).unwrap();
    world.running.start().unwrap();
    world.until_bank_answers();
    world.until_problem("in ConfigMap default/ca");
    world.restart_envoy();
    world.until_bank_answers();
    // A new Envoy would wait for the cluster, and requests for the backend.
    let clusters = wait::until("the clusters", || clusters(&world)).unwrap();
    assert!(!clusters.contains("default/secured/80") && !clusters.contains("configmap/default/ca"), "{clusters}");
    assert_eq!(world.status("/secured"), Some(500));
}

/// The clusters of the one Envoy of a world, as its admin interface shows them.
fn clusters(world: &World) -> Option<String> {
    let mut folders = std::fs::read_dir(world.running.state().join("gateways")).ok()?.flatten();
    let mut admin = folders.find_map(|folder| admin_of(&folder.path()).ok())?;
    write!(admin, "GET /config_dump HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    admin.read_to_string(&mut answer).ok()?;
    // Before its first configuration is complete it has none.
    answer.contains("default/web").then_some(answer)
}

#[test]
fn a_refused_secret_towards_a_backend_keeps_no_new_envoy_waiting() {
    let mut world = World::prepare();
    let pair = self_signed(&["client.x.example"], false).unwrap();
    let [dead] = free_ports().unwrap();
    let evil = |world: &World, certificate: &str| {
        let (certificate, key) = (base64(certificate.as_bytes()), base64(pair.key.as_bytes()));
        let objects = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: bad, namespace: x}}\ntype: kubernetes.io/tls\ndata: {{tls.crt: \"{certificate}\", \
             tls.key: \"{key}\"}}\n---\napiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: evil, namespace: x}}\n\
             spec:\n  endpoints: [{{ip: {{address: 127.0.0.1, port: {dead}}}}}]\n  tls: {{insecureSkipVerify: true, clientCertificateRef: \
             {{name: bad}}}}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: evil, namespace: x}}\n\
             spec:\n  parentRefs: [{{name: edge, namespace: default}}]\n  hostnames: [{BANK}]\n  rules:\n  - matches: [{{path: {{value: /evil}}}}]\n    \
             backendRefs: [{{group: gateway.envoyproxy.io, kind: Backend, name: evil}}]\n"
        );
        world.running.write("evil.yaml", &objects).unwrap();
    };
    evil(&world, &of_version_four(&pair.certificate));
    let gateway = std::fs::read_to_string(world.running.conf().join("bank.yaml")).unwrap();
    let open = gateway.replace("{name: bank, port:", "{name: bank, allowedRoutes: {namespaces: {from: All}}, port:");
    world.running.write("bank.yaml", &open).unwrap();
    world.running.start().unwrap();
    world.until_bank_answers();
    let problems = |world: &World| world.running.status(&["problems"]).unwrap();
    world.until_problem("in Secret x/bad");
    for _ in 0..2 {
        world.restart_envoy();
        world.until_bank_answers();
        let clusters = wait::until("the clusters", || clusters(&world)).unwrap();
        assert!(!clusters.contains("Backend/x/evil") && !clusters.contains("secret/x/bad"), "{clusters}");
        assert_eq!(world.status("/evil"), Some(500));
        assert!(problems(&world).contains(REFUSED));
    }
    // The author can put it right: nothing listens there, which is 503.
    evil(&world, &pair.certificate);
    wait::until("the backend to be asked", || (world.status("/evil") == Some(503)).then_some(())).unwrap();
    assert!(!problems(&world).contains(REFUSED));
}
