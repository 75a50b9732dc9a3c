//! Responses, written step by step.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::{Manner, Response};
use crate::resource::{Resource, Version};
use crate::snapshot::Item;

/// About so many bytes stand around a resource's message besides its name: 34 of the version, some headers, and the type URL.
pub(crate) const AROUND: usize = 160;

/// The type URL of a resource with its name and time to live, which is how it stands in a SotW response that says more of it than what it is.
const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

/// `google.rpc.Code.NOT_FOUND`.
const NOT_FOUND: u64 = 5;

/// A response on its way out as one gRPC message. It is written step by step, so that what is between two chunks of a large one is a
/// place in it and not a list of its pieces.
pub(crate) struct Writing {
    response: Response,
    /// The type URL of its resources, as field 1 of `Any`.
    url: BytesMut,
    /// The resource that is next; none before the head of the whole is written.
    item: Option<usize>,
    /// The piece of its body that is next.
    piece: usize,
}

/// What a step of [`Writing`] came to.
pub(crate) enum Step {
    /// There is more.
    More,
    /// A large piece of a body is next: first what was written so far has to go out.
    Flush,
    /// A large piece of a body, shared and not copied; it goes out by itself.
    Large(Bytes),
    /// That was all.
    Done,
}

/// How a resource stands in a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Delta: `Resource`, with name and version.
    Named,
    /// SotW: `Any`.
    Bare,
    /// SotW: `Any` around a `Resource`.
    Wrapped,
}

/// The lengths of what stands in field 2 of a response for one resource.
struct Lengths {
    /// `Any` around its message; none if the message is left out.
    any: Option<usize>,
    /// `Resource` around that.
    named: usize,
    /// The whole, without the header of field 2.
    field: usize,
}

impl Writing {
    pub(crate) fn new(response: Response) -> Self {
        let mut url = BytesMut::new();
        put_text(1, response.type_url.as_str(), &mut url);
        Self { url, response, item: None, piece: 0 }
    }

    /// Writes the next part. Pieces of a body of `shared_from` bytes or more are not copied.
    pub(crate) fn step(&mut self, into: &mut BytesMut, shared_from: usize) -> Step {
        let Some(at) = self.item else {
            self.put_head(into);
            self.item = Some(0);
            return Step::More;
        };
        let Some(item) = self.response.resources().get(at) else { return Step::Done };
        let resource = &item.resource;
        if self.piece == 0 {
            self.put_resource_head(resource, into);
            self.piece = 1;
        }
        let body = if self.has_bodies() { &*resource.body } else { &[] };
        while let Some(piece) = body.get(self.piece - 1) {
            if piece.len() >= shared_from && !into.is_empty() {
                return Step::Flush;
            }
            self.piece += 1;
            if piece.len() >= shared_from {
                return Step::Large(piece.clone());
            }
            into.extend_from_slice(piece);
        }
        self.put_resource_tail(resource, into);
        (self.item, self.piece) = (Some(at + 1), 0);
        Step::More
    }

    fn has_bodies(&self) -> bool {
        self.response.manner != Manner::Heartbeat
    }

    /// The time to live that the client is told.
    fn ttl(&self, resource: &Resource) -> Option<Duration> {
        resource.ttl().filter(|_| self.response.with_ttl)
    }

    fn form(&self, resource: &Resource) -> Form {
        match self.response.whole {
            None => Form::Named,
            Some(_) if self.ttl(resource).is_some() => Form::Wrapped,
            Some(_) => Form::Bare,
        }
    }

    fn lengths(&self, resource: &Resource) -> Lengths {
        let (body, name) = (resource.size(), resource.name.len());
        let around = |length: usize| header_len(2, length) + length;
        let any = self.has_bodies().then(|| around(body) + self.url.len());
        let version = header_len(1, Version::DIGITS) + Version::DIGITS;
        let ttl = self.ttl(resource).map_or(0, |ttl| duration_field(6, ttl).len());
        let named = version + header_len(3, name) + name + ttl + any.map_or(0, around);
        let field = match self.form(resource) {
            Form::Named => named,
            Form::Bare => any.unwrap_or(0),
            Form::Wrapped => around(named) + header_len(1, WRAPPER.len()) + WRAPPER.len(),
        };
        Lengths { any, named, field }
    }

    /// Everything of a resource down to the first byte of its message. The type URLs go behind that.
    fn put_resource_head(&self, resource: &Resource, into: &mut BytesMut) {
        let Lengths { any, named, field } = self.lengths(resource);
        let form = self.form(resource);
        put_header(2, field, into);
        if form == Form::Wrapped {
            put_header(2, named, into);
        }
        if form != Form::Bare {
            put_header(1, Version::DIGITS, into);
            into.extend_from_slice(&resource.version.digits());
            put_text(3, &resource.name, into);
            if let Some(ttl) = self.ttl(resource) {
                into.extend_from_slice(&duration_field(6, ttl));
            }
            if let Some(any) = any {
                put_header(2, any, into);
            }
        }
        if any.is_some() {
            put_header(2, resource.size(), into);
        }
    }

    fn put_resource_tail(&self, resource: &Resource, into: &mut BytesMut) {
        if self.has_bodies() {
            into.extend_from_slice(&self.url);
        }
        if self.form(resource) == Form::Wrapped {
            put_text(1, WRAPPER, into);
        }
    }

    /// The head of the gRPC message, and all fields but the resources.
    fn put_head(&self, into: &mut BytesMut) {
        let response = &self.response;
        let mut fields = BytesMut::new();
        let version = response.whole.as_ref().map_or(response.system_version, |whole| whole.version);
        put_text(1, &version.to_string(), &mut fields);
        put_text(4, response.type_url.as_str(), &mut fields);
        put_text(5, &response.nonce.to_string(), &mut fields);
        let errors = if response.whole.is_some() { 7 } else { 9 };
        for name in &response.removed {
            match response.manner {
                // not as removed too: a name may stand in a response once
                Manner::Unresolved => put_unresolved(name, &mut fields),
                _ if response.whole.is_none() => put_text(6, name, &mut fields),
                _ => {}
            }
            if response.manner == Manner::Denial {
                put_not_found(errors, name, &mut fields);
            }
        }
        let size = |item: &Arc<Item>| {
            let field = self.lengths(&item.resource).field;
            header_len(2, field) + field
        };
        let length = fields.len() + response.resources().iter().map(size).sum::<usize>();
        into.reserve(fields.len() + 5);
        into.put_u8(0);
        into.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        into.extend_from_slice(&fields);
    }
}

/// A `Resource` that says only that nothing is behind this name.
fn put_unresolved(name: &str, into: &mut BytesMut) {
    let mut fields = BytesMut::new();
    put_text(3, name, &mut fields);
    put_text(4, name, &mut fields);
    put_header(2, fields.len(), into);
    into.extend_from_slice(&fields);
}

/// A `ResourceError` (TP3): there is nothing of this name.
fn put_not_found(number: u32, name: &str, into: &mut BytesMut) {
    let (mut named, mut status) = (BytesMut::new(), BytesMut::new());
    put_text(1, name, &mut named);
    encode_key(1, WireType::Varint, &mut status);
    encode_varint(NOT_FOUND, &mut status);
    put_text(2, "there is no such resource", &mut status);
    let length = header_len(1, named.len()) + named.len() + header_len(2, status.len()) + status.len();
    put_header(number, length, into);
    put_header(1, named.len(), into);
    into.extend_from_slice(&named);
    put_header(2, status.len(), into);
    into.extend_from_slice(&status);
}

/// A `google.protobuf.Duration` as this field.
fn duration_field(number: u32, duration: Duration) -> BytesMut {
    let (mut fields, mut field) = (BytesMut::new(), BytesMut::new());
    for (number, value) in [(1, duration.as_secs()), (2, u64::from(duration.subsec_nanos()))] {
        if value != 0 {
            encode_key(number, WireType::Varint, &mut fields);
            encode_varint(value, &mut fields);
        }
    }
    put_header(number, fields.len(), &mut field);
    field.extend_from_slice(&fields);
    field
}

fn header_len(number: u32, length: usize) -> usize {
    key_len(number) + encoded_len_varint(length as u64)
}

fn put_header(number: u32, length: usize, into: &mut BytesMut) {
    into.reserve(header_len(number, length));
    encode_key(number, WireType::LengthDelimited, into);
    encode_varint(length as u64, into);
}

fn put_text(number: u32, text: &str, into: &mut BytesMut) {
    put_header(number, text.len(), into);
    into.extend_from_slice(text.as_bytes());
}
