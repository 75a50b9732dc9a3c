//! Clusters.

use std::time::Duration;

use ir::cluster::{CircuitBreaker, DnsEndpoint, Protocol, Trust, UpstreamTls};
use ir::{Cluster, EndpointSource};
use serde_json::Value;

use super::cluster;
use crate::testing::{expect, json};

fn plain() -> Cluster {
    Cluster {
        name: "ns/a/80".into(),
        endpoints: EndpointSource::Discovered("ns/a/80".into()),
        protocol: Protocol::Http1,
        tls: None,
        circuit_breaker: None,
        connect_timeout: None,
    }
}

fn tls(trust: Trust, certificate: Option<&str>) -> Option<Box<UpstreamTls>> {
    Some(Box::new(UpstreamTls { trust, certificate: certificate.map(Into::into), ..UpstreamTls::unverified() }))
}

fn needs(cluster: &Cluster) -> Vec<String> {
    let name = |need: crate::Need| format!("{} {}", need.type_url.rsplit('.').next().unwrap(), need.name);
    super::cluster(cluster).needs.into_iter().map(name).collect()
}

/// The fields of `found` that `wanted` names.
fn check_part(found: &Cluster, wanted: &str) {
    let wanted_fields = crate::testing::yaml(wanted);
    let mut json = json(&cluster(found));
    let fields = json.as_object_mut().unwrap();
    fields.retain(|name, _| wanted_fields.get(name).is_some());
    expect(&Value::Object(fields.clone()), wanted);
}

#[test]
fn a_plain_cluster_in_full() {
    expect(
        &json(&cluster(&plain())),
        "
name: ns/a/80
type: EDS
edsClusterConfig: {edsConfig: {ads: {}, initialFetchTimeout: 60s, resourceApiVersion: V3}}
connectTimeout: 10s
perConnectionBufferLimitBytes: 32768
lbPolicy: LEAST_REQUEST
circuitBreakers:
  thresholds:
  - {maxConnections: 16384, maxPendingRequests: 1048576, maxRequests: 1048576, maxRetries: 1024}
commonLbConfig: {healthyPanicThreshold: {value: 1}, updateMergeWindow: 0s}
typedExtensionProtocolOptions:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicitHttpConfig: {httpProtocolOptions: {}}
upstreamConnectionOptions: {tcpKeepalive: {keepaliveProbes: 3, keepaliveTime: 60, keepaliveInterval: 10}}
",
    );
}

#[test]
fn limits_and_time_outs_are_the_users_where_given() {
    let limits = CircuitBreaker {
        max_connections: Some(1),
        max_parallel_retries: Some(0),
        max_requests_per_connection: Some(9),
        max_connections_per_endpoint: Some(3),
        ..CircuitBreaker::default()
    };
    let limited = Cluster {
        circuit_breaker: Some(Box::new(limits)),
        connect_timeout: Some(Duration::from_millis(2500)),
        protocol: Protocol::Http2,
        ..plain()
    };
    check_part(
        &limited,
        "
connectTimeout: 2.500s
circuitBreakers:
  thresholds:
  - {maxConnections: 1, maxPendingRequests: 1048576, maxRequests: 1048576, maxRetries: 0}
  perHostThresholds:
  - {maxConnections: 3}
typedExtensionProtocolOptions:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    commonHttpProtocolOptions: {maxRequestsPerConnection: 9}
    explicitHttpConfig: {http2ProtocolOptions: {initialStreamWindowSize: 1048576, initialConnectionWindowSize: 16777216}}
",
    );
}

#[test]
fn a_connect_time_out_of_zero_which_envoy_refuses_is_the_default() {
    check_part(&Cluster { connect_timeout: Some(Duration::ZERO), ..plain() }, "connectTimeout: 10s");
}

#[test]
fn names_are_resolved_by_the_proxy_and_nobody_waits_for_them() {
    let host = |host: &str, zone: Option<&str>| DnsEndpoint { host: host.into(), port: 80, zone: zone.map(Into::into) };
    let named = EndpointSource::Dns(vec![host("a.example", Some("z")), host("127.0.0.1", None)]);
    check_part(
        &Cluster { endpoints: named, ..plain() },
        "
clusterType:
  name: envoy.cluster.dns
  typedConfig:
    '@type': type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster
    dnsRefreshRate: 5s
    dnsFailureRefreshRate: {baseInterval: 1s, maxInterval: 10s}
    respectDnsTtl: true
    dnsLookupFamily: V4_PREFERRED
loadAssignment:
  clusterName: ns/a/80
  endpoints:
  - locality: {zone: z}
    lbEndpoints: [{endpoint: {address: {socketAddress: {address: a.example, portValue: 80}}}}]
  - lbEndpoints: [{endpoint: {address: {socketAddress: {address: 127.0.0.1, portValue: 80}}}}]
",
    );
}

#[test]
fn a_cluster_needs_its_own_endpoints_and_its_secrets() {
    assert_eq!(needs(&plain()), ["ClusterLoadAssignment ns/a/80"]);
    let secured = Cluster { tls: tls(Trust::Bundle("ca".into()), Some("client")), ..plain() };
    assert_eq!(needs(&secured), ["ClusterLoadAssignment ns/a/80", "Secret ca", "Secret client"]);
    assert_eq!(needs(&Cluster { endpoints: EndpointSource::Dns(Vec::new()), ..plain() }), [] as [&str; 0]);
}
