//! A delta client of few lines: one HTTP/2 stream over a Unix socket or TCP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use proto::envoy::config::core::v3::Node;
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

use crate::server::accept::Io;

/// Longest wait for anything here.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

pub(super) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(super) const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(super) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(super) const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// The method of an aggregated delta stream.
pub(super) const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

pub(super) struct Client {
    requests: mpsc::Sender<Bytes>,
    body: Incoming,
    buffer: BytesMut,
    /// The headers that the server began with.
    pub(super) headers: http::HeaderMap,
}

impl Client {
    pub(super) async fn unix(path: &Path) -> Self {
        Self::call(Box::new(UnixStream::connect(path).await.unwrap()), DELTA, None).await
    }

    pub(super) async fn tcp(address: SocketAddr) -> Self {
        Self::call(Box::new(TcpStream::connect(address).await.unwrap()), DELTA, None).await
    }

    /// Calls the method at this path, perhaps with a bearer token.
    pub(super) async fn call(io: Box<dyn Io>, path: &str, token: Option<&str>) -> Self {
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let (requests, receiver) = mpsc::channel::<Bytes>(64);
        let frames = stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|bytes| (Ok::<_, Infallible>(Frame::data(bytes)), receiver))
        });
        let mut request = http::Request::post(format!("http://xds{path}")).header("content-type", "application/grpc");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(StreamBody::new(frames.boxed())).unwrap();
        let response = tokio::time::timeout(DEADLINE, sender.send_request(request)).await.unwrap().unwrap();
        let (head, body) = response.into_parts();
        Self { requests, body, buffer: BytesMut::new(), headers: head.headers }
    }

    pub(super) async fn send(&self, request: impl Message) {
        self.send_bytes(frame(&request)).await;
    }

    /// Where bytes can be sent from another task.
    pub(super) fn sender(&self) -> mpsc::Sender<Bytes> {
        self.requests.clone()
    }

    /// Sends bytes as they are.
    pub(super) async fn send_bytes(&self, bytes: Bytes) {
        self.requests.send(bytes).await.unwrap();
    }

    /// The first request of a kind: everything.
    pub(super) async fn subscribe(&self, node: Option<&str>, type_url: &str, names: &[&str]) {
        self.send(DeltaDiscoveryRequest {
            node: node.map(|cluster| Node {
                id: "test".into(),
                cluster: cluster.into(),
                user_agent_name: "envoy".into(),
                ..Node::default()
            }),
            type_url: type_url.into(),
            resource_names_subscribe: names.iter().map(|&name| name.to_owned()).collect(),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    pub(super) async fn ack(&self, response: &DeltaDiscoveryResponse) {
        self.send(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..DeltaDiscoveryRequest::default()
        })
        .await;
    }

    /// The next response; or the status that the stream ends with.
    pub(super) async fn next(&mut self) -> Result<DeltaDiscoveryResponse, String> {
        self.read().await
    }

    /// The next message; or the status that the call ends with.
    pub(super) async fn read<M: Message + Default>(&mut self) -> Result<M, String> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if self.buffer.len() >= 5 + length {
                    let frame = self.buffer.split_to(5 + length);
                    return Ok(M::decode(&frame[5..]).unwrap());
                }
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("an answer in time");
            match frame {
                Some(Ok(frame)) if frame.is_data() => self.buffer.extend_from_slice(&frame.into_data().unwrap()),
                Some(Ok(frame)) => {
                    let trailers = frame.into_trailers().unwrap();
                    return Err(trailers["grpc-status"].to_str().unwrap().to_owned());
                }
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the end".into()),
            }
        }
    }

    /// The names in the next response, removed ones with a minus.
    pub(super) async fn names(&mut self) -> Vec<String> {
        let response = self.next().await.unwrap();
        self.ack(&response).await;
        let put = response.resources.iter().map(|resource| resource.name.clone());
        put.chain(response.removed_resources.iter().map(|name| format!("-{name}"))).collect()
    }
}

/// A message as gRPC frames it.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut frame).unwrap();
    frame.freeze()
}
