//! The messages of the discovery service as a client writes and reads them. The bodies of resources are never looked into, but for
//! the name of those that come without one.
//!
//! Field numbers: `envoy/service/discovery/v3/discovery.proto`, `envoy/config/core/v3/base.proto`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::Variant;
use super::config::ClientNode;
use crate::names::canonical;
use crate::resource::TypeUrl;
use crate::wire::message::{DeltaDiscoveryRequest, DiscoveryRequest, InitialVersion, Locality, Node, Status};
use crate::wire::read::LONGEST_NAME;

/// The type of a resource in a state-of-the-world response that is wrapped, so that it can have a time to live.
const WRAPPED: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

/// `INVALID_ARGUMENT`: the code of a refusal.
const INVALID: i32 = 3;

/// `NOT_FOUND` in `google.rpc.Status`.
const NOT_FOUND: i32 = 5;

/// What a server says in one message, of either protocol.
#[derive(Default)]
pub(super) struct Response {
    pub(super) type_url: String,
    /// State of the world: the version of the whole.
    pub(super) version: String,
    pub(super) nonce: String,
    pub(super) arrivals: Vec<Arrival>,
    /// Delta: what does not exist (any more).
    pub(super) removed: Vec<Arc<str>>,
    pub(super) errors: Vec<ResourceFailure>,
    /// Why resources of which not even the name is known are refused.
    pub(super) unnamed: Vec<String>,
}

/// One resource of a response.
pub(super) struct Arrival {
    pub(super) name: Arc<str>,
    pub(super) version: String,
    pub(super) content: Content,
    pub(super) ttl: Option<Duration>,
}

pub(super) enum Content {
    Body(Bytes),
    /// Only its lifetime is extended.
    Heartbeat,
    /// It cannot be read, for this reason.
    Broken(String),
}

/// What a server says about a resource that it cannot give.
pub(super) struct ResourceFailure {
    pub(super) name: Arc<str>,
    pub(super) not_found: bool,
    pub(super) text: String,
}

/// A request that can be written in either protocol.
#[derive(Default)]
pub(super) struct Request {
    /// The encoded node; empty if it has been said.
    pub(super) node: Bytes,
    pub(super) type_url: String,
    /// Delta: names that are new; state of the world: all names.
    pub(super) subscribe: Vec<String>,
    /// Delta only.
    pub(super) unsubscribe: Vec<String>,
    /// Delta only: what is held at the beginning of a stream, with its versions.
    pub(super) initial: BTreeMap<String, String>,
    /// State of the world only: the version that was accepted last.
    pub(super) version: String,
    pub(super) nonce: String,
    /// Why the response with this nonce is refused.
    pub(super) error: Option<String>,
}

impl Request {
    /// The message.
    pub(super) fn encode(self, variant: Variant) -> Bytes {
        let error = self.error.map(|message| Status { code: INVALID, message });
        let names = |names: Vec<String>| names.into_iter().map(Bytes::from).collect();
        let entry = |(name, version): (String, String)| {
            InitialVersion { name: name.into(), version: version.into() }.encode_to_vec().into()
        };
        match variant {
            Variant::Delta => DeltaDiscoveryRequest {
                node: self.node,
                type_url: self.type_url.into(),
                subscribe: names(self.subscribe),
                unsubscribe: names(self.unsubscribe),
                initial_versions: self.initial.into_iter().map(entry).collect(),
                nonce: self.nonce.into(),
                error,
                ..DeltaDiscoveryRequest::default()
            }
            .encode_to_vec(),
            Variant::Sotw => DiscoveryRequest {
                version: self.version.into(),
                node: self.node,
                names: names(self.subscribe),
                type_url: self.type_url.into(),
                nonce: self.nonce.into(),
                error,
                ..DiscoveryRequest::default()
            }
            .encode_to_vec(),
        }
        .into()
    }
}

/// A `Node` with these features.
pub(super) fn node(node: &ClientNode, features: Vec<String>) -> Bytes {
    let ClientNode { id, cluster, user_agent, region, zone, sub_zone, metadata } = node.clone();
    let known = [&region, &zone, &sub_zone].into_iter().any(|part| !part.is_empty());
    let locality = known.then_some(Locality { region, zone, sub_zone });
    let metadata = (!metadata.is_empty()).then_some(metadata);
    Node { id, cluster, metadata, locality, user_agent, features, ..Node::default() }.encode_to_vec().into()
}

/// Reads a response of either protocol.
///
/// # Errors
/// It is no such message.
pub(super) fn decode(variant: Variant, bytes: Bytes) -> Result<Response, prost::DecodeError> {
    match variant {
        Variant::Delta => DeltaDiscoveryResponse::decode(bytes).map(delta),
        Variant::Sotw => DiscoveryResponse::decode(bytes).map(sotw),
    }
}

fn delta(wire: DeltaDiscoveryResponse) -> Response {
    let mut response = Response {
        type_url: wire.type_url,
        nonce: wire.nonce,
        removed: wire.removed.iter().map(|name| canonical(name).into()).collect(),
        errors: wire.errors.into_iter().filter_map(failure).collect(),
        ..Response::default()
    };
    for resource in wire.resources {
        let arrived = arrival(&response.type_url, resource, "");
        put(&mut response, arrived);
    }
    response
}

fn sotw(wire: DiscoveryResponse) -> Response {
    let mut response = Response {
        type_url: wire.type_url,
        version: wire.version,
        nonce: wire.nonce,
        errors: wire.errors.into_iter().filter_map(failure).collect(),
        ..Response::default()
    };
    for any in wire.resources {
        let arrived = if any.type_url == WRAPPED {
            match Resource::decode(any.value) {
                Ok(resource) => arrival(&response.type_url, resource, &response.version),
                Err(error) => Err(format!("not a Resource: {error}")),
            }
        } else {
            arrival(&response.type_url, Resource { any: Some(any), ..Resource::default() }, &response.version)
        };
        put(&mut response, arrived);
    }
    response
}

fn put(response: &mut Response, arrived: Result<Arrival, String>) {
    match arrived {
        Ok(arrival) => response.arrivals.push(arrival),
        Err(reason) => response.unnamed.push(reason),
    }
}

/// One resource; or why not even its name is known.
fn arrival(type_url: &str, resource: Resource, version: &str) -> Result<Arrival, String> {
    let Resource { name, version: own, any, ttl } = resource;
    let ttl = ttl.map(WireDuration::span);
    let content = match any {
        None if ttl.is_some() => Content::Heartbeat,
        None => Content::Broken("it has no content".into()),
        Some(any) if any.type_url != type_url => Content::Broken(format!("it is a {:?}", any.type_url)),
        Some(any) => Content::Body(any.value),
    };
    let name = match (&content, name.is_empty()) {
        (Content::Body(body), true) => name_inside(body)?,
        (_, true) => return Err("a resource has no name".into()),
        (_, false) => name,
    };
    if name.len() > LONGEST_NAME {
        return Err(format!("a name is longer than {LONGEST_NAME} bytes"));
    }
    let version = if own.is_empty() { version.to_owned() } else { own };
    Ok(Arrival { name: canonical(&name).into(), version, content, ttl })
}

/// The name in the resource itself: field 1 of every kind that can be asked for.
fn name_inside(body: &Bytes) -> Result<String, String> {
    let named = Named::decode(body.clone()).map_err(|error| format!("a resource cannot be read: {error}"))?;
    if named.name.is_empty() { Err("a resource has no name".into()) } else { Ok(named.name) }
}

fn failure(wire: ResourceError) -> Option<ResourceFailure> {
    let (name, status) = (wire.resource?.name, wire.error.unwrap_or_default());
    let text = format!("{} (code {})", status.message, status.code);
    Some(ResourceFailure { name: canonical(&name).into(), not_found: status.code == NOT_FOUND, text })
}

/// `envoy.service.discovery.v3.DeltaDiscoveryResponse`.
#[derive(Clone, PartialEq, Message)]
struct DeltaDiscoveryResponse {
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Resource>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(string, repeated, tag = "6")]
    removed: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    errors: Vec<ResourceError>,
}

/// `envoy.service.discovery.v3.DiscoveryResponse`.
#[derive(Clone, PartialEq, Message)]
struct DiscoveryResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Any>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(message, repeated, tag = "7")]
    errors: Vec<ResourceError>,
}

/// `envoy.service.discovery.v3.Resource`.
#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, optional, tag = "2")]
    any: Option<Any>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(message, optional, tag = "6")]
    ttl: Option<WireDuration>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WireDuration {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

impl WireDuration {
    /// The time; nothing for a negative one.
    pub(super) fn span(self) -> Duration {
        let nanos = u32::try_from(self.nanos).unwrap_or(0).min(999_999_999);
        Duration::new(u64::try_from(self.seconds).unwrap_or(0), nanos)
    }
}

impl From<Duration> for WireDuration {
    fn from(time: Duration) -> Self {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default() }
    }
}

/// `envoy.service.discovery.v3.ResourceError`.
#[derive(Clone, PartialEq, Message)]
struct ResourceError {
    #[prost(message, optional, tag = "1")]
    resource: Option<Named>,
    #[prost(message, optional, tag = "2")]
    error: Option<Status>,
}

/// Any message whose field 1 is its name.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

impl Response {
    /// The kind of a response.
    pub(super) fn kind(&self) -> TypeUrl {
        TypeUrl::from(self.type_url.as_str())
    }
}
