//! Statuses of policies that are not built, and conditions of their targets.

use std::sync::Arc;

use api::status::{Condition, PolicyStatus, UNSUPPORTED_POLICY};
use api::{Kind, RouteObject};

use super::Writer;
use super::policy::{Reached, Standing, entries, target_conditions};
use crate::backend_traffic_policy::PolicyTarget;
use crate::closing::{Attached, Closing, Lack};
use crate::http_route::Answers;

/// Reason of the condition on a target that is closed.
const CLOSED: &str = "Closed";
/// Reason of the same on one that is served unguarded.
const ALLOWED: &str = "Allowed";

/// The answer of an object that is closed, in words.
fn consequence(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Gateway | Kind::ListenerSet) => "requests get 500 and other connections are closed",
        kind => Answers::of(kind).all,
    }
}

/// The same words at the beginning of a sentence.
fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// The condition on a route: of the whole and of its rules.
pub(crate) fn of_route(writer: Writer, route: &RouteObject, closing: &Closing) -> Option<Condition> {
    let kind = route.meta().key.kind();
    let rules = route.rule_names();
    let parts = closing.sections().filter(|(rule, _)| rules.contains(rule));
    let parts = parts.map(|(rule, policies)| (format!("Rule {rule}"), policies));
    let whole = closing.whole().map(|policies| (String::new(), policies));
    let sentences = whole.into_iter().chain(parts);
    let sentences = sentences.map(|(part, policies)| sentence(kind, closing.is_open, &part, policies));
    let sentences: Vec<String> = sentences.collect();
    (!sentences.is_empty()).then(|| condition(writer, closing.is_open, &sentences.join(" ")))
}

/// The condition on a Gateway or `ListenerSet`, where policies are about all of it.
pub(crate) fn of_whole(writer: Writer, object: Kind, closing: &Closing) -> Option<Condition> {
    let policies = closing.whole()?;
    Some(condition(writer, closing.is_open, &sentence(Some(object), closing.is_open, "", policies)))
}

/// The condition on a listener, where policies are about it alone.
pub(crate) fn of_listener(writer: Writer, listener: &str, closing: &Closing) -> Option<Condition> {
    let policies = closing.section(listener)?;
    Some(condition(writer, closing.is_open, &sentence(Some(Kind::Gateway), closing.is_open, "", policies)))
}

fn condition(writer: Writer, is_open: bool, text: &str) -> Condition {
    writer.yes(UNSUPPORTED_POLICY, if is_open { ALLOWED } else { CLOSED }, text)
}

fn sentence(kind: Option<Kind>, is_open: bool, part: &str, policies: &str) -> String {
    let sentence = match is_open {
        true => format!("served unguarded, because policies that are not supported are allowed: {policies}."),
        false => {
            let answer = consequence(kind);
            format!("{answer}, because this version does not support fields that guard it: {policies}.")
        }
    };
    if part.is_empty() { capitalized(&sentence) } else { format!("{part}: {sentence}") }
}

/// The standing of a policy at a target that it names, with what follows.
pub(crate) fn standing(policy: &Attached, target: &PolicyTarget, is_open: bool) -> Standing {
    at(policy, is_open, &place(target), consequence(target.object.kind()))
}

/// A target in words.
pub(crate) fn place(PolicyTarget { object, section }: &PolicyTarget) -> String {
    match (section, object.kind()) {
        (None, _) => object.to_string(),
        (Some(section), Some(Kind::Gateway | Kind::ListenerSet)) => format!("listener {section} of {object}"),
        (Some(section), _) => format!("rule {section} of {object}"),
    }
}

/// The standing of a policy where targets are reached that it selects.
pub(crate) fn selected(policy: &Attached, is_open: bool) -> Standing {
    at(policy, is_open, "what it selects", "requests get 500 and other connections are closed")
}

fn at(policy: &Attached, is_open: bool, place: &str, consequence: &str) -> Standing {
    let text = match &policy.lack {
        Some(lack) => {
            let follows = match is_open {
                true => format!("{place} is served without it, as such policies are allowed to have no effect"),
                false => format!("{place} is closed: {consequence}"),
            };
            format!("{} {}.", lacking(lack), capitalized(&follows))
        }
        None if !policy.ignored.is_empty() => {
            let fields: Vec<&str> = policy.ignored.iter().map(|field| &**field).collect();
            format!("Fields that this version does not support have no effect: {}.", fields.join(", "))
        }
        None => return Standing::Accepted,
    };
    Standing::Unsupported(text.into())
}

fn lacking(lack: &Lack) -> String {
    match &lack.fault {
        Some(fault) if lack.guards.is_empty() => format!("The policy cannot be used as it is written ({fault})."),
        _ => format!("Fields that guard are not supported by this version: {}.", lack.words()),
    }
}

/// The status of a policy of which no field is built.
pub(crate) fn status(generation: i64, reached: &[Reached], controller: &Arc<str>) -> PolicyStatus {
    let writer = Writer { generation };
    PolicyStatus { ancestors: entries(writer, reached, controller, |one| target_conditions(writer, one)) }
}
