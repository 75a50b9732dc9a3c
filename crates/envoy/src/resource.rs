//! What this crate hands out: a resource as shared bytes with its version and the resources that it needs.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ir::ClusterName;
use prost::Message;
use xxhash_rust::xxh3::xxh3_128;

use crate::write;

/// The type URLs of what this crate encodes, as xDS names them.
pub mod type_url {
    /// `envoy.config.listener.v3.Listener`, LDS.
    pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
    /// `envoy.config.route.v3.RouteConfiguration`, RDS.
    pub const ROUTE_CONFIGURATION: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
    /// `envoy.config.route.v3.VirtualHost`, VHDS.
    pub const VIRTUAL_HOST: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
    /// `envoy.config.cluster.v3.Cluster`, CDS.
    pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`, EDS.
    pub const LOAD_ASSIGNMENT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
    /// `envoy.extensions.transport_sockets.tls.v3.Secret`, SDS.
    pub const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    /// `envoy.config.route.v3.ScopedRouteConfiguration`, SRDS.
    pub const SCOPED_ROUTE: &str = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration";
    /// `envoy.service.runtime.v3.Runtime`, RTDS.
    pub const RUNTIME: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";
    /// `envoy.config.core.v3.TypedExtensionConfig`, ECDS.
    pub const EXTENSION_CONFIG: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";

    const ALL: [&str; 9] = [
        LISTENER,
        ROUTE_CONFIGURATION,
        VIRTUAL_HOST,
        CLUSTER,
        LOAD_ASSIGNMENT,
        SECRET,
        SCOPED_ROUTE,
        RUNTIME,
        EXTENSION_CONFIG,
    ];

    /// The one of a message, by the full name of that.
    pub fn of(message: &str) -> Option<&'static str> {
        ALL.into_iter().find(|url| url.strip_prefix("type.googleapis.com/") == Some(message))
    }
}

/// A resource's message (not the `Any` around it) in pieces: their concatenation is the message. The pieces are shared with
/// other resources and other clients and never copied.
pub type Body = Vec<Bytes>;

/// One Envoy resource.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    /// One of [`type_url`].
    pub type_url: &'static str,
    /// Unique in the fleet and type.
    pub name: Arc<str>,
    /// Hash of the content: equal content has an equal version on every replica and after every restart.
    pub version: u128,
    /// The message.
    pub body: Body,
    /// What must be there before this can serve; sorted, each once. Virtual hosts and route configurations need what their pieces
    /// need ([`EncodedPiece::clusters`]); that is not repeated here.
    pub needs: Vec<Need>,
    /// A route configuration whose hosts come by VHDS: the last piece of `body` is the field that says so.
    pub vhds: bool,
}

/// Another resource of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// One of [`type_url`].
    pub type_url: &'static str,
    /// Its name.
    pub name: Arc<str>,
}

/// Endpoints without the name of the cluster that they belong to: encoded once for all clusters of all fleets.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedSet {
    /// Fields of `ClusterLoadAssignment` but for `cluster_name`.
    pub bytes: Bytes,
    /// Of `bytes`.
    pub hash: u128,
}

/// A virtual host inside a route configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedHost {
    /// A `virtual_hosts` field of `RouteConfiguration`. The pieces of the host's routes are shared with other hosts.
    pub body: Body,
    /// The version that it has as a resource of its own.
    pub version: u128,
}

/// Some consecutive routes of a virtual host.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedPiece {
    /// `routes` fields of `VirtualHost`.
    pub bytes: Bytes,
    /// Of `bytes`.
    pub hash: u128,
    /// Where in `bytes` each route ends: what a later version of the piece takes over.
    pub ends: Arc<[u32]>,
    /// The clusters that the routes name; sorted, each once, without [`ClusterName::INVALID`].
    pub clusters: Arc<[ClusterName]>,
}

impl Encoded {
    /// A resource that is one message.
    pub(crate) fn whole(type_url: &'static str, name: Arc<str>, message: &impl Message, needs: Vec<Need>) -> Self {
        let bytes = Bytes::from(message.encode_to_vec());
        Self { type_url, name, version: xxh3_128(&bytes), body: vec![bytes], needs, vhds: false }
    }

    /// Length of the message in bytes.
    pub fn size(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}

/// Secrets have bodies too: only the size is shown.
impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoded")
            .field("type_url", &self.type_url)
            .field("name", &self.name)
            .field("version", &format_args!("{:032x}", self.version))
            .field("size", &self.size())
            .field("needs", &self.needs)
            .finish()
    }
}

impl fmt::Debug for EncodedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedSet({} bytes, {:032x})", self.bytes.len(), self.hash)
    }
}

impl fmt::Debug for EncodedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedHost({} parts, {:032x})", self.body.len(), self.version)
    }
}

impl fmt::Debug for EncodedPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedPiece({} bytes, {:032x}, {:?})", self.bytes.len(), self.hash, self.clusters)
    }
}

/// Sorts and removes repetitions and what never exists.
pub(crate) fn cluster_needs(mut clusters: Vec<ClusterName>) -> Vec<ClusterName> {
    clusters.retain(|cluster| cluster.as_str() != ClusterName::INVALID);
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

/// Sorts and removes repetitions.
pub(crate) fn sorted_needs(mut needs: Vec<Need>) -> Vec<Need> {
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// The version of a composite body: the hash of the hashes of its parts, in order.
pub(crate) struct Versions(Vec<u8>);

impl Versions {
    /// Of so many parts.
    pub(crate) fn of(parts: usize) -> Self {
        Self(Vec::with_capacity(parts * size_of::<u128>()))
    }

    /// A part of the body.
    pub(crate) fn part(&mut self, hash: u128) {
        self.0.extend_from_slice(&hash.to_le_bytes());
    }

    /// The version of the whole.
    pub(crate) fn version(&self) -> u128 {
        xxh3_128(&self.0)
    }
}

/// A message of which only the first field is set, a name: what stands before the rest of a resource.
pub(crate) fn named(name: &str) -> Bytes {
    let mut bytes = Vec::with_capacity(name.len() + 3);
    write::text(1, name, &mut bytes);
    Bytes::from(bytes.into_boxed_slice())
}
