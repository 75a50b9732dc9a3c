//! However a connection ends, what it took is given back: no bytes of its streams are retained.
//!
//! Alone in its binary, because it counts the bytes of the whole process.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use xds::{Fleets, Gate, Limits, Server};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Longest wait for anything here.
const DEADLINE: Duration = Duration::from_secs(60);

/// Connections of an attacker, and the streams of each.
const CONNECTIONS: usize = 20;
const STREAMS: u32 = 500;

/// Bytes that may be retained after all of them: a stream that is retained costs some 3 KB, so that one connection would be 1.5 MB.
const MOST: usize = 256 << 10;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The preface and the settings of a client, and the requests of its streams, each with the start of a message.
fn requests() -> Vec<u8> {
    let path = b"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let kind = b"application/grpc";
    let head = [&[0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()], &path[..], &[0x0f, 0x10, 16], kind].concat();
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(4, 0, 0, &[])].concat();
    let streams = (0..STREAMS).flat_map(|n| [frame(1, 4, 2 * n + 1, &head), frame(0, 0, 2 * n + 1, &[0; 64])].concat());
    hello.into_iter().chain(streams).collect()
}

/// The ways in which a connection is ended next to streams that were opened in the same write.
fn endings() -> Vec<(&'static str, Vec<u8>)> {
    let overflow = |stream: u32| frame(8, 0, stream, &0x7fff_ffff_u32.to_be_bytes());
    vec![
        ("the client closes", Vec::new()),
        ("DATA on no stream", frame(0, 0, 0, &[0])),
        ("resets that the server is made to send", (0..STREAMS).flat_map(|n| overflow(2 * n + 1)).collect()),
        ("an overflow of the connection's window", overflow(0)),
        ("GOAWAY", frame(7, 0, 0, &[0; 8])),
        ("GOAWAY with an error", frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 1])),
    ]
}

/// Ends [`CONNECTIONS`] with these bytes, and waits until the server has closed each.
async fn attack(at: SocketAddr, last: &[u8]) {
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(at).await.unwrap();
        let _sent = client.write_all(&[&*requests(), last].concat()).await;
        let _half = client.shutdown().await;
        let mut answer = Vec::new();
        let _reset = timeout(DEADLINE, client.read_to_end(&mut answer)).await.expect("an end");
    }
}

#[tokio::test]
async fn no_bytes_are_retained_however_connections_end() {
    let (events, mut received) = mpsc::channel(8);
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    let server = Server::start(&Handle::current(), events);
    let gate = Gate::new(Arc::new(|_| Fleets::Any), Limits::default());
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    for (what, last) in endings() {
        // what the first ones make is kept for later ones
        attack(at, &last).await;
        let before = MEMORY.current_usage();
        attack(at, &last).await;
        let begin = Instant::now();
        loop {
            let retained = MEMORY.current_usage().saturating_sub(before);
            if retained <= MOST {
                break;
            }
            assert!(begin.elapsed() < DEADLINE, "{what}: {retained} bytes are retained");
            sleep(Duration::from_millis(20)).await;
        }
    }
    server.stop(DEADLINE).await;
}
