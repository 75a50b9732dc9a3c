//! Templates of JSON: what can be one of several things, or a list of any length, stands in its place.

use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::{Value, json};

/// The values that a template stands for. A field without a value is not written.
pub(super) fn values(template: &Value) -> BoxedStrategy<Value> {
    let all = |items: &[Value]| items.iter().map(values).collect::<Vec<_>>();
    match template {
        Value::Object(fields) => match fields.iter().next().map(|(mark, of)| (&**mark, of)) {
            Some((ONE, Value::Array(items))) => Union::new(all(items)).boxed(),
            Some((BOTH, Value::Array(items))) => all(items).prop_map(merged).boxed(),
            Some((MOSTLY, Value::Array(items))) => {
                Union::new_weighted([9, 1].into_iter().zip(all(items)).collect()).boxed()
            }
            Some((SOME, item)) => prop::collection::vec(values(item), 1..4).prop_map(Value::from).boxed(),
            _ => {
                let names: Vec<String> = fields.keys().cloned().collect();
                let parts: Vec<_> = fields.values().map(values).collect();
                let object = move |parts: Vec<Value>| {
                    let fields = names.iter().cloned().zip(parts).filter(|(_, part)| !part.is_null());
                    Value::Object(fields.collect())
                };
                parts.prop_map(object).boxed()
            }
        },
        Value::Array(items) => all(items).prop_map(Value::from).boxed(),
        plain => Just(plain.clone()).boxed(),
    }
}

fn merged(objects: Vec<Value>) -> Value {
    let fields =
        objects.into_iter().filter_map(|object| if let Value::Object(fields) = object { Some(fields) } else { None });
    Value::Object(fields.flatten().collect())
}

const ONE: &str = "one of these";
const BOTH: &str = "the fields of these";
const MOSTLY: &str = "the first of these nine times in ten";
const SOME: &str = "one to three of this";

/// One of these, each as often as the others.
pub(super) fn one<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    let items: Vec<Value> = items.into_iter().map(Into::into).collect();
    json!({ONE: items})
}

/// The first, and once in ten times the second.
pub(super) fn mostly(usual: impl Into<Value>, odd: impl Into<Value>) -> Value {
    json!({MOSTLY: [usual.into(), odd.into()]})
}

/// A list of one to three of this.
pub(super) fn some(item: impl Into<Value>) -> Value {
    json!({SOME: item.into()})
}

/// An object with the fields of both.
pub(super) fn both(first: Value, second: Value) -> Value {
    json!({BOTH: [first, second]})
}

/// This, or nothing.
pub(super) fn maybe(item: impl Into<Value>) -> Value {
    one([Value::Null, item.into()])
}

/// Nothing, and once in ten times this.
pub(super) fn rarely(item: impl Into<Value>) -> Value {
    mostly(Value::Null, item)
}
