//! The static clusters and the listeners: one for probes and collectors, one that shows the configuration.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{ADMIN_CLUSTER, CONFIG_LISTENER, Endpoint, LOCAL_LISTENER, XDS_CLUSTER, any, put, socket_address};
use crate::cluster::PROTOCOL_OPTIONS;

/// What of the admin interface is offered to collectors. Nothing here changes anything or shows configuration.
const OFFERED: &str = "/stats/prometheus";

/// What of it is offered on loopback: everything but private keys.
const SHOWN: &str = "/config_dump";

/// Answers of [`OFFERED`] in a row, and one more each second. The main thread makes them, at 0.1 ms for each route, and has the configuration to take
/// in as well. Three collectors that ask every 5 s need fewer.
const OFFERED_AT_ONCE: u32 = 10;

/// Requests to the admin interface at a time, and as many that wait. Its one thread works for one.
const ASKED_AT_ONCE: u32 = 4;

/// Time after which a connection of a probe or collector that is silent ends, and in which the head of a request is to arrive.
const LOCAL_IDLE: &str = "10s";

/// What probes ask.
const READY: &str = "/ready";

/// The way to the control plane: HTTP/2 with a keep-alive, so that a stream whose other end vanished is given up after
/// 15 + 5 s.
pub(super) fn control_plane(endpoint: &Endpoint) -> Value {
    static_cluster(XDS_CLUSTER, endpoint, http2())
}

/// What is spoken with the control plane.
pub(super) fn http2() -> Value {
    json!({ "http2ProtocolOptions": { "connectionKeepalive": { "interval": "15s", "timeout": "5s" } } })
}

/// The way to the proxy's own admin interface.
pub(super) fn admin_cluster(endpoint: &Endpoint) -> Value {
    let mut cluster = static_cluster(ADMIN_CLUSTER, endpoint, json!({ "httpProtocolOptions": {} }));
    let most = json!({ "maxPendingRequests": ASKED_AT_ONCE, "maxRequests": ASKED_AT_ONCE });
    put(&mut cluster, "circuitBreakers", json!({ "thresholds": [most] }));
    cluster
}

fn static_cluster(name: &str, endpoint: &Endpoint, protocol: Value) -> Value {
    let (address, over_tcp) = match endpoint {
        Endpoint::Unix(path) => (json!({ "pipe": { "path": &**path } }), false),
        Endpoint::Tcp(ip, port) => (socket_address(SocketAddr::new(*ip, *port)), true),
    };
    let options = any(PROTOCOL_OPTIONS, json!({ "explicitHttpConfig": protocol }));
    let mut cluster = json!({
        "name": name,
        "type": "STATIC",
        "connectTimeout": "1s",
        "loadAssignment": {
            "clusterName": name,
            "endpoints": [{ "lbEndpoints": [{ "endpoint": { "address": address } }] }],
        },
        "typedExtensionProtocolOptions": { PROTOCOL_OPTIONS: options },
    });
    if over_tcp {
        put(&mut cluster, "upstreamConnectionOptions", tcp_keepalive());
    }
    cluster
}

/// A connection whose other end is gone is noticed after 10 + 3 × 5 s.
pub(super) fn tcp_keepalive() -> Value {
    json!({ "tcpKeepalive": { "keepaliveProbes": 3, "keepaliveTime": 10, "keepaliveInterval": 5 } })
}

/// Answers when the proxy is live, whatever limits hold for its clients. What probes ask is answered by the threads that serve clients,
/// which begin when it is live, and not by the admin interface: that is the main thread's, which has no time for it while thousands of
/// routes arrive (measured: 15 s and more), and a proxy that serves would be taken out of its Service.
pub(super) fn listener(address: SocketAddr) -> Value {
    let ready = json!({ "name": "envoy.filters.http.health_check", "typedConfig": ready() });
    let few = json!({ "name": "envoy.filters.http.local_ratelimit", "typedConfig": few() });
    offering((LOCAL_LISTENER, address), "local", &[ready, few], offer(OFFERED))
}

/// Shows what the proxy has. Of thousands of routes it is some hundred megabytes, which take their time.
pub(super) fn config_listener(address: SocketAddr) -> Value {
    let mut route = offer(SHOWN);
    if let Some(action) = route.get_mut("route") {
        put(action, "timeout", json!("0s"));
    }
    offering((CONFIG_LISTENER, address), "config", &[], route)
}

/// A listener that has one route, behind these filters.
fn offering((name, address): (&str, SocketAddr), prefix: &str, filters: &[Value], route: Value) -> Value {
    let router = any("envoy.extensions.filters.http.router.v3.Router", json!({}));
    let router = json!({ "name": "envoy.filters.http.router", "typedConfig": router });
    let manager = json!({
        "statPrefix": prefix,
        "commonHttpProtocolOptions": { "idleTimeout": LOCAL_IDLE },
        "requestHeadersTimeout": LOCAL_IDLE,
        "routeConfig": { "name": name, "virtualHosts": [{ "name": name, "domains": ["*"], "routes": [route] }] },
        "httpFilters": filters.iter().chain([&router]).collect::<Vec<_>>(),
    });
    let kind = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let filter = json!({ "name": "envoy.filters.network.http_connection_manager", "typedConfig": any(kind, manager) });
    json!({
        "name": name,
        "address": socket_address(address),
        "filterChains": [{ "filters": [filter] }],
        "enableReusePort": false,
        "ignoreGlobalConnLimit": true,
    })
}

/// 200, or 503 once the proxy is told that it is to end.
fn ready() -> Value {
    let path = json!({ "name": ":path", "stringMatch": { "exact": READY } });
    any(
        "envoy.extensions.filters.http.health_check.v3.HealthCheck",
        json!({ "passThroughMode": false, "headers": [path] }),
    )
}

/// 429 beyond [`OFFERED_AT_ONCE`].
fn few() -> Value {
    let always = json!({ "defaultValue": { "numerator": 100 } });
    any(
        "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        json!({
            "statPrefix": "local",
            "tokenBucket": { "maxTokens": OFFERED_AT_ONCE, "tokensPerFill": 1, "fillInterval": "1s" },
            "filterEnabled": always,
            "filterEnforced": always,
        }),
    )
}

fn offer(path: &str) -> Value {
    json!({ "match": { "path": path }, "route": { "cluster": ADMIN_CLUSTER } })
}
