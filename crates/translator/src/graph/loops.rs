//! Backends at ports of the very Gateway that would send there: a proxy on this machine would be its own client, once more with each request.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use engine::{Cx, Graph, Table};
use ir::address::is_localhost;
use ir::cluster::{Address, DnsEndpoint, Endpoint};
use ir::{ClosedAddresses, EndpointSetName, EndpointSource, FleetName};

use super::backend::EndpointSet;
use super::{Backends, Gateways, Settings, Telemetry};
use crate::backend::own::OwnPlaces;
use crate::backend::{Reading, of_kind};
use crate::key::{BackendKey, ClusterTarget, ProblemKey, Transport};

/// The beginning of these refusals; others are a proxy's.
const MARK: &str = "a proxy would be its own client: ";

/// Endpoints of backends on this machine, and the places at which its proxies listen.
#[derive(Clone, Copy)]
pub(crate) struct Loops {
    /// Of backends that have any.
    here: [Table<BackendKey, Arc<[SocketAddr]>>; 4],
    /// The places at which a fleet takes connections, and those at which it takes datagrams.
    listening: Table<FleetName, [Arc<ClosedAddresses>; 2]>,
    file_mode: bool,
}

impl Loops {
    pub(super) fn declare(
        g: &mut Graph,
        (settings, gateways, backends): (Settings, Gateways, Backends),
        file_mode: bool,
    ) -> Self {
        let [services, imports, objects, x_backends] = backends.readings;
        let [of_services, of_imports, of_objects, of_x_backends] = backends.sets.rows;
        let mut table = |name: &'static str, readings, rows: Table<EndpointSetName, EndpointSet>| {
            g.derive(name, readings, move |cx, key: &BackendKey, reading: &Arc<Reading>| {
                if !file_mode {
                    return None;
                }
                let found = match &reading.view.as_ref().ok()?.endpoints {
                    EndpointSource::Discovered(set) => Arc::clone(&cx.get(rows, set)?.here),
                    EndpointSource::Dns(names) => of_names(names),
                };
                (!found.is_empty()).then(|| (key.clone(), found))
            })
        };
        let here = [
            table("service_here", services, of_services),
            table("service_import_here", imports, of_imports),
            table("backend_here", objects, of_objects),
            table("x_backend_here", x_backends, of_x_backends),
        ];
        let listening = g.derive("fleet_listening", gateways.plans, move |cx, _, plan| {
            if !file_mode {
                return None;
            }
            let places = cx.get(settings.places, &()).cloned().unwrap_or_default();
            let mut addresses = plan.addresses.bound();
            if addresses.is_empty() {
                addresses.push(Ipv6Addr::UNSPECIFIED.into());
            }
            let of = |transport| {
                let ports = plan.bound_ports(transport).into_iter();
                let listeners = ports.flat_map(|port| addresses.iter().map(move |ip| SocketAddr::new(*ip, port)));
                let machine = places.addresses.machine.clone();
                Arc::new(ClosedAddresses { listeners: listeners.collect(), machine, ..ClosedAddresses::default() })
            };
            Some((plan.fleet.clone(), [of(Transport::Tcp), of(Transport::Udp)]))
        });
        Self { here, listening, file_mode }
    }

    /// Returns true if a fleet may have any: its proxies run on this machine.
    pub(crate) fn any(&self) -> bool {
        self.file_mode
    }

    /// Returns the words for the author of what sends to a backend, where that is at a port of the Gateway itself.
    pub(crate) fn find(
        &self,
        cx: &mut Cx<'_>,
        (fleet, transport): (&FleetName, Transport),
        target: &ClusterTarget,
    ) -> Option<Arc<str>> {
        let backend = target.backend();
        let here = Arc::clone(cx.get(of_kind(self.here, &backend.object), backend)?);
        let [streams, datagrams] = cx.get(self.listening, fleet)?;
        let own = if transport == Transport::Udp { datagrams } else { streams };
        let found = here.iter().find(|place| own.is_own(place.ip(), place.port()))?;
        Some(Arc::from(format!(
            "{MARK}{} {} leads to {found}, where this Gateway listens itself, so nothing is sent there; name the address of a server, or \
             use another Gateway between them",
            backend.object.kind_name(),
            backend.object
        )))
    }

    /// Problems at Gateways whose own listeners ask, or whose traces go to, a port of theirs.
    pub(super) fn problems(
        self,
        g: &mut Graph,
        gateways: Gateways,
        telemetry: Telemetry,
    ) -> Table<ProblemKey, Arc<Problem>> {
        g.derive("own_use_problem", gateways.plans, move |cx, key: &ObjectKey, plan| {
            let collector = cx.get(telemetry.tracers, key).map(|tracer| tracer.collector.clone());
            let targets: BTreeSet<ClusterTarget> = plan.asked().cloned().chain(collector).collect();
            let mut rows = Vec::new();
            for target in targets {
                if let Some(words) = self.find(cx, (&plan.fleet, Transport::Tcp), &target) {
                    let problem = Problem::of(key, "spec", Severity::Error, &*words);
                    rows.push((ProblemKey::hashed(key, &[&target.name().0, MARK]), Arc::new(problem)));
                }
            }
            rows
        })
    }
}

/// Says that a part of a route is not served: in the words of a proxy that refused it, or in ours.
pub(crate) fn refusal(words: &str, proxy: &str) -> String {
    if words.starts_with(MARK) {
        format!("a part of this route is not served: {words}")
    } else {
        format!("{proxy} refused a part of this route: {words}")
    }
}

/// Returns the endpoints that are on this machine, each once.
pub(super) fn here<'e>(own: &OwnPlaces, endpoints: impl Iterator<Item = &'e Endpoint>) -> Arc<[SocketAddr]> {
    let is_here = |ip: IpAddr| {
        let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        ip.is_loopback() || ip.is_unspecified() || is_link_local || own.addresses.machine.contains(&ip)
    };
    let places = endpoints.filter_map(|endpoint| match endpoint.address {
        Address::Ip(ip, port) => Some(SocketAddr::new(ip.to_canonical(), port)).filter(|place| is_here(place.ip())),
        Address::Unix(_) => None,
    });
    places.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The same of names that stand for the loopback address.
fn of_names(names: &[DnsEndpoint]) -> Arc<[SocketAddr]> {
    let local = names.iter().filter(|name| is_localhost(&name.host));
    let both = |name: &DnsEndpoint| {
        let ips = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        ips.map(|ip| SocketAddr::new(ip, name.port))
    };
    local.flat_map(both).collect::<BTreeSet<_>>().into_iter().collect()
}
