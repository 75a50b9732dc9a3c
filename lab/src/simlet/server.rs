//! What kubelet answers over HTTPS: the logs of containers, and ports of pods.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query as Parameters, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::forward::forward;
use super::log::Cursor;
use super::log::query::Query;
use super::{Context, node, now};
use crate::network::NODE;

/// Binds it, with a certificate of its own: the API server of the lab does not look at it.
pub(crate) async fn bind() -> anyhow::Result<Https> {
    let own = rcgen::generate_simple_self_signed(vec![NODE.to_string()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())?;
    let tcp = TcpListener::bind((NODE, node::PORT)).await.context("binding kubelet's port")?;
    Ok(Https { tcp, tls: TlsAcceptor::from(Arc::new(config)) })
}

/// Answers, for ever.
pub(crate) async fn serve(https: Https, context: Arc<Context>) {
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs))
        .route("/exec/{*rest}", any(refuse))
        .route("/attach/{*rest}", any(refuse))
        .route("/portForward/{namespace}/{pod}", get(forward))
        .with_state(context);
    if let Err(error) = axum::serve(https, router).await {
        tracing::error!("kubelet's port: {error}");
    }
}

async fn refuse() -> impl IntoResponse {
    let why = "the lab's kubelet has no commands in containers; `lab enter POD` runs a command in a container";
    (StatusCode::NOT_IMPLEMENTED, why)
}

async fn logs(
    State(context): State<Arc<Context>>,
    Path(key): Path<[String; 3]>,
    Parameters(parameters): Parameters<BTreeMap<String, String>>,
) -> Response {
    let query = match Query::parse(&parameters, now()) {
        Ok(query) => query,
        Err(why) => return (StatusCode::BAD_REQUEST, why).into_response(),
    };
    let Some(log) = context.logs.find(&key, query.previous) else {
        let which = if query.previous { "previous terminated container" } else { "container" };
        let [namespace, pod, container] = key;
        let why = format!("{which} \"{container}\" in pod \"{pod}\" of namespace \"{namespace}\" has no log");
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    let limit = query.limit.unwrap_or(usize::MAX);
    let reading = Reading { cursor: log.begin(), query, first: true, left: limit };
    Body::from_stream(futures::stream::unfold(reading, next)).into_response()
}

/// An answer on its way.
struct Reading {
    cursor: Cursor,
    query: Query,
    first: bool,
    /// Bytes that may follow.
    left: usize,
}

/// The next part of an answer.
async fn next(mut reading: Reading) -> Option<(Result<Bytes, Infallible>, Reading)> {
    loop {
        let is_over = !reading.first && !reading.query.follow;
        if is_over || reading.left == 0 || (!reading.first && !reading.cursor.more().await) {
            return None;
        }
        // the file may be gone with its pod
        let lines = reading.cursor.read().ok()?;
        let mut selected = reading.query.select(&lines, reading.first);
        selected.truncate(reading.left);
        reading.left -= selected.len();
        reading.first = false;
        if !selected.is_empty() {
            return Some((Ok(selected.into()), reading));
        }
    }
}

/// Connections over TLS.
pub(crate) struct Https {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl Listener for Https {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // only the API server comes here: one handshake at a time is enough, and none may take long
        const HANDSHAKE: Duration = Duration::from_secs(2);
        loop {
            let Ok((stream, address)) = self.tcp.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, self.tls.accept(stream)).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
