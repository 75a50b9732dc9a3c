//! Facts: what comes back from proxies, as rows of input tables.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::reference::ParentRef;
use api::{Kind, RefusalKind, Timestamp};

/// A thing of a fleet: a cluster, a listener, a secret, or a form of a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactKey {
    /// The fleet, for example `<namespace>/<gateway>`.
    pub fleet: Arc<str>,
    /// The name of the thing within the fleet.
    pub name: Arc<str>,
}

impl FactKey {
    /// The key of a thing of a fleet.
    #[must_use]
    pub fn new(fleet: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { fleet: fleet.into(), name: name.into() }
    }

    /// The key of a resource of a fleet among those of all kinds, for example `Listener` or `RouteConfiguration`: a listener and its routes
    /// can be of one name.
    #[must_use]
    pub fn of_kind(fleet: impl Into<Arc<str>>, kind: &str, name: &str) -> Self {
        Self::new(fleet, format!("{kind} {name}"))
    }
}

/// What a fleet's proxies made of a cluster. No row: it is not warm yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterState {
    /// It has its endpoints and can be used.
    Warm,
    /// It did not become warm in time; it may still do so.
    Stalled,
    /// The proxy refused it, with these words.
    Refused(Arc<str>),
}

/// What a fleet's proxies made of a listener. No row: they have not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerState {
    /// The proxy acknowledged it.
    Accepted,
    /// The proxy refused it, with these words.
    Refused(Arc<str>),
}

/// A secret whose content a fleet's proxies refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRefusal {
    /// The proxy's words, without anything that could be a secret.
    pub words: Arc<str>,
    /// The proxies stay on an accepted content before it. Without one nothing that needs the secret can be served.
    pub has_previous: bool,
}

/// What the proxies of a workload made of a resource that somebody wrote for it. No row: they have not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawState {
    /// They use it.
    Accepted,
    /// A proxy refused it, with these words.
    Refused(Arc<str>),
}

/// What became of the patches of one policy on one generated resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchState {
    /// They are in what proxies get. Clusters that they name and the proxies do not get.
    Applied(Box<[Arc<str>]>),
    /// There is no such resource; names that are near.
    NotFound(Box<[Arc<str>]>),
    /// They are left out: the number of the patch that is to blame, if it is one, why, and the rule that they break.
    LeftOut(Option<u32>, Arc<str>, Option<RefusalKind>),
    /// They are left out, because a proxy refused the resource with them, with these words.
    Refused(Arc<str>),
}

/// What proxies refused of a resource that several make: policies that patch a generated one, or objects that each hold a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusals {
    /// The proxy's words, by the mark of what was in it.
    pub words: BTreeMap<u64, Arc<str>>,
    /// The marks of what proxies have accepted since.
    pub accepted: BTreeSet<u64>,
    /// The resource was refused without any patch as well: the patches may not be to blame.
    pub without: bool,
}

/// An object that cannot be used at all: as much of it as is needed to say so in its status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rejected {
    /// `metadata.generation`.
    pub generation: i64,
    /// Of a Gateway its class, of a class its controller.
    pub belongs_to: Box<str>,
    /// What a route attaches to, or a policy targets.
    pub refers_to: Box<[ParentRef]>,
    /// Why, in words for people.
    pub words: Arc<str>,
}

/// Which kinds of objects a cluster has. No row: all, as with files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definitions {
    /// Those that we read and it has.
    pub kinds: BTreeSet<Kind>,
    /// Of the Gateway API, what its definitions say of themselves; none where they may not be read.
    pub gateway_api: Option<GatewayApi>,
}

/// What the definitions of the Gateway API say of themselves, in annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatewayApi {
    /// Releases, for example `v1.7.0`; more than one where somebody updated a part of them. Of a definition that says none the text is empty.
    pub versions: BTreeSet<Arc<str>>,
    /// They are those of the experimental channel, all of them.
    pub is_experimental: bool,
}

/// What is known of the proxies of a fleet, from whoever runs them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyFacts {
    /// A proxy answers that it is ready to serve.
    pub ready: bool,
    /// Addresses at which it accepts connections, sorted.
    pub addresses: Vec<SocketAddr>,
    /// Host names at which it accepts connections, where there is no address: sorted.
    pub hostnames: Vec<Arc<str>>,
    /// Addresses of the cluster (`Service.spec.clusterIPs`) at which it does, sorted, among [`Self::addresses`] or not.
    pub cluster_addresses: Vec<IpAddr>,
    /// Addresses that were asked for and are not there, in words for people.
    pub missing_addresses: Vec<(IpAddr, Arc<str>)>,
    /// Why it has no address at all so far, in words for people.
    pub unassigned: Option<Arc<str>>,
    /// What is waited for before it serves, in words for people.
    pub awaited: Option<Arc<str>>,
    /// Ports that cannot be served and why (taken, not permitted), sorted by port.
    pub refused_ports: Vec<(u16, Arc<str>)>,
    /// The same of those of UDP.
    pub refused_udp_ports: Vec<(u16, Arc<str>)>,
    /// What keeps the proxy as a whole from running, in words for people.
    pub problem: Option<Arc<str>>,
    /// What of that is a matter of the `EnvoyProxy` in force: field and words.
    pub faults: Vec<(Arc<str>, Arc<str>)>,
}

impl ProxyFacts {
    /// This address was asked for and is not there.
    #[must_use]
    pub fn is_missing(&self, address: &IpAddr) -> bool {
        self.missing_addresses.iter().any(|(missing, _)| missing == address)
    }
}

/// What a fleet's proxies send to a cluster, as they report it. Rates are each second, in millionths: rows hold no floats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFacts {
    /// Proxies whose last report counts.
    pub reporters: u32,
    /// Requests since there is a row.
    pub requests: u64,
    /// Rate of requests that were dropped before an endpoint was chosen.
    pub dropped: u64,
    /// Rates of those that an overload policy dropped, by its category.
    pub dropped_by: BTreeMap<Arc<str>, u64>,
    /// By region, zone and sub-zone. One that is not here has no requests.
    pub localities: BTreeMap<[Arc<str>; 3], LocalityLoad>,
    /// When the proxies said something else before.
    pub since: Timestamp,
}

/// What goes to a locality.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalityLoad {
    /// All of it.
    pub traffic: Traffic,
    /// Parts of it by the endpoint's address, if proxies are asked for them.
    pub endpoints: BTreeMap<Arc<str>, Traffic>,
}

/// Requests; of a TCP proxy, connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Rate of those that were sent.
    pub issued: u64,
    /// Rate of those that ended well.
    pub succeeded: u64,
    /// Rate of those that ended badly.
    pub failed: u64,
    /// Under way at the last report.
    pub in_progress: u64,
    /// Means of what endpoints say of themselves (ORCA), in millionths.
    pub metrics: BTreeMap<Arc<str>, u64>,
}
