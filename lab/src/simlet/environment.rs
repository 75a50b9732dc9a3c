//! Environment variables of a container: of Services, of `envFrom`, of `env`, in that order; later ones win.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvFromSource, EnvVarSource, Pod, Secret, Service};
use kube::ResourceExt as _;
use std::sync::Arc;

use super::{downward, expansion};

/// Where values come from.
pub(crate) struct Sources<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) address: Ipv4Addr,
    pub(crate) services: Vec<Arc<Service>>,
    pub(crate) secret: &'a dyn Fn(&str) -> Option<Arc<Secret>>,
    pub(crate) config_map: &'a dyn Fn(&str) -> Option<Arc<ConfigMap>>,
}

/// All variables, by name.
///
/// # Errors
/// If something is named that is not there, and is not optional.
pub(crate) fn of(container: &Container, sources: &Sources<'_>) -> Result<BTreeMap<String, String>, String> {
    let services = of_services(sources);
    let mut all = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        all.extend(from(source, sources)?);
    }
    // what `$(NAME)` may name: variables before it, and those of Services
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) if !value.is_empty() => {
                let known = |name: &str| before.get(name).or_else(|| services.get(name)).map(String::as_str);
                Some(expansion::expand(value, known))
            }
            (_, Some(source)) => value_from(container, source, sources)?,
            _ => Some(String::new()),
        };
        let Some(value) = value else { continue };
        before.insert(variable.name.clone(), value.clone());
        all.insert(variable.name.clone(), value);
    }
    for (name, value) in services {
        all.entry(name).or_insert(value);
    }
    Ok(all)
}

/// `envFrom`.
fn from(source: &EnvFromSource, sources: &Sources<'_>) -> Result<BTreeMap<String, String>, String> {
    let prefix = source.prefix.clone().unwrap_or_default();
    let mut found = BTreeMap::new();
    if let Some(wanted) = &source.config_map_ref {
        match (sources.config_map)(&wanted.name) {
            Some(map) => found.extend(map.data.clone().unwrap_or_default()),
            None if wanted.optional == Some(true) => {}
            None => return Err(format!("configmap \"{}\" not found", wanted.name)),
        }
    }
    if let Some(wanted) = &source.secret_ref {
        match (sources.secret)(&wanted.name) {
            Some(secret) => {
                found.extend(secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(&value.0))))
            }
            None if wanted.optional == Some(true) => {}
            None => return Err(format!("secret \"{}\" not found", wanted.name)),
        }
    }
    Ok(found.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect())
}

/// `valueFrom`; None if what it names is optional and not there.
fn value_from(container: &Container, source: &EnvVarSource, sources: &Sources<'_>) -> Result<Option<String>, String> {
    if let Some(wanted) = &source.field_ref {
        return downward::field(sources.pod, sources.address, &wanted.field_path).map(Some);
    }
    if let Some(wanted) = &source.resource_field_ref {
        return downward::resource(sources.pod, Some(container), wanted).map(Some);
    }
    let namespace = sources.pod.namespace().unwrap_or_default();
    if let Some(wanted) = &source.config_map_key_ref {
        let map = (sources.config_map)(&wanted.name);
        let value = map.as_ref().and_then(|map| map.data.as_ref()?.get(&wanted.key).cloned());
        let what = ("configmap", "ConfigMap", wanted.name.as_str(), wanted.key.as_str());
        return present(value, map.is_some(), wanted.optional, what, &namespace);
    }
    if let Some(wanted) = &source.secret_key_ref {
        let secret = (sources.secret)(&wanted.name);
        let value = secret.as_ref().and_then(|secret| Some(text(&secret.data.as_ref()?.get(&wanted.key)?.0)));
        let what = ("secret", "Secret", wanted.name.as_str(), wanted.key.as_str());
        return present(value, secret.is_some(), wanted.optional, what, &namespace);
    }
    Err("a valueFrom that the lab does not know".to_owned())
}

fn present(
    value: Option<String>,
    there: bool,
    optional: Option<bool>,
    (word, kind, name, key): (&str, &str, &str, &str),
    namespace: &str,
) -> Result<Option<String>, String> {
    match value {
        Some(value) => Ok(Some(value)),
        None if optional == Some(true) => Ok(None),
        None if there => Err(format!("couldn't find key {key} in {kind} {namespace}/{name}")),
        None => Err(format!("{word} \"{name}\" not found")),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Of the Services of the pod's namespace, unless it wants none; of the API server always.
fn of_services(sources: &Sources<'_>) -> BTreeMap<String, String> {
    let namespace = sources.pod.namespace().unwrap_or_default();
    let links = sources.pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let mut all = BTreeMap::new();
    for service in &sources.services {
        let (of, name) = (service.namespace().unwrap_or_default(), service.name_any());
        if (of == "default" && name == "kubernetes") || (links && of == namespace) {
            all.extend(of_service(service));
        }
    }
    all
}

/// `WEB_SERVICE_HOST` and what else is made of a Service with an address.
fn of_service(service: &Service) -> Vec<(String, String)> {
    let spec = service.spec.clone().unwrap_or_default();
    let Some(host) = spec.cluster_ip.filter(|host| !host.is_empty() && host != "None") else { return Vec::new() };
    let upper = |name: &str| name.to_ascii_uppercase().replace(['-', '.'], "_");
    let name = upper(&service.name_any());
    let ports = spec.ports.unwrap_or_default();
    let Some(first) = ports.first() else { return Vec::new() };
    let mut all =
        vec![(format!("{name}_SERVICE_HOST"), host.clone()), (format!("{name}_SERVICE_PORT"), first.port.to_string())];
    for (index, port) in ports.iter().enumerate() {
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            all.push((format!("{name}_SERVICE_PORT_{}", upper(port_name)), port.port.to_string()));
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_ascii_lowercase(), port.port);
        let prefix = format!("{name}_PORT_{}_{protocol}", port.port);
        if index == 0 {
            all.push((format!("{name}_PORT"), url.clone()));
        }
        all.push((prefix.clone(), url));
        all.push((format!("{prefix}_PROTO"), protocol.to_ascii_lowercase()));
        all.push((format!("{prefix}_PORT"), port.port.to_string()));
        all.push((format!("{prefix}_ADDR"), host.clone()));
    }
    all
}

#[cfg(test)]
mod tests;
