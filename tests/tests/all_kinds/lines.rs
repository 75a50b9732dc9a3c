//! Objects as lines of YAML, and calls.

use tests::client::Answer;
use tests::grpc::{Called, call};

const API: &str = "gateway.networking.k8s.io/v1";

/// An object with a `spec` as one line of YAML.
pub(crate) fn object(kind: &str, name: &str, spec: &str) -> String {
    let api = match kind {
        "BackendTrafficPolicy" => "gateway.envoyproxy.io/v1alpha1",
        "XBackendTrafficPolicy" | "XTelemetryPolicy" => "gateway.networking.x-k8s.io/v1alpha1",
        _ => API,
    };
    format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

/// A route on the Gateway `edge`, or on a set.
pub(crate) fn route(kind: &str, name: &str, (parent, hosts, rules): (&str, &str, &str)) -> String {
    let hosts = if hosts.is_empty() { String::new() } else { format!("hostnames: [{hosts}], ") };
    object(kind, name, &format!("{{parentRefs: [{parent}], {hosts}rules: [{rules}]}}"))
}

pub(crate) fn section(name: &str) -> String {
    format!("{{name: edge, sectionName: {name}}}")
}

/// A rule with a match (or nothing) and backends as `name` or `name: weight`.
pub(crate) fn rule(matched: &str, backends: &[&str]) -> String {
    let backend = |backend: &&str| match backend.split_once(": ") {
        Some((name, weight)) => format!("{{name: {name}, port: 80, weight: {weight}}}"),
        None => format!("{{name: {backend}, port: 80}}"),
    };
    format!("{{{matched}backendRefs: [{}]}}", backends.iter().map(backend).collect::<Vec<_>>().join(", "))
}

pub(crate) fn called(port: u16, path: &str) -> anyhow::Result<Answer> {
    let Called { code, text } = call(port, "x.example.com", path, &[])?;
    Ok(Answer { status: if code == 0 { 200 } else { 500 }, body: text })
}
