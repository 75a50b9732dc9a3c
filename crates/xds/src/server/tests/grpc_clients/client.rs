//! A gRPC client of another language as a child process, and backends that answer it with their name.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

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
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinSet};

/// Where the pinned clients are installed, and their scripts.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/grpc-clients");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/tests/grpc_clients");

/// Longest wait for a lot of calls, each of which has a deadline of 12 s: well below the 15 s after which a client gives up waiting
/// for a resource, so that a call that had to wait for that is told as `DEADLINE_EXCEEDED`.
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Node,
}

impl Language {
    fn command(self) -> Command {
        let mut command = match self {
            Self::Python => {
                let mut python = Command::new(format!("{TOOLS}/python-1.85.1/bin/python"));
                python.arg(Path::new(SCRIPTS).join("client.py"));
                python
            }
            Self::Node => node("client.cjs"),
        };
        // with it C-core reads `resource_errors` (gRFC A88)
        command.env("GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING", "true");
        command
    }
}

/// Runs one of our scripts.
fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(Path::new(SCRIPTS).join(script)).env("NODE_PATH", format!("{TOOLS}/node-1.14.1/node_modules"));
    command
}

/// The services of a server as it describes them itself, sorted. Everything that it says was read, and it was called by that.
pub(super) fn reflected(server: SocketAddr) -> Vec<String> {
    let output = node("reflected.cjs").arg(server.to_string()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}; run `make tools`", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

/// A client that ends with this value.
pub(super) struct Client {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Client {
    /// Starts one that gets everything from this server, of which it is told these features.
    pub(super) fn start(language: Language, folder: &Path, server: &str, features: &str) -> Self {
        let bootstrap = folder.join("bootstrap.json");
        let text = format!(
            r#"{{"xds_servers": [{{"server_uri": "{server}", "channel_creds": [{{"type": "insecure"}}], "server_features": [{features}]}}],
                "node": {{"id": "{language:?}", "cluster": "mesh", "locality": {{"zone": "near"}}}}}}"#
        );
        std::fs::write(&bootstrap, text).unwrap();
        let log = std::fs::File::create(folder.join("client.log")).unwrap();
        let mut command = language.command();
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{language:?}: {error}; run `make tools`"));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|l| sender.send(l))
        });
        Self { child, input, lines }
    }

    /// So many calls to `xds:///target`: how often each answer or error came.
    pub(super) fn call(&mut self, target: &str, count: u64) -> BTreeMap<String, u64> {
        self.begin(target, count);
        let answers = self.answers();
        assert_eq!(answers.values().sum::<u64>(), count);
        answers
    }

    /// Begins so many calls to `xds:///target`.
    pub(super) fn begin(&mut self, target: &str, count: u64) {
        writeln!(self.input, "xds:///{target} {count}").unwrap();
    }

    /// How often each answer or error came to the calls that were begun.
    pub(super) fn answers(&mut self) -> BTreeMap<String, u64> {
        let mut answers = BTreeMap::new();
        loop {
            let line = self.lines.recv_timeout(LONGEST).expect("answers; if the client is not there, run `make tools`");
            let Some((times, answer)) = line.split_once(' ') else { break };
            answers.insert(answer.to_owned(), times.parse().unwrap());
        }
        answers
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // it may have ended by itself
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
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
