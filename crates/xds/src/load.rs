//! Load reports (LRS): what clients say of the requests that they send, added up over each fleet.
//!
//! Sans-io like the rest: [`Loads`] keeps what was reported and is driven by messages and the time, a `Talk` knows what one client
//! is to be told. Sums are of whole numbers, so that they do not depend on who reports first.
//!
//! What there is to know of a cluster is a [`ClusterLoad`]. A locality that is not in it had no requests; a cluster without one has
//! nobody who reports: that is no data, and not zero.
//!
//! Sources: `envoy/service/load_stats/v3/lrs.proto`, `envoy/config/endpoint/v3/load_report.proto`.
//!
//! Reading order: `wire`, `numbers`, `rows`, `stage`, `loads`, `talk`.

mod loads;
mod numbers;
mod rows;
mod stage;
mod talk;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use loads::{Loads, ReporterId, TooManyReporters};
pub(crate) use talk::Talk;
pub use wire::Malformed;
pub(crate) use wire::{frame, node_of};

/// The interval of reports is never shorter: below it, reports would cost a proxy more than they say.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Nor longer: beyond it, a report says nothing about now.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// What clients are asked to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReports {
    interval: Duration,
    /// These clusters only, as far as a client's fleet has them; none: all of its fleet.
    pub clusters: Option<BTreeSet<Arc<str>>>,
    /// For each endpoint too. gRPC clients report localities only, whatever they are asked for.
    pub endpoints: bool,
}

impl LoadReports {
    /// Reports on all clusters, by locality, each `interval`, which is brought into the range of 0.1 s to 1 h.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self { interval: interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL), clusters: None, endpoints: false }
    }

    /// Between two reports of a client.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }
}

/// So many each second, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// Each second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.0 as f64 / numbers::MILLION
    }
}

/// Where endpoints are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locality {
    /// `locality.region`.
    pub region: Arc<str>,
    /// `locality.zone`.
    pub zone: Arc<str>,
    /// `locality.sub_zone`.
    pub sub_zone: Arc<str>,
}

/// What all clients of a fleet send to a cluster, by the name of its service where it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// Clients whose last report counts.
    pub reporters: u32,
    /// Requests issued, by all and since there is a report on this cluster.
    pub requests: u64,
    /// Requests that were dropped before an endpoint was chosen.
    pub dropped: Rate,
    /// Those of them that were dropped by an overload policy, by its category.
    pub dropped_by: BTreeMap<Arc<str>, Rate>,
    /// Localities that requests went to, or are in progress in.
    pub localities: BTreeMap<Locality, LocalityLoad>,
}

/// What goes to a locality.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalityLoad {
    /// All of it.
    pub load: Load,
    /// Parts of it, by the address of the endpoint; empty unless asked for.
    pub endpoints: BTreeMap<Arc<str>, Load>,
}

/// Requests. Of a TCP proxy, connections: new ones are issued, live ones in progress, none succeeds or fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sent.
    pub issued: Rate,
    /// Ended well.
    pub succeeded: Rate,
    /// Ended badly.
    pub failed: Rate,
    /// Under way at the time of the last reports.
    pub in_progress: u64,
    /// Connections, as far as a client reports them (Envoy 1.40 does not).
    pub connections: Connections,
    /// What endpoints say of themselves (ORCA), by name; `cpu_utilization`, `mem_utilization` and `application_utilization` among
    /// it.
    pub metrics: BTreeMap<Arc<str>, Metric>,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Opened.
    pub opened: Rate,
    /// Not opened.
    pub failed: Rate,
    /// Open at the time of the last reports.
    pub active: u64,
}

/// A figure that endpoints send along with their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metric {
    /// Requests that ended with it.
    pub requests: Rate,
    /// Its mean over them, in millionths.
    pub mean: u64,
}
