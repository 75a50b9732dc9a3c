//! Resources as their authors wrote them, for workloads.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::name::EndpointSetName;

pub use power::{Power, PowerUse, Powers};
pub use rules::{RawAddress, RawRules, RawSocket};

mod power;
mod rules;

/// One of Envoy's resources by the full name of its message and its own name: `envoy.config.cluster.v3.Cluster`, `shop`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RawName {
    /// Full name of the message.
    pub message: &'static str,
    /// Its name, unique in the fleet among those of the message.
    pub name: Arc<str>,
}

impl RawName {
    /// What it is in a word, the last of its message's full name: `Cluster`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.message.rsplit('.').next().unwrap_or(self.message)
    }
}

/// A resource: checked, and complete but for what others have to bring.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct RawResource {
    /// What it is.
    #[serde(flatten)]
    pub id: RawName,
    /// Its canonical bytes, without parts and tail.
    #[serde(serialize_with = "length")]
    pub bytes: Arc<[u8]>,
    /// What it names: sorted, each once.
    #[serde(skip)]
    pub names: Vec<RawName>,
    /// Of what can be put together from several objects the items, by what must be unique among them.
    #[serde(skip)]
    pub parts: Vec<RawPart>,
    /// Whether it says anything besides its name and its parts.
    #[serde(skip)]
    pub says_more: bool,
    /// A field that has to come last: that the hosts of a route configuration come one by one.
    #[serde(skip)]
    pub tail: Option<Arc<[u8]>>,
    /// Of endpoints: those of a Service come along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointSetName>,
    /// A cluster that becomes ready when somebody else has answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slow: bool,
    /// Its uses of powers that only the operator may allow: sorted, each once.
    #[serde(skip)]
    pub uses: Vec<PowerUse>,
    /// The addresses to which it leads: sorted, each once.
    #[serde(skip)]
    pub addresses: Vec<RawAddress>,
    /// The addresses of this machine that it takes for itself: of a listener, and of connections that it opens. Sorted, each once.
    #[serde(skip)]
    pub bound: Vec<RawAddress>,
    /// The sockets of the file system that it uses: sorted, each once.
    #[serde(skip)]
    pub sockets: Vec<RawSocket>,
}

/// An item of a resource that can be put together from several objects: a virtual host of a route configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPart {
    /// Names that no other part of the resource may have, each with what it is: `virtual host a`, `domain b.example`.
    pub claims: Vec<Arc<str>>,
    /// Its field in the resource, as bytes with the tag.
    pub bytes: Arc<[u8]>,
}

/// What a workload gets under a name.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct RawOutput {
    /// The resource.
    #[serde(flatten)]
    pub resource: Arc<RawResource>,
    /// Its parts and those of other objects.
    #[serde(serialize_with = "count")]
    pub parts: Vec<Arc<[u8]>>,
    /// What it needs of what the workload gets.
    pub needs: Vec<RawName>,
}

/// What became of the text of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawReading {
    /// The resource, if it can be used.
    pub resource: Option<Arc<RawResource>>,
    /// What is wrong with it; empty if it can be used.
    pub errors: Vec<RawFault>,
    /// What it has that has no effect.
    pub ignored: Vec<RawFault>,
}

/// Something wrong with a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFault {
    /// Where in it, as written: `filterChains[0].filters[1].name`; empty for the whole.
    pub path: Box<str>,
    /// In words.
    pub text: Box<str>,
    /// The rule of the operator that it breaks; none where it is only wrong.
    pub refusal: Option<RawRefusal>,
}

/// A rule of the operator that a resource breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawRefusal {
    /// It leads to Chancery.
    OwnAddress,
    /// It leads to a link-local address or a metadata service.
    LinkLocal,
    /// It uses a power over the proxy's machine.
    Power,
    /// It uses a socket of Chancery or its proxies.
    Socket,
}

impl RawFault {
    /// A fault that breaks no rule.
    #[must_use]
    pub fn new(path: impl Into<Box<str>>, text: impl Into<Box<str>>) -> Self {
        Self { path: path.into(), text: text.into(), refusal: None }
    }

    /// The same as a refusal.
    #[must_use]
    pub fn refusing(self, refusal: RawRefusal) -> Self {
        Self { refusal: Some(refusal), ..self }
    }
}

/// Reads a resource: the full name of its message, its JSON form, and whether fields that the message does not have are wrong (`true`) or only without
/// effect. Whoever makes Envoy's resources knows how.
pub type ReadRaw = fn(&'static str, &serde_json::Value, bool) -> RawReading;

/// Bytes can hold keys.
fn length<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{} bytes", bytes.len()))
}

fn count<S: Serializer>(parts: &[Arc<[u8]>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(parts.len() as u64)
}

impl fmt::Debug for RawOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {} parts, needs {:?}", self.resource, self.parts.len(), self.needs)
    }
}

impl fmt::Debug for RawResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawResource({} {}, {} bytes)", self.id.message, self.id.name, self.bytes.len())
    }
}
