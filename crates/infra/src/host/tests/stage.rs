//! A state folder, a running supervisor, and what is needed to look at it from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ir::infra::{ObjectName, ProxyOptions};
use ir::{FleetName, Infra};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::host::handover::forget;
use crate::host::process::{search, start_time};
use crate::host::{
    ADMIN_SOCKET, Ending, EnvoyFinder, EnvoySearch, EnvoyState, Error, HostFact, HostOptions, Layout, ProxyPaths,
    Wanted, run,
};

/// Longer than anything takes on a loaded machine; reached only by a failing test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) options: HostOptions,
    pub(crate) wanted: watch::Sender<Wanted>,
    pub(crate) ending: watch::Sender<Ending>,
    facts: mpsc::Receiver<HostFact>,
    running: JoinHandle<Result<(), Error>>,
    /// Its processes are another's now.
    left: bool,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut HostOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        change(&mut options);
        Self::start(dir, options)
    }

    /// Its proxies send every request to the server, and drain for as long as one is open.
    pub(crate) async fn with_server() -> (TcpListener, Self) {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = server.local_addr().unwrap();
        let stage = Self::with(|options| {
            options.bootstrap = Arc::new(forwarding(address));
            options.drain = Duration::from_hours(1);
        });
        (server, stage)
    }

    fn start(dir: TempDir, options: HostOptions) -> Self {
        let (wanted, wants) = watch::channel(Wanted::default());
        let (ending, ends) = watch::channel(Ending::No);
        let (tell, facts) = mpsc::channel(64);
        let running = tokio::spawn(run(options.clone(), wants, tell, ends));
        Self { dir, options, wanted, ending, facts, running, left: false }
    }

    /// Ends the supervisor as a crash would: its future is dropped. Then starts another in the same folder.
    pub(crate) async fn crash_and_start(mut self, change: impl FnOnce(&mut HostOptions)) -> Self {
        self.running.abort();
        let _aborted = (&mut self.running).await;
        let mut options = self.options.clone();
        change(&mut options);
        self.left = true;
        Self::start(std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap()), options)
    }

    pub(crate) fn want(&self, gateways: &[Infra]) {
        let wanted: BTreeMap<_, _> =
            gateways.iter().map(|infra| (infra.fleet.clone(), Arc::new(infra.clone()))).collect();
        self.wanted.send_replace(Arc::new(wanted));
    }

    pub(crate) fn want_only(&self, gateway: &Infra) {
        self.want(std::slice::from_ref(gateway));
    }

    /// A Gateway `edge` on a free port, and the number of its Envoy, which is ready.
    pub(crate) async fn serve_edge(&mut self) -> (Infra, u16, u32) {
        let port = free_port();
        let edge = gateway("edge", &[port]);
        self.want_only(&edge);
        let pid = self.facts_of(&edge, |facts| facts.ready).await.pid.unwrap();
        (edge, port, pid)
    }

    /// The next facts of a fleet for which this holds.
    pub(crate) async fn facts_of(&mut self, infra: &Infra, mut wish: impl FnMut(&EnvoyState) -> bool) -> EnvoyState {
        let mut seen = Vec::new();
        let waiting = async {
            loop {
                let fact = self.facts.recv().await.expect("the supervisor runs");
                match fact.state {
                    Some(facts) if fact.fleet == infra.fleet && wish(&facts) => return facts,
                    other => seen.push(other),
                }
            }
        };
        let found = tokio::time::timeout(DEADLINE, waiting).await;
        found.unwrap_or_else(|_| panic!("these facts came: {seen:#?}"))
    }

    /// Waits for the word that the Envoy that served is being ended.
    pub(crate) async fn draining(&mut self, infra: &Infra) {
        self.facts_of(infra, |facts| facts.pid.is_some() && !facts.ready).await;
    }

    /// Waits for the word that a fleet's proxy is gone; gives what was told until then.
    pub(crate) async fn gone(&mut self, infra: &Infra) -> Vec<EnvoyState> {
        let mut told = Vec::new();
        let waiting = async {
            while let Some(fact) = self.facts.recv().await {
                match fact.state {
                    Some(state) if fact.fleet == infra.fleet => told.push(state),
                    None if fact.fleet == infra.fleet => return,
                    _ => {}
                }
            }
            panic!("the supervisor ended without a word");
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("it goes");
        told
    }

    /// Waits until an Envoy on its way out is gone, with its files.
    pub(crate) async fn left(&self, infra: &Infra, pid: u32) {
        let paths = self.paths(infra);
        let files = [paths.dir.join(format!("draining.{pid}")), paths.sockets.join(format!("drain.{pid}"))];
        let leaving = async {
            while is_alive(pid) || files.iter().any(|file| file.exists()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(DEADLINE, leaving).await.expect("it ends");
    }

    /// Asks for the end and waits for it.
    pub(crate) async fn end(&mut self, ending: Ending) {
        self.ending.send_replace(ending);
        self.ended().await;
    }

    pub(crate) async fn ended(&mut self) {
        let ended = async {
            while self.facts.recv().await.is_some() {}
            (&mut self.running).await
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("it ends").expect("no panic").expect("no error");
    }

    pub(crate) fn paths(&self, infra: &Infra) -> ProxyPaths {
        self.options.layout.paths(&infra.fleet)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.running.abort();
        if !self.left {
            end_all(&self.options.layout);
        }
    }
}

/// Ends every Envoy that runs from a state folder, recorded or not.
pub(crate) fn end_all(layout: &Layout) {
    for fleet in layout.known() {
        let mut killed = BTreeSet::new();
        while let Some(&pid) = search(&layout.paths(&fleet).bootstrap, &killed).first() {
            kill(pid);
            killed.insert(pid);
        }
        forget(&layout.paths(&fleet));
    }
}

pub(crate) fn options(state: &Path) -> HostOptions {
    let layout = Layout::open(state, None).unwrap();
    HostOptions::new(layout, finder(&envoy_program()), Arc::new(greeting))
}

/// Finds this Envoy and no other.
pub(crate) fn finder(program: &Path) -> EnvoyFinder {
    EnvoyFinder::new(EnvoySearch { named: Some(program.to_owned()), ..EnvoySearch::default() })
}

pub(crate) fn envoy_program() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/envoy/1.40.0/bin/envoy");
    assert!(program.is_file(), "Envoy is missing: run `make envoy`");
    program
}

/// A Gateway on loopback.
pub(crate) fn gateway(name: &str, ports: &[u16]) -> Infra {
    Infra {
        fleet: FleetName::from(format!("default/{name}")),
        gateway: ObjectName { namespace: "default".into(), name: name.into() },
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        ports: ports.to_vec(),
        udp_ports: Vec::new(),
        options: ProxyOptions { concurrency: Some(1), ..ProxyOptions::default() },
        kubernetes: None,
    }
}

/// A bootstrap that answers every request with the fleet's name.
pub(crate) fn greeting(infra: &Infra, paths: &ProxyPaths) -> String {
    let action =
        serde_json::json!({"direct_response": {"status": 200, "body": {"inline_string": infra.fleet.as_str()}}});
    bootstrap(infra, paths, &action, &serde_json::json!([]))
}

/// A bootstrap that sends every request to a server of the test.
pub(crate) fn forwarding(server: SocketAddr) -> impl Fn(&Infra, &ProxyPaths) -> String {
    move |infra, paths| {
        let address = serde_json::json!({"socket_address": {"address": server.ip(), "port_value": server.port()}});
        let clusters = serde_json::json!([{"name": "server", "type": "STATIC", "load_assignment": {"cluster_name": "server",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}}]);
        bootstrap(infra, paths, &serde_json::json!({"route": {"cluster": "server", "timeout": "0s"}}), &clusters)
    }
}

fn bootstrap(infra: &Infra, paths: &ProxyPaths, action: &serde_json::Value, clusters: &serde_json::Value) -> String {
    let mut route = action.clone();
    route["match"] = serde_json::json!({"prefix": "/"});
    let router = serde_json::json!({"name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}});
    let manager = serde_json::json!({"name": "http", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http", "http_filters": [router],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]}}});
    let listeners: Vec<_> = infra
        .ports
        .iter()
        .map(|port| {
            serde_json::json!({"name": format!("port {port}"), "enable_reuse_port": false,
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                "filter_chains": [{"filters": [manager]}]})
        })
        .collect();
    serde_json::json!({
        "node": {"id": infra.fleet.as_str(), "cluster": infra.fleet.as_str(), "metadata": {"folder": paths.dir}},
        "admin": {"address": {"pipe": {"path": ADMIN_SOCKET, "mode": 0o600}}},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    })
    .to_string()
}

/// A port that no other test gets.
pub(crate) fn free_port() -> u16 {
    let [port] = ::tests::ports::free_ports().unwrap();
    port
}

/// One request on a connection of its own: the answer, head and body. Its length is in its head; waiting for the end of the
/// connection would take a second, which Envoy leaves its clients to read.
pub(crate) async fn request(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await?;
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer);
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        if body.is_some() && body == length {
            return Ok(text.into_owned());
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A request that has reached the server behind the proxy and waits for its answer.
pub(crate) struct Asked {
    pub(crate) asking: JoinHandle<std::io::Result<String>>,
    stream: TcpStream,
}

impl Asked {
    pub(crate) async fn at(server: &TcpListener, port: u16) -> Self {
        let asking = tokio::spawn(request(port));
        let accepted = tokio::time::timeout(DEADLINE, server.accept()).await.expect("the request comes");
        let (mut stream, _) = accepted.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        Self { asking, stream }
    }

    pub(crate) async fn answer(mut self) {
        self.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").await.unwrap();
        assert!(self.asking.await.unwrap().unwrap().ends_with("done"));
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    start_time(pid).is_some()
}

pub(crate) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
