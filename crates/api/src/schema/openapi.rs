//! A kind's schema as a `CustomResourceDefinition` has it: types and nothing else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Schema, Type};
use crate::kind::Kind;

/// The keyword that keeps fields which are not named.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// The schema (`openAPIV3Schema`) of the objects of a kind. It asks for less than what is checked when an object is read: whatever an
/// earlier or a later version of the kind, or Envoy Gateway's own, lets pass is kept as it is, and the status says what of it has no effect.
#[must_use]
pub fn definition(kind: Kind) -> Value {
    let mut whole = typed(Schema::of(kind));
    // The API server has its own mind about these.
    let frame = [
        ("apiVersion", json!({"type": "string"})),
        ("kind", json!({"type": "string"})),
        ("metadata", json!({"type": "object"})),
    ];
    let status = ("status", json!({"type": "object", OPEN: true}));
    if let Some(Value::Object(fields)) = whole.get_mut("properties") {
        fields.extend(frame.into_iter().chain([status]).map(|(name, schema)| (name.to_owned(), schema)));
    }
    whole
}

fn typed(schema: &Schema) -> Value {
    let name = match schema.value_type {
        _ if schema.later => return json!({OPEN: true}),
        Type::Any => return json!({OPEN: true}),
        Type::IntOrString => return json!({"x-kubernetes-int-or-string": true}),
        Type::List => {
            let items = schema.items.as_deref().map_or_else(|| json!({OPEN: true}), typed);
            return json!({"type": "array", "items": items});
        }
        Type::Object => return object(schema),
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    };
    json!({ "type": name })
}

fn object(schema: &Schema) -> Value {
    let fields: BTreeMap<_, _> =
        schema.properties.iter().map(|property| (&*property.name, typed(&property.schema))).collect();
    match &schema.values {
        Some(values) if fields.is_empty() && values.value_type != Type::Any => {
            json!({"type": "object", "additionalProperties": typed(values)})
        }
        _ if fields.is_empty() => json!({OPEN: true}),
        _ => json!({"type": "object", OPEN: true, "properties": fields}),
    }
}
