//! Status of policies: one entry per Gateway that the policy reaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ObjectKey;
use api::reference::ParentRef;
use api::status::{Condition, MOST_ANCESTORS, PolicyAncestorStatus, PolicyStatus};

use super::{Writer, ancestor};
use crate::backend_traffic_policy::{PolicyTarget, Target};

/// So many of the policies that override another are named; the rest are counted.
const MAX_NAMED: usize = 3;

/// What became of one target of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds.
    Accepted,
    /// Another policy holds.
    Conflicted(ObjectKey),
    /// The target is not there.
    NotFound,
    /// The Service that is the target has no port of the section's name.
    NoPort,
    /// The route that is the target has no rule of the section's name.
    NoRule,
    /// The Gateway or `ListenerSet` that is the target has no listener of the section's name.
    NoListener,
    /// Fields of the policy are not built; what follows.
    Unsupported(Arc<str>),
    /// This cannot be a target, or the policy cannot be used.
    Invalid(Arc<str>),
    /// Others say what becomes of the policy at their Gateway.
    Foreign,
}

/// A target and the Gateways through which it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) target: PolicyTarget,
    /// Gateways; none if no Gateway reaches the target.
    pub(crate) ancestors: Vec<ObjectKey>,
    pub(crate) standing: Standing,
}

/// What a policy reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) generation: i64,
    pub(crate) reached: Vec<Reached>,
    /// Reason and words.
    pub(crate) warnings: Vec<(&'static str, String)>,
    /// True if nothing of what it says has an effect: all of it is ignored.
    pub(crate) is_idle: bool,
}

impl Reached {
    /// The target, if it is one for which a policy of the kind can hold.
    pub(crate) fn known(target: &Target) -> Result<&PolicyTarget, Self> {
        match target {
            Target::Known(target) | Target::Spoilt(target, _) => Ok(target),
            Target::Refused(object, text) => {
                let target = PolicyTarget { object: object.clone(), section: None };
                Err(Self { target, ancestors: Vec::new(), standing: Standing::Invalid(text.clone()) })
            }
        }
    }

    /// The same for a policy that cannot be used, or not there. What is wrong with it comes before what it would lead to.
    pub(crate) fn spoilt_by(mut self, fault: Option<&Arc<str>>) -> Self {
        if let (Standing::Accepted | Standing::NotFound | Standing::NoPort, Some(fault)) = (&self.standing, fault) {
            self.standing = Standing::Invalid(fault.clone());
        }
        self
    }

    /// Why the policy does not hold for this target: a reason and words.
    pub(crate) fn refusal(&self) -> Option<(&'static str, String)> {
        let target = &self.target.object;
        match &self.standing {
            Standing::Accepted | Standing::Foreign => None,
            Standing::Conflicted(winner) => {
                Some(("Conflicted", format!("{winner} is older or comes first by name and holds for {target}")))
            }
            Standing::NotFound => Some(("TargetNotFound", format!("{target} does not exist"))),
            Standing::NoPort => {
                let section = self.target.section.as_deref().unwrap_or_default();
                Some(("TargetNotFound", format!("{target} has no port of the name {section}")))
            }
            Standing::NoRule => {
                let section = self.target.section.as_deref().unwrap_or_default();
                Some(("TargetNotFound", format!("{target} has no rule of the name {section}")))
            }
            Standing::NoListener => {
                let section = self.target.section.as_deref().unwrap_or_default();
                Some(("TargetNotFound", format!("{target} has no listener of the name {section}")))
            }
            Standing::Unsupported(text) | Standing::Invalid(text) => Some(("Invalid", text.to_string())),
        }
    }

    /// What the policy is overridden for while it holds here: policies on what is inside the target beat it there. A rule has
    /// nothing inside, a route has its rules, a Gateway its routes with their rules.
    pub(crate) fn overrides(&self) -> Vec<ObjectKey> {
        if self.standing != Standing::Accepted || self.ancestors.contains(&self.target.object) {
            return Vec::new();
        }
        let route = self.target.section.is_some().then(|| self.target.object.clone());
        self.ancestors.iter().cloned().chain(route).collect()
    }
}

/// The status of a policy. A target that no Gateway reaches stands for itself. `overridden` gives the words for a target of
/// which parts have policies of their own.
pub(crate) fn status(
    reach: &Reach,
    controller: &str,
    mut overridden: impl FnMut(&PolicyTarget) -> Option<String>,
) -> PolicyStatus {
    let writer = Writer { generation: reach.generation };
    let conditions = |one: &Reached| {
        let refusal = one.refusal();
        let over = overridden(&one.target).filter(|_| refusal.is_none());
        let words = if reach.is_idle { IDLE } else { HOLDS };
        let mut told = conditions(writer, refusal.as_ref(), words, over.as_deref());
        told.extend(writer.warning(reach.warnings.clone()));
        told
    };
    PolicyStatus { ancestors: entries(writer, &reach.reached, controller, conditions) }
}

/// One entry per ancestor: of several targets behind one Gateway the first that is refused counts.
pub(super) fn entries(
    writer: Writer,
    reached: &[Reached],
    controller: &str,
    mut conditions: impl FnMut(&Reached) -> Vec<Condition>,
) -> Vec<PolicyAncestorStatus> {
    let mut found: BTreeMap<&ObjectKey, Vec<Condition>> = BTreeMap::new();
    // What names nothing can have no entry.
    let told_here = |one: &&Reached| one.standing != Standing::Foreign && !one.target.object.name().is_empty();
    for one in reached.iter().filter(told_here) {
        let own = one.ancestors.is_empty().then_some(&one.target.object);
        let told = conditions(one);
        for ancestor in one.ancestors.iter().chain(own) {
            let entry = found.entry(ancestor).or_default();
            if entry.is_empty() || (is_refused(&told) && !is_refused(entry)) {
                entry.clone_from(&told);
            }
        }
    }
    fitted(writer, found.into_iter().collect(), &controller.into())
}

/// The conditions for a target.
pub(super) fn target_conditions(writer: Writer, reached: &Reached) -> Vec<Condition> {
    conditions(writer, reached.refusal().as_ref(), HOLDS, None)
}

/// The words for a target that is overridden in part by so many policies.
pub(crate) fn overridden<'a>(count: usize, by: impl Iterator<Item = &'a ObjectKey>) -> Option<String> {
    let named: Vec<String> = by.take(MAX_NAMED).map(ToString::to_string).collect();
    let others = match count.saturating_sub(named.len()) {
        0 => String::new(),
        1 => " and one more".to_owned(),
        count => format!(" and {count} more"),
    };
    (count > 0).then(|| format!("parts of the target have policies of their own: {}{others}", named.join(", ")))
}

/// The words of a policy that is accepted.
const HOLDS: &str = "the policy holds";

/// The same where all that it says is ignored.
const IDLE: &str = "the policy is read, and nothing of it has an effect: see the condition Warning";

fn conditions(
    writer: Writer,
    refusal: Option<&(&'static str, String)>,
    accepted: &str,
    overridden: Option<&str>,
) -> Vec<Condition> {
    let accepted = match refusal {
        None => writer.yes("Accepted", "Accepted", accepted),
        Some((reason, text)) => writer.no("Accepted", reason, text),
    };
    [accepted].into_iter().chain(overridden.map(|text| writer.yes("Overridden", "Overridden", text))).collect()
}

/// No more entries than fit: refused ones first, then overridden ones, so that what is bad is not what is left out.
fn fitted(
    writer: Writer,
    mut found: Vec<(&ObjectKey, Vec<Condition>)>,
    controller_name: &Arc<str>,
) -> Vec<PolicyAncestorStatus> {
    let left_out = found.len().saturating_sub(MOST_ANCESTORS);
    if left_out > 0 {
        let overridden = |conditions: &[Condition]| conditions.iter().any(|it| &*it.condition_type == "Overridden");
        found.sort_by_key(|(_, conditions)| (!is_refused(conditions), !overridden(conditions)));
        found.truncate(MOST_ANCESTORS);
        if let Some((_, conditions)) = found.last_mut() {
            conditions.push(writer.aggregated(left_out));
        }
    }
    let entry = |(object, conditions)| {
        let ancestor_ref: ParentRef = ancestor(object);
        PolicyAncestorStatus { ancestor_ref, controller_name: controller_name.clone(), conditions }
    };
    found.into_iter().map(entry).collect()
}

fn is_refused(conditions: &[Condition]) -> bool {
    conditions.iter().any(|it| &*it.condition_type == "Accepted" && it.status == api::status::ConditionStatus::False)
}
