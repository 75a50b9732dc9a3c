//! Addresses, message by message.

use ir::raw::{Power, RawAddress};
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};
use serde_json::{Value as Json, json};

use super::{PORTS, TARGETS, URLS};
use crate::raw::inline::LISTENER;
use crate::raw::{CLUSTER, ENDPOINTS, powers};

fn read(message: &str, config: &Json) -> (Vec<Power>, Vec<RawAddress>) {
    let (read, _) = protojson::Pool::envoy().read(message, config, protojson::Unknown::Refuse).unwrap();
    let powers::RawEffects { uses, leads, .. } = powers::of(&read);
    let mut powers: Vec<Power> = uses.into_iter().map(|found| found.power).collect();
    powers.dedup();
    (powers, leads)
}

fn leads(message: &str, config: &Json) -> Vec<String> {
    let (_, leads) = read(message, config);
    leads.into_iter().map(|lead| format!("{} {} at {}", lead.host, lead.port, lead.path)).collect()
}

fn socket(address: &str, port: u16) -> Json {
    json!({"socket_address": {"address": address, "port_value": port}})
}

fn endpoints(endpoint: &Json) -> Json {
    json!({"cluster_name": "c", "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}]})
}

fn cluster(mut more: Json) -> Json {
    more["name"] = json!("c");
    more
}

fn any(name: &str, mut fields: Json) -> Json {
    fields["@type"] = json!(format!("type.googleapis.com/{name}"));
    fields
}

#[test]
fn an_address_is_found_wherever_it_stands() {
    let away = || socket("169.254.169.254", 80);
    let proxy = "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
    let raw = any("envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer", json!({}));
    let inner = json!({"name": "r", "typed_config": raw});
    let http_proxy = any(proxy, json!({"transport_socket": inner, "default_proxy_address": away()}));
    let resolver =
        any("envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig", json!({"resolvers": [away()]}));
    let metadata = any("envoy.config.core.v3.Address", away());
    let typed = json!({"type_url": "type.googleapis.com/envoy.config.core.v3.Address", "value": away()});
    let endpoint = "endpoints[0].lbEndpoints[0].endpoint";
    for (message, config, path) in [
        (ENDPOINTS, endpoints(&json!({"address": away()})), format!("{endpoint}.address")),
        (
            ENDPOINTS,
            endpoints(&json!({"address": away(), "additional_addresses": [{"address": away()}]})),
            // Of an address that stands twice the first place in order of path counts.
            format!("{endpoint}.additionalAddresses[0].address"),
        ),
        (
            ENDPOINTS,
            endpoints(&json!({"health_check_config": {"address": away()}})),
            format!("{endpoint}.healthCheckConfig.address"),
        ),
        (
            CLUSTER,
            cluster(json!({"load_assignment": endpoints(&json!({"address": away()}))})),
            format!("loadAssignment.{endpoint}.address"),
        ),
        (
            CLUSTER,
            cluster(
                json!({"upstream_bind_config": {"source_address": {"address": "169.254.169.254", "port_value": 80}}}),
            ),
            "upstreamBindConfig.sourceAddress".to_owned(),
        ),
        (CLUSTER, cluster(json!({"dns_resolvers": [away()]})), "dnsResolvers[0]".to_owned()),
        (
            CLUSTER,
            cluster(json!({"typed_dns_resolver_config": {"name": "d", "typed_config": resolver}})),
            "typedDnsResolverConfig.typedConfig.resolvers[0]".to_owned(),
        ),
        (
            CLUSTER,
            cluster(json!({"transport_socket": {"name": "t", "typed_config": http_proxy}})),
            "transportSocket.typedConfig.defaultProxyAddress".to_owned(),
        ),
        (
            CLUSTER,
            cluster(json!({"metadata": {"typed_filter_metadata": {"p": metadata}}})),
            "metadata.typedFilterMetadata.p".to_owned(),
        ),
        (
            CLUSTER,
            cluster(json!({"metadata": {"typed_filter_metadata": {"p": any("xds.type.v3.TypedStruct", typed)}}})),
            "metadata.typedFilterMetadata.p.value".to_owned(),
        ),
    ] {
        // Only here the message of the address itself stands in the field.
        let last = if path.ends_with("sourceAddress") { "" } else { ".socketAddress" };
        assert_eq!(leads(message, &config), [format!("169.254.169.254 80 at {path}{last}")]);
    }
}

#[test]
fn listeners_lead_nowhere_by_where_they_are_bound() {
    let bound = json!({"name": "l", "address": socket("169.254.20.10", 53), "additional_addresses": [{"address": socket("fe80::1", 53)}]});
    assert_eq!(leads(LISTENER, &bound), [""; 0]);
}

#[test]
fn ports_in_place_of_those_of_endpoints_are_found() {
    let check =
        json!({"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1, "alt_port": 8082});
    assert_eq!(leads(CLUSTER, &cluster(json!({"health_checks": [check]}))), [" 8082 at healthChecks[0]"]);
    let (powers, _) = read(ENDPOINTS, &endpoints(&json!({"health_check_config": {"port_value": 19_000}})));
    assert_eq!(powers, [Power::Admin]);
}

#[test]
fn targets_of_grpc_are_read_as_grpc_reads_them() {
    let of = |target: &str| {
        let service = json!({"google_grpc": {"target_uri": target, "stat_prefix": "x"}});
        let log = "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig";
        let log = any(
            log,
            json!({"common_config": {"log_name": "x", "transport_api_version": "V3", "grpc_service": service}}),
        );
        let (powers, leads) = read(LISTENER, &json!({"name": "l", "access_log": [{"name": "a", "typed_config": log}]}));
        (powers, leads.into_iter().map(|lead| format!("{} {}", lead.host, lead.port)).collect::<Vec<_>>())
    };
    for (target, wanted) in [
        ("a.example:80", "a.example 80"),
        ("a.example", "a.example 0"),
        ("dns:a.example:80", "a.example 80"),
        ("DNS:///a.example:80", "a.example 80"),
        ("ipv4:169.254.169.254:80", "169.254.169.254 80"),
        ("ipv6:[fe80::1%25eth0]:80", "[fe80::1%eth0] 80"),
        ("ipv6:%5B::1%5D:80", "[::1] 80"),
        ("169.254.169.25%34:80", "169.254.169.254 80"),
        (" 127.1:80", "127.1 80"),
    ] {
        assert_eq!(of(target), (Vec::new(), vec![wanted.to_owned()]), "{target}");
    }
    assert_eq!(of("ipv4:10.0.0.1:80,10.0.0.2:81").1, ["10.0.0.1 80", "10.0.0.2 81"]);
    assert_eq!(of("dns://10.0.0.1:53/a.example:80").1, ["10.0.0.1 53", "a.example 80"]);
    for (target, power) in [
        ("unix:/run/x.sock", Power::Sockets),
        ("%75nix:/run/x.sock", Power::Sockets),
        ("UNIX-abstract:x", Power::Sockets),
        ("vsock:1:2", Power::Sockets),
        ("xds:///a", Power::Admin),
        ("127.0.0.1:19000", Power::Admin),
        ("localhost:19004", Power::Admin),
    ] {
        assert_eq!(of(target).0, [power], "{target}");
    }
}

#[test]
fn urls_to_which_the_proxy_goes_itself_are_found() {
    let of = |url: &str| {
        let resolver = "envoy.extensions.network.dns_resolver.hickory.v3.HickoryDnsResolverConfig";
        let config = any(resolver, json!({"dns_over_https": {"server_urls": [url]}}));
        let found =
            leads(CLUSTER, &cluster(json!({"typed_dns_resolver_config": {"name": "d", "typed_config": config}})));
        found.first().map(|lead| lead.split(" at ").next().unwrap().to_owned())
    };
    for (url, wanted) in [
        ("https://169.254.169.254/latest", "169.254.169.254 0"),
        ("http://x@127.1:8082/", "127.1 8082"),
        ("https://[::1]:18000?x", "[::1] 18000"),
        ("https://%31%32%37.0.0.1:1", "127.0.0.1 1"),
    ] {
        assert_eq!(of(url).as_deref(), Some(wanted), "{url}");
    }
}

#[test]
fn clusters_that_others_choose_the_addresses_of_need_the_power() {
    let custom = |name: &str, typed: Option<Json>| {
        let mut kind = json!({"name": name});
        kind.as_object_mut().unwrap().extend(typed.map(|typed| ("typed_config".to_owned(), typed)));
        cluster(json!({"cluster_type": kind}))
    };
    let dns = any("envoy.extensions.clusters.dns.v3.DnsCluster", json!({}));
    let original = any("envoy.extensions.clusters.original_dst.v3.OriginalDstCluster", json!({}));
    let redis = any("envoy.extensions.clusters.redis.v3.RedisClusterConfig", json!({}));
    let hidden = json!({"type_url": "type.googleapis.com/envoy.extensions.clusters.original_dst.v3.OriginalDstCluster", "value": {}});
    let hidden = any("xds.type.v3.TypedStruct", hidden);
    for (config, is_refused) in [
        (cluster(json!({"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED"})), true),
        (custom("envoy.cluster.original_dst", None), true),
        (custom("envoy.cluster.original_dst", Some(dns.clone())), true),
        (custom("x", Some(original)), true),
        (custom("envoy.cluster.dns", Some(hidden)), true),
        (custom("envoy.clusters.redis", Some(redis)), true),
        (custom("unheard.of", None), true),
        (custom("x", Some(dns)), false),
        (custom("envoy.cluster.strict_dns", None), false),
        (cluster(json!({"type": "STRICT_DNS"})), false),
        (cluster(json!({"type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}})), false),
    ] {
        assert_eq!(read(CLUSTER, &config).0 == [Power::Admin], is_refused, "{config}");
    }
}

#[test]
fn states_of_filters_that_choose_an_address_need_the_power() {
    let filter = |key: &str| {
        let value = json!({"object_key": key, "format_string": {"text_format_source": {"inline_string": "x"}}});
        let filter = "envoy.extensions.filters.network.set_filter_state.v3.Config";
        let filter = any(filter, json!({"on_new_connection": [value]}));
        json!({"name": "l", "filter_chains": [{"filters": [{"name": "f", "typed_config": filter}]}]})
    };
    for key in
        ["envoy.tcp_proxy.cluster", "envoy.udp_proxy.cluster", "envoy.network.transport_socket.original_dst_address"]
    {
        assert_eq!(read(LISTENER, &filter(key)).0, [Power::Admin], "{key}");
    }
    assert!(read(LISTENER, &filter("envoy.network.upstream_server_name")).0.is_empty());
}

/// Fields of Envoy's API whose names sound like an address or a port to which a proxy goes, and that are none of it: what is matched, rewritten or
/// shown, and what is looked at otherwise.
const HARMLESS: &[&str] = &[
    "cel.expr.",
    "envoy.admin.",
    "envoy.config.bootstrap.",
    "envoy.config.core.v3.AlternateProtocolsCacheOptions.",
    "envoy.config.core.v3.CidrRange.",
    "envoy.config.cluster.v3.Cluster.lrs_report_endpoint_metrics",
    "envoy.config.core.v3.EnvoyInternalAddress.endpoint_id",
    "envoy.config.core.v3.Extension",
    "envoy.config.core.v3.HttpUri.uri",
    "envoy.config.core.v3.QuicProtocolOptions.",
    "envoy.config.endpoint.v3.LbEndpoint.endpoint_name",
    "envoy.config.listener.v3.FilterChainMatch.",
    "envoy.config.rbac.v3.Permission.destination_port",
    "envoy.config.route.v3.RedirectAction.",
    "envoy.config.trace.v3.ZipkinConfig.collector_endpoint",
    "envoy.data.",
    "envoy.extensions.config.validators.",
    "envoy.extensions.filters.common.dependency.",
    "envoy.extensions.filters.http.gcp_authn.v3.Audience.",
    "envoy.extensions.filters.http.oauth2.",
    "envoy.extensions.filters.network.http_connection_manager.v3.ForwardProtoConfig.",
    "envoy.extensions.filters.network.sni_dynamic_forward_proxy.",
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.UdpTunnelingConfig.",
    "envoy.extensions.http.custom_response.redirect_policy.",
    "envoy.extensions.quic.server_preferred_address.",
    "envoy.service.",
    "google.",
    "opentelemetry.",
    "udpa.",
    "xds.",
];

/// Read otherwise than by a table: a socket address, and the port of a cluster that needs its power anyway.
const READ: [&str; 5] = [
    "envoy.config.core.v3.SocketAddress.address",
    "envoy.config.core.v3.SocketAddress.port_value",
    "envoy.config.core.v3.SocketAddress.named_port",
    "envoy.config.cluster.v3.Cluster.OriginalDstLbConfig.upstream_port_override",
    "envoy.extensions.clusters.original_dst.v3.OriginalDstCluster.upstream_port_override",
];

/// Fields of a new Envoy are looked at once, as those of powers.
#[test]
fn no_field_that_sounds_like_an_address_is_unknown() {
    let set = FileDescriptorSet::decode(protojson::DESCRIPTORS).unwrap();
    let mut unknown = Vec::new();
    for file in &set.file {
        file.message_type.iter().for_each(|message| look(message, file.package(), &mut unknown));
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

fn look(message: &DescriptorProto, within: &str, unknown: &mut Vec<String>) {
    use prost_types::field_descriptor_proto::Type;
    let name = format!("{within}.{}", message.name());
    message.nested_type.iter().for_each(|inner| look(inner, &name, unknown));
    for field in &message.field {
        let is_text = matches!(field.r#type(), Type::String) || field.type_name() == ".google.protobuf.StringValue";
        let is_number =
            matches!(field.r#type(), Type::Uint32 | Type::Int32) || field.type_name() == ".google.protobuf.UInt32Value";
        let words = field.name().split('_').collect::<Vec<_>>();
        let says = |known: &[&str]| words.iter().any(|word| known.contains(&word.trim_end_matches('s')));
        let sounds = is_text && says(&["addres", "uri", "url", "target", "endpoint"]) || is_number && says(&["port"]);
        let full = format!("{name}.{}", field.name());
        let is_listed =
            PORTS.iter().chain(&URLS).chain(&TARGETS).any(|(of, listed)| *of == name && *listed == field.name());
        let is_known =
            is_listed || READ.contains(&&*full) || HARMLESS.iter().any(|harmless| full.starts_with(harmless));
        if sounds && !is_known {
            unknown.push(full);
        }
    }
}

#[test]
fn bound_addresses_are_those_of_listeners_and_of_own_connections() {
    let bound = |message: &str, config: &Json| {
        let read = protojson::Pool::envoy().read(message, config, protojson::Unknown::Refuse).unwrap().0;
        let found = powers::of(&read).bound;
        found.into_iter().map(|one| format!("{} {} at {}", one.host, one.port, one.path)).collect::<Vec<_>>()
    };
    let listener = json!({"name": "l", "address": socket("127.0.0.1", 8443), "additional_addresses": [{"address": socket("::", 9)}]});
    assert_eq!(
        bound(LISTENER, &listener),
        ["127.0.0.1 8443 at address.socketAddress", ":: 9 at additionalAddresses[0].address.socketAddress"]
    );
    let source = |port| json!({"address": "0.0.0.0", "port_value": port});
    let extra = json!([{"address": source(9001)}]);
    let config = |port| {
        cluster(json!({"upstream_bind_config": {"source_address": source(port), "extra_source_addresses": extra}}))
    };
    assert_eq!(bound(CLUSTER, &config(9000)).len(), 2);
    assert_eq!(bound(CLUSTER, &config(0)).len(), 1, "any free port is no Gateway's");
}
