//! Requests.

use std::borrow::Cow;

use bytes::Bytes;
use hashbrown::HashSet;
use prost::{DecodeError, Message};

use super::message::{self, DeltaDiscoveryRequest, DiscoveryRequest, Locator, Status};
use super::{Request, Variant, WholeRequest};
use crate::event::{Features, Node};
use crate::names::canonical;
use crate::redact;
use crate::resource::Version;

/// Longest name that is read, in bytes: of clusters, kinds and nodes alike. Ours have at most some hundred; what a client asks for
/// is kept as long as its stream.
pub(crate) const LONGEST_NAME: usize = 4 << 10;

/// Of a longer refusal the beginning is read: Envoy says at most 4,110 bytes.
const LONGEST_REFUSAL: usize = 64 << 10;

/// A request of either variant.
pub(crate) enum Discovery {
    /// `envoy.service.discovery.v3.DeltaDiscoveryRequest`.
    Delta(DeltaDiscoveryRequest),
    /// `envoy.service.discovery.v3.DiscoveryRequest`.
    Sotw(DiscoveryRequest),
}

impl Discovery {
    /// Reads a request.
    pub(crate) fn decode(variant: Variant, bytes: Bytes) -> Result<Self, DecodeError> {
        Ok(match variant {
            Variant::Delta => Self::Delta(DeltaDiscoveryRequest::decode(bytes)?.with_all_names()),
            Variant::Sotw => Self::Sotw(DiscoveryRequest::decode(bytes)?.with_all_names()),
        })
    }

    /// The kind that it is about; empty on a stream for one kind.
    pub(crate) fn type_url(&self) -> &str {
        match self {
            Self::Delta(delta) => &delta.type_url,
            Self::Sotw(sotw) => &sotw.type_url,
        }
    }

    /// A stream for one kind need not say which.
    pub(crate) fn set_type_url(&mut self, type_url: &str) {
        let own = match self {
            Self::Delta(delta) => &mut delta.type_url,
            Self::Sotw(sotw) => &mut sotw.type_url,
        };
        type_url.clone_into(own);
    }

    /// Whether any name in this message is longer than [`LONGEST_NAME`].
    pub(crate) fn has_long_name(&self) -> bool {
        let long = |text: &String| text.len() > LONGEST_NAME;
        let node = self.node().is_some_and(|node| is_long(&node));
        node || self.type_url().len() > LONGEST_NAME
            || match self {
                Self::Delta(delta) => {
                    delta.subscribe.iter().chain(&delta.unsubscribe).chain(delta.initial_versions.keys()).any(long)
                }
                Self::Sotw(sotw) => sotw.names.iter().chain([&sotw.version]).any(long),
            }
    }

    /// How many names the longest list in this message has.
    pub(crate) fn longest_list(&self) -> usize {
        match self {
            Self::Delta(delta) => delta.subscribe.len().max(delta.unsubscribe.len()).max(delta.initial_versions.len()),
            Self::Sotw(sotw) => sotw.names.len(),
        }
    }

    /// Who the client says it is, if it says so in this message; a node that cannot be read has empty names.
    pub(crate) fn node(&self) -> Option<Node> {
        let node = match self {
            Self::Delta(delta) => &delta.node,
            Self::Sotw(sotw) => &sotw.node,
        };
        (!node.is_empty()).then(|| read_node(node))
    }
}

fn read_node(bytes: &Bytes) -> Node {
    message::Node::decode(bytes.clone()).unwrap_or_default().into()
}

impl From<message::Node> for Node {
    fn from(wire: message::Node) -> Self {
        let has = |feature: &str| wire.features.iter().any(|one| one == feature);
        let features = Features {
            ttl: has("xds.config.supports-resource-ttl"),
            wrapped_in_sotw: has("xds.config.resource-in-sotw"),
        };
        let [id, cluster, user_agent] = [wire.id, wire.cluster, wire.user_agent].map(redact::line);
        Self { id, cluster, user_agent, features }
    }
}

/// An `envoy.config.core.v3.Node` by itself, unless a name in it is longer than [`LONGEST_NAME`].
pub(crate) fn node(bytes: &Bytes) -> Option<Node> {
    Some(read_node(bytes)).filter(|node| !is_long(node))
}

fn is_long(node: &Node) -> bool {
    [&node.id, &node.cluster, &node.user_agent].into_iter().any(|text| text.len() > LONGEST_NAME)
}

/// One order for the parameters of structured names, and each name once.
fn put_in_order(names: &mut Vec<String>) {
    for name in names.iter_mut() {
        if let Cow::Owned(canonical) = canonical(name) {
            *name = canonical;
        }
    }
    let mut seen = HashSet::new();
    let are_new: Vec<bool> = names.iter().map(|name| seen.insert(name.as_str())).collect();
    drop(seen);
    if are_new.contains(&false) {
        let mut each = are_new.into_iter();
        names.retain(|_| each.next().unwrap_or(true));
        names.shrink_to_fit();
    }
}

/// The words of a refusal.
fn refusal(status: Status) -> String {
    let mut text = status.message;
    text.truncate(text.floor_char_boundary(LONGEST_REFUSAL));
    text
}

fn take_names(locators: &mut Vec<Locator>) -> impl Iterator<Item = String> {
    std::mem::take(locators).into_iter().map(|locator| locator.name)
}

impl DeltaDiscoveryRequest {
    fn with_all_names(mut self) -> Self {
        self.subscribe.extend(take_names(&mut self.subscribe_by_locator));
        self.unsubscribe.extend(take_names(&mut self.unsubscribe_by_locator));
        put_in_order(&mut self.subscribe);
        put_in_order(&mut self.unsubscribe);
        self
    }
}

impl DiscoveryRequest {
    fn with_all_names(mut self) -> Self {
        self.names.extend(take_names(&mut self.locators));
        put_in_order(&mut self.names);
        self
    }
}

impl From<DeltaDiscoveryRequest> for Request {
    fn from(wire: DeltaDiscoveryRequest) -> Self {
        let initial = wire.initial_versions.into_iter();
        Self {
            stream: 0,
            type_url: wire.type_url,
            subscribe: wire.subscribe,
            unsubscribe: wire.unsubscribe,
            initial_versions: initial
                .map(|(name, version)| (canonical(&name).into_owned(), Version::parse(&version)))
                .collect(),
            nonce: wire.nonce,
            error: wire.error.map(refusal),
        }
    }
}

impl From<DiscoveryRequest> for WholeRequest {
    fn from(wire: DiscoveryRequest) -> Self {
        Self {
            stream: 0,
            type_url: wire.type_url,
            names: wire.names,
            version: wire.version,
            nonce: wire.nonce,
            error: wire.error.map(refusal),
        }
    }
}
