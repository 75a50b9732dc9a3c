//! Powers, message by message.

use ir::raw::Power;
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};
use serde_json::{Value as Json, json};

use super::*;
use crate::raw::inline::LISTENER;
use crate::raw::{CLUSTER, ROUTE_CONFIGURATION};

fn uses(message: &str, config: &Json) -> Vec<(Power, String)> {
    let (read, _) = protojson::Pool::envoy().read(message, config, protojson::Unknown::Refuse).unwrap();
    of(&read).0.into_iter().map(|found| (found.power, format!("{} at {}", found.what, found.path))).collect()
}

fn powers(message: &str, config: &Json) -> Vec<Power> {
    let mut found: Vec<Power> = uses(message, config).into_iter().map(|(power, _)| power).collect();
    found.dedup();
    found
}

fn any(name: &str, mut fields: Json) -> Json {
    fields["@type"] = json!(format!("type.googleapis.com/{name}"));
    fields
}

fn with_filter(config: Json) -> Json {
    json!({"name": "l", "filter_chains": [{"filters": [{"name": "f", "typed_config": config}]}]})
}

const MANAGER: &str = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

#[test]
fn a_power_is_found_wherever_its_message_stands() {
    let response = json!({"status": 200, "body": {"filename": "/etc/shadow"}});
    let host =
        json!({"name": "h", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": response}]});
    let routes = json!({"name": "r", "virtual_hosts": [host]});
    let place = "virtualHosts[0].routes[0].directResponse.body";
    let wanted = (Power::Files, format!("reads or writes the file /etc/shadow at {place}"));
    assert_eq!(uses(ROUTE_CONFIGURATION, &routes), [wanted]);
    let http = json!({"stat_prefix": "x", "route_config": routes});
    assert_eq!(powers(LISTENER, &with_filter(any(MANAGER, http))), [Power::Files]);
}

#[test]
fn a_struct_with_the_name_of_a_type_is_read_as_that() {
    for typed in ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"] {
        let of_type = |name: &str, value: Json| {
            any(typed, json!({"type_url": format!("type.googleapis.com/{name}"), "value": value}))
        };
        let lua =
            of_type("envoy.extensions.filters.http.lua.v3.Lua", json!({"default_source_code": {"filename": "/x.lua"}}));
        let http = json!({"stat_prefix": "x", "http_filters": [{"name": "a", "typed_config": lua}]});
        assert_eq!(powers(LISTENER, &with_filter(any(MANAGER, http.clone()))), [Power::Files, Power::Lua], "{typed}");
        assert_eq!(powers(LISTENER, &with_filter(of_type(MANAGER, http))), [Power::Files, Power::Lua], "{typed}");
        assert_eq!(powers(LISTENER, &with_filter(of_type("no.Such", json!({})))), Power::ALL, "{typed}");
    }
}

#[test]
fn each_power_is_known_by_what_uses_it() {
    let at = |address: Json| {
        let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": address}}]}]);
        json!({"name": "c", "load_assignment": {"cluster_name": "c", "endpoints": endpoints}})
    };
    let file = "envoy.extensions.access_loggers.file.v3.FileAccessLog";
    let log = |config: Json| json!({"name": "l", "access_log": [{"name": "a", "typed_config": any(file, config)}]});
    let proxy = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let proxied = |cluster: &str| with_filter(any(proxy, json!({"stat_prefix": "x", "cluster": cluster})));
    let route = |action: Json| {
        let routes = json!([{"match": {"prefix": "/"}, "route": action}]);
        json!({"name": "r", "virtual_hosts": [{"name": "h", "domains": ["*"], "routes": routes}]})
    };
    let text = json!({"text_format_source": {"inline_string": "%ENVIRONMENT(X)%"}});
    let fields = json!({"json_format": {"a": {"b": ["%FILE_CONTENT(/x)%"]}}});
    let by_path = json!({"eds_cluster_config": {"eds_config": {"path_config_source": {"path": "/x"}}}, "name": "c"});
    for (message, config, wanted) in [
        (CLUSTER, at(json!({"pipe": {"path": "/run/x.sock"}})), Some(Power::Sockets)),
        (CLUSTER, at(json!({"envoy_internal_address": {"server_listener_name": "x"}})), Some(Power::Sockets)),
        (CLUSTER, at(json!({"socket_address": {"address": "10.0.0.1", "port_value": 80}})), None),
        (CLUSTER, at(json!({"socket_address": {"address": "127.0.0.1", "port_value": 8080}})), None),
        (
            CLUSTER,
            at(json!({"socket_address": {"address": "::ffff:127.0.0.1", "port_value": 19000}})),
            Some(Power::Admin),
        ),
        (CLUSTER, at(json!({"socket_address": {"address": "here.example", "port_value": 19000}})), Some(Power::Admin)),
        (CLUSTER, json!({"name": "c", "original_dst_lb_config": {"use_http_header": true}}), Some(Power::Admin)),
        (CLUSTER, json!({"name": "c", "health_checks": [{"event_log_path": "/x"}]}), Some(Power::Files)),
        (CLUSTER, by_path, Some(Power::Files)),
        (LISTENER, log(json!({"path": "/x"})), Some(Power::Files)),
        (LISTENER, log(json!({"path": "/dev/stdout"})), None),
        (LISTENER, log(json!({"path": "/dev/stdout", "log_format": text})), Some(Power::Environment)),
        (LISTENER, log(json!({"path": "/dev/stdout", "log_format": fields})), Some(Power::Files)),
        (LISTENER, proxied("chancery.admin"), Some(Power::Admin)),
        (LISTENER, proxied("chancery.invalid"), None),
        (LISTENER, proxied("shop"), None),
        (ROUTE_CONFIGURATION, route(json!({"cluster": "shop"})), None),
        (ROUTE_CONFIGURATION, route(json!({"cluster": "chancery.xds"})), Some(Power::Admin)),
        (ROUTE_CONFIGURATION, route(json!({"cluster_header": "x-to"})), Some(Power::Admin)),
        (
            SECRET,
            json!({"name": "s", "generic_secret": {"secret": {"environment_variable": "X"}}}),
            Some(Power::Environment),
        ),
        (SECRET, json!({"name": "s", "generic_secret": {"secret": {"inline_string": "chancery.x"}}}), None),
    ] {
        assert_eq!(powers(message, &config), wanted.into_iter().collect::<Vec<_>>(), "{config}");
    }
}

/// Fields of Envoy's API whose names sound like a file, a socket or code, and that are none of it: paths of requests, names, and what stands in
/// bootstraps and in the answers of an admin interface alone.
const HARMLESS: &[&str] = &[
    "cel.expr.",
    "envoy.admin.",
    "envoy.config.bootstrap.",
    "envoy.config.common.matcher.v3.HttpGenericBodyMatch.GenericTextMatch.binary_match",
    "envoy.config.core.v3.HealthCheck.HttpHealthCheck.path",
    "envoy.config.core.v3.HealthCheck.Payload.binary",
    "envoy.config.route.v3.RedirectAction.",
    "envoy.config.route.v3.RouteAction.HashPolicy.Cookie.path",
    "envoy.config.route.v3.RouteAction.cluster_specifier_plugin",
    "envoy.config.route.v3.RouteAction.path_rewrite",
    "envoy.config.route.v3.RouteMatch.",
    "envoy.config.tap.v3.HttpGenericBodyMatch.GenericTextMatch.binary_match",
    "envoy.data.",
    "envoy.extensions.bootstrap.",
    "envoy.extensions.clusters.mcp_multicluster.v3.ClusterConfig.McpCluster.path",
    "envoy.extensions.common.aws.v3.",
    "envoy.extensions.filters.http.a2a.v3.MethodParsingConfig.paths",
    "envoy.extensions.filters.http.ext_authz.v3.HttpService.",
    "envoy.extensions.filters.http.file_server.v3.FileServerConfig.",
    "envoy.extensions.filters.http.grpc_json_reverse_transcoder.v3.GrpcJsonReverseTranscoder.descriptor_binary",
    "envoy.extensions.filters.http.mcp.",
    "envoy.extensions.filters.http.mcp_json_rest_bridge.",
    "envoy.extensions.filters.http.mcp_router.",
    "envoy.extensions.filters.http.oauth2.",
    "envoy.extensions.filters.network.mongo_proxy.",
    "envoy.extensions.filters.network.redis_proxy.",
    "envoy.extensions.filters.network.reverse_tunnel.",
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.TunnelingConfig.post_path",
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.UdpTunnelingConfig.post_path",
    "envoy.extensions.internal_redirect.",
    "envoy.extensions.path.",
    "envoy.service.",
    "envoy.type.http.v3.Cookie.path",
    "google.",
];

/// Parts of names of fields that may use a power.
const WORDS: [&str; 11] = [
    "path",
    "file",
    "directory",
    "folder",
    "socket",
    "library",
    "module",
    "env_",
    "environ",
    "command",
    "cluster_header",
];

/// Fields of a new Envoy are looked at once: they join the tables, or the list of what is harmless.
#[test]
fn no_field_that_sounds_like_a_power_is_unknown() {
    let set = FileDescriptorSet::decode(protojson::DESCRIPTORS).unwrap();
    let mut unknown = Vec::new();
    for file in &set.file {
        file.message_type.iter().for_each(|message| look(message, file.package(), &mut unknown));
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    let names: Vec<String> = protojson::Pool::envoy().names();
    for name in FIELDS.iter().map(|(of, ..)| of).chain(MESSAGES.iter().map(|(of, ..)| of)) {
        assert!(names.iter().any(|known| known == name), "there is no {name}");
    }
}

fn look(message: &DescriptorProto, within: &str, unknown: &mut Vec<String>) {
    use prost_types::field_descriptor_proto::Type;
    let name = format!("{within}.{}", message.name());
    message.nested_type.iter().for_each(|inner| look(inner, &name, unknown));
    let is_known = MESSAGES.iter().any(|(of, ..)| *of == name) || CODE.iter().any(|part| name.contains(part));
    for field in message.field.iter().filter(|_| !is_known) {
        let is_text =
            matches!(field.r#type(), Type::String | Type::Bytes) || field.type_name() == ".google.protobuf.StringValue";
        let sounds = WORDS.iter().any(|word| field.name().contains(word));
        let full = format!("{name}.{}", field.name());
        let is_listed = FIELDS.iter().any(|(of, of_field, ..)| *of == name && *of_field == field.name());
        if is_text && sounds && !is_listed && !HARMLESS.iter().any(|harmless| full.starts_with(harmless)) {
            unknown.push(full);
        }
    }
}
