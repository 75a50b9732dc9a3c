//! Ports: the listeners of a Gateway that share one become one bound listener with its filter chains.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ir::listener::{Application, ClientValidation, DownstreamTls, Tracing};
use ir::{ClusterName, FilterChain, FleetName, Listener, ListenerName, RouteConfigurationName, TcpProxyName};
use xxhash_rust::xxh3::xxh3_64;

use super::host::PortHosts;
use super::{ChainKey, Gate, ListenerPlan, Socket, Speaks};
use crate::hostname::Hostname;
use crate::key::{InFleet, ListenerKey, Transport};
use crate::secret::name as secret_name;

/// Where the routes of a listener go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) chain: ChainKey,
    pub(crate) hostname: Hostname,
    /// Host names of other listeners of the port inside ours: requests for them are theirs.
    pub(crate) narrower: Narrower,
    /// What stands between the listener and its routes.
    pub(crate) gate: Gate,
}

/// Host names of a port that lie inside one of its listeners', sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Narrower(Box<[Hostname]>);

impl Narrower {
    fn of(hosts: &PortHosts<'_>, listener: &ListenerPlan) -> Self {
        let mut found: Vec<Hostname> = hosts.narrower(listener).cloned().collect();
        found.sort_unstable();
        Self(found.into())
    }

    /// None of them covers a host name: the listener that they lie inside answers for it.
    pub(crate) fn leave(&self, hostname: &Hostname) -> bool {
        let has = |name: &Hostname| self.0.binary_search(name).is_ok();
        self.0.is_empty() || (!has(hostname) && !hostname.broader().any(|broader| has(&broader)))
    }
}

/// Where the connections of a listener go that are passed on, whatever is spoken on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamPlace {
    pub(crate) listener: ListenerKey,
    pub(crate) port: u16,
    pub(crate) speaks: Speaks,
    pub(crate) hostname: Hostname,
    /// Host names of other listeners of the port inside ours.
    pub(crate) narrower: Narrower,
    /// Every connection is closed, and why.
    pub(crate) closed: Option<Arc<str>>,
}

/// The destination of a listener's datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatagramPlace {
    pub(crate) cluster: ClusterName,
    /// They are dropped.
    pub(crate) is_closed: bool,
}

/// Listeners that nothing may pass, by their ids, with the reasons.
type Closed = BTreeMap<Arc<str>, Arc<str>>;

/// Where the connections of each listener go.
pub(crate) fn stream_places(
    fleet: &FleetName,
    listeners: &[ListenerPlan],
    closed: &Closed,
) -> Vec<(ListenerKey, Arc<StreamPlace>)> {
    let hosts = PortHosts::of(listeners);
    let served = listeners.iter().filter(|listener| listener.serves() && listener.is_stream());
    served
        .filter_map(|listener| {
            let key = ListenerKey { fleet: fleet.clone(), listener: listener.id.clone() };
            let place = StreamPlace {
                listener: key.clone(),
                port: listener.port,
                speaks: listener.speaks?,
                hostname: listener.hostname.clone(),
                narrower: Narrower::of(&hosts, listener),
                closed: closed.get(&listener.id).cloned(),
            };
            Some((key, Arc::new(place)))
        })
        .collect()
}

/// The cluster to which the datagrams of each listener go: also of one that cannot be served, as its port stays bound.
pub(crate) fn datagram_places(
    fleet: &FleetName,
    listeners: &[ListenerPlan],
    closed: &Closed,
) -> Vec<(ListenerKey, DatagramPlace)> {
    let bound = listeners.iter().filter(|listener| listener.refused.is_none());
    bound
        .filter(|listener| listener.socket().1 == Transport::Udp)
        .map(|listener| {
            let key = ListenerKey { fleet: fleet.clone(), listener: listener.id.clone() };
            let cluster = ClusterName(listener_name(fleet, listener.socket(), None).0);
            (key, DatagramPlace { cluster, is_closed: closed.contains_key(&listener.id) })
        })
        .collect()
}

/// What stands behind one route configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Host names that other chains of the port answer for: requests that come here for them get 421.
    pub(crate) misdirected: Vec<Hostname>,
}

/// Where the routes of each listener go.
pub(crate) fn places(fleet: &FleetName, listeners: &[ListenerPlan], closed: &Closed) -> Vec<(ListenerKey, Arc<Place>)> {
    let hosts = PortHosts::of(listeners);
    let served = listeners.iter().filter(|listener| listener.serves() && listener.is_http());
    served
        .map(|listener| {
            let narrower = Narrower::of(&hosts, listener);
            let chain = InFleet { fleet: fleet.clone(), name: configuration_name(fleet, &hosts, listener) };
            let mut gate = listener.gate.clone();
            if let Some(why) = closed.get(&listener.id) {
                gate.close(why.clone());
            }
            let place = Place { chain, hostname: listener.hostname.clone(), narrower, gate };
            (ListenerKey { fleet: fleet.clone(), listener: listener.id.clone() }, Arc::new(place))
        })
        .collect()
}

/// Every route configuration of a Gateway.
pub(crate) fn chains(fleet: &FleetName, listeners: &[ListenerPlan]) -> Vec<(ChainKey, Arc<Chain>)> {
    let hosts = PortHosts::of(listeners);
    let mut chains: BTreeMap<RouteConfigurationName, Chain> = BTreeMap::new();
    for listener in listeners.iter().filter(|listener| listener.serves() && listener.is_http()) {
        let chain = chains.entry(configuration_name(fleet, &hosts, listener)).or_default();
        if listener.is_tls() {
            chain.misdirected = misdirected(&hosts, listener);
        }
    }
    chains.into_iter().map(|(name, chain)| (InFleet { fleet: fleet.clone(), name }, Arc::new(chain))).collect()
}

/// Where proxies bind.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a> {
    /// One that is none is every interface.
    pub(crate) places: &'a [Option<IpAddr>],
    /// Ports that are bound as others.
    pub(crate) mapped: &'a [(u16, u16)],
    /// What is recorded there.
    pub(crate) tracing: Option<&'a Arc<Tracing>>,
    /// Some cluster there has a retry budget.
    pub(crate) retry_budgets: bool,
}

/// What stands in chains by name.
pub(crate) struct Writing<C, S> {
    /// The route configuration of a chain.
    pub(crate) configuration: C,
    /// By listener the server names with what is done with their connections.
    pub(crate) streams: S,
}

/// One listener per port and address.
pub(crate) fn ir_listeners<C, S>(
    fleet: &FleetName,
    bound: Bound<'_>,
    listeners: &[ListenerPlan],
    mut writing: Writing<C, S>,
) -> Vec<(InFleet<ListenerName>, Arc<Listener>)>
where
    C: FnMut(RouteConfigurationName) -> RouteConfigurationName,
    S: FnMut(&ListenerKey) -> Vec<(Hostname, TcpProxyName)>,
{
    let hosts = PortHosts::of(listeners);
    let mut ports: BTreeMap<Socket, Vec<&ListenerPlan>> = BTreeMap::new();
    for listener in listeners.iter().filter(|listener| listener.refused.is_none()) {
        ports.entry(listener.socket()).or_default().push(listener);
    }
    ports
        .into_iter()
        .flat_map(|(socket, members)| {
            let port = socket.0;
            let udp = (socket.1 == Transport::Udp).then(|| ClusterName(listener_name(fleet, socket, None).0));
            let chains = if udp.is_some() { Vec::new() } else { filter_chains(fleet, &hosts, &members, &mut writing) };
            let is_http = chains.iter().any(|chain| matches!(chain.application, Application::Http(_)));
            let at = |address: &Option<IpAddr>| {
                let listener = Listener {
                    name: listener_name(fleet, socket, *address),
                    address: *address,
                    port,
                    mapped_to: bound.mapped.iter().find(|(from, _)| *from == port).map(|(_, to)| *to),
                    chains: chains.clone(),
                    udp: udp.clone(),
                    tracing: bound.tracing.filter(|_| is_http).cloned(),
                    retry_budgets: bound.retry_budgets && is_http,
                };
                (InFleet { fleet: fleet.clone(), name: listener.name.clone() }, Arc::new(listener))
            };
            bound.places.iter().map(at).collect::<Vec<_>>()
        })
        .collect()
}

/// `<namespace>/<gateway>/<port>`, `/udp` where datagrams are taken, and the address if it is bound at one.
pub(crate) fn listener_name(fleet: &FleetName, (port, transport): Socket, address: Option<IpAddr>) -> ListenerName {
    let kind = if transport == Transport::Udp { "/udp" } else { "" };
    match address {
        Some(address) => format!("{fleet}/{port}{kind}/{address}").into(),
        None => format!("{fleet}/{port}{kind}").into(),
    }
}

/// Chains in order of server names, the one without any last. A port whose listeners are all broken stays bound and closes what comes.
fn filter_chains<C, S>(
    fleet: &FleetName,
    hosts: &PortHosts<'_>,
    members: &[&ListenerPlan],
    writing: &mut Writing<C, S>,
) -> Vec<FilterChain>
where
    C: FnMut(RouteConfigurationName) -> RouteConfigurationName,
    S: FnMut(&ListenerKey) -> Vec<(Hostname, TcpProxyName)>,
{
    let mut chains: Vec<FilterChain> = Vec::new();
    for listener in members.iter().filter(|listener| listener.serves()) {
        if listener.is_stream() {
            let key = ListenerKey { fleet: fleet.clone(), listener: listener.id.clone() };
            chains.extend(stream_chains(listener, (writing.streams)(&key)));
            continue;
        }
        let application = Application::Http((writing.configuration)(configuration_name(fleet, hosts, listener)));
        let hostname = match listener.speaks {
            Some(Speaks::Https) => &listener.hostname,
            _ if chains.is_empty() => &Hostname::ANY,
            _ => continue,
        };
        chains.push(chain(hostname, downstream(listener), application));
    }
    if chains.is_empty() {
        return vec![chain(&Hostname::ANY, None, Application::Close)];
    }
    chains.sort_by(|one, two| {
        (one.server_names.is_empty(), &one.server_names).cmp(&(two.server_names.is_empty(), &two.server_names))
    });
    chains
}

fn chain(hostname: &Hostname, tls: Option<DownstreamTls>, application: Application) -> FilterChain {
    let server_names = hostname.as_text().cloned().into_iter().collect();
    FilterChain { name: hostname.domain(), server_names, tls, application }
}

/// A chain for each server name. For the rest of its host names a listener closes connections: they are nobody else's.
fn stream_chains(listener: &ListenerPlan, streams: Vec<(Hostname, TcpProxyName)>) -> Vec<FilterChain> {
    let is_taken = streams.iter().any(|(hostname, _)| *hostname == listener.hostname);
    let passed =
        streams.into_iter().map(|(hostname, name)| chain(&hostname, downstream(listener), Application::Tcp(name)));
    let closed = (!is_taken).then(|| chain(&listener.hostname, None, Application::Close));
    passed.chain(closed).collect()
}

fn downstream(listener: &ListenerPlan) -> Option<DownstreamTls> {
    listener.is_tls().then(|| DownstreamTls {
        certificates: listener.certificates.iter().map(secret_name).collect(),
        client_validation: listener
            .client
            .as_ref()
            .map(|client| ClientValidation { ca: secret_name(&client.bundle), required: client.required }),
    })
}

/// Above this many names on a port, those that other chains answer for are not listed in each of them: every name that is not the chain's own
/// counts as one. (Listed, 2,500 names would be six million.)
const MAX_MISDIRECTED: usize = 128;

/// Host names for which a chain answers 421, sorted: those of other listeners of the port.
fn misdirected(hosts: &PortHosts<'_>, listener: &ListenerPlan) -> Vec<Hostname> {
    let mut found: Vec<Hostname> = if hosts.count(listener) <= MAX_MISDIRECTED || listener.hostname == Hostname::ANY {
        hosts.others(listener).cloned().collect()
    } else {
        hosts.narrower(listener).cloned().chain([Hostname::ANY]).collect()
    };
    found.sort_unstable();
    found
}

/// One per cleartext port, one per server name of a TLS port. Connections that a listener has go on with the routes that they had until they are
/// drained, so it gets a new name where they must not have those that come: where one that is added inside it takes host names away, for which
/// they would get 421, and where certificates of clients are asked for, which they have not shown.
fn configuration_name(fleet: &FleetName, hosts: &PortHosts<'_>, listener: &ListenerPlan) -> RouteConfigurationName {
    if !listener.is_tls() {
        return format!("{fleet}/{}", listener.port).into();
    }
    let own = format!("{fleet}/{}/{}", listener.port, listener.hostname.domain());
    let mut apart: Vec<_> = hosts.narrower(listener).map(Hostname::domain).collect();
    apart.sort_unstable();
    let client = listener.client.as_ref();
    let client = client.map(|client| format!("{} {}", secret_name(&client.bundle), client.required));
    apart.extend(client.map(Into::into));
    if apart.is_empty() {
        return own.into();
    }
    format!("{own}/{:08x}", xxh3_64(apart.join(" ").as_bytes()) >> 32).into()
}
