//! What is ours into a status that others write too.

use api::Kind;
use api::status::{AGGREGATED, OwnStatus, PASSING_CONDITIONS};
use serde_json::{Map, Value, json};

/// The field that a transition's time is in.
const SINCE: &str = "lastTransitionTime";

/// The status that an object shall have, given the one that it has; none if that is the same. `ours` is none if nothing of ours shall be
/// there. Conditions whose word has not changed keep the time since when they have it; others have it since `now`.
pub(super) fn merged(
    kind: Kind,
    current: Option<&Value>,
    ours: Option<Value>,
    (controller, now): (&str, &str),
) -> Option<Value> {
    let current = current.cloned().unwrap_or_else(|| json!({}));
    let mut wanted = match kind.own_status()? {
        OwnStatus::Entries(list, most) => entries(&current, (list, most), ours, controller),
        OwnStatus::Whole => whole(&current, ours.or_else(|| orphaned(kind, &current))?),
    };
    keep_times(&current, &mut wanted, now);
    (wanted != current).then_some(wanted)
}

/// Entries of others first and as they are, ours behind them as far as there is room.
fn entries(current: &Value, (list, most): (&str, usize), ours: Option<Value>, controller: &str) -> Value {
    let theirs = |entry: &&Value| entry.get("controllerName").and_then(Value::as_str) != Some(controller);
    let items = |status: &Value| status.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut all: Vec<Value> = items(current).iter().filter(theirs).cloned().collect();
    let mut own = ours.as_ref().map(items).unwrap_or_default();
    let room = most.saturating_sub(all.len());
    if own.len() > room {
        own.truncate(room);
        own.last_mut().into_iter().for_each(say_that_more_are_left_out);
    }
    all.extend(own);
    let mut wanted = current.clone();
    if let Value::Object(fields) = &mut wanted {
        fields.insert(list.to_owned(), all.into());
    }
    wanted
}

/// How many is not said: that changes with what others write.
fn say_that_more_are_left_out(entry: &mut Value) {
    let Some(conditions) = entry.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some(AGGREGATED));
    let generation = conditions.first().and_then(|condition| condition.get("observedGeneration")).cloned();
    conditions.push(json!({
        "type": AGGREGATED, "status": "True", "reason": AGGREGATED, "observedGeneration": generation,
        "message": "the list is full with entries of other controllers, some of ours are left out",
    }));
}

/// All of it is ours, but for conditions of types that we do not know: its own and those of its listeners.
fn whole(current: &Value, mut ours: Value) -> Value {
    keep_conditions(current, &mut ours);
    let listeners = ours.get_mut("listeners").and_then(Value::as_array_mut).into_iter().flatten();
    let before = current.get("listeners").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for listener in listeners {
        let name = listener.get("name").cloned();
        if let Some(before) = before.iter().find(|before| before.get("name").cloned() == name) {
            keep_conditions(before, listener);
        }
    }
    ours
}

/// Whether nobody but this manager has written the status of an object (`metadata.managedFields`).
pub(super) fn is_written_by(object: &Value, manager: &str) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let word = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut of_status = entries.iter().filter(|entry| word(entry, "subresource") == "status").peekable();
    of_status.peek().is_some() && of_status.all(|entry| word(entry, "manager") == manager)
}

/// That of a `ListenerSet` that no Gateway of ours has any more, as the API server makes it for a new one (`ListenerSet.status`): it says not
/// whose it is, so that what was said before must not stay. Of other kinds others may write theirs.
fn orphaned(kind: Kind, current: &Value) -> Option<Value> {
    let conditions = current.get("conditions").and_then(Value::as_array)?;
    let accepted = conditions.iter().find(|one| one.get("type").and_then(Value::as_str) == Some("Accepted"))?;
    if kind != Kind::ListenerSet || accepted.get("status").and_then(Value::as_str) == Some("Unknown") {
        return None;
    }
    let generation = accepted.get("observedGeneration").cloned().unwrap_or_else(|| 1.into());
    let waits = |of: &str| {
        let message = "no Gateway has this ListenerSet any more";
        json!({ "type": of, "status": "Unknown", "reason": "Pending", "message": message, "observedGeneration": generation })
    };
    Some(json!({ "conditions": [waits("Accepted"), waits("Programmed")] }))
}

/// Puts conditions of others behind ours.
fn keep_conditions(current: &Value, ours: &mut Value) {
    let conditions = |status: &Value| status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let own = conditions(ours);
    let known = |condition: &Value| {
        let passing = |word: &str| PASSING_CONDITIONS.contains(&word);
        let named = condition.get("type");
        own.iter().any(|own| own.get("type") == named) || named.and_then(Value::as_str).is_none_or(passing)
    };
    let foreign: Vec<Value> = conditions(current).into_iter().filter(|condition| !known(condition)).collect();
    if let (Value::Object(fields), false) = (ours, foreign.is_empty()) {
        fields.insert("conditions".to_owned(), own.into_iter().chain(foreign).collect());
    }
}

/// Whether a status takes back what was confirmed of the same generation, for want of news and not because of any: `Programmed` of a
/// Gateway or of a listener.
pub(super) fn takes_back(current: &Value, wanted: &Value) -> bool {
    let before = current.get("listeners").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut listeners = wanted.get("listeners").and_then(Value::as_array).into_iter().flatten();
    let loses = |old: &Value, new: &Value| match (programmed(old), programmed(new)) {
        (Some(old), Some(new)) => {
            let word = |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).map(str::to_owned);
            let same = old.get("observedGeneration") == new.get("observedGeneration");
            let was = word(old, "status").as_deref() == Some("True");
            let waits = word(new, "reason").is_some_and(|reason| WAITS.contains(&reason.as_str()));
            same && was && waits && word(new, "status").as_deref() != Some("True")
        }
        _ => false,
    };
    loses(current, wanted)
        || listeners.any(|new| before.iter().any(|old| old.get("name") == new.get("name") && loses(old, new)))
}

/// Reasons of `Programmed` that mean that nobody has said anything yet.
const WAITS: [&str; 3] = ["Pending", "AddressNotAssigned", "NoResources"];

fn programmed(status: &Value) -> Option<&Value> {
    let conditions = status.get("conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some("Programmed"))
}

/// Gives each condition its time: from the condition of the same type in the same place, if that says the same.
fn keep_times(old: &Value, new: &mut Value, now: &str) {
    match new {
        Value::Object(fields) if is_condition(fields) => {
            let same = old.get("status") == fields.get("status");
            let since = old.get(SINCE).filter(|_| same).cloned();
            fields.insert(SINCE.to_owned(), since.unwrap_or_else(|| now.into()));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                keep_times(old.get(name).unwrap_or(&Value::Null), value, now);
            }
        }
        Value::Array(items) => {
            let before = old.as_array().map_or(&[][..], Vec::as_slice);
            for item in items {
                let same = before.iter().find(|old| same_item(old, item)).unwrap_or(&Value::Null);
                keep_times(same, item, now);
            }
        }
        _ => {}
    }
}

/// A condition has a type, a status and a reason.
fn is_condition(fields: &Map<String, Value>) -> bool {
    ["type", "status", "reason"].iter().all(|field| fields.get(*field).is_some_and(Value::is_string))
}

/// By these fields entries of lists are told apart: of conditions, of listeners, of parents and ancestors.
fn same_item(one: &Value, two: &Value) -> bool {
    const KEYS: [&str; 5] = ["type", "name", "parentRef", "ancestorRef", "controllerName"];
    one.is_object() && KEYS.iter().all(|key| one.get(key) == two.get(key))
}

#[cfg(test)]
mod tests;
