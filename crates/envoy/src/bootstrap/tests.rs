//! Bootstraps.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use ir::listener::{Application, FilterChain};
use ir::route::Hosts;
use ir::secret::{Hidden, SecretContent};
use ir::{Cluster, EndpointSource, Listener, RouteConfiguration, Secret, VirtualHost};
use serde_json::Value;

use super::{
    BootstrapOptions, ControlPlane, DEFAULT_MAX_CONNECTIONS, Endpoint, StaticOptions, StaticParts, bootstrap,
    static_bootstrap_json,
};
use crate::cluster::PROTOCOL_OPTIONS;
use crate::testing::expect;

fn options() -> BootstrapOptions {
    BootstrapOptions {
        node_id: "id".into(),
        node_cluster: "ns/gw".into(),
        zone: None,
        control_plane: ControlPlane::Local(Endpoint::Unix("/run/xds.sock".into()), "0123".into()),
        admin: Endpoint::Unix("/run/admin.sock".into()),
        local_listener: None,
        config_listener: None,
        max_connections: 100,
        of_gateway: true,
    }
}

#[test]
fn a_proxy_knows_itself_the_control_plane_and_its_limits() {
    expect(
        &bootstrap(&options()),
        "
node: {id: id, cluster: ns/gw}
staticResources:
  clusters:
  - name: chancery.xds
    type: STATIC
    connectTimeout: 1s
    loadAssignment:
      clusterName: chancery.xds
      endpoints: [{lbEndpoints: [{endpoint: {address: {pipe: {path: /run/xds.sock}}}}]}]
    typedExtensionProtocolOptions:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicitHttpConfig: {http2ProtocolOptions: {connectionKeepalive: {interval: 15s, timeout: 5s}}}
dynamicResources:
  ldsConfig: {ads: {}, initialFetchTimeout: 0s, resourceApiVersion: V3}
  cdsConfig: {ads: {}, initialFetchTimeout: 0s, resourceApiVersion: V3}
  adsConfig:
    apiType: DELTA_GRPC
    transportApiVersion: V3
    grpcServices:
    - envoyGrpc: {clusterName: chancery.xds, retryPolicy: {retryBackOff: {baseInterval: 0.100s, maxInterval: 1s}}}
      initialMetadata: [{key: authorization, value: Bearer 0123}]
    setNodeOnFirstMessageOnly: true
admin:
  address: {pipe: {path: /run/admin.sock, mode: 384}}
  allowPaths: [{exact: /ready}, {exact: /healthcheck/fail}, {exact: /drain_listeners}, {prefix: /stats?},
    {prefix: /stats/prometheus}, {prefix: /config_dump}, {prefix: '/logging?'}]
overloadManager:
  resourceMonitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typedConfig:
      '@type': type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      maxActiveDownstreamConnections: '100'
clusterManager:
  loadStatsConfig:
    apiType: GRPC
    transportApiVersion: V3
    grpcServices:
    - envoyGrpc: {clusterName: chancery.xds, retryPolicy: {retryBackOff: {baseInterval: 0.100s, maxInterval: 1s}}}
      initialMetadata: [{key: authorization, value: Bearer 0123}]
layeredRuntime:
  layers:
  - {name: chancery, staticLayer: {re2.max_program_size.error_level: 4096}}
  - name: chancery.limits
    rtdsLayer: {name: chancery.limits, rtdsConfig: {ads: {}, initialFetchTimeout: 1s, resourceApiVersion: V3}}
typedDnsResolverConfig:
  name: envoy.network.dns_resolver.cares
  typedConfig:
    '@type': type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
    queryTimeoutSeconds: '1'
    queryTries: 2
deferredStatOptions: {enableDeferredCreationStats: true}
",
    );
}

#[test]
fn zone_and_local_listeners_come_with_their_options() {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 19001));
    let json = bootstrap(&BootstrapOptions {
        zone: Some("z".into()),
        local_listener: Some(local),
        config_listener: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 19004))),
        control_plane: ControlPlane::Local(Endpoint::Tcp(Ipv4Addr::LOCALHOST.into(), 18000), "0123".into()),
        ..options()
    });
    assert_eq!(json["node"]["locality"]["zone"], "z");
    let clusters = json["staticResources"]["clusters"].as_array().unwrap();
    let names: Vec<&Value> = clusters.iter().map(|cluster| &cluster["name"]).collect();
    assert_eq!(names, ["chancery.xds", "chancery.admin"]);
    let listener = &json["staticResources"]["listeners"][0];
    expect(&listener["address"], "{socketAddress: {address: 127.0.0.1, portValue: 19001}}");
    let manager = &listener["filterChains"][0]["filters"][0]["typedConfig"];
    let routes = &manager["routeConfig"]["virtualHosts"][0]["routes"];
    expect(&routes[0]["match"], "{path: /stats/prometheus}");
    let shown = &json["staticResources"]["listeners"][1];
    expect(&shown["address"], "{socketAddress: {address: 127.0.0.1, portValue: 19004}}");
    let routes = &shown["filterChains"][0]["filters"][0]["typedConfig"]["routeConfig"]["virtualHosts"][0]["routes"];
    expect(routes, "[{match: {path: /config_dump}, route: {cluster: chancery.admin, timeout: 0s}}]");
    let probed = &manager["httpFilters"][0]["typedConfig"];
    expect(&probed["headers"], "[{name: ':path', stringMatch: {exact: /ready}}]");
}

/// A bootstrap of `deploy/`, as messages print it.
fn deployed(file: &str) -> Value {
    const KIND: &str = "envoy.config.bootstrap.v3.Bootstrap";
    let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
    let text: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    protojson::to_json(KIND, &protojson::from_json(KIND, &text).unwrap()).unwrap()
}

#[test]
fn bootstraps_that_people_copy_have_what_those_of_chancery_have() {
    let unix = ControlPlane::Local(Endpoint::Unix("/xds.sock".into()), "0123".into());
    let tcp = ControlPlane::Local(Endpoint::Tcp(Ipv4Addr::LOCALHOST.into(), 18_000), "0123".into());
    for (file, control_plane) in [("envoy-socket.yaml", unix), ("envoy-tls/envoy.yaml", tcp)] {
        let own = BootstrapOptions { control_plane, max_connections: DEFAULT_MAX_CONNECTIONS, ..options() };
        let mut own = bootstrap(&own);
        // A filter or a certificate takes the place of the token.
        for service in ["/dynamicResources/adsConfig", "/clusterManager/loadStatsConfig"] {
            let service = own.pointer_mut(&format!("{service}/grpcServices/0")).unwrap();
            assert!(service.as_object_mut().unwrap().remove("initialMetadata").is_some());
            service["envoyGrpc"]["clusterName"] = "xds".into();
        }
        let theirs = deployed(file);
        for part in [
            "/dynamicResources",
            "/clusterManager",
            "/admin/allowPaths",
            "/overloadManager",
            "/layeredRuntime",
            "/typedDnsResolverConfig",
            "/deferredStatOptions",
            "/staticResources/clusters/0/connectTimeout",
        ] {
            assert_eq!(theirs.pointer(part), own.pointer(part), "{file}: {part}");
        }
        let cluster = |of: &Value| of["staticResources"]["clusters"][0].clone();
        let http =
            |of: &Value| cluster(of)["typedExtensionProtocolOptions"][PROTOCOL_OPTIONS]["explicitHttpConfig"].clone();
        assert_eq!(http(&theirs), http(&own), "{file}");
        assert_eq!(cluster(&theirs)["upstreamConnectionOptions"], cluster(&own)["upstreamConnectionOptions"], "{file}");
    }
}

#[test]
fn a_bootstrap_keeps_the_rules_of_envoys_api_in_the_form_that_messages_have() {
    const KIND: &str = "envoy.config.bootstrap.v3.Bootstrap";
    let tcp = |port| Endpoint::Tcp(Ipv4Addr::LOCALHOST.into(), port);
    let local_listener = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 19001)));
    let zone = Some(Arc::from("z"));
    let far = BootstrapOptions {
        zone,
        local_listener,
        config_listener: local_listener,
        control_plane: ControlPlane::Local(tcp(18000), "0123".into()),
        admin: tcp(19000),
        ..options()
    };
    for options in [options(), far] {
        let json = bootstrap(&options);
        let bytes = protojson::from_json(KIND, &json).unwrap();
        assert_eq!(protojson::check(KIND, &bytes), []);
        assert_eq!(protojson::to_json(KIND, &bytes).unwrap(), json);
    }
}

fn show(show_secrets: bool) -> Value {
    let listener = |port: u16, routes: &str| Listener {
        name: format!("l{port}").into(),
        address: None,
        port,
        mapped_to: None,
        chains: vec![FilterChain {
            name: "*".into(),
            server_names: Vec::new(),
            tls: None,
            application: Application::Http(routes.into()),
        }],
        udp: None,
        tracing: None,
        retry_budgets: false,
    };
    let (one, two) = (listener(80, "r"), listener(81, "r/x"));
    let configuration = |name: &str| RouteConfiguration { name: name.into(), hosts: Hosts::Separate };
    let configurations = [configuration("r"), configuration("r/x")];
    let host = |name: &str| VirtualHost {
        name: name.into(),
        domains: vec!["*".into()],
        pieces: Vec::new(),
        external_auth: Vec::new(),
    };
    let hosts = [host("r/*"), host("r/x/*")];
    let cluster = Cluster {
        name: "c".into(),
        endpoints: EndpointSource::Discovered("missing".into()),
        protocol: Default::default(),
        tls: None,
        circuit_breaker: Default::default(),
        connect_timeout: None,
    };
    let secret = Secret { name: "s".into(), content: SecretContent::Bundle(Hidden(Arc::from(&b"pem"[..]))) };
    let parts = StaticParts {
        listeners: vec![&one, &two],
        route_configurations: configurations.iter().collect(),
        separate_hosts: hosts.iter().collect(),
        tcp_proxies: Vec::new(),
        clusters: vec![&cluster],
        endpoints: Vec::new(),
        secrets: vec![&secret],
        runtime: None,
    };
    static_bootstrap_json(&parts, &StaticOptions { show_secrets, ..StaticOptions::default() }, 2).unwrap()
}

#[test]
fn a_static_configuration_has_every_host_in_its_own_listener() {
    let json = show(true);
    for (position, name, host) in [(0, "r", "r/*"), (1, "r/x", "r/x/*")] {
        let listener = &json["staticResources"]["listeners"][position];
        let routes = &listener["filterChains"][0]["filters"][0]["typedConfig"]["routeConfig"];
        assert_eq!(routes["name"], name);
        expect(&routes["virtualHosts"], &format!("[{{name: {host}, domains: ['*']}}]"));
    }
    assert_eq!(json["dynamicResources"], Value::Null);
}

#[test]
fn a_static_cluster_without_known_endpoints_is_empty() {
    let cluster = &show(true)["staticResources"]["clusters"][0];
    assert_eq!(cluster["loadAssignment"]["clusterName"], "c");
    assert_eq!(cluster["edsClusterConfig"], Value::Null);
}

#[test]
fn secrets_are_shown_only_on_request() {
    expect(
        &show(true)["staticResources"]["secrets"],
        "[{name: s, validationContext: {trustedCa: {inlineBytes: cGVt}}}]",
    );
    expect(
        &show(false)["staticResources"]["secrets"],
        "[{name: s, validationContext: {trustedCa: {inlineString: <hidden>}}}]",
    );
}
