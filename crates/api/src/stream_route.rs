//! `TLSRoute`, `TCPRoute` and `UDPRoute`: rules for connections and datagrams. Backends are those of [`HttpRoute`](crate::HttpRoute), of which the schema lets no filters pass.

use std::sync::Arc;

use serde::Deserialize;

use crate::http_route::{HttpBackendRef, list};
use crate::kind::Kind;
use crate::problem::{Fault, UnitFaults};
use crate::reference::{GatewayScope, ParentRef};
use crate::resource::{Resource, Spec};

/// Rules for TLS connections, by the server name that clients ask for.
pub type TlsRoute = Resource<TlsRouteSpec>;

/// Rules for TCP connections.
pub type TcpRoute = Resource<TcpRouteSpec>;

/// Rules for UDP datagrams.
pub type UdpRoute = Resource<UdpRouteSpec>;

/// `TLSRoute.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsRouteSpec {
    /// What it attaches to.
    #[serde(deserialize_with = "list")]
    pub parent_refs: Arc<[ParentRef]>,
    /// Whether it attaches to default Gateways (experimental).
    pub use_default_gateways: Option<GatewayScope>,
    /// Server names (SNI), as written: 1 to 1,024.
    pub hostnames: Box<[Box<str>]>,
    /// One rule.
    pub rules: Box<[StreamRule]>,
}

/// `TCPRoute.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpRouteSpec {
    /// What it attaches to.
    #[serde(deserialize_with = "list")]
    pub parent_refs: Arc<[ParentRef]>,
    /// Whether it attaches to default Gateways (experimental).
    pub use_default_gateways: Option<GatewayScope>,
    /// One rule.
    pub rules: Box<[StreamRule]>,
}

/// `UDPRoute.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UdpRouteSpec {
    /// What it attaches to.
    #[serde(deserialize_with = "list")]
    pub parent_refs: Arc<[ParentRef]>,
    /// Whether it attaches to default Gateways (experimental).
    pub use_default_gateways: Option<GatewayScope>,
    /// One rule.
    pub rules: Box<[StreamRule]>,
}

/// `rules[]` of each.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamRule {
    /// Name, unique in the route.
    pub name: Option<Box<str>>,
    /// Where connections or datagrams go, by weight.
    pub backend_refs: Box<[HttpBackendRef]>,
    /// Why what the rule wants cannot be done: connections are closed, datagrams dropped.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

impl Spec for TlsRouteSpec {
    const KIND: Kind = Kind::TlsRoute;

    fn mark(&mut self, faults: UnitFaults) {
        mark(&mut self.rules, faults);
    }
}

impl Spec for TcpRouteSpec {
    const KIND: Kind = Kind::TcpRoute;

    fn mark(&mut self, faults: UnitFaults) {
        mark(&mut self.rules, faults);
    }
}

impl Spec for UdpRouteSpec {
    const KIND: Kind = Kind::UdpRoute;

    fn mark(&mut self, faults: UnitFaults) {
        mark(&mut self.rules, faults);
    }
}

/// Notes what is wrong with rules, the first of each.
fn mark(rules: &mut [StreamRule], faults: UnitFaults) {
    for (unit, fault) in faults.faults {
        if let Some(rule) = rules.get_mut(unit.item) {
            rule.fault.get_or_insert_with(|| Box::new(fault));
        }
    }
}
