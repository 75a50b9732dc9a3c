//! Status of objects that hold a resource of Envoy's.

use std::sync::Arc;

use api::ObjectKey;
use api::status::{Condition, RawStatus};

use super::{RESOLVED, UNSUPPORTED, Writer};
use crate::raw::{Lost, RawOutcome, asked_for, fault, is_waited_for};
use crate::reference::RefReason;

/// So many of what is wrong are said; the rest is counted.
const SAID: usize = 4;

/// The status of an object. `offline`: there are no proxies and never will be.
pub(crate) fn status(outcome: &RawOutcome, offline: bool) -> RawStatus {
    let writer = Writer { generation: outcome.generation };
    let mut conditions =
        vec![accepted(writer, outcome), programmed(writer, outcome, offline), references(writer, outcome)];
    conditions.extend(partially(writer, outcome));
    let ignored = outcome.read.reading.ignored.iter();
    let unread = outcome.read.unread.iter().map(|field| (UNSUPPORTED, field.to_string()));
    let ignored = ignored.map(|ignored| (UNSUPPORTED, fault(ignored)));
    conditions.extend(writer.warning(unread.chain(ignored).collect()));
    RawStatus { conditions }
}

fn accepted(writer: Writer, outcome: &RawOutcome) -> Condition {
    let errors = &outcome.read.reading.errors;
    if !errors.is_empty() {
        return writer.no("Accepted", "Invalid", &listed(errors.iter().map(fault)));
    }
    match &outcome.lost {
        Some(Lost::All(by)) => writer.no("Accepted", "Conflicted", &format!("{by} has the same name and comes first")),
        Some(Lost::EveryPart(parts)) => {
            writer.no("Accepted", "Conflicted", &format!("nothing of it counts: {}", listed(claimed(parts))))
        }
        _ => writer.yes("Accepted", "Accepted", "the resource can be used"),
    }
}

/// What of it is in force where that is not all of it.
fn partially(writer: Writer, outcome: &RawOutcome) -> Option<Condition> {
    let dropped = match &outcome.lost {
        Some(Lost::Parts(parts)) => Some(format!("Dropped: {}", listed(claimed(parts)))),
        _ => None,
    };
    let errors = || listed(outcome.read.reading.errors.iter().map(fault));
    let counts = outcome.read.is_earlier && !outcome.lost.as_ref().is_some_and(Lost::is_all);
    let earlier = counts.then(|| format!("Fall Back: what it was before is in force; {}", errors()));
    let reason = if earlier.is_some() { "UnsupportedValue" } else { "Conflicted" };
    let said: Vec<String> = earlier.into_iter().chain(dropped).collect();
    (!said.is_empty()).then(|| writer.yes("PartiallyInvalid", reason, &said.join("; ")))
}

fn programmed(writer: Writer, outcome: &RawOutcome, offline: bool) -> Condition {
    let RawOutcome { selected, connected, accepted, .. } = *outcome;
    let kind = "Programmed";
    if outcome.read.fault.is_some() {
        return writer.no(kind, "Invalid", "what it refers to cannot be used");
    }
    if outcome.read.reading.resource.is_none() || outcome.lost.as_ref().is_some_and(Lost::is_all) {
        return writer.no(kind, "Invalid", "it is not accepted");
    }
    if outcome.read.is_earlier && outcome.refused.is_none() {
        let text =
            format!("it is not accepted; what it was before stays in force, with {accepted} of {connected} proxies");
        return writer.no(kind, "Invalid", &text);
    }
    if offline {
        return writer.unknown(kind, "Pending", "translated offline, no proxy is asked");
    }
    if let Some(text) = refused(outcome) {
        return writer.no(kind, "Invalid", &text);
    }
    match (selected, connected) {
        (0, _) if outcome.abroad => {
            let text = "no workload of the namespaces with these labels, of which all but its own have to allow it by a ReferenceGrant to their Pods, has these labels";
            writer.no(kind, "NoWorkload", text)
        }
        (0, _) => writer.no(kind, "NoWorkload", "no workload of the namespace has these labels"),
        (_, 0) => writer.no(kind, "Pending", &format!("none of the {selected} workloads that it is for is connected")),
        _ if accepted < connected => {
            let why = unanswered(outcome).map(|why| format!("; {why}")).unwrap_or_default();
            writer.no(kind, "Pending", &format!("{accepted} of {connected} proxies have acknowledged it{why}"))
        }
        _ => writer.yes(kind, "Programmed", &format!("{accepted} of {connected} proxies have acknowledged it")),
    }
}

/// Why proxies may not answer for as long as nothing changes.
fn unanswered(outcome: &RawOutcome) -> Option<String> {
    if let Some(name) = outcome.missing.keys().find(|name| is_waited_for(name)) {
        return Some(format!("it waits for {} {}, which no object gives", name.kind(), name.name));
    }
    asked_for(&outcome.read.reading.resource.as_ref()?.id).map(str::to_owned)
}

/// Which proxies refuse it, with the words of the first; none if nobody does.
pub(crate) fn refused(outcome: &RawOutcome) -> Option<String> {
    let (workload, words, count) = outcome.refused.as_ref()?;
    let others = if *count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    let who = format!("{}/{}{others}", workload.namespace(), workload.name());
    Some(format!("{} of {} proxies use it; that of {who} refused it: {words}", outcome.accepted, outcome.connected))
}

fn references(writer: Writer, outcome: &RawOutcome) -> Condition {
    let kind = "ResolvedRefs";
    if let Some(fault) = &outcome.read.fault {
        let reason = match fault.reason {
            RefReason::NotPermitted => "RefNotPermitted",
            RefReason::NotFound | RefReason::NoPort | RefReason::UnsupportedProtocol => "SecretNotFound",
            RefReason::InvalidKind => "InvalidSecret",
        };
        return writer.no(kind, reason, &format!("spec.secretRef: {}", fault.text));
    }
    if let Some(port) = &outcome.no_service {
        let text = format!("spec.service: there is no port {port} (namespace/Service/port)");
        return writer.no(kind, "BackendNotFound", &text);
    }
    if outcome.missing.is_empty() {
        return writer.yes(kind, "ResolvedRefs", RESOLVED);
    }
    let missing = outcome.missing.iter().map(|(name, (workload, count))| {
        let others = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        let (namespace, workload) = (workload.namespace(), workload.name());
        format!("{} {}, which no object gives {namespace}/{workload}{others}", name.kind(), name.name)
    });
    let text = format!("it names {}; a proxy's own bootstrap may have it", listed(missing));
    writer.no(kind, "ReferenceNotFound", &text)
}

fn claimed(parts: &[(Arc<str>, ObjectKey)]) -> impl ExactSizeIterator<Item = String> {
    parts.iter().map(|(claim, by)| format!("{claim} is that of {by}"))
}

fn listed(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(SAID);
    let mut said: Vec<String> = texts.take(SAID).collect();
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join("; ")
}
