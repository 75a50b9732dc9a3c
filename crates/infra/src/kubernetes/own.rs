//! Addresses of Chancery itself in a cluster: those of its Service and of all its replicas, the same for each replica that looks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::call::causes;
use super::pace::Pace;
use super::watch::{Source, Told, Watch};

#[cfg(test)]
mod tests;

/// The label by which a Service's `EndpointSlice`s are found.
const SERVICE: &str = "kubernetes.io/service-name";

/// The Service at which proxies reach Chancery.
#[derive(Clone)]
pub struct OwnService {
    /// The API server.
    pub client: Client,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Times to wait.
    pub pace: Pace,
}

/// Addresses of an installation, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses {
    /// Addresses and ports of its Service, within the cluster and outside.
    pub service: BTreeSet<SocketAddr>,
    /// Addresses of its replicas, ready or not.
    pub replicas: BTreeSet<IpAddr>,
    /// Ports of its Service at each node.
    pub node_ports: BTreeSet<u16>,
}

/// Sends the addresses whenever they change, until `stop`. While they cannot be read those that were read last stay.
pub async fn follow_own_addresses(of: OwnService, found: watch::Sender<OwnAddresses>, stop: CancellationToken) {
    let OwnService { client, namespace, name, pace } = of;
    let services = Source::at(client.clone(), Service::url_path(&(), Some(&namespace)));
    let services = services.fields(format!("metadata.name={name}"));
    let slices = Source::at(client, EndpointSlice::url_path(&(), Some(&namespace)));
    let slices = slices.labels(format!("{SERVICE}={name}"));
    let read = |service: &Service| BTreeSet::from([(of_service(service), node_ports(service))]);
    let of_service = follow(services, (pace, read), |all| {
        let (addresses, ports): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        publish(&found, |now| &mut now.service, addresses.into_iter().flatten().collect());
        publish(&found, |now| &mut now.node_ports, ports.into_iter().flatten().collect());
    });
    let of_slices = follow(slices, (pace, of_slice), |all| publish(&found, |now| &mut now.replicas, all));
    tokio::select! {
        _ = futures::future::join(of_service, of_slices) => {}
        () = stop.cancelled() => {}
    }
}

fn publish<T: PartialEq>(
    found: &watch::Sender<OwnAddresses>,
    part: impl Fn(&mut OwnAddresses) -> &mut BTreeSet<T>,
    all: BTreeSet<T>,
) {
    found.send_if_modified(|now| {
        let changed = *part(now) != all;
        *part(now) = all;
        changed
    });
}

/// Reads objects of a kind, and publishes what all of them say together after each change.
async fn follow<K, T>(source: Source, (pace, read): (Pace, fn(&K) -> BTreeSet<T>), publish: impl Fn(BTreeSet<T>))
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
    T: Ord + Clone,
{
    let mut watch = Watch::new(source, pace, |object: &K| Some((object.name_any(), Some(read(object)))));
    let (mut known, mut is_silent) = (BTreeMap::new(), false);
    loop {
        match watch.next().await {
            Ok(Told::Listed(all)) => known = all.into_iter().collect(),
            Ok(Told::Changed(name, addresses)) => drop(known.insert(name, *addresses)),
            Ok(Told::Gone(name)) => drop(known.remove(&name)),
            Err(error) => {
                if !std::mem::replace(&mut is_silent, true) {
                    warn!(
                        kind = &*K::kind(&()),
                        error = causes(&error),
                        "the addresses of other replicas cannot be read: backends may lead there; allow list and watch on services and endpointslices in \
                         Chancery's namespace"
                    );
                }
                continue;
            }
        }
        is_silent = false;
        publish(known.values().flatten().cloned().collect());
    }
}

fn of_service(service: &Service) -> BTreeSet<SocketAddr> {
    let spec = service.spec.clone().unwrap_or_default();
    let balanced = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let outside = balanced.into_iter().flatten().filter_map(|ingress| ingress.ip.as_deref());
    let inside =
        spec.cluster_ips.iter().flatten().chain(spec.cluster_ip.iter()).chain(spec.external_ips.iter().flatten());
    let all: BTreeSet<IpAddr> =
        inside.map(String::as_str).chain(outside).filter_map(|text| text.parse().ok()).collect();
    let ports = spec.ports.iter().flatten().filter_map(|port| u16::try_from(port.port).ok());
    ports.flat_map(|port| all.iter().map(move |ip| SocketAddr::new(*ip, port))).collect()
}

fn node_ports(service: &Service) -> BTreeSet<u16> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.filter_map(|port| u16::try_from(port.node_port?).ok()).collect()
}

fn of_slice(slice: &EndpointSlice) -> BTreeSet<IpAddr> {
    let addresses = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses);
    addresses.filter_map(|text| text.parse().ok()).collect()
}
