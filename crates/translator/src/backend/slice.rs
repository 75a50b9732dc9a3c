//! EndpointSlices of a Service's port, as one set of endpoints.

use std::net::IpAddr;
use std::sync::Arc;

use api::endpoint_slice::{EndpointConditions, SliceAddressType};
use api::service::TransportProtocol;
use api::{EndpointSlice, Kind, ObjectKey};
use ir::cluster::{Health, Locality};
use ir::{Address, Endpoint};

/// The Service that a slice belongs to, by its label.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    slice.service_name().map(|name| ObjectKey::of(Kind::Service, slice.meta.namespace(), name))
}

/// An endpoint before it is sorted in: the order is that of the set.
pub(crate) type Found<'a> = (Option<&'a str>, IpAddr, u16, Health);

/// The endpoints of a port in slices, by zone, each address once, sorted. Ports go by name, as in Kubernetes: a slice's port of the
/// Service port's name.
pub(crate) fn find<'a>(port_name: &str, slices: impl Iterator<Item = &'a Arc<EndpointSlice>>) -> Vec<Found<'a>> {
    let mut found: Vec<Found<'a>> = Vec::new();
    for slice in slices.filter(|slice| slice.spec.address_type != SliceAddressType::Fqdn) {
        let named = slice.spec.ports.iter().find(|port| {
            port.name.as_deref().unwrap_or_default() == port_name && port.protocol == TransportProtocol::Tcp
        });
        let Some(number) = named.and_then(|port| port.port).filter(|number| *number > 0) else { continue };
        let endpoints = slice.spec.endpoints();
        found.reserve_exact(endpoints.len());
        found.extend(endpoints.filter_map(|endpoint| {
            let health = health(endpoint.conditions)?;
            Some((endpoint.zone, endpoint.address, number, health))
        }));
    }
    // Of an address that is there twice the healthier entry counts: it sorts first.
    found.sort_unstable();
    found.dedup_by(|(zone, address, port, _), kept| (*zone, *address, *port) == (kept.0, kept.1, kept.2));
    found
}

/// What was found, zone by zone.
pub(crate) fn localities(found: &[Found<'_>]) -> Vec<Locality> {
    let zones = found.chunk_by(|(one, ..), (two, ..)| one == two);
    let localities = zones.map(|endpoints| Locality {
        zone: endpoints.first().and_then(|(zone, ..)| *zone).map(Arc::from),
        priority: 0,
        endpoints: endpoints
            .iter()
            .map(|(_, address, port, health)| Endpoint { address: Address::Ip(*address, *port), health: *health })
            .collect(),
    });
    localities.collect()
}

/// Ready takes requests; one that terminates but still serves only where nothing else is left; the others are not there
/// (Kubernetes `EndpointConditions`).
fn health(conditions: EndpointConditions) -> Option<Health> {
    let ready = conditions.ready.unwrap_or(true);
    let serving = conditions.serving.unwrap_or(ready);
    match (ready, serving && conditions.terminating.unwrap_or(false)) {
        (true, _) => Some(Health::Healthy),
        (false, true) => Some(Health::Draining),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests;
