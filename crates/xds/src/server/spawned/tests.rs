//! Tasks that hold their executor, as those of the library do, and every kind of ending of a connection over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::super::connection::{self, Came};
use super::super::gate::Peer;
use super::super::places::Places;
use super::*;
use crate::{Fleets, Gate, Limits, Server};

/// Longest wait for anything here.
const DEADLINE: Duration = Duration::from_secs(20);

/// Streams that an attacker opens in one write.
const STREAMS: u32 = 200;

#[test]
fn tasks_that_hold_their_executor_end_with_their_connection() {
    let owner = TaskOwner::new();
    let (executor, alive) = (owner.executor(), Arc::new(()));
    let task = |alive: &Arc<()>| {
        let kept = (executor.clone(), Arc::clone(alive));
        async move { drop(kept) }
    };
    executor.execute(task(&alive));
    let taken = executor.take();
    executor.execute(task(&alive));
    assert_eq!((taken.len(), Arc::strong_count(&alive)), (1, 3));
    drop(owner);
    assert_eq!(Arc::strong_count(&alive), 2, "what was not taken ends with the connection");
    executor.execute(task(&alive));
    assert_eq!((executor.take().len(), Arc::strong_count(&alive)), (0, 2), "and so does what comes later");
    drop(taken);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// A task that spawns another when it is dropped.
struct SpawnsAtItsEnd(Spawned, Arc<()>);

impl Drop for SpawnsAtItsEnd {
    fn drop(&mut self) {
        let alive = Arc::clone(&self.1);
        self.0.execute(async move { drop(alive) });
    }
}

#[test]
fn a_task_that_spawns_while_it_is_dropped_leaves_nothing() {
    let (owner, alive) = (TaskOwner::new(), Arc::new(()));
    let executor = owner.executor();
    for _ in 0..2 {
        let last = SpawnsAtItsEnd(executor.clone(), Arc::clone(&alive));
        executor.execute(async move { drop(last) });
    }
    drop(owner);
    assert_eq!((executor.take().len(), Arc::strong_count(&alive)), (0, 1));
    let last = SpawnsAtItsEnd(executor.clone(), Arc::clone(&alive));
    executor.execute(async move { drop(last) });
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a client says first: the preface and its settings.
fn hello() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(4, 0, 0, &[])].concat()
}

/// The numbers of the streams that a client opens.
fn numbers(streams: u32) -> impl Iterator<Item = u32> {
    (0..streams).map(|n| 2 * n + 1)
}

/// A request of a discovery stream that goes on: method, scheme, path, content type.
fn request(stream: u32) -> Vec<u8> {
    let path = b"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let (length, kind) = (u8::try_from(path.len()).unwrap(), b"application/grpc");
    let head = [&[0x83, 0x86, 0x04, length], &path[..], &[0x0f, 0x10, 16], kind].concat();
    frame(1, 4, stream, &head)
}

/// The requests of a client, all in one write.
fn requests() -> Vec<u8> {
    numbers(STREAMS).flat_map(request).collect()
}

/// A window that grows beyond what it may have.
fn overflow(stream: u32) -> Vec<u8> {
    frame(8, 0, stream, &0x7fff_ffff_u32.to_be_bytes())
}

fn server() -> Server {
    let (events, mut received) = mpsc::channel(8);
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    Server::start(&Handle::current(), events)
}

fn listen(server: &Server, limits: Limits) -> SocketAddr {
    let gate = Gate::new(Arc::new(|_| Fleets::Any), limits);
    server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap()
}

/// Each connection and each call holds the server: waits until so many do.
async fn settle(server: &Server, holders: usize, what: &str) {
    let begin = Instant::now();
    while Arc::strong_count(&server.0) != holders {
        let now = Arc::strong_count(&server.0);
        assert!(begin.elapsed() < DEADLINE, "{what}: {now} hold the server instead of {holders}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The ways in which a client ends its connection next to streams that it opens in the same write.
fn endings() -> Vec<(&'static str, Vec<u8>)> {
    let resets = numbers(2_000).flat_map(|stream| [request(stream), overflow(stream)].concat()).collect();
    vec![
        ("the client closes", requests()),
        ("DATA on no stream", [requests(), frame(0, 0, 0, &[0])].concat()),
        ("an overflow of the connection's window", [requests(), overflow(0)].concat()),
        ("resets that the server is made to send", resets),
        ("GOAWAY", [requests(), frame(7, 0, 0, &[0; 8])].concat()),
        ("GOAWAY in the middle", [requests(), frame(7, 0, 0, &[0; 8]), request(2 * STREAMS + 1)].concat()),
        ("GOAWAY with an error", [requests(), frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 1])].concat()),
        ("the middle of a frame", [requests(), vec![0, 0, 9]].concat()),
        ("headers that cannot be read", [requests(), frame(1, 4, 2 * STREAMS + 1, &[0xff; 9])].concat()),
        ("a frame that is too large", [requests(), frame(0, 0, 1, &[0; 20_000])].concat()),
        ("many settings", [requests(), frame(4, 0, 0, &[]).repeat(200)].concat()),
        ("CONNECT", [requests(), frame(1, 4, 2 * STREAMS + 1, b"\x02\x07CONNECT\x01\x01a")].concat()),
    ]
}

#[tokio::test]
async fn nothing_is_left_of_a_connection_however_its_client_ends_it() {
    let server = server();
    let at = listen(&server, Limits::default());
    settle(&server, Arc::strong_count(&server.0), "at the beginning").await;
    tokio::task::yield_now().await;
    let before = Arc::strong_count(&server.0);
    for (what, bytes) in endings() {
        for _ in 0..3 {
            let mut client = TcpStream::connect(at).await.unwrap();
            // it may be cut off in the midst of it
            let _sent = client.write_all(&[hello(), bytes.clone()].concat()).await;
            let _half = client.shutdown().await;
            let mut answer = Vec::new();
            let _reset = timeout(DEADLINE, client.read_to_end(&mut answer)).await.expect("an end");
        }
        settle(&server, before, what).await;
    }
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_connection_that_the_server_ends() {
    let server = server();
    let age = Some(Duration::from_millis(50));
    let at = listen(&server, Limits { age, ..Limits::default() });
    tokio::task::yield_now().await;
    let before = Arc::strong_count(&server.0);
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(&[hello(), requests()].concat()).await.unwrap();
    let mut answer = Vec::new();
    let _reset = timeout(DEADLINE, client.read_to_end(&mut answer)).await.expect("an end");
    settle(&server, before, "age").await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(&[hello(), requests()].concat()).await.unwrap();
        clients.push(client);
    }
    server.stop(DEADLINE).await;
    settle(&server, 1, "the server stops").await;
}

#[tokio::test]
async fn nothing_is_left_of_a_connection_whose_task_is_aborted_or_panics() {
    let server = server();
    tokio::task::yield_now().await;
    let before = Arc::strong_count(&server.0);
    for (what, panics) in [("aborted", false), ("a panic", true)] {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let gate =
            Gate::new(Arc::new(move |_| if panics { panic!("in a test") } else { Fleets::Any }), Limits::default());
        let place = Places::new(gate.limits(), Arc::default()).arrive(None).ok().unwrap();
        let came = Came { io: Box::new(near), peer: Peer::Loopback, from: None, gate, place };
        let (_stop, stopped) = watch::channel(false);
        let task = tokio::spawn(connection::serve(Arc::clone(&server.0), came, stopped));
        // an empty message for the first stream makes the gate look at who calls
        let said = [hello(), requests(), frame(0, 0, 1, &[0; 5])].concat();
        far.write_all(&said).await.unwrap();
        let mut first = [0; 9];
        timeout(DEADLINE, far.read_exact(&mut first)).await.unwrap().unwrap();
        if !panics {
            far.write_all(&[request(2 * STREAMS + 1), request(2 * STREAMS + 3)].concat()).await.unwrap();
            task.abort();
        }
        assert!(timeout(DEADLINE, task).await.unwrap().is_err(), "{what}");
        settle(&server, before, what).await;
    }
    server.stop(DEADLINE).await;
}
