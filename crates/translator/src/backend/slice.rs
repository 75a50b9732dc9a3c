//! EndpointSlices of a Service's port, as one set of endpoints.

use std::net::IpAddr;
use std::sync::Arc;

use api::endpoint_slice::{Endpoint as SliceEndpoint, SliceAddressType};
use api::service::TransportProtocol;
use api::{EndpointSlice, Kind, ObjectKey};
use ir::cluster::{Health, Locality};
use ir::{Address, Endpoint, EndpointSetName, Endpoints};

/// The Service that a slice belongs to, by its label.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    slice.service_name().map(|name| ObjectKey::of(Kind::Service, slice.meta.namespace(), name))
}

/// Endpoints by zone, each address once, sorted. Ports go by name, as in Kubernetes: a slice's port of the Service port's name.
pub(crate) fn endpoints<'a>(
    name: EndpointSetName,
    port_name: &str,
    slices: impl Iterator<Item = &'a Arc<EndpointSlice>>,
) -> Endpoints {
    let mut found: Vec<(Option<&str>, Address, Health)> = Vec::new();
    for slice in slices.filter(|slice| slice.spec.address_type != SliceAddressType::Fqdn) {
        let named = slice.spec.ports.iter().find(|port| {
            port.name.as_deref().unwrap_or_default() == port_name && port.protocol == TransportProtocol::Tcp
        });
        let Some(number) = named.and_then(|port| port.port).filter(|number| *number > 0) else { continue };
        found.reserve_exact(slice.spec.endpoints.len());
        for endpoint in &slice.spec.endpoints {
            let address = endpoint.addresses.first().and_then(|text| text.parse::<IpAddr>().ok());
            if let (Some(address), Some(health)) = (address, health(endpoint)) {
                found.push((endpoint.zone.as_deref(), Address::Ip(address, number), health));
            }
        }
    }
    // Of an address that is there twice the healthier entry counts: it sorts first.
    found.sort_unstable();
    found.dedup_by(|(zone, address, _), (kept_zone, kept, _)| zone == kept_zone && address == kept);
    let zones = found.chunk_by(|(one, ..), (two, ..)| one == two);
    let localities = zones.map(|endpoints| Locality {
        zone: endpoints.first().and_then(|(zone, ..)| *zone).map(Arc::from),
        priority: 0,
        endpoints: endpoints
            .iter()
            .map(|(_, address, health)| Endpoint { address: address.clone(), health: *health })
            .collect(),
    });
    // There is one of them nearly always, and room for four.
    let mut localities: Vec<_> = localities.collect();
    localities.shrink_to_fit();
    Endpoints { name, localities }
}

/// Ready takes requests; one that terminates but still serves only where nothing else is left; the others are not there
/// (Kubernetes `EndpointConditions`).
fn health(endpoint: &SliceEndpoint) -> Option<Health> {
    let conditions = endpoint.conditions;
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
