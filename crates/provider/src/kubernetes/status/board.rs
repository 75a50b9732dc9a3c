//! [`Board`]: statuses that wait to be written.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::status::{OwnStatus, Status};
use api::{Kind, ObjectKey};
use hashbrown::HashMap;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Gather;

/// Statuses that wait, of each object the latest; none: nothing of ours shall be there. As many as objects at most. A clone is the same board.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

struct Inner {
    gather: Gather,
    waiting: Mutex<Waiting>,
    open: watch::Sender<bool>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    rows: HashMap<ObjectKey, Row>,
    /// By [`turn`]; each with its time, the first one first.
    queues: [BTreeSet<(Instant, ObjectKey)>; TURNS],
    /// How many were taken.
    taken: usize,
}

/// Gateways and what they are made of are written before policies, and these before all else, of which there may be 50,000 at a start.
const TURNS: usize = 3;

fn turn(key: &ObjectKey) -> usize {
    match key.kind() {
        Some(Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet | Kind::EnvoyProxy) => 0,
        Some(kind) if matches!(kind.own_status(), Some(OwnStatus::Entries(list, _)) if list == "ancestors") => 1,
        _ => 2,
    }
}

/// One of so many that are taken is of the last turn that waits: those before it may come without end.
const SHARE_OF_THE_LAST: usize = 4;

impl Waiting {
    /// Takes the one that is next at this time.
    fn pop(&mut self, now: Instant) -> Option<(ObjectKey, Option<Status>)> {
        let is_due = |queue: &&mut BTreeSet<(Instant, ObjectKey)>| queue.first().is_some_and(|(due, _)| *due <= now);
        self.taken = self.taken.wrapping_add(1);
        let queue = match self.taken % SHARE_OF_THE_LAST {
            0 => self.queues.iter_mut().rev().find(is_due),
            _ => self.queues.iter_mut().find(is_due),
        };
        let (_, key) = queue?.pop_first()?;
        let (key, row) = self.rows.remove_entry(&key)?;
        Some((key, row.status))
    }
}

struct Row {
    status: Option<Status>,
    /// When it is written if nothing new comes.
    due: Instant,
    /// When it is written at the latest.
    last: Instant,
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("waiting", &self.waiting().rows.len()).finish_non_exhaustive()
    }
}

impl Board {
    /// An empty one, on which nothing is kept yet.
    #[must_use]
    pub fn new(gather: Gather) -> Self {
        Self(Arc::new(Inner {
            gather,
            waiting: Mutex::default(),
            open: watch::Sender::new(false),
            news: Notify::new(),
        }))
    }

    /// Whether somebody writes. Until then nothing is kept; whoever fills the board puts everything on it when that begins.
    #[must_use]
    pub fn opening(&self) -> watch::Receiver<bool> {
        self.0.open.subscribe()
    }

    /// Puts a status on the board, in place of an earlier one.
    pub fn put(&self, key: ObjectKey, status: Option<Status>) {
        if !*self.0.open.borrow() {
            return;
        }
        let Gather { quiet, most } = self.0.gather;
        let now = Instant::now();
        let mut waiting = self.waiting();
        let Waiting { rows, queues, .. } = &mut *waiting;
        let row = rows.entry(key.clone()).or_insert_with(|| Row { status: None, due: now, last: now + most });
        row.status = status;
        let before = std::mem::replace(&mut row.due, row.last.min(now + quiet));
        if let Some(queue) = queues.get_mut(turn(&key)) {
            queue.remove(&(before, key.clone()));
            queue.insert((row.due, key));
        }
        drop(waiting);
        self.0.news.notify_one();
    }

    /// Begins to keep what is put, or ends it.
    pub(super) fn open(&self, open: bool) {
        *self.waiting() = Waiting::default();
        self.0.open.send_if_modified(|is_open| std::mem::replace(is_open, open) != open);
    }

    /// Takes what is due, at most so many; and says when the next is due, if anything waits.
    pub(super) fn take_due(&self, most: usize) -> (Vec<(ObjectKey, Option<Status>)>, Option<Instant>) {
        let now = Instant::now();
        let mut waiting = self.waiting();
        let taken = std::iter::from_fn(|| waiting.pop(now)).take(most).collect();
        (taken, waiting.queues.iter().filter_map(|queue| Some(queue.first()?.0)).min())
    }

    /// Waits until something is put.
    pub(super) async fn news(&self) {
        self.0.news.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
