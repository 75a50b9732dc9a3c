//! Requests as they travel, and what is in them: as much of each message as a server reads or a client writes. Other fields are
//! skipped; a node and its metadata stay bytes until somebody wants them. Text that a request may have much of is bytes here too, so
//! that it is shared with the message.

use std::fmt;

use bytes::Bytes;
use prost::Message;

/// `envoy.service.discovery.v3.DeltaDiscoveryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaDiscoveryRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) node: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) type_url: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) subscribe: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(crate) unsubscribe: Vec<Bytes>,
    /// Each an [`InitialVersion`].
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(crate) initial_versions: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "6")]
    pub(crate) nonce: Bytes,
    #[prost(message, optional, tag = "7")]
    pub(crate) error: Option<Status>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) subscribe_by_locator: Vec<Locator>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) unsubscribe_by_locator: Vec<Locator>,
}

/// An entry of `initial_resource_versions`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct InitialVersion {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) version: Bytes,
}

/// `envoy.service.discovery.v3.DiscoveryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DiscoveryRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) version: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) node: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) names: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) type_url: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) nonce: Bytes,
    #[prost(message, optional, tag = "6")]
    pub(crate) error: Option<Status>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) locators: Vec<Locator>,
}

/// `envoy.service.discovery.v3.ResourceLocator`: a name by which a client may choose among variants. There is one of each.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Locator {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) name: Bytes,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// Without its words, which may hold secrets.
impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status").field("code", &self.code).finish_non_exhaustive()
    }
}

/// `envoy.config.core.v3.Node`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) metadata: Option<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub(crate) locality: Option<Locality>,
    #[prost(string, tag = "6")]
    pub(crate) user_agent: String,
    #[prost(string, tag = "7")]
    pub(crate) user_agent_version: String,
    #[prost(message, optional, tag = "8")]
    pub(crate) build: Option<BuildVersion>,
    #[prost(string, repeated, tag = "10")]
    pub(crate) features: Vec<String>,
}

/// `envoy.config.core.v3.BuildVersion`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BuildVersion {
    #[prost(message, optional, tag = "1")]
    pub(crate) version: Option<SemanticVersion>,
}

/// `envoy.type.v3.SemanticVersion`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SemanticVersion {
    #[prost(uint32, tag = "1")]
    pub(crate) major: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) minor: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) patch: u32,
}

/// `envoy.config.core.v3.Locality`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Locality {
    #[prost(string, tag = "1")]
    pub(crate) region: String,
    #[prost(string, tag = "2")]
    pub(crate) zone: String,
    #[prost(string, tag = "3")]
    pub(crate) sub_zone: String,
}
