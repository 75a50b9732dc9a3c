//! Powers, message by message.

use ir::raw::Power;
use serde_json::{Value as Json, json};

use super::*;
use crate::raw::inline::LISTENER;
use crate::raw::{CLUSTER, ROUTE_CONFIGURATION};

fn uses(message: &str, config: &Json) -> Vec<(Power, String)> {
    let (read, _) = protojson::Pool::envoy().read(message, config, protojson::Unknown::Refuse).unwrap();
    of(&read).uses.into_iter().map(|found| (found.power, format!("{} at {}", found.what, found.path))).collect()
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
    for (message, config, wanted) in [
        (CLUSTER, at(json!({"pipe": {"path": "/run/x.sock"}})), Some(Power::Sockets)),
        (
            CLUSTER,
            at(json!({"socket_address": {"address": "x", "port_value": 80, "resolver_name": "x"}})),
            Some(Power::Admin),
        ),
        (CLUSTER, at(json!({"socket_address": {"address": "127.0.0.1", "port_value": 19004}})), Some(Power::Admin)),
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

#[test]
fn readers_of_the_environment_are_known() {
    let tags = json!([{"tag": "t", "environment": {"name": "X"}}]);
    let tracing = |fields: Json| with_filter(any(MANAGER, json!({"stat_prefix": "x", "tracing": fields})));
    let detector = |name: &str| {
        let name = format!("envoy.extensions.tracers.opentelemetry.resource_detectors.v3.{name}");
        let detector = json!({"name": "d", "typed_config": any(&name, json!({}))});
        let tracer = any("envoy.config.trace.v3.OpenTelemetryConfig", json!({"resource_detectors": [detector]}));
        tracing(json!({"provider": {"name": "p", "typed_config": tracer}}))
    };
    let tracer = |name: &str, config: Json| {
        let tracer = any(&format!("envoy.config.trace.v3.{name}"), config);
        tracing(json!({"provider": {"name": "p", "typed_config": tracer}}))
    };
    let datadog = tracer("DatadogConfig", json!({"collector_cluster": "c", "service_name": "s"}));
    let zipkin = tracer("ZipkinConfig", json!({"collector_cluster": "c", "collector_endpoint": "/"}));
    let route = json!({"match": {"prefix": "/"}, "direct_response": {"status": 200}, "tracing": {"custom_tags": tags}});
    let route = json!({"name": "r", "virtual_hosts": [{"name": "h", "domains": ["*"], "routes": [route]}]});
    let log = json!({"log_name": "x", "grpc_service": {"envoy_grpc": {"cluster_name": "c"}}, "custom_tags": tags});
    let log = any("envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig", json!({"common_config": log}));
    let redis = "envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions";
    let redis = any(redis, json!({"aws_iam": {"cache_name": "c", "service_name": "s"}}));
    let redis = json!({"name": "c", "typed_extension_protocol_options": {"envoy.filters.network.redis_proxy": redis}});
    let grpc = |name: &str| {
        let service =
            json!({"google_grpc": {"target_uri": "a:80", "stat_prefix": "x", "credentials_factory_name": name}});
        let health = any("envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", json!({"grpc_service": service}));
        with_filter(any(MANAGER, json!({"stat_prefix": "x", "http_filters": [{"name": "f", "typed_config": health}]})))
    };
    for (message, config, wanted) in [
        (LISTENER, tracing(json!({"custom_tags": tags})), Some(Power::Environment)),
        (LISTENER, detector("EnvironmentResourceDetectorConfig"), Some(Power::Environment)),
        (LISTENER, detector("DynatraceResourceDetectorConfig"), Some(Power::Files)),
        (LISTENER, detector("StaticConfigResourceDetectorConfig"), None),
        (LISTENER, zipkin, None),
        (LISTENER, datadog, Some(Power::Environment)),
        (ROUTE_CONFIGURATION, route, Some(Power::Environment)),
        (LISTENER, json!({"name": "l", "access_log": [{"name": "a", "typed_config": log}]}), Some(Power::Environment)),
        (CLUSTER, redis, Some(Power::Environment)),
        (LISTENER, grpc("envoy.grpc_credentials.aws_iam"), Some(Power::Environment)),
        (LISTENER, grpc("envoy.grpc_credentials.default"), None),
    ] {
        assert_eq!(powers(message, &config), wanted.into_iter().collect::<Vec<_>>(), "{config}");
    }
}

#[test]
fn sockets_are_found_with_their_paths() {
    let sockets = |message: &str, config: &Json| {
        let (read, _) = protojson::Pool::envoy().read(message, config, protojson::Unknown::Refuse).unwrap();
        of(&read).sockets.into_iter().map(|found| found.socket.into_string()).collect::<Vec<_>>()
    };
    let bound = json!({"name": "l", "address": {"pipe": {"path": "admin.sock"}}});
    assert_eq!(sockets(LISTENER, &bound), ["admin.sock"]);
    for (target, wanted) in [
        ("unix:admin.sock", Some("admin.sock")),
        ("unix:///run/x.sock", Some("/run/x.sock")),
        ("unix:%2frun/x.sock", Some("/run/x.sock")),
        ("unix-abstract:x", None),
        ("a.example:80", None),
    ] {
        let alts = any("envoy.extensions.transport_sockets.alts.v3.Alts", json!({"handshaker_service": target}));
        let cluster = json!({"name": "c", "transport_socket": {"name": "t", "typed_config": alts}});
        assert_eq!(sockets(CLUSTER, &cluster), wanted.into_iter().collect::<Vec<_>>(), "{target}");
        let power = target.starts_with("unix").then_some(Power::Sockets);
        assert_eq!(powers(CLUSTER, &cluster), power.into_iter().collect::<Vec<_>>(), "{target}");
    }
}

mod names;
