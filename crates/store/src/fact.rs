//! Facts: what comes back from proxies, as rows of input tables.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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

/// What is known of the proxies of a fleet, from whoever runs them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyFacts {
    /// A proxy answers that it is ready to serve.
    pub ready: bool,
    /// Addresses at which it accepts connections, sorted.
    pub addresses: Vec<SocketAddr>,
    /// Addresses that were asked for and are not there.
    pub missing_addresses: Vec<IpAddr>,
    /// Ports that cannot be served and why (taken, not permitted), sorted by port.
    pub refused_ports: Vec<(u16, Arc<str>)>,
    /// What keeps the proxy as a whole from running, in words for people.
    pub problem: Option<Arc<str>>,
}
