//! A real Envoy as a child process, backends that say their name, and a request loop.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};

use super::authority::{Pair, server_config};
use super::client::DEADLINE;
use crate::wire::Variant;

/// Where the pinned Envoy is installed.
const ENVOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/envoy/1.40.0/bin/envoy");

/// An address of loopback that nobody else gets as long as this process lives.
pub(super) fn free_address() -> SocketAddr {
    let [port] = ::tests::ports::free_ports().unwrap();
    (Ipv4Addr::LOCALHOST, port).into()
}

/// How an Envoy speaks with the server.
#[derive(Clone, Copy)]
pub(super) struct Transport {
    pub(super) variant: Variant,
    /// One stream for everything, or one for each kind of resource.
    pub(super) aggregated: bool,
}

thread_local! {
    static TRANSPORT: Cell<Transport> = const { Cell::new(Transport { variant: Variant::Delta, aggregated: true }) };
}

impl Transport {
    /// Runs a test, whose thread this is, over this transport.
    pub(super) fn run(self, test: impl Fn()) {
        TRANSPORT.set(self);
        test();
    }

    pub(super) fn of_this_test() -> Self {
        TRANSPORT.get()
    }
}

/// An Envoy that ends with this value.
pub(super) struct Envoy {
    child: Child,
    admin: PathBuf,
    log: PathBuf,
}

impl Envoy {
    /// Starts an Envoy that gets everything over this Unix socket; what it needs besides goes into `folder`.
    pub(super) fn start(folder: &Path, socket: &Path) -> Self {
        let address = format!(r#"{{"pipe": {{"path": "{}"}}}}"#, socket.display());
        Self::start_at(folder, &address, "null")
    }

    /// Starts an Envoy that gets everything from this address, with this transport socket.
    pub(super) fn start_at(folder: &Path, address: &str, transport_socket: &str) -> Self {
        assert!(Path::new(ENVOY).is_file(), "no Envoy at {ENVOY}; run `make tools`");
        let admin = folder.join("admin.sock");
        let config = folder.join("bootstrap.json");
        std::fs::write(&config, bootstrap(address, transport_socket, &admin)).unwrap();
        let log = folder.join("envoy.log");
        let child = Command::new(ENVOY)
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "warning",
                "--drain-time-s",
                "1",
                "-c",
            ])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, admin, log }
    }

    /// All that it has logged.
    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// What the admin interface says; empty as long as it does not answer.
    pub(super) fn admin(&self, path: &str) -> String {
        let Ok(mut stream) = UnixStream::connect(&self.admin) else { return String::new() };
        let mut answer = Vec::new();
        let asked = write!(stream, "GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
        if asked.and_then(|()| stream.read_to_end(&mut answer)).is_err() {
            return String::new();
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Waits until the active clusters hold this version of a cluster, at most for `within`: it is in the connect time-out.
    pub(super) fn wait_for_cluster(&self, version: u128, within: Duration) {
        wait_for("the cluster's version to be active", within, || self.has_cluster("active", version));
    }

    /// Whether the clusters that are `active`, or those that are `warming`, hold this version of one.
    pub(super) fn has_cluster(&self, state: &str, version: u128) -> bool {
        let nanos = format!("{version:09}");
        let timeout = format!("\"2.{}s\"", nanos.trim_end_matches("000"));
        self.admin(&format!("/config_dump?resource=dynamic_{state}_clusters")).contains(&timeout)
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // it may have ended by itself
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn bootstrap(address: &str, transport_socket: &str, admin: &Path) -> String {
    let admin = admin.display();
    let Transport { variant, aggregated } = Transport::of_this_test();
    let api_type = if variant == Variant::Delta { "DELTA_GRPC" } else { "GRPC" };
    let server = format!(
        r#""api_type": "{api_type}", "transport_api_version": "V3", "set_node_on_first_message_only": true,
      "grpc_services": [{{"envoy_grpc": {{"cluster_name": "xds",
        "retry_policy": {{"retry_back_off": {{"base_interval": "0.1s", "max_interval": "1s"}}}}}}}}]"#
    );
    let ads = if aggregated { format!(r#""ads_config": {{{server}}},"#) } else { String::new() };
    let source = if aggregated { r#""ads": {}"#.to_owned() } else { format!(r#""api_config_source": {{{server}}}"#) };
    format!(
        r#"{{
  "node": {{"id": "test-envoy", "cluster": "ns/gw"}},
  "admin": {{"address": {{"pipe": {{"path": "{admin}", "mode": 384}}}}}},
  "cluster_manager": {{"load_stats_config": {{
    "api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [{{"envoy_grpc": {{"cluster_name": "xds"}}}}]
  }}}},
  "dynamic_resources": {{
    {ads}
    "cds_config": {{{source}, "resource_api_version": "V3"}},
    "lds_config": {{{source}, "resource_api_version": "V3"}}
  }},
  "static_resources": {{"clusters": [{{
    "name": "xds", "type": "STATIC", "connect_timeout": "1s",
    "typed_extension_protocol_options": {{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {{
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
      "explicit_http_config": {{"http2_protocol_options": {{}}}}}}}},
    "load_assignment": {{"cluster_name": "xds", "endpoints": [{{"lb_endpoints": [{{
      "endpoint": {{"address": {address}}}}}]}}]}},
    "transport_socket": {transport_socket}
  }}]}}
}}"#
    )
}

/// Waits for a fact.
pub(super) fn wait_for(what: &str, within: Duration, fact: impl Fn() -> bool) {
    let start = Instant::now();
    while !fact() {
        assert!(start.elapsed() < within, "waited {within:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An HTTP server that answers its name; it ends with this value.
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    pub(super) fn start(name: &'static str) -> Self {
        Self::start_with(move |stream| answer_all(stream, name))
    }

    /// One that speaks TLS, with this certificate.
    pub(super) fn start_tls(name: &'static str, pair: &Pair) -> Self {
        let config = server_config(pair);
        Self::start_with(move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            answer_all(StreamOwned::new(connection, stream), name);
        })
    }

    fn start_with(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, answer) = (stream.unwrap(), answer.clone());
                std::thread::spawn(move || answer(stream));
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Answers requests until the connection ends.
fn answer_all(stream: impl Read + Write, name: &str) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line == "\r\n" {
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len());
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// One request over a connection of its own: `200 a`, or what went wrong.
pub(super) fn get(at: SocketAddr, host: &str) -> String {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(shown(&exchange(&mut stream, host)?))
    };
    ask().unwrap_or_else(|error| error.kind().to_string())
}

pub(super) fn exchange(stream: &mut (impl Read + Write), host: &str) -> std::io::Result<String> {
    write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Status and body of an answer.
pub(super) fn shown(answer: &str) -> String {
    let status = answer.split(' ').nth(1).unwrap_or("nothing");
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or("");
    format!("{status} {body}")
}

/// Requests one after the other until it is asked what came.
pub(super) struct Loop {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Loop {
    pub(super) fn start(at: SocketAddr, host: &'static str) -> Self {
        Self::of(move || get(at, host))
    }

    /// Asks this again and again.
    pub(super) fn of(ask: impl Fn() -> String + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut answers = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                answers.push(ask());
                std::thread::sleep(Duration::from_millis(1));
            }
            answers
        });
        Self { stop, thread }
    }

    /// Every answer was 200.
    pub(super) fn lost_none(self) {
        let (count, wrong) = self.finish();
        assert_eq!(wrong, Vec::<String>::new(), "of {count}");
    }

    /// How many answers there were, and those that were not 200.
    pub(super) fn finish(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let answers = self.thread.join().unwrap();
        (answers.len(), answers.into_iter().filter(|answer| !answer.starts_with("200 ")).collect())
    }
}
