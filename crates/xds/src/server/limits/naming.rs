//! The work that names cost: those that requests list, ask for and let go of, and those that the first answer to a client holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::{Account, Bucket, Rate, locked};
use crate::server::refusals::RefusalReason;

#[cfg(test)]
mod tests;

/// Names of all clients of an identity in a second, in the long run: some 0.5 µs each, a fifth of a core.
const PER_SECOND: u32 = 400_000;

/// Names at once for each connection: a client with 50,000 clusters lists, asks for and is sent four times as many when it comes again. They are a
/// tenth of a second of a core.
const FOR_A_CONNECTION: usize = 200_000;

/// So often an identity's clients may name at once all that they may have ([`super::Limits::names`]): listed, asked for and sent. That lets 10,000 clients
/// with 1,000 clusters, and two thirds as many other names, come again together.
const TIMES: usize = 3;

/// Names of a request that cost nothing more than the request, which is charged 10 µs. One with more waits until earlier names are made good.
const PAID: usize = 20;

/// A request with more names, half a millisecond of work, is taken in by itself: after other tasks had their turn, and while no other request of
/// the identity is that has as many. So one identity keeps one thread busy at most, and that for one request (0.13 s for the largest).
const MANY: usize = 1_000;

/// Time after which a request with many names looks again whether it is its turn, though the client whose turn it was may not read.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What an identity owes for names.
pub(super) struct Naming {
    bucket: Mutex<Bucket>,
    /// Of the request with many names that is being taken in.
    turn: Arc<Semaphore>,
    /// Turns so far.
    turns: AtomicUsize,
    over: Notify,
}

impl Naming {
    pub(super) fn new(now: Instant) -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Self { bucket: Mutex::new(Bucket::full(now)), turn, turns: AtomicUsize::new(0), over: Notify::new() }
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        locked(&self.bucket)
    }
}

/// The turn of a request with many names, until this is dropped.
pub(in crate::server) struct NamesTurn {
    account: Arc<Account>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for NamesTurn {
    fn drop(&mut self) {
        self.account.naming.over.notify_one();
    }
}

/// Returns true if a request with so many names has to wait until earlier ones are made good.
pub(in crate::server) fn has_to_wait(names: usize, begins: bool) -> bool {
    begins || names > PAID
}

impl Account {
    /// Names that its connections may name at once.
    fn naming_rate(&self) -> Rate {
        let connections = self.connections.load(Ordering::Relaxed).max(1);
        let most = self.limits.names.saturating_mul(TIMES);
        let burst = connections.saturating_mul(FOR_A_CONNECTION).min(most);
        Rate { per_second: PER_SECOND, burst: u32::try_from(burst).unwrap_or(u32::MAX) }
    }

    /// A request with so many names is taken in.
    pub(in crate::server) fn charge_names(&self, names: usize) {
        self.charge_first_names(names.saturating_sub(PAID));
    }

    /// The first answer to a client has so many names.
    pub(in crate::server) fn charge_first_names(&self, names: usize) {
        let names = u32::try_from(names).unwrap_or(u32::MAX);
        self.naming.bucket().charge(self.naming_rate(), names, Instant::now());
    }

    fn owes_names(&self) -> Option<Duration> {
        self.naming.bucket().owed(self.naming_rate(), Instant::now())
    }

    /// Waits until a request with so many names may be taken in. The turn, if it needs one, is to be used at once.
    pub(in crate::server) async fn turn_for_names(self: Arc<Self>, names: usize) -> Option<NamesTurn> {
        let naming = &self.naming;
        loop {
            let before = naming.turns.load(Ordering::Acquire);
            if names > MANY {
                yield_now().await;
            }
            while let Some(wait) = self.owes_names() {
                self.tell(
                    RefusalReason::Rate,
                    "more names in a second than one identity may send; they are slowed down",
                );
                sleep(wait).await;
            }
            if names <= MANY {
                return None;
            }
            if naming.turns.load(Ordering::Acquire) == before
                && let Ok(permit) = Arc::clone(&naming.turn).try_acquire_owned()
            {
                naming.turns.fetch_add(1, Ordering::AcqRel);
                return Some(NamesTurn { account: Arc::clone(&self), _permit: permit });
            }
            tokio::select! {
                () = naming.over.notified() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// How long until what names cost is made good.
    #[cfg(test)]
    pub(in crate::server) fn until_names_are_paid(&self) -> Duration {
        self.naming.bucket().full_at.saturating_duration_since(Instant::now())
    }
}
