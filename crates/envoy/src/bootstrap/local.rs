//! The static clusters and the listener for probes and collectors.

use std::net::SocketAddr;

use ir::cluster::Protocol;
use proto::envoy::config::cluster::v3::{Cluster, cluster};
use proto::envoy::config::core::v3::{HealthStatus, Http2ProtocolOptions, KeepaliveSettings, TcpKeepalive};
use proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, LocalityLbEndpoints};
use proto::envoy::config::listener::v3::{FilterChain, Listener};
use proto::envoy::config::route::v3::route_action::ClusterSpecifier;
use proto::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route, route_match::PathSpecifier,
};
use proto::envoy::extensions::filters::http::router::v3::Router;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use proto::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
};
use proto::google::protobuf::Any;

use super::{ADMIN_CLUSTER, Endpoint, LOCAL_LISTENER, XDS_CLUSTER};
use crate::cluster::{PROTOCOL_OPTIONS, protocol_options};
use crate::endpoints::lb_endpoint;
use crate::http_connection_manager::filter;
use crate::listener::network_filter;
use crate::wire::{pipe, seconds, socket_address};

/// What of the admin interface is offered beyond it. Nothing here changes anything or shows configuration.
const OFFERED: &[&str] = &["/ready", "/stats/prometheus"];

/// The way to the control plane: HTTP/2 with a keep-alive, so that a stream whose other end vanished is given up after
/// 15 + 5 s.
pub(super) fn control_plane(endpoint: &Endpoint) -> Cluster {
    let keepalive =
        KeepaliveSettings { interval: Some(seconds(15)), timeout: Some(seconds(5)), ..KeepaliveSettings::default() };
    let http2 = Http2ProtocolOptions { connection_keepalive: Some(keepalive), ..Http2ProtocolOptions::default() };
    let explicit = ExplicitHttpConfig { protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(http2)) };
    let options = Any::pack(&HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        ..HttpProtocolOptions::default()
    });
    static_cluster(XDS_CLUSTER, endpoint, options)
}

/// The way to the proxy's own admin interface.
pub(super) fn admin_cluster(endpoint: &Endpoint) -> Cluster {
    static_cluster(ADMIN_CLUSTER, endpoint, protocol_options(Protocol::Http1, None, None))
}

fn static_cluster(name: &str, endpoint: &Endpoint, options: Any) -> Cluster {
    let address = match endpoint {
        Endpoint::Unix(path) => pipe(path, 0),
        Endpoint::Tcp(ip, port) => socket_address(*ip, *port),
    };
    let keepalive = TcpKeepalive { keepalive_probes: Some(3), keepalive_time: Some(10), keepalive_interval: Some(5) };
    let over_tcp = matches!(endpoint, Endpoint::Tcp(..));
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(cluster::ClusterDiscoveryType::Type(cluster::DiscoveryType::Static as i32)),
        connect_timeout: Some(seconds(1)),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: name.to_owned(),
            endpoints: vec![LocalityLbEndpoints {
                lb_endpoints: vec![lb_endpoint(address, HealthStatus::Unknown)],
                ..LocalityLbEndpoints::default()
            }],
            ..ClusterLoadAssignment::default()
        }),
        typed_extension_protocol_options: [(PROTOCOL_OPTIONS.to_owned(), options)].into(),
        upstream_connection_options: over_tcp.then(|| proto::envoy::config::cluster::v3::UpstreamConnectionOptions {
            tcp_keepalive: Some(keepalive),
            ..Default::default()
        }),
        ..Cluster::default()
    }
}

/// Answers when the proxy is live, whatever limits hold for its clients.
pub(super) fn listener(address: SocketAddr) -> Listener {
    let manager = HttpConnectionManager {
        stat_prefix: "local".to_owned(),
        route_specifier: Some(RouteSpecifier::RouteConfig(RouteConfiguration {
            name: LOCAL_LISTENER.to_owned(),
            virtual_hosts: vec![VirtualHost {
                name: LOCAL_LISTENER.to_owned(),
                domains: vec!["*".to_owned()],
                routes: OFFERED.iter().map(|path| offer(path)).collect(),
                ..VirtualHost::default()
            }],
            ..RouteConfiguration::default()
        })),
        http_filters: vec![filter("envoy.filters.http.router", Any::pack(&Router::default()))],
        ..HttpConnectionManager::default()
    };
    Listener {
        name: LOCAL_LISTENER.to_owned(),
        address: Some(socket_address(address.ip(), address.port())),
        filter_chains: vec![FilterChain {
            filters: vec![network_filter("envoy.filters.network.http_connection_manager", &manager)],
            ..FilterChain::default()
        }],
        enable_reuse_port: Some(false),
        ignore_global_conn_limit: true,
        ..Listener::default()
    }
}

fn offer(path: &str) -> Route {
    Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Path(path.to_owned())),
            ..RouteMatch::default()
        }),
        action: Some(route::Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(ADMIN_CLUSTER.to_owned())),
            ..RouteAction::default()
        })),
        ..Route::default()
    }
}
