//! EndpointSlices of a Service's port, as one set of endpoints.

use std::net::IpAddr;
use std::sync::Arc;

use api::endpoint_slice::{EndpointConditions, SliceAddressType};
use api::{EndpointSlice, Kind, ObjectKey};
use ir::cluster::{Health, Locality};
use ir::{Address, Endpoint};

use super::own::OwnPlaces;
use crate::key::Transport;

/// The Service, or the `ServiceImport`, that a slice belongs to, by its labels: both where what a cluster imports has a Service as well; a Service without
/// a name if there is no label.
pub(crate) fn owners(slice: &EndpointSlice) -> impl Iterator<Item = ObjectKey> {
    let owner = |kind, name: &str| ObjectKey::of(kind, slice.meta.namespace(), name);
    let import = slice.import_name().map(|name| owner(Kind::ServiceImport, name));
    let service = slice.service_name().or(import.is_none().then_some("")).map(|name| owner(Kind::Service, name));
    service.into_iter().chain(import)
}

/// Why slices give a port no endpoint, the more there is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// There are no slices.
    Slice,
    /// No slice has a port of that name.
    Port,
    /// No endpoint is ready.
    Ready,
    /// No Pod that an `XBackend` selects is ready.
    Pod,
    /// Their addresses are among those to which no backend leads.
    Own,
}

/// Why slices in which nothing was [found](find) give nothing.
pub(crate) fn lack<'a>(
    wanted: PortName<'_>,
    own: &OwnPlaces,
    slices: impl Iterator<Item = &'a Arc<EndpointSlice>>,
) -> Lack {
    let found = slices.map(|slice| match port(wanted, slice) {
        Some(port) if slice.spec.endpoints().any(|endpoint| own.is_closed(endpoint.address, port)) => Lack::Own,
        Some(_) => Lack::Ready,
        None => Lack::Port,
    });
    found.max().unwrap_or(Lack::Slice)
}

/// By what a Service's port is found in slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortName<'a> {
    pub(crate) name: &'a str,
    pub(crate) transport: Transport,
}

/// The number of a slice's port; none where it has no port of that name, or addresses that are none.
fn port(wanted: PortName<'_>, slice: &EndpointSlice) -> Option<u16> {
    let mut ports = slice.spec.ports.iter().filter(|_| slice.spec.address_type != SliceAddressType::Fqdn);
    let named = ports.find(|port| {
        port.name.as_deref().unwrap_or_default() == wanted.name && port.protocol == wanted.transport.word()
    })?;
    named.port.filter(|number| *number > 0)
}

/// Returns true if an endpoint of a slice is at a place to which no backend leads. A port without a number is each.
pub(crate) fn is_closed(own: &OwnPlaces, slice: &EndpointSlice) -> bool {
    let is_closed = |address: IpAddr| {
        let mut ports = slice.spec.ports.iter().map(|port| port.port.filter(|port| *port > 0));
        own.refuses_address(address).is_some() || ports.any(|port| own.is_own_at(address, port))
    };
    slice.spec.address_type != SliceAddressType::Fqdn
        && slice.spec.endpoints().any(|endpoint| is_closed(endpoint.address))
}

/// An endpoint before it is sorted in: the order is that of the set.
pub(crate) type Found<'a> = (Option<&'a str>, IpAddr, u16, Health);

/// The endpoints of a port in slices, by zone, each address once, sorted. Ports go by name, as in Kubernetes: a slice's port of the
/// Service port's name. Addresses to which no backend leads are left out.
pub(crate) fn find<'a>(
    wanted: PortName<'_>,
    own: &OwnPlaces,
    slices: impl Iterator<Item = &'a Arc<EndpointSlice>>,
) -> Vec<Found<'a>> {
    let mut found: Vec<Found<'a>> = Vec::new();
    for slice in slices {
        let Some(number) = port(wanted, slice) else { continue };
        let endpoints = slice.spec.endpoints();
        found.reserve_exact(endpoints.len());
        found.extend(endpoints.filter_map(|endpoint| {
            let health = health(endpoint.conditions).filter(|_| !own.is_closed(endpoint.address, number))?;
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
            .map(|(_, address, port, health)| Endpoint {
                health: *health,
                ..Endpoint::new(Address::Ip(*address, *port))
            })
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
