//! Strategic merge, after `sig-api-machinery/strategic-merge-patch.md` of the Kubernetes community: which lists are merged stands in
//! [`LISTS`], as the Kubernetes API says it of Pods, Services and what else we make.

use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// Lists that are merged item by item, and the fields of which one tells items apart: the first that the first item has.
/// Every other list is replaced whole.
const LISTS: &[(&str, &[&str])] = &[
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ownerReferences", &["uid"]),
    // of containers, of Services
    ("ports", &["containerPort", "port"]),
    ("resourceClaims", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// Lists of plain values of which the patch's are added.
const SETS: &[&str] = &["finalizers"];

/// What a patch says of itself.
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";

/// Why a patch cannot be applied. The target is then half done: apply it to a copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// An item of a merged list does not say which one it is.
    #[error("{path}: an item has no {key}, by which items of this list are told apart")]
    NoKey {
        /// The list, for example `spec.template.spec.containers`.
        path: String,
        /// The field.
        key: &'static str,
    },
    /// A directive with a value that it cannot have.
    #[error("{path}: {directive} cannot be {value}")]
    Directive {
        /// Where it stands.
        path: String,
        /// Which.
        directive: String,
        /// What it is.
        value: String,
    },
    /// What is to be merged into is no object, or no list.
    #[error("{path}: is {found}, which a patch cannot be merged into")]
    Shape {
        /// Where.
        path: String,
        /// What stands there.
        found: &'static str,
    },
}

/// Applies a strategic merge patch. Of objects: null takes a field away, fields are merged, `$patch: replace` and `$patch: delete` replace and
/// empty, `$retainKeys` keeps these fields only. Of the lists that Kubernetes merges: items are merged by their key, `$patch: delete` in an item takes it
/// away, an item `$patch: replace` has the list replaced; `$setElementOrder/LIST` orders, `$deleteFromPrimitiveList/LIST` takes plain values away.
///
/// # Errors
/// If the patch has no meaning; it says where.
pub fn strategic_merge(target: &mut Value, patch: &Value) -> Result<(), MergeError> {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => object(target, patch, ""),
        (target, Value::Object(_)) => Err(MergeError::Shape { path: "the object".to_owned(), found: kind(target) }),
        (target, patch) => {
            *target = patch.clone();
            Ok(())
        }
    }
}

fn object(target: &mut Map<String, Value>, patch: &Map<String, Value>, path: &str) -> Result<(), MergeError> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => target.clear(),
        Some(Some("delete")) => {
            target.clear();
            return Ok(());
        }
        Some(_) => return Err(wrong(path, DIRECTIVE, patch.get(DIRECTIVE))),
    }
    if let Some(kept) = patch.get(RETAIN_KEYS) {
        let Value::Array(kept) = kept else { return Err(wrong(path, RETAIN_KEYS, Some(kept))) };
        target.retain(|field, _| kept.iter().any(|kept| kept.as_str() == Some(field)));
    }
    for (field, value) in patch {
        if let Some(list) = field.strip_prefix(DELETE_VALUES) {
            delete_values(target, list, value, path)?;
        } else if !field.starts_with('$') {
            self::field(target, field, value, path)?;
        }
    }
    for (field, order) in patch {
        if let Some(list) = field.strip_prefix(ELEMENT_ORDER) {
            set_order(target, list, order, path)?;
        }
    }
    Ok(())
}

fn field(target: &mut Map<String, Value>, field: &str, patch: &Value, path: &str) -> Result<(), MergeError> {
    let path = join(path, field);
    match (target.get_mut(field), patch) {
        (_, Value::Null) => drop(target.remove(field)),
        (Some(Value::Object(old)), Value::Object(patch)) => object(old, patch, &path)?,
        (_, Value::Object(patch)) => {
            let mut new = Map::new();
            object(&mut new, patch, &path)?;
            target.insert(field.to_owned(), new.into());
        }
        (old, Value::Array(patch)) => {
            let mut items = old.and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            list(&mut items, field, patch, &path)?;
            target.insert(field.to_owned(), items.into());
        }
        (_, plain) => drop(target.insert(field.to_owned(), plain.clone())),
    }
    Ok(())
}

fn list(target: &mut Vec<Value>, field: &str, patch: &[Value], path: &str) -> Result<(), MergeError> {
    if SETS.contains(&field) {
        for value in patch {
            if !target.contains(value) {
                target.push(value.clone());
            }
        }
        return Ok(());
    }
    let replaces = patch.iter().any(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace"));
    let Some(key) = key_of(field, target, patch).filter(|_| !replaces) else {
        target.clear();
        let items = patch.iter().filter(|item| item.get(DIRECTIVE).is_none());
        return items.cloned().try_for_each(|item| {
            target.push(bare(item, path)?);
            Ok(())
        });
    };
    for item in patch {
        let Some(name) = item.get(key) else { return Err(MergeError::NoKey { path: path.to_owned(), key }) };
        let at = target.iter().position(|old| old.get(key) == Some(name));
        if item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
            at.map(|at| target.remove(at));
            continue;
        }
        match (at.and_then(|at| target.get_mut(at)), item) {
            (Some(Value::Object(old)), Value::Object(item)) => object(old, item, &format!("{path}[{}]", shown(name)))?,
            _ => target.push(bare(item.clone(), path)?),
        }
    }
    Ok(())
}

/// A value of a patch without its directives.
fn bare(value: Value, path: &str) -> Result<Value, MergeError> {
    match value {
        Value::Object(patch) => {
            let mut new = Map::new();
            object(&mut new, &patch, path)?;
            Ok(new.into())
        }
        Value::Array(items) => items.into_iter().map(|item| bare(item, path)).collect(),
        plain => Ok(plain),
    }
}

/// By which field the items of a list are told apart; none if the list is replaced.
fn key_of(field: &str, target: &[Value], patch: &[Value]) -> Option<&'static str> {
    let (_, keys) = LISTS.iter().find(|(list, _)| *list == field)?;
    let first = target.iter().chain(patch).find(|item| item.is_object())?;
    keys.iter().copied().find(|key| first.get(key).is_some()).or_else(|| keys.first().copied())
}

fn delete_values(target: &mut Map<String, Value>, list: &str, values: &Value, path: &str) -> Result<(), MergeError> {
    let Value::Array(values) = values else {
        return Err(wrong(path, &format!("{DELETE_VALUES}{list}"), Some(values)));
    };
    if let Some(Value::Array(items)) = target.get_mut(list) {
        items.retain(|item| !values.contains(item));
    }
    Ok(())
}

/// Items that the order names come in its order, from the place of the first of them; others keep their places before and behind.
fn set_order(target: &mut Map<String, Value>, list: &str, order: &Value, path: &str) -> Result<(), MergeError> {
    let Value::Array(order) = order else {
        return Err(wrong(path, &format!("{ELEMENT_ORDER}{list}"), Some(order)));
    };
    let Some(Value::Array(items)) = target.get_mut(list) else { return Ok(()) };
    let key = key_of(list, items, order);
    let rank = |item: &Value| {
        let same = |wanted: &Value| match key {
            Some(key) => wanted.get(key).is_some() && wanted.get(key) == item.get(key),
            None => wanted == item,
        };
        order.iter().position(same)
    };
    let at = items.iter().position(|item| rank(item).is_some()).unwrap_or(items.len());
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        std::mem::take(items).into_iter().partition(|item| rank(item).is_some());
    named.sort_by_key(|item| rank(item));
    items.extend(others);
    items.splice(at..at, named);
    Ok(())
}

fn wrong(path: &str, directive: &str, value: Option<&Value>) -> MergeError {
    let path = if path.is_empty() { "the object".to_owned() } else { path.to_owned() };
    MergeError::Directive { path, directive: directive.to_owned(), value: value.map(shown).unwrap_or_default() }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// A value as people read it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
