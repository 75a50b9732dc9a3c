//! Listeners whose certificates are for other hosts: clients that check refuse what such a listener shows.

use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use engine::{Cx, Table};

use crate::backend::SecretUse;
use crate::listener::ListenerPlan;
use crate::secret::Parsed;

/// Names of certificates that are given in a problem. The number of the others is given.
const NAMED: usize = 4;

/// Returns a problem for each of an object's listeners that has a host name which none of its certificates has.
pub(super) fn problems(
    cx: &mut Cx<'_>,
    secrets: Table<SecretUse, Arc<Parsed>>,
    object: &ObjectKey,
    listeners: &[ListenerPlan],
) -> Vec<Arc<Problem>> {
    let serves = |listener: &&ListenerPlan| listener.refused.is_none() && listener.unresolved.is_none();
    let mut found = Vec::new();
    for (index, listener) in listeners.iter().enumerate().filter(|(_, listener)| serves(listener)) {
        let Some(host) = listener.hostname.as_text() else { continue };
        let mut names: Vec<Arc<str>> = Vec::new();
        for certificate in &listener.certificates {
            names.extend(cx.get(secrets, certificate).into_iter().flat_map(|parsed| parsed.names.iter().cloned()));
        }
        if names.is_empty() || names.iter().any(|name| is_for(name, host)) {
            continue;
        }
        let path = format!("spec.listeners[{index}].tls.certificateRefs");
        let text = format!(
            "no certificate here is for {host} ({}): clients that check names refuse the connection; order one for that name",
            listed(&names)
        );
        found.push(Arc::new(Problem::of(object, path, Severity::Warning, text)));
    }
    found
}

/// Whether a name of a certificate covers a host name (RFC 6125, 6.4.3: a wildcard is for one label), or one host of a wildcard.
fn is_for(name: &str, host: &str) -> bool {
    let parent = host.split_once('.').map(|(_, parent)| parent);
    let is_below = host.strip_prefix('*').is_some_and(|suffix| name.ends_with(suffix));
    name == host || is_below || name.strip_prefix("*.").is_some_and(|domain| parent == Some(domain))
}

fn listed(names: &[Arc<str>]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(|name| &**name).collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
