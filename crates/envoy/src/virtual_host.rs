//! Virtual hosts and route configurations: composed of encoded parts, nothing is encoded or copied twice.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use ir::route::Hosts;
use ir::{RouteConfiguration, VirtualHost};
use prost::Message;
use proto::envoy::config::route::v3 as route;
use xxhash_rust::xxh3::xxh3_128;

use crate::resource::{Encoded, EncodedHost, EncodedPiece, Versions, named, type_url};
use crate::route::{external_auth, messages, whole_body};
use crate::wire::ads;
use crate::write;

/// The number of `virtual_hosts` in `envoy.config.route.v3.RouteConfiguration`.
const HOSTS_FIELD: u32 = 2;

/// A virtual host of the encodings of its pieces, in order. What it needs is what its pieces need, which the caller has: nothing is
/// collected here, so that a change costs its piece.
pub fn virtual_host(host: &VirtualHost, pieces: &[&EncodedPiece]) -> Encoded {
    let head = write_head(host);
    let mut versions = Versions::of(1 + pieces.len() + usize::from(!host.external_auth.is_empty()));
    versions.part(xxh3_128(&head));
    let mut body = Vec::with_capacity(1 + pieces.len());
    body.push(head);
    for piece in pieces {
        versions.part(piece.hash);
        body.push(piece.bytes.clone());
    }
    if let Some(tail) = write_tail(host) {
        versions.part(xxh3_128(&tail));
        body.push(tail);
    }
    let (name, version) = (host.name.0.clone(), versions.version());
    Encoded { type_url: type_url::VIRTUAL_HOST, name, version, body, needs: Vec::new(), vhds: false }
}

/// A virtual host as it stands inside a route configuration.
pub fn inline_host(host: &VirtualHost, pieces: &[&EncodedPiece]) -> EncodedHost {
    let Encoded { version, mut body, .. } = virtual_host(host, pieces);
    let size = body.iter().map(Bytes::len).sum();
    if let Some(head) = body.first_mut() {
        let mut first = Vec::with_capacity(head.len() + 6);
        write::header(HOSTS_FIELD, size, &mut first);
        first.extend_from_slice(head);
        *head = Bytes::from(first.into_boxed_slice());
    }
    EncodedHost { body, version }
}

/// A route configuration with the encodings of its hosts in order, or, for [`Hosts::Separate`], without any (`hosts` is not
/// looked at): then each host is a resource of its own, and the last piece is the field that says so. It needs what the pieces of its
/// hosts need.
///
/// Hosts are moved in where they are owned: one of 50,000 routes has some hundred parts.
pub fn route_configuration(configuration: &RouteConfiguration, hosts: Vec<Cow<'_, EncodedHost>>) -> Encoded {
    let separate = configuration.hosts == Hosts::Separate;
    let hosts = if separate { Vec::new() } else { hosts };
    let (head, tail) = frame(configuration);
    let mut versions = Versions::of(3 + hosts.len());
    let mut body = Vec::with_capacity(3 + hosts.iter().map(|host| host.body.len()).sum::<usize>());
    versions.part(xxh3_128(&head));
    body.push(head);
    for host in hosts {
        versions.part(host.version);
        match host {
            Cow::Borrowed(shared) => body.extend_from_slice(&shared.body),
            Cow::Owned(own) => body.extend(own.body),
        }
    }
    for part in std::iter::once(tail).chain(separate.then(vhds)) {
        versions.part(xxh3_128(&part));
        body.push(part);
    }
    let (name, version) = (configuration.name.0.clone(), versions.version());
    Encoded { type_url: type_url::ROUTE_CONFIGURATION, name, version, body, needs: Vec::new(), vhds: separate }
}

/// The whole as one message, for configurations that are written whole. `hosts` are used whatever `configuration.hosts` says.
pub(crate) fn message<'a>(
    configuration: &RouteConfiguration,
    hosts: impl IntoIterator<Item = &'a VirtualHost>,
) -> route::RouteConfiguration {
    route::RouteConfiguration {
        virtual_hosts: hosts.into_iter().map(host_message).collect(),
        ..skeleton(configuration)
    }
}

fn host_message(host: &VirtualHost) -> route::VirtualHost {
    let routes = host.pieces.iter().flat_map(|piece| messages(piece)).collect();
    let typed_per_filter_config = tail(host).typed_per_filter_config;
    route::VirtualHost { routes, typed_per_filter_config, ..head(host) }
}

/// Everything of a virtual host that stands before its routes, by field number.
fn head(host: &VirtualHost) -> route::VirtualHost {
    route::VirtualHost {
        name: host.name.as_str().to_owned(),
        domains: host.domains.iter().flat_map(|domain| spellings(domain)).map(Cow::into_owned).collect(),
        ..route::VirtualHost::default()
    }
}

/// Everything of it that stands behind them.
fn tail(host: &VirtualHost) -> route::VirtualHost {
    let asked = external_auth::policies(&host.external_auth, external_auth::Asks::BeforeRoutes);
    let bodies = whole_body::policies(&host.external_auth, external_auth::Asks::BeforeRoutes);
    route::VirtualHost { typed_per_filter_config: asked.chain(bodies).collect(), ..route::VirtualHost::default() }
}

/// The bytes of [`tail`]; most hosts have none.
fn write_tail(host: &VirtualHost) -> Option<Bytes> {
    (!host.external_auth.is_empty()).then(|| Bytes::from(tail(host).encode_to_vec()))
}

/// A domain as requests may spell it: a name with a dot at its end is the same name (RFC 1034, 3.1). Envoy compares the whole text, and
/// `strip_trailing_host_dot` would take the dot away from what backends get.
fn spellings(domain: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let absolute = (!domain.ends_with(['*', '.'])).then(|| Cow::Owned(format!("{domain}.")));
    std::iter::once(Cow::Borrowed(domain)).chain(absolute)
}

/// The bytes of [`head`].
fn write_head(host: &VirtualHost) -> Bytes {
    let texts = host.domains.iter().map(|domain| 2 * domain.len() + 1).sum::<usize>() + host.name.as_str().len();
    let mut bytes = Vec::with_capacity(texts + 3 * (1 + 2 * host.domains.len()));
    write::text(1, host.name.as_str(), &mut bytes);
    host.domains.iter().flat_map(|domain| spellings(domain)).for_each(|domain| write::item(2, &domain, &mut bytes));
    Bytes::from(bytes.into_boxed_slice())
}

/// What stands before and behind the hosts, by field number.
fn frame(configuration: &RouteConfiguration) -> (Bytes, Bytes) {
    let tail = route::RouteConfiguration { name: String::new(), ..skeleton(configuration) };
    (named(configuration.name.as_str()), Bytes::from(tail.encode_to_vec()))
}

/// The field that asks for hosts.
fn vhds() -> Bytes {
    let vhds = Some(route::Vhds { config_source: Some(ads()) });
    Bytes::from(route::RouteConfiguration { vhds, ..route::RouteConfiguration::default() }.encode_to_vec())
}

/// The port in a request's host is not looked at, and stays. Clusters are not checked: broken destinations name one that does
/// not exist. Header changes at a narrower level win, should a later layer add any at a wider one.
fn skeleton(configuration: &RouteConfiguration) -> route::RouteConfiguration {
    route::RouteConfiguration {
        name: configuration.name.as_str().to_owned(),
        validate_clusters: Some(false),
        most_specific_header_mutations_wins: true,
        ignore_port_in_host_matching: true,
        ..route::RouteConfiguration::default()
    }
}
