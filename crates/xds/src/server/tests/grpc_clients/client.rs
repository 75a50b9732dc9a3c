//! A gRPC client of another language with a bootstrap for a server, and backends that answer it with their name.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use proto::xds::data::orca::v3::OrcaLoadReport;
use tests::grpc_clients::{Client, Language, node};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinSet};

/// The services of a server as it describes them itself, sorted. Everything that it says was read, and it was called by that.
pub(super) fn reflected(server: SocketAddr) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/tests/grpc_clients/reflected.cjs");
    let output = node(&script).arg(server.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}; run `make tools`", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

/// Starts a client that gets everything from this server, with these features of the server.
pub(super) fn start(language: Language, folder: &Path, server: &str, features: &str) -> Client {
    let bootstrap = folder.join("bootstrap.json");
    let text = format!(
        r#"{{"xds_servers": [{{"server_uri": "{server}", "channel_creds": [{{"type": "insecure"}}], "server_features": [{features}]}}],
            "node": {{"id": "{language:?}", "cluster": "mesh", "locality": {{"zone": "near"}}}}}}"#
    );
    std::fs::write(&bootstrap, text).unwrap();
    Client::start(language, &bootstrap, &[]).unwrap()
}

/// A gRPC server that answers each call with its name and, in the trailers, with what it says of itself (ORCA). It ends with this
/// value.
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    task: AbortHandle,
}

impl Backend {
    /// One with a queue of this length.
    pub(super) fn start(runtime: &Runtime, name: &'static str, queue: f64) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let task = runtime.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _peer) = listener.accept().await.unwrap();
                let service = service_fn(move |request| answer(request, name, queue));
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                connections.spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, task: task.abort_handle() }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Body = StreamBody<stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

async fn answer(request: Request<Incoming>, name: &'static str, queue: f64) -> hyper::Result<Response<Body>> {
    request.into_body().collect().await?;
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(u32::try_from(name.len()).unwrap());
    message.put_slice(name.as_bytes());
    let report = OrcaLoadReport { named_metrics: [("queue".to_owned(), queue)].into(), ..OrcaLoadReport::default() };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("endpoint-load-metrics-bin", base64(&report.encode_to_vec()).parse().unwrap());
    let frames = [Ok(Frame::data(message.freeze())), Ok(Frame::trailers(trailers))];
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(StreamBody::new(stream::iter(frames))).unwrap())
}

/// Binary metadata as gRPC writes it: standard base64, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        text.extend((0..=chunk.len()).map(|digit| char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63])));
    }
    text
}
