//! What became of every object, in Kubernetes shape: `{apiVersion, kind, metadata, status}`.

mod findings;
pub(crate) mod refused;
mod transitions;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::status::Status;
use api::{Kind, ObjectKey, Problem};
use engine::{Graph, Table};
use serde_json::{Value, json};
use translator::Outputs;

pub(crate) use findings::{Findings, findings, rule_sources};
pub(crate) use transitions::Transitions;

/// The statuses of all objects that have one, in order of kind, namespace and name.
pub(crate) fn statuses(graph: &Graph, outputs: Outputs) -> Vec<(ObjectKey, Status)> {
    let mut found = Vec::new();
    for_each(graph, outputs, |key, status| found.push((key.clone(), status)));
    found.sort_by(|(a, _), (b, _)| (a.kind(), a.namespace(), a.name()).cmp(&(b.kind(), b.namespace(), b.name())));
    found
}

fn for_each(graph: &Graph, outputs: Outputs, mut with: impl FnMut(&ObjectKey, Status)) {
    let mut each = |key: &ObjectKey, usable| {
        outputs.with_rejection(graph, key, Some(usable)).into_iter().for_each(|status| with(key, status));
    };
    rows(graph, outputs.gateway_class_statuses, Status::GatewayClass, &mut each);
    rows(graph, outputs.gateway_statuses, Status::Gateway, &mut each);
    rows(graph, outputs.listener_set_statuses, Status::ListenerSet, &mut each);
    for (key, _) in graph.iter(outputs.route_statuses) {
        outputs.route_status(graph, key).map(Status::Route).into_iter().for_each(|status| each(key, status));
    }
    rows(graph, outputs.policy_statuses, Status::Policy, &mut each);
    rows(graph, outputs.tls_policy_statuses, Status::Policy, &mut each);
    rows(graph, outputs.patch_statuses, Status::Policy, &mut each);
    rows(graph, outputs.unbuilt_policy_statuses, Status::Policy, &mut each);
    rows(graph, outputs.backend_statuses, Status::Backend, &mut each);
    rows(graph, outputs.x_backend_statuses, Status::Policy, &mut each);
    rows(graph, outputs.backend_policy_statuses, Status::Policy, &mut each);
    rows(graph, outputs.telemetry_policy_statuses, Status::Policy, &mut each);
    rows(graph, outputs.envoy_proxy_statuses, Status::EnvoyProxy, &mut each);
    rows(graph, outputs.raw_statuses, Status::Raw, &mut each);
    for (key, _) in graph.iter(outputs.rejections) {
        if usable(graph, outputs, key).is_none() {
            outputs.with_rejection(graph, key, None).into_iter().for_each(|status| with(key, status));
        }
    }
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

/// The status of one object.
pub(crate) fn status(graph: &Graph, outputs: Outputs, key: &ObjectKey) -> Option<Status> {
    outputs.with_rejection(graph, key, usable(graph, outputs, key))
}

/// That of its last usable form.
fn usable(graph: &Graph, outputs: Outputs, key: &ObjectKey) -> Option<Status> {
    fn row<S: Clone>(graph: &Graph, table: Table<ObjectKey, Arc<S>>, key: &ObjectKey) -> Option<S>
    where
        Arc<S>: engine::Value,
    {
        graph.get(table, key).map(|status| (**status).clone())
    }
    match key.kind()? {
        Kind::GatewayClass => row(graph, outputs.gateway_class_statuses, key).map(Status::GatewayClass),
        Kind::Gateway => row(graph, outputs.gateway_statuses, key).map(Status::Gateway),
        Kind::ListenerSet => row(graph, outputs.listener_set_statuses, key).map(Status::ListenerSet),
        Kind::BackendTrafficPolicy => row(graph, outputs.policy_statuses, key).map(Status::Policy),
        Kind::BackendTlsPolicy => row(graph, outputs.tls_policy_statuses, key).map(Status::Policy),
        Kind::EnvoyPatchPolicy => row(graph, outputs.patch_statuses, key).map(Status::Policy),
        Kind::XBackend => row(graph, outputs.x_backend_statuses, key).map(Status::Policy),
        Kind::XBackendTrafficPolicy => row(graph, outputs.backend_policy_statuses, key).map(Status::Policy),
        Kind::XTelemetryPolicy => row(graph, outputs.telemetry_policy_statuses, key).map(Status::Policy),
        Kind::Backend => row(graph, outputs.backend_statuses, key).map(Status::Backend),
        Kind::EnvoyProxy => row(graph, outputs.envoy_proxy_statuses, key).map(Status::EnvoyProxy),
        kind if kind.is_route() => outputs.route_status(graph, key).map(Status::Route),
        kind if kind.is_unbuilt_policy() => row(graph, outputs.unbuilt_policy_statuses, key).map(Status::Policy),
        kind if kind.message().is_some() => row(graph, outputs.raw_statuses, key).map(Status::Raw),
        _ => None,
    }
}

/// Calls with the statuses that the last tick changed.
pub(crate) fn note_changes(graph: &Graph, outputs: Outputs, mut with: impl FnMut(&ObjectKey, Option<Status>)) {
    let mut note = |key: &ObjectKey, usable| with(key, outputs.with_rejection(graph, key, usable));
    changes(graph, outputs.gateway_class_statuses, Status::GatewayClass, &mut note);
    changes(graph, outputs.gateway_statuses, Status::Gateway, &mut note);
    changes(graph, outputs.listener_set_statuses, Status::ListenerSet, &mut note);
    for change in graph.changes(outputs.route_statuses) {
        note(change.key, change.new.and_then(|_| outputs.route_status(graph, change.key)).map(Status::Route));
    }
    changes(graph, outputs.policy_statuses, Status::Policy, &mut note);
    changes(graph, outputs.tls_policy_statuses, Status::Policy, &mut note);
    changes(graph, outputs.patch_statuses, Status::Policy, &mut note);
    changes(graph, outputs.unbuilt_policy_statuses, Status::Policy, &mut note);
    changes(graph, outputs.backend_statuses, Status::Backend, &mut note);
    changes(graph, outputs.x_backend_statuses, Status::Policy, &mut note);
    changes(graph, outputs.backend_policy_statuses, Status::Policy, &mut note);
    changes(graph, outputs.telemetry_policy_statuses, Status::Policy, &mut note);
    changes(graph, outputs.envoy_proxy_statuses, Status::EnvoyProxy, &mut note);
    changes(graph, outputs.raw_statuses, Status::Raw, &mut note);
    for change in graph.changes(outputs.rejections) {
        note(change.key, usable(graph, outputs, change.key));
    }
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
    let mut object = head(key);
    if let Value::Object(fields) = &mut object {
        fields.insert("status".to_owned(), json!(status));
    }
    object
}

/// Objects of which nothing is in force, but those whose status says so.
pub(crate) fn unread(found: &Findings, statuses: &[(ObjectKey, Status)]) -> Value {
    let mut unread: BTreeSet<&ObjectKey> = found.unread().collect();
    for (key, _) in statuses {
        unread.remove(key);
    }
    unread.into_iter().map(head).collect()
}

/// What an object is.
fn head(key: &ObjectKey) -> Value {
    let api_version = key.kind().map(|kind| kind.api_version()).unwrap_or_default();
    let metadata = if key.namespace().is_empty() {
        json!({ "name": key.name() })
    } else {
        json!({ "name": key.name(), "namespace": key.namespace() })
    };
    json!({ "apiVersion": api_version, "kind": key.kind_name(), "metadata": metadata })
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

#[cfg(test)]
mod tests;
