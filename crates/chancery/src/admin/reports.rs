//! The report of all statuses and problems, made once for all who ask for it at a time: of 10,000 routes it has 11 MB.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::core::Asking;

/// Between the end of one report and the next: what watches does not keep the core from what changes.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone)]
pub(super) struct Reports {
    asking: Asking,
    latest: Arc<Mutex<Latest>>,
}

struct Latest {
    /// The revisions of statuses and problems that the report has at least.
    of: (u64, u64),
    /// Kept by those who are being sent it, and by nobody else.
    report: Weak<Vec<u8>>,
    made: Instant,
}

impl Reports {
    /// None yet.
    pub(super) fn new(asking: Asking) -> Self {
        let latest = Latest { of: (0, 0), report: Weak::new(), made: Instant::now() };
        Self { asking, latest: Arc::new(Mutex::new(latest)) }
    }

    /// The report as it is now; `None` if the core has ended.
    pub(super) async fn now(&self) -> Option<Arc<Vec<u8>>> {
        let mut latest = self.latest.lock().await;
        if let Some(report) = latest.report.upgrade().filter(|_| latest.of == self.numbers()) {
            return Some(report);
        }
        sleep_until(latest.made + PAUSE).await;
        // Before it is asked for: it may be newer than they say, and is not older.
        let of = self.numbers();
        let report = Arc::new(self.asking.report().await?);
        *latest = Latest { of, report: Arc::downgrade(&report), made: Instant::now() };
        Some(report)
    }

    fn numbers(&self) -> (u64, u64) {
        (*self.asking.revision().borrow(), *self.asking.problems().borrow())
    }
}
