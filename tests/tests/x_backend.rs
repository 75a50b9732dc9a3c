//! `XBackend`s that are spoken to over TLS and over HTTP/2, of requests, calls and connections: from files, through a real Envoy to servers that are
//! particular about it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tests::backend::Backend;
use tests::certificate::{Pair, authority, issued, self_signed};
use tests::client::{Answer, get};
use tests::grpc::{Called, GrpcBackend, call};
use tests::objects::{ca_config_map, documents, listeners, ruled, tls_secret};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

const HOST: &str = "web.example.com";

/// Starts a server that speaks TLS only, and asks for certificates of this authority if there is one. It answers one request of each connection, with
/// whether it was shown a certificate. It goes on until the test ends.
fn serve_tls(own: &Pair, clients: Option<&Pair>) -> u16 {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = |pair: &Pair| CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(authority)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
    let config = Arc::new(builder.with_single_cert(vec![certificate(own)], key).unwrap());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || answer(config, socket));
        }
    });
    port
}

/// Who is refused has no answer.
fn answer(config: Arc<ServerConfig>, socket: TcpStream) -> anyhow::Result<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, socket));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        anyhow::ensure!(stream.read_line(&mut head)? > 0, "the connection ended");
    }
    let stream = stream.get_mut();
    let name = stream.conn.server_name().unwrap_or("nobody").to_owned();
    let shown = if stream.conn.peer_certificates().is_some() { "known" } else { "unknown" };
    let body = format!("{shown} to {name}");
    write!(stream, "HTTP/1.1 200 .\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(())
}

/// An `XBackend` `ext` of Pods at this port, with these fields (in one line), and its Pod.
fn x_backend(port: u16, fields: &str) -> String {
    let backend = format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {{name: ext}}\nspec: {{type: EndpointSelector, port: {{number: \
         {port}}}, endpointSelector: {{matchLabels: {{app: ext}}}}{fields}}}\n"
    );
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: ext, labels: {app: ext}}\nstatus:\n  phase: Running\n  podIP: 127.0.0.1\n  \
               conditions: [{type: Ready, status: \"True\"}]\n";
    documents([&*backend, pod])
}

const RULES: &str = "  rules:\n  - backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: ext}]\n";

/// A route of the kind to `ext`, on the listener that has the kind's name.
fn route(kind: &str) -> String {
    let name = kind.to_lowercase();
    ruled(&name, RULES).replacen("kind: HTTPRoute", &format!("kind: {kind}"), 1).replacen(
        "name: edge\n",
        &format!("name: edge\n    sectionName: {name}\n"),
        1,
    )
}

/// TLS of this mode (and more) to one of this name whose certificate this ConfigMap has.
fn tls(mode: &str, hostname: &str, bundle: &str) -> String {
    format!(
        ", tls: {{mode: {mode}, validation: {{hostname: {hostname}, caCertificateRefs: [{{group: \"\", kind: ConfigMap, name: {bundle}}}]}}}}"
    )
}

/// Routes to `ext` on ports for requests, calls and connections.
struct World {
    running: Running,
    http: u16,
    grpc: u16,
    tcp: u16,
}

impl World {
    fn start(ext: &str, objects: &[String]) -> Self {
        let [http, grpc, tcp] = free_ports().unwrap();
        let listener = |name: &str, port: u16, protocol: &str| {
            format!("  - {{name: {name}, port: {port}, protocol: {protocol}}}\n")
        };
        let all = [
            listeners(
                &[
                    listener("httproute", http, "HTTP"),
                    listener("grpcroute", grpc, "HTTP"),
                    listener("tcproute", tcp, "TCP"),
                ]
                .concat(),
            ),
            route("HTTPRoute"),
            route("GRPCRoute"),
            route("TCPRoute").replace("gateway.networking.k8s.io/v1\n", "gateway.networking.k8s.io/v1alpha2\n"),
        ];
        let mut running = Running::prepare().unwrap();
        running.write("all.yaml", &documents(all.iter().chain(objects).map(String::as_str))).unwrap();
        running.write("ext.yaml", ext).unwrap();
        running.start().unwrap();
        Self { running, http, grpc, tcp }
    }

    fn ext(&self, ext: &str) {
        self.running.write("ext.yaml", ext).unwrap();
    }

    fn until_answered(&self, port: u16, body: &str) {
        let wanted = Answer { status: 200, body: body.to_owned() };
        let asked = || get(port, HOST, "/").ok().filter(|answer| *answer == wanted);
        wait::until(&format!("{wanted:?}"), asked).unwrap();
    }

    fn until_status(&self, status: u16) {
        let asked = || get(self.http, HOST, "/").ok().filter(|answer| answer.status == status);
        wait::until(&format!("{status}"), asked).unwrap();
    }

    fn until_called(&self, code: u32, text: &str) {
        let wanted = Called { code, text: text.to_owned() };
        let called = || call(self.grpc, HOST, "/a.S/Get", &[]).ok().filter(|called| *called == wanted);
        wait::until(&format!("{wanted:?}"), called).unwrap();
    }
}

#[test]
fn a_server_behind_tls_is_verified() {
    let own = self_signed(&[HOST], false).unwrap();
    let other = self_signed(&["other.example.com"], false).unwrap();
    let port = serve_tls(&own, None);
    let world = World::start(
        &x_backend(port, ""),
        &[ca_config_map("ca", &own.certificate), ca_config_map("other", &other.certificate)],
    );
    // it answers what is no TLS with an alert, which is no HTTP
    world.until_status(502);
    world.ext(&x_backend(port, &tls("ServerOnly", HOST, "ca")));
    world.until_answered(world.http, "unknown to web.example.com");
    // what comes over a connection in cleartext goes on over TLS as well
    world.until_answered(world.tcp, "unknown to web.example.com");
    let wrongs = [
        (tls("ServerOnly", HOST, "other"), 503),
        (tls("ServerOnly", "no.example.com", "ca"), 503),
        (", tls: {mode: None}".to_owned(), 502),
    ];
    for (wrong, status) in wrongs {
        world.ext(&x_backend(port, &wrong));
        world.until_status(status);
        world.ext(&x_backend(port, &tls("ServerOnly", HOST, "ca")));
        world.until_answered(world.http, "unknown to web.example.com");
    }
    // what is believed is replaced and comes back
    world.running.write("replaced.yaml", &ca_config_map("mine", &other.certificate)).unwrap();
    world.ext(&x_backend(port, &tls("ServerOnly", HOST, "mine")));
    world.until_status(503);
    world.running.write("replaced.yaml", &ca_config_map("mine", &own.certificate)).unwrap();
    world.until_answered(world.http, "unknown to web.example.com");
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_that_of_the_backend() {
    let own = self_signed(&[HOST], false).unwrap();
    let [clients, strangers] = ["a.example", "b.example"].map(|name| authority(name).unwrap());
    let [good, bad] = [&clients, &strangers].map(|authority| issued("envoy.example", authority).unwrap());
    let port = serve_tls(&own, Some(&clients));
    let both = tls("ClientAndServer", HOST, "ca").replace("mode:", "clientCertificateRef: {name: shown}, mode:");
    let world =
        World::start(&x_backend(port, &tls("ServerOnly", HOST, "ca")), &[ca_config_map("ca", &own.certificate)]);
    let secret =
        |pair: &Pair| world.running.write("shown.yaml", &tls_secret("shown", &pair.certificate, &pair.key)).unwrap();
    // nothing is shown
    world.until_status(503);
    secret(&good);
    world.ext(&x_backend(port, &both));
    world.until_answered(world.http, "known to web.example.com");
    secret(&bad);
    world.until_status(503);
    secret(&good);
    world.until_answered(world.http, "known to web.example.com");
    // without what is to be shown nothing is sent
    world.running.remove("shown.yaml").unwrap();
    world.until_status(500);
    secret(&good);
    world.until_answered(world.http, "known to web.example.com");
}

#[test]
fn the_protocol_says_whether_requests_go_over_http_2() {
    let (two, one) = (GrpcBackend::start("two").unwrap(), Backend::start("one").unwrap());
    let world = World::start(&x_backend(two.port, ""), &[]);
    // such a server does not understand HTTP/1.1, nor the other one HTTP/2
    world.until_status(502);
    for protocol in ["H2C", "GRPC"] {
        world.ext(&x_backend(two.port, &format!(", protocol: {protocol}")));
        let asked =
            || get(world.http, HOST, "/").ok().filter(|answer| answer.status == 200 && answer.body.contains("two"));
        wait::until(protocol, asked).unwrap();
        world.ext(&x_backend(one.port, &format!(", protocol: {protocol}")));
        world.until_status(502);
        world.ext(&x_backend(one.port, ", protocol: HTTP"));
        world.until_answered(world.http, "one");
    }
}

#[test]
fn calls_and_connections_arrive_while_it_is_replaced() {
    let (two, one) = (GrpcBackend::start("two").unwrap(), Backend::start("one").unwrap());
    let world = World::start(&x_backend(one.port, ""), &[]);
    for fields in ["", ", protocol: HTTP"] {
        world.ext(&x_backend(one.port, fields));
        world.until_answered(world.tcp, "one");
        world.until_answered(world.http, "one");
        world.ext(&x_backend(two.port, fields));
        // a call goes over HTTP/2 whatever else goes there
        world.until_called(0, "two");
    }
    world.ext(&x_backend(two.port, ", protocol: H2C"));
    world.until_called(0, "two");
    let through = || call(world.tcp, HOST, "/a.S/Get", &[]).ok().filter(|called| called.text == "two");
    wait::until("a call through a connection", through).unwrap();
}
