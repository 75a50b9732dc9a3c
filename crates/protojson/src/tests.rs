//! The crate from outside: real resources there and back, what is refused and in which words, and that nothing panics.

mod property;
mod refuse;
mod rule;

use prost::Message as _;
use proto::envoy::config::core::v3::TypedExtensionConfig;
use proto::envoy::config::listener::v3::Listener;
use proto::google::protobuf::Any;
use serde_json::json;

use crate::{Pool, any_to_json, canonical, from_json, from_text, message_to_json, to_json};

const LISTENER: &str = "envoy.config.listener.v3.Listener";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const METADATA: &str = "envoy.config.core.v3.Metadata";

/// A listener as people write them, with `Any` in `Any` in `Any`.
const LISTENER_YAML: &str = r#"
name: web
address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
per_connection_buffer_limit_bytes: 32768
filter_chains:
- filter_chain_match: {server_names: [a.example, "*.b.example"]}
  filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: web
      stream_idle_timeout: 0.25s
      route_config:
        name: r
        virtual_hosts:
        - name: all
          domains: ["*"]
          routes:
          - match: {safe_regex: {regex: "/a+"}}
            route: {weighted_clusters: {clusters: [{name: one, weight: 1}, {name: two, weight: 0}]}, timeout: 15s}
            typed_per_filter_config:
              z: {"@type": type.googleapis.com/google.protobuf.Struct, value: {b: [1, 2.5, null, true], a: {}}}
              envoy.filters.http.cors:
                "@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy
                allow_credentials: true
              a: {"@type": type.googleapis.com/google.protobuf.Duration, value: -1.000000001s}
      http_filters:
      - name: envoy.filters.http.router
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
"#;

#[test]
fn the_descriptors_are_those_of_the_whole_api() {
    assert!(Pool::envoy().knows("type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap"));
    assert!(Pool::envoy().knows("envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor"));
    assert!(Pool::envoy().names().len() > 1500);
}

#[test]
fn what_is_read_from_yaml_is_the_typed_message() {
    let bytes = from_text(LISTENER, LISTENER_YAML).unwrap();
    let listener = Listener::decode(bytes).unwrap();
    assert_eq!(listener.name, "web");
    assert_eq!(listener.per_connection_buffer_limit_bytes, Some(32768));
    assert_eq!(
        listener.filter_chains[0].filter_chain_match.as_ref().unwrap().server_names,
        ["a.example", "*.b.example"]
    );
    assert_eq!(from_json(LISTENER, &message_to_json(&listener).unwrap()).unwrap(), listener.encode_to_vec());
}

#[test]
fn any_is_expanded_and_printed_in_camel_case_with_its_type_first() {
    let bytes = from_text(LISTENER, LISTENER_YAML).unwrap();
    let json = to_json(LISTENER, &bytes).unwrap();
    let hcm = &json["filterChains"][0]["filters"][0]["typedConfig"];
    let names: Vec<&str> = hcm.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["@type", "statPrefix", "routeConfig", "httpFilters", "streamIdleTimeout"]);
    assert_eq!(hcm["streamIdleTimeout"], "0.250s");
    let per_filter = &hcm["routeConfig"]["virtualHosts"][0]["routes"][0]["typedPerFilterConfig"];
    assert_eq!(
        per_filter.to_string(),
        json!({
            "a": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "-1.000000001s"},
            "envoy.filters.http.cors": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
                "allowCredentials": true
            },
            "z": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"a": {}, "b": [1, 2.5, null, true]}}
        })
        .to_string()
    );
}

#[test]
fn printing_and_reading_give_the_same_bytes() {
    let bytes = from_text(LISTENER, LISTENER_YAML).unwrap();
    let json = to_json(LISTENER, &bytes).unwrap();
    assert_eq!(from_json(LISTENER, &json).unwrap(), bytes);
    assert_eq!(canonical(LISTENER, &bytes).unwrap(), bytes);
}

#[test]
fn both_spellings_of_a_name_mean_the_same() {
    let snake = json!({"connect_timeout": "1s", "lb_policy": "RING_HASH", "name": "c"});
    let camel = json!({"name": "c", "lbPolicy": 2, "connectTimeout": "1.000s"});
    assert_eq!(from_json(CLUSTER, &snake).unwrap(), from_json(CLUSTER, &camel).unwrap());
}

#[test]
fn canonical_bytes_do_not_depend_on_the_order_in_which_fields_and_entries_came() {
    let entry = |name: &str| [&[0x0A, 0x03, 0x0A, 0x01], name.as_bytes()].concat();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let forth = names.map(entry).concat();
    let back = names.iter().rev().map(|name| entry(name)).collect::<Vec<_>>().concat();
    assert_eq!(canonical(METADATA, &forth).unwrap(), canonical(METADATA, &back).unwrap());

    let any = |value: &[u8]| Any { type_url: format!("type.googleapis.com/{METADATA}"), value: value.to_vec().into() };
    let canonical_any = |value| canonical("google.protobuf.Any", &any(value).encode_to_vec()).unwrap();
    assert_eq!(canonical_any(&forth), canonical_any(&back));
}

#[test]
fn unknown_fields_stay_in_canonical_bytes() {
    let with_unknown = [&[0x0A, 0x01, b'c'][..], &[0xFA, 0x7F, 0x01, b'x']].concat();
    assert_eq!(canonical(CLUSTER, &with_unknown).unwrap(), with_unknown);
}

#[test]
fn an_any_of_unknown_type_is_printed_as_base64_and_read_back() {
    let any = Any { type_url: "type.googleapis.com/acme.Filter".into(), value: vec![0xFF, 0x00, 0x01].into() };
    let json = any_to_json(&any).unwrap();
    assert_eq!(json, json!({"@type": "type.googleapis.com/acme.Filter", "value": "/wAB"}));
    assert_eq!(from_json("google.protobuf.Any", &json).unwrap(), any.encode_to_vec());
}

#[test]
fn an_any_that_has_no_json_is_printed_as_its_bytes_and_everything_around_it_as_always() {
    let any = |name: &str, value: Vec<u8>| Any { type_url: format!("type.googleapis.com/{name}"), value: value.into() };
    let endless = prost_types::Duration { seconds: i64::MAX, nanos: 0 }.encode_to_vec();
    for inner in [
        any("acme.Filter", vec![0xFF, 0x00]),
        any(CLUSTER, vec![0x0A, 0x05]),
        any("google.protobuf.Duration", endless),
        any("google.protobuf.Struct", vec![0xFF]),
    ] {
        let outer = any("google.protobuf.Any", inner.encode_to_vec());
        let expect = json!({"@type": inner.type_url, "value": base64(&inner.value)});
        assert_eq!(any_to_json(&outer).unwrap(), json!({"@type": outer.type_url, "value": expect}));
        let extension = TypedExtensionConfig { name: "a".into(), typed_config: Some(inner) };
        assert_eq!(message_to_json(&extension).unwrap(), json!({"name": "a", "typedConfig": expect}));
    }
}

#[test]
fn an_any_that_has_no_json_prints_the_same_however_its_bytes_were_written() {
    // `nanos: 0x5FFF_FFFF`, which no duration may have, in ten bytes of a varint and in five.
    let [long, short] = [&b"\x10\xFF\xFF\xFF\xFF\xB5\xFF\xFF\xFF\xFF\x01"[..], &b"\x10\xFF\xFF\xFF\xFF\x05"[..]];
    for value in [long, short] {
        let any = Any { type_url: "type.googleapis.com/google.protobuf.Duration".into(), value: value.to_vec().into() };
        assert_eq!(any_to_json(&any).unwrap(), json!({"@type": any.type_url, "value": base64(short)}));
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn numbers_keep_their_value_and_their_digits() {
    let ring = "envoy.config.cluster.v3.Cluster.RingHashLbConfig";
    let big = json!({"minimumRingSize": "8388608", "maximumRingSize": 8388608});
    let printed = to_json(ring, &from_json(ring, &big).unwrap()).unwrap();
    assert_eq!(printed, json!({"minimumRingSize": "8388608", "maximumRingSize": "8388608"}));
    let float = "google.protobuf.FloatValue";
    for number in [json!(0.1), json!(1e-20), json!(16777216), json!("NaN"), json!("-Infinity")] {
        assert_eq!(to_json(float, &from_json(float, &number).unwrap()).unwrap(), number);
    }
}

#[test]
fn times_and_masks_have_their_own_form() {
    for (name, text) in [
        ("google.protobuf.Timestamp", "2026-11-21T10:04:00Z"),
        ("google.protobuf.Timestamp", "0001-01-01T00:00:00Z"),
        ("google.protobuf.Timestamp", "9999-12-31T23:59:59.999999999Z"),
        ("google.protobuf.Duration", "-0.500s"),
        ("google.protobuf.Duration", "315576000000s"),
        ("google.protobuf.FieldMask", "aField,b.cD"),
    ] {
        let bytes = from_json(name, &json!(text)).unwrap();
        assert_eq!(to_json(name, &bytes).unwrap(), json!(text), "{name}");
    }
}

#[test]
fn every_message_of_the_api_is_printed_and_read_when_empty() {
    let pool = Pool::envoy();
    for name in pool.names() {
        let json = pool.to_json(&name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = pool.from_json(&name, &json).unwrap_or_else(|error| panic!("{name}: {json}: {error}"));
        assert_eq!(pool.to_json(&name, &bytes).unwrap(), json, "{name}");
    }
}
