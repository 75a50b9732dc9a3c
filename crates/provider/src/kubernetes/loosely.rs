//! What can be read of an object that cannot be used, so that its status can say so.

use api::reference::ParentRef;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::Rejected;

use crate::kubernetes::seen::Seen;

/// References that are looked at: a route has 32 at most, a policy 16.
const MOST: usize = 32;

/// Whose an object is that cannot be used, as far as it says so in a form that is known.
pub(crate) fn rejected(seen: &Seen, words: &str) -> Rejected {
    let object: Value = serde_json::from_slice(&seen.text).unwrap_or_default();
    let spec = |field: &str| object.get("spec").and_then(|spec| spec.get(field));
    let name = ["gatewayClassName", "controllerName"].into_iter().filter_map(spec).find_map(Value::as_str);
    let lists = ["parentRefs", "targetRefs"].into_iter().filter_map(spec).filter_map(Value::as_array).flatten();
    let one = ["parentRef", "targetRef"].into_iter().filter_map(spec);
    let references = lists.chain(one).filter_map(read::<ParentRef>);
    Rejected {
        generation: object
            .get("metadata")
            .and_then(|metadata| metadata.get("generation")?.as_i64())
            .unwrap_or_default(),
        belongs_to: name.unwrap_or_default().into(),
        refers_to: references.take(MOST).collect(),
        words: words.into(),
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}
