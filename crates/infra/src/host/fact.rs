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
    pub facts: Option<ProxyFacts>,
}

/// What is known of one proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyFacts {
    /// It runs.
    pub started: bool,
    /// It has answered its admin interface's `/ready`: it serves.
    pub ready: bool,
    /// It is being drained: it answers what it has and takes nothing new.
    pub draining: bool,
    /// Its process.
    pub pid: Option<u32>,
    /// It was started by an earlier Chancery.
    pub adopted: bool,
    /// How often it died or could not be started since it was last up for a minute: 2 and more is a crash loop.
    pub deaths: u32,
    /// Where clients reach its ports, sorted. Where the Gateway asks for no address: 127.0.0.1 and the address by which this
    /// machine reaches others. Empty while it does not run.
    pub addresses: Vec<SocketAddr>,
    /// Addresses that the Gateway asks for and this machine does not have.
    pub missing_addresses: Vec<IpAddr>,
    /// Ports that it cannot serve, with the reason and the remedy in words for people, sorted.
    pub refused_ports: Vec<(u16, Arc<str>)>,
    /// What keeps it from running, in words for people.
    pub problem: Option<Arc<str>>,
}
