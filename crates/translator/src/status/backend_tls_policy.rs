//! Status of `BackendTLSPolicy`: one entry per Gateway that reaches a Service of it.

use api::status::{Condition, PolicyStatus};

use super::policy::{Reached, entries};
use super::{RESOLVED, Writer};
use crate::backend_tls_policy::TlsPolicy;

/// Reasons of Gateway API where no certificate can be used (`Accepted`), and where a reference leads to none (`ResolvedRefs`).
const NO_VALID: &str = "NoValidCACertificate";
const INVALID: &str = "InvalidCACertificateRef";

/// The status of a policy. A target that no Gateway reaches stands for itself. `lacking` are the words for a bundle that proxies refuse.
pub(crate) fn status(policy: &TlsPolicy, reached: &[Reached], controller: &str, lacking: Option<&str>) -> PolicyStatus {
    let writer = Writer { generation: policy.generation };
    let conditions = |one: &Reached| conditions(writer, policy, one, lacking);
    PolicyStatus { ancestors: entries(writer, reached, controller, conditions) }
}

fn conditions(writer: Writer, policy: &TlsPolicy, one: &Reached, lacking: Option<&str>) -> Vec<Condition> {
    let fault = policy.tls.as_ref().err();
    let accepted = match (one.refusal(), fault) {
        (Some((reason, text)), _) => writer.no("Accepted", reason, &text),
        (None, Some(fault)) => {
            let text = format!("{}; nothing is sent to {}", fault.accepted.text, one.target.object);
            writer.no("Accepted", fault.accepted.reason, &text)
        }
        (None, None) => match lacking {
            Some(words) => {
                let text = format!("{words}; nothing is sent to {}", one.target.object);
                writer.no("Accepted", NO_VALID, &text)
            }
            None => writer.yes("Accepted", "Accepted", "the policy holds"),
        },
    };
    let unresolved = fault.and_then(|fault| fault.resolved.as_ref()).or(policy.unresolved.as_ref());
    let resolved = match (unresolved, lacking) {
        (None, Some(words)) => writer.no("ResolvedRefs", INVALID, words),
        (Some(refusal), _) => writer.no("ResolvedRefs", refusal.reason, &refusal.text),
        (None, None) => writer.yes("ResolvedRefs", "ResolvedRefs", RESOLVED),
    };
    [accepted, resolved].into_iter().chain(writer.warning(policy.warnings.clone())).collect()
}
