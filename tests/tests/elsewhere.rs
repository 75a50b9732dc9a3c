//! A proxy that somebody else starts gets its configuration over TLS, by its certificate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::get;
use tests::objects::{gateway, route, service};
use tests::running::{Running, free_ports};
use tests::{binary, wait};

/// An Envoy of its own; it ends with this value.
struct Elsewhere(Child);

impl Elsewhere {
    /// With a certificate, trusting servers of a self-signed one.
    fn start(folder: &Path, xds: u16, own: &Pair, trusted: &[&Pair]) -> Self {
        let trusted: String = trusted.iter().map(|pair| &*pair.certificate).collect();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name).display().to_string()
        };
        let (certificate, key) = (file("client.crt", &own.certificate), file("client.key", &own.key));
        let trusted = file("trusted.crt", &trusted);
        let bootstrap = format!(
            r#"
node: {{ id: far, cluster: default/edge }}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services: [{{ envoy_grpc: {{ cluster_name: xds }} }}]
  cds_config: {{ ads: {{}}, resource_api_version: V3 }}
  lds_config: {{ ads: {{}}, resource_api_version: V3 }}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
    load_assignment:
      cluster_name: xds
      endpoints:
      - lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {xds} }} }} }} }}]
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: chancery.example
        common_tls_context:
          tls_certificates: [{{ certificate_chain: {{ filename: {certificate} }}, private_key: {{ filename: {key} }} }}]
          validation_context:
            trusted_ca: {{ filename: {trusted} }}
            match_typed_subject_alt_names: [{{ san_type: DNS, matcher: {{ exact: chancery.example }} }}]
"#
        );
        let config = file("envoy.yaml", &bootstrap);
        let log = File::create(folder.join("envoy.log")).unwrap();
        let child = Command::new(binary::envoy().unwrap())
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "-c", &config])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // it may have ended by itself
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn until_answers(port: u16, path: &str, body: &str) {
    wait::until(&format!("{body} at {path}"), || {
        get(port, "x.example", path).ok().filter(|answer| answer.status == 200 && answer.body == body)
    })
    .unwrap();
}

#[test]
fn an_envoy_elsewhere_is_served_by_its_certificate_while_certificates_change() {
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let write = |pair: &Pair, clients: &Pair| {
        for (name, text) in [("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &clients.certificate)] {
            std::fs::write(at(name), text).unwrap();
        }
    };
    let server = || self_signed(&["chancery.example"], false).unwrap();
    let client = || self_signed(&["edge.default"], false).unwrap();
    let (first, second, far, farther) = (server(), server(), client(), client());
    write(&first, &far);
    let [port, xds] = free_ports().unwrap();
    let address = format!("127.0.0.1:{xds}");
    let (certificate, key, authority) = (at("tls.crt"), at("tls.key"), at("ca.crt"));
    let mut running = Running::prepare().unwrap().with(&[
        "--no-envoy",
        "--xds-listen",
        &address,
        "--xds-tls-cert",
        &certificate,
        "--xds-tls-key",
        &key,
        "--xds-client-ca",
        &authority,
    ]);
    let one = Backend::start("one").unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.write("services.yaml", &service("one", one.port)).unwrap();
    running.write("routes.yaml", &route("shop", &[("/a", "one")])).unwrap();
    running.start().unwrap();
    let envoy = Elsewhere::start(place.path(), xds, &far, &[&first, &second]);
    until_answers(port, "/a", "one");

    // all three change: the stream stays, though nobody would trust its client any more
    write(&second, &farther);
    wait::until("the certificates to be replaced", || running.log().contains("were replaced").then_some(())).unwrap();
    running.write("routes.yaml", &route("shop", &[("/b", "one")])).unwrap();
    until_answers(port, "/b", "one");

    // a new connection needs one of the new authority
    drop(envoy);
    let refused = Elsewhere::start(place.path(), xds, &far, &[&first, &second]);
    wait::until("the old certificate to be refused", || {
        running.log().contains("an xDS connection is refused: ").then_some(())
    })
    .unwrap();
    drop(refused);
    let _envoy = Elsewhere::start(place.path(), xds, &farther, &[&second]);
    until_answers(port, "/b", "one");

    // a file that cannot be used changes nothing
    std::fs::write(&key, "no key").unwrap();
    let told = format!("--xds-tls-key {key}: no private key in PEM that can be used");
    wait::until("the broken key to be told", || running.log().contains(&told).then_some(())).unwrap();
    running.write("routes.yaml", &route("shop", &[("/c", "one")])).unwrap();
    until_answers(port, "/c", "one");
}
