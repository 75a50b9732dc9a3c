//! What became of every object, in Kubernetes shape: `{apiVersion, kind, metadata, status}`.

mod transitions;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::locate::{Sought, places};
use api::status::Status;
use api::{ObjectKey, Place, Problem, Timestamp};
use engine::{Graph, Table};
use serde_json::{Value, json};
use translator::Outputs;

pub(crate) use transitions::Transitions;

/// The statuses of all objects that have one, in order of kind, namespace and name.
pub(crate) fn statuses(graph: &Graph, outputs: Outputs) -> Vec<(ObjectKey, Status)> {
    let mut found = Vec::new();
    for_each(graph, outputs, |key, status| found.push((key.clone(), status)));
    found.sort_by(|(a, _), (b, _)| (a.kind(), a.namespace(), a.name()).cmp(&(b.kind(), b.namespace(), b.name())));
    found
}

fn for_each(graph: &Graph, outputs: Outputs, mut each: impl FnMut(&ObjectKey, Status)) {
    rows(graph, outputs.gateway_class_statuses, Status::GatewayClass, &mut each);
    rows(graph, outputs.gateway_statuses, Status::Gateway, &mut each);
    for (key, _) in graph.iter(outputs.route_statuses) {
        outputs.route_status(graph, key).map(Status::Route).into_iter().for_each(|status| each(key, status));
    }
    rows(graph, outputs.policy_statuses, Status::Policy, &mut each);
    rows(graph, outputs.backend_statuses, Status::Backend, &mut each);
    rows(graph, outputs.envoy_proxy_statuses, Status::EnvoyProxy, &mut each);
}

fn rows<S: Clone>(
    graph: &Graph,
    table: Table<ObjectKey, Arc<S>>,
    kind: fn(S) -> Status,
    each: &mut impl FnMut(&ObjectKey, Status),
) where
    Arc<S>: engine::Value,
{
    graph.iter(table).for_each(|(key, status)| each(key, kind((**status).clone())));
}

/// Notes the statuses that the last tick changed.
pub(crate) fn note_changes(graph: &Graph, outputs: Outputs, transitions: &mut Transitions, now: Timestamp) {
    let mut note = |key: &ObjectKey, status: Option<Status>| transitions.note(key, status, now);
    changes(graph, outputs.gateway_class_statuses, Status::GatewayClass, &mut note);
    changes(graph, outputs.gateway_statuses, Status::Gateway, &mut note);
    for change in graph.changes(outputs.route_statuses) {
        note(change.key, change.new.and_then(|_| outputs.route_status(graph, change.key)).map(Status::Route));
    }
    changes(graph, outputs.policy_statuses, Status::Policy, &mut note);
    changes(graph, outputs.backend_statuses, Status::Backend, &mut note);
    changes(graph, outputs.envoy_proxy_statuses, Status::EnvoyProxy, &mut note);
}

fn changes<S: Clone>(
    graph: &Graph,
    table: Table<ObjectKey, Arc<S>>,
    kind: fn(S) -> Status,
    note: &mut impl FnMut(&ObjectKey, Option<Status>),
) where
    Arc<S>: engine::Value,
{
    graph.changes(table).for_each(|change| note(change.key, change.new.map(|status| kind((**status).clone()))));
}

/// One object with its status.
pub(crate) fn object(key: &ObjectKey, status: &Status) -> Value {
    let api_version = key.kind().map(|kind| kind.api_version()).unwrap_or_default();
    let metadata = if key.namespace().is_empty() {
        json!({ "name": key.name() })
    } else {
        json!({ "name": key.name(), "namespace": key.namespace() })
    };
    json!({ "apiVersion": api_version, "kind": key.kind_name(), "metadata": metadata, "status": status })
}

/// All of them.
pub(crate) fn objects(statuses: &[(ObjectKey, Status)]) -> Value {
    statuses.iter().map(|(key, status)| object(key, status)).collect()
}

/// Problems as data, each also `shown` as a compiler would print it.
pub(crate) fn problems<'a>(problems: impl Iterator<Item = &'a Problem>) -> Vec<Value> {
    problems
        .map(|problem| {
            let mut value = serde_json::to_value(problem).unwrap_or(Value::Null);
            if let Value::Object(fields) = &mut value {
                fields.retain(|_, field| !field.is_null());
                fields.insert("shown".to_owned(), Value::String(crate::diagnostics::text(problem)));
            }
            value
        })
        .collect()
}

/// Finds the line and column of each field that translation found wrong, in the files as they are now. Reads files: not for the
/// core's thread.
pub(crate) fn pinpoint(problems: &mut [Problem]) {
    let mut files: BTreeMap<Arc<str>, Vec<&mut Problem>> = BTreeMap::new();
    for problem in problems.iter_mut().filter(|problem| problem.snippet.is_none() && problem.object.is_some()) {
        let Some(file) = problem.place.as_ref().map(|place| Arc::clone(&place.file)) else { continue };
        files.entry(file).or_default().push(problem);
    }
    for (file, problems) in files {
        // A file that is gone, or was never one, leaves the place where the object begins. Pipes and devices would never end.
        let is_file = std::fs::metadata(&*file).is_ok_and(|found| found.is_file());
        let Some(text) = is_file.then(|| std::fs::read_to_string(&*file).ok()).flatten() else { continue };
        let sought: Vec<Sought<'_>> = problems.iter().filter_map(|problem| sought(problem)).collect();
        let found = places(&file, &text, &sought);
        for (problem, found) in problems.into_iter().zip(found) {
            if let Some((place, snippet)) = found {
                (problem.place, problem.snippet) = (Some(place), snippet);
            }
        }
    }
}

fn sought(problem: &Problem) -> Option<Sought<'_>> {
    Some(Sought { object: problem.object.as_ref()?, line: problem.place.as_ref()?.line, path: &problem.path })
}

/// All problems: those of sources and those that translation found, in order of place and object, each once. What a source said of
/// a field, with its place, is not said again in the words of what follows from it.
pub(crate) fn all_problems(store: &store::Store, graph: &Graph, outputs: Outputs) -> Vec<Problem> {
    let mut found: Vec<Problem> = store.problems().cloned().collect();
    let mut said: BTreeMap<Option<ObjectKey>, Vec<Box<str>>> = BTreeMap::new();
    for problem in &found {
        said.entry(problem.object.clone()).or_default().push(problem.text.clone());
    }
    let repeats = |problem: &Problem| {
        said.get(&problem.object).is_some_and(|texts| texts.iter().any(|text| problem.text.contains(&**text)))
    };
    let derived =
        outputs.problems(graph).map(|(_, problem)| placed(store, problem)).filter(|problem| !repeats(problem));
    found.extend(derived.collect::<Vec<_>>());
    found.extend(graph.panics().iter().map(|panic| {
        let text = format!("{} of {}: {} (a bug in Chancery: please report it)", panic.node, panic.key, panic.message);
        Problem {
            object: None,
            path: "".into(),
            severity: api::Severity::Error,
            text: text.into(),
            place: None,
            snippet: None,
        }
    }));
    found.sort_by(|a, b| (&a.place, a).cmp(&(&b.place, b)));
    found.dedup();
    found
}

/// The first column of the line where an object begins.
fn place(store::Origin { file, line }: store::Origin) -> Place {
    Place { file, line, column: 1 }
}

/// A problem that translation found, with the place where its object is written.
fn placed(store: &store::Store, problem: &Arc<Problem>) -> Problem {
    let mut problem = (**problem).clone();
    if problem.place.is_none() {
        problem.place = problem.object.as_ref().and_then(|object| store.origin(object)).map(place);
    }
    problem
}
