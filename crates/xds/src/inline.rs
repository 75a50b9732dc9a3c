//! Route configurations whose virtual hosts travel one by one (VHDS), for clients of the state of the world, who know no VHDS: their
//! hosts stand inside. The bytes are put together from those that delta clients get, and not looked into: which of them ask
//! for the hosts says who published them.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use prost::encoding::{WireType, encode_varint};
use xxhash_rust::xxh3::Xxh3;

use crate::resource::{Need, Resource, Version};
use crate::snapshot::Item;

#[cfg(test)]
mod tests;

/// `RouteConfiguration.virtual_hosts`, as it stands on the wire.
const HOST: u8 = 2 << 3 | WireType::LengthDelimited as u8;

/// The route configuration with these hosts inside; none if it does not ask for any.
pub(crate) fn inlined(route: &Resource, hosts: &[Arc<Item>]) -> Option<Resource> {
    let (_asks, rest) = route.body.split_last().filter(|_| route.vhds)?;
    let mut body = rest.to_vec();
    let mut headers = BytesMut::new();
    let mut needs: Vec<Arc<[Need]>> = route.needs.to_vec();
    let mut version = Xxh3::new();
    let mut part = |resource: &Resource| {
        version.update(resource.name.as_bytes());
        version.update(&resource.version.0.to_le_bytes());
    };
    part(route);
    for host in hosts {
        let host = &host.resource;
        headers.put_u8(HOST);
        encode_varint(host.size() as u64, &mut headers);
        body.push(headers.split().freeze());
        body.extend(host.body.iter().cloned());
        needs.extend(host.needs.iter().cloned());
        part(host);
    }
    let mut whole = route.clone();
    (whole.body, whole.needs, whole.vhds) = (body.into(), needs.into(), false);
    whole.version = Version(version.digest128().max(1));
    Some(whole)
}
