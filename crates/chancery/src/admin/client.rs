//! The other end of the admin API, and of Envoy's: one question over a connection of any kind, and its answer.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// Answers larger than this are refused: 512 MiB holds the statuses of 50,000 routes (about 1 kB each), and what an Envoy says of them (10 kB).
const MAX_ANSWER: usize = 512 << 20;

/// How long the process may say nothing: somewhat longer than it waits for a change ([`super::MAX_WAIT`]).
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// The body of the answer to a GET.
///
/// # Errors
/// Nobody answers, or the answer is no success.
pub(crate) async fn get(stream: impl AsyncRead + AsyncWrite + Send + Unpin, path: &str) -> anyhow::Result<Vec<u8>> {
    get_with(stream, path, None).await
}

/// The same of who asks for a token.
///
/// # Errors
/// As [`get`].
pub(crate) async fn get_with(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    path: &str,
    token: Option<&str>,
) -> anyhow::Result<Vec<u8>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header("host", "localhost").header("connection", "close");
    let request = match token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    };
    let request = request.body(Empty::<Bytes>::new())?;
    let answer = async move {
        let asked = timeout(MAX_SILENCE, sender.send_request(request)).await;
        let response = asked.context("it lives and does not answer")?.context("it ended before it answered")?;
        let status = response.status();
        let body = read(response.into_body()).await?;
        anyhow::ensure!(status == StatusCode::OK, "{path}: {status} {}", String::from_utf8_lossy(&body).trim());
        Ok(body)
    };
    // The connection only moves bytes; it goes on beside the question and ends with it.
    let (answer, _connection) = tokio::join!(answer, connection);
    answer
}

async fn read(mut body: Incoming) -> anyhow::Result<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(frame) = timeout(MAX_SILENCE, body.frame()).await.context("it stopped in the midst of its answer")? {
        let frame = frame.context("it ended in the midst of its answer")?;
        whole.extend_from_slice(frame.data_ref().map(Bytes::as_ref).unwrap_or_default());
        anyhow::ensure!(whole.len() <= MAX_ANSWER, "its answer has more than {} MiB", MAX_ANSWER >> 20);
    }
    Ok(whole)
}
