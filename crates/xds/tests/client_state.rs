//! Bytes that are kept of a client of a large fleet: of one that reads nothing, and of one that has acknowledged all.
//!
//! Alone in its binary, because it counts the bytes of the whole process.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use prost::Message as _;
use proto::envoy::config::core::v3::Node;
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use xds::{Change, FleetUpdate, Fleets, Gate, Limits, Resource, Server, TypeUrl, Version};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Longest wait for anything here.
const DEADLINE: Duration = Duration::from_secs(60);

/// Clusters of the fleet, each of so many bytes, and clients of each sort.
const CLUSTERS: usize = 4_000;
const SIZE: usize = 1_500;
const CLIENTS: usize = 16;

/// Bytes that a client may cost: 64 KiB of its connection, what waits for it in buffers, and some bytes for each cluster.
const MOST: usize = 150 << 10;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A message as gRPC frames it, on the only stream.
fn message(request: &DeltaDiscoveryRequest) -> Vec<u8> {
    let message = request.encode_to_vec();
    let head = u32::try_from(message.len()).unwrap().to_be_bytes();
    frame(0, 0, 1, &[&[0], &head[..], &message].concat())
}

/// A client that asks for all clusters, and whose windows are always open. The system keeps little of what it does not read.
async fn client(at: SocketAddr, number: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut client = socket.connect(at).await.unwrap();
    let path = b"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let kind = b"application/grpc";
    let call = [&[0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()], &path[..], &[0x0f, 0x10, 16], kind].concat();
    let node =
        Node { id: number.to_string(), cluster: "ns/a".into(), user_agent_name: "envoy".into(), ..Node::default() };
    let first = DeltaDiscoveryRequest {
        node: Some(node),
        type_url: TypeUrl::Cluster.as_str().into(),
        ..DeltaDiscoveryRequest::default()
    };
    let hello = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
        frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes()),
        frame(1, 4, 1, &call),
        message(&first),
    ];
    client.write_all(&hello.concat()).await.unwrap();
    client
}

/// Reads the first response and acknowledges it.
async fn acknowledge(client: &mut TcpStream) {
    let mut body = Vec::new();
    let response = loop {
        let mut head = [0; 9];
        timeout(DEADLINE, client.read_exact(&mut head)).await.expect("an answer in time").unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        client.read_exact(&mut payload).await.unwrap();
        if head[3] == 0 {
            body.append(&mut payload);
        }
        let length = body.get(1..5).map(|length| 5 + u32::from_be_bytes(length.try_into().unwrap()) as usize);
        if let Some(message) = length.and_then(|length| body.get(5..length)) {
            break DeltaDiscoveryResponse::decode(message).unwrap();
        }
    };
    assert_eq!(response.resources.len(), CLUSTERS);
    let (type_url, response_nonce) = (response.type_url, response.nonce);
    let ack = DeltaDiscoveryRequest { type_url, response_nonce, ..DeltaDiscoveryRequest::default() };
    client.write_all(&message(&ack)).await.unwrap();
}

/// Bytes in use, once they have been the same for a while.
async fn settled() -> usize {
    let begin = Instant::now();
    let (mut last, mut same) = (MEMORY.current_usage(), 0);
    while same < 20 && begin.elapsed() < DEADLINE {
        sleep(Duration::from_millis(20)).await;
        let now = MEMORY.current_usage();
        same = if now.abs_diff(last) < 1 << 10 { same + 1 } else { 0 };
        last = now;
    }
    last
}

#[tokio::test]
async fn a_client_costs_its_connection_and_some_bytes_for_each_name() {
    let (events, mut received) = mpsc::channel(8);
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    let server = Server::start(&Handle::current(), events);
    let body = Bytes::from(vec![0; SIZE]);
    let cluster = |n: usize| {
        let name = format!("default/service-{n:05}/8080");
        Change::Put(Resource::new(TypeUrl::Cluster, name, Version(1 + n as u128), [body.clone()]).into())
    };
    server.publish(vec![FleetUpdate { fleet: "ns/a".into(), changes: (0..CLUSTERS).map(cluster).collect() }]);
    let gate = Gate::new(Arc::new(|_| Fleets::Any), Limits::default());
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate).unwrap();
    // what the first one makes is shared with later ones
    let mut first = client(at, 0).await;
    acknowledge(&mut first).await;
    let mut held = Vec::new();
    for (what, reads) in [("has acknowledged all", true), ("reads nothing", false)] {
        let before = settled().await;
        for _ in 0..CLIENTS {
            let mut client = client(at, 1 + held.len()).await;
            if reads {
                acknowledge(&mut client).await;
            }
            held.push(client);
        }
        let each = settled().await.saturating_sub(before) / CLIENTS;
        println!("a client that {what} costs {each} bytes");
        assert!(each <= MOST, "a client that {what} costs {each} bytes");
    }
    drop(held);
    server.stop(DEADLINE).await;
}
