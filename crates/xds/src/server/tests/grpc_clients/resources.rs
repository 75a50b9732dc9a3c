//! What gRPC clients are served: a listener without an address, routes, a cluster that is reported on, endpoints in two zones.

use std::net::SocketAddr;

use proto::envoy::config::cluster::v3::{Cluster, cluster};
use proto::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, Locality, SelfConfigSource, config_source::ConfigSourceSpecifier,
};
use proto::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use proto::envoy::config::listener::v3::{ApiListener, Listener};
use proto::envoy::config::route::v3::RouteConfiguration;
use proto::envoy::extensions::filters::http::router::v3::Router;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_connection_manager, http_filter,
};
use proto::google::protobuf::Any;

use super::super::resources::{address, put, virtual_host};
use crate::{Change, Need, TypeUrl};

fn source(specifier: ConfigSourceSpecifier) -> Option<ConfigSource> {
    Some(ConfigSource { config_source_specifier: Some(specifier), ..ConfigSource::default() })
}

fn aggregated() -> Option<ConfigSource> {
    source(ConfigSourceSpecifier::Ads(AggregatedConfigSource {}))
}

/// What the target `name` is, with the route configuration of the same name.
pub(super) fn listener(name: &str) -> Change {
    let rds = Rds { config_source: aggregated(), route_config_name: name.into() };
    let router = HttpFilter {
        name: "router".into(),
        config_type: Some(http_filter::ConfigType::TypedConfig(Any::pack(&Router::default()))),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        route_specifier: Some(http_connection_manager::RouteSpecifier::Rds(rds)),
        http_filters: vec![router],
        ..HttpConnectionManager::default()
    };
    let api_listener = Some(ApiListener { api_listener: Some(Any::pack(&manager)) });
    let message = Listener { name: name.into(), api_listener, ..Listener::default() };
    put(TypeUrl::Listener, name, 1, &message, vec![Need::new(TypeUrl::Route, name)])
}

/// A route configuration: every call to one cluster.
pub(super) fn routes(name: &str, version: u128, cluster: &str) -> Change {
    let virtual_hosts = vec![virtual_host("all", "*", cluster)];
    let message = RouteConfiguration { name: name.into(), virtual_hosts, ..RouteConfiguration::default() };
    let needs = Vec::from([Need::new(TypeUrl::Cluster, cluster)]);
    put(TypeUrl::Route, name, version, &message, needs)
}

/// A cluster of EDS, load reports go to where it comes from, with what its endpoints say of themselves.
pub(super) fn cluster(name: &str, version: u128) -> Change {
    let message = Cluster {
        name: name.into(),
        cluster_discovery_type: Some(cluster::ClusterDiscoveryType::Type(cluster::DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(cluster::EdsClusterConfig { eds_config: aggregated(), service_name: String::new() }),
        lrs_server: source(ConfigSourceSpecifier::Self_(SelfConfigSource::default())),
        lrs_report_endpoint_metrics: vec!["named_metrics.queue".into()],
        ..Cluster::default()
    };
    put(TypeUrl::Cluster, name, version, &message, vec![Need::new(TypeUrl::Endpoints, name)])
}

/// Endpoints, one in each zone, with the weight of the zone.
pub(super) fn endpoints(cluster: &str, version: u128, zones: &[(&str, u32, SocketAddr)]) -> Change {
    endpoints_in(cluster, version, 0, zones)
}

/// Endpoints that gRPC clients refuse: there is no priority 0.
pub(super) fn bad_endpoints(cluster: &str, version: u128, zones: &[(&str, u32, SocketAddr)]) -> Change {
    endpoints_in(cluster, version, 1, zones)
}

fn endpoints_in(cluster: &str, version: u128, priority: u32, zones: &[(&str, u32, SocketAddr)]) -> Change {
    let locality = |(zone, weight, at): &(&str, u32, SocketAddr)| {
        let endpoint = Endpoint { address: address(*at), ..Endpoint::default() };
        let host_identifier = Some(lb_endpoint::HostIdentifier::Endpoint(endpoint));
        LocalityLbEndpoints {
            locality: Some(Locality { region: "here".into(), zone: (*zone).into(), ..Locality::default() }),
            lb_endpoints: vec![LbEndpoint { host_identifier, ..LbEndpoint::default() }],
            load_balancing_weight: Some(*weight),
            priority,
            ..LocalityLbEndpoints::default()
        }
    };
    let message = ClusterLoadAssignment {
        cluster_name: cluster.into(),
        endpoints: zones.iter().map(locality).collect(),
        ..ClusterLoadAssignment::default()
    };
    put(TypeUrl::Endpoints, cluster, version, &message, Vec::new())
}
