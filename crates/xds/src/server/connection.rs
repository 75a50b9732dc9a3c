//! One HTTP/2 connection: the connection and all its streams in one task.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::accept::Io;
use super::backlog::{Backlog, UnderWay};
use super::call::{Call, Guarded};
use super::calm::Calm;
use super::gate::{Gate, Peer};
use super::grpc::{Broken, Code, Frames};
use super::limits::{Account, Admission, Limits, Place};
use super::patience::Patience;
use super::refusals::RefusalReason;
use super::services::Service;
use super::spawned::{Spawned, Task, TaskOwner};
use super::streams::Siblings;
use super::together::Together;
use super::unread::Unread;
use super::untaken::Watch;
use super::{Shared, locked, places, stopped};

/// Bytes of a stream that wait for the client to read: with the socket's buffer well below 100 KB of what is encoded. What is known of a
/// client comes on top: some bytes for each name that it was sent with many others ([`crate::listing`]), up to 300 for one that has a state of
/// its own, which [`super::limits::Limits::names`] bounds. All streams of a connection together have twice that ([`super::unread`]).
const SEND_BUFFER: usize = 48 << 10;

/// Streams whose windows are as large together as that of their connection ([`super::limits::Limits::buffer`], 512 KiB at most). On one of them a
/// client may send 64 KiB before they are taken: Envoy's first message is 61 KB, and the names of 10,000 clusters, 310 KB, are five round
/// trips; where memory is short it is 16 KiB and four times as many. The library takes half of the connection's window as what small frames
/// that wait may cost (it counts what each lacks of 256 bytes): enough for a stream that is full of frames of 52 bytes or more, as it is when
/// its client is slowed down ([`super::limits`]).
const FULL_STREAMS: u32 = 8;

/// The headers of a request, as HTTP/2 counts them: their names and values, and 32 bytes for each. Those of gRPC are 300 bytes, with a token
/// of Kubernetes 1,500.
pub(super) const HEADER_LIST: u32 = 16 << 10;

/// A client that says nothing is asked after this time whether it still runs, and dropped if it does not answer within [`PONG`]. That its
/// machine or the way to it is gone the system finds out much earlier ([`super::accept`]); with each of 1,000 clients asked twice a
/// minute this server would never rest.
const PING: Duration = Duration::from_mins(5);

/// See [`PING`]. An Envoy that takes over 50,000 routes answers nothing for a quarter of a minute, and a server that has more to do than it
/// can reads late what it answered.
const PONG: Duration = Duration::from_mins(5);

/// How long a connection that is told to end may take: an ADS stream ends at once, this is for its last bytes.
const LAST_BYTES: Duration = Duration::from_secs(3);

/// A connection on which no call was made within this time is let go: its client may not be there any more, and only one that has
/// spoken HTTP/2 is asked.
const FIRST_CALL: Duration = Duration::from_secs(30);

/// How long the streams of a connection that has reached its age go on after their client was asked (GOAWAY) to open new ones
/// elsewhere: a round trip and what is being answered.
const AGE_GRACE: Duration = Duration::from_secs(5);

/// How long a connection beyond its identity's limit is there, to refuse its calls with words.
const REFUSED_AGE: Duration = Duration::from_secs(1);

const MANY_CONNECTIONS: &str = "more connections than one identity may have";

/// A connection as it came in.
pub(super) struct Came {
    pub(super) io: Box<dyn Io>,
    pub(super) peer: Peer,
    /// Where it comes from; none: a Unix socket.
    pub(super) from: Option<IpAddr>,
    pub(super) gate: Gate,
    /// Its place among the connections of its listener.
    pub(super) place: places::ListenerPlace,
}

/// Serves a connection until it ends, or after a last word when it is old or told to.
pub(super) async fn serve(shared: Arc<Shared>, came: Came, mut stop: watch::Receiver<bool>) {
    let account = came.gate.account(&came.peer);
    let Some((proven, refused, _counted)) = admit(&came, &account) else { return };
    let Came { io, peer, from, gate, place } = came;
    let age = if refused { Some(REFUSED_AGE) } else { gate.age() };
    // dropped last, so that nothing which the library spawns outlives the connection, whatever ends it
    let spawned = TaskOwner::new();
    let (streams, limits) = (spawned.executor(), *gate.limits());
    let ending = watch::Sender::new(false);
    let (watch, backlog) = (Arc::new(Watch::new(&shared, limits.taken)), Arc::<Backlog>::default());
    let origin = Arc::new(Origin {
        shared,
        gate,
        peer,
        refused,
        called: AtomicBool::new(false),
        place,
        proven: proven.clone(),
        account: Arc::clone(&account),
        counted: Mutex::default(),
        siblings: Arc::new(Siblings::of(from)),
        unread: Unread::default(),
        backlog: Arc::clone(&backlog),
        watch: Arc::clone(&watch),
        stop: ending.subscribe(),
    });
    let origins = Arc::clone(&origin);
    let service = service_fn(move |request| origins.begin(request));
    let calm = Calm::of(io, Arc::clone(&account), proven, Arc::clone(&backlog));
    let io = TokioIo::new(if from.is_none() { calm.over_unix() } else { calm });
    let mut connection = pin!(builder(&streams, &limits).serve_connection(io, service));
    let mut running = Running {
        connection: connection.as_mut(),
        new: streams,
        streams: FuturesUnordered::new(),
        watch,
        backlog,
        account: Arc::clone(&account),
        parts: Together::new(),
    };
    let (mut stopping, mut old) = (pin!(stopped(&mut stop)), pin!(origin.is_old(age, &account)));
    match running.until(select(stopping.as_mut(), old.as_mut())).await {
        None => return,
        Some(Either::Left(_)) => {}
        Some(Either::Right(_)) => {
            // GOAWAY: what is open goes on for a moment, what is new goes elsewhere
            running.connection.as_mut().graceful_shutdown();
            if running.until(select(stopping, pin!(sleep(AGE_GRACE)))).await.is_none() {
                return;
            }
        }
    }
    ending.send_replace(true);
    running.connection.as_mut().graceful_shutdown();
    if running.until(pin!(sleep(LAST_BYTES))).await.is_some() {
        tracing::debug!("a client did not take its last bytes");
    }
}

/// The account of the first call that was let in on a connection that proves nothing by itself, as soon as there is one.
pub(super) type FirstCaller = Arc<OnceLock<Arc<Account>>>;

/// Counts a connection as its identity's, and says whether its calls are refused; one that proves nothing by itself is counted once it is known whose
/// it is. None: it is to be dropped.
fn admit(came: &Came, account: &Arc<Account>) -> Option<(Option<FirstCaller>, bool, Option<Place>)> {
    if came.gate.is_unproven(&came.peer) {
        return Some((Some(FirstCaller::default()), false, None));
    }
    let admission = match came.place.identify(account.identity()) {
        Ok(()) => account.connect(),
        Err(_) => account.turn_away(),
    };
    match admission {
        Admission::Welcome(counted) => Some((None, false, Some(counted))),
        Admission::Refused(counted) => Some((None, true, Some(counted))),
        Admission::Dropped => None,
    }
}

fn builder(streams: &Spawned, limits: &Limits) -> http2::Builder<Spawned> {
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .max_concurrent_streams(limits.streams)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEADER_LIST)
        .initial_stream_window_size(limits.buffer / FULL_STREAMS)
        .initial_connection_window_size(limits.buffer);
    builder
}

/// A connection with its streams.
struct Running<'a, C> {
    connection: Pin<&'a mut C>,
    /// Streams that have just begun.
    new: Spawned,
    streams: FuturesUnordered<Task>,
    watch: Arc<Watch>,
    backlog: Arc<Backlog>,
    account: Arc<Account>,
    parts: Together<4>,
}

/// The parts of [`Running`], in the order in which they are polled: what streams say goes out at once.
const STREAMS: usize = 0;
const CONNECTION: usize = 1;
const WATCH: usize = 2;
const END: usize = 3;

impl<C, E> Running<'_, C>
where
    C: Future<Output = Result<(), E>>,
    E: std::error::Error + 'static,
{
    /// Goes on until `end` is there, and gives it; none when the connection has ended.
    async fn until<T>(&mut self, mut end: impl Future<Output = T> + Unpin) -> Option<T> {
        let Self { connection, new, streams, watch, backlog, account, parts } = self;
        parts.touch(CONNECTION);
        parts.touch(END);
        let mut poll = |part: usize, cx: &mut Context<'_>| match part {
            STREAMS => {
                while let Poll::Ready(Some(())) = streams.poll_next_unpin(cx) {}
                if watch.is_due() {
                    parts.touch(WATCH);
                }
                backlog.note_streams();
                if backlog.wants_turn() {
                    parts.touch(CONNECTION);
                }
                Poll::Pending
            }
            CONNECTION => {
                if let Poll::Ready(result) = connection.as_mut().poll(cx) {
                    if let Err(error) = result {
                        tracing::debug!(%error, "an xDS connection has ended");
                        if is_overfull(&error) {
                            let words = "more small HTTP/2 frames than wait for a client, or more than its windows; the connection is ended";
                            account.tell(RefusalReason::Buffer, words);
                        }
                    }
                    return Poll::Ready(None);
                }
                backlog.note_turn();
                let tasks = new.take();
                if !tasks.is_empty() || backlog.wants_streams() {
                    streams.extend(tasks);
                    parts.touch(STREAMS);
                }
                Poll::Pending
            }
            WATCH => {
                watch.poll(cx);
                Poll::Pending
            }
            _ => end.poll_unpin(cx).map(Some),
        };
        poll_fn(|cx| parts.poll(cx, &mut poll)).await
    }
}

/// Whether the library has ended a connection because its client has sent more than is kept until it is taken.
fn is_overfull(error: &(dyn std::error::Error + 'static)) -> bool {
    let reasons = [h2::Reason::ENHANCE_YOUR_CALM, h2::Reason::FLOW_CONTROL_ERROR];
    let is_ours = |error: &h2::Error| !error.is_remote() && error.reason().is_some_and(|own| reasons.contains(&own));
    std::iter::successors(Some(error), |error| error.source()).filter_map(|error| error.downcast_ref()).any(is_ours)
}

/// A connection's part in each of its calls.
struct Origin {
    shared: Arc<Shared>,
    gate: Gate,
    peer: Peer,
    /// It is one more than its identity may have.
    refused: bool,
    /// There was a call.
    called: AtomicBool,
    place: places::ListenerPlace,
    /// The account of the first call that was let in, where the connection proves nothing by itself.
    proven: Option<FirstCaller>,
    /// Of the connection.
    account: Arc<Account>,
    /// The connection among those of its first call's identity, if that is another.
    counted: Mutex<Option<Place>>,
    siblings: Arc<Siblings>,
    unread: Unread,
    backlog: Arc<Backlog>,
    watch: Arc<Watch>,
    stop: watch::Receiver<bool>,
}

impl Origin {
    /// The answer to one request, which counts as one that waits from now on until there is an answer.
    fn begin(
        self: &Arc<Self>,
        request: http::Request<Incoming>,
    ) -> impl Future<Output = Result<http::Response<Guarded>, Infallible>> + Send + use<> {
        let (origin, asking) = (Arc::clone(self), self.backlog.ask());
        async move {
            let answer = origin.answer(request).await;
            drop(asking);
            Ok(answer)
        }
    }

    /// The answer to one request.
    async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Guarded> {
        let is_grpc =
            request.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
        if !is_grpc {
            drop(request);
            self.count().await;
            let mut response = http::Response::new(self.nothing());
            *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        let (body, refusal) = match self.call(request).await {
            Ok(body) => (body, None),
            Err(Broken(code, words)) => (self.nothing(), Some(code.headers(words))),
        };
        let mut response = http::Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response.headers_mut().extend(refusal.unwrap_or_default());
        response
    }

    /// An answer of headers.
    fn nothing(&self) -> Guarded {
        Guarded::nothing(UnderWay::new(None, &self.backlog))
    }

    /// Ready when the connection has had its time.
    async fn is_old(&self, age: Option<Duration>, account: &Account) {
        let begin = Instant::now();
        Patience::new(age.unwrap_or(FIRST_CALL).min(FIRST_CALL)).await;
        match age {
            _ if !self.called.load(Ordering::Relaxed) && !self.refused => {
                account.tell(RefusalReason::NoCall, "no call that is served within 30 s; the connection is ended");
            }
            Some(age) => sleep_until(begin + age).await,
            None => std::future::pending().await,
        }
    }

    /// What nobody serves counts among the calls too, so that it cannot be asked for faster than they can.
    async fn count(&self) {
        let _place = self.gate.account(&self.peer).call().await;
    }

    /// Counts the connection among those of the identity that makes a call on it, the first if there are several.
    fn count_for(&self, caller: &Arc<Account>) -> Result<(), Broken> {
        let mut counted = locked(&self.counted);
        if counted.is_some() || self.proven.is_none() && Arc::ptr_eq(caller, &self.account) {
            return Ok(());
        }
        let Some(proven) = &self.proven else {
            *counted = Some(caller.count_connection());
            return Ok(());
        };
        let many = || Broken(Code::ResourceExhausted, MANY_CONNECTIONS);
        self.place.identify(caller.identity()).map_err(|_| many())?;
        let Admission::Welcome(place) = caller.connect() else { return Err(many()) };
        *counted = Some(place);
        proven.get_or_init(|| Arc::clone(caller));
        Ok(())
    }

    /// Through the gate, and on to the service.
    async fn call(&self, request: http::Request<Incoming>) -> Result<Guarded, Broken> {
        let (service, headers, body) = parts_of(request);
        let Some(service) = service else {
            self.count().await;
            return Err(Broken(Code::Unimplemented, "no such method here"));
        };
        self.called.store(true, Ordering::Relaxed);
        if self.refused {
            return Err(Broken(Code::ResourceExhausted, MANY_CONNECTIONS));
        }
        let mut caller = if service.is_for_anyone() {
            self.gate.admit_anyone(&self.peer).await?
        } else {
            let caller = self.gate.admit(&self.peer, &headers).await?;
            self.count_for(caller.account())?;
            self.place.prove();
            caller
        };
        let (until, pace) = ((caller.expires(), caller.revoked()), caller.pace());
        let (shared, siblings, stop) = (Arc::clone(&self.shared), Arc::clone(&self.siblings), self.stop.clone());
        let under_way = UnderWay::new(caller.take_place(), &self.backlog);
        let reply = service.answer(Call { shared, siblings, caller, requests: Frames::paced(body, pace), stop });
        Ok(Guarded::new(reply, until, (&self.watch, self.unread.share()), under_way))
    }
}

/// The service that a request is for, its headers as far as they matter, and its body. The rest is dropped before the call waits for anything: 16 KiB
/// of headers are up to 57 KB as the library keeps them.
fn parts_of(request: http::Request<Incoming>) -> (Option<Service>, HeaderMap, Incoming) {
    let (head, body) = request.into_parts();
    (Service::at(head.uri.path()), token_of(&head.headers), body)
}

/// The headers that say who calls. They are copied, as the library's share the bytes of all others.
fn token_of(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    if let Some(Ok(token)) = headers.get(AUTHORIZATION).map(|value| HeaderValue::from_bytes(value.as_bytes())) {
        kept.insert(AUTHORIZATION, token);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_keeps_nothing_but_its_token() {
        let all = bytes::Bytes::from(vec![b'a'; 16 << 10]);
        let mut headers = HeaderMap::new();
        for n in 0..400 {
            let name = http::HeaderName::try_from(format!("x-{n}")).unwrap();
            headers.insert(name, HeaderValue::from_maybe_shared(all.slice(..30)).unwrap());
        }
        headers.insert(AUTHORIZATION, HeaderValue::from_maybe_shared(all.slice(..100)).unwrap());
        let kept = token_of(&headers);
        assert_eq!(kept.len(), 1);
        let token = kept.get(AUTHORIZATION).unwrap();
        assert_eq!(token, headers.get(AUTHORIZATION).unwrap());
        assert!(!all.as_ptr_range().contains(&token.as_bytes().as_ptr()), "it keeps the bytes of all others");
    }
}
