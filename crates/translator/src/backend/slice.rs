//! EndpointSlices of a Service's port, as one set of endpoints.

use std::collections::BTreeMap;
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
    let mut zones: BTreeMap<Option<&str>, BTreeMap<Address, Health>> = BTreeMap::new();
    for slice in slices.filter(|slice| slice.spec.address_type != SliceAddressType::Fqdn) {
        let named = slice.spec.ports.iter().find(|port| {
            port.name.as_deref().unwrap_or_default() == port_name && port.protocol == TransportProtocol::Tcp
        });
        let Some(number) = named.and_then(|port| port.port).filter(|number| *number > 0) else { continue };
        for endpoint in &slice.spec.endpoints {
            let address = endpoint.addresses.first().and_then(|text| text.parse::<IpAddr>().ok());
            let (Some(address), Some(health)) = (address, health(endpoint)) else { continue };
            let known = zones.entry(endpoint.zone.as_deref()).or_default();
            let entry = known.entry(Address::Ip(address, number)).or_insert(health);
            *entry = (*entry).min(health);
        }
    }
    let localities = zones.into_iter().map(|(zone, endpoints)| Locality {
        zone: zone.map(Arc::from),
        priority: 0,
        endpoints: endpoints.into_iter().map(|(address, health)| Endpoint { address, health }).collect(),
    });
    Endpoints { name, localities: localities.collect() }
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
