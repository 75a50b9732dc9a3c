//! Envoy's resources made by hand: an HTTP listener, routes, and clusters whose endpoints come by EDS.

pub(super) mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use proto::envoy::config::cluster::v3::{Cluster, cluster};
use proto::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiConfigSource, ApiVersion, ConfigSource, GrpcService, SocketAddress, address,
    api_config_source, config_source, grpc_service, socket_address,
};
use proto::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use proto::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use proto::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, Vhds, VirtualHost, route, route_action, route_match,
};
use proto::envoy::extensions::filters::http::router::v3::Router;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_connection_manager, http_filter,
};
use proto::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use proto::google::protobuf::Any;

use super::proxy::Transport;
use crate::wire::Variant;
use crate::{Change, Need, Resource, TypeUrl, Version};

pub(super) fn put(type_url: TypeUrl, name: &str, version: u128, message: &impl Message, needs: Vec<Need>) -> Change {
    let (body, needs) = ([Bytes::from(message.encode_to_vec())], [needs.into()].into());
    Change::Put(Arc::new(Resource { needs, ..Resource::new(type_url, name, Version(version), body) }))
}

/// Where Envoy is to ask for what a resource names.
pub(super) fn source() -> Option<ConfigSource> {
    let transport = Transport::of_this_test();
    let api_type = match transport.variant {
        Variant::Delta => api_config_source::ApiType::DeltaGrpc,
        Variant::Sotw => api_config_source::ApiType::Grpc,
    };
    let envoy = grpc_service::EnvoyGrpc { cluster_name: "xds".into(), ..grpc_service::EnvoyGrpc::default() };
    let service = GrpcService {
        target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(envoy)),
        ..GrpcService::default()
    };
    let apart = ApiConfigSource {
        api_type: api_type as i32,
        transport_api_version: ApiVersion::V3 as i32,
        grpc_services: vec![service],
        set_node_on_first_message_only: true,
        ..ApiConfigSource::default()
    };
    let specifier = match transport.aggregated {
        true => config_source::ConfigSourceSpecifier::Ads(AggregatedConfigSource {}),
        false => config_source::ConfigSourceSpecifier::ApiConfigSource(apart),
    };
    Some(ConfigSource {
        resource_api_version: ApiVersion::V3 as i32,
        config_source_specifier: Some(specifier),
        ..ConfigSource::default()
    })
}

pub(super) fn address(at: SocketAddr) -> Option<Address> {
    Some(Address {
        address: Some(address::Address::SocketAddress(SocketAddress {
            address: at.ip().to_string(),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(at.port().into())),
            ..SocketAddress::default()
        })),
    })
}

/// A cluster of EDS; its version is in its connect time-out, so that each version has bytes of its own.
pub(super) fn cluster(name: &str, version: u128) -> Change {
    put(TypeUrl::Cluster, name, version, &cluster_message(name, version), Vec::new())
}

/// A cluster that Envoy rejects only after it has begun to warm it.
pub(super) fn ghost(name: &str, version: u128) -> Change {
    let mut message = cluster_message(name, version);
    message.lb_policy = cluster::LbPolicy::RingHash as i32;
    message.lb_config = Some(cluster::LbConfig::RingHashLbConfig(cluster::RingHashLbConfig {
        minimum_ring_size: Some(64),
        maximum_ring_size: Some(32),
        ..cluster::RingHashLbConfig::default()
    }));
    put(TypeUrl::Cluster, name, version, &message, Vec::new())
}

/// Such versions of a new cluster and of `a`, told apart by their number, below 10.
pub(super) fn ghosts(new: &str, number: u128, at: SocketAddr) -> Vec<Change> {
    vec![ghost(new, 50 + number), endpoints(new, 1, at), ghost("a", 60 + number)]
}

pub(super) fn cluster_message(name: &str, version: u128) -> Cluster {
    Cluster {
        name: name.into(),
        connect_timeout: Some(prost_types::Duration { seconds: 2, nanos: i32::try_from(version).unwrap() }),
        cluster_discovery_type: Some(cluster::ClusterDiscoveryType::Type(cluster::DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(cluster::EdsClusterConfig { eds_config: source(), service_name: String::new() }),
        ..Cluster::default()
    }
}

/// The endpoint set of a cluster.
pub(super) fn endpoints(cluster: &str, version: u128, at: SocketAddr) -> Change {
    let endpoint = Endpoint { address: address(at), ..Endpoint::default() };
    let endpoint =
        LbEndpoint { host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)), ..LbEndpoint::default() };
    let locality = LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..LocalityLbEndpoints::default() };
    let message = ClusterLoadAssignment {
        cluster_name: cluster.into(),
        endpoints: vec![locality],
        ..ClusterLoadAssignment::default()
    };
    put(TypeUrl::Endpoints, cluster, version, &message, Vec::new())
}

/// The same with something else in its resource or message.
pub(super) fn altered<M: Message + Default>(change: Change, alter: impl FnOnce(&mut Resource, &mut M)) -> Change {
    let Change::Put(resource) = change else { return change };
    let mut resource = Resource::clone(&resource);
    let mut message = M::decode(&*resource.body.concat()).unwrap();
    alter(&mut resource, &mut message);
    resource.body = [Bytes::from(message.encode_to_vec())].into();
    Change::Put(Arc::new(resource))
}

/// The listener `l` at an address, with the route configuration `r`.
pub(super) fn listener(at: SocketAddr) -> Change {
    listener_of("l", 1, "r", at)
}

/// A listener at an address, with this route configuration. Its version is the `server` header of its answers.
pub(super) fn listener_of(name: &str, version: u128, routes: &str, at: SocketAddr) -> Change {
    let message = listener_message(name, version, routes, at);
    put(TypeUrl::Listener, name, version, &message, vec![Need::new(TypeUrl::Route, routes)])
}

pub(super) fn listener_message(name: &str, version: u128, routes: &str, at: SocketAddr) -> Listener {
    let router = HttpFilter {
        name: "router".into(),
        config_type: Some(http_filter::ConfigType::TypedConfig(Any::pack(&Router::default()))),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        stat_prefix: "l".into(),
        server_name: version.to_string(),
        route_specifier: Some(http_connection_manager::RouteSpecifier::Rds(Rds {
            config_source: source(),
            route_config_name: routes.into(),
        })),
        http_filters: vec![router],
        ..HttpConnectionManager::default()
    };
    let filter =
        Filter { name: "http".into(), config_type: Some(filter::ConfigType::TypedConfig(Any::pack(&manager))) };
    Listener {
        name: name.into(),
        address: address(at),
        filter_chains: vec![FilterChain { filters: vec![filter], ..FilterChain::default() }],
        ..Listener::default()
    }
}

/// The listener `t` at an address: connections to one cluster.
pub(super) fn tcp_listener(at: SocketAddr, cluster: &str) -> Change {
    let proxy = TcpProxy {
        stat_prefix: "t".into(),
        cluster_specifier: Some(tcp_proxy::ClusterSpecifier::Cluster(cluster.into())),
        ..TcpProxy::default()
    };
    let filter = Filter { name: "tcp".into(), config_type: Some(filter::ConfigType::TypedConfig(Any::pack(&proxy))) };
    let message = Listener {
        name: "t".into(),
        address: address(at),
        filter_chains: vec![FilterChain { filters: vec![filter], ..FilterChain::default() }],
        ..Listener::default()
    };
    put(TypeUrl::Listener, "t", 1, &message, vec![Need::new(TypeUrl::Cluster, cluster)])
}

/// The virtual host of a domain, all of whose requests go to one cluster.
pub(super) fn virtual_host(name: &str, domain: &str, cluster: &str) -> VirtualHost {
    let action = RouteAction {
        cluster_specifier: Some(route_action::ClusterSpecifier::Cluster(cluster.into())),
        ..RouteAction::default()
    };
    let everything =
        RouteMatch { path_specifier: Some(route_match::PathSpecifier::Prefix("/".into())), ..RouteMatch::default() };
    let route = Route { r#match: Some(everything), action: Some(route::Action::Route(action)), ..Route::default() };
    VirtualHost { name: name.into(), domains: vec![domain.into()], routes: vec![route], ..VirtualHost::default() }
}

/// The route configuration `r`: everything to one cluster.
pub(super) fn routes(version: u128, cluster: &str) -> Change {
    routes_of("r", version, cluster)
}

/// A route configuration: everything to one cluster.
pub(super) fn routes_of(name: &str, version: u128, cluster: &str) -> Change {
    let virtual_hosts = vec![virtual_host("all", "*", cluster)];
    let message = RouteConfiguration { name: name.into(), virtual_hosts, ..RouteConfiguration::default() };
    put(TypeUrl::Route, name, version, &message, vec![Need::new(TypeUrl::Cluster, cluster)])
}

/// A version of the route configuration `r` that Envoy refuses.
pub(super) fn bad_routes(version: u128) -> Change {
    bad_routes_of("r", version)
}

/// A version of a route configuration that Envoy refuses.
pub(super) fn bad_routes_of(name: &str, version: u128) -> Change {
    let virtual_hosts = vec![virtual_host("one", "same.test", "a"), virtual_host("two", "same.test", "a")];
    let message = RouteConfiguration { name: name.into(), virtual_hosts, ..RouteConfiguration::default() };
    put(TypeUrl::Route, name, version, &message, Vec::new())
}

/// The route configuration `r` whose hosts come by VHDS.
pub(super) fn routes_of_hosts(version: u128) -> Change {
    routes_of_hosts_of("r", version)
}

/// A route configuration whose hosts come by VHDS.
pub(super) fn routes_of_hosts_of(name: &str, version: u128) -> Change {
    let plain = RouteConfiguration { name: name.into(), ..RouteConfiguration::default() };
    let vhds = Some(Vhds { config_source: source() });
    let asks = RouteConfiguration { vhds, ..RouteConfiguration::default() };
    let body = [plain, asks].map(|part| Bytes::from(part.encode_to_vec()));
    Change::Put(Arc::new(Resource { vhds: true, ..Resource::new(TypeUrl::Route, name, Version(version), body) }))
}

/// A virtual host of VHDS in the route configuration `r`.
pub(super) fn host(domain: &str, version: u128, cluster: &str) -> Change {
    host_of("r", domain, version, cluster)
}

/// A virtual host of VHDS in a route configuration.
pub(super) fn host_of(routes: &str, domain: &str, version: u128, cluster: &str) -> Change {
    let name = format!("{routes}/{domain}");
    let message = virtual_host(&name, domain, cluster);
    put(TypeUrl::VirtualHost, &name, version, &message, vec![Need::new(TypeUrl::Cluster, cluster)])
}

/// A virtual host that Envoy refuses.
pub(super) fn bad_host(domain: &str, version: u128) -> Change {
    let name = format!("r/{domain}");
    let mut message = virtual_host(&name, domain, "a");
    message.domains.clear();
    put(TypeUrl::VirtualHost, &name, version, &message, Vec::new())
}

/// A removal.
pub(super) fn gone(type_url: TypeUrl, name: &str) -> Change {
    Change::Remove { type_url, name: name.into() }
}
