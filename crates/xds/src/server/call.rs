//! One call: what a service gets, and its answer, which lasts as long as the caller may have it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep_until};

use super::Shared;
use super::exchange::Exchange;
use super::gate::Caller;
use super::grpc::{Code, Frames};
use super::load::LoadStream;
use super::stream::Stream;
use super::streams::Siblings;
use super::unread::Turns;

/// A call that passed the gate, as a service gets it.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    /// Other streams of the same connection.
    pub(super) siblings: Arc<Siblings>,
    /// Who calls: asked for the fleet as soon as the node is known.
    pub(super) caller: Caller,
    pub(super) requests: Frames<Incoming>,
    /// Told when the answer is to end because the server stops.
    pub(super) stop: watch::Receiver<bool>,
}

/// What a service answers.
pub(super) enum Reply {
    /// Only headers.
    Nothing,
    /// Discovery.
    Stream(Box<Stream>),
    /// Anything that answers each request by itself.
    Exchange(Box<Exchange>),
    /// Load reports.
    Loads(LoadStream),
}

impl Reply {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        match self {
            Self::Nothing => Poll::Ready(None),
            Self::Stream(stream) => stream.poll_frame(cx),
            Self::Exchange(exchange) => exchange.poll_frame(cx),
            Self::Loads(stream) => stream.poll_frame(cx),
        }
    }
}

/// The body of any answer. A service works only while its body is polled, so nothing is taken in from a caller whose identity has
/// expired, and a timer ends the answer of one that says nothing.
pub(super) struct Guarded {
    reply: Reply,
    expires: Option<(Instant, Pin<Box<Sleep>>)>,
    turns: Option<Turns>,
}

impl Guarded {
    /// No answer but headers.
    pub(super) fn nothing() -> Self {
        Self { reply: Reply::Nothing, expires: None, turns: None }
    }

    pub(super) fn new(reply: Reply, expires: Option<Instant>, turns: Turns) -> Self {
        Self { reply, expires: expires.map(|at| (at, Box::pin(sleep_until(at.into())))), turns: Some(turns) }
    }

    /// Whether the caller's identity has expired; asks to be polled when it does.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.expires.as_mut().is_some_and(|(at, timer)| timer.as_mut().poll(cx).is_ready() || *at <= Instant::now())
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.is_over(cx) {
            // the service ends with its value
            (this.reply, this.expires) = (Reply::Nothing, None);
            let trailers = Code::Unauthenticated.headers("the identity of the client has expired");
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        let Self { reply, turns, .. } = this;
        let frame = match turns {
            Some(turns) => turns.poll_frame(cx, |cx| reply.poll_frame(cx)),
            None => reply.poll_frame(cx),
        };
        frame.map(|frame| frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.reply, Reply::Nothing)
    }
}
