//! Clusters: a backend as one fleet uses it.

use ir::cluster::{CircuitBreaker, Protocol};
use ir::{Cluster, EndpointSource};

use super::BackendView;
use crate::key::ClusterTarget;

/// The cluster of a backend. One whose backend is gone stands empty until nothing names it: its requests answer 503.
pub(crate) fn cluster(target: &ClusterTarget, view: Option<&BackendView>, limits: CircuitBreaker) -> Cluster {
    let circuit_breaker = (limits != CircuitBreaker::default()).then(|| Box::new(limits));
    let Some(view) = view else {
        return Cluster {
            name: target.name().clone(),
            endpoints: EndpointSource::Discovered(target.set()),
            protocol: protocol(target, Protocol::default()),
            tls: None,
            circuit_breaker,
            connect_timeout: None,
        };
    };
    Cluster {
        name: target.name().clone(),
        endpoints: view.endpoints.clone(),
        protocol: protocol(target, view.protocol),
        tls: view.tls.clone(),
        circuit_breaker,
        connect_timeout: None,
    }
}

fn protocol(target: &ClusterTarget, own: Protocol) -> Protocol {
    if target.is_grpc() { Protocol::Http2 } else { own }
}
