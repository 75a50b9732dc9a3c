//! What is told of objects, and lines that say what it should be.
//!
//! `KIND NAME[#LISTENER] [@ PARENT[#SECTION]] is WORDS`: of an object, one of its listeners, or its entry for a parent (a policy's for an
//! ancestor); all entries where there are several. A name is `name`, or `other/name` in the twin's namespace `other`.
//!
//! | word | holds |
//! |---|---|
//! | `Accepted` | the condition is True |
//! | `Accepted=False`, `Accepted=False/Reason` | it has this status, and this reason |
//! | `Conflicted=absent` | it has no such condition |
//! | `generation=2` | every condition of the object is of this generation, and there is one |
//! | `kinds=`, `routes=`, `sets=`, `listeners=`, `parents=`, `addresses=` | supported kinds, and numbers of others |
//! | `address=127.0.0.2` | an address, of type `IPAddress` |
//! | `supports=HTTPRoute` | a feature of a class |
//! | `untold` | nothing is told of the object, or of that parent |

use serde_json::Value;

use super::twin::SHARED;

/// A line, read.
pub(crate) struct Told<'a> {
    kind: &'a str,
    name: &'a str,
    listener: Option<&'a str>,
    parent: Option<&'a str>,
    words: Vec<&'a str>,
}

impl<'a> Told<'a> {
    /// None: it is a line of another kind.
    pub(crate) fn read(line: &'a str) -> Option<Self> {
        let (whom, words) = line.split_once(" is ")?;
        let (whom, parent) = whom.split_once(" @ ").map_or((whom, None), |(whom, parent)| (whom, Some(parent)));
        let (kind, name) = whom.split_once(' ')?;
        let (name, listener) = name.split_once('#').map_or((name, None), |(name, listener)| (name, Some(listener)));
        Some(Self { kind, name, listener, parent, words: words.split_whitespace().collect() })
    }

    /// Whether it holds, of all that is told (a list of objects); else what is wrong.
    pub(crate) fn check(&self, all: &Value, namespace: &str) -> Result<(), String> {
        let (place, name) = place(namespace, self.name);
        let is_it = |object: &&Value| {
            let metadata = &object["metadata"];
            let is_there = self.kind == "GatewayClass" || metadata["namespace"] == *place;
            object["kind"] == self.kind && metadata["name"] == *name && is_there
        };
        let object = all.as_array().into_iter().flatten().find(is_it);
        let parts = object.map(|object| self.parts(&object["status"], namespace)).unwrap_or_default();
        if self.words == ["untold"] {
            return if parts.is_empty() { Ok(()) } else { Err(format!("something is told: {parts:?}")) };
        }
        let object = object.ok_or("nothing is told of it")?;
        if parts.is_empty() {
            return Err(format!("no such part in {object}"));
        }
        for word in &self.words {
            let holds = match word.split_once('=') {
                Some(("generation", number)) => generations(&object["status"], number),
                _ => parts.iter().all(|part| holds(part, word)),
            };
            if !holds {
                return Err(format!("not {word}: {}", Value::Array(parts.into_iter().cloned().collect())));
            }
        }
        Ok(())
    }

    fn parts<'v>(&self, status: &'v Value, namespace: &str) -> Vec<&'v Value> {
        let items = |key: &str| status[key].as_array().into_iter().flatten();
        if let Some(listener) = self.listener {
            return items("listeners").filter(|entry| entry["name"] == listener).collect();
        }
        let (list, reference) =
            if status["ancestors"].is_array() { ("ancestors", "ancestorRef") } else { ("parents", "parentRef") };
        if !status[list].is_array() {
            return vec![status];
        }
        // Numbers of entries are asked of the whole.
        if self.words.iter().any(|word| word.starts_with("parents=")) {
            return vec![status];
        }
        let is_it = |entry: &&Value| self.parent.is_none_or(|parent| is_parent(&entry[reference], namespace, parent));
        items(list).filter(is_it).collect()
    }
}

fn is_parent(reference: &Value, namespace: &str, parent: &str) -> bool {
    let (parent, section) = parent.split_once('#').map_or((parent, None), |(name, section)| (name, Some(section)));
    let (place, name) = place(namespace, parent);
    let in_place = reference["namespace"].as_str().is_none_or(|named| named == place);
    let in_section = section.is_none_or(|section| reference["sectionName"] == section);
    // What a reference leaves out is filled in where something is told of it.
    let is_whole = reference["group"].is_string() && reference["kind"].is_string();
    reference["name"] == *name && in_place && in_section && is_whole
}

fn place(namespace: &str, name: &str) -> (String, String) {
    match name.split_once('/') {
        Some((SHARED, name)) => (SHARED.to_owned(), name.to_owned()),
        Some((other, name)) => (format!("{namespace}-{other}"), name.to_owned()),
        None => (namespace.to_owned(), name.to_owned()),
    }
}

fn holds(part: &Value, word: &str) -> bool {
    let length = |key: &str| part[key].as_array().map_or(0, Vec::len).to_string();
    let number = |key: &str| part[key].as_u64().unwrap_or_default().to_string();
    match word.split_once('=').unwrap_or((word, "True")) {
        ("kinds", wanted) => kinds(part) == wanted,
        ("routes", wanted) => part["attachedRoutes"].as_u64().is_some_and(|number| number.to_string() == wanted),
        ("sets", wanted) => number("attachedListenerSets") == wanted,
        (list @ ("listeners" | "parents" | "addresses"), wanted) => length(list) == wanted,
        ("address", wanted) => {
            let mut addresses = part["addresses"].as_array().into_iter().flatten();
            addresses.any(|address| address["value"] == wanted && address["type"] == "IPAddress")
        }
        ("supports", wanted) => {
            part["supportedFeatures"].as_array().into_iter().flatten().any(|feature| feature["name"] == wanted)
        }
        (kind, wanted) => {
            let found = part["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind);
            let Some(found) = found else { return wanted == "absent" };
            let (status, reason) = wanted.split_once('/').map_or((wanted, None), |(status, why)| (status, Some(why)));
            found["status"] == status && reason.is_none_or(|reason| found["reason"] == reason)
        }
    }
}

fn kinds(part: &Value) -> String {
    let kinds = part["supportedKinds"].as_array().into_iter().flatten();
    let mut kinds: Vec<_> = kinds.filter_map(|kind| kind["group"].as_str().and(kind["kind"].as_str())).collect();
    kinds.sort_unstable();
    kinds.join(",")
}

/// Whether all conditions, wherever they stand, are of this generation, and there are some.
fn generations(status: &Value, wanted: &str) -> bool {
    let mut found = Vec::new();
    gather(status, &mut found);
    !found.is_empty() && found.iter().all(|number| number == wanted)
}

fn gather(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(conditions) = fields.get("conditions").and_then(Value::as_array) {
                found.extend(conditions.iter().map(|condition| condition["observedGeneration"].to_string()));
            }
            fields.values().for_each(|value| gather(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| gather(value, found)),
        _ => {}
    }
}
