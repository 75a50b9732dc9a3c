//! A server that takes spans by OTLP over gRPC, and keeps them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// A span, as far as tests look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// In hexadecimal digits.
    pub trace: String,
    /// Its name.
    pub name: String,
    /// Of the span, and of what it was recorded by; numbers as `int:5`.
    pub attributes: BTreeMap<String, String>,
    /// Headers that came with it.
    pub headers: BTreeMap<String, String>,
}

/// A server on a free port, of loopback unless another address is given; it ends when dropped.
pub struct Collector {
    /// Where it listens.
    pub port: u16,
    spans: Arc<Mutex<Vec<Span>>>,
    /// Its tasks end with it.
    _runtime: Runtime,
}

impl Collector {
    /// Starts one.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST.into())
    }

    /// Starts one on a free port of another address, in the network of this thread.
    ///
    /// # Errors
    /// If the address is not of this network.
    pub fn start_at(address: IpAddr) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((address, 0)))?;
        let port = listener.local_addr()?.port();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&spans);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let service = service_fn(move |request| take(Arc::clone(&kept), request));
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { port, spans, _runtime: runtime })
    }

    /// All spans that came until now.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

type Answering = StreamBody<tokio_stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

async fn take(kept: Arc<Mutex<Vec<Span>>>, request: Request<Incoming>) -> Result<Response<Answering>, Infallible> {
    let (head, body) = request.into_parts();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: BTreeMap<_, _> = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let sent = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let sent = Export::decode(sent.get(5..).unwrap_or_default()).unwrap_or_default();
    let mut spans = Vec::new();
    for group in sent.groups {
        let resource = group.resource.map(|resource| resource.attributes).unwrap_or_default();
        for span in group.scopes.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span {
                trace: span.trace.iter().map(|byte| format!("{byte:02x}")).collect(),
                name: span.name,
                attributes: resource
                    .iter()
                    .cloned()
                    .chain(span.attributes)
                    .map(|it| (it.key, shown(it.value)))
                    .collect(),
                headers: headers.clone(),
            });
        }
    }
    kept.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
    let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let trailers = HeaderMap::from_iter([status]);
    // An empty message.
    let frames = [Ok(Frame::data(Bytes::from_static(&[0; 5]))), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(StreamBody::new(tokio_stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

fn shown(value: Option<Any>) -> String {
    match value.and_then(|value| value.value) {
        Some(AnyValue::Text(text)) => text,
        Some(AnyValue::Int(number)) => format!("int:{number}"),
        None => String::new(),
    }
}

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest`, as far as it is read.
#[derive(Clone, PartialEq, prost::Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    groups: Vec<Group>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Group {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<Scope>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Scope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Sent>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sent {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(oneof = "AnyValue", tags = "1, 3")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AnyValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
}
