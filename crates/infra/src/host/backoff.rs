//! How long to wait before the next try: of starting a proxy that died, of asking for something that is expected soon.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause. A proxy that was killed once is back before most clients try again.
const FIRST: Duration = Duration::from_millis(100);

/// The longest pause: a crash loop costs two starts a minute.
const LONGEST: Duration = Duration::from_secs(30);

/// A proxy that was up for this long has not failed to start.
const STABLE: Duration = Duration::from_mins(1);

/// Counts deaths in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Deaths since the last stable run.
    pub(crate) deaths: u32,
}

impl Backoff {
    /// It died, or could not be started (`up` zero). The pause doubles each time, up to [`LONGEST`], and is drawn from its upper half so
    /// that proxies which died together do not start together.
    pub(crate) fn died(&mut self, up: Duration) -> Duration {
        if up >= STABLE {
            self.deaths = 0;
        }
        let doubled = FIRST.saturating_mul(1_u32.checked_shl(self.deaths.min(16)).unwrap_or(u32::MAX)).min(LONGEST);
        self.deaths = self.deaths.saturating_add(1);
        doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// The times of a question that is asked again at growing distances.
pub(crate) struct Pace {
    /// When it is next asked.
    pub(crate) at: Instant,
    pause: Duration,
    slowest: Duration,
}

impl Pace {
    /// The first question is due after `first`; from one to the next it is twice as long each time, up to `slowest`.
    pub(crate) fn new(first: Duration, slowest: Duration) -> Self {
        Self { at: Instant::now() + first, pause: first, slowest }
    }

    /// It was asked now.
    pub(crate) fn again(&mut self) {
        self.pause = (self.pause * 2).min(self.slowest);
        self.at = Instant::now() + self.pause;
    }
}

#[cfg(test)]
mod tests;
