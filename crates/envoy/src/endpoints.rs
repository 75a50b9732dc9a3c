//! Endpoints: one set is encoded once and read by every cluster that has it.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use ir::cluster::{Health, Locality};
use ir::{Address, ClusterName, Endpoint, Endpoints};
use prost::Message;
use proto::envoy::config::core::v3 as core;
use proto::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use proto::envoy::config::endpoint::v3::{self as endpoint, ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use xxhash_rust::xxh3::xxh3_128;

use crate::resource::{Encoded, EncodedSet, Versions, type_url};
use crate::wire::{pipe, socket_address};

/// Encodes a set of endpoints without the name of a cluster.
pub fn endpoint_set(set: &Endpoints) -> EncodedSet {
    let bytes = Bytes::from(message("", set).encode_to_vec());
    let hash = xxh3_128(&bytes);
    EncodedSet { bytes, hash }
}

/// The endpoints of a cluster: its name in front of the shared set.
pub fn load_assignment(cluster: &ClusterName, set: &EncodedSet) -> Encoded {
    let named = ClusterLoadAssignment { cluster_name: cluster.as_str().to_owned(), ..ClusterLoadAssignment::default() };
    let head = Bytes::from(named.encode_to_vec());
    let mut versions = Versions::default();
    versions.part(xxh3_128(&head));
    versions.part(set.hash);
    Encoded {
        type_url: type_url::LOAD_ASSIGNMENT,
        name: cluster.0.clone(),
        version: versions.version(),
        body: vec![head, set.bytes.clone()],
        needs: Vec::new(),
    }
}

/// The same as one message.
pub(crate) fn message(cluster: &str, set: &Endpoints) -> ClusterLoadAssignment {
    ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: set.localities.iter().map(locality).collect(),
        ..ClusterLoadAssignment::default()
    }
}

/// Zones carry no weight: every endpoint of a priority gets the same share.
fn locality(locality: &Locality) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: locality.zone.as_deref().map(zone),
        lb_endpoints: locality.endpoints.iter().map(endpoint).collect(),
        priority: locality.priority,
        ..LocalityLbEndpoints::default()
    }
}

/// A locality of which only the zone is known.
pub(crate) fn zone(zone: &str) -> core::Locality {
    core::Locality { zone: zone.to_owned(), ..core::Locality::default() }
}

fn endpoint(endpoint: &Endpoint) -> LbEndpoint {
    let address = match &endpoint.address {
        Address::Ip(ip, port) => socket_address(*ip, *port),
        Address::Unix(path) => pipe(path, 0),
    };
    lb_endpoint(address, health(endpoint.health))
}

/// An endpoint at an address.
pub(crate) fn lb_endpoint(address: core::Address, health: core::HealthStatus) -> LbEndpoint {
    let endpoint = endpoint::Endpoint { address: Some(address), ..endpoint::Endpoint::default() };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        health_status: health as i32,
        ..LbEndpoint::default()
    }
}

/// Envoy gives a draining endpoint no new request until it panics, which clusters of ours do only when nothing else is left.
fn health(health: Health) -> core::HealthStatus {
    match health {
        Health::Healthy => core::HealthStatus::Unknown,
        Health::Draining => core::HealthStatus::Draining,
    }
}
