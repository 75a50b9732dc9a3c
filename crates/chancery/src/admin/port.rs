//! Serves a port that monitors use: a bounded number of connections, of which the longest idle one makes room for each new one.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::connections::{ConnectionPlace, Connections, Life, MAX_CONNECTIONS};
use super::refusals::{Port, Reason, Refusals};
use crate::host_header::{AllowedHosts, HostRefusal};

/// Longest time for a request's head, from the connection or the answer before it on.
const MAX_HEAD_TIME: Duration = Duration::from_secs(5);

/// The largest head of a request in bytes: monitors send some hundred.
const MAX_HEAD: usize = 16 << 10;

/// Longest time in which a client takes nothing of its answer.
const MAX_UNTAKEN: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, for want of descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A port and what it answers.
#[derive(Clone)]
pub(super) struct MonitorPort {
    pub(super) port: Port,
    /// The option that names its address, for errors.
    pub(super) option: &'static str,
    pub(super) routes: Router,
    /// Further requests on a connection are answered.
    pub(super) keep_alive: bool,
    /// The hosts that a request may name; any without.
    pub(super) hosts: Option<Arc<AllowedHosts>>,
    pub(super) refusals: Refusals,
}

impl MonitorPort {
    /// Serves until `stop`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub(super) async fn serve(self, address: SocketAddr, stop: CancellationToken) -> anyhow::Result<()> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| anyhow::anyhow!("{} {address}: {error}", self.option))?;
        tokio::select! {
            () = self.accept(listener) => {}
            () = stop.cancelled() => {}
        }
        Ok(())
    }

    /// Takes each connection at once: a client that connects never waits for others to end.
    async fn accept(self, listener: TcpListener) {
        let connections = Connections::new(MAX_CONNECTIONS);
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let (place, evicted) = connections.enter(from.ip());
                    if evicted {
                        self.refusals.note(self.port, Reason::Evicted);
                    }
                    drop(tokio::spawn(self.clone().connection(stream, place)));
                    // The new task reads its request before a flood of further connections can make it the longest idle one.
                    tokio::task::yield_now().await;
                }
                // A client that went again.
                Err(error) if is_of_client(&error) => {}
                Err(_) => {
                    if connections.evict() {
                        self.refusals.note(self.port, Reason::Evicted);
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(self, stream: TcpStream, place: ConnectionPlace) {
        let life = Arc::clone(&place.life);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(MAX_HEAD_TIME);
        http.max_buf_size(MAX_HEAD).keep_alive(self.keep_alive);
        let routes = TowerToHyperService::new(self.routes.clone());
        let service = service_fn(|request: Request<Incoming>| {
            let refused = self.check(&request).err();
            let answer = refused.is_none().then(|| routes.call(request));
            let life = &life;
            async move {
                life.set_answering(true);
                let answer = match (answer, refused) {
                    (Some(answer), _) => answer.await,
                    (None, refused) => Ok(refused.map_or_else(Response::default, refusal)),
                };
                life.set_answering(false);
                answer.map(for_this_site)
            }
        });
        let io = TokioIo::new(Watched { stream, life: Arc::clone(&place.life), blocked: None });
        let ended = tokio::select! {
            ended = http.serve_connection(io, service) => ended.err().and_then(|error| reason(&error)),
            // Counted where it was decided.
            () = place.life.closed() => None,
        };
        if let Some(reason) = ended {
            self.refusals.note(self.port, reason);
        }
    }

    fn check<B>(&self, request: &Request<B>) -> Result<(), HostRefusal> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let values = |name| request.headers().get_all(name).iter().map(HeaderValue::as_bytes);
        let uri = request.uri().authority().map(axum::http::uri::Authority::as_str);
        hosts.check(values(header::HOST), uri, values(header::ORIGIN)).inspect_err(|refused| {
            let reason = match refused {
                HostRefusal::Host => Reason::Host,
                HostRefusal::Origin => Reason::Origin,
            };
            self.refusals.note(self.port, reason);
        })
    }
}

/// The answer to a request that is refused. A connection that misses its host once does so again.
fn refusal(refused: HostRefusal) -> Response {
    let status = match refused {
        HostRefusal::Host => StatusCode::MISDIRECTED_REQUEST,
        HostRefusal::Origin => StatusCode::FORBIDDEN,
    };
    (status, [(header::CONNECTION, "close")], format!("{refused}\n")).into_response()
}

/// An answer that browsers show to no page of another site, and take for nothing but what it says that it is.
fn for_this_site(mut answer: Response<Body>) -> Response<Body> {
    let headers = answer.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    answer
}

fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Returns the reason why a connection ended; `None` where its client ended it.
fn reason(error: &hyper::Error) -> Option<Reason> {
    let is_untaken = || {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
    };
    if error.is_parse_too_large() {
        Some(Reason::HeadTooLarge)
    } else if error.is_parse() {
        Some(Reason::Malformed)
    } else if is_untaken() {
        Some(Reason::Untaken)
    } else {
        error.is_timeout().then_some(Reason::Idle)
    }
}

/// A connection that notes what its client takes, and fails where that is nothing for too long.
struct Watched {
    stream: TcpStream,
    life: Arc<Life>,
    /// Ends when the client has taken nothing for too long; there is one while something waits to be taken.
    blocked: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    fn watch(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                self.blocked = None;
                self.life.note_taken();
                Poll::Ready(written)
            }
            Poll::Pending => {
                let blocked = self.blocked.get_or_insert_with(|| Box::pin(sleep(MAX_UNTAKEN)));
                blocked.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(cx, written)
    }
}

#[cfg(test)]
mod tests;
