//! Route configurations whose virtual hosts travel one by one (VHDS), for clients of the state of the world, who know no VHDS: their
//! hosts stand inside (DESIGN 11.6). The bytes are put together from those that delta clients get, and not looked into but for the one
//! field that says where the hosts come from.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, decode_key, decode_varint, encode_varint};
use xxhash_rust::xxh3::Xxh3;

use crate::resource::{Need, Resource, TypeUrl, Version};
use crate::snapshot::Item;

#[cfg(test)]
mod tests;

/// `RouteConfiguration.virtual_hosts`, as it stands on the wire.
const HOST: u8 = 2 << 3 | WireType::LengthDelimited as u8;

/// `RouteConfiguration.vhds`.
const VHDS: u32 = 9;

/// The kind that people and clients know.
pub(crate) fn known_kind(kind: &TypeUrl) -> &TypeUrl {
    if *kind == TypeUrl::Inlined { &TypeUrl::Route } else { kind }
}

/// The route configuration with these hosts inside; none if it does not ask for any.
pub(crate) fn inlined(route: &Resource, hosts: &[Arc<Item>]) -> Option<Resource> {
    let asks = fields(&route.body, VHDS)?;
    if asks.is_empty() {
        return None;
    }
    let mut body = without(&route.body, &asks);
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
    (whole.body, whole.needs, whole.version) = (body.into(), needs.into(), Version(version.digest128().max(1)));
    Some(whole)
}

/// Where the fields of this number stand in a message; none if it is no message.
fn fields(body: &[Bytes], number: u32) -> Option<Vec<Range<usize>>> {
    let mut pieces = Pieces { left: body.iter(), piece: &[], remaining: body.iter().map(Bytes::len).sum() };
    pieces.next_piece();
    let (all, mut found) = (pieces.remaining, Vec::new());
    while pieces.has_remaining() {
        let start = all - pieces.remaining;
        let (field, wire_type) = decode_key(&mut pieces).ok()?;
        let length = match wire_type {
            WireType::Varint => decode_varint(&mut pieces).map(|_| 0),
            WireType::ThirtyTwoBit => Ok(4),
            WireType::SixtyFourBit => Ok(8),
            WireType::LengthDelimited => decode_varint(&mut pieces),
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let length = usize::try_from(length.ok()?).ok().filter(|length| *length <= pieces.remaining)?;
        pieces.advance(length);
        if field == number {
            found.push(start..all - pieces.remaining);
        }
    }
    Some(found)
}

/// The pieces of a message without these bytes of it, which are in order.
fn without(body: &[Bytes], gaps: &[Range<usize>]) -> Vec<Bytes> {
    let (mut kept, mut start) = (Vec::with_capacity(body.len()), 0);
    for piece in body {
        let end = start + piece.len();
        let mut from = start;
        for gap in gaps.iter().filter(|gap| gap.start < end && gap.end > start) {
            if from < gap.start {
                kept.push(piece.slice(from - start..gap.start - start));
            }
            from = gap.end.min(end);
        }
        if from < end {
            kept.push(piece.slice(from - start..));
        }
        start = end;
    }
    kept
}

/// The pieces of a message, read as one.
struct Pieces<'a> {
    left: std::slice::Iter<'a, Bytes>,
    /// Of the current piece what was not read yet; empty at the end only.
    piece: &'a [u8],
    remaining: usize,
}

impl Pieces<'_> {
    fn next_piece(&mut self) {
        while self.piece.is_empty() {
            let Some(piece) = self.left.next() else { return };
            self.piece = piece;
        }
    }
}

impl Buf for Pieces<'_> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.piece
    }

    fn advance(&mut self, count: usize) {
        let mut count = count.min(self.remaining);
        self.remaining -= count;
        while count > 0 {
            let here = count.min(self.piece.len());
            self.piece = self.piece.get(here..).unwrap_or_default();
            count -= here;
            self.next_piece();
        }
    }
}
