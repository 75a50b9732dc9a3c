//! Listeners.

use std::net::Ipv6Addr;

use ir::Listener;
use ir::listener::{Application, DownstreamTls, FilterChain};
use serde_json::Value;

use super::{Options, listener};
use crate::access_log::AccessLog;
use crate::testing::{expect, json};

fn chain(name: &str, server_names: &[&str], tls: Option<DownstreamTls>, application: Application) -> FilterChain {
    let server_names = server_names.iter().map(|name| (*name).into()).collect();
    FilterChain { name: name.into(), server_names, tls, application }
}

fn on(chains: Vec<FilterChain>) -> Listener {
    Listener {
        name: "ns/gw/80".into(),
        address: None,
        port: 80,
        mapped_to: None,
        chains,
        udp: None,
        tracing: None,
        retry_budgets: false,
    }
}

fn http() -> Listener {
    on(vec![chain("*", &[], None, Application::Http("ns/gw/80".into()))])
}

fn tls() -> Option<DownstreamTls> {
    Some(DownstreamTls { certificates: vec!["secret/ns/a".into()], client_validation: None })
}

/// The listener with its connection managers cut out: they are the same everywhere.
fn frame(part: &Listener, options: &Options) -> Value {
    let mut json = json(&listener(part, options));
    for chain in json["filterChains"].as_array_mut().unwrap() {
        let filter = &mut chain["filters"][0];
        *filter = filter["name"].take();
        chain.as_object_mut().unwrap().remove("transportSocket");
    }
    json
}

fn manager(options: &Options) -> Value {
    json(&listener(&http(), options))["filterChains"][0]["filters"][0]["typedConfig"].take()
}

#[test]
fn a_cleartext_listener_binds_every_interface_of_both_families() {
    expect(
        &frame(&http(), &Options::default()),
        "
name: ns/gw/80
address: {socketAddress: {address: '::', portValue: 80, ipv4Compat: true}}
filterChains: [{name: '*', filters: [envoy.filters.network.http_connection_manager]}]
perConnectionBufferLimitBytes: 32768
enableReusePort: false
tcpKeepalive: {keepaliveProbes: 3, keepaliveTime: 60, keepaliveInterval: 10}
",
    );
}

#[test]
fn a_machine_without_ipv6_binds_ipv4_only() {
    let found = frame(&http(), &Options { ipv6: false, ..Options::default() });
    expect(&found["address"], "{socketAddress: {address: 0.0.0.0, portValue: 80}}");
}

#[test]
fn a_given_address_is_bound_and_no_other() {
    let found = frame(&Listener { address: Some(Ipv6Addr::LOCALHOST.into()), ..http() }, &Options::default());
    expect(&found["address"], "{socketAddress: {address: '::1', portValue: 80}}");
}

#[test]
fn a_tls_listener_reads_the_server_name_and_has_a_chain_for_each() {
    let chains = vec![
        chain("a.example", &["a.example"], tls(), Application::Http("ns/gw/80/a.example".into())),
        chain("*", &[], tls(), Application::Close),
    ];
    let found = frame(&on(chains), &Options::default());
    expect(
        &found["filterChains"],
        "
- name: a.example
  filterChainMatch: {serverNames: [a.example]}
  filters: [envoy.filters.network.http_connection_manager]
  transportSocketConnectTimeout: 10s
- name: '*'
  filters: [envoy.filters.network.direct_response]
  transportSocketConnectTimeout: 10s
",
    );
    expect(
        &found["listenerFilters"],
        "
- name: envoy.filters.listener.tls_inspector
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}
",
    );
}

#[test]
fn the_connection_manager_in_full() {
    let asked = (1..=16).map(|place| {
        let place = if place > 1 { format!(".{place}") } else { String::new() };
        format!(
            "- name: chancery.external_auth.listener{place}\n  typedConfig: {{'@type': \
             type.googleapis.com/envoy.extensions.filters.http.composite.v3.Composite}}\n  disabled: true\n"
        )
    });
    expect(
        &manager(&Options::default()),
        &"
'@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
statPrefix: http-80
rds: {configSource: {ads: {}, resourceApiVersion: V3}, routeConfigName: ns/gw/80}
httpFilters:
- name: chancery.whole_body.listener.protocol
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
  disabled: true
- name: chancery.whole_body.listener
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.composite.v3.Composite}
  disabled: true
- name: chancery.whole_body.listener.length
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
  disabled: true
ASKED- name: envoy.filters.http.cors
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors}
- name: chancery.whole_body.protocol
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
- name: chancery.whole_body
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.composite.v3.Composite}
- name: chancery.whole_body.length
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}
- name: chancery.external_auth
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.composite.v3.Composite}
- name: chancery.external_auth.next
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.composite.v3.Composite}
- name: envoy.filters.http.stateful_session
  typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession}
  disabled: true
- name: envoy.filters.http.router
  typedConfig:
    '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
    suppressEnvoyHeaders: true
http2ProtocolOptions:
  maxConcurrentStreams: 100
  initialStreamWindowSize: 65536
  initialConnectionWindowSize: 1048576
  allowConnect: true
useRemoteAddress: true
upgradeConfigs: [{upgradeType: websocket}]
streamIdleTimeout: 3600s
normalizePath: true
mergeSlashes: true
serverHeaderTransformation: PASS_THROUGH
commonHttpProtocolOptions: {idleTimeout: 3600s, headersWithUnderscoresAction: REJECT_REQUEST}
requestHeadersTimeout: 10s
pathWithEscapedSlashesAction: UNESCAPE_AND_REDIRECT
"
        .replace("ASKED", &asked.collect::<String>()),
    );
}

#[test]
fn requests_are_logged_where_the_operator_says() {
    let log = |access_log| manager(&Options { access_log, ..Options::default() })["accessLog"].take();
    assert_eq!(log(AccessLog::Off), Value::Null);
    let logged = log(AccessLog::Stdout);
    assert_eq!(logged[0]["name"], "envoy.access_loggers.stdout");
    assert_eq!(logged[0]["typedConfig"]["logFormat"]["jsonFormat"]["method"], "%REQ(:METHOD)%");
    assert_eq!(log(AccessLog::File("/log".into()))[0]["typedConfig"]["path"], "/log");
}

#[test]
fn a_listener_needs_its_route_configurations_and_secrets_once() {
    let chains = vec![
        chain("a", &["a"], tls(), Application::Http("r".into())),
        chain("b", &["b"], tls(), Application::Http("r".into())),
    ];
    let needs = listener(&on(chains), &Options::default()).needs;
    let names: Vec<&str> = needs.iter().map(|need| need.name.as_ref()).collect();
    assert_eq!(names, ["r", "secret/ns/a"]);
}

#[test]
fn a_listener_for_datagrams_sends_those_of_each_client_to_one_endpoint_of_its_cluster() {
    let listener = Listener {
        name: "ns/gw/53/udp".into(),
        udp: Some("ns/gw/53/udp".into()),
        tracing: None,
        retry_budgets: false,
        port: 53,
        ..on(Vec::new())
    };
    let encoded = super::listener(&listener, &Options::default());
    assert_eq!(encoded.needs.len(), 1, "the cluster");
    expect(
        &json(&encoded),
        "
name: ns/gw/53/udp
address: {socketAddress: {protocol: UDP, address: '::', portValue: 53, ipv4Compat: true}}
listenerFilters:
- name: envoy.filters.udp_listener.udp_proxy
  typedConfig:
    '@type': type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
    statPrefix: udp-53
    matcher:
      onNoMatch:
        action:
          name: route
          typedConfig:
            '@type': type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route
            cluster: ns/gw/53/udp
udpListenerConfig: {}
enableReusePort: true
",
    );
}
