//! Clusters: where a backend's endpoints come from and how one talks to them.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::name::{ClusterName, EndpointSetName, SecretName};

/// One backend as a fleet sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Unique in the fleet.
    pub name: ClusterName,
    /// Where the endpoints come from.
    pub endpoints: EndpointSource,
    /// What the endpoints speak.
    pub protocol: Protocol,
    /// TLS to the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<UpstreamTls>>,
    /// Limits; each `None` is our raised default, and none at all is what nearly every cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<Box<CircuitBreaker>>,
    /// `None` is our default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Duration>,
}

/// Where endpoints come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointSource {
    /// Delivered apart, as [`Endpoints`] of this name.
    Discovered(EndpointSetName),
    /// Names that the proxy resolves; every address found is an endpoint, and without a name there is none.
    Dns(Vec<DnsEndpoint>),
}

impl EndpointSource {
    /// The set that is delivered apart, if there is one.
    pub fn set(&self) -> Option<&EndpointSetName> {
        match self {
            Self::Discovered(set) => Some(set),
            Self::Dns(_) => None,
        }
    }
}

/// A name to resolve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DnsEndpoint {
    /// A host name or an IP address.
    pub host: Arc<str>,
    /// 1 to 65535.
    pub port: u16,
    /// The zone it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
}

/// What an upstream connection speaks. TLS is apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// HTTP/1.1, upgrades (WebSocket) included.
    #[default]
    Http1,
    /// HTTP/2; in cleartext by prior knowledge.
    Http2,
}

/// TLS towards a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct UpstreamTls {
    /// Server name sent, and verified unless there are `subject_alt_names`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<Arc<str>>,
    /// Of these names the certificate must have one, in place of the server name; none: that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subject_alt_names: Vec<SubjectAltName>,
    /// Which certificates are believed.
    pub trust: Trust,
    /// The client certificate to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecretName>,
}

impl UpstreamTls {
    /// TLS with whoever answers.
    #[must_use]
    pub fn unverified() -> Self {
        Self { server_name: None, subject_alt_names: Vec::new(), trust: Trust::Anything, certificate: None }
    }
}

/// A name that a certificate has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectAltName {
    /// A host name, or `*.` and one for those with one label more.
    Dns(Arc<str>),
    /// A URI.
    Uri(Arc<str>),
}

/// Which server certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// Any: the user asked for no verification.
    Anything,
    /// The operating system's bundle.
    System,
    /// This bundle.
    Bundle(SecretName),
}

/// Limits per cluster and proxy (`BackendTrafficPolicy.spec.circuitBreaker`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CircuitBreaker {
    /// Upstream connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Requests that wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending_requests: Option<u32>,
    /// Requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_requests: Option<u32>,
    /// Retries in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_retries: Option<u32>,
    /// Requests on one connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests_per_connection: Option<u32>,
    /// Connections to each endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections_per_endpoint: Option<u32>,
    /// In place of `max_parallel_retries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
}

/// Which share of the requests may be retries (`XBackendTrafficPolicy.spec.retryConstraint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetryBudget {
    /// 0 to 100.
    pub percent: u8,
    /// Requests count for so long, 1 s to 1 h.
    pub interval: Duration,
    /// So many retries at a time there may be whatever the share is.
    pub min_parallel_retries: u32,
}

/// A set of endpoints, the same for every fleet and cluster that reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Endpoints {
    /// Unique.
    pub name: EndpointSetName,
    /// Sorted by priority, then zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub localities: Vec<Locality>,
}

/// Endpoints in one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Locality {
    /// The zone, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// 0 first; the next is used when too few of the former are healthy.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: u32,
    /// Sorted by address.
    pub endpoints: Vec<Endpoint>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Endpoint {
    /// Where.
    pub address: Address,
    /// Whether new requests may go there.
    #[serde(skip_serializing_if = "Health::is_healthy")]
    pub health: Health,
    /// Its share among those of its set; none: 1. All of a set are 4,294,967,295 together at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<NonZeroU32>,
}

impl Endpoint {
    /// One that takes new requests, as many as any other.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, health: Health::Healthy, weight: None }
    }
}

/// Where an endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Address {
    /// An IP address and a port of 1 to 65535.
    Ip(IpAddr, u16),
    /// A Unix domain socket's path.
    Unix(Arc<str>),
}

/// What is known of an endpoint's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// Takes requests.
    #[default]
    Healthy,
    /// Ends soon: keeps what it has, takes new requests only where nothing else is left.
    Draining,
}

impl Health {
    fn is_healthy(&self) -> bool {
        *self == Self::Healthy
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
