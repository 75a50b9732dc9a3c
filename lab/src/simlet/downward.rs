//! What a pod can ask to be told of itself: fields of its own, and its containers' resources.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;

use super::node::{CPU, MEMORY};
use super::quantity;
use crate::network::{NODE, NODE_NAME};

/// The value of `fieldRef.fieldPath`.
///
/// # Errors
/// If there is no such field.
pub(crate) fn field(pod: &Pod, address: Ipv4Addr, path: &str) -> Result<String, String> {
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => pod.labels(),
            "metadata.annotations" => pod.annotations(),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        return Ok(map.get(key).cloned().unwrap_or_default());
    }
    let account = || pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default();
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "metadata.labels" => lines(pod.labels()),
        "metadata.annotations" => lines(pod.annotations()),
        "spec.nodeName" => NODE_NAME.to_owned(),
        "spec.serviceAccountName" => account(),
        "status.hostIP" | "status.hostIPs" => NODE.to_string(),
        "status.podIP" | "status.podIPs" => address.to_string(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// A line for each, the value in quotes.
fn lines(map: &BTreeMap<String, String>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={value:?}");
    map.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The value of `resourceFieldRef`, of this container unless it names another one. A limit that is not set is what the node has.
///
/// # Errors
/// If there is no such container or resource.
pub(crate) fn resource(pod: &Pod, own: Option<&Container>, wanted: &ResourceFieldSelector) -> Result<String, String> {
    let spec = pod.spec.as_ref().ok_or("a pod without a spec")?;
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let container = match wanted.container_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => all.find(|container| container.name == name).ok_or_else(|| format!("no container {name}"))?,
        None => own.ok_or("containerName is missing")?,
    };
    let unsupported = || format!("unsupported resource: {}", wanted.resource);
    let (list, name) = wanted.resource.split_once('.').ok_or_else(unsupported)?;
    let resources = container.resources.clone().unwrap_or_default();
    let (limits, requests) = (resources.limits.unwrap_or_default(), resources.requests.unwrap_or_default());
    let of_node = || match name {
        "cpu" => Some(Quantity(CPU.to_owned())),
        "memory" | "ephemeral-storage" => Some(Quantity(MEMORY.to_owned())),
        _ => None,
    };
    let value = match list {
        "limits" => limits.get(name).cloned().or_else(of_node),
        // what is not asked for is zero; limits were made requests by the API server
        "requests" => Some(requests.get(name).cloned().unwrap_or(Quantity("0".to_owned()))),
        _ => None,
    };
    let value = quantity::parse(&value.ok_or_else(unsupported)?.0).ok_or_else(unsupported)?;
    let divisor =
        wanted.divisor.as_ref().and_then(|divisor| quantity::parse(&divisor.0)).filter(|divisor| *divisor > 0);
    Ok(quantity::divided(value, divisor.unwrap_or(1000)).to_string())
}

#[cfg(test)]
mod tests;
