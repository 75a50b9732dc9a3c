//! Which of the proxies that come and go are logged: each, unless thousands do, or one does as fast as it can.

use std::time::{Duration, Instant};

use tracing::info;

/// So many lines within this time.
const MOST: usize = 200;
const WITHIN: Duration = Duration::from_secs(10);

/// What was logged lately.
pub(super) struct Comings {
    since: Instant,
    said: usize,
}

impl Comings {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, said: 0 }
    }

    /// True if one more is to be logged. Says once if there are more.
    pub(super) fn is_to_be_said(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WITHIN {
            *self = Self::new(now);
        }
        self.said += 1;
        if self.said == MOST + 1 {
            info!("proxies come and go faster than is logged; the metrics have their number");
        }
        self.said <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_not_logged_one_by_one_and_what_comes_later_is() {
        let start = Instant::now();
        let mut comings = Comings::new(start);
        assert_eq!((0..1000).filter(|_| comings.is_to_be_said(start)).count(), MOST);
        assert!(!comings.is_to_be_said(start + WITHIN / 2));
        assert!(comings.is_to_be_said(start + WITHIN));
    }
}
