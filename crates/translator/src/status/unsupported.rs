//! What statuses say of policies that are not built, and of their targets.

use std::sync::Arc;

use api::status::{Condition, PolicyStatus, UNSUPPORTED_POLICY};
use api::{Kind, ObjectKey};

use super::Writer;
use super::policy::{Reached, Standing, entries, target_conditions};
use crate::closing::{Attached, Closing, Lack};
use crate::http_route::Answers;

/// Reason of the condition on a target that is closed.
const CLOSED: &str = "Closed";
/// Reason of the same on one that is served unguarded.
const ALLOWED: &str = "Allowed";

/// What becomes of requests to an object that is closed, as the beginning of a sentence.
fn consequence(kind: Option<Kind>) -> String {
    let answer = match kind {
        Some(Kind::Gateway | Kind::ListenerSet) => "requests get 500 and other connections are closed",
        kind => Answers::of(kind).all,
    };
    let (first, rest) = answer.split_at(1);
    first.to_uppercase() + rest
}

/// The condition on a route: of the whole and of its rules.
pub(crate) fn of_route(writer: Writer, route: &ObjectKey, closing: &Closing) -> Condition {
    let parts = closing.sections().map(|(rule, policies)| (format!(" of rule {rule}"), policies));
    let whole = closing.whole().map(|policies| (String::new(), policies));
    let sentences = whole.into_iter().chain(parts);
    let sentences = sentences.map(|(part, policies)| sentence(route.kind(), closing.is_open, &part, policies));
    condition(writer, closing.is_open, &sentences.collect::<Vec<_>>().join(" "))
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
    const WHY: &str = "guarded by fields that this version does not support";
    if is_open {
        return format!("Nothing{part} is {WHY}, as such policies are allowed to have no effect: {policies}.");
    }
    format!("{}{part}, which is {WHY}: {policies}.", consequence(kind))
}

/// Why a policy has no effect on a target, and what follows.
pub(crate) fn standing(policy: &Attached, target: &ObjectKey, is_open: bool) -> Standing {
    let text = match &policy.lack {
        Some(lack) => {
            let what = lacking(lack);
            let follows = match is_open {
                true => format!("{target} is served without it, as such policies are allowed to have no effect"),
                false => format!("{target} is closed: {}", consequence(target.kind()).to_lowercase()),
            };
            format!("{what} {follows}.")
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
