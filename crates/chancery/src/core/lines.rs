//! Lines of the log that proxies cause: each is said, unless thousands cause them, or one does as fast as it can.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};

/// Lines about proxies that come and go within this time: of all Gateways together, as thousands come back where a network does.
const MOST_COMINGS: usize = 200;
const COMINGS_WITHIN: Duration = Duration::from_secs(10);

/// Warnings of one Gateway within this time: its proxies are its own, so none takes lines from others.
const MOST_WARNINGS: usize = 8;
const WARNINGS_WITHIN: Duration = Duration::from_secs(60);

/// Gateways whose warnings are counted, at some 100 bytes each. Beyond, those whose time is over are forgotten.
const MOST_GATEWAYS: usize = 1024;

/// The lines that were said lately.
pub(super) struct Lines {
    comings: Said,
    warnings: BTreeMap<Arc<str>, Said>,
}

/// The number of lines since then.
#[derive(Clone, Copy)]
struct Said {
    since: Instant,
    count: usize,
}

impl Said {
    /// Counts one more, and returns the number of those within this time.
    fn add(&mut self, now: Instant, within: Duration) -> usize {
        if now.saturating_duration_since(self.since) >= within {
            *self = Self { since: now, count: 0 };
        }
        self.count += 1;
        self.count
    }
}

impl Lines {
    pub(super) fn new(now: Instant) -> Self {
        Self { comings: Said { since: now, count: 0 }, warnings: BTreeMap::new() }
    }

    /// True if one more proxy that comes or goes is to be logged. Says once if there are more.
    pub(super) fn takes_coming(&mut self, now: Instant) -> bool {
        let count = self.comings.add(now, COMINGS_WITHIN);
        if count == MOST_COMINGS + 1 {
            info!("proxies come and go faster than is logged; the metrics have their number");
        }
        count <= MOST_COMINGS
    }

    /// True if one more warning about proxies of this Gateway is to be logged. Says once if there are more.
    pub(super) fn takes_warning(&mut self, gateway: &Arc<str>, now: Instant) -> bool {
        if self.warnings.len() >= MOST_GATEWAYS && !self.warnings.contains_key(gateway) {
            self.warnings.retain(|_, said| now.saturating_duration_since(said.since) < WARNINGS_WITHIN);
        }
        let said = self.warnings.entry(Arc::clone(gateway)).or_insert(Said { since: now, count: 0 });
        let count = said.add(now, WARNINGS_WITHIN);
        if count == MOST_WARNINGS + 1 {
            warn!(%gateway, "proxies of this Gateway cause more warnings than are logged; the metrics have their number");
        }
        count <= MOST_WARNINGS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_not_logged_one_by_one_and_what_comes_later_is() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        assert_eq!((0..1000).filter(|_| lines.takes_coming(start)).count(), MOST_COMINGS);
        assert!(!lines.takes_coming(start + COMINGS_WITHIN / 2));
        assert!(lines.takes_coming(start + COMINGS_WITHIN));
    }

    #[test]
    fn warnings_of_one_gateway_take_no_lines_from_another() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        let [loud, quiet] = ["a/loud", "b/quiet"].map(Arc::from);
        assert_eq!((0..1000).filter(|_| lines.takes_warning(&loud, start)).count(), MOST_WARNINGS);
        assert!(lines.takes_warning(&quiet, start));
        assert!(lines.takes_warning(&loud, start + WARNINGS_WITHIN));
    }
}
