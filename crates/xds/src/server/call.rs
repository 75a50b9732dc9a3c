//! One call: what a service gets, and its answer, which lasts as long as the caller may have it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::backlog::UnderWay;
use super::exchange::Exchange;
use super::gate::{Caller, Revoked};
use super::grpc::{Broken, Code, Frames};
use super::load::LoadStream;
use super::stream::Stream;
use super::streams::Siblings;
use super::unread::Share;
use super::untaken::Watch;
use super::{Shared, locked};
use crate::session::LAGGING;

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
    /// The end of any of them, before its time.
    Over(Option<Broken>),
}

impl Reply {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        match self {
            Self::Nothing => Poll::Ready(None),
            Self::Stream(stream) => stream.poll_frame(cx),
            Self::Exchange(exchange) => exchange.poll_frame(cx),
            Self::Loads(stream) => stream.poll_frame(cx),
            Self::Over(end) => Poll::Ready(end.take().map(|Broken(code, words)| Frame::trailers(code.headers(words)))),
        }
    }
}

/// What the body of an answer and the connection that watches over it share.
pub(super) struct Answer {
    reply: Reply,
    /// When the caller's identity expires; none where that does not matter, or was said.
    expires: Option<Instant>,
    /// What says that it was withdrawn before then; none where that does not matter, or was said.
    revoked: Option<Revoked>,
    /// Since when the client has not taken all that was said; none if it has.
    untaken: Option<Duration>,
    /// When the client has taken a part of it last.
    moved: Duration,
    /// It is among those that the connection looks at.
    watched: bool,
}

const NOT_TAKEN: &str = "the client takes nothing of what it is sent";

impl Answer {
    fn new(reply: Reply, (expires, revoked): Until) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { reply, expires, revoked, untaken: None, moved: Duration::ZERO, watched: false }))
    }

    fn is_over(&self) -> bool {
        let is_late = self.expires.is_some_and(|at| at <= Instant::now());
        is_late || self.revoked.as_ref().is_some_and(Revoked::is_so)
    }

    /// It is not being asked for more, or may not: what is due by now. Gives the time to look again.
    pub(super) fn look(&mut self, shared: &Shared, now: Duration, taken: Duration) -> Option<Duration> {
        let next = self.next_look(shared, now, taken);
        self.watched = next.is_some();
        next
    }

    fn next_look(&mut self, shared: &Shared, now: Duration, taken: Duration) -> Option<Duration> {
        let since = self.untaken?;
        let expires = self.expires.map(|at| at.saturating_duration_since(shared.epoch));
        if expires.is_some_and(|at| at <= now) || self.revoked.as_ref().is_some_and(Revoked::is_so) {
            // the service ends with its value; the words are said when the client reads
            self.reply = Reply::Nothing;
            return None;
        }
        let stream = match &mut self.reply {
            Reply::Stream(stream) => stream,
            Reply::Exchange(exchange) => return expires.into_iter().chain(exchange.look(now)).min(),
            Reply::Nothing | Reply::Loads(_) | Reply::Over(_) => return expires,
        };
        let stuck = since.max(self.moved) + taken;
        if stuck <= now {
            stream.tell_stuck(NOT_TAKEN);
            // the stream ends with its value
            self.reply = Reply::Over(Some(Broken(Code::ResourceExhausted, NOT_TAKEN)));
            return expires;
        }
        let lags = since + LAGGING;
        if lags > now {
            return expires.into_iter().chain([lags]).min();
        }
        stream.fall_behind();
        expires.into_iter().chain([stuck]).min()
    }
}

/// The body of any answer. A service works only while its body is polled, so nothing is taken in from a caller whose identity has
/// expired, and a timer ends the answer of one that says nothing.
pub(super) struct Guarded {
    answer: Arc<Mutex<Answer>>,
    /// Ends when the caller's identity does.
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Over what is said; none where there is nothing but headers.
    watch: Option<(Arc<Watch>, Share)>,
    /// Last, so that the service ends before its call does.
    _under_way: UnderWay,
}

impl Guarded {
    /// No answer but headers.
    pub(super) fn nothing(under_way: UnderWay) -> Self {
        Self { answer: Answer::new(Reply::Nothing, (None, None)), timer: None, watch: None, _under_way: under_way }
    }

    pub(super) fn new(reply: Reply, until: Until, said: (&Arc<Watch>, Share), under_way: UnderWay) -> Self {
        let (timer, (watch, share)) = (timer(until.clone()), said);
        let watch = Some((Arc::clone(watch), share));
        Self { answer: Answer::new(reply, until), timer, watch, _under_way: under_way }
    }

    /// Whether the caller's identity has ended; asks to be polled when it does.
    fn is_over(&mut self, answer: &Answer, cx: &mut Context<'_>) -> bool {
        self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready()) || answer.is_over()
    }
}

/// When the caller's identity ends: at a time, or when it is withdrawn.
pub(super) type Until = (Option<Instant>, Option<Revoked>);

/// What ends then; none where it does not end.
fn timer(until: Until) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
    match until {
        (None, None) => None,
        (Some(at), None) => Some(Box::pin(sleep_until(at.into()))),
        (None, Some(revoked)) => Some(Box::pin(revoked.until())),
        (Some(at), Some(revoked)) => Some(Box::pin(async move {
            tokio::select! {
                () = sleep_until(at.into()) => {}
                () = revoked.until() => {}
            }
        })),
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let shared = Arc::clone(&this.answer);
        let mut answer = locked(&shared);
        if this.is_over(&answer, cx) {
            // the service ends with its value
            (answer.reply, answer.expires, answer.revoked, this.timer) = (Reply::Nothing, None, None, None);
            let trailers = Code::Unauthenticated.headers("the identity of the client has expired");
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        let Some((watch, share)) = &mut this.watch else { return Poll::Ready(None) };
        let mut asked = false;
        let frame = share.poll_frame(cx, |cx| {
            asked = true;
            answer.reply.poll_frame(cx)
        });
        if asked && frame.is_pending() {
            answer.untaken = None;
        } else if !matches!(frame, Poll::Ready(None)) {
            // it has said something, or may not because of what others have said
            let now = watch.now();
            answer.untaken.get_or_insert(now);
            if frame.is_ready() {
                answer.moved = now;
            }
            if !std::mem::replace(&mut answer.watched, true) {
                watch.add(&shared);
            }
        }
        frame.map(|frame| frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        let answer = locked(&self.answer);
        matches!(answer.reply, Reply::Nothing) && answer.expires.is_none() && answer.revoked.is_none()
    }
}
