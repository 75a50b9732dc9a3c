//! Names and labels of what is made for a Gateway, and whose an object is by its labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ir::infra::ObjectName;
use ir::infra::kubernetes::Place;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
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

/// The value of a label: the name, or its beginning with a hash. A name that looks like that gets a hash too, so that no two names are one.
pub(super) fn label_value(name: &str) -> String {
    let hash = hash(name);
    let begins = name.get(..LONGEST - hash.len() - 1);
    match begins.filter(|_| name.len() > LONGEST || looks_hashed(name)) {
        Some(begins) => format!("{begins}-{hash}"),
        None => name.to_owned(),
    }
}

/// As long as what [`label_value`] makes of a longer name, and with such an end.
fn looks_hashed(name: &str) -> bool {
    let is_hash = |end: &str| end.len() == 8 && end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    name.len() == LONGEST && name.rsplit_once('-').is_some_and(|(_, end)| is_hash(end))
}

fn hash(whole: &str) -> String {
    format!("{:08x}", xxh3_64(whole.as_bytes()) >> 32)
}

/// The value of the label [`CONTROLLER`]: which controller, and where it is installed.
pub(super) fn controller(name: &str, namespace: &str) -> String {
    with_hash(namespace, &format!("{name}/{namespace}"), LONGEST)
}

/// `readable-hash`, at most so long; the hash is of the whole.
fn with_hash(readable: &str, whole: &str, longest: usize) -> String {
    let hash = hash(whole);
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

/// The labels that are read of Chancery's own objects.
pub(super) const LABELS: [&str; 5] = [COMPONENT.0, MANAGED_BY.0, OWNER_NAME, OWNER_NAMESPACE, CONTROLLER];

/// The labels that say whose proxy a Pod is.
pub const POD_LABELS: [&str; 4] = [COMPONENT.0, MANAGED_BY.0, OWNER_NAME, OWNER_NAMESPACE];

/// A Gateway as the labels of its objects name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub(super) namespace: Arc<str>,
    /// The name, as the value of a label.
    pub(super) name: Arc<str>,
}

impl Owner {
    /// The Gateway whose proxy a Pod is by its labels ([`POD_LABELS`]), which any author can write.
    #[must_use]
    pub fn of_pod(labels: &BTreeMap<Arc<str>, Arc<str>>) -> Option<Self> {
        let has = |(name, value): (&str, &str)| labels.get(name).is_some_and(|found| &**found == value);
        let label = |name: &str| labels.get(name).cloned();
        (has(COMPONENT) && has(MANAGED_BY))
            .then(|| Some(Self { namespace: label(OWNER_NAMESPACE)?, name: label(OWNER_NAME)? }))?
    }

    /// The labels of a Gateway's objects.
    #[must_use]
    pub fn of(gateway: &ObjectName) -> Self {
        Self { namespace: Arc::clone(&gateway.namespace), name: label_value(&gateway.name).into() }
    }

    /// The Gateway for which an object was made: its owner; for one in another namespace labels say it, or nobody.
    ///
    /// Labels are their author's words: see [`Self::may_have`].
    pub(super) fn read(metadata: &ObjectMeta) -> Option<Self> {
        if let (Some(owner), Some(namespace)) = (owning(metadata), &metadata.namespace) {
            return Some(Self::of(&ObjectName { namespace: namespace.as_str().into(), name: owner.into() }));
        }
        let label = |name| metadata.labels.as_ref()?.get(name).map(|value| Arc::from(value.as_str()));
        Some(Self { namespace: label(OWNER_NAMESPACE)?, name: label(OWNER_NAME)? })
    }
}

impl Owner {
    /// Returns true if objects of this Gateway are made in a namespace: in its own, or in the controller's. With its labels elsewhere, an object is its author's,
    /// and nothing follows from it.
    pub(super) fn may_have(&self, namespace: &str, controller: &str) -> bool {
        *self.namespace == *namespace || namespace == controller
    }
}

impl fmt::Display for Owner {
    /// As `shop/gw`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The Gateway that owns an object.
fn owning(metadata: &ObjectMeta) -> Option<&str> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| is_gateway(owner)).map(|owner| owner.name.as_str())
}

/// Returns true if an owner is a Gateway.
pub(super) fn is_gateway(owner: &OwnerReference) -> bool {
    owner.kind == "Gateway" && owner.api_version.starts_with("gateway.networking.k8s.io/")
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

/// Judges whether an object is that Gateway's. Of one that the Gateway owns labels may have been taken away, but not that of the installation.
pub(super) fn whose(metadata: &ObjectMeta, owner: &Owner, controller: &str) -> Whose {
    let label = |name| metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str);
    let has = |(name, value)| label(name) == Some(value);
    let is_made = (has(MANAGED_BY) && has(COMPONENT)) || (owning(metadata).is_some() && label(CONTROLLER).is_some());
    let Some(found) = Owner::read(metadata).filter(|_| is_made) else { return Whose::Foreign };
    match label(CONTROLLER) {
        Some(label) if label == controller && found == *owner => Whose::Ours,
        Some(label) if label == controller => Whose::Other(found),
        label => Whose::Elsewhere(label.unwrap_or_default().into()),
    }
}

#[cfg(test)]
mod tests;
