//! Servers that say whether a request may pass, over HTTP and over gRPC, and that note what they were asked.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use proto::envoy::config::core::v3::{HeaderValue as SetHeader, HeaderValueOption};
use proto::envoy::service::auth::v3::check_response::HttpResponse;
use proto::envoy::service::auth::v3::{CheckRequest, CheckResponse, OkHttpResponse};
use proto::google::rpc::Status;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Requests whose `authorization` is this may pass.
pub const GOOD: &str = "open sesame";

/// What a server was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The method of the request that is to pass.
    pub method: String,
    /// Its path, over HTTP behind the prefix.
    pub path: String,
    /// Headers of which the server was told, in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body that came along.
    pub body: String,
}

/// A server on a free loopback port; it ends when dropped. It lets pass what is [`GOOD`], gives such requests `x-user: ann` and `x-more: more`,
/// and answers others 401.
pub struct Authority {
    /// Where it listens.
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Its tasks end with it.
    _runtime: Runtime,
}

impl Authority {
    /// Starts one that is asked over HTTP.
    ///
    /// # Errors
    /// If no port is free.
    pub fn http() -> anyhow::Result<Self> {
        Self::start(0, false)
    }

    /// Starts one that is asked over gRPC.
    ///
    /// # Errors
    /// If no port is free.
    pub fn grpc() -> anyhow::Result<Self> {
        Self::start(0, true)
    }

    /// Starts one that is asked over HTTP on the port of another that has ended.
    ///
    /// # Errors
    /// If the port is not free.
    pub fn http_on(port: u16) -> anyhow::Result<Self> {
        Self::start(port, false)
    }

    fn start(port: u16, grpc: bool) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port)))?;
        let port = listener.local_addr()?.port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                if grpc {
                    let service = service_fn(move |request| check(Arc::clone(&noted), request));
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
                } else {
                    let service = service_fn(move |request| judge(Arc::clone(&noted), request));
                    let server = hyper::server::conn::http1::Builder::new();
                    tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
                }
            }
        });
        Ok(Self { port, asked, _runtime: runtime })
    }

    /// What it was asked since this was called last.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Noted = Arc<Mutex<Vec<Asked>>>;

fn note(noted: &Noted, asked: Asked) -> bool {
    let is_good = asked.headers.get("authorization").is_some_and(|value| value == GOOD);
    noted.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    is_good
}

async fn body(body: Incoming) -> Bytes {
    body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}

async fn judge(noted: Noted, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, sent) = request.into_parts();
    let headers = head.headers.iter();
    let asked = Asked {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        body: String::from_utf8_lossy(&body(sent).await).into_owned(),
    };
    let is_good = note(&noted, asked);
    let mut response = Response::new(Full::new(Bytes::from(if is_good { "passed" } else { "who are you?" })));
    if is_good {
        let headers = response.headers_mut();
        headers.insert("x-user", HeaderValue::from_static("ann"));
        headers.insert("x-more", HeaderValue::from_static("more"));
        headers.insert("host", HeaderValue::from_static("evil.example"));
    } else {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert("www-authenticate", HeaderValue::from_static("Sesame"));
    }
    Ok(response)
}

type Answering = StreamBody<tokio_stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

async fn check(noted: Noted, request: Request<Incoming>) -> Result<Response<Answering>, Infallible> {
    let sent = body(request.into_body()).await;
    let asked = CheckRequest::decode(sent.get(5..).unwrap_or_default()).unwrap_or_default();
    let http = asked.attributes.and_then(|it| it.request).and_then(|it| it.http).unwrap_or_default();
    let asked = Asked { method: http.method, path: http.path, headers: http.headers, body: http.body };
    let answer = if note(&noted, asked) {
        let set = |key: &str, value: &str| HeaderValueOption {
            header: Some(SetHeader { key: key.to_owned(), value: value.to_owned(), ..SetHeader::default() }),
            ..HeaderValueOption::default()
        };
        let headers = vec![set("x-user", "ann"), set("x-more", "more"), set("host", "evil.example")];
        let passed = OkHttpResponse { headers, ..OkHttpResponse::default() };
        let http_response = Some(HttpResponse::OkResponse(passed));
        CheckResponse { status: Some(Status::default()), http_response, ..CheckResponse::default() }
    } else {
        let status = Status { code: 16, message: "who are you?".to_owned(), ..Status::default() };
        CheckResponse { status: Some(status), ..CheckResponse::default() }
    };
    let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let message = crate::grpc::message(&answer.encode_to_vec());
    let frames = [Ok(Frame::data(message)), Ok(Frame::trailers(HeaderMap::from_iter([status])))];
    let mut response = Response::new(StreamBody::new(tokio_stream::iter(frames)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}
