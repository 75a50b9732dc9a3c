//! One transaction of a journal as a protobuf message.
//!
//! A large resource comes in pieces that its versions share: of a new version only the pieces go into the record that the version before,
//! as saved, has not, so that a record is as long as the change and not as the resource.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::SavedError;
use crate::resource::{Need, Resource, TypeUrl, Version};

#[cfg(any(test, fuzzing))]
mod fuzzing;

/// The kinds by number: for ever, whatever their order elsewhere. 0 is any other, by its URL.
const KINDS: [(u32, TypeUrl); 10] = [
    (1, TypeUrl::Cluster),
    (2, TypeUrl::Endpoints),
    (3, TypeUrl::LocalityEndpoint),
    (4, TypeUrl::Listener),
    (5, TypeUrl::Secret),
    (6, TypeUrl::ScopedRoute),
    (7, TypeUrl::Route),
    (8, TypeUrl::VirtualHost),
    (9, TypeUrl::Runtime),
    (10, TypeUrl::ExtensionConfig),
];

/// What changed at once.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct Record {
    #[prost(message, repeated, tag = "1")]
    pub(super) puts: Vec<Put>,
    #[prost(message, repeated, tag = "2")]
    pub(super) gone: Vec<Key>,
    #[prost(message, repeated, tag = "3")]
    pub(super) doubts: Vec<Doubts>,
}

/// A resource that is new or has another version.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct Put {
    #[prost(message, optional, tag = "1")]
    pub(super) key: Option<Key>,
    #[prost(bytes = "bytes", tag = "2")]
    version: Bytes,
    #[prost(message, repeated, tag = "3")]
    body: Vec<Piece>,
    #[prost(message, repeated, tag = "4")]
    needs: Vec<Slice>,
    #[prost(string, optional, tag = "5")]
    replaces: Option<String>,
    #[prost(uint32, tag = "6")]
    ttl_millis: u32,
    #[prost(bool, tag = "7")]
    apart: bool,
    #[prost(bool, tag = "8")]
    vhds: bool,
}

/// A kind and a name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Key {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    other: String,
    #[prost(string, tag = "3")]
    name: String,
}

/// Bytes of a body, or, if `count` is not 0, so many pieces of the version before.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Piece {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
    #[prost(uint32, tag = "2")]
    from: u32,
    #[prost(uint32, tag = "3")]
    count: u32,
}

/// Some needs, or, if `count` is not 0, so many slices of the version before.
#[derive(Clone, PartialEq, Message)]
struct Slice {
    #[prost(message, repeated, tag = "1")]
    needs: Vec<Key>,
    #[prost(uint32, tag = "2")]
    from: u32,
    #[prost(uint32, tag = "3")]
    count: u32,
}

/// What a client may have without saying so.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Doubts {
    #[prost(string, tag = "1")]
    pub(super) node: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) needs: Vec<Key>,
    /// Of so many clients; 0 in older files.
    #[prost(uint32, tag = "3")]
    pub(super) heirs: u32,
}

impl Key {
    pub(super) fn of(need: &Need) -> Self {
        let number = KINDS.iter().find(|(_, kind)| *kind == need.type_url).map_or(0, |(number, _)| *number);
        let other = if number == 0 { need.type_url.as_str().to_owned() } else { String::new() };
        Self { kind: number, other, name: need.name.to_string() }
    }

    /// The other way round; `share` gives the copy of a text that all share.
    pub(super) fn need(&self, share: &mut impl FnMut(&str) -> Arc<str>) -> Need {
        let known = KINDS.iter().find(|(number, _)| *number == self.kind);
        let type_url = known.map_or_else(|| TypeUrl::from(&*self.other), |(_, kind)| kind.clone());
        Need::new(type_url, share(&self.name))
    }
}

impl Put {
    /// What `base`, the version before as saved, lacks of this one.
    pub(super) fn of(resource: &Resource, base: Option<&Resource>) -> Self {
        let whole = |piece: &Bytes| Piece { bytes: piece.clone(), from: 0, count: 0 };
        let body = differences(&resource.body, base.map_or(&[], |base| &base.body), piece_at, whole, |from, count| {
            Piece { bytes: Bytes::new(), from, count }
        });
        let whole = |slice: &Arc<[Need]>| Slice { needs: slice.iter().map(Key::of).collect(), from: 0, count: 0 };
        let needs =
            differences(&resource.needs, base.map_or(&[], |base| &base.needs), slice_at, whole, |from, count| Slice {
                needs: Vec::new(),
                from,
                count,
            });
        Self {
            key: Some(Key::of(&Need::new(resource.type_url.clone(), Arc::clone(&resource.name)))),
            version: Bytes::copy_from_slice(&resource.version.0.to_be_bytes()),
            body,
            needs,
            replaces: resource.replaces.as_ref().map(ToString::to_string),
            ttl_millis: resource.ttl_millis.map_or(0, NonZeroU32::get),
            apart: resource.apart,
            vhds: resource.vhds,
        }
    }

    /// The resource of this name, with what the version before has; of no more than `most` pieces.
    pub(super) fn resource(
        self,
        need: &Need,
        base: Option<&Resource>,
        most: usize,
        share: &mut impl FnMut(&str) -> Arc<str>,
    ) -> Result<Resource, SavedError> {
        let version = self.version.as_ref().try_into().map(u128::from_be_bytes).map_err(|_| SavedError::Damaged)?;
        let (old_body, old_needs) = base.map_or((&[][..], &[][..]), |base| (&base.body, &base.needs));
        let mut body = Vec::with_capacity(self.body.len());
        for piece in self.body {
            match piece.count {
                0 => body.push(piece.bytes),
                count => body.extend_from_slice(part(old_body, piece.from, count, most.saturating_sub(body.len()))?),
            }
        }
        let mut needs = Vec::with_capacity(self.needs.len());
        for slice in self.needs {
            match slice.count {
                0 => needs.push(slice.needs.iter().map(|key| key.need(share)).collect()),
                count => needs.extend_from_slice(part(old_needs, slice.from, count, most.saturating_sub(needs.len()))?),
            }
        }
        let (type_url, name) = (need.type_url.clone(), Arc::clone(&need.name));
        let (body, needs) = (body.into(), needs.into());
        let replaces = self.replaces.map(|name| Box::new(share(&name)));
        let (version, ttl_millis) = (Version(version), NonZeroU32::new(self.ttl_millis));
        let (apart, vhds) = (self.apart, self.vhds);
        Ok(Resource { type_url, name, version, body, needs, replaces, ttl_millis, apart, vhds })
    }
}

/// What of the new is not in the old, and runs of what is.
fn differences<T, D>(
    new: &[T],
    old: &[T],
    at: impl Fn(&T) -> (usize, usize),
    whole: impl Fn(&T) -> D,
    run: impl Fn(u32, u32) -> D,
) -> Vec<D> {
    let places: BTreeMap<(usize, usize), u32> = old.iter().zip(0..).map(|(piece, index)| (at(piece), index)).collect();
    let mut differences = Vec::new();
    let mut open: Option<(u32, u32)> = None;
    for piece in new {
        match (places.get(&at(piece)).copied(), &mut open) {
            (Some(index), Some((from, count))) if index == *from + *count => *count += 1,
            (place, open) => {
                differences.extend(open.take().map(|(from, count)| run(from, count)));
                match place {
                    Some(index) => *open = Some((index, 1)),
                    None => differences.push(whole(piece)),
                }
            }
        }
    }
    differences.extend(open.map(|(from, count)| run(from, count)));
    differences
}

/// Where a piece is in memory: what is equal by address is equal.
fn piece_at(piece: &Bytes) -> (usize, usize) {
    (piece.as_ptr().addr(), piece.len())
}

fn slice_at(slice: &Arc<[Need]>) -> (usize, usize) {
    (Arc::as_ptr(slice).cast::<Need>().addr(), slice.len())
}

fn part<T>(old: &[T], from: u32, count: u32, room: usize) -> Result<&[T], SavedError> {
    let (from, count) = (from as usize, count as usize);
    let part = old.get(from..from.saturating_add(count)).filter(|part| part.len() <= room);
    part.ok_or(SavedError::Damaged)
}
