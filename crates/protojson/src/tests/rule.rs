//! Envoy's own rules: which break, where, and that none is left out.

use serde_json::{Value as Json, json};

use super::{CLUSTER, LISTENER};
use crate::{Pool, check, from_json};

#[track_caller]
fn broken(name: &str, json: &Json, expect: &[&str]) {
    let bytes = from_json(name, json).unwrap();
    let found: Vec<String> = check(name, &bytes).iter().map(ToString::to_string).collect();
    assert_eq!(found, expect);
}

#[test]
fn every_rule_in_the_api_is_one_that_is_checked() {
    assert_eq!(Pool::envoy().rules().strange, Vec::<String>::new());
}

#[test]
fn a_sound_resource_breaks_no_rule() {
    let bytes = crate::from_text(LISTENER, super::LISTENER_YAML).unwrap();
    assert_eq!(check(LISTENER, &bytes), []);
}

#[test]
fn scalars_are_tested_even_when_absent_and_messages_only_when_present() {
    broken(CLUSTER, &json!({}), &["name: must not be empty"]);
    broken(CLUSTER, &json!({"name": "c", "connect_timeout": "0s"}), &["connectTimeout: must be greater than 0s"]);
    broken(
        CLUSTER,
        &json!({"name": "c", "lb_policy": 77}),
        &["lbPolicy: must be a value of envoy.config.cluster.v3.Cluster.LbPolicy"],
    );
}

#[test]
fn wrappers_are_tested_by_what_they_hold() {
    let ring = |size: u64| json!({"name": "c", "ring_hash_lb_config": {"minimum_ring_size": size}});
    broken(CLUSTER, &ring(8_388_608), &[]);
    broken(CLUSTER, &ring(8_388_609), &["ringHashLbConfig.minimumRingSize: must be at most 8388608"]);
}

#[test]
fn what_must_be_set_is_named() {
    broken(
        "envoy.config.core.v3.Address",
        &json!({}),
        &["one of socketAddress, pipe, envoyInternalAddress is required"],
    );
    broken("envoy.config.route.v3.Route", &json!({"route": {"cluster": "c"}}), &["match: is required"]);
}

#[test]
fn a_required_member_of_a_oneof_may_stay_away() {
    broken("envoy.type.matcher.v3.StringMatcher", &json!({"exact": "a"}), &[]);
}

#[test]
fn items_keys_and_header_names_are_tested() {
    let host = |domains: Json| json!({"name": "h", "domains": domains});
    broken("envoy.config.route.v3.VirtualHost", &host(json!([])), &["domains: must have at least 1 items"]);
    let header = |key: &str| json!({"header": {"key": key, "value": "v"}});
    broken("envoy.config.core.v3.HeaderValueOption", &header("x-ok"), &[]);
    broken(
        "envoy.config.core.v3.HeaderValueOption",
        &header("x\nbad"),
        &["header.key: must be a valid name of an HTTP header"],
    );
    broken(
        "envoy.config.core.v3.Metadata",
        &json!({"typedFilterMetadata": {"": {"@type": "type.googleapis.com/google.protobuf.Empty"}}}),
        &["typedFilterMetadata[\"\"]: must not be empty"],
    );
}

#[test]
fn rules_hold_inside_any_too() {
    let hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let config = json!({"@type": hcm, "rds": {"config_source": {"ads": {}}}});
    let json = json!({"filter_chains": [{"filters": [{"name": "f", "typed_config": config}]}]});
    broken(LISTENER, &json, &["filterChains[0].filters[0].typedConfig.statPrefix: must not be empty"]);
    let unknown = json!({"@type": "type.googleapis.com/acme.Filter", "value": ""});
    let json = json!({"filter_chains": [{"filters": [{"name": "f", "typed_config": unknown}]}]});
    broken(LISTENER, &json, &["filterChains[0].filters[0].typedConfig: unknown message type acme.Filter"]);
}

#[test]
fn bytes_that_are_no_message_are_a_violation() {
    assert_eq!(check("acme.Nothing", &[])[0].text, "unknown message type acme.Nothing");
    assert_eq!(check(CLUSTER, &[0xFF]).len(), 1);
}
