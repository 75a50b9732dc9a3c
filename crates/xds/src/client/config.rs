//! What a client is told once: who it is, whom it asks, and how long it waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::message;

/// Which of the two aggregated protocols is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// `DeltaAggregatedResources`: only what changed travels.
    Delta,
    /// `StreamAggregatedResources`, the state of the world: all listeners and clusters with every change of one.
    Sotw,
}

impl Variant {
    /// The path of the gRPC method.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Delta => "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
            Self::Sotw => "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
        }
    }
}

/// Who the client says it is: `envoy.config.core.v3.Node`, said once per stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNode {
    /// `id`, unique among the clients of a server.
    pub id: String,
    /// `cluster`: the group that it belongs to.
    pub cluster: String,
    /// `user_agent_name`.
    pub user_agent: String,
    /// `locality.region`; empty if not known, as the two below.
    pub region: String,
    /// `locality.zone`.
    pub zone: String,
    /// `locality.sub_zone`.
    pub sub_zone: String,
    /// `metadata`: an encoded `google.protobuf.Struct`; empty for none.
    pub metadata: Bytes,
}

/// How long is waited before a server is tried again: at first up to `base`, then up to twice as long each time, up to `max`. Each
/// pause is drawn from the upper half of its range, so that clients which lost the same server do not come back at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffRange {
    /// Longest first pause.
    pub base: Duration,
    /// Longest pause.
    pub max: Duration,
}

/// What our own bootstrap tells Envoy (R17).
impl Default for BackoffRange {
    fn default() -> Self {
        Self { base: Duration::from_millis(100), max: Duration::from_secs(1) }
    }
}

/// See the module. Times are durations since one arbitrary moment, the same for all calls.
#[derive(Clone, Debug)]
pub struct Config {
    /// The protocol.
    pub variant: Variant,
    /// Who the client is.
    pub node: ClientNode,
    /// Names of the servers, the best first. What a name means is the business of whoever connects.
    pub servers: Vec<Arc<str>>,
    /// Pauses between attempts, per server.
    pub backoff: BackoffRange,
    /// How long a connection may take until its stream is open.
    pub connect_timeout: Duration,
    /// How long after it was asked for a resource that has not come counts as absent.
    pub resource_timeout: Duration,
    /// Resources may have a time to live (`xds.config.supports-resource-ttl` is announced, heartbeats are understood).
    pub ttl: bool,
    /// A version means the same at every server: it is a hash of the content, as Chancery's is. If not, what the client holds is
    /// sent anew by each server that is not the one it came from.
    pub shared_versions: bool,
    /// Where the pauses' randomness starts from; another value for each client.
    pub seed: u64,
}

impl Config {
    /// A delta client of these servers with the usual times.
    #[must_use]
    pub fn new(node: ClientNode, servers: Vec<Arc<str>>, seed: u64) -> Self {
        Self {
            variant: Variant::Delta,
            node,
            servers,
            backoff: BackoffRange::default(),
            connect_timeout: Duration::from_secs(10),
            // gRPC's (gRFC A57)
            resource_timeout: Duration::from_secs(15),
            ttl: false,
            shared_versions: false,
            seed,
        }
    }

    /// The features of the protocol that this client understands.
    fn features(&self) -> Vec<String> {
        // wrapped resources have two names: Envoy's and gRPC's
        let mut features =
            vec!["xds.config.supports-resource-in-sotw".to_owned(), "xds.config.resource-in-sotw".into()];
        if self.ttl {
            features.push("xds.config.supports-resource-ttl".into());
        }
        features
    }

    /// The node as it is sent.
    pub(super) fn encoded_node(&self) -> Bytes {
        message::node(&self.node, self.features())
    }
}
