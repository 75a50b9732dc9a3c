//! When something that failed is tried again: at once, then after 10 s, and twice as long each time, up to 5 minutes.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_secs(10);

/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(300);

/// Whatever ran for so long is taken to be well (twice [`LONGEST`], as kubelet has it).
const WELL: Duration = Duration::from_secs(600);

/// The waits of one container, for its image or for its starts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// How long to wait after a failure, before which all went well for so long.
    pub(crate) fn after(&mut self, well: Duration) -> Duration {
        let next = match self.last {
            _ if well >= WELL => Duration::ZERO,
            None => Duration::ZERO,
            Some(Duration::ZERO) => FIRST,
            Some(last) => (last * 2).min(LONGEST),
        };
        self.last = Some(next);
        next
    }
}

#[cfg(test)]
mod tests;
