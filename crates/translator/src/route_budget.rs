//! Budget of route entries and endpoints: how many a route and the routes of a namespace may make, so that products of objects which are each small
//! stay bounded.
//!
//! An entry is a match of a rule on one listener under one host name. A route of 18 KB with 120 matches and 16 host names makes 3.9 million of
//! them on 2,048 listeners. An endpoint is one in each cluster that has it: 60 policies, 16 ports and 1,000 addresses are 960,000 of 92 KB. What is
//! beyond the budget is not attached, the youngest first; routes of other namespaces do not notice. Listeners of others make entries too, so a route is
//! judged on each Gateway by itself: its namespace's own Gateways come first, then those that it names, and default Gateways of others last.

use std::io;
use std::sync::Arc;

use engine::{Stable, StableHasher};
use ir::route::{PathMatch, RouteMatch, ValueMatch};
use ir::{EndpointSource, FleetName, Route};

use crate::key::ClusterTarget;
use crate::listener::Refusal;
use crate::regex;

/// Route entries that may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteBudget {
    /// By the routes of one namespace together, on all Gateways.
    pub(crate) namespace: u32,
}

impl RouteBudget {
    /// Bytes of memory for each entry of a namespace: an entry takes up to [`UNIT`] bytes, and a quarter of the memory is for one namespace.
    const BYTES: u64 = 4 * UNIT as u64;
    /// Entries of a namespace where memory is plenty, which they would take 256 MiB of: 1 GiB / [`Self::BYTES`]. An Envoy takes some 6 KB for each
    /// entry, 3 GB for all of these. 50,000 routes with one backend each and 3 matches on 2 listeners make 450,000.
    const MOST: u32 = 512 << 10;
    /// Entries of a namespace where memory is short: 32 MiB. A route may then make 16,384: 128 matches on 64 listeners are 8,192.
    const LEAST: u32 = 64 << 10;
    /// The share of one route in the budget of its namespace. A quarter of [`Self::MOST`] is 131,072: 128 matches (the API's bound) on the
    /// 64 listeners of a Gateway are 8,192, and under each of 15 host names 122,880.
    const SHARE: u32 = 4;

    /// A budget in numbers: entries that the routes of a namespace may make.
    #[must_use]
    pub fn of_namespace(entries: u32) -> Self {
        Self { namespace: entries }
    }

    /// The budget where the process may use this many bytes of memory.
    #[must_use]
    pub fn within(memory: u64) -> Self {
        let entries = u32::try_from(memory / Self::BYTES).unwrap_or(u32::MAX);
        Self { namespace: entries.clamp(Self::LEAST, Self::MOST) }
    }

    /// Endpoints that may be in the clusters which the routes of a namespace have on one Gateway, in [steps](step). An Envoy takes 1.5 KB for each
    /// (measured), 1.6 GB for those of [`Self::MOST`]. 50,000 routes to Services of ten endpoints each have 800,000.
    pub(crate) fn endpoints(self) -> u32 {
        self.namespace.saturating_mul(2)
    }

    /// Entries that one route may make on a Gateway.
    pub(crate) fn route(self) -> u32 {
        (self.namespace / Self::SHARE).max(1)
    }
}

impl Default for RouteBudget {
    /// As where memory is plenty.
    fn default() -> Self {
        Self { namespace: Self::MOST }
    }
}

/// Bytes of one entry. Measured on a release build: 265 of an entry whose text has 200, and 128 KB of one with 64 KB of headers, as the text is
/// encoded for each listener and host name.
const UNIT: usize = 512;

/// Entries as which a cluster counts that a route needs on a Gateway: 1.4 KB without endpoints (measured), and most are shared by routes.
pub(crate) const CLUSTER: u32 = 3;

/// Instructions of regular expressions that count as an entry: an Envoy takes some 13 bytes for each (53 KB for 4,096, measured), so 6 KB for these.
const INSTRUCTIONS: u64 = 512;

/// Entries as which a match counts on one listener under one host name: one for each [`UNIT`] bytes of its text, and for each [`INSTRUCTIONS`] of its
/// regular expressions.
pub(crate) fn weight(route: &Route) -> u32 {
    let mut text = Length(0);
    // Nothing in it can fail to be written; what was counted until then counts.
    let _ = serde_json::to_writer(&mut text, route);
    let text = u32::try_from(text.0 / UNIT).unwrap_or(u32::MAX);
    let programs = u32::try_from(instructions(&route.matches) / INSTRUCTIONS).unwrap_or(u32::MAX);
    text.saturating_add(programs).saturating_add(1)
}

/// Instructions of all regular expressions of a match.
fn instructions(matches: &RouteMatch) -> u64 {
    let path = if let PathMatch::Regex(text) = &matches.path { Some(text) } else { None };
    let values = matches.headers.iter().chain(&matches.query).filter_map(|named| match &named.value {
        ValueMatch::Regex(text) => Some(text),
        ValueMatch::Exact(_) => None,
    });
    values.chain(path).filter_map(|text| regex::instructions(text).ok()).sum()
}

/// A cluster that the routes of a namespace have on a Gateway, whichever and how many of them name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterCharge {
    pub(crate) payer: ClusterPayer,
    /// The listener that has the endpoints for itself: one that takes datagrams.
    pub(crate) listener: Option<Arc<str>>,
    pub(crate) target: ClusterTarget,
}

/// A namespace of routes on a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterPayer {
    pub(crate) namespace: Arc<str>,
    pub(crate) fleet: FleetName,
}

impl Stable for ClusterCharge {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.bytes(self.listener.as_deref().unwrap_or_default().as_bytes());
        hasher.bytes(self.target.name().0.as_bytes());
    }
}

/// The way by which a route comes to a Gateway, in the order in which they are paid for. A Gateway of another namespace can grow without the route's
/// author, so the author's own come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// The Gateway is of the route's namespace.
    Own,
    /// The route names the Gateway, which is of another namespace.
    Named,
    /// The route takes default Gateways, and this one is of another namespace.
    Default,
}

/// The entries that a route makes on a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayCharge {
    pub(crate) fleet: FleetName,
    pub(crate) claim: Claim,
    pub(crate) entries: u32,
}

/// Costs of a route, where it is attached.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteCost {
    /// Each Gateway once.
    pub(crate) gateways: Vec<GatewayCharge>,
    /// Sorted, each once.
    pub(crate) clusters: Vec<ClusterCharge>,
}

impl RouteCost {
    /// Entries on all Gateways.
    pub(crate) fn entries(&self) -> u32 {
        self.gateways.iter().map(|charge| charge.entries).fold(0, u32::saturating_add)
    }
}

/// Endpoints as which a name counts that proxies resolve: every address is one, and nothing says how many there are.
const NAME: u32 = 8;

/// Endpoints as which those of a backend count in each of its clusters; `discovered` counts them where they are delivered apart. The next power of
/// two: a backend that grows from 65 endpoints to 128 costs its routes the same, so that none is attached or left out for that, and nothing is
/// added up.
pub(crate) fn step(source: &EndpointSource, discovered: impl FnOnce() -> usize) -> u32 {
    let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let count = match source {
        EndpointSource::Discovered(_) => narrow(discovered()),
        EndpointSource::Dns(names) => narrow(names.len()).saturating_mul(NAME),
    };
    if count == 0 { 0 } else { count.checked_next_power_of_two().unwrap_or(u32::MAX) }
}

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gateways to which a route may be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// All, if it makes at most so many entries: else none, and nothing is said.
    AtMost(u32),
    /// All except these.
    Except(Vec<(FleetName, Exclusion)>),
}

impl Admission {
    /// True if a route with these costs is attached to this Gateway.
    pub(crate) fn admits(&self, cost: &RouteCost, fleet: &FleetName) -> bool {
        match self {
            Self::AtMost(most) => cost.entries() <= *most,
            Self::Except(excluded) => !excluded.iter().any(|(one, _)| one == fleet),
        }
    }

    /// The Gateways to which the route is not attached, with the reasons.
    pub(crate) fn excluded(&self) -> &[(FleetName, Exclusion)] {
        match self {
            Self::AtMost(_) => &[],
            Self::Except(excluded) => excluded,
        }
    }
}

/// The reason why a route is not attached to a Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    /// The route makes more entries there than one may.
    Large(RouteBudget),
    /// Other routes of its namespace have left too few entries.
    Crowded(RouteBudget),
    /// Clusters of older routes of its namespace have left too few endpoints.
    Endpoints(RouteBudget),
    /// A default Gateway of another namespace, where the routes of this namespace make more entries than are left, or one of them makes too many.
    Default(RouteBudget),
}

impl Exclusion {
    /// The words for a route of a namespace that makes so many entries on a Gateway.
    pub(crate) fn refusal(self, namespace: &str, fleet: &FleetName, entries: u32) -> Refusal {
        let fleet = &fleet.0;
        let makes = "(matches x host names x listeners, more for long filters)";
        let text = match self {
            Self::Large(budget) => format!(
                "the route is not attached to Gateway {fleet}: it makes {entries} route entries there {makes}, and one route may make {} on a Gateway; \
                 {REMEDY}",
                budget.route()
            ),
            Self::Crowded(budget) => format!(
                "the route is not attached to Gateway {fleet}: it makes {entries} route entries there {makes}, and older routes leave fewer of the {} that \
                 those of namespace {namespace} may make together (Gateways of other namespaces come last); remove some, or {REMEDY}",
                budget.namespace
            ),
            Self::Default(budget) => format!(
                "the route is not attached to the default Gateway {fleet}, nor is another route of namespace {namespace} that does not name it, so that none \
                 lacks one that guards it: they make too many route entries there {makes}, this one {entries}. One route may make {} on a Gateway, and \
                 those of a namespace {}, of which default Gateways of other namespaces get what is left; name the Gateways in parentRefs, or {REMEDY}",
                budget.route(),
                budget.namespace
            ),
            Self::Endpoints(budget) => {
                let text = format!(
                    "the route is not attached to Gateway {fleet}: with it the clusters of routes of namespace {namespace} there have more than the {} \
                     endpoints that they may have together, in which older routes come first (the endpoints of a backend count for each of its ports \
                     and for each BackendTrafficPolicy, rounded up to a power of two); name fewer backends or ports, or use fewer policies (the \
                     operator's bound is --max-route-entries)",
                    budget.endpoints()
                );
                return Refusal::new("TooManyEndpoints", text);
            }
        };
        Refusal::new("TooManyRouteEntries", text)
    }
}

/// Words that say what to do.
const REMEDY: &str =
    "name listeners by sectionName, or write fewer matches or host names (the operator's bound is --max-route-entries)";
