//! For the tests beside the code: a resource's bytes against the YAML that a reader expects.

use bytes::Bytes;
use serde_json::Value;

use crate::resource::{Body, Encoded};

/// The message in one piece.
pub(crate) fn joined(body: &Body) -> Bytes {
    body.concat().into()
}

/// The resource as JSON. Panics if its bytes are not canonical or break a rule of Envoy's API.
pub(crate) fn json(encoded: &Encoded) -> Value {
    let bytes = joined(&encoded.body);
    let violations = protojson::check(encoded.type_url, &bytes);
    assert!(violations.is_empty(), "{}: {violations:?}", encoded.name);
    assert_eq!(protojson::canonical(encoded.type_url, &bytes).unwrap(), bytes, "{} is not canonical", encoded.name);
    protojson::to_json(encoded.type_url, &bytes).unwrap()
}

/// What a test wants, written as YAML with Envoy's field names in camelCase.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Compares a resource with the YAML that is wanted; prints both when they differ.
pub(crate) fn expect(found: &Value, wanted: &str) {
    let wanted = yaml(wanted);
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    assert!(*found == wanted, "found:\n{}\nwanted:\n{}", pretty(found), pretty(&wanted));
}
