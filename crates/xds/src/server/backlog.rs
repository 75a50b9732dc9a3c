//! Answers of one connection that its client has not taken, whatever they consist of: no flow control holds headers and trailers back, so they wait in
//! the HTTP/2 library for the socket. While the socket takes nothing and many wait, nothing more is read from the connection; and a call counts as
//! under way until its end is on its way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::limits::CallPlace;
use super::locked;

#[cfg(test)]
mod tests;

/// Answers that may wait when more is read from a connection whose socket takes nothing. Each takes 1.2 KB in the library (measured: 0.8 to 1.8 KB);
/// with those of the requests that were read before it was known, 130 at most ([`MOST_FRESH`] and what is read at once), they are 200 KB.
const MOST: usize = 32;

/// Header blocks that are read before the streams have their turn. The library reads on for each request that it has found, so that a client could
/// open all its streams before the first is answered.
const MOST_FRESH: usize = 32;

/// Requests of a connection that wait for the rate of their identity, or for what verifies their token, when more is read from it. Each keeps its
/// token, 1.5 KB as a rule and 16 KiB at most.
const MOST_ASKING: usize = 100;

/// See the module.
#[derive(Default)]
pub(super) struct Backlog(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Answers whose end was not written yet, the oldest first: each with its place among the calls of its identity, if it has one.
    waiting: VecDeque<Option<CallPlace>>,
    /// Header blocks that were read since the streams had their turn.
    fresh: usize,
    /// Requests that were not let in yet.
    asking: usize,
    /// The socket has taken nothing when it was asked last.
    is_stuck: bool,
    /// Reading has stopped.
    is_held: bool,
}

impl Inner {
    fn is_full(&self) -> bool {
        self.is_stuck && self.waiting.len() >= MOST
    }

    fn may_read(&self) -> bool {
        !self.is_full() && self.fresh < MOST_FRESH && self.asking < MOST_ASKING
    }
}

/// The reason for which a connection is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Answers wait for the client.
    Untaken,
    /// Requests wait for this server.
    Asking,
}

impl Backlog {
    /// Counts a request until it is let in or refused.
    pub(super) fn ask(self: &Arc<Self>) -> Asking {
        locked(&self.0).asking += 1;
        Asking(Arc::clone(self))
    }

    /// An answer is over: its end waits to be written.
    pub(super) fn end(&self, place: Option<CallPlace>) {
        locked(&self.0).waiting.push_back(place);
    }

    /// So many header blocks were read.
    pub(super) fn note_blocks(&self, count: usize) {
        locked(&self.0).fresh += count;
    }

    /// The streams had their turn.
    pub(super) fn note_streams(&self) {
        locked(&self.0).fresh = 0;
    }

    /// Whether the streams are to have their turn, so that more can be read.
    pub(super) fn wants_streams(&self) -> bool {
        let inner = locked(&self.0);
        inner.is_held && inner.fresh >= MOST_FRESH
    }

    /// The client has reset so many streams: what is left of each waits for its turn to be written too.
    pub(super) fn note_resets(&self, count: usize) {
        let mut inner = locked(&self.0);
        (0..count).for_each(|_| inner.waiting.push_back(None));
    }

    /// The ends of so many answers were written.
    pub(super) fn note_ends(&self, count: usize) {
        let mut inner = locked(&self.0);
        let count = count.min(inner.waiting.len());
        inner.waiting.drain(..count);
    }

    /// Notes whether the socket takes anything. True if reading may go on because of that.
    pub(super) fn note_socket(&self, is_stuck: bool) -> bool {
        let mut inner = locked(&self.0);
        inner.is_stuck = is_stuck;
        inner.is_held && inner.may_read()
    }

    /// The socket has taken nothing when it was asked last.
    pub(super) fn is_stuck(&self) -> bool {
        locked(&self.0).is_stuck
    }

    /// Says why nothing is to be read now, if so: [`Self::note_socket`] or [`Self::wants_turn`] says when to go on.
    pub(super) fn holds(&self) -> Option<Held> {
        let mut inner = locked(&self.0);
        inner.is_held = !inner.may_read();
        let held = if inner.is_full() { Held::Untaken } else { Held::Asking };
        inner.is_held.then_some(held)
    }

    /// The library has written all that it had, unless the socket is stuck.
    pub(super) fn note_turn(&self) {
        let mut inner = locked(&self.0);
        if !inner.is_stuck {
            inner.waiting = VecDeque::new();
        }
    }

    /// Whether the connection has something to do: to write ends of answers, or to read again.
    pub(super) fn wants_turn(&self) -> bool {
        let inner = locked(&self.0);
        !inner.is_stuck && !inner.waiting.is_empty() || inner.is_held && inner.may_read()
    }

    /// Returns the number of answers that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        locked(&self.0).waiting.len()
    }
}

/// A request that was not let in yet, until this is dropped.
pub(super) struct Asking(Arc<Backlog>);

impl Drop for Asking {
    fn drop(&mut self) {
        let mut inner = locked(&self.0.0);
        inner.asking = inner.asking.saturating_sub(1);
    }
}

/// A call's place, which it keeps until the end of its answer is on its way.
pub(super) struct UnderWay {
    place: Option<CallPlace>,
    backlog: Arc<Backlog>,
}

impl UnderWay {
    /// With the place of a call that was let in.
    pub(super) fn new(place: Option<CallPlace>, backlog: &Arc<Backlog>) -> Self {
        Self { place, backlog: Arc::clone(backlog) }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.backlog.end(self.place.take());
    }
}
