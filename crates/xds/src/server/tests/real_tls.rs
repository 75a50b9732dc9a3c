//! A real Envoy 1.40 over mutual TLS, while certificates and authorities change.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;

use super::authority::{Authority, Pair};
use super::client::DEADLINE;
use super::proxy::{Backend, Envoy, Loop, free_address, get, wait_for};
use super::resources::{cluster, endpoints, listener, routes};
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

#[test]
fn an_envoy_with_a_certificate_is_served_through_rotations_and_a_restart() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (old, next) = (Authority::new("old"), Authority::new("next"));
    let (sender, mut receiver) = mpsc::channel::<Vec<Event>>(64);
    let server = Server::start(runtime.handle(), sender);
    let tls = Tls::new(&old.server(&[&old])).unwrap();
    let at = server.listen_tls("127.0.0.1:0".parse().unwrap(), tls.clone(), gate(Limits::default())).unwrap();
    let backend = Backend::start("a");
    let port = free_address();
    let publish = |server: &Server, changes: Vec<Change>| {
        server.publish(vec![FleetUpdate { fleet: "ns/gw".into(), changes }]);
    };
    let all = |version| vec![cluster("a", version), endpoints("a", 1, backend.address), listener(port), routes(1, "a")];
    publish(&server, all(1));
    let address = format!(r#"{{"socket_address": {{"address": "127.0.0.1", "port_value": {}}}}}"#, at.port());
    let both = format!("{}{}", old.pem, next.pem);
    let socket = transport_socket(folder.path(), &old.issue("spiffe://td/ns/gw"), &both);
    let envoy = Envoy::start_at(folder.path(), &address, &socket);
    wait_for("an answer", SOON, || get(port, "any") == "200 a");

    // the server's certificate, its authority and that of clients change: the stream stays
    let rotated = Pem { client_ca: both.clone().into(), ..next.server(&[]) };
    tls.replace(&rotated).unwrap();
    publish(&server, vec![cluster("a", 2)]);
    envoy.wait_for_cluster(2, SOON);
    let mut gone = false;
    while let Ok(events) = receiver.try_recv() {
        gone |= events.iter().any(|event| matches!(event, Event::Gone { .. }));
    }
    assert!(!gone, "the stream was not interrupted");

    // after a restart Envoy comes back and takes the new certificate
    runtime.block_on(server.stop(DEADLINE));
    let (sender, _receiver) = mpsc::channel::<Vec<Event>>(64);
    let server = Server::start(runtime.handle(), sender);
    server.listen_tls(at, Tls::new(&rotated).unwrap(), gate(Limits::default())).unwrap();
    publish(&server, all(3));
    envoy.wait_for_cluster(3, SOON);
    assert_eq!(get(port, "any"), "200 a");
    drop(envoy);
    runtime.block_on(server.stop(DEADLINE));
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
    let (count, wrong) = requests.finish();
    assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    drop(envoy);
    runtime.block_on(server.stop(DEADLINE));
}
