//! What one client is told: which clusters to report on, how often, and how closely.

use std::sync::Arc;
use std::time::Duration;

use super::LoadReports;
use super::wire::{Fields, Malformed};

/// The feature of clients that understand `send_all_clusters`.
const SENDS_ALL: &[u8] = b"envoy.lrs.supports_send_all_clusters";

/// `Node.client_features`.
const FEATURES: u32 = 10;

/// How often a client that is to report on nothing says so: a protocol without this would need no interval then.
const IDLE: Duration = Duration::from_secs(300);

/// What a client was told last: a `LoadStatsResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(super) clusters: Vec<Arc<str>>,
    pub(super) all: bool,
    pub(super) interval: Duration,
    pub(super) endpoints: bool,
}

/// See the module.
pub(crate) struct Talk {
    sends_all: bool,
    told: Option<Told>,
}

impl Talk {
    /// Begins with the node of a client.
    pub(crate) fn new(node: &[u8]) -> Result<Self, Malformed> {
        let mut sends_all = false;
        for feature in Fields(node).each(FEATURES) {
            sends_all |= feature? == SENDS_ALL;
        }
        Ok(Self { sends_all, told: None })
    }

    /// What is to be said now, if it is something else than before. `clusters` are those of the client's fleet.
    pub(crate) fn tell<C: Iterator<Item = Arc<str>>>(
        &mut self,
        reports: Option<&LoadReports>,
        clusters: impl FnOnce() -> C,
    ) -> Option<&Told> {
        let wanted = match reports {
            None => Told { clusters: Vec::new(), all: false, interval: IDLE, endpoints: false },
            Some(reports) => {
                let all = self.sends_all && reports.clusters.is_none();
                let wanted = |name: &Arc<str>| reports.clusters.as_ref().is_none_or(|these| these.contains(name));
                let clusters = if all { Vec::new() } else { clusters().filter(wanted).collect() };
                Told { clusters, all, interval: reports.interval(), endpoints: reports.endpoints }
            }
        };
        if self.told.as_ref() == Some(&wanted) {
            return None;
        }
        Some(self.told.insert(wanted))
    }

    /// After this time the clusters of the fleet may be others: none for a client that reports on all of them, whichever they are.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        self.told.as_ref().filter(|told| !told.all && told.interval != IDLE).map(|told| told.interval)
    }
}
