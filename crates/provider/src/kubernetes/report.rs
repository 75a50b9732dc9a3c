//! Wording of what is wrong between us and the API server.

use std::collections::{BTreeMap, BTreeSet};

use api::kind::group;
use api::{Kind, Problem, Severity};

use crate::kubernetes::call::Failure;
use crate::kubernetes::discovery::Found;
use crate::kubernetes::kinds;
use crate::kubernetes::plan::MAX_WATCHES;
use crate::kubernetes::target::{Resource, Target};
use crate::kubernetes::watches::Watches;

/// What the problems are made of.
pub(crate) struct Circumstances<'a> {
    pub(crate) watches: &'a Watches,
    pub(crate) found: &'a Found,
    /// Targets that may not be read, where there is another way.
    pub(crate) refused: &'a BTreeSet<Target>,
    /// Objects that do not say who they are.
    pub(crate) nameless: &'a BTreeMap<Target, String>,
    /// How many names are not watched because they are too many.
    pub(crate) left_out: usize,
}

/// Everything that is wrong, sorted.
pub(crate) fn problems(circumstances: &Circumstances<'_>) -> Vec<Problem> {
    let Circumstances { watches, found, refused, nameless, left_out } = circumstances;
    let mut problems: Vec<Problem> = away(watches, found).into_iter().collect();
    problems.extend(watches.iter().filter_map(|watch| match &watch.trouble {
        Some(Failure::Forbidden(text)) if !refused.contains(&watch.target) => Some(forbidden(&watch.target, text)),
        _ => None,
    }));
    problems.extend(refused.iter().filter_map(one_by_one));
    problems.extend(
        found.served.iter().flat_map(|served| kinds().filter(|kind| !served.contains_key(kind))).filter_map(missing),
    );
    problems.extend(nameless.iter().map(|(target, text)| {
        let text = format!("one of {target} cannot be read: {text}; what was read of it last stays in force");
        about(None, Severity::Error, text)
    }));
    if *left_out > 0 {
        let text = format!(
            "{left_out} Secrets and ConfigMaps are not read: more than {MAX_WATCHES} would have to be watched one by one; allow list and \
             watch on secrets and configmaps in their namespaces"
        );
        problems.push(about(None, Severity::Error, text));
    }
    problems.sort();
    problems.dedup();
    problems
}

/// The server as a whole.
fn away(watches: &Watches, found: &Found) -> Option<Problem> {
    let troubles = watches.iter().filter_map(|watch| match &watch.trouble {
        Some(Failure::Away(text) | Failure::Busy(text) | Failure::Invalid(text)) => {
            Some(format!("{text} (asked for {})", watch.target))
        }
        _ => None,
    });
    let text = troubles.chain(found.trouble.as_ref().map(|text| format!("{text} (asked for its kinds)"))).next()?;
    let text = format!("Kubernetes: no usable answer from the API server: {text}; what was read last stays in force");
    Some(about(None, Severity::Error, text))
}

fn forbidden(target: &Target, said: &str) -> Problem {
    let place = target.namespace.as_ref().map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
    let text = format!(
        "may not be read from Kubernetes; allow get, list and watch on {}{place} (the API server says: {said})",
        target.resource.full_name()
    );
    match target.key() {
        Some(key) => about(Some(key), Severity::Error, text),
        None => about(None, Severity::Error, format!("{target}: {text}")),
    }
}

/// What is read another way because of a refusal.
fn one_by_one(target: &Target) -> Option<Problem> {
    let kind = target.resource.kind()?;
    let without = match kind {
        Kind::Namespace => "; namespaces that may not be read are taken to have no labels",
        _ => "",
    };
    let text = format!("{target} may not be listed and watched together, so each is read by its name{without}");
    Some(about(None, Severity::Note, text))
}

/// Kinds of Gateway API belong to what has to be installed; others are used or not.
fn missing(kind: Kind) -> Option<Problem> {
    let name = Resource::Kind(kind, "").full_name();
    let text = format!("the CustomResourceDefinition {name} is not installed; {kind} objects are read once it is");
    (kind.group() == group::GATEWAY).then(|| about(None, Severity::Note, text))
}

fn about(object: Option<api::ObjectKey>, severity: Severity, text: String) -> Problem {
    Problem { object, ..Problem::unbound(severity, text) }
}
