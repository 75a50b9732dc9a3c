//! Listeners: an address, and a filter chain for each server name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ir::listener::{Application, FilterChain};
use ir::{Listener, RouteConfigurationName, TcpProxyName};
use prost::{Message, Name};
use proto::envoy::config::core::v3::{ExtensionConfigSource, TcpKeepalive};
use proto::envoy::config::listener::v3 as listener;
use proto::envoy::config::route::v3::RouteConfiguration;
use proto::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use proto::envoy::extensions::filters::network::direct_response::v3::Config as DirectResponse;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::Rds;
use proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use proto::google::protobuf::Any;

use crate::access_log::AccessLog;
use crate::http_connection_manager::connection_manager;
use crate::resource::{Encoded, Need, sorted_needs, type_url};
use crate::tcp_proxy;
use crate::tls::{SecretSource, downstream, downstream_needs};
use crate::udp;
use crate::wire::{ads, bind_address, seconds};

/// What the operator decides for all listeners. A change of it replaces every listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The proxy's machine has IPv6: listeners on all interfaces bind `::`, which takes IPv4 as well. Otherwise `0.0.0.0`.
    pub ipv6: bool,
    /// Where requests are logged.
    pub access_log: AccessLog,
}

/// IPv6, no access log.
impl Default for Options {
    fn default() -> Self {
        Self { ipv6: true, access_log: AccessLog::Off }
    }
}

/// How much a connection may buffer before its sender is slowed down, in bytes: Envoy's advice for an edge proxy.
pub(crate) const CONNECTION_BUFFER: u32 = 32 * 1024;

/// A TLS handshake must be done in this time.
const HANDSHAKE_SECONDS: u32 = 10;

/// A listener by whose chains connections are taken. It needs its route configurations and secrets.
///
/// Nothing that changes often is in it: its bytes depend on the listeners of the user, never on routes, backends or the
/// content of certificates.
pub fn listener(listener: &Listener, options: &Options) -> Encoded {
    let mut needs = Vec::new();
    for chain in &listener.chains {
        needs.extend(chain.tls.iter().flat_map(downstream_needs));
        needs.extend(match &chain.application {
            Application::Http(routes) => Some(Need { type_url: type_url::ROUTE_CONFIGURATION, name: routes.0.clone() }),
            Application::Tcp(proxy) => Some(Need { type_url: type_url::EXTENSION_CONFIG, name: proxy.0.clone() }),
            Application::Close => None,
        });
    }
    let clusters = listener.udp.iter().chain(listener.tracing.as_deref().map(|tracing| &tracing.collector));
    needs.extend(clusters.map(|cluster| Need { type_url: type_url::CLUSTER, name: cluster.0.clone() }));
    let message = message(listener, options, Parts::Discovered);
    Encoded::whole(type_url::LISTENER, listener.name.0.clone(), &message, sorted_needs(needs))
}

/// Where the parts that a listener names come from.
#[derive(Clone, Copy)]
pub(crate) enum Parts<'a> {
    /// Route, extension and secret discovery.
    Discovered,
    /// Written in: these, and secrets of the same bootstrap.
    Inline(&'a Written),
}

/// What is written into listeners.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) routes: BTreeMap<RouteConfigurationName, RouteConfiguration>,
    pub(crate) proxies: BTreeMap<TcpProxyName, TcpProxy>,
}

/// `enable_reuse_port` is off because two processes that claim one port would share it silently.
pub(crate) fn message(listener: &Listener, options: &Options, parts: Parts<'_>) -> listener::Listener {
    if let Some(cluster) = &listener.udp {
        return udp::message(listener, cluster, options);
    }
    let port = listener.bound_port();
    let inspected = listener.chains.iter().any(|chain| chain.tls.is_some() || !chain.server_names.is_empty());
    listener::Listener {
        name: listener.name.as_str().to_owned(),
        address: Some(bind_address(listener.address, port, options.ipv6)),
        filter_chains: listener.chains.iter().map(|chain| filter_chain(listener, chain, options, parts)).collect(),
        listener_filters: inspected.then(tls_inspector).into_iter().collect(),
        per_connection_buffer_limit_bytes: Some(CONNECTION_BUFFER),
        enable_reuse_port: Some(false),
        tcp_keepalive: Some(KEEPALIVE),
        ..listener::Listener::default()
    }
}

/// A client that vanished without a word is noticed after 60 + 3 × 10 s, also while it waits for an answer.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive { keepalive_probes: Some(3), keepalive_time: Some(60), keepalive_interval: Some(10) };

fn filter_chain(
    listener: &Listener,
    chain: &FilterChain,
    options: &Options,
    parts: Parts<'_>,
) -> listener::FilterChain {
    let source = match parts {
        Parts::Discovered => SecretSource::Ads,
        Parts::Inline(_) => SecretSource::Static,
    };
    let matches = listener::FilterChainMatch {
        server_names: chain.server_names.iter().map(|name| name.as_ref().to_owned()).collect(),
        ..listener::FilterChainMatch::default()
    };
    listener::FilterChain {
        name: chain.name.as_ref().to_owned(),
        filter_chain_match: (!chain.server_names.is_empty()).then_some(matches),
        filters: vec![filter(listener, &chain.application, options, parts)],
        transport_socket: chain.tls.as_ref().map(|tls| downstream(tls, &chain.application, source)),
        transport_socket_connect_timeout: chain.tls.as_ref().map(|_| seconds(HANDSHAKE_SECONDS)),
        ..listener::FilterChain::default()
    }
}

fn filter(listener: &Listener, application: &Application, options: &Options, parts: Parts<'_>) -> listener::Filter {
    match application {
        Application::Http(name) => {
            let manager = connection_manager(listener, routes(name, parts), &options.access_log);
            network_filter("envoy.filters.network.http_connection_manager", &manager)
        }
        Application::Tcp(name) => tcp(name, parts),
        Application::Close => network_filter("envoy.filters.network.direct_response", &DirectResponse::default()),
    }
}

fn routes(name: &RouteConfigurationName, parts: Parts<'_>) -> RouteSpecifier {
    match parts {
        Parts::Discovered => {
            RouteSpecifier::Rds(Rds { config_source: Some(ads()), route_config_name: name.as_str().to_owned() })
        }
        // Unknown: like one without hosts, every request is answered 404.
        Parts::Inline(written) => {
            RouteSpecifier::RouteConfig(written.routes.get(name).cloned().unwrap_or_else(|| RouteConfiguration {
                name: name.as_str().to_owned(),
                ..RouteConfiguration::default()
            }))
        }
    }
}

/// What passes connections on. While its configuration is not there, the listener waits; later changes of it are for new connections.
fn tcp(name: &TcpProxyName, parts: Parts<'_>) -> listener::Filter {
    const NAME: &str = "envoy.filters.network.tcp_proxy";
    match parts {
        Parts::Discovered => listener::Filter {
            name: name.as_str().to_owned(),
            config_type: Some(listener::filter::ConfigType::ConfigDiscovery(ExtensionConfigSource {
                config_source: Some(ads()),
                type_urls: vec![tcp_proxy::TYPE_URL.to_owned()],
                ..ExtensionConfigSource::default()
            })),
        },
        Parts::Inline(written) => match written.proxies.get(name) {
            Some(proxy) => network_filter(NAME, proxy),
            None => network_filter("envoy.filters.network.direct_response", &DirectResponse::default()),
        },
    }
}

/// A network filter with its configuration.
pub(crate) fn network_filter<M: Message + Name>(name: &str, config: &M) -> listener::Filter {
    listener::Filter {
        name: name.to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(Any::pack(config))),
    }
}

/// Reads the server name. It is there on every TLS listener, even if one chain takes all: to add it later would replace the
/// listener.
fn tls_inspector() -> listener::ListenerFilter {
    listener::ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener::listener_filter::ConfigType::TypedConfig(Any::pack(&TlsInspector::default()))),
        ..listener::ListenerFilter::default()
    }
}
