//! Status of `EnvoyPatchPolicy`: an entry for its Gateway.

use std::sync::Arc;

use api::status::{Condition, PolicyAncestorStatus, PolicyStatus};

use super::{RESOLVED, UNSUPPORTED, Writer, ancestor};
use crate::envoy_patch_policy::{Answer, PatchOutcome, PatchStanding, faults, missing};

/// So many of what is wrong are said; the rest is counted.
const SAID: usize = 4;

impl PatchOutcome {
    /// Why the policy has no effect at all: a reason and words.
    pub(crate) fn refusal(&self) -> Option<(&'static str, String)> {
        match &self.standing {
            PatchStanding::Accepted => None,
            PatchStanding::Disabled => {
                let text = "such policies are switched off; extensionApis.enableEnvoyPatchPolicy: true in the EnvoyGateway configuration switches them on";
                Some(("Disabled", text.to_owned()))
            }
            PatchStanding::NotFound => {
                Some(("TargetNotFound", format!("{} does not exist, or is not ours", self.policy.target)))
            }
            PatchStanding::Invalid(words) => Some(("Invalid", words.to_string())),
        }
    }
}

/// The status of a policy. `offline`: there are no proxies and never will be.
pub(crate) fn status(outcome: &PatchOutcome, controller: &Arc<str>, offline: bool) -> PolicyStatus {
    let writer = Writer { generation: outcome.policy.generation };
    let mut conditions = match outcome.refusal() {
        Some((reason, words)) => vec![
            writer.no("Accepted", reason, &words),
            writer.no("Programmed", "Invalid", "the policy is not accepted"),
        ],
        None => vec![
            writer.yes("Accepted", "Accepted", "the policy holds"),
            programmed(writer, outcome, offline),
            references(writer, outcome),
        ],
    };
    let ignored = outcome.policy.ignored.iter().map(|text| (UNSUPPORTED, text.clone()));
    conditions.extend(writer.warning(ignored.collect()));
    let ancestor_ref = ancestor(&outcome.policy.target);
    PolicyStatus {
        ancestors: vec![PolicyAncestorStatus { ancestor_ref, controller_name: controller.clone(), conditions }],
    }
}

fn programmed(writer: Writer, outcome: &PatchOutcome, offline: bool) -> Condition {
    let kind = "Programmed";
    let faults = faults(outcome);
    if !faults.is_empty() {
        let reason = if faults.iter().all(|fault| fault.not_found) { "ResourceNotFound" } else { "Invalid" };
        let texts = faults.iter().map(|fault| format!("{}: {}", fault.path, fault.text));
        return writer.no(kind, reason, &listed(texts));
    }
    if offline {
        return writer.unknown(kind, "Pending", "translated offline, no proxy is asked");
    }
    let count = outcome.resources.len();
    let waits = |answer: &Answer| *answer != Answer::Accepted;
    let pending = outcome.resources.values().filter(|one| one.state.is_none() || waits(&one.answer)).count();
    if pending > 0 {
        let text = format!("{pending} of {count} patched resources are not acknowledged yet");
        return writer.no(kind, "Pending", &text);
    }
    let plural = if count == 1 { "resource is" } else { "resources are" };
    writer.yes(kind, "Programmed", &format!("{count} {plural} patched, and acknowledged"))
}

fn references(writer: Writer, outcome: &PatchOutcome) -> Condition {
    let named: Vec<String> =
        missing(outcome).map(|(id, cluster)| format!("{} {} names cluster {cluster}", id.kind(), id.name)).collect();
    if named.is_empty() {
        return writer.yes("ResolvedRefs", "ResolvedRefs", RESOLVED);
    }
    let text =
        format!("{}, which these proxies do not get; their own bootstrap may have it", listed(named.into_iter()));
    writer.no("ResolvedRefs", "ReferenceNotFound", &text)
}

fn listed(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(SAID);
    let mut said: Vec<String> = texts.take(SAID).collect();
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join("; ")
}
