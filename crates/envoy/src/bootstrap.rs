//! The bootstrap: what a proxy knows before the control plane says anything.

mod local;
mod parts;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use prost_types::{Struct, Value, value::Kind};
use proto::envoy::config::bootstrap::v3::bootstrap::{DeferredStatOptions, DynamicResources, StaticResources};
use proto::envoy::config::bootstrap::v3::runtime_layer::LayerSpecifier;
use proto::envoy::config::bootstrap::v3::{Admin, Bootstrap, LayeredRuntime, RuntimeLayer};
use proto::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, BackoffStrategy, GrpcService, Node, RetryPolicy, api_config_source::ApiType,
    grpc_service,
};
use proto::envoy::config::overload::v3::{OverloadManager, ResourceMonitor, resource_monitor};
use proto::envoy::extensions::resource_monitors::downstream_connections::v3::DownstreamConnectionsConfig;
use proto::google::protobuf::Any;

use crate::endpoints::zone;
use crate::regex::REGEX_PROGRAM_SIZE_LIMIT;
use crate::wire::{ads, pipe, socket_address};

pub use parts::{StaticOptions, StaticParts, static_bootstrap, static_bootstrap_json};

/// The cluster by which a proxy reaches the control plane.
pub const XDS_CLUSTER: &str = "chancery.xds";
/// The cluster by which the local listener reaches the proxy's own admin interface.
pub const ADMIN_CLUSTER: &str = "chancery.admin";
/// The listener for health and statistics.
pub const LOCAL_LISTENER: &str = "chancery.local";

/// Client connections of a proxy at a time. One costs some 32 KiB in Envoy when idle, and up to two buffers of 32 KiB more:
/// 50,000 are about 4 GiB at worst.
pub const DEFAULT_MAX_CONNECTIONS: u64 = 50_000;

/// What is particular to one proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// Unique among the proxies.
    pub node_id: Arc<str>,
    /// The fleet, for people and logs: who a proxy is follows from how it connects.
    pub node_cluster: Arc<str>,
    /// The zone it runs in.
    pub zone: Option<Arc<str>>,
    /// Where the control plane listens.
    pub control_plane: Endpoint,
    /// Where the proxy's admin interface shall listen. It can stop the proxy and show its keys' names: a Unix socket of
    /// mode 0600, or loopback.
    pub admin: Endpoint,
    /// Where `/ready` and `/stats/prometheus` are offered to probes and collectors, and nothing else.
    pub local_listener: Option<SocketAddr>,
    /// Client connections at a time, all listeners together; further ones are closed at once.
    pub max_connections: u64,
}

/// A place on this machine or in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix domain socket's path: at most 107 bytes.
    Unix(Arc<str>),
    /// TCP.
    Tcp(IpAddr, u16),
}

/// The bootstrap of a proxy that gets everything by delta ADS over gRPC.
///
/// - The node goes with the first message of a stream only: it has 61 KB.
/// - A lost stream is opened again after 0.1 to 1 s (Envoy's own back-off reaches 30 s).
/// - Statistics of a cluster come into being with its first use: a third less memory, a start 2.5 times as fast.
/// - Regular expressions may have [`REGEX_PROGRAM_SIZE_LIMIT`] instructions (Envoy: 100).
pub fn bootstrap(options: &BootstrapOptions) -> Bootstrap {
    let mut clusters = vec![local::control_plane(&options.control_plane)];
    let mut listeners = Vec::new();
    if let Some(address) = options.local_listener {
        clusters.push(local::admin_cluster(&options.admin));
        listeners.push(local::listener(address));
    }
    Bootstrap {
        node: Some(node(options)),
        static_resources: Some(StaticResources { listeners, clusters, ..StaticResources::default() }),
        dynamic_resources: Some(DynamicResources {
            lds_config: Some(ads()),
            cds_config: Some(ads()),
            ads_config: Some(ads_config()),
            ..DynamicResources::default()
        }),
        admin: Some(Admin { address: Some(listening(&options.admin)), ..Admin::default() }),
        overload_manager: Some(overload_manager(options.max_connections)),
        ..common()
    }
}

/// The same as JSON, in the form that Envoy reads with `--config-path`.
///
/// # Errors
/// None for what [`bootstrap`] builds; a message that the descriptors do not know would be one.
pub fn bootstrap_json(options: &BootstrapOptions) -> Result<serde_json::Value, protojson::Error> {
    protojson::message_to_json(&bootstrap(options))
}

/// What does not depend on anything.
fn common() -> Bootstrap {
    Bootstrap {
        deferred_stat_options: Some(DeferredStatOptions { enable_deferred_creation_stats: true }),
        layered_runtime: Some(LayeredRuntime { layers: vec![runtime()] }),
        ..Bootstrap::default()
    }
}

fn runtime() -> RuntimeLayer {
    let limit = Value { kind: Some(Kind::NumberValue(f64::from(REGEX_PROGRAM_SIZE_LIMIT))) };
    let fields = [("re2.max_program_size.error_level".to_owned(), limit)].into();
    RuntimeLayer { name: "chancery".to_owned(), layer_specifier: Some(LayerSpecifier::StaticLayer(Struct { fields })) }
}

fn node(options: &BootstrapOptions) -> Node {
    Node {
        id: options.node_id.as_ref().to_owned(),
        cluster: options.node_cluster.as_ref().to_owned(),
        locality: options.zone.as_deref().map(zone),
        ..Node::default()
    }
}

fn ads_config() -> ApiConfigSource {
    let milliseconds = |count: i32| prost_types::Duration { seconds: 0, nanos: count * 1_000_000 };
    let retry_policy = RetryPolicy {
        retry_back_off: Some(BackoffStrategy {
            base_interval: Some(milliseconds(100)),
            max_interval: Some(crate::wire::seconds(1)),
        }),
        ..RetryPolicy::default()
    };
    let envoy_grpc = grpc_service::EnvoyGrpc {
        cluster_name: XDS_CLUSTER.to_owned(),
        retry_policy: Some(retry_policy),
        ..grpc_service::EnvoyGrpc::default()
    };
    ApiConfigSource {
        api_type: ApiType::DeltaGrpc as i32,
        transport_api_version: ApiVersion::V3 as i32,
        grpc_services: vec![GrpcService {
            target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(envoy_grpc)),
            ..GrpcService::default()
        }],
        set_node_on_first_message_only: true,
        ..ApiConfigSource::default()
    }
}

fn overload_manager(max_active_downstream_connections: u64) -> OverloadManager {
    let limit = i64::try_from(max_active_downstream_connections).unwrap_or(i64::MAX).max(1);
    let config = DownstreamConnectionsConfig { max_active_downstream_connections: limit };
    OverloadManager {
        resource_monitors: vec![ResourceMonitor {
            name: "envoy.resource_monitors.global_downstream_max_connections".to_owned(),
            config_type: Some(resource_monitor::ConfigType::TypedConfig(Any::pack(&config))),
        }],
        ..OverloadManager::default()
    }
}

/// A Unix socket that is made may be used by its owner only.
fn listening(endpoint: &Endpoint) -> proto::envoy::config::core::v3::Address {
    match endpoint {
        Endpoint::Unix(path) => pipe(path, 0o600),
        Endpoint::Tcp(ip, port) => socket_address(*ip, *port),
    }
}
