//! A real Envoy between a client and a backend that shows what reached it, all over Unix sockets in one folder.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy::{Options, StaticOptions, StaticParts};
use ir::listener::Application;
use ir::route::Hosts;
use ir::{
    Address, Cluster, Endpoint, EndpointSource, Endpoints, FilterChain, Listener, Route, RouteConfiguration,
    RoutePiece, VirtualHost,
};
use prost::Message;
use proto::envoy::config::bootstrap::v3::Bootstrap;
use proto::envoy::config::core::v3 as core;

/// A running Envoy that serves some routes to one cluster. It ends with this value.
pub(crate) struct Proxy {
    child: Child,
    folder: tempfile::TempDir,
}

impl Proxy {
    /// Waits until the listener takes connections.
    pub(crate) fn start(routes: Vec<Route>, application: Application) -> Self {
        let folder = tempfile::tempdir().unwrap();
        backend(&folder.path().join("backend.sock"));
        let file = folder.path().join("bootstrap.pb");
        std::fs::write(&file, bootstrap(folder.path(), routes, application).encode_to_vec()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(crate::binary::envoy())
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning", "--config-path"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut proxy = Self { child, folder };
        proxy.wait();
        proxy
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(self.folder.path().join("listener.sock")).is_err() {
            let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("envoy ended with {status}:\n{}", log());
            }
            assert!(Instant::now() < deadline, "envoy does not listen after 30 s:\n{}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends `<method> <path>` with further header lines; `x-` and other lines end with `\r\n`.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str) -> Answer {
        let mut stream = UnixStream::connect(self.folder.path().join("listener.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: example.org\r\n{headers}\r\n");
        let _ = stream.write_all(head.as_bytes());
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader).unwrap_or_default();
        let length = values(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        Answer::read(&head, String::from_utf8_lossy(&body).into_owned())
    }

    /// A plain GET.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back. `status` 0: the connection was closed without an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    /// The head of the request as the backend got it, if it did.
    pub(crate) seen: String,
}

impl Answer {
    fn read(head: &str, seen: String) -> Self {
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), seen }
    }

    /// The values of a header of the answer, joined by `,`.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        values(&self.head, name)
    }

    /// The values of a header of the request as the backend got it, joined by `,`.
    pub(crate) fn seen_header(&self, name: &str) -> Option<String> {
        values(&self.seen, name)
    }

    /// The path as the backend got it.
    pub(crate) fn seen_path(&self) -> &str {
        self.seen.split(' ').nth(1).unwrap_or("<the backend was not asked>")
    }
}

fn values(head: &str, name: &str) -> Option<String> {
    let found: Vec<&str> = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect();
    (!found.is_empty()).then(|| found.join(","))
}

/// Answers each request with the head that it had. The thread ends with the process.
fn backend(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream));
        }
    });
}

fn answer(stream: &UnixStream) {
    let Some(head) = read_head(&mut BufReader::new(stream)) else { return };
    let upgraded = head.to_ascii_lowercase().contains("upgrade: websocket");
    if upgraded {
        let mut stream = stream;
        let _ =
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n");
        return;
    }
    let length = head.len();
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\nx-gone: 1\r\nx-set: old\r\n\r\n{head}"
    );
}

/// Up to the empty line; `None` if the connection ends before.
fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if !matches!(reader.read_line(&mut head), Ok(1..)) {
            return None;
        }
    }
    Some(head)
}

fn bootstrap(folder: &Path, routes: Vec<Route>, application: Application) -> Bootstrap {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let pieces = vec![Arc::new(RoutePiece { routes: routes.into_iter().map(Arc::new).collect() })];
    let host = VirtualHost { name: "r/*".into(), domains: vec!["*".into()], pieces, external_auth: Vec::new() };
    let configuration = RouteConfiguration { name: "r".into(), hosts: Hosts::Inline(vec![Arc::new(host)]) };
    let chain = FilterChain { name: "*".into(), server_names: Vec::new(), tls: None, application };
    let listener = Listener {
        name: "l".into(),
        address: None,
        port: 80,
        mapped_to: None,
        chains: vec![chain],
        udp: None,
        tracing: None,
        retry_budgets: false,
    };
    let cluster = |name: &str| Cluster {
        name: name.into(),
        endpoints: EndpointSource::Discovered("e".into()),
        protocol: Default::default(),
        tls: None,
        circuit_breaker: Default::default(),
        connect_timeout: None,
    };
    let clusters = [cluster("a"), cluster("b"), cluster("c")];
    let endpoint = Endpoint::new(Address::Unix(path("backend.sock").into()));
    let locality = ir::cluster::Locality { zone: None, priority: 0, endpoints: vec![endpoint] };
    let endpoints = Endpoints { name: "e".into(), localities: vec![locality] };
    let parts = StaticParts {
        listeners: vec![&listener],
        route_configurations: vec![&configuration],
        clusters: clusters.iter().collect(),
        endpoints: vec![&endpoints],
        ..StaticParts::default()
    };
    let options = StaticOptions { listeners: Options::default(), show_secrets: true };
    let mut bootstrap = envoy::static_bootstrap(&parts, &options);
    let listener = &mut bootstrap.static_resources.as_mut().unwrap().listeners[0];
    // A Unix socket instead of a port, so that tests never meet on one.
    let pipe = core::Pipe { path: path("listener.sock"), mode: 0 };
    listener.address = Some(core::Address { address: Some(core::address::Address::Pipe(pipe)) });
    listener.tcp_keepalive = None;
    bootstrap
}
