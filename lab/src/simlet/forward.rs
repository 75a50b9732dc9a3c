//! Ports of pods, as kubelet forwards them over a WebSocket: each port has a channel for its bytes and one for what went wrong, and both begin
//! with its number. `kubectl` speaks another protocol (SPDY in a WebSocket), which is not here.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::join_all;
use futures::stream::SplitStream;
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use nix::sched::CloneFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Context;
use crate::enter;

/// Messages of bytes, each of which begins with the number of its channel.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// Bytes of a message at most.
const PART: usize = 32 << 10;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Forwards ports of a pod, for as long as both sides want.
pub(crate) async fn forward(
    State(context): State<Arc<Context>>,
    Path([namespace, pod]): Path<[String; 2]>,
    Query(parameters): Query<BTreeMap<String, String>>,
    mut request: Request<Body>,
) -> Response {
    let Some(accept) = accepted(request.headers()) else {
        let why = format!("the lab's kubelet forwards ports over WebSockets with the protocol {PROTOCOL} only");
        return (StatusCode::NOT_IMPLEMENTED, why).into_response();
    };
    let listed = parameters.get("port").map(String::as_str).unwrap_or_default();
    let Ok(ports) = listed.split(',').map(str::parse).collect::<Result<Vec<u16>, _>>() else {
        return (StatusCode::BAD_REQUEST, format!("port={listed}")).into_response();
    };
    let Some(process) = process(&context, &namespace, &pod) else {
        let why = format!("no container of pod \"{pod}\" of namespace \"{namespace}\" runs");
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            let socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
            carry(socket, process, &format!("{pod}_{namespace}"), &ports).await;
        }
    });
    let headers = [
        (CONNECTION, "Upgrade".to_owned()),
        (UPGRADE, "websocket".to_owned()),
        (SEC_WEBSOCKET_ACCEPT, accept),
        (SEC_WEBSOCKET_PROTOCOL, PROTOCOL.to_owned()),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// What to answer a request for our protocol with.
fn accepted(headers: &HeaderMap) -> Option<String> {
    let protocols = headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    protocols.split(',').find(|protocol| protocol.trim() == PROTOCOL)?;
    Some(derive_accept_key(headers.get(SEC_WEBSOCKET_KEY)?.as_bytes()))
}

/// A process of a container of a pod: it has the pod's network.
fn process(context: &Context, namespace: &str, pod: &str) -> Option<i32> {
    let running = context.place.inside(&format!("names/{namespace}_{pod}/running"));
    let joint = |entry: io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.ok()?.path()).ok();
    std::fs::read_dir(running).ok()?.filter_map(joint).find_map(|joint| joint.split(' ').next()?.parse().ok())
}

/// Bytes to and fro; over when every port is, or when nobody is there any more who wants them.
async fn carry(socket: Socket, process: i32, pod: &str, ports: &[u16]) {
    let (mut sink, source) = socket.split();
    let (said, mut to_say) = mpsc::channel(8);
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    for (channel, port) in (0..).step_by(2).zip(ports) {
        for channel in [channel, channel + 1] {
            let _nobody_listens = sink.send(message(channel, &port.to_le_bytes())).await;
        }
        match connect(process, *port).await {
            Ok(stream) => {
                let (reader, writer) = stream.into_split();
                readers.push(read(reader, channel, said.clone()));
                writers.push(Some(writer));
            }
            Err(error) => {
                let why = format!("error forwarding port {port} to pod {pod}: {error}");
                let _nobody_listens = sink.send(message(channel + 1, why.as_bytes())).await;
                writers.push(None);
            }
        }
    }
    drop(said);
    let saying = async {
        while let Some(message) = to_say.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _gone_already = sink.close().await;
    };
    let answering = async { tokio::join!(join_all(readers), saying) };
    tokio::select! {
        _ = answering => {}
        () = write(source, writers) => {}
    }
}

/// Connects to a port of the pod's loopback, from a thread that is in its network.
async fn connect(process: i32, port: u16) -> io::Result<TcpStream> {
    let (done, connected) = oneshot::channel();
    std::thread::spawn(move || {
        let inside = enter::join(process, &[("net", CloneFlags::CLONE_NEWNET)]).map_err(io::Error::other);
        let stream = inside.and_then(|()| std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
        let _nobody_waits = done.send(stream);
    });
    let stream = connected.await.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

async fn read(mut reader: OwnedReadHalf, channel: u8, said: mpsc::Sender<Message>) {
    let mut part = vec![0; PART];
    while let Ok(length @ 1..) = reader.read(&mut part).await {
        if said.send(message(channel, part.get(..length).unwrap_or_default())).await.is_err() {
            return;
        }
    }
}

async fn write(mut source: SplitStream<Socket>, mut writers: Vec<Option<OwnedWriteHalf>>) {
    while let Some(Ok(message)) = source.next().await {
        let Message::Binary(bytes) = message else { continue };
        let Some((channel, bytes)) = bytes.split_first().filter(|(channel, _)| *channel % 2 == 0) else { continue };
        if let Some(Some(writer)) = writers.get_mut(usize::from(*channel / 2)) {
            let _ended = writer.write_all(bytes).await;
        }
    }
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    Message::Binary(Bytes::from([&[channel], bytes].concat()))
}
