//! A real Envoy 1.40 over every transport: both variants, one stream or one for each kind, a Unix socket or TCP with mutual TLS, whose
//! certificates and authorities change.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::authority::{Authority, Pair};
use super::client::DEADLINE;
use super::proxy::{Backend, Envoy, Loop, Transport, free_address, get, wait_for};
use super::resources::{cluster, endpoints, listener, routes};
use super::stage::socket;
use crate::wire::Variant;
use crate::{Change, Event, FleetUpdate, Fleets, Gate, Limits, Pem, Server, Tls};

const SOON: Duration = Duration::from_secs(8);

/// Writes what Envoy needs to show a certificate and to trust these authorities, and gives the transport socket.
fn transport_socket(folder: &Path, Pair { certificate, key }: &Pair, trusted: &str) -> String {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        format!(r#"{{"filename": "{}"}}"#, path.display())
    };
    let (certificate, key) = (file("client.crt", certificate), file("client.key", key));
    let trusted = file("ca.crt", trusted);
    format!(
        r#"{{"name": "tls", "typed_config": {{
          "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", "sni": "server",
          "common_tls_context": {{
            "tls_certificates": [{{"certificate_chain": {certificate}, "private_key": {key}}}],
            "validation_context": {{"trusted_ca": {trusted}, "match_typed_subject_alt_names": [
              {{"san_type": "DNS", "matcher": {{"exact": "server"}}}}]}}}}}}}}"#
    )
}

fn gate(limits: Limits) -> Gate {
    let only = |name: &str| Fleets::These(name.strip_prefix("spiffe://td/").map(Into::into).into_iter().collect());
    Gate::new(std::sync::Arc::new(move |identity| only(&identity.name)), limits)
}

/// The story for each row of the table.
macro_rules! matrix {
    ($($row:ident: $variant:ident, $aggregated:expr, $way:ident;)*) => {$(
        #[test]
        fn $row() {
            Transport { variant: Variant::$variant, aggregated: $aggregated }.run(|| {
                an_envoy_is_served_through_changes_rotations_and_a_restart(Way::$way);
            });
        }
    )*};
}

matrix! {
    delta_ads_over_a_unix_socket: Delta, true, Unix;
    delta_ads_over_mutual_tls: Delta, true, MutualTls;
    delta_for_each_kind_over_a_unix_socket: Delta, false, Unix;
    delta_for_each_kind_over_mutual_tls: Delta, false, MutualTls;
    sotw_ads_over_a_unix_socket: Sotw, true, Unix;
    sotw_ads_over_mutual_tls: Sotw, true, MutualTls;
    sotw_for_each_kind_over_a_unix_socket: Sotw, false, Unix;
    sotw_for_each_kind_over_mutual_tls: Sotw, false, MutualTls;
}

/// How an Envoy reaches the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unix,
    MutualTls,
}

/// A server, and where it listens.
struct Stand {
    server: Server,
    events: mpsc::Receiver<Vec<Event>>,
    tls: Tls,
    at: SocketAddr,
}

impl Stand {
    fn start(runtime: &Runtime, way: Way, folder: &Path, at: SocketAddr, pem: &Pem) -> Self {
        let (sender, events) = mpsc::channel::<Vec<Event>>(64);
        let server = Server::start(runtime.handle(), sender);
        let tls = Tls::new(pem).unwrap();
        let at = match way {
            Way::MutualTls => server.listen_tls(at, tls.clone(), gate(Limits::default())).unwrap(),
            Way::Unix => {
                server.listen_unix(&socket(folder), "ns/gw".into(), None).unwrap();
                at
            }
        };
        Self { server, events, tls, at }
    }

    fn publish(&self, changes: Vec<Change>) {
        self.server.publish(vec![FleetUpdate { fleet: "ns/gw".into(), changes }]);
    }

    /// Whether a stream has ended.
    fn lost_a_stream(&mut self) -> bool {
        let batches = std::iter::from_fn(|| self.events.try_recv().ok());
        batches.flatten().any(|event| matches!(event, Event::Gone { .. }))
    }
}

fn an_envoy_is_served_through_changes_rotations_and_a_restart(way: Way) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (old, next) = (Authority::new("old"), Authority::new("next"));
    let mut stand = Stand::start(&runtime, way, folder.path(), free_address(), &old.server(&[&old]));
    let (backend, port) = (Backend::start("a"), free_address());
    let all = |version| vec![cluster("a", version), endpoints("a", 1, backend.address), listener(port), routes(1, "a")];
    stand.publish(all(1));
    let both = format!("{}{}", old.pem, next.pem);
    let envoy = match way {
        Way::Unix => Envoy::start(folder.path(), &socket(folder.path())),
        Way::MutualTls => {
            let port = stand.at.port();
            let address = format!(r#"{{"socket_address": {{"address": "127.0.0.1", "port_value": {port}}}}}"#);
            let socket = transport_socket(folder.path(), &old.issue("spiffe://td/ns/gw"), &both);
            Envoy::start_at(folder.path(), &address, &socket)
        }
    };
    wait_for("an answer", SOON, || get(port, "any") == "200 a");
    let requests = Loop::start(port, "any");

    // the server's certificate, its authority and that of clients change: the stream stays
    let rotated = Pem { client_ca: both.clone().into(), ..next.server(&[]) };
    stand.tls.replace(&rotated).unwrap();
    for version in 2..5 {
        stand.publish(vec![cluster("a", version)]);
        envoy.wait_for_cluster(version, SOON);
    }
    assert!(!stand.lost_a_stream());

    // after a restart Envoy comes back and takes the new certificate
    runtime.block_on(stand.server.stop(DEADLINE));
    let at = stand.at;
    drop(stand);
    let mut stand = Stand::start(&runtime, way, folder.path(), at, &rotated);
    stand.publish(all(5));
    envoy.wait_for_cluster(5, SOON);
    stand.publish(vec![cluster("a", 6)]);
    envoy.wait_for_cluster(6, SOON);
    assert!(!stand.lost_a_stream());
    requests.lost_none();
    drop(envoy);
    runtime.block_on(stand.server.stop(DEADLINE));
}

#[test]
fn connections_that_end_by_age_lose_no_request_and_no_change() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let (sender, mut receiver) = mpsc::channel::<Vec<Event>>(64);
    let server = Server::start(runtime.handle(), sender);
    let tls = Tls::new(&authority.server(&[&authority])).unwrap();
    let brief = Limits { age: Some(Duration::from_millis(300)), ..Limits::default() };
    let at = server.listen_tls("127.0.0.1:0".parse().unwrap(), tls, gate(brief)).unwrap();
    let (backend, port) = (Backend::start("a"), free_address());
    let publish = |changes: Vec<Change>| server.publish(vec![FleetUpdate { fleet: "ns/gw".into(), changes }]);
    publish(vec![cluster("a", 1), endpoints("a", 1, backend.address), listener(port), routes(1, "a")]);
    let address = format!(r#"{{"socket_address": {{"address": "127.0.0.1", "port_value": {}}}}}"#, at.port());
    let socket = transport_socket(folder.path(), &authority.issue("spiffe://td/ns/gw"), &authority.pem);
    let envoy = Envoy::start_at(folder.path(), &address, &socket);
    wait_for("an answer", SOON, || get(port, "any") == "200 a");
    let requests = Loop::start(port, "any");
    let (mut gone, mut version) = (0, 1);
    while gone < 2 {
        version += 1;
        publish(vec![cluster("a", version)]);
        envoy.wait_for_cluster(version, 2 * SOON);
        while let Ok(events) = receiver.try_recv() {
            gone += events.iter().filter(|event| matches!(event, Event::Gone { .. })).count();
        }
    }
    requests.lost_none();
    drop(envoy);
    runtime.block_on(server.stop(DEADLINE));
}
