//! Statuses to the API server: [`write()`] is the one task that writes them, on one replica at a time.
//!
//! Whoever computes statuses puts them on a [`Board`]; of each object the latest counts. An object is written when it has been quiet for
//! a moment, or after a bounded time, and not again at once; one that has the status already, as [`Observed`] says, is not touched.
//! A write takes the object as the watch had it last, replaces what is ours in its status, and sends it back with that `resourceVersion`: entries and
//! conditions of others stay. Where a change came in between, the object is read, and the write starts again. What the server refuses is tried
//! again, ever more slowly, and reported. Gateways and classes come before policies, and these before routes.
//!
//! What somebody else took from a status of ours is put back: see [`Observed::changed`]; ever more slowly, where that goes on and on.

mod board;
mod class_conflicts;
mod contest;
mod merge;
mod retry;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use api::{ObjectKey, Timestamp};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::kubernetes::{Error, Observed, Pace};

pub use board::Board;
pub(crate) use class_conflicts::object as referenced;

#[cfg(test)]
mod tests;

/// What writing needs.
#[derive(Clone)]
pub struct WriterOptions {
    /// The API server.
    pub client: Client,
    /// Who we are: entries of lists are signed so.
    pub controller: Arc<str>,
    /// What statuses there are.
    pub observed: Observed,
    /// How long to wait for answers.
    pub pace: Pace,
    /// How long after the beginning of its lead nothing that was confirmed is taken back for want of news: proxies, and what other
    /// replicas know of theirs, have so long to be heard.
    pub settle: Duration,
    /// The time, for conditions that change.
    pub clock: fn() -> Timestamp,
}

/// How long changes are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// How long a status has to be unchanged before it is written.
    pub quiet: Duration,
    /// How long it may wait for that.
    pub most: Duration,
}

/// A route's status comes with the tick that sees the route, and once more when proxies have acknowledged what follows from it, some
/// milliseconds later: one write. A Gateway to which routes come all the time is written four times a second.
impl Default for Gather {
    fn default() -> Self {
        Self { quiet: Duration::from_millis(50), most: Duration::from_millis(250) }
    }
}

/// What cannot be written, and why: for people. Each list replaces the one before.
pub type Refused = Vec<(ObjectKey, Arc<str>)>;

/// Writes until `stop`, while `leads` says so; whoever fills the board begins when it opens ([`Board::opening`]).
///
/// # Errors
/// A task broke.
pub async fn write(
    options: WriterOptions,
    board: Board,
    leads: watch::Receiver<bool>,
    refused: watch::Sender<Refused>,
    stop: CancellationToken,
) -> Result<(), Error> {
    writer::run(options, board, leads, refused, stop).await
}
