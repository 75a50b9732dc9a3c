//! Status of `BackendTLSPolicy`: one entry per Gateway that reaches a Service of it.

use api::status::{Condition, PolicyStatus};

use super::policy::{Reached, entries};
use super::{RESOLVED, Writer};
use crate::backend_tls_policy::TlsPolicy;

/// The status of a policy. A target that no Gateway reaches stands for itself.
pub(crate) fn status(policy: &TlsPolicy, reached: &[Reached], controller: &str) -> PolicyStatus {
    let writer = Writer { generation: policy.generation };
    let conditions = |one: &Reached| conditions(writer, policy, one);
    PolicyStatus { ancestors: entries(writer, reached, controller, conditions) }
}

fn conditions(writer: Writer, policy: &TlsPolicy, one: &Reached) -> Vec<Condition> {
    let fault = policy.tls.as_ref().err();
    let accepted = match (one.refusal(), fault) {
        (Some((reason, text)), _) => writer.no("Accepted", reason, &text),
        (None, Some(fault)) => {
            let text = format!("{}; nothing is sent to {}", fault.accepted.text, one.target.object);
            writer.no("Accepted", fault.accepted.reason, &text)
        }
        (None, None) => writer.yes("Accepted", "Accepted", "the policy holds"),
    };
    let resolved = match fault.and_then(|fault| fault.resolved.as_ref()).or(policy.unresolved.as_ref()) {
        Some(refusal) => writer.no("ResolvedRefs", refusal.reason, &refusal.text),
        None => writer.yes("ResolvedRefs", "ResolvedRefs", RESOLVED),
    };
    [accepted, resolved].into_iter().chain(writer.warning(policy.warnings.clone())).collect()
}
