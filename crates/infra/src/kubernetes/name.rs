//! Names and labels of what is made for a Gateway.

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
        label("app.kubernetes.io/component", "proxy"),
        label(MANAGED_BY.0, MANAGED_BY.1),
        label("app.kubernetes.io/name", "envoy"),
        label("gateway.envoyproxy.io/owning-gateway-name", &label_value(&gateway.name)),
        label("gateway.envoyproxy.io/owning-gateway-namespace", &gateway.namespace),
    ]
}
