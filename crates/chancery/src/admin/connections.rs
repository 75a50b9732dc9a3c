//! The open connections of a monitoring port, and which of them is closed when a place is needed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Connections of a port at a time. Monitors have one each. A connection costs at most the 16 KiB of its request's head and the buffer of
/// its answer: 8 MiB in all.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// Making an answer takes less; a question that is open for longer waits for a change.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(2);

/// All connections of one port.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Mutex<OpenConnections>>);

#[derive(Debug)]
struct OpenConnections {
    most: usize,
    next: u64,
    open: BTreeMap<u64, (SourceNetwork, Arc<Life>)>,
}

/// The source of a connection: an IPv4 address, or the 64 bits of an IPv6 address that one owner has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SourceNetwork(u128);

impl From<IpAddr> for SourceNetwork {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self(address.to_bits() >> 64 << 64),
        }
    }
}

/// The state of a connection that its task and the accepting task share.
#[derive(Debug)]
pub(super) struct Life {
    began: Instant,
    /// Milliseconds from `began` to the last whole request, or the last byte of an answer that the client took; 0 without one. Other bytes that the client sends do not count:
    /// a client that sends its request byte by byte is as idle as one that sends nothing.
    taken: AtomicU64,
    /// An answer is being made.
    answering: AtomicBool,
    /// The connection has to go.
    close: CancellationToken,
}

impl Life {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            taken: AtomicU64::new(0),
            answering: AtomicBool::new(false),
            close: CancellationToken::new(),
        }
    }

    /// Notes that the client took a part of an answer.
    pub(super) fn note_taken(&self) {
        self.taken.store(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Notes whether an answer is being made.
    pub(super) fn set_answering(&self, answering: bool) {
        if answering {
            self.note_taken();
        }
        self.answering.store(answering, Ordering::Relaxed);
    }

    /// Waits until the connection has to go.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// The last sign of life, those that are being answered after all others. One that waits for a change for long is as idle as others.
    fn rank(&self) -> (bool, Instant) {
        let last = self.began + Duration::from_millis(self.taken.load(Ordering::Relaxed));
        (self.answering.load(Ordering::Relaxed) && last.elapsed() < MAX_ANSWER_TIME, last)
    }
}

/// A connection's place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    connections: Connections,
    number: u64,
    pub(super) life: Arc<Life>,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
    }
}

impl Connections {
    /// Returns a table without connections, for this many.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(OpenConnections { most, next: 0, open: BTreeMap::new() })))
    }

    /// A place for a connection from this address; true if another one had to go for it.
    pub(super) fn enter(&self, from: IpAddr) -> (ConnectionPlace, bool) {
        let mut open = self.lock();
        let evicts = open.open.len() >= open.most;
        if evicts {
            open.evict();
        }
        let (number, life) = (open.next, Arc::new(Life::new()));
        open.next += 1;
        open.open.insert(number, (from.into(), Arc::clone(&life)));
        drop(open);
        (ConnectionPlace { connections: self.clone(), number, life }, evicts)
    }

    /// Closes the longest idle connection, because descriptors are short; true if there was one.
    pub(super) fn evict(&self) -> bool {
        self.lock().evict()
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        // Each change is one step: a panic of another task leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Closes, of the source that has most connections, the one that has been idle longest.
    ///
    /// So a flood of one source closes its own connections, and a probe from elsewhere is answered.
    fn evict(&mut self) -> bool {
        let mut counts: BTreeMap<SourceNetwork, usize> = BTreeMap::new();
        for (source, _) in self.open.values() {
            *counts.entry(*source).or_default() += 1;
        }
        let count = |source: &SourceNetwork| std::cmp::Reverse(counts.get(source).copied().unwrap_or_default());
        let first = self.open.iter().min_by_key(|(_, (source, life))| (count(source), life.rank()));
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        if let Some((_, life)) = self.open.remove(&number) {
            life.close.cancel();
        }
        true
    }
}

#[cfg(test)]
mod tests;
