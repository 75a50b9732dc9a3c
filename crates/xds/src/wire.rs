//! The messages of the discovery service on the wire, only as much of them as a server needs.
//!
//! Requests are own slim messages: fields that are not listed are skipped, so that the 61 KB of a node's extensions are never
//! parsed. Responses are put together from a head per stream and the shared bytes of the resources.
//! Field numbers: `envoy/service/discovery/v3/discovery.proto`, `envoy/config/core/v3/base.proto`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::event::Node;
use crate::resource::{Resource, TypeUrl, Version};
use crate::snapshot::Item;

#[cfg(test)]
mod tests;

/// What a client says in one message, apart from who it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) type_url: String,
    pub(crate) subscribe: Vec<String>,
    pub(crate) unsubscribe: Vec<String>,
    /// What it holds from an earlier stream; a foreign version is none.
    pub(crate) initial_versions: Vec<(String, Option<Version>)>,
    /// The response that this answers; empty if none.
    pub(crate) nonce: String,
    /// Why it refuses that response; may hold secrets.
    pub(crate) error: Option<String>,
}

/// What a client is told in one message.
#[derive(Clone)]
pub(crate) struct Response {
    pub(crate) type_url: TypeUrl,
    pub(crate) nonce: u64,
    pub(crate) puts: Vec<Arc<Item>>,
    pub(crate) removed: Vec<Arc<str>>,
}

/// `envoy.service.discovery.v3.DeltaDiscoveryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaRequest {
    #[prost(bytes = "bytes", tag = "1")]
    node: Bytes,
    #[prost(string, tag = "2")]
    type_url: String,
    #[prost(string, repeated, tag = "3")]
    subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    unsubscribe: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    initial_versions: std::collections::BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    nonce: String,
    #[prost(message, optional, tag = "7")]
    error: Option<Status>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

/// `envoy.config.core.v3.Node`.
#[derive(Clone, PartialEq, Message)]
struct WireNode {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    cluster: String,
    #[prost(string, tag = "6")]
    user_agent: String,
}

/// Longest name that is read, in bytes: of clusters, kinds and nodes alike. Ours have at most some hundred; what a client asks for
/// is kept as long as its stream.
pub(crate) const LONGEST_NAME: usize = 4 << 10;

impl DeltaRequest {
    /// Whether any name in this message is longer than [`LONGEST_NAME`].
    pub(crate) fn has_long_name(&self) -> bool {
        let Node { id, cluster, user_agent } = if self.has_node() { self.node() } else { Node::default() };
        let names = self.subscribe.iter().chain(&self.unsubscribe).chain(self.initial_versions.keys());
        let lengths = names.chain([&self.type_url]).map(String::len);
        lengths.chain([id.len(), cluster.len(), user_agent.len()]).any(|length| length > LONGEST_NAME)
    }

    /// Whether the client says in this message who it is.
    pub(crate) fn has_node(&self) -> bool {
        !self.node.is_empty()
    }

    /// Who the client says it is; an absent or unreadable node has empty names.
    pub(crate) fn node(&self) -> Node {
        read_node(self.node.clone())
    }
}

/// An `envoy.config.core.v3.Node`; an unreadable one has empty names.
fn read_node(bytes: Bytes) -> Node {
    let node = WireNode::decode(bytes).unwrap_or_default();
    Node { id: node.id.into(), cluster: node.cluster.into(), user_agent: node.user_agent.into() }
}

/// The same, unless a name is longer than [`LONGEST_NAME`].
pub(crate) fn node(bytes: Bytes) -> Option<Node> {
    let node = read_node(bytes);
    let longest = [&node.id, &node.cluster, &node.user_agent].map(|name| name.len()).into_iter().max();
    longest.is_none_or(|length| length <= LONGEST_NAME).then_some(node)
}

impl From<DeltaRequest> for Request {
    fn from(wire: DeltaRequest) -> Self {
        let initial = wire.initial_versions.into_iter();
        Self {
            type_url: wire.type_url,
            subscribe: wire.subscribe,
            unsubscribe: wire.unsubscribe,
            initial_versions: initial.map(|(name, version)| (name, Version::parse(&version))).collect(),
            nonce: wire.nonce,
            error: wire.error.map(|status| status.message),
        }
    }
}

/// The lengths of a `resources` field (2) of `DeltaDiscoveryResponse` and of the `Any` in it.
struct Lengths {
    field: usize,
    any: usize,
}

impl Lengths {
    fn of(resource: &Resource, url: &[u8]) -> Self {
        let (body, name) = (resource.size(), resource.name.len());
        let any = header_len(2, body) + body + url.len();
        let version = header_len(1, Version::DIGITS) + Version::DIGITS;
        Self { field: version + header_len(3, name) + name + header_len(2, any) + any, any }
    }
}

/// Everything of a `resources` field down to the first byte of the resource's message. The type URL of its `Any` goes behind the
/// message ([`type_url_field`]).
fn put_resource_head(resource: &Resource, url: &[u8], into: &mut BytesMut) {
    let Lengths { field, any } = Lengths::of(resource, url);
    put_header(2, field, into);
    put_header(1, Version::DIGITS, into);
    into.extend_from_slice(&resource.version.digits());
    put_text(3, &resource.name, into);
    put_header(2, any, into);
    put_header(2, resource.size(), into);
}

/// About so many bytes stand around a resource's message besides its name: 34 of the version, some headers, and the type URL.
pub(crate) const AROUND: usize = 160;

/// `Any.type_url`.
fn type_url_field(type_url: &TypeUrl) -> BytesMut {
    let mut field = BytesMut::new();
    put_text(1, type_url.as_str(), &mut field);
    field
}

/// A response on its way out as one gRPC message. It is written step by step, so that what is between two chunks of a large one is a
/// place in it and not a list of its pieces.
pub(crate) struct Writing {
    response: Response,
    /// The type URL of its resources.
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

impl Writing {
    pub(crate) fn new(response: Response) -> Self {
        Self { url: type_url_field(&response.type_url), response, item: None, piece: 0 }
    }

    /// Writes the next part. Pieces of a body of `shared_from` bytes or more are not copied.
    pub(crate) fn step(&mut self, into: &mut BytesMut, shared_from: usize) -> Step {
        let Some(at) = self.item else {
            self.put_head(into);
            self.item = Some(0);
            return Step::More;
        };
        let Some(item) = self.response.puts.get(at) else { return Step::Done };
        let resource = &item.resource;
        if self.piece == 0 {
            put_resource_head(resource, &self.url, into);
            self.piece = 1;
        }
        while let Some(piece) = resource.body.get(self.piece - 1) {
            if piece.len() >= shared_from && !into.is_empty() {
                return Step::Flush;
            }
            self.piece += 1;
            if piece.len() >= shared_from {
                return Step::Large(piece.clone());
            }
            into.extend_from_slice(piece);
        }
        into.extend_from_slice(&self.url);
        (self.item, self.piece) = (Some(at + 1), 0);
        Step::More
    }

    /// The head of the gRPC message, and all fields but the resources.
    fn put_head(&self, into: &mut BytesMut) {
        let Self { response, url, .. } = self;
        let mut fields = BytesMut::new();
        put_text(4, response.type_url.as_str(), &mut fields);
        put_text(5, &response.nonce.to_string(), &mut fields);
        for name in &response.removed {
            put_text(6, name, &mut fields);
        }
        let size = |item: &Arc<Item>| {
            let Lengths { field, .. } = Lengths::of(&item.resource, url);
            header_len(2, field) + field
        };
        let length = fields.len() + response.puts.iter().map(size).sum::<usize>();
        into.reserve(fields.len() + 5);
        into.put_u8(0);
        into.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        into.extend_from_slice(&fields);
    }
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
