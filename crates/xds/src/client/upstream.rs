//! Which servers are talked to: the best one that answers, and until it does every better one is tried again.
//!
//! The servers are tried in their order. The first `wanted` of them are: one more each time that the last of these cannot be
//! reached or ends its stream before it has said anything, and no more than the first that answers. The last of them is the one in
//! use. A better one that answers while it is in use takes its place.

use std::time::Duration;

use super::config::BackoffRange;
use super::stream::Stream;

/// Names one attempt to talk to a server: a connection and its one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u64);

impl LinkId {
    /// The attempt with this number: a client counts them from 1.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }
}

/// How it stands with one server.
pub(super) enum Phase {
    /// Not talked to.
    Idle,
    /// Tried again then.
    Waiting(Duration),
    /// To be connected until then.
    Connecting(LinkId, Duration),
    Open(Box<Link>),
}

/// A stream that is open.
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) stream: Stream,
    /// When it was opened.
    pub(super) since: Duration,
    /// The server has said something, or has been there long enough without a word.
    pub(super) answered: bool,
    /// How much other streams had brought when it was opened: what it was told then.
    pub(super) told: u64,
}

/// See the module.
pub(super) struct Upstream {
    pub(super) phase: Phase,
    attempt: u32,
}

impl Upstream {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Idle, attempt: 0 }
    }

    /// The attempt or stream that is under way.
    pub(super) fn link(&self) -> Option<LinkId> {
        match &self.phase {
            Phase::Connecting(id, _) => Some(*id),
            Phase::Open(link) => Some(link.id),
            Phase::Idle | Phase::Waiting(_) => None,
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting(..))
    }

    /// The stream, if it is open.
    pub(super) fn open(&mut self) -> Option<&mut Link> {
        if let Phase::Open(link) = &mut self.phase { Some(link) } else { None }
    }

    /// The server has answered: the next pause is a first one.
    pub(super) fn reset_backoff(&mut self) {
        self.attempt = 0;
    }

    /// The next pause.
    pub(super) fn pause(&mut self, range: BackoffRange, rng: &mut fastrand::Rng) -> Duration {
        let longest = range.base.saturating_mul(1_u32.checked_shl(self.attempt).unwrap_or(u32::MAX)).min(range.max);
        self.attempt = self.attempt.saturating_add(1);
        longest.mul_f64(0.5 + 0.5 * rng.f64())
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Waiting(until) | Phase::Connecting(_, until) => Some(*until),
            Phase::Open(link) => (!link.answered).then(|| link.since + super::PROVEN),
        }
    }
}
