//! `ReferenceGrant`: entries with a group or kind that no reference ever has, and what was probably meant.
//!
//! A grant may be for other controllers as well, so only words near to a known one are told.

use api::group::{CHANCERY, CORE, ENVOY_GATEWAY, EXPERIMENTAL, GATEWAY, MULTICLUSTER};
use api::{ReferenceGrant, nearest};

type GroupKind = (&'static str, &'static str);

/// What refers to objects of other namespaces, here or at other controllers.
const REFERRING: &[GroupKind] = &[
    (GATEWAY, "BackendLBPolicy"),
    (GATEWAY, "BackendTLSPolicy"),
    (GATEWAY, "GRPCRoute"),
    (GATEWAY, "Gateway"),
    (GATEWAY, "HTTPRoute"),
    (GATEWAY, "ListenerSet"),
    (GATEWAY, "TCPRoute"),
    (GATEWAY, "TLSRoute"),
    (GATEWAY, "UDPRoute"),
    (EXPERIMENTAL, "XBackend"),
    (EXPERIMENTAL, "XListenerSet"),
    (EXPERIMENTAL, "XTelemetryPolicy"),
    (ENVOY_GATEWAY, "BackendTrafficPolicy"),
    (ENVOY_GATEWAY, "ClientTrafficPolicy"),
    (ENVOY_GATEWAY, "EnvoyExtensionPolicy"),
    (ENVOY_GATEWAY, "EnvoyProxy"),
    (ENVOY_GATEWAY, "SecurityPolicy"),
    (CHANCERY, "EnvoyCluster"),
    (CHANCERY, "EnvoyEndpoint"),
    (CHANCERY, "EnvoyExtensionConfig"),
    (CHANCERY, "EnvoyListener"),
    (CHANCERY, "EnvoyRoute"),
    (CHANCERY, "EnvoyRuntime"),
    (CHANCERY, "EnvoyScopedRoute"),
    (CHANCERY, "EnvoySecret"),
    (CHANCERY, "EnvoyVirtualHost"),
];

/// What is referred to.
const REFERRED: &[GroupKind] = &[
    (CORE, "ConfigMap"),
    (CORE, "Pod"),
    (CORE, "Secret"),
    (CORE, "Service"),
    (MULTICLUSTER, "ServiceImport"),
    (ENVOY_GATEWAY, "Backend"),
    (EXPERIMENTAL, "XBackend"),
    (GATEWAY, "GRPCRoute"),
    (GATEWAY, "Gateway"),
    (GATEWAY, "HTTPRoute"),
    (GATEWAY, "ListenerSet"),
    (GATEWAY, "TCPRoute"),
    (GATEWAY, "TLSRoute"),
    (GATEWAY, "UDPRoute"),
];

/// Fields of a grant that are probably misspelt, and what is to be said of them.
pub(crate) fn warnings(grant: &ReferenceGrant) -> Vec<(String, String)> {
    let from = grant.spec.from.iter().map(|from| (&*from.group, &*from.kind));
    let to = grant.spec.to.iter().map(|to| (&*to.group, &*to.kind));
    let mut found = Vec::new();
    for (at, entry) in from.enumerate() {
        found.extend(misspelt(entry, REFERRING).map(|(field, text)| (format!("spec.from[{at}].{field}"), text)));
    }
    for (at, entry) in to.enumerate() {
        found.extend(misspelt(entry, REFERRED).map(|(field, text)| (format!("spec.to[{at}].{field}"), text)));
    }
    found
}

fn misspelt(entry: (&str, &str), known: &[GroupKind]) -> impl Iterator<Item = (&'static str, String)> {
    // Nearly all entries: words are compared letter by letter only where one is unknown.
    let unknown = (!known.contains(&entry)).then(|| suspicions(entry, known));
    unknown.into_iter().flatten()
}

fn suspicions((group, kind): (&str, &str), known: &[GroupKind]) -> impl Iterator<Item = (&'static str, String)> {
    let groups = [CORE, GATEWAY, EXPERIMENTAL, ENVOY_GATEWAY, MULTICLUSTER, CHANCERY];
    let core = ["core", "v1"].contains(&group);
    let foreign = !core && nearest(group, groups).is_none_or(|near| near.is_empty() && !group.is_empty());
    let meant = nearest(kind, known.iter().map(|(_, kind)| *kind)).filter(|_| !foreign);
    let wrong_kind = meant
        .filter(|meant| *meant != kind)
        .map(|meant| ("kind", format!("this allows nothing: no reference is of kind {kind}; did you mean {meant}?")));
    let home = known.iter().find(|(_, kind)| Some(*kind) == meant).map(|(group, _)| *group);
    let wrong_group = match (meant, home.filter(|home| *home != group)) {
        _ if core => Some("this allows nothing: the core group is written as \"\"".to_owned()),
        (Some(meant), Some(CORE)) => {
            Some(format!("this allows nothing: {meant} is of the core group, which is written as \"\""))
        }
        (Some(meant), Some(home)) => Some(format!("this allows nothing: {meant} is of group {home}")),
        _ => None,
    };
    wrong_group.map(|text| ("group", text)).into_iter().chain(wrong_kind)
}
