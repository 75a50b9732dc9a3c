//! Where connections go that are passed on, whatever is spoken on them: the route that wins a server name (Gateway API `TLSRoute`, `TCPRoute`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use ir::cluster::Health;
use ir::route::{Action, Backend};
use ir::tcp::TcpDestination;
use ir::{Address, Endpoint, EndpointSetName, Route, TcpProxy, TcpProxyName};

use crate::hostname::Hostname;
use crate::key::{Bucket, ProblemKey, StreamKey, route_named, set_of};
use crate::listener::{DISCARD_PORT, Speaks, StreamPlace};

/// Finds the routes of a listener under a host name.
pub(crate) trait Lookup {
    /// The first of them; none if there is none.
    fn first(&mut self, bucket: &Arc<Bucket>) -> Option<Arc<Route>>;
}

/// What a host name brings with it that is narrower than its listener's; none where it belongs to the listener's own, or to a more specific listener.
pub(crate) fn own(place: &StreamPlace, hostname: &Hostname, first: &Route) -> Option<(StreamKey, Arc<TcpProxy>)> {
    let narrower = place.hostname.covers(hostname) && place.hostname != *hostname;
    (narrower && place.narrower.leave(hostname)).then(|| stream(place, hostname, first))
}

/// What a listener does with the connections under its own host name: the most specific host name of a route that covers it counts.
pub(crate) fn of_listener(lookup: &mut impl Lookup, place: &StreamPlace) -> Option<(StreamKey, Arc<TcpProxy>)> {
    let names = std::iter::once(place.hostname.clone()).chain(place.hostname.broader());
    let first = names
        .into_iter()
        .find_map(|hostname| lookup.first(&Arc::new(Bucket { listener: place.listener.clone(), hostname })))?;
    Some(stream(place, &place.hostname, &first))
}

/// A share of the datagrams that come: those of so many clients of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Share {
    /// From where endpoints come; none: its datagrams are dropped.
    pub(crate) set: Option<EndpointSetName>,
    pub(crate) weight: u32,
}

/// The destination of a listener's datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Datagrams {
    /// None: they are dropped.
    pub(crate) shares: Arc<[Share]>,
    /// The `BackendTrafficPolicy` of the route or of its rule.
    pub(crate) policy: Option<ObjectKey>,
}

/// Where datagrams go, each set of endpoints once: what a route cannot do drops them.
pub(crate) fn shares(action: &Action) -> Vec<Share> {
    let share = |to: TcpDestination| {
        let set = match to.backend {
            Backend::Cluster(cluster) => Some(set_of(&cluster)),
            Backend::Broken(_) => None,
        };
        Share { set, weight: to.weight }
    };
    let mut shares: Vec<Share> = Vec::new();
    for share in destinations(action).into_iter().map(share).filter(|share| share.weight > 0) {
        match shares.iter_mut().find(|before| before.set == share.set) {
            Some(before) => before.weight += share.weight,
            None => shares.push(share),
        }
    }
    shares
}

/// The proxy's own port for what is to be dropped, which nobody has.
pub const DISCARD: Address = Address::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST), DISCARD_PORT);

/// Shares, given as a weight and the endpoints behind it, as weights of the endpoints: those of a share that take something have the same part of it. A
/// share without any goes where nobody answers, as otherwise the others would get it.
pub(crate) fn share_out(shares: Vec<(u32, Vec<Endpoint>)>) -> Vec<Endpoint> {
    let takers = |endpoints: &[Endpoint]| {
        endpoints.iter().filter(|endpoint| endpoint.health == Health::Healthy).count().max(1) as u64
    };
    let scale = scale(&shares.iter().map(|(weight, found)| (u64::from(*weight), takers(found))).collect::<Vec<_>>());
    let mut parts: BTreeMap<Address, (Health, u64)> = BTreeMap::new();
    for (weight, mut endpoints) in shares {
        if endpoints.is_empty() {
            endpoints.push(Endpoint::new(DISCARD));
        }
        let part = (scale * u64::from(weight) / takers(&endpoints)).max(1);
        for endpoint in endpoints {
            let (health, sum) = parts.entry(endpoint.address).or_insert((endpoint.health, 0));
            // What drains in one share may take the other's.
            *health = (*health).min(endpoint.health);
            *sum += if endpoint.health == Health::Healthy { part } else { 0 };
        }
    }
    let divisor = parts.values().map(|(_, part)| *part).fold(0, gcd).max(1);
    let weight = |part: u64| u32::try_from(part / divisor).ok().filter(|weight| *weight > 1).and_then(NonZeroU32::new);
    parts.into_iter().map(|(address, (health, part))| Endpoint { address, health, weight: weight(part) }).collect()
}

/// By what weights are multiplied so that each endpoint has a whole number: exactly where that is within what a proxy takes, and as closely
/// as it takes otherwise.
fn scale(shares: &[(u64, u64)]) -> u64 {
    let common = shares.iter().try_fold(1_u64, |all, (_, count)| (all / gcd(all, *count)).checked_mul(*count));
    let total: u64 = shares.iter().map(|(weight, _)| *weight).sum::<u64>().max(1);
    // Half of what it takes: parts below 1 are rounded up.
    let most = (u64::from(u32::MAX) / 2 / total).max(1);
    common.unwrap_or(u64::MAX).min(most)
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Of routes of a port, or of a host name of it, the first has all: the others are told, by name.
pub(crate) fn behind<'a>(
    bucket: &Bucket,
    mut routes: impl Iterator<Item = &'a ObjectKey>,
) -> BTreeMap<ProblemKey, Arc<Problem>> {
    let Some(first) = routes.next() else { return BTreeMap::new() };
    let name =
        if bucket.hostname == Hostname::ANY { String::new() } else { format!(" for {}", bucket.hostname.domain()) };
    let text = format!(
        "{first} is older, or comes first by name, and has all of a listener{name}: nothing comes to this route there"
    );
    let told = |route: &ObjectKey| {
        let problem = Problem::of(route, "spec.parentRefs", Severity::Warning, &*text);
        let place = [&*bucket.listener.fleet.0, &*bucket.listener.listener, &bucket.hostname.domain()];
        (ProblemKey::hashed(route, &place), Arc::new(problem))
    };
    routes.filter(|route| *route != first).map(told).collect()
}

fn stream(place: &StreamPlace, hostname: &Hostname, route: &Route) -> (StreamKey, Arc<TcpProxy>) {
    let name = name(place, hostname);
    let key = StreamKey { listener: place.listener.clone(), hostname: hostname.clone(), name: name.clone() };
    let destinations = match &place.closed {
        Some(why) => vec![TcpDestination { backend: Backend::Broken(why.clone()), weight: 1 }],
        None => destinations(&route.action),
    };
    (key, Arc::new(TcpProxy { name, route: route_named(&route.name).into(), destinations }))
}

/// `<namespace>/<gateway>/<port>`, with `/<server name>` where listeners are told apart by it, and `/passthrough` where TLS goes on to the backend: what
/// ends here and what does not never meet each other's backends, while a listener becomes the other.
fn name(place: &StreamPlace, hostname: &Hostname) -> TcpProxyName {
    let StreamPlace { listener, port, speaks, .. } = place;
    let port = format!("{}/{port}", listener.fleet);
    match speaks {
        Speaks::TlsPassthrough => format!("{port}/{}/passthrough", hostname.domain()).into(),
        _ if speaks.has_server_names() => format!("{port}/{}", hostname.domain()).into(),
        _ => port.into(),
    }
}

/// Where connections go: what a route cannot do closes them.
fn destinations(action: &Action) -> Vec<TcpDestination> {
    match action {
        Action::Forward(forward) => {
            let to = forward.destinations.iter();
            to.map(|to| TcpDestination { backend: to.backend.clone(), weight: to.weight }).collect()
        }
        Action::Respond(respond) => {
            vec![TcpDestination { backend: Backend::Broken(respond.reason.clone()), weight: 1 }]
        }
        Action::Redirect(_) => vec![TcpDestination { backend: Backend::Broken("a redirect".into()), weight: 1 }],
    }
}

#[cfg(test)]
mod tests;
