//! Addresses to which a resource leads, found by the types of the messages in it as powers are.

use std::net::IpAddr;

use ir::address::literal;
use ir::infra::kubernetes::CONFIG_PORT;
use ir::raw::Power;
use protojson::View;

/// A finding: an address, or the power that is needed to go there.
pub(super) enum Found {
    /// A host, empty for that of any endpoint, and a port, 0 where it is not known.
    Address(String, u16),
    /// A socket of the file system, by its path.
    Socket(String),
    /// The use of a power, in words.
    Use(Power, String),
}

const SOCKET_ADDRESS: &str = "envoy.config.core.v3.SocketAddress";
const PIPE: &str = "envoy.config.core.v3.Pipe";
const CLUSTER_TYPE: &str = "envoy.config.cluster.v3.Cluster.CustomClusterType";

/// `Cluster.DiscoveryType.ORIGINAL_DST`
const ORIGINAL_DST: i64 = 4;

const BY_CLIENT: &str = "lets clients choose any address, that of the proxy's admin interface included";

/// The ports of the admin interface in the bootstrap of workloads in a cluster and of what shows a proxy's configuration, on loopback.
const ADMIN_PORTS: [u16; 2] = [19_000, CONFIG_PORT];

/// In messages of a type, a field with a port that is used instead of an endpoint's own.
const PORTS: [(&str, &str); 3] = [
    ("envoy.config.core.v3.HealthCheck", "alt_port"),
    ("envoy.config.endpoint.v3.Endpoint.HealthCheckConfig", "port_value"),
    ("envoy.extensions.load_balancing_policies.common.v3.OrcaOobReportingConfig", "port_value"),
];

/// In messages of a type, a field with URLs to which the proxy itself goes.
const URLS: [(&str, &str); 2] = [
    ("envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.StsService", "token_exchange_service_uri"),
    ("envoy.extensions.network.dns_resolver.hickory.v3.DnsOverHttpsConfig", "server_urls"),
];

/// In messages of a type, a field with a target of Google's gRPC client.
const TARGETS: [(&str, &str); 2] = [
    ("envoy.config.core.v3.GrpcService.GoogleGrpc", "target_uri"),
    ("envoy.extensions.transport_sockets.alts.v3.Alts", "handshaker_service"),
];

/// Types of clusters whose addresses all stand in resources, by the names of their factories and by the messages of their settings. A
/// type that is not here learns its addresses from requests, connections or servers.
const CLUSTER_TYPES: [&str; 11] = [
    "envoy.cluster.dns",
    "envoy.cluster.eds",
    "envoy.cluster.logical_dns",
    "envoy.cluster.static",
    "envoy.cluster.strict_dns",
    "envoy.clusters.aggregate",
    "envoy.clusters.composite",
    "envoy.extensions.clusters.aggregate.v3.ClusterConfig",
    "envoy.extensions.clusters.composite.v3.ClusterConfig",
    "envoy.extensions.clusters.dns.v3.DnsCluster",
    "envoy.extensions.clusters.mcp_multicluster.v3.ClusterConfig",
];

/// Names of factories that are none of these, even where settings of another type stand next to them.
const OTHER_TYPES: [&str; 4] = [
    "envoy.cluster.original_dst",
    "envoy.clusters.dynamic_forward_proxy",
    "envoy.clusters.redis",
    "envoy.clusters.reverse_connection",
];

/// Schemes of targets of Google's gRPC client, and their powers.
const SCHEMES: [(&str, Power, &str); 7] = [
    ("binder", Power::Sockets, "uses the socket"),
    ("unix", Power::Sockets, "uses the socket"),
    ("unix-abstract", Power::Sockets, "uses the socket"),
    ("vsock", Power::Sockets, "uses the socket"),
    ("google-c2p", Power::Admin, "asks another control plane for addresses at"),
    ("google-c2p-experimental", Power::Admin, "asks another control plane for addresses at"),
    ("xds", Power::Admin, "asks another control plane for addresses at"),
];

pub(super) fn in_message(view: &View<'_>, add: &mut dyn FnMut(Found)) {
    let name = view.name();
    if name == SOCKET_ADDRESS {
        let port = u16::try_from(view.number("port_value")).unwrap_or_default();
        in_address(&view.text("address"), port, !view.text("named_port").is_empty(), add);
    }
    for (_, field) in PORTS.iter().filter(|(of, _)| *of == name) {
        let wrapped = view.inner(field).map(|wrapper| wrapper.number("value"));
        let port = u16::try_from(wrapped.unwrap_or_else(|| view.number(field))).unwrap_or_default();
        if port > 0 {
            in_address("", port, false, add);
        }
    }
    for (_, field) in URLS.iter().filter(|(of, _)| *of == name) {
        view.texts(field).into_iter().chain([view.text(field)]).for_each(|url| in_url(&url, add));
    }
    for (_, field) in TARGETS.iter().filter(|(of, _)| *of == name) {
        in_target(&view.text(field), add);
    }
    match name {
        PIPE => add(Found::Socket(view.text("path"))),
        CLUSTER_TYPE => in_type(view, add),
        super::CLUSTER if view.number("type") == ORIGINAL_DST => add(Found::Use(Power::Admin, BY_CLIENT.to_owned())),
        _ => {}
    }
}

fn in_address(host: &str, port: u16, named: bool, add: &mut dyn FnMut(Found)) {
    if (named || ADMIN_PORTS.contains(&port)) && may_be_loopback(host) {
        let place = if host.is_empty() { "any endpoint" } else { host };
        let port = if named { "a port with a name".to_owned() } else { format!("port {port}") };
        let words = format!("may reach the proxy's admin interface at {port} of {place}");
        add(Found::Use(Power::Admin, words));
    }
    add(Found::Address(host.to_owned(), port));
}

/// Returns true if a host may be that of the proxy itself. A name may lead anywhere.
fn may_be_loopback(host: &str) -> bool {
    let literal = literal(host);
    let is_here = |ip: &IpAddr| {
        let ip = ip.to_canonical();
        ip.is_loopback() || ip.is_unspecified()
    };
    literal.is_empty() || literal.iter().any(is_here)
}

fn in_type(view: &View<'_>, add: &mut dyn FnMut(Found)) {
    let name = view.text("name");
    let typed = view.inner("typed_config").map(|typed| typed.name().to_owned());
    let kind = typed.as_deref().unwrap_or(&name);
    if OTHER_TYPES.contains(&&*name) || !CLUSTER_TYPES.contains(&kind) {
        let words = format!("may lead to any address, that of the proxy's admin interface included, as {kind}");
        add(Found::Use(Power::Admin, words));
    }
}

/// Reads a target as gRPC does (its naming document): a URI of a known scheme, or a name for DNS.
fn in_target(target: &str, add: &mut dyn FnMut(Found)) {
    let decoded = decoded(target.trim());
    let split = decoded.split_once(':').map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let scheme = split.as_ref().and_then(|(scheme, _)| SCHEMES.iter().find(|(known, ..)| known == scheme));
    if let Some((scheme, power, words)) = scheme {
        if let Some((_, rest)) = split.as_ref().filter(|_| *scheme == "unix") {
            // With two slashes an authority, which has to be empty, stands before the path.
            add(Found::Socket(rest.strip_prefix("//").unwrap_or(rest).to_owned()));
        }
        return add(Found::Use(*power, format!("{words} {}", target.trim())));
    }
    let (list, server) = match &split {
        Some((scheme, rest)) if ["dns", "ipv4", "ipv6"].contains(&&**scheme) => match rest.strip_prefix("//") {
            // A server for DNS stands before the name.
            Some(rest) => rest.split_once('/').map_or((rest, ""), |(server, name)| (name, server)),
            None => (*rest, ""),
        },
        _ => (&*decoded, ""),
    };
    let hosts = list.split(',').map(|one| one.trim_start_matches('/')).chain([server]);
    for host in hosts.filter(|host| !host.is_empty()) {
        let (host, port) = host_and_port(host);
        in_address(host, port, false, add);
    }
}

fn in_url(url: &str, add: &mut dyn FnMut(Found)) {
    let url = url.trim();
    if url.is_empty() {
        return;
    }
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let decoded = decoded(authority.rsplit('@').next().unwrap_or_default());
    let (host, port) = host_and_port(&decoded);
    in_address(host, port, false, add);
}

/// Splits a port off; 0 where there is none in digits.
fn host_and_port(text: &str) -> (&str, u16) {
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    match text.rsplit_once(':').filter(|_| !is_bare_v6 && !text.ends_with(']')) {
        Some((host, port)) => (host, port.parse().unwrap_or_default()),
        None => (text, 0),
    }
}

/// Decodes percent signs before two hexadecimal digits.
fn decoded(text: &str) -> String {
    let (mut bytes, mut out) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut ahead = bytes.clone();
        let pair = (byte == b'%').then(|| Some((digit(ahead.next()?)?, digit(ahead.next()?)?))).flatten();
        match pair {
            Some((high, low)) => {
                out.push(high << 4 | low);
                bytes = ahead;
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns true for a field with a target of Google's gRPC client.
#[cfg(test)]
pub(super) fn is_target(message: &str, field: &str) -> bool {
    TARGETS.contains(&(message, field))
}

#[cfg(test)]
mod tests;
