//! [`Pace`]: how long to wait for what, and [`Backoff`], how long before the next attempt.

use std::time::Duration;

use tokio::time::Instant;

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// For an answer of the API server. One under load lets requests wait for up to a minute.
    pub answer: Duration,
    /// After a failure that has to do with the API server, at first and at most.
    pub away: (Duration, Duration),
    /// After a refusal, at first and at most: nothing tells us that a quota has grown or that a foreign object is gone.
    pub refused: (Duration, Duration),
    /// Between two repairs of what somebody else changed, from the second on, and at most.
    pub repair: (Duration, Duration),
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(75),
            away: (Duration::from_millis(100), Duration::from_secs(10)),
            refused: (Duration::from_secs(1), Duration::from_mins(2)),
            repair: (Duration::from_secs(1), Duration::from_mins(5)),
        }
    }
}

/// Waits that grow, each by chance between half and all of what is its turn.
#[derive(Debug)]
pub(super) struct Backoff {
    bounds: (Duration, Duration),
    next: Duration,
}

impl Backoff {
    pub(super) fn new(bounds: (Duration, Duration)) -> Self {
        Self { bounds, next: bounds.0 }
    }

    pub(super) fn reset(&mut self) {
        self.next = self.bounds.0;
    }

    pub(super) fn wait(&mut self) -> Duration {
        let wait = self.next.min(self.bounds.1);
        self.next = wait.saturating_mul(2).min(self.bounds.1);
        wait.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// When what somebody else changes is put right: the first time at once, and ever later while it goes on.
#[derive(Debug)]
pub(super) struct Repairs {
    backoff: Backoff,
    /// Before this the next one waits; long after it all is forgotten.
    next: Option<Instant>,
}

impl Repairs {
    pub(super) fn new(bounds: (Duration, Duration)) -> Self {
        Self { backoff: Backoff::new(bounds), next: None }
    }

    /// Something was changed now; when it may be put right.
    pub(super) fn due(&mut self, now: Instant) -> Instant {
        let due = match self.next {
            Some(next) if now < next + self.backoff.bounds.1 => next.max(now),
            _ => {
                self.backoff.reset();
                now
            }
        };
        self.next = Some(due + self.backoff.wait());
        due
    }
}

#[cfg(test)]
mod tests;
