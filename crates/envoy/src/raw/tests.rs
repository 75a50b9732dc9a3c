//! From what people write to bytes: names, needs, parts, and what is wrong.

use std::sync::Arc;

use ir::raw::RawOutput;
use serde_json::{Value, json};

use super::{CLUSTER, ENDPOINTS, ROUTE_CONFIGURATION, SECRET, raw, raw_bootstrap, read_raw};

const LISTENER: &str = "envoy.config.listener.v3.Listener";

fn yaml(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn needs(message: &'static str, config: &Value) -> Vec<String> {
    let reading = read_raw(message, config, true);
    let resource = reading.resource.unwrap_or_else(|| panic!("{:?}", reading.errors));
    resource.names.iter().map(|need| format!("{} {}", need.message.rsplit('.').next().unwrap(), need.name)).collect()
}

#[test]
fn what_a_listener_names_is_found_at_any_depth() {
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "rds": { "route_config_name": "routes", "config_source": { "ads": {} } },
        "http_filters": [
            { "name": "auth", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
                "grpc_service": { "envoy_grpc": { "cluster_name": "authz" } },
            } },
            { "name": "later", "config_discovery": {
                "config_source": { "ads": {} },
                "type_urls": ["type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"],
            } },
        ],
    });
    let secret = |source: &Value| json!({ "name": "cert", "sds_config": source });
    let chain = |source: &Value| {
        json!({
            "filters": [{ "name": "hcm", "typed_config": manager }],
            "transport_socket": { "name": "tls", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": { "tls_certificate_sds_secret_configs": [secret(source)] },
            } },
        })
    };
    let listener = |source: Value| json!({ "name": "in", "filter_chains": [chain(&source)] });
    let all = ["Cluster authz", "TypedExtensionConfig later", "RouteConfiguration routes", "Secret cert"];
    assert_eq!(needs(LISTENER, &listener(json!({ "ads": {} }))), all);
    // a file brings it
    let elsewhere = listener(json!({ "path_config_source": { "path": "/certificate.yaml" } }));
    assert_eq!(needs(LISTENER, &elsewhere), all[..3]);
}

#[test]
fn a_cluster_needs_the_endpoints_of_its_name_or_of_another() {
    let cluster = |config: Value| json!({ "name": "c", "type": "EDS", "eds_cluster_config": config });
    let ads = json!({ "ads": {} });
    assert_eq!(needs(CLUSTER, &cluster(json!({ "eds_config": ads }))), ["ClusterLoadAssignment c"]);
    let other = cluster(json!({ "eds_config": ads, "service_name": "s" }));
    assert_eq!(needs(CLUSTER, &other), ["ClusterLoadAssignment s"]);
}

#[test]
fn both_spellings_of_a_name_give_the_same_and_both_at_once_are_refused() {
    let read = |text: &str| read_raw(CLUSTER, &yaml(text), false);
    let one = read(r#"{"name": "c", "connect_timeout": "0.25s"}"#).resource.unwrap();
    let two = read(r#"{"name": "c", "connectTimeout": "0.25s"}"#).resource.unwrap();
    assert_eq!(one, two);
    let both = read(r#"{"name": "c", "connectTimeout": "0.25s", "connect_timeout": "1s"}"#);
    assert!(both.resource.is_none() && both.errors[0].text.contains("given twice"), "{both:?}");
}

#[test]
fn a_field_that_nobody_knows_is_told_or_refused() {
    let config = json!({ "name": "c", "conect_timeout": "1s", "circuit_breakers": { "tresholds": [] } });
    let told = read_raw(CLUSTER, &config, false);
    assert!(told.resource.is_some());
    let paths: Vec<&str> = told.ignored.iter().map(|fault| &*fault.path).collect();
    assert_eq!(paths, ["conect_timeout", "circuit_breakers.tresholds"]);
    assert!(told.ignored[0].text.contains("did you mean connect_timeout"), "{told:?}");
    let refused = read_raw(CLUSTER, &config, true);
    assert!(refused.resource.is_none() && refused.errors.len() == 1, "{refused:?}");
}

#[test]
fn what_breaks_a_rule_of_the_api_is_an_error_with_its_path() {
    let none =
        read_raw(LISTENER, &json!({ "address": { "socket_address": { "address": "::", "port_value": 1 } } }), true);
    assert_eq!(&*none.errors[0].path, "name");
    let config = json!({ "name": "r", "virtual_hosts": [{ "name": "", "domains": [] }] });
    let broken = read_raw(ROUTE_CONFIGURATION, &config, true);
    let paths: Vec<&str> = broken.errors.iter().map(|fault| &*fault.path).collect();
    assert_eq!(paths, ["virtualHosts[0].name", "virtualHosts[0].domains"]);
}

#[test]
fn a_route_configuration_is_put_together_from_its_hosts() {
    let config = json!({
        "name": "r",
        "virtual_hosts": [{ "name": "a", "domains": ["A.example", "b.example"] }, { "name": "b", "domains": ["*"] }],
        "max_direct_response_body_size_bytes": 10,
    });
    let resource = read_raw(ROUTE_CONFIGURATION, &config, true).resource.unwrap();
    assert_eq!(*resource.parts[0].claims, ["virtual host a", "domain a.example", "domain b.example"].map(Into::into));
    let parts: Vec<_> = resource.parts.iter().map(|part| part.bytes.clone()).collect();
    let with = |parts: &[Arc<[u8]>]| {
        let output = RawOutput { resource: Arc::clone(&resource), parts: parts.to_vec(), needs: Vec::new() };
        protojson::to_json(ROUTE_CONFIGURATION, &raw(&output, None).body.concat()).unwrap()
    };
    let whole = with(&parts);
    assert_eq!(whole["virtualHosts"].as_array().unwrap().len(), 2);
    assert_eq!(whole["maxDirectResponseBodySizeBytes"], 10);
    assert_eq!(with(&parts[1..])["virtualHosts"][0]["name"], "b");
}

#[test]
fn the_field_that_says_that_hosts_come_alone_comes_last() {
    let config = json!({
        "name": "r",
        "vhds": { "config_source": { "ads": {} } },
        "max_direct_response_body_size_bytes": 10,
    });
    let resource = read_raw(ROUTE_CONFIGURATION, &config, true).resource.unwrap();
    let encoded = raw(&RawOutput { resource, parts: Vec::new(), needs: Vec::new() }, None);
    assert!(encoded.vhds);
    let last = protojson::to_json(ROUTE_CONFIGURATION, encoded.body.last().unwrap()).unwrap();
    assert_eq!(last, json!({ "vhds": { "configSource": { "ads": {} } } }));
}

#[test]
fn endpoints_are_named_by_their_cluster() {
    let locality = |zone: &str| json!({ "locality": { "zone": zone }, "lb_endpoints": [] });
    let config = json!({ "cluster_name": "c", "endpoints": [locality("a"), locality("b")] });
    let resource = read_raw(ENDPOINTS, &config, true).resource.unwrap();
    assert_eq!(&*resource.id.name, "c");
    assert_eq!(*resource.parts[1].claims, ["locality /b/ of priority 0".into()]);
}

#[test]
fn a_cluster_that_waits_for_names_is_known() {
    let slow = |config: Value| read_raw(CLUSTER, &config, true).resource.unwrap().slow;
    let dns = |flag: Value| json!({ "name": "c", "type": "STRICT_DNS", "wait_for_warm_on_init": flag });
    assert!(slow(json!({ "name": "c", "type": "STRICT_DNS" })) && slow(dns(json!(true))));
    assert!(!slow(dns(json!(false))) && !slow(json!({ "name": "c" })));
}

#[test]
fn secrets_stand_in_a_configuration_that_needs_nobody_and_are_hidden_unless_they_are_asked_for() {
    let chain = json!({
        "filters": [{ "name": "echo", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo",
        } }],
        "transport_socket": { "name": "tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": { "tls_certificate_sds_secret_configs": [{ "name": "pair", "sds_config": { "ads": {} } }] },
            "session_ticket_keys_sds_secret_config": { "name": "tickets", "sds_config": { "ads": {} } },
        } },
    });
    let inline = |text: &str| json!({ "inline_string": text });
    let resources = [
        (LISTENER, json!({ "name": "in", "filter_chains": [chain] })),
        (
            SECRET,
            json!({ "name": "pair", "tls_certificate": { "certificate_chain": inline("public"), "private_key": inline("precious") } }),
        ),
        (SECRET, json!({ "name": "tickets", "session_ticket_keys": { "keys": [inline("precious")] } })),
        (SECRET, json!({ "name": "token", "generic_secret": { "secret": inline("precious") } })),
    ];
    let outputs = resources.map(|(message, config)| {
        let resource = read_raw(message, &config, true).resource.expect("it is sound");
        RawOutput { resource, parts: Vec::new(), needs: Vec::new() }
    });
    let all: Vec<&RawOutput> = outputs.iter().collect();
    let shown =
        |show| raw_bootstrap(&all, show, |_| panic!("there are no endpoints")).expect("it is sound").to_string();
    assert!(!shown(false).contains("precious") && shown(false).contains("public"), "{}", shown(false));
    assert_eq!(shown(true).matches("precious").count(), 3);
    assert!(!shown(true).contains("sdsConfig") && !shown(true).contains("adsConfig"), "{}", shown(true));
}
