//! A delta xDS server as the usual Go library (go-control-plane, its `SnapshotCache`) makes one, to compare with in the same run.
//!
//! It is as good as that design allows, in the same language, on the same messages: resources are marshalled once and not for each hash.
//! What it does for one change is what the library does, in the library's order:
//!
//! - One lock around everything; whoever publishes answers all open watches while holding it (`SetSnapshot`).
//! - Each node has its own snapshot: a map from names to resources, of which the versions are the SHA-256 of all resources, as
//!   hexadecimal text (`ConstructVersionMap`).
//! - For each watch the map of returned versions is cloned, and all names of the subscription are looked up in it (`createDeltaResponse`);
//!   so are they again when the answer is acknowledged, before the next watch is open (`CreateDeltaWatch`).
//! - Each client's response is a message of its own, encoded for it (here by `prost` in `tonic`).
//!
//! The library itself needed 402 µs of CPU per client and change of one of 1,000 sets, without a hash per node (2 cores, 2026-11).

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hashbrown::{HashMap, HashSet};
use proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use proto::google::protobuf::Any;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

type Responses = Sender<Result<DeltaDiscoveryResponse, Status>>;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Responses of a stream on their way: there is one for each kind at most.
const RESPONSES: usize = 8;

/// A resource, marshalled.
type Marshalled = bytes::Bytes;

/// As in Go, a copy of a text is a copy of a reference.
type Text = Arc<str>;

/// The resources of one kind. Clones are the same server.
#[derive(Clone)]
pub(crate) struct Baseline(Arc<Mutex<Cache>>);

struct Cache {
    type_url: String,
    resources: HashMap<Text, Marshalled>,
    watches: HashMap<u64, Watch>,
    next: u64,
}

/// What is known of one client.
struct Watch {
    subscribed: HashSet<Text>,
    /// Version by name.
    returned: HashMap<Text, Text>,
    /// Version by name of the snapshot of its node.
    versions: HashMap<Text, Text>,
    /// A response is not acknowledged yet.
    is_waiting: bool,
    nonce: u64,
    responses: Responses,
}

impl Baseline {
    /// A server of these resources.
    pub(crate) fn new(type_url: &str, resources: impl Iterator<Item = (String, Vec<u8>)>) -> Self {
        let resources = resources.map(|(name, body)| (name.into(), body.into())).collect();
        let cache = Cache { type_url: type_url.to_owned(), resources, watches: HashMap::new(), next: 0 };
        Self(Arc::new(Mutex::new(cache)))
    }

    /// Serves on a listening socket for ever.
    pub(crate) async fn serve(self, listener: TcpListener) -> anyhow::Result<()> {
        let incoming = TcpListenerStream::new(listener);
        Ok(tonic::transport::Server::builder()
            .tcp_nodelay(true)
            .add_service(self)
            .serve_with_incoming(incoming)
            .await?)
    }

    /// Takes a changed resource over and answers all watches.
    pub(crate) fn set(&self, name: String, body: Vec<u8>) {
        let cache = &mut *self.locked();
        cache.resources.insert(name.into(), body.into());
        for watch in cache.watches.values_mut() {
            let snapshot = cache.resources.clone();
            watch.versions = versions(&snapshot);
            watch.respond(&cache.type_url, &snapshot);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One stream, until it ends.
    async fn stream(self, mut requests: Streaming<DeltaDiscoveryRequest>, responses: Responses) {
        let id = {
            let mut cache = self.locked();
            cache.next += 1;
            cache.next
        };
        while let Ok(Some(request)) = requests.message().await {
            self.locked().take(id, request, &responses);
        }
        self.locked().watches.remove(&id);
    }
}

impl Cache {
    fn take(&mut self, id: u64, request: DeltaDiscoveryRequest, responses: &Responses) {
        if request.type_url != self.type_url {
            if request.response_nonce.is_empty() {
                // there is nothing of the other kinds
                let none =
                    DeltaDiscoveryResponse { type_url: request.type_url, nonce: "0".to_owned(), ..Default::default() };
                let _ = responses.try_send(Ok(none));
            }
            return;
        }
        let watch = self.watches.entry(id).or_insert_with(|| Watch {
            subscribed: HashSet::new(),
            returned: HashMap::new(),
            versions: versions(&self.resources),
            is_waiting: false,
            nonce: 0,
            responses: responses.clone(),
        });
        let versions = request.initial_resource_versions.into_iter();
        watch.returned.extend(versions.map(|(name, version)| (name.into(), version.into())));
        watch.subscribed.extend(request.resource_names_subscribe.into_iter().map(Text::from));
        watch.is_waiting = false;
        watch.respond(&self.type_url, &self.resources);
    }
}

impl Watch {
    /// Sends what the client has not in its present version, unless it still owes an answer.
    fn respond(&mut self, type_url: &str, snapshot: &HashMap<Text, Marshalled>) {
        if self.is_waiting {
            return;
        }
        let mut returned = self.returned.clone();
        let mut resources = Vec::new();
        for name in &self.subscribed {
            let (Some(body), Some(version)) = (snapshot.get(name), self.versions.get(name)) else { continue };
            if returned.get(name) != Some(version) {
                returned.insert(name.clone(), version.clone());
                let any = Any { type_url: type_url.to_owned(), value: body.clone() };
                let (name, version) = (name.to_string(), version.to_string());
                resources.push(Resource { name, version, resource: Some(any), ..Resource::default() });
            }
        }
        if resources.is_empty() {
            return;
        }
        self.nonce += 1;
        let (type_url, nonce) = (type_url.to_owned(), self.nonce.to_string());
        let response = DeltaDiscoveryResponse { resources, type_url, nonce, ..DeltaDiscoveryResponse::default() };
        self.is_waiting = self.responses.try_send(Ok(response)).is_ok();
        self.returned = returned;
    }
}

/// The versions of a snapshot.
fn versions(snapshot: &HashMap<Text, Marshalled>) -> HashMap<Text, Text> {
    let version = |body: &Marshalled| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body);
        let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
        digest.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect::<String>()
    };
    snapshot.iter().map(|(name, body)| (name.clone(), version(body).into())).collect()
}

impl NamedService for Baseline {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl tower::Service<http::Request<Body>> for Baseline {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move { Ok(Grpc::new(tonic_prost::ProstCodec::default()).streaming(own, request).await) })
    }
}

impl StreamingService<DeltaDiscoveryRequest> for Baseline {
    type Response = DeltaDiscoveryResponse;
    type ResponseStream = ReceiverStream<Result<DeltaDiscoveryResponse, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<DeltaDiscoveryRequest>>) -> Self::Future {
        let (responses, stream) = channel(RESPONSES);
        tokio::spawn(self.clone().stream(request.into_inner(), responses));
        ready(Ok(Response::new(ReceiverStream::new(stream))))
    }
}
