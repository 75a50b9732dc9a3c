//! TLS to backends, as a `BackendTLSPolicy` asks for it: from files, through a real Envoy to one that speaks TLS.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;

use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::{Answer, get};
use tests::objects::{ca_config_map, documents, listeners, ruled, service, tls_secret, trust_bundle};
use tests::ports::free_ports;
use tests::prober::Prober;
use tests::running::Running;
use tests::wait;

const HOST: &str = "web.example.com";

/// A port in cleartext whose route leads to one behind TLS, where `web` answers.
struct World {
    running: Running,
    port: u16,
    pair: Pair,
    _server: Backend,
}

impl World {
    fn start() -> Self {
        let server = Backend::start("web").unwrap();
        let [port, inner] = free_ports().unwrap();
        let pair = self_signed(&[HOST], false).unwrap();
        let both = format!(
            "  - {{name: front, port: {port}, protocol: HTTP}}\n  \
             - {{name: inner, port: {inner}, protocol: HTTPS, hostname: {HOST}, tls: {{certificateRefs: [{{name: cert}}]}}}}\n"
        );
        let to = |name: &str, section: &str| {
            let rules = format!("  rules:\n  - backendRefs: [{{name: {name}, port: 80}}]\n");
            ruled(section, &rules).replacen("name: edge\n", &format!("name: edge\n    sectionName: {section}\n"), 1)
        };
        let mut running = Running::prepare().unwrap();
        let all = [
            listeners(&both),
            tls_secret("cert", &pair.certificate, &pair.key),
            service("plain", server.port),
            service("secure", inner),
            to("secure", "front"),
            to("plain", "inner"),
        ];
        running.write("all.yaml", &documents(all.iter().map(String::as_str))).unwrap();
        running.write("ca.yaml", &ca_config_map("ca", &pair.certificate)).unwrap();
        let other = self_signed(&["other.example.com"], false).unwrap();
        running.write("other.yaml", &ca_config_map("other", &other.certificate)).unwrap();
        running.start().unwrap();
        Self { running, port, pair, _server: server }
    }

    fn ask(&self) -> anyhow::Result<Answer> {
        get(self.port, HOST, "/")
    }

    fn until(&self, status: u16) {
        let asked = || self.ask().ok().filter(|answer| answer.status == status);
        wait::until(&format!("{status}"), asked).unwrap();
    }

    fn hold(&self, validation: &str) {
        self.running.write("policy.yaml", &policy("policy", validation)).unwrap();
    }

    fn until_told(&self, words: &str) {
        let told = || self.running.status(&["-o", "yaml"]).ok().filter(|status| status.contains(words));
        wait::until(words, told).unwrap();
    }
}

/// A policy on `secure`: fields of its `validation`.
fn policy(name: &str, validation: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         targetRefs: [{{group: \"\", kind: Service, name: secure}}]\n  validation: {{{validation}}}\n"
    )
}

fn trusting(bundle: &str, more: &str) -> String {
    format!("caCertificateRefs: [{{group: \"\", kind: ConfigMap, name: {bundle}}}], {more}")
}

#[test]
fn a_backend_is_spoken_to_over_tls_and_verified() {
    let world = World::start();
    // without a policy it is cleartext that a server of TLS cannot read
    world.until(503);
    world.hold(&trusting("ca", "hostname: web.example.com"));
    world.until(200);
    assert_eq!(world.ask().unwrap().body, "web");
    // a name that the certificate does not have, also where the server takes every name
    world.hold(&trusting(
        "ca",
        "hostname: web.example.com, subjectAltNames: [{type: Hostname, hostname: no.example.com}]",
    ));
    world.until(503);
    let names = "subjectAltNames: [{type: URI, uri: \"spiffe://no\"}, {type: Hostname, hostname: web.example.com}]";
    world.hold(&trusting("ca", &format!("hostname: web.example.com, {names}")));
    world.until(200);
    world.hold(&trusting("other", "hostname: web.example.com"));
    world.until(503);
}

#[test]
fn bundles_of_a_cluster_are_believed_and_several_together() {
    let world = World::start();
    let trust = |name: &str, pair: &Pair| trust_bundle(name, &pair.certificate);
    let name = "example.com:internal:v1";
    let of_cluster = format!("{{group: certificates.k8s.io, kind: ClusterTrustBundle, name: \"{name}\"}}");
    let other = "{group: \"\", kind: ConfigMap, name: other}";
    let believing = |references: &str| world.hold(&format!("caCertificateRefs: [{references}], hostname: {HOST}"));
    believing(&of_cluster);
    world.until_told(&format!("ClusterTrustBundle {name} does not exist"));
    world.until(503);
    world.running.write("trust.yaml", &trust(name, &world.pair)).unwrap();
    world.until(200);
    let nothing = "apiVersion: certificates.k8s.io/v1\nkind: ClusterTrustBundle\nmetadata: {name: \"NAME\"}\nspec: {trustBundle: none}\n";
    world.running.write("trust.yaml", &nothing.replace("NAME", name)).unwrap();
    world.until(503);
    // of several each is believed, wherever it stands, and one that is missing costs the others nothing
    world.running.write("trust.yaml", &trust(name, &world.pair)).unwrap();
    believing(&format!("{other}, {of_cluster}"));
    world.until(200);
    believing(&format!("{of_cluster}, {{group: \"\", kind: Secret, name: nowhere}}, {other}"));
    world.until_told("Secret default/nowhere does not exist");
    world.until(200);
    world.running.remove("trust.yaml").unwrap();
    world.until(503);
}

#[test]
fn a_policy_that_cannot_be_used_closes_the_way() {
    let world = World::start();
    world.hold(&trusting("ca", "hostname: web.example.com"));
    world.until(200);
    world.hold(&trusting("later", "hostname: web.example.com"));
    world.until(503);
    world.until_told("NoValidCACertificate");
    // of two policies the first counts, broken or not
    world.running.write("second.yaml", &policy("second", &trusting("ca", "hostname: web.example.com"))).unwrap();
    world.until_told("Conflicted");
    assert_eq!(world.ask().unwrap().status, 503);
    world.running.write("later.yaml", &ca_config_map("later", &world.pair.certificate)).unwrap();
    world.until(200);
    world
        .running
        .write("later.yaml", &ca_config_map("later", &world.pair.certificate).replace("-----BEGIN", "-----GONE"))
        .unwrap();
    world.until(503);
    world.running.remove("policy.yaml").unwrap();
    world.until(200);
}

#[test]
fn no_request_is_lost_while_policies_change() {
    let world = World::start();
    let names = "hostname: web.example.com, subjectAltNames: [{type: Hostname, hostname: web.example.com}]";
    world.hold(&trusting("ca", names));
    world.until(200);
    let prober = Prober::default();
    thread::scope(|threads| {
        let _asking = prober.until_dropped();
        let allowed: &[(&str, &[&str])] = &[("/", &["web"])];
        threads.spawn(|| prober.run(|_| world.ask(), allowed));
        for round in 0..10 {
            let another = format!(
                "subjectAltNames: [{{type: URI, uri: \"spiffe://{round}\"}}, {{type: Hostname, hostname: {HOST}}}]"
            );
            world.hold(&trusting("ca", &format!("hostname: {HOST}, {another}")));
            world
                .running
                .write("ca.yaml", &(ca_config_map("ca", &world.pair.certificate) + &format!("  round: \"{round}\"\n")))
                .unwrap();
            world.hold(&trusting("ca", "hostname: web.example.com"));
            let of_port = policy("a-port", &trusting("ca", names)).replace("secure}", "secure, sectionName: http}");
            world.running.write("port.yaml", &of_port).unwrap();
            world.until(200);
            world.running.remove("port.yaml").unwrap();
            prober.more(3).unwrap();
        }
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{wrong:?} of {asked}");
}
