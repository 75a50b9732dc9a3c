//! Envoy's admin interface, spoken to over its Unix socket: HTTP/1.1, one connection per question.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::Error;

/// One question and its answer. Envoy answers from its main thread, which a big configuration can keep busy for a while.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer: 40 bytes per gauge, three gauges per listener and worker, 1,000 listeners, 256 workers.
const MAX_ANSWER: usize = 32 << 20;

/// What a proxy is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Connections from clients.
    pub(crate) connections: u64,
    /// Connections from clients that speak HTTP.
    pub(crate) http_connections: u64,
    /// HTTP requests that are not answered yet.
    pub(crate) requests: u64,
}

impl Busy {
    /// Ending now would cut nothing short: every connection is an HTTP one without a request.
    pub(crate) fn is_idle(self) -> bool {
        self.requests == 0 && self.connections <= self.http_connections
    }
}

/// Envoy says that it serves.
pub(crate) async fn ready(socket: &Path) -> Result<bool, Error> {
    Ok(ask(socket, Method::GET, "/ready").await?.0 == StatusCode::OK)
}

/// From now on each answer closes its connection, and no new connection is taken.
pub(crate) async fn drain(socket: &Path) -> Result<(), Error> {
    fail_health_checks(socket).await?;
    close_listeners(socket).await
}

/// From now on each answer closes its connection, and `/ready` says no.
pub(crate) async fn fail_health_checks(socket: &Path) -> Result<(), Error> {
    expect_ok(ask(socket, Method::POST, "/healthcheck/fail").await?)
}

/// From now on no new connection is taken.
pub(crate) async fn close_listeners(socket: &Path) -> Result<(), Error> {
    expect_ok(ask(socket, Method::POST, "/drain_listeners").await?)
}

/// Sets log levels: the one of all components, then those of some (`a:debug,b:info`).
pub(crate) async fn set_log_levels(socket: &Path, level: &str, components: &str) -> Result<(), Error> {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:,".contains(&byte));
    if !plain(level) || !plain(components) {
        return Err(Error::Admin(format!("{level:?} or {components:?} is no log level")));
    }
    expect_ok(ask(socket, Method::POST, &format!("/logging?level={level}")).await?)?;
    if components.is_empty() {
        return Ok(());
    }
    expect_ok(ask(socket, Method::POST, &format!("/logging?paths={components}")).await?)
}

/// What the proxy is busy with now.
pub(crate) async fn busy(socket: &Path) -> Result<Busy, Error> {
    const QUESTION: &str = "/stats?type=Gauges&filter=%5E(http%7Clistener)%5C..*downstream_(cx%7Crq)_active$";
    let (status, text) = ask(socket, Method::GET, QUESTION).await?;
    expect_ok((status, text.clone()))?;
    Ok(count(&text))
}

/// Adds up the gauges. Those of single workers are in their listener's, and the admin interface counts itself.
fn count(text: &str) -> Busy {
    let mut busy = Busy::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        let value: u64 = value.trim().parse().unwrap_or(0);
        let own = name.starts_with("http.admin.") || name.starts_with("listener.admin.");
        if own || name.contains(".worker_") || name.contains(".main_thread.") {
            continue;
        }
        let sum = match (name.starts_with("http."), name.ends_with(".downstream_rq_active")) {
            (true, true) => &mut busy.requests,
            (true, false) => &mut busy.http_connections,
            (false, false) => &mut busy.connections,
            (false, true) => continue,
        };
        *sum = sum.saturating_add(value);
    }
    busy
}

fn expect_ok((status, text): (StatusCode, String)) -> Result<(), Error> {
    if status.is_success() {
        return Ok(());
    }
    Err(Error::Admin(format!("{status}: {}", text.lines().next().unwrap_or_default())))
}

async fn ask(socket: &Path, method: Method, question: &str) -> Result<(StatusCode, String), Error> {
    let answer = tokio::time::timeout(TIMEOUT, exchange(socket, method, question)).await;
    answer.map_err(|_| Error::Admin("no answer in time".to_owned()))?.map_err(|error| Error::Admin(error.to_string()))
}

async fn exchange(
    socket: &Path,
    method: Method,
    question: &str,
) -> Result<(StatusCode, String), Box<dyn std::error::Error + Send + Sync>> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(question)
        .header("host", "envoy")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    // The connection only moves bytes; it goes on beside the question and ends with it, in this very task.
    let (answer, _connection) = tokio::join!(answer, connection);
    answer
}

#[cfg(test)]
mod tests;
