//! Names and labels of what is made for a Gateway, and whose an object is by its labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::infra::ObjectName;
use ir::infra::kubernetes::Place;
use xxhash_rust::xxh3::xxh3_64;

/// The longest name of a Service and the longest value of a label (RFC 1123 label).
const LONGEST: usize = 63;

/// The longest name that leaves room for what a `Deployment` appends to the names of its Pods: `-` and 10 characters, `-` and 5 more.
const LONGEST_WORKLOAD: usize = LONGEST - 17;

/// The label that says who made an object.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "chancery");

/// The label that says what of ours it is.
const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "proxy");

/// The labels that say for which Gateway.
const OWNER_NAME: &str = "gateway.envoyproxy.io/owning-gateway-name";
const OWNER_NAMESPACE: &str = "gateway.envoyproxy.io/owning-gateway-namespace";

/// The label that tells installations of Chancery in one cluster apart.
pub(super) const CONTROLLER: &str = "chancery.io/controller";

/// The annotations with the full names, which need not fit into labels.
pub(super) const FULL_NAME: &str = "gateway.networking.k8s.io/gateway-name";

/// The name of a Gateway's objects: readable, unique in whatever namespace they are, and short enough for each kind.
pub(super) fn object_name(gateway: &ObjectName, place: Place) -> String {
    let ObjectName { namespace, name } = gateway;
    let readable = match place {
        Place::Gateway => name.to_string(),
        Place::Controller => format!("{namespace}-{name}"),
    };
    with_hash(&readable.replace('.', "-"), &format!("{namespace}/{name}"), LONGEST_WORKLOAD)
}

/// The value of a label: the name, or what is left of it with a hash.
pub(super) fn label_value(name: &str) -> String {
    if name.len() <= LONGEST { name.to_owned() } else { with_hash(name, name, LONGEST) }
}

/// The value of the label [`CONTROLLER`]: which controller, and where it is installed.
pub(super) fn controller(name: &str, namespace: &str) -> String {
    with_hash(namespace, &format!("{name}/{namespace}"), LONGEST)
}

/// `readable-hash`, at most so long; the hash is of the whole.
fn with_hash(readable: &str, whole: &str, longest: usize) -> String {
    let hash = format!("{:08x}", xxh3_64(whole.as_bytes()) >> 32);
    let room = longest - hash.len() - 1;
    let kept: String = readable.chars().take(room).collect();
    let kept = kept.trim_end_matches(['-', '.']);
    format!("{kept}-{hash}")
}

/// The labels by which a Gateway's Pods are found. They never change: a `Deployment` cannot change its selector.
pub(super) fn selector(gateway: &ObjectName) -> Vec<(Arc<str>, Arc<str>)> {
    let label = |name: &str, value: &str| (Arc::from(name), Arc::from(value));
    vec![
        label(COMPONENT.0, COMPONENT.1),
        label(MANAGED_BY.0, MANAGED_BY.1),
        label("app.kubernetes.io/name", "envoy"),
        label(OWNER_NAME, &label_value(&gateway.name)),
        label(OWNER_NAMESPACE, &gateway.namespace),
    ]
}

/// What the API server is asked for: every object that this installation made.
pub(super) fn watched(controller: &str) -> String {
    format!("{}={},{}={},{CONTROLLER}={controller}", MANAGED_BY.0, MANAGED_BY.1, COMPONENT.0, COMPONENT.1)
}

/// A Gateway as the labels of its objects name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    pub(super) namespace: Arc<str>,
    /// The name, as the value of a label.
    pub(super) name: Arc<str>,
}

impl Owner {
    pub(super) fn of(gateway: &ObjectName) -> Self {
        Self { namespace: Arc::clone(&gateway.namespace), name: label_value(&gateway.name).into() }
    }

    /// The Gateway for which an object was made; none if labels do not say it.
    pub(super) fn read(labels: &BTreeMap<String, String>) -> Option<Self> {
        let label = |name| labels.get(name).map(|value| Arc::from(value.as_str()));
        Some(Self { namespace: label(OWNER_NAMESPACE)?, name: label(OWNER_NAME)? })
    }
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// That Gateway's, made by us.
    Ours,
    /// Another Gateway's, made by us.
    Other(Owner),
    /// Made by another installation of Chancery; its label.
    Elsewhere(Arc<str>),
    /// Somebody else's.
    Foreign,
}

/// Judges by the labels of an object whether it is that Gateway's.
pub(super) fn whose(labels: &BTreeMap<String, String>, owner: &Owner, controller: &str) -> Whose {
    let has = |(name, value): (&str, &str)| labels.get(name).is_some_and(|found| found == value);
    let Some(found) = Owner::read(labels).filter(|_| has(MANAGED_BY) && has(COMPONENT)) else { return Whose::Foreign };
    match labels.get(CONTROLLER) {
        Some(label) if label == controller && found == *owner => Whose::Ours,
        Some(label) if label == controller => Whose::Other(found),
        label => Whose::Elsewhere(label.map(String::as_str).unwrap_or_default().into()),
    }
}

#[cfg(test)]
mod tests;
