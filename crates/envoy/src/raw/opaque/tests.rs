//! Settings of another type than the one that stands there, and settings from elsewhere.

use ir::raw::Power;
use serde_json::{Value as Json, json};

use crate::raw::inline::LISTENER;
use crate::raw::{CLUSTER, ENDPOINTS, ROUTE_CONFIGURATION, powers};

const STRUCT: &str = "google.protobuf.Struct";
const TYPED: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

fn used(message: &str, config: &Json) -> Vec<Power> {
    let (read, _) = protojson::Pool::envoy().read(message, config, protojson::Unknown::Refuse).unwrap();
    let mut found: Vec<Power> = powers::of(&read).uses.into_iter().map(|found| found.power).collect();
    found.dedup();
    found
}

fn any(name: &str, mut fields: Json) -> Json {
    fields["@type"] = json!(format!("type.googleapis.com/{name}"));
    fields
}

fn typed(wrapper: &str, name: &str, value: &Json) -> Json {
    any(wrapper, json!({"type_url": format!("type.googleapis.com/{name}"), "value": value}))
}

fn with_option(key: &str, value: &Json) -> Vec<Power> {
    used(CLUSTER, &json!({"name": "c", "typed_extension_protocol_options": {key: value}}))
}

fn with_filter(config: &Json) -> Vec<Power> {
    let manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let manager = any(manager, json!({"stat_prefix": "x", "http_filters": [{"name": "f", "typed_config": config}]}));
    used(LISTENER, &json!({"name": "l", "filter_chains": [{"filters": [{"name": "m", "typed_config": manager}]}]}))
}

#[test]
fn what_envoy_makes_of_a_struct_cannot_be_judged() {
    let value = json!({"explicit_http_config": {"http_protocol_options": {}}});
    for (of, value) in [(STRUCT, value), ("google.protobuf.Value", json!({})), ("google.protobuf.ListValue", json!([]))]
    {
        let plain = any(of, json!({ "value": value }));
        assert_eq!(with_option(super::HTTP, &plain), Power::ALL, "{of}");
        assert_eq!(with_filter(&plain), Power::ALL, "{of}");
        let other_url = json!({"@type": format!("x.example/{of}"), "value": value});
        assert_eq!(with_filter(&other_url), Power::ALL, "{of}");
        let nested = any("google.protobuf.Any", json!({ "value": plain }));
        assert_eq!(with_filter(&nested), Power::ALL, "{of}");
    }
    let host = |config: &Json| {
        let host =
            json!({"name": "h", "domains": ["*"], "typed_per_filter_config": {"envoy.filters.http.lua": config}});
        used(ROUTE_CONFIGURATION, &json!({"name": "r", "virtual_hosts": [host]}))
    };
    let empty = any(STRUCT, json!({"value": {}}));
    assert_eq!(host(&empty), Power::ALL);
    let filter = "envoy.config.route.v3.FilterConfig";
    assert_eq!(host(&any(filter, json!({ "config": empty }))), Power::ALL);
}

#[test]
fn data_may_be_a_struct() {
    let data = any(STRUCT, json!({"value": {"a": 1}}));
    let metadata = json!({"typed_filter_metadata": {"a": data}, "filter_metadata": {"b": {"c": 1}}});
    assert!(used(CLUSTER, &json!({"name": "c", "metadata": metadata})).is_empty());
    let set = "envoy.extensions.filters.http.set_metadata.v3.Config";
    let set = any(set, json!({"metadata": [{"metadata_namespace": "n", "typed_value": data}]}));
    assert!(with_filter(&set).is_empty());
    let wasm = any("envoy.extensions.filters.http.wasm.v3.Wasm", json!({"config": {"configuration": data}}));
    assert_eq!(with_filter(&wasm), [Power::Lua]);
}

#[test]
fn options_of_a_cluster_are_of_the_type_that_belongs_to_their_key() {
    let lua = any("envoy.extensions.filters.http.lua.v3.Lua", json!({"default_source_code": {"inline_string": "x"}}));
    let settings =
        |filters: Json| json!({"explicit_http_config": {"http_protocol_options": {}}, "http_filters": filters});
    let with_code = settings(json!([{"name": "l", "typed_config": lua}]));
    for wrapper in TYPED {
        let of = |name: &str, value: &Json| with_option(super::HTTP, &typed(wrapper, name, value));
        assert_eq!(of("envoy.config.core.v3.Locality", &with_code), Power::ALL, "{wrapper}: fields of no locality");
        assert_eq!(of(super::TCP, &json!({})), Power::ALL, "{wrapper}: options of another key");
        assert_eq!(of("no.Such", &json!({})), Power::ALL, "{wrapper}");
        assert_eq!(of(super::HTTP, &with_code), [Power::Lua], "{wrapper}");
        assert!(of(super::HTTP, &settings(json!([]))).is_empty(), "{wrapper}");
        let password = json!({"auth_password": {"filename": "/x"}});
        let redis = |key: &str| with_option(key, &typed(wrapper, super::REDIS, &password));
        assert_eq!(redis("envoy.filters.network.redis_proxy"), [Power::Files]);
        assert_eq!(redis("unheard.of"), Power::ALL, "{wrapper}");
    }
    assert!(with_option(super::HTTP, &any(super::HTTP, settings(json!([])))).is_empty());
}

#[test]
fn what_envoy_finds_by_a_name_is_no_typed_struct() {
    let spiffe = "envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig";
    let bundle = json!({"trust_domains": [{"name": "a", "trust_bundle": {"inline_string": "x"}}]});
    let tls = |validator: &Json| {
        let validator = json!({"name": "envoy.tls.cert_validator.spiffe", "typed_config": validator});
        let context = json!({"common_tls_context": {"validation_context": {"custom_validator_config": validator}}});
        let context = any("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", context);
        used(CLUSTER, &json!({"name": "c", "transport_socket": {"name": "t", "typed_config": context}}))
    };
    let key = |config: &Json| {
        let provider = json!({"provider_name": "cryptomb", "typed_config": config});
        let secret = json!({"name": "s", "tls_certificate": {"private_key_provider": provider}});
        used(crate::raw::SECRET, &secret)
    };
    for wrapper in TYPED {
        assert_eq!(tls(&typed(wrapper, spiffe, &bundle)), Power::ALL, "{wrapper}");
        assert_eq!(key(&typed(wrapper, "envoy.config.core.v3.Locality", &json!({}))), Power::ALL, "{wrapper}");
        // Everything else is found by the type.
        let buffer = typed(wrapper, "envoy.extensions.filters.http.buffer.v3.Buffer", &json!({"max_request_bytes": 1}));
        assert!(with_filter(&buffer).is_empty(), "{wrapper}");
        let buffer = typed(wrapper, "envoy.extensions.filters.http.buffer.v3.Buffer", &json!({"inline_code": "x"}));
        assert_eq!(with_filter(&buffer), Power::ALL, "{wrapper}: a field of another filter");
    }
    assert!(tls(&any(spiffe, bundle)).is_empty());
}

#[test]
fn settings_from_elsewhere_are_whatever_another_server_says() {
    let service = json!({"google_grpc": {"target_uri": "a.example:80", "stat_prefix": "x"}});
    let other = json!({"api_config_source": {"api_type": "GRPC", "grpc_services": [service]}});
    let authority = json!({"authorities": [{"name": "a.example"}], "ads": {}});
    let file = json!({"path_config_source": {"path": "/x"}});
    let manager = |fields: Json| {
        let manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
        json!({"name": "l", "filter_chains": [{"filters": [{"name": "m", "typed_config": any(manager, fields)}]}]})
    };
    let places = |source: &Json| {
        let discovery = json!({"config_source": source, "type_urls": ["type.googleapis.com/x.Y"]});
        let scoped = json!({"name": "s", "scope_key_builder": {}, "rds_config_source": source, "scoped_rds": {"scoped_rds_config_source": source}});
        let secret = json!({"common_tls_context": {"tls_certificate_sds_secret_configs": [{"name": "s", "sds_config": source}]}});
        let tls = any("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", secret);
        let demand = any("envoy.extensions.filters.http.on_demand.v3.OnDemand", json!({"odcds": {"source": source}}));
        let leds = json!({"leds_cluster_locality_config": {"leds_config": source, "leds_collection_name": "x"}});
        [
            (LISTENER, manager(json!({"rds": {"route_config_name": "r", "config_source": source}}))),
            (LISTENER, manager(json!({ "scoped_routes": scoped }))),
            (LISTENER, manager(json!({"http_filters": [{"name": "f", "config_discovery": discovery}]}))),
            (LISTENER, manager(json!({"http_filters": [{"name": "f", "typed_config": demand}]}))),
            (
                LISTENER,
                json!({"name": "l", "filter_chains": [{"filters": [{"name": "f", "config_discovery": discovery}]}]}),
            ),
            (LISTENER, json!({"name": "l", "listener_filters": [{"name": "f", "config_discovery": discovery}]})),
            (CLUSTER, json!({"name": "c", "eds_cluster_config": {"eds_config": source}})),
            (CLUSTER, json!({"name": "c", "lrs_server": source})),
            (ENDPOINTS, json!({"cluster_name": "c", "endpoints": [leds]})),
            (ROUTE_CONFIGURATION, json!({"name": "r", "vhds": {"config_source": source}})),
            (CLUSTER, json!({"name": "c", "transport_socket": {"name": "t", "typed_config": tls}})),
        ]
    };
    for source in [other, authority] {
        for (message, config) in places(&source) {
            assert_eq!(used(message, &config), Power::ALL, "{config}");
        }
    }
    for source in [json!({"ads": {}}), json!({"self": {}})] {
        for (message, config) in places(&source) {
            assert!(used(message, &config).is_empty(), "{config}");
        }
    }
    let files = places(&file).map(|(message, config)| used(message, &config));
    let (secret, others) = files.split_last().unwrap();
    assert_eq!(secret, &[Power::Files], "what a file of secrets holds does no more");
    assert!(others.iter().all(|used| *used == Power::ALL), "{others:?}");
}

#[test]
fn code_that_comes_by_itself_needs_its_power() {
    let discovery = |name: &str| {
        let discovery = json!({"config_source": {"ads": {}}, "type_urls": [format!("type.googleapis.com/{name}")]});
        used(LISTENER, &json!({"name": "l", "listener_filters": [{"name": "f", "config_discovery": discovery}]}))
    };
    assert_eq!(discovery("envoy.extensions.filters.http.lua.v3.Lua"), [Power::Lua]);
    assert_eq!(discovery("envoy.extensions.filters.http.file_server.v3.FileServerConfig"), [Power::Files]);
    assert!(discovery("envoy.extensions.filters.http.buffer.v3.Buffer").is_empty());
}

#[test]
fn no_runtime_lets_names_choose() {
    let layer = |layer: Json| used("envoy.service.runtime.v3.Runtime", &json!({"name": "r", "layer": layer}));
    assert_eq!(layer(json!({"envoy.reloadable_features.no_extension_lookup_by_name": false})), Power::ALL);
    assert_eq!(layer(json!({"envoy": {"reloadable_features": {"no_extension_lookup_by_name": false}}})), Power::ALL);
    assert!(layer(json!({"envoy.reloadable_features.other": false})).is_empty());
}
