//! What is told of a fleet: from what is known of its objects to addresses and words for people.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ir::Infra;

use super::apply::{FIXED, Refusal};
use super::fact::PodsState;
use super::fleet::Fleet;
use super::object::Fault;
use super::seen::{ObjectId, Service, Workload};
use super::world::World;

/// The state of a fleet that is wanted.
pub(super) fn state(fleet: &Fleet, infra: &Infra, world: &World) -> PodsState {
    let workload = fleet.workload(world);
    let service = fleet.service(world);
    let nodes = world.nodes();
    let addresses = service.map(|service| addresses(service, infra, nodes.as_ref().ok())).unwrap_or_default();
    let hostnames: BTreeSet<Arc<str>> = service.iter().flat_map(|service| service.hostnames.iter().cloned()).collect();
    let (problem, faults) = trouble(fleet, workload, world);
    let lacks = addresses.is_empty() && hostnames.is_empty() && infra.addresses.is_empty();
    let unassigned = lacks.then(|| unassigned(service, nodes.err().flatten()));
    PodsState {
        awaited: awaited(fleet, workload),
        ready: workload.is_some_and(|workload| workload.available > 0),
        missing_addresses: missing(infra, &addresses, service, refused_addresses(fleet)),
        cluster_addresses: service.map(cluster_addresses).unwrap_or_default(),
        addresses: addresses.into_iter().collect(),
        hostnames: hostnames.into_iter().collect(),
        unassigned,
        problem,
        faults,
    }
}

/// Where clients reach the ports.
fn addresses(service: &Service, infra: &Infra, nodes: Option<&BTreeSet<IpAddr>>) -> BTreeSet<SocketAddr> {
    let numbers = infra.port_numbers();
    let at = |ip: IpAddr| numbers.iter().map(move |port| SocketAddr::new(ip, *port)).collect::<Vec<_>>();
    let mut found: BTreeSet<SocketAddr> = service.external.iter().copied().flat_map(at).collect();
    match &*service.of_type {
        "LoadBalancer" => found.extend(service.ingress.iter().copied().flat_map(at)),
        "NodePort" => {
            let ports: Vec<u16> = service.ports.iter().filter_map(|(_, of_node)| *of_node).collect();
            let nodes = nodes.into_iter().flatten();
            found.extend(nodes.flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port))));
        }
        _ => found.extend(service.cluster.iter().copied().flat_map(at)),
    }
    found
}

/// Where it is reached in the cluster.
fn cluster_addresses(service: &Service) -> Vec<IpAddr> {
    let mut found = service.cluster.clone();
    found.sort_unstable();
    found
}

/// What the API server says of addresses that another Service has.
const TAKEN: &str = "already allocated";

/// Why the API server does not give the Service the addresses in the cluster that it shall have.
fn refused_addresses(fleet: &Fleet) -> Option<Arc<str>> {
    fleet.refused.iter().find_map(|(id, refusal)| match refusal {
        Refusal::Addresses(words) if [FIXED, TAKEN].iter().any(|said| words.contains(said)) => Some(
            format!(" (the API server says: {words}); once the address is free, remove {id}: it is made anew with it")
                .into(),
        ),
        Refusal::Addresses(words) => Some(format!(" (the API server says: {words})").into()),
        _ => None,
    })
}

/// Addresses that are asked for and are not there.
fn missing(
    infra: &Infra,
    found: &BTreeSet<SocketAddr>,
    service: Option<&Service>,
    refused: Option<Arc<str>>,
) -> Vec<(IpAddr, Arc<str>)> {
    let inside = infra.kubernetes.iter().flat_map(|kubernetes| &kubernetes.cluster_addresses);
    let mut has: BTreeSet<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    has.extend(service.iter().flat_map(|service| &service.cluster));
    let known = match (service, has.is_empty()) {
        (None, _) => "the Service is not there".to_owned(),
        (Some(_), true) => "the Service has none".to_owned(),
        (Some(_), false) => {
            let has: Vec<String> = has.iter().map(ToString::to_string).collect();
            format!("the Service has {}", has.join(", "))
        }
    };
    let lacking = infra.addresses.iter().chain(inside).filter(|address| !has.contains(address));
    let words = |address: &IpAddr| {
        let said = refused.as_deref().filter(|words| words.contains(&address.to_string())).unwrap_or_default();
        format!("the cluster has not given the Gateway the address {address}: {known}{said}").into()
    };
    lacking.map(|address| (*address, words(address))).collect()
}

/// Why there is no address.
fn unassigned(service: Option<&Service>, nodes: Option<&str>) -> Arc<str> {
    let Some(service) = service else { return "the Service is not there yet".into() };
    let text = match (&*service.of_type, nodes) {
        ("LoadBalancer", _) => {
            "no load balancer has given the Service an address yet; if this cluster has none, set \
             spec.provider.kubernetes.envoyService.type of EnvoyProxy to NodePort or ClusterIP"
        }
        ("NodePort", Some(said)) => {
            let text = "the addresses of nodes may not be read: allow list and watch on nodes, or set addresses of the Gateway's Service \
                        (spec.provider.kubernetes.envoyService.externalIPs of EnvoyProxy, where the operator lists it in allowedFields)";
            return format!("{text} (the API server says: {said})").into();
        }
        ("NodePort", None) => "no node has an address, as far as is known",
        _ => "the Service has no address of its own (it is headless)",
    };
    text.into()
}

/// What keeps proxies from running as they shall, and what of that the settings are to blame for.
fn trouble(fleet: &Fleet, workload: Option<&Workload>, world: &World) -> (Option<Arc<str>>, Vec<Fault>) {
    let mut faults: Vec<Fault> = Vec::new();
    let mut words: Vec<Arc<str>> =
        world.forbidden().filter_map(|(target, said)| forbidden(target.kind?, said)).collect();
    words.truncate(1);
    for fault in fleet.planned.iter().filter_map(|(_, content)| content.as_ref().err()) {
        faults.push(fault.clone());
    }
    let of_refusal = |refusal: &Refusal| match refusal {
        Refusal::Taken(text) | Refusal::Terminating(text) => (Some(Arc::clone(text)), None),
        Refusal::Words(fault) => (None, Some(fault.clone())),
        Refusal::Leaving | Refusal::Addresses(_) => (None, None),
    };
    for (text, fault) in fleet.refused.values().map(of_refusal) {
        words.extend(text);
        faults.extend(fault);
    }
    words.extend(faults.iter().map(said));
    words.dedup();
    if let Some(workload) = workload {
        words.extend(not_running(workload, fleet.planned.iter().map(|(id, _)| id)));
    }
    faults.retain(|fault| !fault.path.is_empty());
    (Some(words.join("; ")).filter(|text| !text.is_empty()).map(Arc::from), faults)
}

/// Nobody serves, and that may pass by itself.
fn awaited(fleet: &Fleet, workload: Option<&Workload>) -> Option<Arc<str>> {
    let id = fleet.planned.iter().map(|(id, _)| id).find(|id| is_workload(id))?;
    match workload {
        Some(workload) if workload.available > 0 => None,
        Some(_) => Some(format!("no Pod of {id} is available").into()),
        None => Some(format!("{id} is not there yet").into()),
    }
}

fn is_workload(id: &ObjectId) -> bool {
    matches!(id.kind, super::ObjectKind::Deployment | super::ObjectKind::DaemonSet)
}

fn said(fault: &Fault) -> Arc<str> {
    if fault.path.is_empty() { Arc::clone(&fault.text) } else { format!("{}: {}", fault.path, fault.text).into() }
}

fn forbidden(kind: super::ObjectKind, said: &str) -> Option<Arc<str>> {
    let (api_version, _, plural) = kind.names();
    let group = api_version.split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    let text = "may not be read; allow get, list and watch on them";
    Some(format!("{plural}{group} {text} (the API server says: {said})").into())
}

/// Nobody serves, and that will not pass by itself.
fn not_running<'a>(workload: &Workload, mut ids: impl Iterator<Item = &'a ObjectId>) -> Option<Arc<str>> {
    let id = ids.find(|id| is_workload(id))?;
    let text = match &workload.trouble {
        Some(trouble) => format!("Pods of {id} cannot be made: {trouble}"),
        None if workload.is_off => format!("{id} has 0 replicas, as it is asked for: nobody serves"),
        None => return None,
    };
    Some(text.into())
}

#[cfg(test)]
mod tests;
