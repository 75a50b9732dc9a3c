//! Status of `ListenerSet`s and their listeners (Gateway API `ListenerSetStatus`, GEP-1713).

use api::status::{Condition, ListenerSetStatus};
use api::{Kind, ObjectKey};
use store::ProxyFacts;

use super::gateway::{Entries, Lookup, NOT_YET, OFFLINE, Told, hindrance};
use super::{Writer, unsupported};
use crate::gateway::NO_LISTENER;
use crate::listener_set::SetPlan;

/// The status of a set of a Gateway of ours. `offline`: there are no proxies and never will be.
pub(crate) fn status(lookup: &mut impl Lookup, key: &ObjectKey, plan: &SetPlan, offline: bool) -> ListenerSetStatus {
    let writer = Writer { generation: plan.generation };
    if let Some([accepted, programmed]) = &plan.refused {
        let conditions = vec![
            writer.no("Accepted", accepted.reason, &accepted.text),
            writer.no("Programmed", programmed.reason, &programmed.text),
        ];
        return ListenerSetStatus { conditions, listeners: Vec::new() };
    }
    let facts = if offline { None } else { lookup.proxies() };
    let told = Told::new(writer, (&plan.fleet, &plan.addresses), None, facts.as_deref(), offline);
    let closing = lookup.closing(key);
    let entries = told.listeners(lookup, &plan.listeners, closing.as_deref());
    let mut conditions =
        vec![accepted(writer, &entries), programmed(writer, plan, &entries, facts.as_deref(), offline)];
    conditions.extend(closing.and_then(|closing| unsupported::of_whole(writer, Kind::ListenerSet, &closing)));
    ListenerSetStatus { conditions, listeners: entries.rows }
}

fn accepted(writer: Writer, entries: &Entries) -> Condition {
    match entries.usable {
        0 => writer.no("Accepted", "ListenersNotValid", NO_LISTENER),
        usable if usable < entries.rows.len() => {
            writer.yes("Accepted", "ListenersNotValid", "some listeners cannot be used")
        }
        _ => writer.yes("Accepted", "Accepted", "the Gateway takes the listeners"),
    }
}

fn programmed(
    writer: Writer,
    plan: &SetPlan,
    entries: &Entries,
    facts: Option<&ProxyFacts>,
    offline: bool,
) -> Condition {
    let kind = "Programmed";
    if entries.usable == 0 {
        return writer.no(kind, "ListenersNotValid", "no listener can be programmed");
    }
    if plan.addresses.fault(facts).is_some() {
        return writer.no(kind, "ParentNotProgrammed", "the Gateway is not programmed");
    }
    if offline {
        return writer.unknown(kind, "Pending", OFFLINE);
    }
    if facts.and_then(|facts| hindrance(&plan.addresses, facts)).is_some() {
        return writer.no(kind, "Pending", "the Gateway is not programmed yet");
    }
    if entries.programmed > 0 {
        return writer.yes(kind, "Programmed", "the proxies have acknowledged the listeners");
    }
    writer.no(kind, "Pending", NOT_YET)
}
