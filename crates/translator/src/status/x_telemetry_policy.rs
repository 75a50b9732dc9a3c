//! Status of `XTelemetryPolicy`: one entry per Gateway that is a target.

use api::status::{Condition, PolicyStatus};

use super::policy::{Reached, entries};
use super::{RESOLVED, Writer};
use crate::x_telemetry_policy::TelemetryPolicy;

/// The status of a policy. A target that is no Gateway stands for itself.
pub(crate) fn status(policy: &TelemetryPolicy, reached: &[Reached], controller: &str) -> PolicyStatus {
    let writer = Writer { generation: policy.generation };
    let conditions = |one: &Reached| conditions(writer, policy, one);
    PolicyStatus { ancestors: entries(writer, reached, controller, conditions) }
}

fn conditions(writer: Writer, policy: &TelemetryPolicy, one: &Reached) -> Vec<Condition> {
    let accepted = match one.refusal() {
        Some((reason, text)) => writer.no("Accepted", reason, &text),
        None => writer.yes("Accepted", "Accepted", "the policy holds"),
    };
    let resolved = match &policy.unresolved {
        // Nobody followed the references of a policy that cannot be used.
        _ if policy.fault.is_some() => None,
        Some(refusal) => {
            Some(writer.no("ResolvedRefs", refusal.reason, &format!("{}; nothing is recorded", refusal.text)))
        }
        None => Some(writer.yes("ResolvedRefs", "ResolvedRefs", RESOLVED)),
    };
    [accepted].into_iter().chain(resolved).chain(writer.warning(policy.warnings.clone())).collect()
}
