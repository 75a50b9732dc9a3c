//! Who owns which fields of an object (`metadata.managedFields`): how a change by somebody else is told from a status or an annotation that
//! does not concern us. Who changes a field that we own takes it from us; so as long as ours are the same, nothing is to be done.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

/// As whom we apply.
pub(super) const MANAGER: &str = "chancery";

/// The fields that we own; none if we never applied the object.
pub(super) fn own(entries: &[ManagedFieldsEntry]) -> Option<&Value> {
    let ours = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    };
    entries.iter().find(ours).and_then(|entry| entry.fields_v1.as_ref()).map(|fields| &fields.0)
}

/// What tells two sets of fields apart.
pub(super) fn hash(own: Option<&Value>) -> u64 {
    own.map_or(0, |fields| xxh3_64(fields.to_string().as_bytes()))
}

/// Who else owns fields: people want to know who it was.
pub(super) fn others(entries: &[ManagedFieldsEntry]) -> Vec<&str> {
    let mut names: Vec<&str> = entries.iter().filter_map(|entry| entry.manager.as_deref()).collect();
    names.retain(|name| *name != MANAGER);
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether every field of an object that we would apply is ours already. False where that is not certain.
pub(super) fn cover(own: &Value, object: &Value) -> bool {
    let Some(object) = object.as_object() else { return false };
    object.iter().all(|(name, value)| match name.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => {
            let mut metadata = value.clone();
            if let Value::Object(metadata) = &mut metadata {
                for name in ["name", "namespace", "uid", "resourceVersion"] {
                    metadata.remove(name);
                }
            }
            own.get("f:metadata").is_some_and(|own| covers(own, &metadata))
        }
        name => covers_field(own, name, value),
    })
}

/// A set without parts holds its field as a whole.
fn covers(own: &Value, value: &Value) -> bool {
    let Some(fields) = own.as_object().filter(|fields| fields.keys().any(|name| name != ".")) else { return true };
    match value {
        Value::Object(value) => value.iter().all(|(name, value)| covers_field(own, name, value)),
        Value::Array(items) => items.iter().all(|item| covers_item(fields, item)),
        _ => true,
    }
}

fn covers_field(own: &Value, name: &str, value: &Value) -> bool {
    value.is_null() || own.get(format!("f:{name}")).is_some_and(|own| covers(own, value))
}

/// An item of a list is named by some of its fields, or by its value.
fn covers_item(fields: &Map<String, Value>, item: &Value) -> bool {
    fields.iter().any(|(name, own)| {
        if let Some(value) = name.strip_prefix("v:") {
            return serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item);
        }
        let keys = name.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Map<String, Value>>(keys).ok());
        // a key that is not written has its default
        keys.is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key).is_none_or(|found| found == value)))
            && covers(own, item)
    })
}

#[cfg(test)]
mod tests;
