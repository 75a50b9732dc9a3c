//! What is told about the proxies of this machine.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ir::FleetName;

/// News of one proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFact {
    /// Whose proxy.
    pub fleet: FleetName,
    /// What is known now, replacing what was said before; `None` when the proxy is gone for good.
    pub state: Option<EnvoyState>,
}

/// What is known of a proxy: of the Envoy that serves or is to serve, or is being ended without a successor so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvoyState {
    /// Its process, if it runs. Another number than before: it was started again.
    pub pid: Option<u32>,
    /// It has answered its admin interface's `/ready` and is not being ended: it serves.
    pub ready: bool,
    /// Where clients reach its ports, sorted. Where the Gateway asks for no address: 127.0.0.1 and the address by which this
    /// machine reaches others. Empty while it does not run.
    pub addresses: Vec<SocketAddr>,
    /// Addresses that the Gateway asks for and this machine does not have.
    pub missing_addresses: Vec<IpAddr>,
    /// Ports that it cannot serve, with the reason and the remedy in words for people, sorted.
    pub refused_ports: Vec<(u16, Arc<str>)>,
    /// The same of those of UDP.
    pub refused_udp_ports: Vec<(u16, Arc<str>)>,
    /// What keeps it from running, in words for people.
    pub problem: Option<Arc<str>>,
}

impl EnvoyState {
    /// Something that the Gateway asks for is not there, and may come without anybody telling us.
    pub(crate) fn lacks_something(&self) -> bool {
        let has_all_ports = self.refused_ports.is_empty() && self.refused_udp_ports.is_empty();
        !has_all_ports || !self.missing_addresses.is_empty()
    }
}
