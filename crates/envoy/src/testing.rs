//! For the tests beside the code: a resource's bytes against the YAML that a reader expects.

use bytes::Bytes;
use serde_json::Value;

use crate::resource::{Body, Encoded};

/// The message in one piece.
pub(crate) fn joined(body: &Body) -> Bytes {
    body.concat().into()
}

/// The resource as JSON. Panics if it breaks a rule of Envoy's API.
pub(crate) fn json(encoded: &Encoded) -> Value {
    let bytes = joined(&encoded.body);
    let violations = protojson::check(encoded.type_url, &bytes);
    assert!(violations.is_empty(), "{}: {violations:?}", encoded.name);
    protojson::to_json(encoded.type_url, &bytes).unwrap()
}

/// What a test wants, written as YAML with Envoy's field names in camelCase.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Compares a resource with the YAML that is wanted; says where they differ.
pub(crate) fn expect(found: &Value, wanted: &str) {
    let wanted = yaml(wanted);
    let mut differences = Vec::new();
    compare("", found, &wanted, &mut differences);
    assert!(differences.is_empty(), "{}\nin\n{}", differences.join("\n"), serde_json::to_string_pretty(found).unwrap());
}

fn compare(path: &str, found: &Value, wanted: &Value, differences: &mut Vec<String>) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let names = found.keys().chain(wanted.keys().filter(|name| !found.contains_key(*name)));
            for name in names {
                let of = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}.{name}"), &of(found), &of(wanted), differences);
            }
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            for (position, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                compare(&format!("{path}[{position}]"), found, wanted, differences);
            }
        }
        (Value::Number(found), Value::Number(wanted)) if found.as_f64() == wanted.as_f64() => {}
        _ if found == wanted => {}
        _ => differences.push(format!("{path}: found {found}, wanted {wanted}")),
    }
}
