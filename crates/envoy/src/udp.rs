//! Listeners that take datagrams: all of a client go to one endpoint of a cluster, and what comes from there goes back to the client.

use ir::{ClusterName, Listener};
use proto::envoy::config::core::v3::Address;
use proto::envoy::config::core::v3::address::Address as Choice;
use proto::envoy::config::core::v3::socket_address::Protocol;
use proto::envoy::config::listener::v3::{self as listener, UdpListenerConfig};
use proto::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::RouteSpecifier;
use proto::envoy::extensions::filters::udp::udp_proxy::v3::{Route, UdpProxyConfig};
use proto::google::protobuf::Any;
use proto::xds::core::v3::TypedExtensionConfig;
use proto::xds::r#type::matcher::v3::{Matcher, matcher};

use crate::listener::Options;
use crate::wire::bind_address;

/// Each worker has a socket of its own (`enable_reuse_port`), as Envoy wants it of all that take datagrams. Nothing that a route says is in
/// it: to replace such a listener would cost every client its session.
pub(crate) fn message(listener: &Listener, cluster: &ClusterName, options: &Options) -> listener::Listener {
    let address = bind_address(listener.address, listener.bound_port(), options.ipv6);
    listener::Listener {
        name: listener.name.as_str().to_owned(),
        address: Some(datagrams(address)),
        listener_filters: vec![proxy(listener.port, cluster)],
        udp_listener_config: Some(UdpListenerConfig::default()),
        enable_reuse_port: Some(true),
        ..listener::Listener::default()
    }
}

fn datagrams(mut address: Address) -> Address {
    if let Some(Choice::SocketAddress(socket)) = &mut address.address {
        socket.protocol = Protocol::Udp as i32;
    }
    address
}

fn proxy(port: u16, cluster: &ClusterName) -> listener::ListenerFilter {
    let route = Route { cluster: cluster.as_str().to_owned() };
    let action = TypedExtensionConfig { name: "route".to_owned(), typed_config: Some(Any::pack(&route)) };
    let always =
        matcher::OnMatch { on_match: Some(matcher::on_match::OnMatch::Action(action)), ..matcher::OnMatch::default() };
    let matcher = Matcher { on_no_match: Some(Box::new(always)), ..Matcher::default() };
    let config = UdpProxyConfig {
        stat_prefix: format!("udp-{port}"),
        route_specifier: Some(RouteSpecifier::Matcher(matcher)),
        ..UdpProxyConfig::default()
    };
    listener::ListenerFilter {
        name: "envoy.filters.udp_listener.udp_proxy".to_owned(),
        config_type: Some(listener::listener_filter::ConfigType::TypedConfig(Any::pack(&config))),
        ..listener::ListenerFilter::default()
    }
}
