//! Endpoints: one set is encoded once and read by every cluster that has it.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::num::NonZeroU32;

use bytes::Bytes;
use ir::cluster::{Health, Locality};
use ir::{Address, ClusterName, Endpoint, Endpoints};
use proto::envoy::config::core::v3 as core;
use proto::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use proto::envoy::config::endpoint::v3::{self as endpoint, ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use xxhash_rust::xxh3::xxh3_128;

use crate::resource::{Encoded, EncodedSet, Versions, named, type_url};
use crate::wire::{pipe, socket_address};
use crate::write;

/// Encodes a set of endpoints without the name of a cluster.
pub fn endpoint_set(set: &Endpoints) -> EncodedSet {
    let mut bytes = Vec::with_capacity(room(set));
    write_set(set, &mut bytes);
    let bytes = exact(bytes);
    EncodedSet { hash: xxh3_128(&bytes), bytes }
}

fn write_set(set: &Endpoints, to: &mut Vec<u8>) {
    for locality in &set.localities {
        write::message(2, to, |to| write_locality(locality, to));
    }
}

/// Enough for the bytes of a set, as a rule.
fn room(set: &Endpoints) -> usize {
    set.localities.iter().map(|locality| 1 + locality.endpoints.len()).sum::<usize>() * ENDPOINT_SIZE
}

/// Exactly as long as they are: there are many, and they live long.
fn exact(bytes: Vec<u8>) -> Bytes {
    Bytes::from(bytes.into_boxed_slice())
}

/// Enough for an endpoint with an IPv4 address.
const ENDPOINT_SIZE: usize = 36;

/// [`locality`] as the bytes of its fields.
fn write_locality(locality: &Locality, to: &mut Vec<u8>) {
    if let Some(zone) = &locality.zone {
        write::message(1, to, |to| write::text(2, zone, to));
    }
    for endpoint in &locality.endpoints {
        write::message(2, to, |to| {
            // LbEndpoint.endpoint, Endpoint.address, and in Address a choice
            write::message(1, to, |to| write::message(1, to, |to| write_address(&endpoint.address, to)));
            write::number(2, health(endpoint.health) as u32, to);
            if let Some(weight) = endpoint.weight {
                write::message(4, to, |to| write::number(1, weight.get(), to));
            }
        });
    }
    write::number(5, locality.priority, to);
}

fn write_address(address: &Address, to: &mut Vec<u8>) {
    match address {
        Address::Ip(ip, port) => write::message(1, to, |to| {
            write::message(2, to, |to| write_ip(*ip, to));
            write::always(3, u32::from(*port), to);
        }),
        Address::Unix(path) => write::message(2, to, |to| write::text(1, path, to)),
    }
}

/// As `Display` has it, which takes ten times as long for the addresses that there are most of.
fn write_ip(ip: IpAddr, to: &mut Vec<u8>) {
    let IpAddr::V4(four) = ip else { return to.extend_from_slice(ip.to_string().as_bytes()) };
    for (at, octet) in four.octets().into_iter().enumerate() {
        if at > 0 {
            to.push(b'.');
        }
        if octet > 99 {
            to.push(b'0' + octet / 100);
        }
        if octet > 9 {
            to.push(b'0' + octet / 10 % 10);
        }
        to.push(b'0' + octet % 10);
    }
}

/// The endpoints of a cluster: its name in front of the shared set.
pub fn load_assignment(cluster: &ClusterName, set: EncodedSet) -> Encoded {
    let head = named(cluster.as_str());
    let mut versions = Versions::of(2);
    versions.part(xxh3_128(&head));
    versions.part(set.hash);
    Encoded {
        type_url: type_url::LOAD_ASSIGNMENT,
        name: cluster.0.clone(),
        version: versions.version(),
        body: vec![head, set.bytes],
        needs: Vec::new(),
        vhds: false,
    }
}

/// [`load_assignment`] of a set that only this cluster reads: the same message and version in one piece, which takes less memory.
pub fn own_load_assignment(cluster: &ClusterName, set: &Endpoints) -> Encoded {
    let name = cluster.as_str();
    let mut bytes = Vec::with_capacity(name.len() + 3 + room(set));
    write::text(1, name, &mut bytes);
    let head = bytes.len();
    write_set(set, &mut bytes);
    let (head, rest) = bytes.split_at(head);
    let mut versions = Versions::of(2);
    versions.part(xxh3_128(head));
    versions.part(xxh3_128(rest));
    Encoded {
        type_url: type_url::LOAD_ASSIGNMENT,
        name: cluster.0.clone(),
        version: versions.version(),
        body: vec![exact(bytes)],
        needs: Vec::new(),
        vhds: false,
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

/// Zones carry no weight as a rule: every endpoint of a priority gets the same share.
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
    LbEndpoint {
        load_balancing_weight: endpoint.weight.map(NonZeroU32::get),
        ..lb_endpoint(address, health(endpoint.health))
    }
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
