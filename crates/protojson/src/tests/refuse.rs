//! What is refused, and in which words.

use prost::Message as _;
use proto::google::protobuf::Any;
use serde_json::{Value as Json, json};

use super::{CLUSTER, LISTENER};
use crate::{from_json, from_text, to_json};

#[track_caller]
fn check(name: &str, json: &Json, expect: &str) {
    assert_eq!(from_json(name, json).map_err(|error| error.to_string()), Err(expect.to_owned()));
}

#[track_caller]
fn check_text(text: &str, expect: &str) {
    assert_eq!(from_text(CLUSTER, text).map_err(|error| error.to_string()), Err(expect.to_owned()));
}

#[test]
fn names_that_do_not_exist_come_with_the_nearest_that_does() {
    check(
        CLUSTER,
        &json!({"conect_timeout": "1s"}),
        "conect_timeout: envoy.config.cluster.v3.Cluster has no field conect_timeout, did you mean connect_timeout",
    );
    check(
        CLUSTER,
        &json!({"lbPolicy": "RING_HASHH"}),
        "lbPolicy: envoy.config.cluster.v3.Cluster.LbPolicy has no value RING_HASHH, did you mean RING_HASH",
    );
    check(
        "envoy.config.cluster.v3.Clutser",
        &json!({}),
        "unknown message type envoy.config.cluster.v3.Clutser, did you mean envoy.config.cluster.v3.Cluster",
    );
    check(CLUSTER, &json!({"zzz": 1}), "zzz: envoy.config.cluster.v3.Cluster has no field zzz");
}

#[test]
fn values_of_another_kind_are_named() {
    check(CLUSTER, &json!({"name": 5}), "name: expected a string (in quotes), found 5");
    check(CLUSTER, &json!({"name": []}), "name: expected a string, found a list");
    check(CLUSTER, &json!([]), "expected an object, found a list");
    check(CLUSTER, &json!({"health_checks": {}}), "health_checks: expected a list, found an object");
    check(
        CLUSTER,
        &json!({"connect_timeout": "5"}),
        "connect_timeout: expected seconds with an s, for example \"0.25s\", found \"5\"",
    );
    check(
        CLUSTER,
        &json!({"per_connection_buffer_limit_bytes": -1}),
        "per_connection_buffer_limit_bytes: expected an integer from 0 to 4294967295, found -1",
    );
    check(CLUSTER, &json!({"respect_dns_ttl": "true"}), "respect_dns_ttl: expected true or false, found \"true\"");
    check(CLUSTER, &json!({"health_checks": [null]}), "health_checks[0]: expected an object, found null");
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    for (name, wrong) in [
        ("UInt32Value", json!(4294967296u64)),
        ("Int32Value", json!(1.5)),
        ("Int64Value", json!("9223372036854775808")),
        ("UInt64Value", json!("-1")),
        ("FloatValue", json!(1e39)),
        ("DoubleValue", json!("1e999")),
        ("DoubleValue", json!("inf")),
        ("BytesValue", json!("a")),
        ("Duration", json!("315576000001s")),
        ("Duration", json!("1.1234567890s")),
        ("Duration", json!("+1s")),
        ("Timestamp", json!("10000-01-01T00:00:00Z")),
        ("Timestamp", json!("2026-01-01")),
        ("Timestamp", json!("2026-01-01T00:00:00")),
    ] {
        let name = format!("google.protobuf.{name}");
        assert!(from_json(&name, &wrong).is_err(), "{name} {wrong}");
    }
}

#[test]
fn one_field_given_twice_is_refused_under_any_spelling() {
    check(CLUSTER, &json!({"lb_policy": 0, "lbPolicy": 1}), "lbPolicy: given twice");
    check(
        CLUSTER,
        &json!({"type": "STATIC", "cluster_type": {"name": "x"}}),
        "cluster_type: excludes type, which is set too: one of cluster_discovery_type",
    );
}

#[test]
fn an_any_needs_a_type_that_is_known() {
    let filter = |config: Json| json!({"filter_chains": [{"filters": [{"typed_config": config}]}]});
    let at = "filter_chains[0].filters[0].typed_config";
    check(
        LISTENER,
        &filter(json!({"stat_prefix": "x"})),
        &format!(
            "{at}: expected \"@type\" with the type of this message, for example type.googleapis.com/google.protobuf.Struct"
        ),
    );
    check(
        LISTENER,
        &filter(json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Ruoter"})),
        &format!(
            "{at}.@type: unknown message type envoy.extensions.filters.http.router.v3.Ruoter, did you mean envoy.extensions.filters.http.router.v3.Router"
        ),
    );
    check(
        LISTENER,
        &filter(json!({"@type": "type.googleapis.com/google.protobuf.Struct", "a": 1})),
        &format!("{at}.a: google.protobuf.Struct has no field a, did you mean value"),
    );
}

#[test]
fn text_errors_name_line_and_column() {
    check_text(
        "name: c\nlb_polcy: MAGLEV\n",
        "2:1: lb_polcy: envoy.config.cluster.v3.Cluster has no field lb_polcy, did you mean lb_policy",
    );
    check_text(
        "name: c\nlb_policy: MAGLEW\n",
        "2:12: lb_policy: envoy.config.cluster.v3.Cluster.LbPolicy has no value MAGLEW, did you mean MAGLEV",
    );
    check_text(
        "load_assignment:\n  endpoints:\n  - lb_endpoints:\n    - endpoint: {address: {pipe: {path: 5}}}\n",
        "4:41: load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.pipe.path: expected a string (in quotes), found 5",
    );
    check_text(
        "{\"name\": \"c\",\n \"lbPolicy\": true}",
        "2:14: lbPolicy: expected a value of envoy.config.cluster.v3.Cluster.LbPolicy, found true",
    );
}

#[test]
fn broken_text_is_an_error_with_its_place() {
    for text in ["name: [", "a: 1\na: 2", "\u{0}", "- - :", "&a [*a]", "name: c\n---\nname: d\n"] {
        let error = from_text(CLUSTER, text).unwrap_err();
        assert!(!error.to_string().is_empty(), "{text}");
    }
    assert_eq!(from_text(CLUSTER, "name: {a: ]").unwrap_err().position.map(|at| at.line), Some(1));
}

#[test]
fn deep_json_is_an_error_and_not_a_crash() {
    let mut json = json!(1);
    for _ in 0..10_000 {
        json = Json::Array(vec![json]);
    }
    assert!(from_json("google.protobuf.Value", &json).unwrap_err().to_string().contains("nested deeper than"));
    // serde_json drops a value recursively: take it apart from outside.
    while let Json::Array(mut items) = json {
        json = items.pop().unwrap_or_default();
    }
}

#[test]
fn deep_bytes_are_an_error_and_not_a_crash() {
    let mut any = Any::default();
    for _ in 0..3_000 {
        any = Any { type_url: "type.googleapis.com/google.protobuf.Any".into(), value: any.encode_to_vec().into() };
    }
    let bytes = any.encode_to_vec();
    assert!(to_json("google.protobuf.Any", &bytes).unwrap_err().to_string().contains("nested deeper than"));
    assert_eq!(crate::canonical("google.protobuf.Any", &bytes).unwrap(), bytes);
    assert!(crate::check("google.protobuf.Any", &bytes)[0].text.contains("nested deeper than"));
}

#[test]
fn bytes_that_are_no_such_message_are_refused() {
    let error = to_json(CLUSTER, &[0x0A, 0x05, b'x']).unwrap_err();
    assert!(error.to_string().starts_with("invalid bytes: "), "{error}");
    for (seconds, nanos) in [(i64::MIN, 0), (i64::MAX, i32::MIN), (1, -1), (0, i32::MAX)] {
        let duration = prost_types::Duration { seconds, nanos }.encode_to_vec();
        assert!(to_json("google.protobuf.Duration", &duration).is_err());
        assert!(to_json("google.protobuf.Timestamp", &duration).is_err());
    }
}
