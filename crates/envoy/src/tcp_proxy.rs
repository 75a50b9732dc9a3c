//! Connections that are passed on: the `TcpProxy` filter, delivered apart from its listener (ECDS), so that connections go on when it changes.

#[cfg(test)]
mod tests;

use ir::route::Backend;
use ir::{ClusterName, TcpProxy};
use proto::envoy::config::core::v3::TypedExtensionConfig;
use proto::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy as Message;
use proto::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use proto::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{ClusterSpecifier, WeightedCluster};
use proto::google::protobuf::Any;

use crate::access_log::loggers;
use crate::listener::Options;
use crate::resource::{Encoded, Need, sorted_needs, type_url};

/// The type of the filter's configuration, as listeners name it.
pub(crate) const TYPE_URL: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";

/// An endpoint that does not answer is not the end: so many are tried for one connection.
const CONNECT_ATTEMPTS: u32 = 3;

/// The configuration of the filter that passes connections on. It needs the clusters that it names.
pub fn tcp_proxy(proxy: &TcpProxy, options: &Options) -> Encoded {
    let config = TypedExtensionConfig {
        name: proxy.name.as_str().to_owned(),
        typed_config: Some(Any::pack(&message(proxy, options))),
    };
    let need = |name: &ClusterName| Need { type_url: type_url::CLUSTER, name: name.0.clone() };
    let needs = proxy.destinations.iter().filter_map(|to| match &to.backend {
        Backend::Cluster(name) => Some(need(name)),
        Backend::Broken(_) => None,
    });
    Encoded::whole(type_url::EXTENSION_CONFIG, proxy.name.0.clone(), &config, sorted_needs(needs.collect()))
}

/// Statistics are kept for all together: their number does not grow with server names.
pub(crate) fn message(proxy: &TcpProxy, options: &Options) -> Message {
    let cluster = |backend: &Backend| match backend {
        Backend::Cluster(name) => name.as_str().to_owned(),
        // Where no such cluster is, the connection is closed.
        Backend::Broken(_) => ClusterName::INVALID.to_owned(),
    };
    let counted: Vec<_> = proxy.destinations.iter().filter(|to| to.weight > 0).collect();
    let weighted = || {
        let weight = |to: &&ir::tcp::TcpDestination| ClusterWeight {
            name: cluster(&to.backend),
            weight: to.weight,
            ..ClusterWeight::default()
        };
        WeightedCluster { clusters: counted.iter().map(weight).collect() }
    };
    Message {
        stat_prefix: "tcp".to_owned(),
        cluster_specifier: Some(match &counted[..] {
            [only] => ClusterSpecifier::Cluster(cluster(&only.backend)),
            _ => ClusterSpecifier::WeightedClusters(weighted()),
        }),
        max_connect_attempts: Some(CONNECT_ATTEMPTS),
        access_log: loggers(&options.access_log),
        ..Message::default()
    }
}
