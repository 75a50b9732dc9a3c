//! Requests.

use std::borrow::Cow;
use std::str::Utf8Error;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;
use prost::{DecodeError, Message};
use prost_types::value::Kind;

use super::message::{self, DeltaDiscoveryRequest, DiscoveryRequest, InitialVersion, Locator, SemanticVersion, Status};
use super::{Request, Text, Variant, WholeRequest};
use crate::event::{Features, Node};
use crate::names::canonical;
use crate::redact;
use crate::resource::Version;

/// Longest name that is read, in bytes: of clusters, kinds and nodes alike. Ours have at most some hundred; what a client asks for
/// is kept as long as its stream.
pub(crate) const LONGEST_NAME: usize = 4 << 10;

/// Of a longer refusal the beginning is read: Envoy says at most 4,110 bytes.
const LONGEST_REFUSAL: usize = 64 << 10;

/// A message of a client.
pub(crate) struct Discovery {
    /// Who the client says it is, if it says so in this message; a node that cannot be read has empty names.
    pub(crate) node: Option<Node>,
    pub(crate) said: Said,
}

/// What else it says, in either variant.
pub(crate) enum Said {
    Delta(Request),
    Sotw(WholeRequest),
}

/// Why a message is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Message(#[from] DecodeError),
    #[error(transparent)]
    Text(#[from] Utf8Error),
}

impl Discovery {
    /// Reads a message, which is not copied.
    pub(crate) fn decode(variant: Variant, bytes: Bytes) -> Result<Self, Unreadable> {
        let (node, said) = match variant {
            Variant::Delta => {
                let mut delta = DeltaDiscoveryRequest::decode(bytes)?;
                (std::mem::take(&mut delta.node), Said::Delta(delta.try_into()?))
            }
            Variant::Sotw => {
                let mut sotw = DiscoveryRequest::decode(bytes)?;
                (std::mem::take(&mut sotw.node), Said::Sotw(sotw.try_into()?))
            }
        };
        Ok(Self { node: (!node.is_empty()).then(|| read_node(node)), said })
    }

    /// The kind that it is about; empty on a stream for one kind.
    pub(crate) fn type_url(&self) -> &str {
        match &self.said {
            Said::Delta(delta) => &delta.type_url,
            Said::Sotw(sotw) => &sotw.type_url,
        }
    }

    /// A stream for one kind need not say which.
    pub(crate) fn set_type_url(&mut self, type_url: &str) {
        let own = match &mut self.said {
            Said::Delta(delta) => &mut delta.type_url,
            Said::Sotw(sotw) => &mut sotw.type_url,
        };
        *own = type_url.into();
    }

    /// Whether any name in this message is longer than [`LONGEST_NAME`].
    pub(crate) fn has_long_name(&self) -> bool {
        let long = |text: &Text| text.len() > LONGEST_NAME;
        self.node.as_ref().is_some_and(is_long)
            || self.type_url().len() > LONGEST_NAME
            || match &self.said {
                Said::Delta(delta) => {
                    let held = delta.initial_versions.iter().map(|(name, _)| name);
                    delta.subscribe.iter().chain(&delta.unsubscribe).chain(held).any(long)
                }
                Said::Sotw(sotw) => sotw.names.iter().chain([&sotw.version]).any(long),
            }
    }

    /// How many names there are in this message.
    pub(crate) fn names(&self) -> usize {
        match &self.said {
            Said::Delta(delta) => delta.subscribe.len() + delta.unsubscribe.len() + delta.initial_versions.len(),
            Said::Sotw(sotw) => sotw.names.len(),
        }
    }

    /// Whether it may be the first of a kind, which is answered with all that there is. It answers nothing.
    pub(crate) fn begins(&self) -> bool {
        match &self.said {
            Said::Delta(delta) => delta.nonce.is_empty() && delta.unsubscribe.is_empty(),
            Said::Sotw(sotw) => sotw.nonce.is_empty(),
        }
    }

    /// How many names the longest list in this message has.
    pub(crate) fn longest_list(&self) -> usize {
        match &self.said {
            Said::Delta(delta) => delta.subscribe.len().max(delta.unsubscribe.len()).max(delta.initial_versions.len()),
            Said::Sotw(sotw) => sotw.names.len(),
        }
    }
}

fn read_node(bytes: Bytes) -> Node {
    message::Node::decode(bytes).unwrap_or_default().into()
}

impl From<message::Node> for Node {
    fn from(wire: message::Node) -> Self {
        let has = |feature: &str| wire.features.iter().any(|one| one == feature);
        let features = Features {
            ttl: has("xds.config.supports-resource-ttl"),
            wrapped_in_sotw: has("xds.config.resource-in-sotw"),
        };
        let version = match wire.build.and_then(|build| build.version) {
            Some(SemanticVersion { major, minor, patch }) => format!("{major}.{minor}.{patch}"),
            None => wire.user_agent_version,
        };
        let [id, cluster, user_agent, version] = [wire.id, wire.cluster, wire.user_agent, version].map(redact::line);
        let labels = wire.metadata.map(labels).unwrap_or_default();
        Self { id, cluster, user_agent, version, labels, features }
    }
}

/// So many labels are read, each with a name and a value of so many bytes at most: a prefix of 253, a slash and 63 more; 63.
const MOST_LABELS: usize = 64;
const LONGEST_LABEL: (usize, usize) = (317, 63);

/// `labels` of a node's metadata, sorted by name.
fn labels(metadata: Bytes) -> Arc<[(Arc<str>, Arc<str>)]> {
    let mut metadata = prost_types::Struct::decode(metadata).unwrap_or_default();
    let Some(Kind::StructValue(labels)) = metadata.fields.remove("labels").and_then(|value| value.kind) else {
        return Arc::default();
    };
    let fits = |name: &str, value: &str| name.len() <= LONGEST_LABEL.0 && value.len() <= LONGEST_LABEL.1;
    let texts = labels.fields.into_iter().filter_map(|(name, value)| match value.kind {
        Some(Kind::StringValue(value)) if fits(&name, &value) => Some((name.into(), value.into())),
        _ => None,
    });
    texts.take(MOST_LABELS).collect()
}

/// An `envoy.config.core.v3.Node` by itself, unless a name in it is longer than [`LONGEST_NAME`].
pub(crate) fn node(bytes: Bytes) -> Option<Node> {
    Some(read_node(bytes)).filter(|node| !is_long(node))
}

fn is_long(node: &Node) -> bool {
    [&node.id, &node.cluster, &node.user_agent, &node.version].into_iter().any(|text| text.len() > LONGEST_NAME)
}

/// Names with their parameters in one order, and each once.
fn names(mut names: Vec<Bytes>, locators: Vec<Locator>) -> Result<Vec<Text>, Unreadable> {
    names.extend(locators.into_iter().map(|locator| locator.name));
    let mut names = names.into_iter().map(name).collect::<Result<Vec<Text>, Utf8Error>>()?;
    let mut seen = HashSet::new();
    let are_new: Vec<bool> = names.iter().map(|name| seen.insert(&**name)).collect();
    drop(seen);
    if are_new.contains(&false) {
        let mut each = are_new.into_iter();
        names.retain(|_| each.next().unwrap_or(true));
        names.shrink_to_fit();
    }
    Ok(names)
}

/// One order for the parameters of a structured name.
fn name(bytes: Bytes) -> Result<Text, Utf8Error> {
    let name = Text::try_from(bytes)?;
    if let Cow::Owned(canonical) = canonical(&name) {
        return Ok(canonical.into());
    }
    Ok(name)
}

/// What a client holds. Of a name that is repeated the last counts, as in any map on the wire.
fn versions(entries: Vec<Bytes>) -> Result<Vec<(Text, Option<Version>)>, Unreadable> {
    let (mut seen, mut versions) = (HashSet::new(), Vec::new());
    for entry in entries.into_iter().rev() {
        let entry = InitialVersion::decode(entry)?;
        let (name, version) = (name(entry.name)?, Text::try_from(entry.version)?);
        if seen.insert(name.clone()) {
            versions.push((name, Version::parse(&version)));
        }
    }
    versions.reverse();
    Ok(versions)
}

/// The words of a refusal.
fn refusal(status: Status) -> String {
    let mut text = status.message;
    text.truncate(text.floor_char_boundary(LONGEST_REFUSAL));
    text
}

impl TryFrom<DeltaDiscoveryRequest> for Request {
    type Error = Unreadable;

    fn try_from(wire: DeltaDiscoveryRequest) -> Result<Self, Unreadable> {
        Ok(Self {
            stream: 0,
            type_url: wire.type_url.try_into()?,
            subscribe: names(wire.subscribe, wire.subscribe_by_locator)?,
            unsubscribe: names(wire.unsubscribe, wire.unsubscribe_by_locator)?,
            initial_versions: versions(wire.initial_versions)?,
            nonce: wire.nonce.try_into()?,
            error: wire.error.map(refusal),
        })
    }
}

impl TryFrom<DiscoveryRequest> for WholeRequest {
    type Error = Unreadable;

    fn try_from(wire: DiscoveryRequest) -> Result<Self, Unreadable> {
        Ok(Self {
            stream: 0,
            type_url: wire.type_url.try_into()?,
            names: names(wire.names, wire.locators)?,
            version: wire.version.try_into()?,
            nonce: wire.nonce.try_into()?,
            error: wire.error.map(refusal),
        })
    }
}
