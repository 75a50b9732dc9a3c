//! Statuses and problems as columns for people: one line per object, listener and parent.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::columns::{Screen, columns_on};

/// One line of the table.
#[derive(Default)]
struct Row {
    kind: String,
    name: String,
    of: String,
    state: String,
    /// Every condition with its status.
    conditions: String,
    why: String,
    /// The generation that the conditions are about.
    observed: String,
    /// When the last of them changed.
    since: String,
}

/// How much is shown.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// With the columns that are asked for seldom.
    pub(super) wide: bool,
    /// What it is shown on.
    pub(super) screen: Screen,
}

/// What problems say of objects, by `Kind namespace/name`.
pub(super) struct Earlier<'a> {
    /// Why an earlier version is in force.
    reasons: BTreeMap<&'a str, &'a str>,
    /// What is wrong, in order: causes before what follows from them.
    told: BTreeMap<&'a str, Vec<Told<'a>>>,
}

/// An error or a warning.
struct Told<'a> {
    path: &'a str,
    text: &'a str,
    is_error: bool,
}

impl<'a> Earlier<'a> {
    /// As problems tell it.
    pub(super) fn of(problems: &'a [Value]) -> Self {
        let earlier = problems.iter().filter(|problem| problem.get("earlier") == Some(&Value::Bool(true)));
        let text = |problem: &'a Value, name: &str| problem.get(name).and_then(Value::as_str);
        let pair = |problem: &'a Value| Some((text(problem, "object")?, text(problem, "text")?));
        let mut told = BTreeMap::<_, Vec<_>>::new();
        for problem in problems {
            let is_error = match text(problem, "severity") {
                Some("error") => true,
                Some("warning") => false,
                _ => continue,
            };
            let Some((object, words)) = pair(problem) else { continue };
            let path = text(problem, "path").unwrap_or_default();
            told.entry(object).or_default().push(Told { path, text: words, is_error });
        }
        Self { reasons: earlier.filter_map(pair).collect(), told }
    }

    /// Why an object cannot be read.
    fn first_error(&self, object: &Value) -> &'a str {
        let told = self.told.get(&*key(object)).into_iter().flatten();
        told.filter(|told| told.is_error).map(|told| told.text).next().unwrap_or_default()
    }

    /// The last thing that is wrong with a route and not with one of its parents: those have it in their conditions.
    fn last_of_all(&self, object: &Value, parents: &[Value]) -> &'a str {
        let bad = |condition: &&Value| field(condition, "status") == "False";
        let conditions = parents.iter().flat_map(|parent| list(parent, "conditions"));
        let of_parents: Vec<_> = conditions.filter(bad).map(|condition| field(condition, "message")).collect();
        let is_of_parent = |told: &Told<'_>| {
            let says = |message: &String| !message.is_empty() && told.text.ends_with(&**message);
            told.path.starts_with("spec.parentRefs[") || of_parents.iter().any(says)
        };
        let mut told = self.told.get(&*key(object)).into_iter().flatten().rev();
        told.find(|told| !is_of_parent(told)).map(|told| told.text).unwrap_or_default()
    }

    /// Why the latest version of an object is not the one in force.
    pub(super) fn reason(&self, object: &Value) -> Option<&'a str> {
        self.reasons.get(&*key(object)).copied()
    }
}

/// `Kind namespace/name`.
fn key(object: &Value) -> String {
    format!("{} {}", field(object, "kind"), full_name(object))
}

/// By Gateway or `ListenerSet` (`Kind namespace/name`) and listener.
pub(super) type Closed = BTreeMap<(String, String), String>;

/// Why a listener (or, under no name, all listeners of an object) serves nothing.
pub(super) fn closed(objects: &[Value]) -> Closed {
    let mut closed = Closed::new();
    let has_listeners = |object: &&Value| ["Gateway", "ListenerSet"].contains(&&*field(object, "kind"));
    for object in objects.iter().filter(has_listeners) {
        let listeners = object.get("status").map(|status| list(status, "listeners")).unwrap_or_default();
        let shut = |listener: &Value| Some(state(listener).0).filter(|state| state.starts_with("not "));
        let told = |listener: &Value| Some(format!("listener {} is {}", field(listener, "name"), shut(listener)?));
        let each = listeners.iter().map(|listener| Some((field(listener, "name"), told(listener)?)));
        let each: Vec<_> = each.collect();
        if each.is_empty() && field(object, "kind") == "ListenerSet" {
            let state = object.get("status").map(|status| state(status).0).unwrap_or_default();
            if state.starts_with("not ") {
                closed.insert((key(object), String::new()), format!("{} is {state}", key(object)));
            }
        }
        if let Some(Some((_, first))) = each.first().filter(|_| each.iter().all(Option::is_some)) {
            closed.insert((key(object), String::new()), first.clone());
        }
        closed.extend(each.into_iter().flatten().map(|(name, text)| ((key(object), name), text)));
    }
    closed
}

/// What a route whose conditions are all good does not do, as detail of its rows.
fn consequences(object: &Value, rows: &mut [Row], earlier: &Earlier<'_>, closed: &Closed) {
    let parents = object.get("status").map(|status| list(status, "parents")).unwrap_or_default();
    let told = earlier.last_of_all(object, parents);
    for (row, parent) in rows.iter_mut().zip(parents).filter(|(row, _)| row.why.is_empty()) {
        let reference = parent.get("parentRef").unwrap_or(&Value::Null);
        let [kind, namespace, name] = ["kind", "namespace", "name"].map(|part| field(reference, part));
        let parent = format!("{kind} {namespace}/{name}");
        let shut = |section: String| closed.get(&(parent.clone(), section)).cloned();
        let shut = shut(field(reference, "sectionName")).or_else(|| shut(String::new()));
        let both = [shut.as_deref().unwrap_or_default(), told];
        row.why = both.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        if !row.why.is_empty() && row.state == OK {
            PROBLEM.clone_into(&mut row.state);
        }
    }
}

/// The table of all objects.
pub(super) fn objects(objects: &[&Value], earlier: &Earlier<'_>, closed: &Closed, look: Look) -> String {
    let marked = |object: &&Value| {
        let mut rows = rows(object);
        if object.get("status").is_none() {
            rows.iter_mut().for_each(|row| row.why = earlier.first_error(object).to_owned());
        }
        consequences(object, &mut rows, earlier, closed);
        if let Some(reason) = earlier.reason(object) {
            for row in &mut rows {
                row.state = format!("earlier version: {}", row.state);
            }
            // Once is enough: an object has as many rows as listeners or parents.
            rows.first_mut().into_iter().for_each(|row| reason.clone_into(&mut row.why));
        }
        rows
    };
    let rows: Vec<Row> = objects.iter().flat_map(marked).collect();
    if rows.is_empty() {
        return "no objects with a status\n".to_owned();
    }
    let headers: &[&str] = if look.wide {
        &["KIND", "NAME", "OF", "STATE", "CONDITIONS", "GENERATION", "SINCE", "DETAIL"]
    } else {
        &["KIND", "NAME", "OF", "STATE", "DETAIL"]
    };
    let cells = |row: Row| {
        let why = row.why.replace('\n', " ");
        if look.wide {
            vec![row.kind, row.name, row.of, row.state, row.conditions, row.observed, row.since, why]
        } else {
            vec![row.kind, row.name, row.of, row.state, why]
        }
    };
    columns_on(look.screen, headers, rows.into_iter().map(cells))
}

/// `namespace/name`, or the name alone.
pub(super) fn full_name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Problems, one paragraph each, as a compiler prints them.
pub(super) fn problems(problems: &[&Value]) -> String {
    let mut text = String::new();
    for problem in problems {
        if let Some(shown) = problem.get("shown").and_then(Value::as_str) {
            text.push('\n');
            text.push_str(shown.trim_end());
            text.push('\n');
        }
    }
    text
}

/// True unless a condition that should be True is False.
pub(super) fn is_fine(object: &Value) -> bool {
    rows(object).iter().all(|row| !row.state.starts_with("not "))
}

fn rows(object: &Value) -> Vec<Row> {
    let (kind, name) = (field(object, "kind"), full_name(object));
    let Some(status) = object.get("status") else {
        return vec![Row { kind, name, state: "not read".to_owned(), ..Row::default() }];
    };
    let mut rows = Vec::new();
    if status.get("conditions").is_some() {
        let (state, why) = state(status);
        let addresses = addresses(status);
        let (kind, name) = (kind.clone(), name.clone());
        rows.push(Row { kind, name, state, why: first_of(why, addresses), ..seen(status) });
    }
    for listener in list(status, "listeners") {
        let (state, why) = state(listener);
        let routes = listener.get("attachedRoutes").and_then(Value::as_u64).unwrap_or_default();
        let plural = if routes == 1 { "" } else { "s" };
        let of = field(listener, "name");
        let (kind, why) = ("  listener".to_owned(), first_of(why, format!("{routes} route{plural}")));
        rows.push(Row { kind, name: name.clone(), of, state, why, ..seen(listener) });
    }
    for (key, reference) in [("parents", "parentRef"), ("ancestors", "ancestorRef")] {
        for parent in list(status, key) {
            let (state, why) = state(parent);
            let of = parent.get(reference).map(parent_name).unwrap_or_default();
            rows.push(Row { kind: kind.clone(), name: name.clone(), of, state, why, ..seen(parent) });
        }
    }
    if rows.is_empty() {
        let why = "none of its parents is a Gateway that is served here".to_owned();
        rows.push(Row { kind, name, state: "-".to_owned(), why, ..Row::default() });
    }
    rows
}

/// What conditions say besides their state.
fn seen(holder: &Value) -> Row {
    let conditions = list(holder, "conditions");
    let generation = |condition: &Value| condition.get("observedGeneration").and_then(Value::as_u64);
    let observed = conditions.iter().filter_map(generation).max().map(|number| number.to_string()).unwrap_or_default();
    let since = conditions.iter().map(|condition| field(condition, "lastTransitionTime")).max().unwrap_or_default();
    let each =
        conditions.iter().map(|condition| format!("{}={}", field(condition, "type"), field(condition, "status")));
    Row { observed, since, conditions: each.collect::<Vec<_>>().join(","), ..Row::default() }
}

/// `ok`, or the condition that is not as it should be, and its message.
fn state(holder: &Value) -> (String, String) {
    let conditions = list(holder, "conditions");
    let bad = conditions
        .iter()
        .find(|condition| field(condition, "status") == "False" && field(condition, "type") != "Conflicted");
    if let Some(bad) = bad {
        let (state, why) = (format!("not {}: {}", field(bad, "type"), field(bad, "reason")), field(bad, "message"));
        // A reference that leads nowhere and a rule that cannot be used are two things.
        let partly = conditions.iter().find(|one| field(one, "type") == PARTLY && field(one, "status") == "True");
        return match partly {
            Some(partly) => (format!("{state}, {PARTLY}"), format!("{why}; {}", field(partly, "message"))),
            None => (state, why),
        };
    }
    let open = conditions.iter().find(|condition| field(condition, "status") == "Unknown");
    // Good as a whole, and yet there is something to say.
    let but = [PARTLY, "Overridden", "Warning", "Aggregated"];
    let but = conditions.iter().find(|condition| but.contains(&&*field(condition, "type")));
    let why = but.map(|condition| field(condition, "message")).unwrap_or_default();
    let state = match (open, but) {
        (Some(open), _) => format!("{} pending", field(open, "type")),
        (None, Some(but)) => field(but, "type"),
        (None, None) => OK.to_owned(),
    };
    (state, why)
}

/// All conditions are as they should be.
const OK: &str = "ok";

/// So they are, and yet something of the object has no effect.
const PROBLEM: &str = "problem";

/// The condition of what cannot be used as a whole.
const PARTLY: &str = "PartiallyInvalid";

fn addresses(status: &Value) -> String {
    list(status, "addresses").iter().map(|address| field(address, "value")).collect::<Vec<_>>().join(", ")
}

fn parent_name(parent: &Value) -> String {
    // Nearly all are Gateways.
    let kind = field(parent, "kind");
    let kind = if kind == "Gateway" { String::new() } else { format!("{kind}/") };
    let section = field(parent, "sectionName");
    let port = parent.get("port").and_then(Value::as_u64).map(|port| format!(":{port}")).unwrap_or_default();
    let name = field(parent, "name");
    if section.is_empty() { format!("{kind}{name}{port}") } else { format!("{kind}{name}{port}#{section}") }
}

fn list<'a>(holder: &'a Value, key: &str) -> &'a [Value] {
    holder.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn field(holder: &Value, key: &str) -> String {
    holder.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn first_of(first: String, second: String) -> String {
    if first.is_empty() { second } else { first }
}

#[cfg(test)]
mod tests;
