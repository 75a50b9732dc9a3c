//! The messages of the discovery service on the wire, only as much of them as a server needs.
//!
//! Requests are own slim messages: fields that are not listed are skipped, so that the 61 KB of a node's extensions are never
//! parsed. Responses are put together from a head per stream and the shared bytes of the resources.
//! Field numbers: `envoy/service/discovery/v3/discovery.proto`, `envoy/config/core/v3/base.proto`.

use std::collections::VecDeque;
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

impl DeltaRequest {
    /// Whether the client says in this message who it is.
    pub(crate) fn has_node(&self) -> bool {
        !self.node.is_empty()
    }

    /// Who the client says it is; an absent or unreadable node has empty names.
    pub(crate) fn node(&self) -> Node {
        let node = WireNode::decode(self.node.clone()).unwrap_or_default();
        Node { id: node.id.into(), cluster: node.cluster.into(), user_agent: node.user_agent.into() }
    }
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

/// Everything of a `resources` field (2) of `DeltaDiscoveryResponse` down to the first byte of the resource's message. The type URL
/// of its `Any` goes behind the message ([`type_url_field`]): it is the same for all, so that none keeps it.
pub(crate) fn resource_head(resource: &Resource) -> Bytes {
    let body = resource.size();
    let url = resource.type_url.as_str().len();
    let any = header_len(2, body) + body + header_len(1, url) + url;
    let mut texts = BytesMut::new();
    put_text(1, &resource.version.to_string(), &mut texts);
    put_text(3, &resource.name, &mut texts);
    let inner = texts.len() + header_len(2, any) + any;
    let mut head = BytesMut::with_capacity(header_len(2, inner) + inner - any + header_len(2, body));
    put_header(2, inner, &mut head);
    head.extend_from_slice(&texts);
    put_header(2, any, &mut head);
    put_header(2, body, &mut head);
    Bytes::from(Vec::from(head).into_boxed_slice())
}

/// `Any.type_url`.
fn type_url_field(type_url: &TypeUrl) -> Bytes {
    let mut field = BytesMut::new();
    put_text(1, type_url.as_str(), &mut field);
    field.freeze()
}

impl Response {
    /// The response as one gRPC message in pieces: its head, then for each resource its head, its body and its kind, shared.
    pub(crate) fn segments(&self, into: &mut VecDeque<Bytes>) {
        let mut fields = BytesMut::new();
        put_text(4, self.type_url.as_str(), &mut fields);
        put_text(5, &self.nonce.to_string(), &mut fields);
        for name in &self.removed {
            put_text(6, name, &mut fields);
        }
        let url = type_url_field(&self.type_url);
        let size = |item: &Arc<Item>| item.head.len() + item.resource.size() + url.len();
        let length = fields.len() + self.puts.iter().map(size).sum::<usize>();
        let mut head = BytesMut::with_capacity(fields.len() + 5);
        head.put_u8(0);
        head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        head.extend_from_slice(&fields);
        into.push_back(head.freeze());
        for item in &self.puts {
            into.push_back(item.head.clone());
            into.extend(item.resource.body.iter().cloned());
            into.push_back(url.clone());
        }
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
