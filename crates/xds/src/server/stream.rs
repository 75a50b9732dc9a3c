//! One delta ADS stream as a response body: it works only when the client takes bytes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::Stream as _;
use http_body::Frame;
use hyper::body::Incoming;
use prost::Message;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_stream::wrappers::WatchStream;

use super::call::Call;
use super::gate::Caller;
use super::grpc::{Broken, Code, Frames};
use super::roster::Client;
use super::{Cell, Shared, locked};
use crate::event::Node;
use crate::session::Session;
use crate::wire::{DeltaRequest, Response, Step, Writing};

/// Pieces from this size on go out as they are, shared; smaller ones are put together: below it a frame of its own costs more than
/// copying (0.1 ns per byte).
const SHARED_FROM: usize = 4 << 10;

/// Size at which a buffer of small pieces is sent: HTTP/2's usual frame.
const CHUNK: usize = 16 << 10;

/// Messages taken in before the stream looks at what it can send: a burst of acknowledgements is one look, a flood still gets its turn.
const BURST: usize = 64;

/// The state machine of a stream once it is known whose it is.
struct Open {
    fleet: Arc<str>,
    node: Arc<Node>,
    cell: Arc<Cell>,
    client: Arc<Client>,
    changes: WatchStream<u64>,
}

pub(super) struct Stream {
    shared: Arc<Shared>,
    caller: Caller,
    requests: Frames<Incoming>,
    open: Option<Open>,
    timer: Option<Pin<Box<Sleep>>>,
    stop: WatchStream<bool>,
    responses: VecDeque<Response>,
    writing: Option<Writing>,
    end: Option<Broken>,
    done: bool,
}

impl Stream {
    pub(super) fn new(call: Call) -> Self {
        let Call { shared, caller, requests, stop } = call;
        Self {
            shared,
            caller,
            requests,
            open: None,
            timer: None,
            stop: WatchStream::new(stop),
            responses: VecDeque::new(),
            writing: None,
            end: None,
            done: false,
        }
    }

    /// The next part of the body.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        loop {
            if let Some(chunk) = self.next_chunk() {
                return Poll::Ready(Some(Frame::data(chunk)));
            }
            if self.done {
                return Poll::Ready(None);
            }
            if let Some(Broken(code, message)) = self.end.take() {
                self.done = true;
                return Poll::Ready(Some(Frame::trailers(code.headers(message))));
            }
            let said = self.poll_requests(cx);
            let changed = self.poll_changes(cx);
            let due = self.poll_timer(cx);
            self.poll_stop(cx);
            if said || changed || due {
                self.advance();
            } else if self.end.is_none() {
                return Poll::Pending;
            }
        }
    }

    /// Takes in what the client has said; true if there was anything.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> bool {
        for taken in 0..BURST {
            match self.requests.poll_next(cx) {
                Poll::Pending => return taken > 0,
                Poll::Ready(Some(Ok(message))) => {
                    if let Err(broken) = self.receive(message) {
                        self.end = Some(broken);
                        return false;
                    }
                }
                Poll::Ready(Some(Err(broken))) => {
                    self.end = Some(broken);
                    return false;
                }
                Poll::Ready(None) => {
                    self.end = Some(Broken(Code::Ok, ""));
                    return false;
                }
            }
        }
        true
    }

    fn receive(&mut self, message: Bytes) -> Result<(), Broken> {
        let unreadable = |_| Broken(Code::InvalidArgument, "not a DeltaDiscoveryRequest");
        let request = DeltaRequest::decode(message).map_err(unreadable)?;
        if request.has_long_name() {
            return Err(Broken(Code::InvalidArgument, "a name is longer than 4096 bytes"));
        }
        if self.open.is_none() {
            self.open = Some(self.identify(request.node())?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if request.has_node() && request.node() != *open.node {
            return Err(Broken(Code::InvalidArgument, "the node of a stream cannot change"));
        }
        let (mut session, now) = (locked(&open.client.0), self.shared.now());
        let Some(session) = session.as_mut() else { return Ok(()) };
        let received = self.shared.with(&open.cell, |fleet| session.receive(fleet, request.into(), now));
        received.map_err(|violation| {
            tracing::warn!(gateway = %open.fleet, %violation, "an xDS stream is ended");
            Broken(Code::ResourceExhausted, "more than a stream may hold")
        })
    }

    /// Whose stream this is.
    fn identify(&self, node: Node) -> Result<Open, Broken> {
        let fleet = self.caller.fleet(&node)?;
        let node = Arc::new(node);
        let (cell, session) = self.shared.with_fleet(&fleet, |fleet| Session::new(fleet, Arc::clone(&node)));
        let changes = WatchStream::from_changes(cell.seq.subscribe());
        let client = Client::join(&cell, session);
        Ok(Open { fleet, node, cell, client, changes })
    }

    fn poll_changes(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(open) = &mut self.open else { return false };
        let mut changed = false;
        while let Poll::Ready(Some(_)) = Pin::new(&mut open.changes).poll_next(cx) {
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
        let (mut session, now) = (locked(&open.client.0), self.shared.now());
        let Some(session) = session.as_mut() else { return };
        let (responses, deadline) =
            self.shared.with(&open.cell, |fleet| (session.advance(fleet, now), session.next_deadline(fleet, now)));
        self.responses.extend(responses);
        let deadline = deadline.map(|at| Instant::from_std(self.shared.epoch + at));
        // A timer that is set already may fire for nothing: setting it anew with each response and each acknowledgement costs more.
        if let Some(at) = deadline
            && self.timer.as_ref().is_none_or(|timer| timer.deadline() > at)
        {
            self.timer = Some(Box::pin(sleep_until(at)));
        }
    }

    /// The next bytes: a large piece as it is, or several small ones in one.
    fn next_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK {
            let Some(writing) = &mut self.writing else {
                let Some(response) = self.responses.pop_front() else { break };
                self.writing = Some(Writing::new(response));
                continue;
            };
            match writing.step(&mut chunk, SHARED_FROM) {
                Step::More => {}
                Step::Flush => break,
                Step::Large(piece) => return Some(piece),
                Step::Done => self.writing = None,
            }
        }
        if chunk.is_empty() { None } else { Some(chunk.freeze()) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(Open { fleet: name, cell, client, .. }) = self.open.take() else { return };
        if let Some(session) = client.leave(&cell) {
            self.shared.with(&cell, |fleet| session.leave(fleet));
        }
        self.shared.drop_if_idle(&name, &cell);
    }
}
