//! gRPC: small servers that answer every call with their name, and calls over fresh connections, in cleartext with prior knowledge of HTTP/2.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// How long one call may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Headers that begin so are in the answer, behind the server's name.
const SHOWN: &str = "test-";

/// A server on a free loopback port; it ends when dropped.
pub struct GrpcBackend {
    /// Where it listens.
    pub port: u16,
    /// Its tasks end with it.
    _runtime: Runtime,
}

impl GrpcBackend {
    /// Starts one.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(name: &'static str) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let port = listener.local_addr()?.port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service_fn(move |request| answer(name, request));
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { port, _runtime: runtime })
    }
}

type Answering = StreamBody<tokio_stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

/// One message with the name and the headers that are shown, then the status 0.
async fn answer(name: &'static str, request: Request<Incoming>) -> Result<Response<Answering>, Infallible> {
    let shown = request.headers().iter().filter(|(header, _)| header.as_str().starts_with(SHOWN));
    let mut shown: Vec<String> =
        shown.map(|(header, value)| format!(" {header}={}", String::from_utf8_lossy(value.as_bytes()))).collect();
    shown.sort();
    let text = format!("{name}{}", shown.concat());
    let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let trailers = HeaderMap::from_iter([status]);
    let frames = [Ok(Frame::data(message(text.as_bytes()))), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(StreamBody::new(tokio_stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    // Whoever sends a request to the end wants it read.
    drop(request.into_body().collect().await);
    Ok(response)
}

/// A message as it goes over the wire: uncompressed, its length in four bytes, its bytes.
pub(crate) fn message(bytes: &[u8]) -> Bytes {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], bytes].concat().into()
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Called {
    /// The gRPC status: 0 is good, 12 is UNIMPLEMENTED, 14 is UNAVAILABLE.
    pub code: u32,
    /// The first message, as text; what is none is replaced.
    pub text: String,
}

/// Calls `/<service>/<method>` on a loopback port.
///
/// # Errors
/// If there is no answer that is one of gRPC.
pub fn call(port: u16, authority: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Called> {
    call_at((Ipv4Addr::LOCALHOST, port).into(), authority, path, headers)
}

/// The same elsewhere.
///
/// # Errors
/// If there is no answer that is one of gRPC.
pub fn call_at(to: SocketAddr, authority: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Called> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, called(to, authority, path, headers)).await.context("no answer in time")?
    })
}

async fn called(to: SocketAddr, authority: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Called> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::post(format!("http://{authority}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(message(&[])))?).await?;
    let (head, body) = response.into_parts();
    anyhow::ensure!(head.status.is_success(), "HTTP status {}", head.status);
    let body = body.collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let code = trailers.get("grpc-status").or(head.headers.get("grpc-status")).context("no gRPC status")?;
    let code = code.to_str()?.parse()?;
    let bytes = body.to_bytes();
    connection.abort();
    Ok(Called { code, text: String::from_utf8_lossy(bytes.get(5..).unwrap_or_default()).into_owned() })
}
