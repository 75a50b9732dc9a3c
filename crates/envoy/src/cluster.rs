//! Clusters: where endpoints come from, how one talks to them, and how much of it at a time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use ir::cluster::{CircuitBreaker, DnsEndpoint, Protocol, Trust};
use ir::{Cluster, EndpointSource, Endpoints};
use prost::Message;
use proto::envoy::config::cluster::v3 as cluster;
use proto::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use proto::envoy::config::cluster::v3::circuit_breakers::thresholds::RetryBudget;
use proto::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, CustomClusterType, DiscoveryType, EdsClusterConfig, LbPolicy,
};
use proto::envoy::config::core::v3::{
    ConfigSource, HealthStatus, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, TcpKeepalive,
    UpstreamHttpProtocolOptions,
};
use proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};
use proto::envoy::extensions::clusters::common::dns::v3::DnsLookupFamily;
use proto::envoy::extensions::clusters::dns::v3::DnsCluster;
use proto::envoy::extensions::clusters::dns::v3::dns_cluster::RefreshRate;
use proto::envoy::extensions::upstreams::http::v3 as upstream;
use proto::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
};
use proto::envoy::r#type::v3::Percent;
use proto::google::protobuf::Any;
use xxhash_rust::xxh3::xxh3_128;

use crate::endpoints::{self, lb_endpoint, zone};
use crate::listener::CONNECTION_BUFFER;
use crate::resource::{Encoded, Need, Versions, named, sorted_needs, type_url};
use crate::tls::{SecretSource, upstream as upstream_tls, upstream_needs};
use crate::wire::{ads, duration, host_address, seconds};

/// A connection must be made in this time unless the user says another.
const CONNECT_SECONDS: u32 = 10;
/// A new cluster whose endpoints do not come serves without any after this time. Only a net: endpoints are sent in the same write
/// as the cluster. It must be longer than Envoy may need for a whole configuration: the time runs from the beginning of a response,
/// and 50,000 clusters take it 9 s before it looks at any endpoints.
const ENDPOINTS_SECONDS: u32 = 60;
/// How often a name is looked up again whose records have no lifetime, and the pause after a failure, first and last.
const DNS_REFRESH_SECONDS: u32 = 5;
const DNS_RETRY_SECONDS: (u32, u32) = (1, 10);

/// Connections that a cluster may have: a proxy whose backends lead back to it, over another proxy or a name, makes one for each hop. A machine has 28,232
/// ports for connections to one address (`ip_local_port_range`), which its other programs need too: this leaves them 11,848. Envoy's own limit of
/// 1,024 is one that a healthy backend reaches; one connection of HTTP/2 carries 100 requests and more.
pub const DEFAULT_CONNECTIONS: u32 = 1 << 14;
/// Waiting requests and requests in flight that a cluster may have: in effect no limit. What a proxy holds is bounded by its limit of client
/// connections.
pub const DEFAULT_LIMIT: u32 = 1 << 20;
/// Retries in flight (Envoy's limit is 3): enough for a burst, too few for a storm.
pub const DEFAULT_RETRY_LIMIT: u32 = 1024;

/// A cluster. It needs its endpoints, which have its name, and its secrets.
pub fn cluster(cluster: &Cluster) -> Encoded {
    let mut needs: Vec<Need> = cluster.tls.iter().flat_map(|tls| upstream_needs(tls)).collect();
    let discovery = match &cluster.endpoints {
        EndpointSource::Discovered(_) => {
            needs.push(Need { type_url: type_url::LOAD_ASSIGNMENT, name: cluster.name.0.clone() });
            if is_plain(cluster) {
                return plain(cluster, needs);
            }
            discovered()
        }
        EndpointSource::Dns(names) => dns(cluster, names),
    };
    let message = message(cluster, discovery, SecretSource::Ads);
    Encoded::whole(type_url::CLUSTER, cluster.name.0.clone(), &message, sorted_needs(needs))
}

/// Nothing but the name tells it from others with discovered endpoints and the same protocol, as with nearly every cluster.
fn is_plain(cluster: &Cluster) -> bool {
    cluster.tls.is_none() && cluster.circuit_breaker.is_none() && cluster.connect_timeout.is_none()
}

/// The name, and behind it what all plain clusters share.
fn plain(cluster: &Cluster, needs: Vec<Need>) -> Encoded {
    static HTTP1: LazyLock<(Bytes, u128)> = LazyLock::new(|| rest_of_plain(Protocol::Http1));
    static HTTP2: LazyLock<(Bytes, u128)> = LazyLock::new(|| rest_of_plain(Protocol::Http2));
    let (rest, hash) = match cluster.protocol {
        Protocol::Http1 => &*HTTP1,
        Protocol::Http2 => &*HTTP2,
    };
    let head = named(cluster.name.as_str());
    let mut versions = Versions::of(2);
    versions.part(xxh3_128(&head));
    versions.part(*hash);
    let (name, version) = (cluster.name.0.clone(), versions.version());
    Encoded { type_url: type_url::CLUSTER, name, version, body: vec![head, rest.clone()], needs, vhds: false }
}

/// A plain cluster without its name, which is its first field, and the hash of that.
fn rest_of_plain(protocol: Protocol) -> (Bytes, u128) {
    let nameless = Cluster {
        name: "".into(),
        endpoints: EndpointSource::Discovered("".into()),
        protocol,
        tls: None,
        circuit_breaker: None,
        connect_timeout: None,
    };
    let bytes = Bytes::from(message(&nameless, discovered(), SecretSource::Ads).encode_to_vec());
    (bytes.clone(), xxh3_128(&bytes))
}

/// The endpoints are a resource of their own.
fn discovered() -> Discovery {
    let kind = ClusterDiscoveryType::Type(DiscoveryType::Eds as i32);
    Discovery { kind, eds: Some(eds()), assignment: None }
}

/// A cluster with its endpoints and secrets in the same bootstrap.
pub(crate) fn static_message(cluster: &Cluster, endpoints: Option<&Endpoints>) -> cluster::Cluster {
    let discovery = match &cluster.endpoints {
        EndpointSource::Discovered(_) => Discovery {
            kind: ClusterDiscoveryType::Type(DiscoveryType::Static as i32),
            eds: None,
            assignment: Some(endpoints.map_or_else(
                || ClusterLoadAssignment { cluster_name: cluster.name.as_str().to_owned(), ..Default::default() },
                |set| endpoints::message(cluster.name.as_str(), set),
            )),
        },
        EndpointSource::Dns(names) => dns(cluster, names),
    };
    message(cluster, discovery, SecretSource::Static)
}

/// Where the endpoints come from.
struct Discovery {
    kind: ClusterDiscoveryType,
    eds: Option<EdsClusterConfig>,
    assignment: Option<ClusterLoadAssignment>,
}

/// The name of the endpoints is that of the cluster: each cluster has its own, which is the witness that it is warm.
fn eds() -> EdsClusterConfig {
    let eds_config = ConfigSource { initial_fetch_timeout: Some(seconds(ENDPOINTS_SECONDS)), ..ads() };
    EdsClusterConfig { eds_config: Some(eds_config), service_name: String::new() }
}

fn dns(cluster: &Cluster, names: &[DnsEndpoint]) -> Discovery {
    let assignment = ClusterLoadAssignment {
        cluster_name: cluster.name.as_str().to_owned(),
        endpoints: names.iter().map(dns_endpoint).collect(),
        ..ClusterLoadAssignment::default()
    };
    Discovery { kind: dns_cluster(), eds: None, assignment: Some(assignment) }
}

fn dns_endpoint(name: &DnsEndpoint) -> LocalityLbEndpoints {
    let address = host_address(name.host.as_ref().to_owned(), name.port);
    LocalityLbEndpoints {
        locality: name.zone.as_deref().map(zone),
        lb_endpoints: vec![lb_endpoint(address, HealthStatus::Unknown)],
        ..LocalityLbEndpoints::default()
    }
}

fn message(cluster: &Cluster, discovery: Discovery, source: SecretSource) -> cluster::Cluster {
    cluster::Cluster {
        name: cluster.name.as_str().to_owned(),
        cluster_discovery_type: Some(discovery.kind),
        eds_cluster_config: discovery.eds,
        load_assignment: discovery.assignment,
        connect_timeout: Some(
            cluster.connect_timeout.filter(|time| !time.is_zero()).map_or_else(|| seconds(CONNECT_SECONDS), duration),
        ),
        per_connection_buffer_limit_bytes: Some(CONNECTION_BUFFER),
        lb_policy: LbPolicy::LeastRequest as i32,
        common_lb_config: Some(common_lb_config()),
        circuit_breakers: Some(circuit_breakers(limits(cluster))),
        typed_extension_protocol_options: BTreeMap::from([(PROTOCOL_OPTIONS.to_owned(), protocol(cluster))]),
        transport_socket: cluster.tls.as_ref().map(|tls| upstream_tls(tls, cluster.protocol, source)),
        upstream_connection_options: Some(cluster::UpstreamConnectionOptions {
            tcp_keepalive: Some(KEEPALIVE),
            ..cluster::UpstreamConnectionOptions::default()
        }),
        ..cluster::Cluster::default()
    }
}

/// A backend that vanished without a word is noticed after 60 + 3 × 10 s.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive { keepalive_probes: Some(3), keepalive_time: Some(60), keepalive_interval: Some(10) };

/// Every address of a name is an endpoint. IPv4 before IPv6: a laptop has addresses of both kinds, and often a route for one
/// only.
fn dns_cluster() -> ClusterDiscoveryType {
    let (first, last) = DNS_RETRY_SECONDS;
    let config = DnsCluster {
        dns_refresh_rate: Some(seconds(DNS_REFRESH_SECONDS)),
        dns_failure_refresh_rate: Some(RefreshRate {
            base_interval: Some(seconds(first)),
            max_interval: Some(seconds(last)),
        }),
        respect_dns_ttl: true,
        dns_lookup_family: DnsLookupFamily::V4Preferred as i32,
        ..DnsCluster::default()
    };
    ClusterDiscoveryType::ClusterType(CustomClusterType {
        name: "envoy.cluster.dns".to_owned(),
        typed_config: Some(Any::pack(&config)),
    })
}

/// A change of health counts at once (Envoy would gather such changes for a second), and draining endpoints get requests
/// only when fewer than 1 in 100 are healthy.
fn common_lb_config() -> CommonLbConfig {
    CommonLbConfig {
        healthy_panic_threshold: Some(Percent { value: 1.0 }),
        update_merge_window: Some(seconds(0)),
        ..CommonLbConfig::default()
    }
}

fn limits(cluster: &Cluster) -> CircuitBreaker {
    cluster.circuit_breaker.as_deref().copied().unwrap_or_default()
}

fn circuit_breakers(limits: CircuitBreaker) -> cluster::CircuitBreakers {
    let thresholds = Thresholds {
        max_connections: Some(limits.max_connections.unwrap_or(DEFAULT_CONNECTIONS)),
        max_pending_requests: Some(limits.max_pending_requests.unwrap_or(DEFAULT_LIMIT)),
        max_requests: Some(limits.max_parallel_requests.unwrap_or(DEFAULT_LIMIT)),
        max_retries: Some(limits.max_parallel_retries.unwrap_or(DEFAULT_RETRY_LIMIT)),
        retry_budget: limits.retry_budget.map(|budget| RetryBudget {
            budget_percent: Some(Percent { value: f64::from(budget.percent) }),
            budget_interval: Some(duration(budget.interval)),
            min_retry_concurrency: Some(budget.min_parallel_retries),
        }),
        ..Thresholds::default()
    };
    let per_endpoint = limits
        .max_connections_per_endpoint
        .map(|limit| Thresholds { max_connections: Some(limit), ..Thresholds::default() });
    cluster::CircuitBreakers { thresholds: vec![thresholds], per_host_thresholds: per_endpoint.into_iter().collect() }
}

/// The key of a cluster's HTTP options.
pub(crate) const PROTOCOL_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Nearly every cluster has one of two values: those are encoded once.
fn protocol(cluster: &Cluster) -> Any {
    static HTTP1: LazyLock<Any> = LazyLock::new(|| protocol_options(Protocol::Http1, None, None));
    static HTTP2: LazyLock<Any> = LazyLock::new(|| protocol_options(Protocol::Http2, None, None));
    match (cluster.protocol, limits(cluster).max_requests_per_connection, server_names(cluster)) {
        (Protocol::Http1, None, None) => HTTP1.clone(),
        (Protocol::Http2, None, None) => HTTP2.clone(),
        (protocol, limit, names) => protocol_options(protocol, limit, names),
    }
}

/// Where the user names no server, each request does, by its host: that name is asked for, and the certificate has to be its own
/// unless nothing is verified (Envoy Gateway, `Backend.spec.tls.sni`).
fn server_names(cluster: &Cluster) -> Option<UpstreamHttpProtocolOptions> {
    let tls = cluster.tls.as_deref().filter(|tls| tls.server_name.is_none())?;
    Some(UpstreamHttpProtocolOptions {
        auto_sni: true,
        auto_san_validation: tls.trust != Trust::Anything,
        ..UpstreamHttpProtocolOptions::default()
    })
}

/// Bytes of one answer, and of all answers of one connection, that a backend may send before they are read: those of a client that reads nothing stay
/// with the proxy (Envoy's defaults, 16 and 24 MiB, held 1.4 GB for 85 requests of one client). A stream goes at 100 MB/s over 10 ms.
const HTTP2_STREAM_WINDOW: u32 = 1024 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Which HTTP is spoken to a cluster's endpoints.
pub(crate) fn protocol_options(
    protocol: Protocol,
    max_requests_per_connection: Option<u32>,
    server_names: Option<UpstreamHttpProtocolOptions>,
) -> Any {
    let protocol = match protocol {
        Protocol::Http1 => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
        Protocol::Http2 => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
            initial_stream_window_size: Some(HTTP2_STREAM_WINDOW),
            initial_connection_window_size: Some(HTTP2_CONNECTION_WINDOW),
            ..Http2ProtocolOptions::default()
        }),
    };
    let explicit = ExplicitHttpConfig { protocol_config: Some(protocol) };
    Any::pack(&upstream::HttpProtocolOptions {
        common_http_protocol_options: max_requests_per_connection
            .map(|limit| HttpProtocolOptions { max_requests_per_connection: Some(limit), ..Default::default() }),
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        upstream_http_protocol_options: server_names,
        ..upstream::HttpProtocolOptions::default()
    })
}
