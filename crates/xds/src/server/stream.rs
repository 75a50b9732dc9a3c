//! One discovery stream as a response body: it works only when the client takes bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::Stream as _;
use http_body::Frame;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_stream::wrappers::WatchStream;

use super::Shared;
use super::call::Call;
use super::gate::Caller;
use super::grpc::{Broken, Code, Frames};
use super::limits::{NamesTurn, Room, has_to_wait};
use super::refusals::RefusalReason;
use super::streams::{Purpose, SharedClient, Siblings};
use super::together::Together;
use crate::event::Node;
use crate::session::MOST_NAMES;
use crate::wire::StreamId;
use crate::wire::read::Discovery;
use crate::wire::write::{Step, Writing};

/// Pieces from this size on go out as they are, shared; smaller ones are put together: below it a frame of its own costs more than
/// copying (0.1 ns per byte).
const SHARED_FROM: usize = 4 << 10;

/// Size at which a buffer of small pieces is sent: HTTP/2's usual frame.
const CHUNK: usize = 16 << 10;

/// Messages taken in before the stream looks at what it can send: a burst of acknowledgements is one look, a flood still gets its turn.
const BURST: usize = 64;

/// Ready when a request with its names may be taken in.
type Turn = Pin<Box<dyn Future<Output = Option<NamesTurn>> + Send>>;

/// A request that waits, with the room that it takes.
struct Waiting {
    message: Discovery,
    turn: Turn,
    _room: Option<Room>,
}

/// What there is once it is known whose stream this is.
struct Open {
    client: Arc<SharedClient>,
    /// This stream among those of the client.
    id: StreamId,
    /// Of the fleet; none where another stream of the client watches for them.
    changes: Option<WatchStream<u64>>,
}

/// What a stream waits for, in the order in which it is looked at.
const REQUESTS: usize = 0;
const CHANGES: usize = 1;
const TIMER: usize = 2;
const STOP: usize = 3;

pub(super) struct Stream {
    waits: Arc<Together<4>>,
    shared: Arc<Shared>,
    purpose: Purpose,
    siblings: Arc<Siblings>,
    caller: Caller,
    requests: Frames<Incoming>,
    /// A request that waits until the names of earlier ones are made good, or for its turn.
    waiting: Option<Waiting>,
    open: Option<Open>,
    timer: Option<Pin<Box<Sleep>>>,
    stop: WatchStream<bool>,
    writing: Option<Writing>,
    /// Nobody waits for the client, which does not take what is said here.
    behind: bool,
    end: Option<Broken>,
    done: bool,
}

impl Stream {
    pub(super) fn new(call: Call, purpose: Purpose) -> Self {
        let Call { shared, siblings, caller, requests, stop } = call;
        Self {
            waits: Arc::new(Together::new()),
            shared,
            purpose,
            siblings,
            caller,
            requests,
            waiting: None,
            open: None,
            timer: None,
            stop: WatchStream::new(stop),
            writing: None,
            behind: false,
            end: None,
            done: false,
        }
    }

    /// The next part of the body.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        loop {
            let (chunk, again) = self.next_chunk(cx);
            if let Some(chunk) = chunk {
                return Poll::Ready(Some(Frame::data(chunk)));
            }
            if self.done {
                return Poll::Ready(None);
            }
            if let Some(Broken(code, message)) = self.end.take() {
                self.done = true;
                return Poll::Ready(Some(Frame::trailers(code.headers(message))));
            }
            if self.poll_news(cx) || again {
                self.advance();
            } else if std::mem::take(&mut self.behind) {
                self.catch_up();
            } else if self.end.is_none() {
                return Poll::Pending;
            }
        }
    }

    /// The client has not taken what was said here for so long that nobody waits for it any more.
    pub(super) fn fall_behind(&mut self) {
        if let Some(open) = &self.open {
            self.behind = true;
            open.client.fall_behind(&self.shared, open.id);
        }
    }

    /// Logs that the client takes nothing.
    pub(super) fn tell_stuck(&self, words: &str) {
        self.caller.account().tell(RefusalReason::SlowReader, words);
    }

    /// It has taken all that there was.
    fn catch_up(&mut self) {
        if let Some(open) = &self.open {
            open.client.catch_up(&self.shared, open.id);
        }
        self.advance();
    }

    /// Looks at whatever has happened; true if there is perhaps something to say.
    fn poll_news(&mut self, cx: &Context<'_>) -> bool {
        let waits = Arc::clone(&self.waits);
        if self.open.as_ref().is_some_and(|open| open.changes.is_none()) {
            waits.touch(CHANGES);
        }
        let mut news = false;
        let all = waits.poll(cx, |wait, cx| {
            match wait {
                REQUESTS => return self.poll_requests(cx, &mut news),
                CHANGES => news |= self.poll_changes(cx),
                TIMER => news |= self.poll_timer(cx),
                STOP => self.poll_stop(cx),
                _ => {}
            }
            Poll::Pending
        });
        if all.is_ready() {
            waits.touch(REQUESTS);
        }
        news && self.end.is_none()
    }

    /// Takes in what the client has said; ready if there may be more.
    fn poll_requests(&mut self, cx: &mut Context<'_>, news: &mut bool) -> Poll<()> {
        for _ in 0..BURST {
            let (message, turn) = match ready!(self.poll_request(cx)) {
                Ok(request) => request,
                Err(broken) => {
                    self.end = Some(broken);
                    return Poll::Pending;
                }
            };
            let taken = self.receive(message).inspect_err(|broken| self.tell(broken));
            drop(turn);
            if let Err(broken) = taken {
                self.end = Some(broken);
                return Poll::Pending;
            }
            *news = true;
        }
        Poll::Ready(())
    }

    /// The next request as soon as it may be taken in; or the status that the stream ends with.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Discovery, Option<NamesTurn>), Broken>> {
        let mut waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => {
                let (message, room) = match ready!(self.requests.poll_next_in_room(cx)) {
                    Some(Ok((message, room))) => (self.read(message).inspect_err(|broken| self.tell(broken))?, room),
                    Some(Err(broken)) => return Poll::Ready(Err(broken)),
                    None => return Poll::Ready(Err(Broken(Code::Ok, ""))),
                };
                let names = message.names();
                if !has_to_wait(names, message.begins()) {
                    return Poll::Ready(Ok((message, None)));
                }
                let account = Arc::clone(self.caller.account());
                Waiting { message, turn: Box::pin(account.turn_for_names(names)), _room: room }
            }
        };
        let Poll::Ready(turn) = waiting.turn.as_mut().poll(cx) else {
            self.waiting = Some(waiting);
            return Poll::Pending;
        };
        self.caller.account().charge_names(waiting.message.names());
        Poll::Ready(Ok((waiting.message, turn)))
    }

    /// A message that a client may send on this stream.
    fn read(&self, message: Bytes) -> Result<Discovery, Broken> {
        let unreadable = |_| Broken(Code::InvalidArgument, "not a discovery request");
        let mut message = Discovery::decode(self.purpose.variant, message).map_err(unreadable)?;
        if message.has_long_name() {
            return Err(Broken(Code::InvalidArgument, "a name is longer than 4096 bytes"));
        }
        if message.longest_list() > MOST_NAMES {
            // found out before anybody waits for it
            self.caller.account().tell(RefusalReason::Names, "more names in one request than a client may ask for");
            return Err(Broken(Code::ResourceExhausted, "more than a stream may hold"));
        }
        if let Some(kind) = &self.purpose.kind {
            if !["", kind.as_str()].contains(&message.type_url()) {
                return Err(Broken(Code::InvalidArgument, "this stream is for another kind of resources"));
            }
            message.set_type_url(kind.as_str());
        }
        Ok(message)
    }

    fn receive(&mut self, mut message: Discovery) -> Result<(), Broken> {
        let node = message.node.take();
        if self.open.is_none() {
            self.open = Some(self.identify(node.clone().unwrap_or_default())?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if node.is_some_and(|node| node != *open.client.node) {
            return Err(Broken(Code::InvalidArgument, "the node of a stream cannot change"));
        }
        open.client.receive(&self.shared, open.id, message)
    }

    /// Logs that the client cannot be understood. What it may not have is logged where that is found out.
    fn tell(&self, broken: &Broken) {
        if broken.0 == Code::InvalidArgument {
            self.caller.tell(broken);
        }
    }

    /// Whose stream this is.
    fn identify(&self, node: Node) -> Result<Open, Broken> {
        let fleet = self.caller.fleet(&node)?;
        let (client, id) = self.siblings.client(&self.shared, &self.purpose, &self.caller, fleet, node);
        Ok(Open { client, id, changes: None })
    }

    fn poll_changes(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(open) = &mut self.open else { return false };
        if open.changes.is_none() && open.client.watches(open.id) {
            // its first item is what there is now
            open.changes = Some(WatchStream::new(open.client.cell.seq.subscribe()));
        }
        let mut changed = false;
        while let Some(changes) = &mut open.changes
            && let Poll::Ready(Some(_)) = Pin::new(changes).poll_next(cx)
        {
            changed = true;
        }
        changed
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
        if due {
            self.timer = None;
        }
        due
    }

    fn poll_stop(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(stop) = Pin::new(&mut self.stop).poll_next(cx) {
            if stop.unwrap_or(true) {
                self.end.get_or_insert(Broken(Code::Unavailable, "the server is stopping"));
                return;
            }
        }
    }

    /// Collects what the client can be told now.
    fn advance(&mut self) {
        let Some(open) = &mut self.open else { return };
        let deadline = match open.client.advance(&self.shared) {
            Ok(deadline) => deadline.map(|at| Instant::from_std(self.shared.epoch + at)),
            Err(broken) => return self.give_up(broken),
        };
        // A timer that is set already may fire for nothing: setting it anew with each response and each acknowledgement costs more.
        if let Some(at) = deadline
            && self.timer.as_ref().is_none_or(|timer| timer.deadline() > at)
        {
            self.timer = Some(Box::pin(sleep_until(at)));
            self.waits.touch(TIMER);
        }
    }

    /// Ends at once: what was to be said costs more than the client may have.
    fn give_up(&mut self, broken: Broken) {
        self.writing = None;
        self.end = Some(broken);
        if let Some(open) = self.open.take() {
            open.client.leave(&self.shared, open.id);
        }
    }

    /// The next bytes: a large piece as it is, or several small ones in one. True if it is time to look for more.
    fn next_chunk(&mut self, cx: &Context<'_>) -> (Option<Bytes>, bool) {
        let (mut chunk, mut again) = (BytesMut::new(), false);
        while chunk.len() < CHUNK {
            let Some(writing) = &mut self.writing else {
                let next = self.open.as_ref().map(|open| open.client.next(open.id, cx));
                let (response, due) = next.unwrap_or((None, false));
                again |= due;
                let Some(response) = response else { break };
                self.writing = Some(Writing::new(response));
                continue;
            };
            match writing.step(&mut chunk, SHARED_FROM) {
                Step::More => {}
                Step::Flush => break,
                Step::Large(piece) => return (Some(piece), again),
                Step::Done => self.writing = None,
            }
        }
        (if chunk.is_empty() { None } else { Some(fitted(chunk)) }, again)
    }
}

/// The chunk without the room that a buffer that grew has left: it may wait for a client that does not read.
fn fitted(chunk: BytesMut) -> Bytes {
    if chunk.capacity() > chunk.len() + chunk.len() / 4 + 512 { Bytes::copy_from_slice(&chunk) } else { chunk.freeze() }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.client.leave(&self.shared, open.id);
        }
    }
}
