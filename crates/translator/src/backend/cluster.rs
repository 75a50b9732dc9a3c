//! Clusters: a backend as one fleet uses it.

use ir::cluster::{CircuitBreaker, Protocol};
use ir::{Cluster, ClusterName, EndpointSetName, EndpointSource};

use super::{BackendView, Encryption};
use crate::key::ClusterTarget;

/// The cluster of a backend. One whose backend is gone stands empty until nothing names it, and so does one whose policy cannot be used: requests
/// answer 503.
pub(crate) fn cluster(target: &ClusterTarget, view: Option<&BackendView>, limits: CircuitBreaker) -> Cluster {
    let circuit_breaker = (limits != CircuitBreaker::default()).then(|| Box::new(limits));
    let endpoints = || view.map_or_else(|| EndpointSource::Discovered(target.set()), |view| view.endpoints.clone());
    let (endpoints, tls) = match target.encryption() {
        Encryption::Cleartext => (endpoints(), None),
        Encryption::Tls(tls) => (endpoints(), Some(Box::new(tls.upstream.clone()))),
        // Endpoints that there are not: known to be ready as soon as it is sent, whatever else the proxy waits for.
        Encryption::Closed => (EndpointSource::Discovered(EndpointSetName(target.name().0.clone())), None),
    };
    Cluster {
        name: target.name().clone(),
        endpoints,
        protocol: protocol(target, view.map(|view| view.protocol).unwrap_or_default()),
        tls,
        circuit_breaker,
        connect_timeout: None,
    }
}

/// A cluster without endpoints or TLS: known to be ready as soon as it is sent, and requests answer 503.
pub(crate) fn closed(target: &ClusterTarget) -> Cluster {
    Cluster {
        name: target.name().clone(),
        endpoints: EndpointSource::Discovered(EndpointSetName(target.name().0.clone())),
        protocol: protocol(target, Protocol::default()),
        tls: None,
        circuit_breaker: None,
        connect_timeout: None,
    }
}

/// Clients of one listener that have sent a datagram in the last minute: each is a socket of the proxy's, which anybody can ask for with an address that is
/// not his own, and Envoy 1.40 ends when it gets none any more. 48 listeners with so many fit into the million of files that a service has as a rule.
const DATAGRAM_CLIENTS: u32 = 16_384;

/// So many a policy may allow: a busy resolver's, beside which there is room for others.
const MOST_DATAGRAM_CLIENTS: u32 = 131_072;

/// How many clients a listener takes that has such limits; none: as many as any. It is looked up, as another cluster in place of this one would lose
/// the answers that are under way.
pub(crate) fn datagram_clients(limits: CircuitBreaker) -> Option<u32> {
    Some(limits.max_connections?.min(MOST_DATAGRAM_CLIENTS))
}

/// The cluster of a listener that takes datagrams: its endpoints are those of all backends of a route.
pub(crate) fn of_datagrams(name: ClusterName) -> Cluster {
    let limits = CircuitBreaker { max_connections: Some(DATAGRAM_CLIENTS), ..CircuitBreaker::default() };
    Cluster {
        endpoints: EndpointSource::Discovered(EndpointSetName(name.0.clone())),
        name,
        protocol: Protocol::default(),
        tls: None,
        circuit_breaker: Some(Box::new(limits)),
        connect_timeout: None,
    }
}

fn protocol(target: &ClusterTarget, own: Protocol) -> Protocol {
    if target.is_grpc() { Protocol::Http2 } else { own }
}
