//! Work that costs more than its bytes, as it is charged: TLS key updates, names, and connections of which nothing is known.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::authority::Authority;
use super::client::{CDS, Client, DEADLINE, DELTA, EDS};
use crate::server::calm::Calm;
use crate::server::gate::Peer;
use crate::server::limits::{Account, Accounts};
use crate::wire::message::DeltaDiscoveryRequest;
use crate::{
    Change, Cleartext, FleetUpdate, Fleets, Gate, KnownTokens, Limits, Resource, Server, Tls, TypeUrl, Version,
};

/// The beginning of HTTP/2, and the head of a frame of a kind that there is not, with as many bytes as one may have.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x77\0\0\0\0\x01";

/// Sends so many records of so many bytes, each with a key update before it or without, to a server that reads so many bytes at a time. Gives what it
/// was charged, as time, and how long it took.
async fn charged(records: usize, size: usize, updates: bool, at_once: usize) -> (Duration, Duration) {
    let authority = Authority::new("one");
    let tls = Tls::new(&authority.server(&[&authority])).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, account) = (listener.local_addr().unwrap(), Accounts::new(Limits::default()).of(&"a".into()));
    let (owned, pair) = (Arc::clone(&account), authority.issue("client"));
    let begin = Instant::now();
    let server = async move {
        let (stream, from) = listener.accept().await.unwrap();
        let (io, _) = tls.accept(stream, from.ip()).await.unwrap();
        let (mut calm, mut space) = (Calm::new(io, owned), vec![0; at_once]);
        while calm.read(&mut space).await.is_ok_and(|read| read > 0) {}
    };
    let client = async {
        let mut stream = authority.shake(at, Some(&pair)).await.unwrap();
        stream.write_all(BEGIN).await.unwrap();
        for _ in 0..records {
            if updates {
                stream.get_mut().1.refresh_traffic_keys().unwrap();
            }
            stream.write_all(&vec![0; size]).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream.shutdown().await.unwrap();
    };
    tokio::time::timeout(DEADLINE, async { tokio::join!(server, client) }).await.unwrap();
    (account.until_frames_are_paid(), begin.elapsed())
}

/// Time in which a microsecond of work is made good.
const A_MICROSECOND: Duration = Duration::from_micros(10);

#[tokio::test]
async fn tls_key_updates_are_charged_as_what_they_cost() {
    let (paid, took) = charged(2_000, 1, true, 16 << 10).await;
    assert!(paid + took >= A_MICROSECOND * 2_000 * 11, "{paid:?} in {took:?}");
}

#[tokio::test]
async fn records_that_bring_something_are_no_key_updates_however_they_are_read() {
    for (size, at_once) in [(1, 16 << 10), (1_000, 7), (16 << 10, 1_000)] {
        let records = 1_000;
        let (paid, _) = charged(records, size, false, at_once).await;
        // the unknown frame is 16 MiB long
        let most = u32::try_from(records).unwrap() + (16 << 10) + 100;
        assert!(paid <= A_MICROSECOND * most, "{size}, {at_once}: {paid:?}");
    }
}

/// A server with a fleet of so many clusters whose clients are all of one identity, and its account.
fn serve(clusters: usize) -> (Server, SocketAddr, Arc<Account>) {
    let (events, _) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), events);
    let cluster = |n: usize| Resource::new(TypeUrl::Cluster, format!("{n:05}"), Version(1), [Bytes::from_static(b"c")]);
    let changes = (0..clusters).map(|n| Change::Put(cluster(n).into())).collect();
    server.publish(vec![FleetUpdate { fleet: "f".into(), changes }]);
    let gate = Gate::new(Arc::new(|_| Fleets::Only("f".into())), Limits::default());
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate.clone()).unwrap();
    (server, at, gate.account(&Peer::Loopback))
}

/// Time in which a thousand names are made good.
const A_THOUSAND_NAMES: Duration = Duration::from_micros(2_500);

#[tokio::test]
async fn names_of_requests_are_charged_in_each_list() {
    let (server, at, account) = serve(1);
    let begin = Instant::now();
    let names: Vec<Bytes> = (0..20_000).map(|n| format!("{n:05}").into()).collect();
    let mut client = Client::tcp(at).await;
    let request = |subscribe: &[Bytes], unsubscribe: &[Bytes]| DeltaDiscoveryRequest {
        type_url: Bytes::from_static(EDS.as_bytes()),
        subscribe: subscribe.to_vec(),
        unsubscribe: unsubscribe.to_vec(),
        ..DeltaDiscoveryRequest::default()
    };
    client.send(request(&names, &[])).await;
    client.send(request(&[], &names)).await;
    client.send(request(&names[..1], &[])).await;
    client.next().await.unwrap();
    let (owed, took) = (account.until_names_are_paid(), begin.elapsed());
    assert!(owed + took >= A_THOUSAND_NAMES * 39, "{owed:?} in {took:?}");
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn first_answers_are_charged_for_the_names_that_they_have() {
    let (server, at, account) = serve(3_000);
    let begin = Instant::now();
    for _ in 0..5 {
        let mut client = Client::tcp(at).await;
        client.subscribe(Some("f"), CDS, &[]).await;
        assert_eq!(client.names().await.len(), 3_000);
    }
    let (owed, took) = (account.until_names_are_paid(), begin.elapsed());
    assert!(owed + took >= A_THOUSAND_NAMES * 15, "{owed:?} in {took:?}");
    server.stop(DEADLINE).await;
}

/// A client with this token, if its call is served.
async fn with_token(at: SocketAddr, token: &str) -> Option<Client> {
    let io = Box::new(TcpStream::connect(at).await.ok()?);
    let mut client = Client::call(io, DELTA, Some(token)).await;
    if client.headers.contains_key("grpc-status") {
        return None;
    }
    client.subscribe(Some("f"), CDS, &[]).await;
    client.next().await.ok().map(|_| client)
}

#[tokio::test]
async fn silent_connections_in_cleartext_keep_no_client_with_a_token_out() {
    let (events, _) = mpsc::channel(64);
    let server = Server::start(&Handle::current(), events);
    for fleet in ["f", "g"] {
        let cluster = Resource::new(TypeUrl::Cluster, "c", Version(1), [Bytes::from_static(b"c")]);
        server.publish(vec![FleetUpdate { fleet: fleet.into(), changes: vec![Change::Put(cluster.into())] }]);
    }
    let limits = Limits { places: 64, share: 8, connections: 48, ..Limits::default() };
    server.bound(limits);
    let tokens = KnownTokens::default();
    tokens.insert("token-f", "f".into());
    tokens.insert("token-g", "g".into());
    let gate = Gate::cleartext(tokens, Cleartext::default(), limits);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    let mut served = Vec::new();
    for _ in 0..20 {
        served.push(with_token(at, "token-f").await.expect("a client with a token is served"));
        silent.push(TcpStream::connect(at).await.unwrap());
    }
    // those that were let in have the share of their token, and leave places to that of others
    while let Some(client) = with_token(at, "token-f").await {
        served.push(client);
        assert!(served.len() <= 48, "more than its share");
    }
    assert!(with_token(at, "token-g").await.is_some());
    server.stop(DEADLINE).await;
}
