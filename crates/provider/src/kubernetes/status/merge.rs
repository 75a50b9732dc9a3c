//! What is ours into a status that others write too.

use api::Kind;
use api::status::{AGGREGATED, OwnStatus, PASSING_CONDITIONS, is_own_condition};
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

/// Entries of others first and as they are, ours behind them as far as there is room, each with the conditions of others that it had.
fn entries(current: &Value, (list, most): (&str, usize), ours: Option<Value>, controller: &str) -> Value {
    let (before, mut all): (Vec<Value>, Vec<Value>) =
        items(current, list).iter().cloned().partition(|entry| is_of(entry, controller));
    let mut own: Vec<Value> = ours.iter().flat_map(|ours| items(ours, list)).cloned().collect();
    let room = most.saturating_sub(all.len());
    if own.len() > room {
        own.truncate(room);
        own.last_mut().into_iter().for_each(say_that_more_are_left_out);
    }
    for entry in &mut own {
        if let Some(before) = before.iter().find(|before| same_item(before, entry)) {
            keep_conditions(before, entry);
        }
    }
    all.extend(own);
    let mut wanted = current.clone();
    if let Value::Object(fields) = &mut wanted {
        fields.insert(list.to_owned(), all.into());
    }
    wanted
}

/// The entries of a list; none where there is no such list.
fn items<'v>(status: &'v Value, list: &str) -> &'v [Value] {
    status.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_of(entry: &Value, controller: &str) -> bool {
    entry.get("controllerName").and_then(Value::as_str) == Some(controller)
}

/// Why nothing of ours can be there: others have filled the list.
pub(super) fn lack_of_room(kind: Kind, current: &Value, ours: &Value, controller: &str) -> Option<String> {
    let OwnStatus::Entries(list, most) = kind.own_status()? else { return None };
    let theirs = items(current, list).iter().filter(|entry| !is_of(entry, controller)).count();
    let text = format!(
        "other controllers have filled status.{list} ({theirs}), there is no room for what we have to say of it"
    );
    (theirs >= most && !items(ours, list).is_empty()).then_some(text)
}

/// Whether what is ours was written of a later generation of the object than this is, and which the object has had: by the leader before us,
/// who has seen it earlier.
pub(super) fn is_behind(kind: Kind, object: &Value, ours: &Value, controller: &str) -> bool {
    let (Some(of), Some(current)) = (kind.own_status(), object.get("status")) else { return false };
    let newest = |status: &Value| match of {
        OwnStatus::Whole => newest_generation([status]),
        OwnStatus::Entries(list, _) => newest_generation(items(status, list).iter().filter(|it| is_of(it, controller))),
    };
    let there = object.pointer("/metadata/generation").and_then(Value::as_i64);
    newest(current)
        .is_some_and(|of_theirs| newest(ours).is_some_and(|ours| ours < of_theirs) && Some(of_theirs) <= there)
}

fn newest_generation<'v>(holders: impl IntoIterator<Item = &'v Value>) -> Option<i64> {
    let conditions = holders.into_iter().flat_map(|holder| items(holder, "conditions"));
    conditions.filter_map(|condition| condition.get("observedGeneration")?.as_i64()).max()
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

/// All of it is ours, but for conditions of types that we do not know: its own and those of its listeners. Entries that nobody signs
/// (`EnvoyProxy`) are ours too.
fn whole(current: &Value, mut ours: Value) -> Value {
    keep_conditions(current, &mut ours);
    let listeners = ours.get_mut("listeners").and_then(Value::as_array_mut).into_iter().flatten();
    let before = items(current, "listeners");
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
    let entries = object.get("metadata").map_or(&[][..], |metadata| items(metadata, "managedFields"));
    let word = |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut of_status = entries.iter().filter(|entry| word(entry, "subresource") == "status").peekable();
    of_status.peek().is_some() && of_status.all(|entry| word(entry, "manager") == manager)
}

/// That of a `ListenerSet` that no Gateway of ours has any more, as the API server makes it for a new one (`ListenerSet.status`): it says not
/// whose it is, so that what was said before must not stay. Of other kinds others may write theirs.
fn orphaned(kind: Kind, current: &Value) -> Option<Value> {
    let accepted =
        items(current, "conditions").iter().find(|one| one.get("type").and_then(Value::as_str) == Some("Accepted"))?;
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

/// Bound of the API on conditions, of an object or of an entry of a list.
const MOST_CONDITIONS: usize = 8;

/// Leaves conditions of others where they are, ours in the places that they had, and new ones behind. Where there are too many, the last of
/// those of ours that can give way are left out.
fn keep_conditions(current: &Value, ours: &mut Value) {
    let mut own = items(ours, "conditions").to_vec();
    let word = |condition: &Value| condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let place = |own: &[Value], condition: &Value| own.iter().position(|own| word(own) == word(condition));
    let is_foreign =
        |own: &[Value], condition: &Value| !is_own_condition(&word(condition)) && place(own, condition).is_none();
    let foreign = items(current, "conditions").iter().filter(|condition| is_foreign(&own, condition)).count();
    while own.len() + foreign > MOST_CONDITIONS
        && let Some(last) = own.iter().rposition(|condition| PASSING_CONDITIONS.contains(&&*word(condition)))
    {
        own.remove(last);
    }
    let mut all = Vec::with_capacity(own.len() + foreign);
    for condition in items(current, "conditions") {
        match place(&own, condition) {
            Some(at) => all.push(own.remove(at)),
            None if is_own_condition(&word(condition)) => {}
            None => all.push(condition.clone()),
        }
    }
    all.append(&mut own);
    if let (Value::Object(fields), false) = (ours, all.is_empty()) {
        fields.insert("conditions".to_owned(), all.into());
    }
}

/// Whether a status takes back what was confirmed of the same generation, for want of news and not because of any: `Programmed` of a
/// Gateway or of a listener.
pub(super) fn takes_back(current: &Value, wanted: &Value) -> bool {
    let (before, mut listeners) = (items(current, "listeners"), items(wanted, "listeners").iter());
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
    items(status, "conditions")
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Programmed"))
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
