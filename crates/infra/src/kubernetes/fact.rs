//! What is told about the proxies of a cluster.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ir::FleetName;

use super::object::Fault;

/// News of the proxies of one fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodsFact {
    /// Whose proxies.
    pub fleet: FleetName,
    /// What is known now, replacing what was said before; `None` when all that was made for them is gone.
    pub state: Option<PodsState>,
}

/// What is known of a fleet's proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsState {
    /// At least one of them is available.
    pub ready: bool,
    /// Where clients reach their ports, sorted.
    pub addresses: Vec<SocketAddr>,
    /// The same, where a load balancer has a host name and no address: sorted.
    pub hostnames: Vec<Arc<str>>,
    /// Addresses of the Service in the cluster, sorted, whether it is reached at others too or not.
    pub cluster_addresses: Vec<IpAddr>,
    /// Addresses that the Gateway asks for and its Service does not have, with words for people.
    pub missing_addresses: Vec<(IpAddr, Arc<str>)>,
    /// Why there is no address at all so far, in words for people.
    pub unassigned: Option<Arc<str>>,
    /// What is waited for before they serve, in words for people.
    pub awaited: Option<Arc<str>>,
    /// What keeps them from running as they shall, in words for people.
    pub problem: Option<Arc<str>>,
    /// What of that is a matter of the `EnvoyProxy` in force.
    pub faults: Vec<Fault>,
}
