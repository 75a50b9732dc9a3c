//! Status of policies: one entry per Gateway that the policy reaches.

use api::reference::ParentRef;
use api::status::{Condition, PolicyAncestorStatus, PolicyStatus};
use api::{Kind, ObjectKey, group};

use super::Writer;

/// Bound of the API (`PolicyStatus.ancestors`).
const MAX_ANCESTORS: usize = 16;

/// What became of one target of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds.
    Accepted,
    /// Another policy holds.
    Conflicted(ObjectKey),
    /// The target is not there.
    NotFound,
    /// This cannot be a target.
    Invalid(&'static str),
}

/// A target and the Gateways through which it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) target: ObjectKey,
    pub(crate) ancestors: Vec<ParentRef>,
    pub(crate) standing: Standing,
}

/// What a policy reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) generation: i64,
    pub(crate) reached: Vec<Reached>,
}

impl Reached {
    /// Why the policy does not hold for this target: a reason and words.
    pub(crate) fn refusal(&self) -> Option<(&'static str, String)> {
        let target = &self.target;
        match &self.standing {
            Standing::Accepted => None,
            Standing::Conflicted(winner) => {
                Some(("Conflicted", format!("{winner} is older or comes first by name and holds for {target}")))
            }
            Standing::NotFound => Some(("TargetNotFound", format!("{target} does not exist"))),
            Standing::Invalid(text) => Some(("Invalid", format!("{target}: {text}"))),
        }
    }
}

/// The status of a policy. A target that no Gateway reaches stands for itself.
pub(crate) fn status(Reach { generation, reached }: &Reach, controller: &str) -> PolicyStatus {
    let writer = Writer { generation: *generation };
    let mut ancestors: Vec<PolicyAncestorStatus> = Vec::new();
    for one in reached {
        let found = if one.ancestors.is_empty() { vec![own_ref(&one.target)] } else { one.ancestors.clone() };
        for ancestor_ref in found {
            if ancestors.len() < MAX_ANCESTORS && !ancestors.iter().any(|other| other.ancestor_ref == ancestor_ref) {
                let conditions = vec![accepted(writer, one)];
                ancestors.push(PolicyAncestorStatus { ancestor_ref, controller_name: controller.into(), conditions });
            }
        }
    }
    PolicyStatus { ancestors }
}

/// A Gateway as an ancestor.
pub(crate) fn gateway_ref(namespace: &str, name: &str) -> ParentRef {
    ParentRef {
        group: group::GATEWAY.into(),
        kind: Kind::Gateway.name().into(),
        namespace: Some(namespace.into()),
        name: name.into(),
        section_name: None,
        port: None,
    }
}

fn own_ref(target: &ObjectKey) -> ParentRef {
    let (group, kind) = (target.group().into(), target.kind_name().into());
    ParentRef { group, kind, ..gateway_ref(target.namespace(), target.name()) }
}

fn accepted(writer: Writer, reached: &Reached) -> Condition {
    match reached.refusal() {
        None => writer.yes("Accepted", "Accepted", "the policy holds"),
        Some((reason, text)) => writer.no("Accepted", reason, &text),
    }
}
