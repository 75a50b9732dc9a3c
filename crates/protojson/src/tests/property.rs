//! Whatever bytes or JSON come: no panic, and what was printed is read back to the same bytes.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::{CLUSTER, LISTENER, LISTENER_YAML, METADATA};
use crate::{canonical, check, from_json, from_text, to_json};

/// Messages whose parsers see the arbitrary input.
const NAMES: &[&str] = &[
    LISTENER,
    CLUSTER,
    METADATA,
    "envoy.config.bootstrap.v3.Bootstrap",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.extensions.transport_sockets.tls.v3.Secret",
    "google.protobuf.Any",
    "google.protobuf.Value",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "google.protobuf.FieldMask",
    "google.protobuf.BytesValue",
];

/// From arbitrary bytes as far as they go: no panic anywhere, and the canonical form is a fixed point.
fn there_and_back(name: &str, bytes: &[u8]) {
    let _ = check(name, bytes);
    let Ok(sorted) = canonical(name, bytes) else { return };
    assert_eq!(canonical(name, &sorted).as_ref(), Ok(&sorted));
    let (Ok(json), Ok(sorted_json)) = (to_json(name, bytes), to_json(name, &sorted)) else { return };
    assert_eq!(json, sorted_json);
    // Unknown fields have no JSON, so the bytes are compared after one more turn.
    let Ok(read) = from_json(name, &json) else { return };
    let again = to_json(name, &read).unwrap();
    assert_eq!(from_json(name, &again).as_ref(), Ok(&read));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.]{0,12}", any::<String>(), Just("@type".to_owned())]
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(text(), inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

prop_compose! {
    /// A cluster with what varies most in practice: names, times, numbers, metadata, typed options.
    fn cluster()(
        name in "[a-z/]{1,20}",
        seconds in 1i64..1000,
        nanos in 0i64..1_000_000_000,
        policy in 0..7,
        weights in prop::collection::vec(any::<u32>(), 0..4),
        metadata in prop::collection::btree_map(text(), any_json(), 0..4),
        bytes in prop::collection::vec(any::<u8>(), 0..20),
    ) -> Json {
        let endpoints: Vec<Json> = weights.iter().map(|weight| json!({
            "endpoint": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": weight}}},
            "loadBalancingWeight": weight,
        })).collect();
        let opaque = json!({"@type": "type.googleapis.com/google.protobuf.BytesValue", "value": base64_of(&bytes)});
        json!({
            "name": name,
            "connectTimeout": format!("{seconds}.{nanos:09}s"),
            "lbPolicy": policy,
            "loadAssignment": {"clusterName": name, "endpoints": [{"lbEndpoints": endpoints}]},
            "metadata": {"filterMetadata": {"b": metadata, "a": {}}},
            "typedExtensionProtocolOptions": {"z": opaque, "a": opaque},
        })
    }
}

fn base64_of(bytes: &[u8]) -> Json {
    use base64::Engine as _;
    Json::from(base64::engine::general_purpose::STANDARD.encode(bytes))
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(name in prop::sample::select(NAMES), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        there_and_back(name, &bytes);
    }

    #[test]
    fn a_real_message_with_broken_bytes_never_panics(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = from_text(LISTENER, LISTENER_YAML).unwrap().to_vec();
        for (index, byte) in edits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        there_and_back(LISTENER, &bytes);
    }

    #[test]
    fn arbitrary_json_never_panics(name in prop::sample::select(NAMES), json in any_json()) {
        if let Ok(bytes) = from_json(name, &json) {
            there_and_back(name, &bytes);
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = from_text(CLUSTER, &text);
    }

    #[test]
    fn a_cluster_comes_back_to_the_same_bytes(json in cluster()) {
        let bytes = from_json(CLUSTER, &json).unwrap();
        prop_assert_eq!(canonical(CLUSTER, &bytes).unwrap(), &bytes);
        let printed = to_json(CLUSTER, &bytes).unwrap();
        prop_assert_eq!(from_json(CLUSTER, &printed).unwrap(), &bytes);
    }
}
