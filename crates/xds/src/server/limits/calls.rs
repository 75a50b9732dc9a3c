//! Calls under way: of an identity, and of all together.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::time::sleep;

use super::{Account, Limits, locked};
use crate::server::grpc::Broken;
use crate::server::refusals::RefusalReason;

/// Calls that an identity may have however many others have: two streams of a proxy, and two of a person. All identities have a connection each at
/// least, so that these are no more than [`Limits::all_calls`] once more.
const FEW: usize = 4;

/// The place of a call among those of its identity and of all, until this is dropped.
pub(in crate::server) struct CallPlace(Arc<Account>);

impl Drop for CallPlace {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
        self.0.totals.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Account {
    /// A new call, as soon as it may begin.
    pub(in crate::server) async fn call(self: &Arc<Self>) -> Result<CallPlace, Broken> {
        let own = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.totals.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let place = CallPlace(Arc::clone(self));
        let Limits { calls, all_calls, .. } = self.limits;
        if own > calls {
            return Err(self.refuse(RefusalReason::Calls, "more calls than one identity may have"));
        }
        let is_short = all > all_calls - all_calls / 4 && own > all_calls / 8;
        if own > FEW && (all > all_calls || is_short) {
            return Err(self.refuse(RefusalReason::Calls, "more calls than all clients together may have"));
        }
        let wait = |now| locked(&self.requests).take(self.limits.all, now);
        while let Err(wait) = wait(Instant::now()) {
            self.tell(RefusalReason::Rate, "more calls in a second than one identity may make; they are slowed down");
            sleep(wait).await;
        }
        Ok(place)
    }

    /// Returns the calls under way.
    #[cfg(test)]
    pub(in crate::server) fn under_way(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}
