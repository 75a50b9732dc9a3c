//! Virtual hosts and route configurations, put together from buckets of routes.
//!
//! Envoy chooses a virtual host by the most specific domain and does not fall through to a less specific one. So each host has its
//! own routes first, and then those of every less specific host name of the same listener that also stands for it (Gateway API:
//! precedence by the route's own host name).

use std::sync::Arc;

use ir::route::{Action, ExternalAuth, Hosts, PathMatch, Respond, RouteMatch};
use ir::{
    ClusterName, FleetName, Route, RouteConfiguration, RouteConfigurationName, RoutePiece, VirtualHost, VirtualHostName,
};

use crate::hostname::Hostname;
use crate::key::{Bucket, ListenerKey, VirtualHostKey};
use crate::listener::{Chain, ChainKey, Gate, Place};

/// Finds the pieces of buckets.
pub(crate) trait Lookup {
    /// Whether the listener has routes under any wildcard, or under no host name at all: most have none.
    fn has_wide(&mut self, listener: &ListenerKey) -> bool;
    /// Whether a cluster of a fleet serves, or may soon.
    fn is_ready(&mut self, fleet: &FleetName, cluster: &ClusterName) -> bool;
    /// Adds the pieces of a bucket, in order; nothing if no route has that host name on that listener.
    fn extend(&mut self, bucket: &Arc<Bucket>, pieces: &mut Vec<Arc<RoutePiece>>);
}

/// Above this many, the hosts of a route configuration are delivered one by one (measured: 198 bytes against 468 kB per change
/// at 10,000 hosts).
pub(crate) const MAX_INLINE_HOSTS: usize = 64;

/// Between the name of a chain and that of a host. VHDS goes by names: `<route configuration>/<host>`.
const SEPARATE: &str = "/hosts";

/// The host that a bucket brings with it: none where it belongs to the listener's own host, or to a more specific listener.
pub(crate) fn own_host(
    lookup: &mut impl Lookup,
    bucket: &Bucket,
    place: &Place,
    own: impl Iterator<Item = Arc<RoutePiece>>,
) -> Option<(VirtualHostKey, Arc<VirtualHost>)> {
    let hostname = &bucket.hostname;
    let narrower = place.hostname.covers(hostname) && place.hostname != *hostname;
    if !narrower || !place.narrower.leave(hostname) {
        return None;
    }
    let mut pieces = own.collect();
    append_broader(lookup, &bucket.listener, hostname, &mut pieces);
    Some(gated(lookup, place, hostname, pieces))
}

/// The host that a listener has whatever its routes.
pub(crate) fn listener_host(
    lookup: &mut impl Lookup,
    listener: &ListenerKey,
    place: &Place,
) -> (VirtualHostKey, Arc<VirtualHost>) {
    let bucket = Arc::new(Bucket { listener: listener.clone(), hostname: place.hostname.clone() });
    let mut pieces = Vec::new();
    lookup.extend(&bucket, &mut pieces);
    append_broader(lookup, listener, &place.hostname, &mut pieces);
    gated(lookup, place, &place.hostname, pieces)
}

/// A host behind what its listener asks: every request is asked about, also one that no route takes. Where somebody who has to be asked is not there
/// nothing passes.
fn gated(
    lookup: &mut impl Lookup,
    place: &Place,
    hostname: &Hostname,
    mut pieces: Vec<Arc<RoutePiece>>,
) -> (VirtualHostKey, Arc<VirtualHost>) {
    let Gate { asked, closed, .. } = &place.gate;
    let mut missing = asked.iter().filter(|auth| !lookup.is_ready(&place.chain.fleet, &auth.cluster));
    let unready =
        missing.next().map(|auth| format!("{} cannot be asked whether requests may pass", auth.cluster).into());
    let (domains, no_route) = (vec![hostname.domain()], "no route takes it".into());
    match closed.clone().or(unready) {
        Some(reason) => host(&place.chain, domains, vec![answer("closed", 500, reason)], &[]),
        None if asked.is_empty() => host(&place.chain, domains, pieces, &[]),
        None => {
            pieces.push(answer("unmatched", 404, no_route));
            host(&place.chain, domains, pieces, asked)
        }
    }
}

/// The domain of host names that end with more than one dot: a server behind Envoy may take them away. No name has two (RFC 1034, 3.1).
const DOTTED: &str = "*..";

/// The hosts that a chain has whatever its listeners: for requests that belong to other chains, and for names that are none.
pub(crate) fn hosts_of_chain(
    key: &ChainKey,
    chain: &Chain,
) -> impl Iterator<Item = (VirtualHostKey, Arc<VirtualHost>)> + use<> {
    let reason = "the host name ends with more than one dot".into();
    let dotted = host(key, vec![DOTTED.into()], vec![answer("dotted", 400, reason)], &[]);
    misdirected_host(key, chain).into_iter().chain([dotted])
}

/// Whether this is the host of dotted names.
pub(crate) fn is_dotted(host: &VirtualHost) -> bool {
    host.domains.iter().any(|domain| &**domain == DOTTED)
}

/// The host of a chain for requests that belong to other chains.
fn misdirected_host(key: &ChainKey, chain: &Chain) -> Option<(VirtualHostKey, Arc<VirtualHost>)> {
    let domains: Vec<_> = chain.misdirected.iter().map(Hostname::domain).collect();
    let reason = || "another listener of this port answers for this host".into();
    (!domains.is_empty()).then(|| host(key, domains, vec![answer("misdirected", 421, reason())], &[]))
}

/// The name of a route configuration whose hosts are delivered one by one. It differs from the other's, so that the step from the
/// one to the other is that to another configuration: Envoy would drop the hosts of the one before it has those of the other.
pub(crate) fn separate_name(chain: &RouteConfigurationName) -> RouteConfigurationName {
    format!("{chain}{SEPARATE}").into()
}

/// The chain whose hosts a route configuration of this name holds: hosts know their chain only.
#[must_use]
pub fn chain_of(configuration: &str) -> &str {
    configuration.strip_suffix(SEPARATE).unwrap_or(configuration)
}

/// A route configuration with its hosts, or without them where they are many. `hosts` are asked for only where they are few. That of dotted names is there
/// where such a name would get past another host to the one that takes all.
pub(crate) fn configuration(
    key: &ChainKey,
    count: usize,
    hosts: impl FnOnce() -> Vec<Arc<VirtualHost>>,
) -> RouteConfiguration {
    // That of dotted names is always among them.
    if count > MAX_INLINE_HOSTS + 1 {
        return RouteConfiguration { name: separate_name(&key.name), hosts: Hosts::Separate };
    }
    let mut hosts = hosts();
    let takes_all = |host: &Arc<VirtualHost>| host.domains.iter().any(|domain| &**domain == "*");
    if hosts.len() < 3 || !hosts.iter().any(takes_all) {
        hosts.retain(|host| !is_dotted(host));
    }
    hosts.sort_unstable_by(|one, two| one.name.cmp(&two.name));
    RouteConfiguration { name: key.name.clone(), hosts: Hosts::Inline(hosts) }
}

fn append_broader(
    lookup: &mut impl Lookup,
    listener: &ListenerKey,
    hostname: &Hostname,
    pieces: &mut Vec<Arc<RoutePiece>>,
) {
    if lookup.has_wide(listener) {
        for broader in hostname.broader() {
            lookup.extend(&Arc::new(Bucket { listener: listener.clone(), hostname: broader }), pieces);
        }
    }
}

fn host(
    chain: &ChainKey,
    domains: Vec<Arc<str>>,
    pieces: Vec<Arc<RoutePiece>>,
    asked: &[Arc<ExternalAuth>],
) -> (VirtualHostKey, Arc<VirtualHost>) {
    let first = domains.first().map_or("*", |domain| &**domain);
    let name: VirtualHostName = format!("{}{SEPARATE}/{first}", chain.name).into();
    let key = VirtualHostKey { fleet: chain.fleet.clone(), configuration: chain.name.clone(), name: name.clone() };
    (key, Arc::new(VirtualHost { name, domains, pieces, external_auth: asked.to_vec() }))
}

/// One answer for everything. 421 says that the client should use another connection (RFC 9110, 15.5.20).
fn answer(name: &str, status: u16, reason: Arc<str>) -> Arc<RoutePiece> {
    let matches = RouteMatch {
        path: PathMatch::Prefix("/".into()),
        method: None,
        headers: Vec::new(),
        query: Vec::new(),
        grpc: false,
    };
    let action = Action::Respond(Respond { status, reason });
    let route = Route { name: name.into(), matches, action, filters: ir::route::MaybeFilters::default() };
    Arc::new(RoutePiece { routes: vec![Arc::new(route)] })
}
