//! Crowds at a listener: silent connections, halves of handshakes, identities with many connections, clients that read nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::authority::Authority;
use super::client::{CDS, Client, DEADLINE, DELTA};
use crate::{
    Change, Event, FleetUpdate, Fleets, Gate, Limits, Rate, RefusalReason, Resource, Server, Tls, TypeUrl, Version,
};

/// Clusters of the fleet.
const CLUSTERS: usize = 20;

/// A TLS listener whose clients may have the fleet `ns/a`, each as who its certificate says.
struct Stage {
    server: Server,
    at: SocketAddr,
    authority: Authority,
    events: mpsc::Receiver<Vec<Event>>,
}

impl Stage {
    /// With clusters of so many bytes.
    fn new(limits: Limits, size: usize) -> Self {
        let (sender, events) = mpsc::channel(64);
        let server = Server::start(&Handle::current(), sender);
        let body = Bytes::from(vec![0; size]);
        let cluster = |n: usize| Resource::new(TypeUrl::Cluster, n.to_string(), Version(1), [body.clone()]);
        let changes = (0..CLUSTERS).map(|n| Change::Put(cluster(n).into())).collect();
        server.publish(vec![FleetUpdate { fleet: "ns/a".into(), changes }]);
        let authority = Authority::new("one");
        let tls = Tls::new(&authority.server(&[&authority])).unwrap();
        let gate = Gate::new(Arc::new(|_| Fleets::These(vec!["ns/a".into()])), limits);
        let at = server.listen_tls("127.0.0.1:0".parse().unwrap(), tls, gate).unwrap();
        Self { server, at, authority, events }
    }

    /// A client with a stream that asks for all clusters.
    async fn client(&self, name: &str) -> Client {
        let io = self.authority.connect(self.at, Some(&self.authority.issue(name))).await.unwrap();
        let client = Client::call(io, DELTA, None).await;
        if !client.headers.contains_key("grpc-status") {
            client.subscribe(Some("ns/a"), CDS, &[]).await;
        }
        client
    }

    /// A client that has got all clusters.
    async fn served(&self, name: &str) -> Client {
        let mut client = self.client(name).await;
        assert_eq!(client.names().await.len(), CLUSTERS);
        client
    }

    /// A connection from another address of this machine, on which this is sent.
    async fn from(&self, last: u8, sent: &[u8]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        let mut stream = socket.connect(self.at).await.unwrap();
        // it may be refused already
        let _sent = stream.write_all(sent).await;
        stream
    }

    fn refused(&self, reason: RefusalReason) -> u64 {
        self.server.refusals().into_iter().find(|(one, _)| *one == reason).map_or(0, |(_, count)| count)
    }
}

fn limits() -> Limits {
    Limits { places: 64, share: 8, handshakes: 8, handshake: Duration::from_secs(1), ..Limits::default() }
}

#[tokio::test]
async fn silent_connections_and_halves_of_handshakes_keep_no_proxy_out() {
    // a hello of TLS whose rest does not come
    for sent in [&b""[..], &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]] {
        let stage = Stage::new(limits(), 0);
        let mut held = Vec::new();
        for _ in 0..300 {
            held.push(stage.from(2, sent).await);
        }
        for _ in 0..5 {
            stage.served("spiffe://td/ns/a").await;
        }
        assert!(stage.refused(RefusalReason::Share) > 0);
        for last in 3..40 {
            for _ in 0..9 {
                held.push(stage.from(last, sent).await);
            }
        }
        stage.served("spiffe://td/ns/a").await;
        assert!(stage.refused(RefusalReason::Silent) > 0);
        stage.server.stop(DEADLINE).await;
    }
}

#[tokio::test]
async fn an_identity_with_its_share_leaves_the_last_places_to_others() {
    let stage = Stage::new(Limits { places: 16, share: 2, ..Limits::default() }, 0);
    let mut held = Vec::new();
    for _ in 0..12 {
        held.push(stage.served("spiffe://td/a").await);
    }
    let refused = stage.client("spiffe://td/a").await;
    assert_eq!(refused.headers["grpc-status"], "8");
    held.push(stage.served("spiffe://td/b").await);
    assert_eq!(stage.refused(RefusalReason::Share), 1);
    stage.server.stop(DEADLINE).await;
}

#[tokio::test]
async fn names_that_come_with_all_others_count_among_those_of_an_identity() {
    let stage = Stage::new(Limits { names: 50, ..Limits::default() }, 0);
    let _held = [stage.served("spiffe://td/a").await, stage.served("spiffe://td/a").await];
    assert_eq!(stage.client("spiffe://td/a").await.next().await, Err("8".into()));
    assert!(stage.refused(RefusalReason::Names) > 0);
    stage.served("spiffe://td/b").await;
    stage.server.stop(DEADLINE).await;
}

#[tokio::test]
async fn sockets_of_this_machine_count_with_each_other() {
    let (sender, _events) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), sender);
    server.bound(Limits { names: 30, all_names: 40, ..Limits::default() });
    let cluster = |n: usize| Resource::new(TypeUrl::Cluster, n.to_string(), Version(1), [Bytes::new()]);
    let changes = (0..CLUSTERS).map(|n| Change::Put(cluster(n).into())).collect();
    server.publish(vec![FleetUpdate { fleet: "ns/a".into(), changes }]);
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| server.listen_unix(path, "ns/a".into(), None).unwrap());
    let [mut first, mut second] = [Client::unix(&paths[0]).await, Client::unix(&paths[1]).await];
    first.subscribe(Some("ns/a"), CDS, &[]).await;
    assert_eq!(first.names().await.len(), CLUSTERS);
    second.subscribe(Some("ns/a"), CDS, &[]).await;
    assert_eq!(second.next().await, Err("8".into()));
    let names = server.refusals().into_iter().find(|(reason, _)| *reason == RefusalReason::Names);
    assert!(names.is_some_and(|(_, count)| count > 0));
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn what_waits_in_small_frames_beyond_the_buffer_ends_the_connection_and_is_counted() {
    let stream = Rate { per_second: 1, burst: 1 };
    let stage = Stage::new(Limits { stream, buffer: 128 << 10, ..Limits::default() }, 0);
    let client = stage.served("spiffe://td/a").await;
    let sender = client.sender();
    // messages without content, none of which is taken before a second is over
    for _ in 0..20_000 {
        if sender.send(Bytes::from_static(&[0; 5])).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let begin = tokio::time::Instant::now();
    while stage.refused(RefusalReason::Buffer) == 0 {
        assert!(begin.elapsed() < DEADLINE, "the connection goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.served("spiffe://td/b").await;
    stage.server.stop(DEADLINE).await;
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_ends_with_all_that_is_kept_of_it() {
    let taken = Duration::from_millis(300);
    let mut stage = Stage::new(Limits { taken, ..Limits::default() }, 1 << 20);
    let mut deaf = stage.client("spiffe://td/a").await;
    let mut gone = false;
    while !gone {
        let events = tokio::time::timeout(DEADLINE, stage.events.recv()).await.expect("its end").unwrap();
        gone = events.iter().any(|event| matches!(event, Event::Gone { connected: 0, .. }));
    }
    assert_eq!(stage.refused(RefusalReason::SlowReader), 1);
    // what was on its way, and then the status
    assert_eq!(deaf.next().await, Err("8".into()));
    stage.served("spiffe://td/a").await;
    stage.server.stop(DEADLINE).await;
}
