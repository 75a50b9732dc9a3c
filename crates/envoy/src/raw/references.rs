//! What a resource names: clusters, endpoints, route configurations, secrets, extensions. Where the names stand is a table.

use ir::RawName;
use protojson::{Message, View};

use super::{CLUSTER, ENDPOINTS, ROUTE_CONFIGURATION, SECRET};

const EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";

/// `Cluster.DiscoveryType.EDS`
const EDS: i64 = 3;

/// In messages of this name, the field with the name of a resource of that message. A field that is empty names nothing.
const NAMES: &[(&str, &str, &str)] = &[
    ("envoy.config.core.v3.GrpcService.EnvoyGrpc", "cluster_name", CLUSTER),
    ("envoy.config.core.v3.HttpUri", "cluster", CLUSTER),
    ("envoy.config.route.v3.RouteAction", "cluster", CLUSTER),
    ("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", "cluster", CLUSTER),
    ("envoy.config.route.v3.ScopedRouteConfiguration", "route_configuration_name", ROUTE_CONFIGURATION),
    ("envoy.config.route.v3.WeightedCluster.ClusterWeight", "name", CLUSTER),
    ("envoy.extensions.clusters.aggregate.v3.ClusterConfig", "clusters", CLUSTER),
    ("envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route", "cluster", CLUSTER),
    (
        "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route.RequestMirrorPolicy",
        "cluster",
        CLUSTER,
    ),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "cluster", CLUSTER),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight", "name", CLUSTER),
    ("envoy.extensions.filters.network.thrift_proxy.v3.RouteAction", "cluster", CLUSTER),
    ("envoy.extensions.filters.network.thrift_proxy.v3.WeightedCluster.ClusterWeight", "name", CLUSTER),
    ("envoy.extensions.filters.udp.udp_proxy.v3.Route", "cluster", CLUSTER),
];

/// The same for what a control plane may bring or not: the name counts if the field with its source says that one does.
const DISCOVERED: &[(&str, &str, &str, &str)] = &[
    ("envoy.config.cluster.v3.Cluster.EdsClusterConfig", "service_name", "eds_config", ENDPOINTS),
    (
        "envoy.extensions.filters.network.http_connection_manager.v3.Rds",
        "route_config_name",
        "config_source",
        ROUTE_CONFIGURATION,
    ),
    ("envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", "name", "sds_config", SECRET),
];

/// Filters whose configuration comes by itself, under their own name.
const FILTERS: [&str; 3] = [
    "envoy.config.listener.v3.Filter",
    "envoy.config.listener.v3.ListenerFilter",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
];

/// What Envoy looks for by the type of its configuration, whatever its name is.
const EXTENSIONS: [&str; 5] = [
    "envoy.config.accesslog.v3.AccessLog",
    "envoy.config.core.v3.TransportSocket",
    "envoy.config.listener.v3.Filter",
    "envoy.config.listener.v3.ListenerFilter",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
];

/// What Envoy refuses though its API has no rule for it: the field where there is one to tell, and words.
pub(super) fn lacking(message: &Message<'_>) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    message.visit(&mut |view| {
        // Of a type that is known it is what it holds.
        let is_open = |config: &View<'_>| !config.is("google.protobuf.Any") || !config.text("type_url").is_empty();
        let is_typed = || view.inner("typed_config").as_ref().is_some_and(is_open);
        if EXTENSIONS.contains(&view.name())
            && !is_typed()
            && !["config_discovery", "is_optional"].into_iter().any(|field| view.has(field))
        {
            let text = format!("{} has no typed_config with its @type, by which Envoy finds it", view.text("name"));
            found.push(("", text));
        }
        if view.is(CLUSTER) && view.number("type") == EDS && view.inner("eds_cluster_config").is_none() {
            found.push(("eds_cluster_config", "is required with type EDS".to_owned()));
        }
    });
    found
}

/// Sorted, each once, without the resource itself.
pub(super) fn of(id: &RawName, message: &Message<'_>) -> Vec<RawName> {
    let mut found = Vec::new();
    message.visit(&mut |view| in_one(view, &mut found));
    found.retain(|name| !name.name.is_empty() && name != id);
    found.sort_unstable();
    found.dedup();
    found
}

fn in_one(view: &View<'_>, found: &mut Vec<RawName>) {
    let name = view.name();
    let mut add = |message: &'static str, name: String| found.push(RawName { message, name: name.into() });
    for (_, field, message) in NAMES.iter().filter(|(of, ..)| *of == name) {
        view.texts(field).into_iter().chain([view.text(field)]).for_each(|named| add(message, named));
    }
    for (_, field, source, message) in DISCOVERED.iter().filter(|(of, ..)| *of == name) {
        if view.inner(source).is_some_and(|source| is_ours(&source)) {
            add(message, view.text(field));
        }
    }
    if FILTERS.contains(&name) {
        let source = view.inner("config_discovery");
        if source.is_some_and(|discovery| discovery.inner("config_source").is_some_and(|source| is_ours(&source))) {
            add(EXTENSION, view.text("name"));
        }
    }
    // An EDS cluster without a name for its endpoints has its own.
    if name == CLUSTER && view.number("type") == EDS {
        let source = view.inner("eds_cluster_config");
        let of_own_name = |config: &View<'_>| {
            config.text("service_name").is_empty() && config.inner("eds_config").is_some_and(|source| is_ours(&source))
        };
        if source.as_ref().is_some_and(of_own_name) {
            add(ENDPOINTS, view.text("name"));
        }
    }
}

/// Whether a `ConfigSource` means the control plane that brings the resource itself.
fn is_ours(source: &View<'_>) -> bool {
    source.has("ads") || source.has("self")
}
