//! Backends that say who they are and what they were asked: HTTP/1.1 and HTTP/2 on one port, over TLS on another, gRPC and WebSockets on both,
//! and datagrams.
//!
//! | in a request | does |
//! |---|---|
//! | `?delay=500` | the answer waits so many milliseconds |
//! | `?fail=2&code=503&id=x` | the first two of this `id` get that status; with `&slow=300` all but the first wait so long |
//! | header `echo: a=1;b=2` | the answer has these headers |
//! | header `upgrade: websocket` | what comes then goes back as it is |

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;

/// How an HTTP/2 connection begins without TLS (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI";

/// Where a backend listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) plain: u16,
    pub(crate) tls: u16,
    pub(crate) udp: u16,
}

/// What all backends have seen.
#[derive(Default)]
pub(crate) struct Seen {
    failed: BTreeMap<String, u64>,
    mirrored: BTreeMap<(String, String), u64>,
}

impl Seen {
    /// How many requests with this `mirror` in their query have come to a backend.
    pub(crate) fn mirrored(&self, backend: &str, id: &str) -> u64 {
        self.mirrored.get(&(backend.to_owned(), id.to_owned())).copied().unwrap_or_default()
    }
}

/// A backend, and what is known of the connection that a request came on.
#[derive(Clone)]
struct Echo {
    name: String,
    seen: Arc<Mutex<Seen>>,
    tls: Value,
}

/// Starts a backend on loopback; it ends with the runtime.
pub(crate) async fn start(name: &str, seen: &Arc<Mutex<Seen>>, certificates: &Arc<Certificates>) -> Ports {
    let echo = Echo { name: name.to_owned(), seen: Arc::clone(seen), tls: Value::Null };
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let ports = Ports {
        plain: plain.local_addr().unwrap().port(),
        tls: tls.local_addr().unwrap().port(),
        udp: udp.local_addr().unwrap().port(),
    };
    tokio::spawn(datagrams(udp, echo.name.clone()));
    let clear = echo.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = plain.accept().await {
            tokio::spawn(serve_plain(stream, clear.clone()));
        }
    });
    // One of them wants to see whom it speaks to.
    let acceptor = TlsAcceptor::from(certificates.server((name == "guarded").then_some("a")));
    let certificates = Arc::clone(certificates);
    tokio::spawn(async move {
        while let Ok((stream, _)) = tls.accept().await {
            tokio::spawn(serve_tls(stream, acceptor.clone(), echo.clone(), Arc::clone(&certificates)));
        }
    });
    ports
}

async fn datagrams(socket: UdpSocket, name: String) {
    let mut room = [0; 256];
    while let Ok((_, from)) = socket.recv_from(&mut room).await {
        let _gone = socket.send_to(name.as_bytes(), from).await;
    }
}

async fn serve_plain(stream: TcpStream, echo: Echo) {
    let mut start = [0; 3];
    let is_second = stream.peek(&mut start).await.is_ok() && start == PREFACE;
    serve(stream, is_second, echo).await;
}

async fn serve_tls(stream: TcpStream, acceptor: TlsAcceptor, mut echo: Echo, certificates: Arc<Certificates>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates().and_then(<[_]>::first).map(|shown| certificates.name(shown));
    echo.tls = json!({"sni": session.server_name(), "peer": shown});
    let is_second = session.alpn_protocol() == Some(b"h2");
    serve(stream, is_second, echo).await;
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, is_second: bool, echo: Echo) {
    let service = service_fn(move |request| answer(echo.clone(), request));
    let io = TokioIo::new(stream);
    // Whatever goes wrong, whoever asked sees that there is no answer.
    if is_second {
        let _ended = hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
    } else {
        let _ended = hyper::server::conn::http1::Builder::new().serve_connection(io, service).with_upgrades().await;
    }
}

type Body = StreamBody<tokio_stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn answer(echo: Echo, mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let query = query(&request);
    let number = |name: &str| query.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
    if let Some(id) = query.get("mirror") {
        let mut seen = echo.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.mirrored.entry((echo.name.clone(), id.clone())).or_default() += 1;
    }
    let failed = echo.failed(query.get("id"));
    wait(number("delay") + if failed > 1 { number("slow") } else { 0 }).await;
    if request.headers().contains_key("upgrade") {
        return Ok(upgraded(&echo.name, hyper::upgrade::on(&mut request)));
    }
    let (head, body) = request.into_parts();
    // Whoever sends a request to the end wants it read.
    drop(body.collect().await);
    let text = echo.told(&head).to_string();
    let is_grpc = head.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let mut response = if is_grpc { called(&text) } else { page(text) };
    if failed > 0 && failed <= number("fail") {
        *response.status_mut() = u16::try_from(number("code")).unwrap_or_default().try_into().unwrap_or_default();
    }
    for (name, value) in wanted_headers(&head.headers) {
        response.headers_mut().append(name, value);
    }
    Ok(response)
}

/// The answer of a server that does something else is late as well.
async fn wait(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

fn query(request: &Request<Incoming>) -> BTreeMap<String, String> {
    let parts = request.uri().query().unwrap_or_default().split('&').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn wanted_headers(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let wanted = headers.get("echo").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let pairs = wanted.split(';').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?))).collect()
}

impl Echo {
    /// The number of this try of an id, from 1.
    fn failed(&self, id: Option<&String>) -> u64 {
        let Some(id) = id else { return 0 };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let count = seen.failed.entry(id.clone()).or_default();
        *count += 1;
        *count
    }

    fn told(&self, head: &http::request::Parts) -> Value {
        let mut headers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, value) in &head.headers {
            headers.entry(name.as_str()).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
        let headers: BTreeMap<_, _> = headers.into_iter().map(|(name, values)| (name, values.join(","))).collect();
        let authority = head.uri.authority().map(|authority| authority.as_str().to_owned());
        json!({
            "backend": self.name,
            "method": head.method.as_str(),
            "path": head.uri.path_and_query().map(http::uri::PathAndQuery::as_str),
            "host": authority.or_else(|| headers.get("host").cloned()),
            "headers": headers,
            "version": format!("{:?}", head.version),
            "tls": self.tls,
        })
    }
}

fn page(text: String) -> Response<Body> {
    let length = text.len();
    let mut response = Response::new(StreamBody::new(tokio_stream::iter(vec![Ok(Frame::data(text.into()))])));
    response.headers_mut().insert("content-length", length.into());
    response
}

/// One message, uncompressed, its length before it, then the status 0.
fn called(text: &str) -> Response<Body> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let message: Bytes = [&[0], &length[..], text.as_bytes()].concat().into();
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    let frames = vec![Ok(Frame::data(message)), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(StreamBody::new(tokio_stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

fn upgraded(name: &str, upgrade: hyper::upgrade::OnUpgrade) -> Response<Body> {
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
        let _ended = tokio::io::copy(&mut read, &mut write).await;
    });
    let mut response = Response::new(StreamBody::new(tokio_stream::iter(Vec::new())));
    *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in [("connection", "upgrade"), ("upgrade", "websocket"), ("backend", name)] {
        response.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    response
}
