//! A client that stops reading costs bounded memory, and no one else's time.
//!
//! Alone in its binary, because it counts the bytes of the whole process.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use peak_alloc::PeakAlloc;
use prost::Message;
use proto::envoy::config::core::v3::Node;
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::WatchStream;
use xds::{Change, FleetUpdate, Gate, Resource, Server, TypeUrl, Version};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Longest wait for anything here.
const DEADLINE: Duration = Duration::from_secs(60);

/// Resources, and changes of them.
const NAMES: u128 = 20;
const CHANGES: u128 = 2_000;

/// What a connection whose client does not read may cost, in bytes.
const MOST: usize = 100 << 10;

/// Streams of one such connection: many times as much would be held if each could hold what a single one may.
const STREAMS: usize = 64;

/// A socket whose reader can be made deaf: what comes then stays with the sender.
struct Deaf<T> {
    io: T,
    listens: watch::Receiver<bool>,
    changes: WatchStream<bool>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Deaf<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while let Poll::Ready(Some(_)) = self.changes.poll_next_unpin(cx) {}
        if !*self.listens.borrow() {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Deaf<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A delta client that has asked for everything.
struct Client {
    requests: mpsc::Sender<Bytes>,
    body: Incoming,
    buffer: BytesMut,
    listens: Arc<watch::Sender<bool>>,
    /// What it has.
    holds: BTreeMap<String, u128>,
    /// How many resources it was sent.
    told: usize,
}

/// The messages of a stream as they go out.
type Frames = BoxStream<'static, Result<Frame<Bytes>, Infallible>>;

/// A connection, which can be made deaf.
struct Connection {
    sender: SendRequest<StreamBody<Frames>>,
    listens: Arc<watch::Sender<bool>>,
}

impl Connection {
    async fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (listens, listening) = watch::channel(true);
        let io = Deaf { io, changes: WatchStream::new(listening.clone()), listens: listening };
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        // as Envoy's, so that it is not the windows that limit what is sent
        builder.initial_stream_window_size(16 << 20).initial_connection_window_size(24 << 20);
        let (sender, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, listens: Arc::new(listens) }
    }
}

impl Client {
    async fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, id: &str) -> Self {
        Self::over(&mut Connection::new(io).await, id).await
    }

    /// A stream of this connection.
    async fn over(connection: &mut Connection, id: &str) -> Self {
        let (requests, receiver) = mpsc::channel::<Bytes>(64);
        let frames = stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|bytes| (Ok::<_, Infallible>(Frame::data(bytes)), receiver))
        });
        let path = "http://xds/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
        let request = http::Request::post(path).header("content-type", "application/grpc");
        let request = request.body(StreamBody::new(frames.boxed())).unwrap();
        let body = connection.sender.send_request(request).await.unwrap().into_body();
        let listens = Arc::clone(&connection.listens);
        let client = Self { requests, body, buffer: BytesMut::new(), listens, holds: BTreeMap::new(), told: 0 };
        let node = Node { id: id.into(), cluster: "fleet".into(), user_agent_name: "envoy".into(), ..Node::default() };
        let resource_names_subscribe = (0..NAMES).map(|n| n.to_string()).collect();
        let type_url = TypeUrl::Runtime.as_str().to_owned();
        let node = Some(node);
        client
            .send(DeltaDiscoveryRequest {
                node,
                type_url,
                resource_names_subscribe,
                ..DeltaDiscoveryRequest::default()
            })
            .await;
        client
    }

    async fn send(&self, request: DeltaDiscoveryRequest) {
        let message = request.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).unwrap());
        frame.extend_from_slice(&message);
        self.requests.send(frame.freeze()).await.unwrap();
    }

    /// Takes in and acknowledges the next response.
    async fn take(&mut self) {
        let response = loop {
            if let Some(head) = self.buffer.first_chunk::<5>() {
                let length = 5 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if self.buffer.len() >= length {
                    let message = self.buffer.split_to(length);
                    break DeltaDiscoveryResponse::decode(&message[5..]).unwrap();
                }
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("an answer in time");
            self.buffer.extend_from_slice(&frame.expect("no end").unwrap().into_data().unwrap());
        };
        self.told += response.resources.len();
        let versions = response.resources.iter().map(|one| (one.name.clone(), Version::parse(&one.version).unwrap().0));
        self.holds.extend(versions);
        let (type_url, response_nonce) = (response.type_url, response.nonce);
        self.send(DeltaDiscoveryRequest { type_url, response_nonce, ..DeltaDiscoveryRequest::default() }).await;
    }

    /// Lets the server take in all that this client has said: it asks again for something, and is told.
    async fn settle(&mut self) {
        let (type_url, resource_names_subscribe) = (TypeUrl::Runtime.as_str().to_owned(), vec!["0".to_owned()]);
        self.send(DeltaDiscoveryRequest { type_url, resource_names_subscribe, ..DeltaDiscoveryRequest::default() })
            .await;
        self.take().await;
        self.buffer = BytesMut::new();
    }

    /// Reads until it has the state that the last of these changes left.
    async fn catch_up(&mut self, last: u128) {
        while !(0..NAMES).all(|n| self.holds.get(&n.to_string()).is_some_and(|held| *held > last - NAMES)) {
            self.take().await;
        }
        self.buffer = BytesMut::new();
    }
}

/// A connection of which the system takes but little that is not read.
async fn small(at: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.connect(at).await.unwrap()
}

/// One change: 3,000 bytes of its own, in a piece too small to be shared on its way out, or 6,000 in one that is.
fn change(number: u128) -> Vec<FleetUpdate> {
    let length = if number.is_multiple_of(2) { 3_000 } else { 6_000 };
    let body = Bytes::from(vec![u8::try_from(number % 256).unwrap(); length]);
    let name = (number % NAMES).to_string();
    let resource = Resource::new(TypeUrl::Runtime, name, Version(number), [body]);
    vec![FleetUpdate { fleet: "fleet".into(), changes: vec![Change::Put(resource.into())] }]
}

/// Publishes changes up to `last`, one after the other; the clients that read have each state in between, if not every one.
async fn round(server: &Server, quick: &mut [Client], first: u128, last: u128) {
    for number in first..=last {
        server.publish(change(number));
        if number.is_multiple_of(NAMES) {
            for client in quick.iter_mut() {
                client.catch_up(number).await;
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_costs_bounded_memory_and_gets_the_latest_state_when_it_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let (events, mut received) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    server.listen_unix(&path, "fleet".into(), None).unwrap();
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    (0..NAMES).for_each(|number| server.publish(change(number + NAMES)));
    let mut quick = vec![
        Client::new(UnixStream::connect(&path).await.unwrap(), "a").await,
        Client::new(TcpStream::connect(at).await.unwrap(), "b").await,
    ];
    let mut slow = vec![
        Client::new(UnixStream::connect(&path).await.unwrap(), "c").await,
        Client::new(small(at).await, "d").await,
    ];
    let mut many = Connection::new(small(at).await).await;
    for stream in 0..STREAMS {
        slow.push(Client::over(&mut many, &format!("e{stream}")).await);
    }
    let mut published = 2 * NAMES;
    let mut used = Vec::new();
    for all_read in [true, true, false] {
        let last = published + CHANGES;
        round(&server, &mut quick, published + 1, last).await;
        if all_read {
            for client in &mut slow {
                client.catch_up(last).await;
                client.settle().await;
            }
        }
        for client in &mut quick {
            client.settle().await;
        }
        used.push(MEMORY.current_usage());
        published = last;
        // from the second time on these are deaf
        if used.len() == 2 {
            for client in &mut slow {
                client.listens.send_replace(false);
                client.told = 0;
            }
        }
    }
    // the fleet's log of changes grows until it is full
    let growth = used[1].saturating_sub(used[0]);
    let held = used[2].saturating_sub(used[1] + growth) / 3;
    assert!((1..=MOST).contains(&held), "{held} bytes are held for a client that does not read");
    for client in &mut slow {
        client.listens.send_replace(true);
        client.catch_up(published).await;
        // what was under way when it stopped, and then the last of each
        assert!(client.told <= 200, "{} resources for a client that read at the end", client.told);
    }
    server.stop(DEADLINE).await;
}
