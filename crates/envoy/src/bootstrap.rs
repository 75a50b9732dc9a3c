//! The bootstrap: what a proxy knows before the control plane says anything. Written as JSON at once, in the form that protobuf
//! messages have there: writing messages first would cost a process that only serves the 650 KB of their descriptors.

mod local;
mod parts;
mod service;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::RUNTIME_LAYER;
use crate::regex::REGEX_PROGRAM_SIZE_LIMIT;

pub use parts::{StaticOptions, StaticParts, static_bootstrap, static_bootstrap_json};
pub use service::{XdsService, secret_files};

/// The cluster by which a proxy reaches the control plane.
pub const XDS_CLUSTER: &str = "chancery.xds";
/// The cluster by which the local listeners reach the proxy's own admin interface.
pub const ADMIN_CLUSTER: &str = "chancery.admin";
/// The listener for health and statistics.
pub const LOCAL_LISTENER: &str = "chancery.local";
/// The listener that shows the configuration.
pub const CONFIG_LISTENER: &str = "chancery.config";

/// Client connections of a proxy at a time. One costs some 32 KiB in Envoy when idle, and up to two buffers of 32 KiB more:
/// 50,000 are about 4 GiB at worst.
pub const DEFAULT_MAX_CONNECTIONS: u64 = 50_000;

/// What is particular to one proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// Unique among the proxies; empty where each says it on its command line (`--service-node`).
    pub node_id: Arc<str>,
    /// The fleet, for people and logs: who a proxy is follows from how it connects.
    pub node_cluster: Arc<str>,
    /// The zone it runs in.
    pub zone: Option<Arc<str>>,
    /// Where the control plane listens.
    pub control_plane: ControlPlane,
    /// Where the proxy's admin interface shall listen. It can stop the proxy and show its keys' names: a Unix socket of
    /// mode 0600, or loopback.
    pub admin: Endpoint,
    /// Where `/ready` and `/stats/prometheus` are offered to probes and collectors, and nothing else.
    pub local_listener: Option<SocketAddr>,
    /// Where `/config_dump` is offered, in which Envoy leaves out private keys, and nothing else: loopback, for those who may forward ports.
    pub config_listener: Option<SocketAddr>,
    /// Client connections at a time, all listeners together; further ones are closed at once.
    pub max_connections: u64,
    /// It is a Gateway's: limits come from the control plane ([`RUNTIME_LAYER`]). A workload gets what users wrote, and nothing of ours.
    pub of_gateway: bool,
}

/// Where the control plane is, and how each knows the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlPlane {
    /// On this machine, with the token that each call brings.
    Local(Endpoint, Arc<str>),
    /// A Service of the cluster.
    Service(XdsService),
}

/// A place on this machine or in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix domain socket's path: at most 107 bytes.
    Unix(Arc<str>),
    /// TCP.
    Tcp(IpAddr, u16),
}

/// The bootstrap of a proxy that gets everything by delta ADS over gRPC: an `envoy.config.bootstrap.v3.Bootstrap` in the form that
/// Envoy reads with `--config-path`.
///
/// - The node goes with the first message of a stream only: it has 61 KB.
/// - A lost stream is opened again after 0.1 to 1 s (Envoy's own back-off reaches 30 s).
/// - Statistics of a cluster come into being with its first use: a third less memory, a start 2.5 times as fast.
/// - It is ready when it has listeners and clusters, however long that takes: Envoy would be after 15 s without any.
/// - Load reports are offered; the control plane says on what and how often, if at all.
/// - Regular expressions may have [`REGEX_PROGRAM_SIZE_LIMIT`] instructions (Envoy: 100).
/// - Limits that change without anything being made anew come by RTDS; a start does not wait for them for longer than 1 s.
pub fn bootstrap(options: &BootstrapOptions) -> Value {
    let ads = || json!({ "ads": {}, "initialFetchTimeout": "0s", "resourceApiVersion": "V3" });
    json!({
        "node": node(options),
        "staticResources": static_resources(options),
        "dynamicResources": { "ldsConfig": ads(), "cdsConfig": ads(), "adsConfig": ads_config(options) },
        "clusterManager": { "loadStatsConfig": load_stats_config(options) },
        "admin": { "address": listening(&options.admin), "allowPaths": allowed_paths() },
        "overloadManager": { "resourceMonitors": [most_connections(options.max_connections)] },
        "layeredRuntime": { "layers": layers(options) },
        "typedDnsResolverConfig": dns_resolver(),
        "deferredStatOptions": { "enableDeferredCreationStats": true },
    })
}

/// A cluster of names is ready when these are resolved, or cannot be: with a server of names that is silent after 6 s, where Envoy by itself takes minutes. Until
/// then a proxy acknowledges no cluster, so that others of names are not known to be ready either.
fn dns_resolver() -> Value {
    json!({
        "name": "envoy.network.dns_resolver.cares",
        "typedConfig": any(
            "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            json!({ "queryTimeoutSeconds": "1", "queryTries": 2 }),
        ),
    })
}

fn layers(options: &BootstrapOptions) -> Vec<Value> {
    let config = json!({ "ads": {}, "initialFetchTimeout": "1s", "resourceApiVersion": "V3" });
    let limits = json!({ "name": RUNTIME_LAYER, "rtdsLayer": { "name": RUNTIME_LAYER, "rtdsConfig": config } });
    let own = json!({ "re2.max_program_size.error_level": REGEX_PROGRAM_SIZE_LIMIT });
    let own = json!({ "name": "chancery", "staticLayer": own });
    std::iter::once(own).chain(options.of_gateway.then_some(limits)).collect()
}

fn node(options: &BootstrapOptions) -> Value {
    let mut node = json!({ "cluster": &*options.node_cluster });
    if !options.node_id.is_empty() {
        put(&mut node, "id", json!(&*options.node_id));
    }
    if let Some(zone) = options.zone.as_deref() {
        put(&mut node, "locality", json!({ "zone": zone }));
    }
    node
}

fn static_resources(options: &BootstrapOptions) -> Value {
    let control_plane = match &options.control_plane {
        ControlPlane::Local(endpoint, _) => local::control_plane(endpoint),
        ControlPlane::Service(service) => service::control_plane(service),
    };
    let local = options.local_listener.map(local::listener);
    let listeners: Vec<Value> = local.into_iter().chain(options.config_listener.map(local::config_listener)).collect();
    if listeners.is_empty() {
        return json!({ "clusters": [control_plane] });
    }
    json!({ "listeners": listeners, "clusters": [control_plane, local::admin_cluster(&options.admin)] })
}

/// Returns the gRPC service of the control plane.
fn control_plane(options: &BootstrapOptions) -> Value {
    let retry_policy = json!({ "retryBackOff": { "baseInterval": "0.100s", "maxInterval": "1s" } });
    let mut service = json!({ "envoyGrpc": { "clusterName": XDS_CLUSTER, "retryPolicy": retry_policy } });
    if let ControlPlane::Local(_, token) = &options.control_plane {
        put(&mut service, "initialMetadata", json!([{ "key": "authorization", "value": format!("Bearer {token}") }]));
    }
    service
}

fn ads_config(options: &BootstrapOptions) -> Value {
    json!({
        "apiType": "DELTA_GRPC",
        "grpcServices": [control_plane(options)],
        "setNodeOnFirstMessageOnly": true,
        "transportApiVersion": "V3",
    })
}

fn load_stats_config(options: &BootstrapOptions) -> Value {
    json!({ "apiType": "GRPC", "grpcServices": [control_plane(options)], "transportApiVersion": "V3" })
}

/// The requests to the admin interface that Chancery and its listeners make: whole paths, and the beginnings of those with a query. All others
/// are refused, those that end the proxy among them.
const ADMIN_PATHS: [&str; 3] = ["/ready", "/healthcheck/fail", "/drain_listeners"];
const ADMIN_PREFIXES: [&str; 4] = ["/stats?", "/stats/prometheus", "/config_dump", "/logging?"];

fn allowed_paths() -> Value {
    let exact = ADMIN_PATHS.iter().map(|path| json!({ "exact": path }));
    exact.chain(ADMIN_PREFIXES.iter().map(|prefix| json!({ "prefix": prefix }))).collect()
}

fn most_connections(limit: u64) -> Value {
    let most = u64::try_from(i64::MAX).unwrap_or(limit);
    json!({
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typedConfig": any(
            "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
            // Numbers of 64 bits are texts in the JSON of protobuf.
            json!({ "maxActiveDownstreamConnections": limit.clamp(1, most).to_string() }),
        ),
    })
}

/// A Unix socket that is made may be used by its owner only.
fn listening(endpoint: &Endpoint) -> Value {
    match endpoint {
        Endpoint::Unix(path) => json!({ "pipe": { "path": &**path, "mode": 0o600 } }),
        Endpoint::Tcp(ip, port) => socket_address(SocketAddr::new(*ip, *port)),
    }
}

fn socket_address(address: SocketAddr) -> Value {
    json!({ "socketAddress": { "address": address.ip().to_string(), "portValue": address.port() } })
}

/// Adds a field to an object.
fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// An `Any` of this kind.
fn any(kind: &str, fields: Value) -> Value {
    let mut any = Map::new();
    any.insert("@type".to_owned(), format!("type.googleapis.com/{kind}").into());
    if let Value::Object(fields) = fields {
        any.extend(fields);
    }
    Value::Object(any)
}
