//! Connections that are passed on, whatever is spoken on them.

use std::sync::Arc;

use serde::Serialize;

use crate::name::TcpProxyName;
use crate::route::Backend;

/// Where the connections of a filter chain go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcpProxy {
    /// Unique in the fleet.
    pub name: TcpProxyName,
    /// The route that says so, for people: `TCPRoute/<namespace>/<name>`.
    pub route: Arc<str>,
    /// At least one with a weight. The share of one that is broken is closed.
    pub destinations: Vec<TcpDestination>,
}

/// One weighted target of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcpDestination {
    /// Where to.
    pub backend: Backend,
    /// Share; at most 1,000,000.
    pub weight: u32,
}
