//! [`WriteBudget`]: bounds of the bytes that a replica writes into its object: clients of one Gateway can cause a change at any time.

use std::time::Duration;

use tokio::time::Instant;

/// Bounds of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteLimits {
    /// Bytes that are written in a second, in the long run.
    pub rate: u64,
    /// Bytes that are written at once after a rest.
    pub burst: u64,
    /// Bytes that a write costs in addition to its own.
    pub overhead: u64,
}

impl Default for WriteLimits {
    /// 100 KB a second: an API server keeps each version of an object for 5 to 10 minutes, so 60 MB of each replica, and the 10 replicas of a large installation
    /// write 1 MB a second at most. A burst is one object of the largest size, or ten small ones; in the long run there is one write a second.
    fn default() -> Self {
        Self { rate: 100_000, burst: 1_000_000, overhead: 100_000 }
    }
}

/// Bytes that may be written now. They come back with time; a write that is larger than what is left makes a debt.
#[derive(Debug)]
pub(super) struct WriteBudget {
    limits: WriteLimits,
    left: i64,
    since: Instant,
}

impl WriteBudget {
    pub(super) fn new(limits: WriteLimits, now: Instant) -> Self {
        Self { limits, left: signed(limits.burst), since: now }
    }

    /// Returns the time until an object of this size may be written.
    pub(super) fn wait(&mut self, size: usize, now: Instant) -> Duration {
        self.refill(now);
        let lacking = u64::try_from(signed(self.cost(size)).saturating_sub(self.left)).unwrap_or_default();
        Duration::from_micros(lacking.saturating_mul(1_000_000).div_ceil(self.limits.rate.max(1)))
    }

    /// Notes that an object of this size is written.
    pub(super) fn take(&mut self, size: usize, now: Instant) {
        self.refill(now);
        self.left = self.left.saturating_sub(signed(self.cost(size)));
    }

    /// No write waits for more than a burst.
    fn cost(&self, size: usize) -> u64 {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        size.saturating_add(self.limits.overhead).min(self.limits.burst)
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.since).as_micros();
        let fresh = elapsed.saturating_mul(self.limits.rate.into()) / 1_000_000;
        // What is less than a byte counts the next time.
        if fresh > 0 {
            self.left =
                self.left.saturating_add(i64::try_from(fresh).unwrap_or(i64::MAX)).min(signed(self.limits.burst));
            self.since = now;
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
