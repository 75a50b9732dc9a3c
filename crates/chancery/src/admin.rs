//! The admin API: what a running process knows, without secrets. Nothing can be changed but the log level, and that only over the socket in
//! the state folder, with the token in `admin.token` next to it; `--admin-listen` offers the rest on loopback, for those who may forward ports of its Pod.
//!
//! | path | answers |
//! |---|---|
//! | `/status?after=N` | every status and problem as JSON; waits until the revision is beyond `N` |
//! | `/explain?workload=NAMESPACE/NAME` | which objects make what a workload gets |
//! | `/rules` | the object and line of each rule, by the name of its routes in Envoy |
//! | `/proxies` | every proxy that is connected to this process, and how it stands to its configuration |
//! | `/graph` | the nodes of the graph with rows, runs and time |
//! | `/load` | what proxies send to each cluster, as they report it |
//! | `/metrics` | OpenMetrics |
//! | `/healthz` | 200 while the process lives |
//! | `/readyz` | 200 once every source has listed and proxies can come |
//! | `/log?level=debug` | sets the log level |

pub(crate) mod client;
mod connections;
mod counters;
mod port;
mod proxies;
mod refusals;
mod reports;
mod xds_refusals;

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use infra::host::{Layout, Token};
use serde::Deserialize;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use xds::KnownTokens;

use crate::core::Asking;
use crate::host_header::{AllowedHosts, Host};
use crate::telemetry::Log;
use port::MonitorPort;
use refusals::Port;
pub(crate) use refusals::Refusals;
use reports::Reports;

/// The paths that there are, for `/` and in place of one that there is not.
const INDEX: &str = "\
GET /status?after=N                    statuses and problems; waits until the revision is beyond N
GET /explain?workload=NAMESPACE/NAME   the objects that make what a workload gets
GET /rules                             the object and line of each rule, by the name of its routes in Envoy
GET /proxies                           the connected proxies and how much of their configuration they accepted
GET /graph                             the nodes of the graph with rows, runs and time
GET /load                              the load of each cluster, as proxies report it
GET /metrics                           OpenMetrics
GET /healthz                           200 while the process lives
GET /readyz                            200 once every source was read and proxies can connect
GET /log?level=debug                   sets the log level (only on the socket of the state folder)
";

/// How long `/status` waits for a change before it answers with what there is: below common client time-outs of a minute.
const MAX_WAIT: Duration = Duration::from_secs(50);

/// How often it is seen whether the socket is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the answers are made from.
#[derive(Clone)]
pub(crate) struct Admin {
    /// Asks the core.
    pub(crate) asking: Asking,
    /// Knows the proxies.
    pub(crate) server: xds::Server,
    /// Changes the log level.
    pub(crate) log: Log,
    /// Proxies can come.
    pub(crate) listening: Arc<AtomicBool>,
    /// Counts what the ports refuse.
    pub(crate) refusals: Refusals,
}

/// Serves what monitors ask for at an address, until `stop`: health and metrics, nothing else.
pub(crate) async fn serve_health(admin: Admin, address: SocketAddr, stop: CancellationToken) -> anyhow::Result<()> {
    let port = MonitorPort {
        port: Port::Health,
        option: "--health-listen",
        refusals: admin.refusals.clone(),
        routes: for_monitors().with_state(admin),
        // A probe is one request. A connection that is kept would take a place that the next probe needs.
        keep_alive: false,
        // Kubelets and those who collect figures name it by any of its addresses, and nothing of the configuration is shown.
        hosts: None,
    };
    port.serve(address, stop).await
}

/// Serves what can be read at an address, to requests for loopback or one of these hosts, until `stop`.
pub(crate) async fn serve_readers(
    admin: Admin,
    (address, hosts): (SocketAddr, Vec<Host>),
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let port = MonitorPort {
        port: Port::Admin,
        option: "--admin-listen",
        refusals: admin.refusals.clone(),
        routes: for_readers(&admin).with_state(admin),
        keep_alive: true,
        hosts: Some(Arc::new(AllowedHosts(hosts))),
    };
    port.serve(address, stop).await
}

/// What shows nothing of the configuration.
fn for_monitors() -> Router<Admin> {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
}

/// What changes nothing.
fn for_readers(admin: &Admin) -> Router<Admin> {
    let reports = Reports::new(admin.asking.clone());
    for_monitors()
        .route("/status", get(move |State(admin): State<Admin>, after| status(admin, reports.clone(), after)))
        .route("/", get(|| async { INDEX }))
        .fallback(|| async { (StatusCode::NOT_FOUND, INDEX) })
        .route("/explain", get(explain))
        .route("/rules", get(rules))
        .route("/proxies", get(proxies))
        .route("/graph", get(graph))
        .route("/load", get(load))
}

/// Serves until `stop`; the socket is removed at the end.
pub(crate) async fn serve(admin: Admin, state: PathBuf, stop: CancellationToken) -> anyhow::Result<()> {
    let socket = Layout::own_socket(&state);
    let token = Layout::make_own_token(&state);
    let token = token.inspect_err(|error| tracing::warn!(%error, "the admin socket refuses all requests, as it has no token; start Chancery again once there is room"));
    let token = token.ok();
    let known = KnownTokens::default();
    token.iter().for_each(|token| known.insert(token.as_str(), "".into()));
    let mut listener = bind(&socket)?;
    // Also where this ends by being dropped.
    let _removed = Removed(socket.clone());
    let routes =
        for_readers(&admin).route("/log", get(log)).with_state(admin).layer(from_fn_with_state(known, with_token));
    loop {
        let served = axum::serve(listener, routes.clone()).with_graceful_shutdown(stop.clone().cancelled_owned());
        listener = tokio::select! {
            result = served => {
                result?;
                break;
            }
            // A watcher may be waiting for a change: the end does not wait for it.
            () = stop.cancelled() => break,
            again = bound_again(&socket, (&state, token.as_ref())) => again,
        };
    }
    Ok(())
}

/// Answers who brings the token of the state folder only: what an Envoy of this user is led to ask has none, whatever path led it here.
async fn with_token(State(known): State<KnownTokens>, request: Request, next: Next) -> Response {
    if known.has(request.headers()) {
        return next.run(request).await;
    }
    let words =
        "this socket answers who sends `Authorization: Bearer TOKEN`; TOKEN is in admin.token of the state folder\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], words).into_response()
}

/// A file that is removed with this.
pub(crate) struct Removed(PathBuf);

impl Removed {
    /// What an earlier process left is removed too.
    pub(crate) fn now_and_at_the_end(file: PathBuf) -> Self {
        drop(Self(file.clone()));
        Self(file)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

fn bind(socket: &Path) -> anyhow::Result<UnixListener> {
    // A socket that a killed process left behind: the state folder's lock says that nobody listens on it.
    let _ = std::fs::remove_file(socket);
    UnixListener::bind(socket).map_err(|error| anyhow::anyhow!("admin socket {}: {error}", socket.display()))
}

/// Listens again once the socket was removed, with the folder and the token perhaps.
async fn bound_again(socket: &Path, (state, token): (&Path, Option<&Token>)) -> UnixListener {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if socket.exists() {
            continue;
        }
        for folder in socket.parent().into_iter().chain([state]) {
            let _there = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        let _no_room = token.map(|token| Layout::keep_own_token(state, token));
        if let Ok(listener) = bind(socket) {
            return listener;
        }
    }
}

/// A report that others are sent too.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
}

async fn status(admin: Admin, reports: Reports, Query(After { after }): Query<After>) -> Response {
    let mut revision = admin.asking.revision();
    let _ = tokio::time::timeout(MAX_WAIT, revision.wait_for(|current| *current > after)).await;
    match reports.now().await {
        Some(report) => {
            let body = Bytes::from_owner(Shared(report));
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        None => ending(),
    }
}

#[derive(Deserialize)]
struct Workload {
    workload: Option<String>,
}

async fn explain(State(admin): State<Admin>, Query(Workload { workload }): Query<Workload>) -> Response {
    let Some(workload) = workload.filter(|workload| !workload.is_empty()) else {
        let words = "/explain takes the workload: write /explain?workload=NAMESPACE/NAME, for example /explain?workload=default/web-1\n";
        return (StatusCode::BAD_REQUEST, words).into_response();
    };
    admin.asking.explain(workload).await.map_or_else(ending, |answer| axum::Json(answer).into_response())
}

async fn rules(State(admin): State<Admin>) -> Response {
    admin.asking.rules().await.map_or_else(ending, |rules| axum::Json(rules).into_response())
}

async fn proxies(State(admin): State<Admin>) -> Response {
    // Of thousands of proxies with thousands of routes it takes a second.
    let made = tokio::task::spawn_blocking(move || proxies::report(&admin.server)).await;
    made.map_or_else(|_| ending(), |report| axum::Json(report).into_response())
}

async fn graph(State(admin): State<Admin>) -> Response {
    admin.asking.graph().await.map_or_else(ending, |nodes| axum::Json(nodes).into_response())
}

async fn load(State(admin): State<Admin>) -> Response {
    admin.asking.loads().await.map_or_else(ending, |clusters| axum::Json(clusters).into_response())
}

async fn metrics(State(admin): State<Admin>) -> Response {
    match admin.asking.metrics(admin.log.dropped_lines()).await {
        Some(mut text) => {
            admin.refusals.add_to(&mut text);
            xds_refusals::add_to(&mut text, &admin.server.refusals());
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                .into_response()
        }
        None => ending(),
    }
}

async fn ready(State(admin): State<Admin>) -> Response {
    if admin.asking.is_ready() && admin.listening.load(Ordering::Acquire) {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}

#[derive(Deserialize)]
struct Level {
    level: Option<String>,
}

async fn log(State(admin): State<Admin>, Query(Level { level }): Query<Level>) -> Response {
    let Some(level) = level else {
        let words = "/log takes the level: write for example /log?level=debug\n";
        return (StatusCode::BAD_REQUEST, words).into_response();
    };
    match admin.log.set_level(&level) {
        Ok(()) => format!("log level {level}\n").into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

fn ending() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "chancery is ending\n").into_response()
}
