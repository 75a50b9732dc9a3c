//! [`Pace`]: every time that something takes at most, and [`Backoff`], how long to wait before the next attempt.

use std::time::Duration;

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Until an answer begins. A server under load lets requests wait for up to a minute.
    pub answer: Duration,
    /// Between two parts of a watch. A server sends a bookmark about once a minute: after two that did not come and a margin the
    /// connection is dead, and another one goes on where it stopped.
    pub silence: Duration,
    /// How long a watch is asked to last; the server ends it then, and each one at another time, from once to twice this.
    pub watch: Duration,
    /// Before the first attempt after a failure; each further one waits twice as long.
    pub retry_first: Duration,
    /// Between attempts at most. A thousand watches that wait 10 s ask a hundred times a second for a server that is away.
    pub retry_last: Duration,
    /// Between looks at which versions the server has, at most: a definition that came without our hearing of it is read after that.
    pub look: Duration,
    /// How long a kind has to be missing until that is believed. A server that starts may say so of kinds that it has.
    pub missing: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(75),
            silence: Duration::from_secs(150),
            watch: Duration::from_secs(300),
            retry_first: Duration::from_millis(100),
            retry_last: Duration::from_secs(10),
            look: Duration::from_secs(30),
            missing: Duration::from_secs(5),
        }
    }
}

impl Pace {
    /// Seconds that a watch shall last, chosen by chance so that not all end at once.
    pub(crate) fn watch_seconds(&self) -> u32 {
        let least = u32::try_from(self.watch.as_secs()).unwrap_or(u32::MAX);
        fastrand::u32(least..=least.saturating_mul(2)).max(1)
    }
}

/// Waits that grow, each by chance between half and all of what is its turn.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// One that grows from `first` to `last`.
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first }
    }

    /// It went well: the next wait is the first one again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// The next wait.
    pub(crate) fn wait(&mut self) -> Duration {
        let wait = self.next.min(self.last);
        self.next = (wait * 2).min(self.last);
        wait.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}
