//! Status of routes: one entry per parent that is ours.

use std::sync::Arc;

use api::status::{Condition, RouteParentStatus, RouteStatus};

use super::Writer;
use crate::http_route::{ParentOutcome, RouteOutcome, Verdict};

/// The status of a route; `refused` gives the words of a proxy that refused the route in a fleet.
pub(crate) fn status(
    outcome: &RouteOutcome,
    mut refused: impl FnMut(&ParentOutcome) -> Option<Arc<str>>,
) -> RouteStatus {
    let writer = Writer { generation: outcome.generation };
    let parents = outcome.parents.iter().map(|parent| RouteParentStatus {
        parent_ref: parent.parent.clone(),
        controller_name: (&*parent.controller).into(),
        conditions: conditions(writer, outcome, parent, refused(parent)),
    });
    RouteStatus { parents: parents.collect() }
}

fn conditions(
    writer: Writer,
    outcome: &RouteOutcome,
    parent: &ParentOutcome,
    refused: Option<Arc<str>>,
) -> Vec<Condition> {
    let mut conditions = Vec::with_capacity(3);
    conditions.push(accepted(writer, parent));
    conditions.push(match &outcome.bad_reference {
        None => writer.yes("ResolvedRefs", "ResolvedRefs", "all references lead to something"),
        Some(fault) => writer.no("ResolvedRefs", fault.reason.as_str(), &fault.text),
    });
    let partly = outcome.unusable.as_ref().filter(|unusable| !unusable.all);
    if let (Some(unusable), Verdict::Accepted) = (partly, &parent.verdict) {
        conditions.push(writer.yes("PartiallyInvalid", "UnsupportedValue", &unusable.text));
    } else if let (Some(words), Verdict::Accepted) = (refused, &parent.verdict) {
        let text = format!("Fall Back: the proxy refused a part of this route: {words}");
        conditions.push(writer.yes("PartiallyInvalid", "UnsupportedValue", &text));
    }
    conditions
}

fn accepted(writer: Writer, parent: &ParentOutcome) -> Condition {
    let name = &parent.parent.name;
    match &parent.verdict {
        Verdict::Accepted => writer.yes("Accepted", "Accepted", "the route is attached"),
        Verdict::NoMatchingParent => {
            let (section, port) = (parent.parent.section_name.as_deref(), parent.parent.port);
            let text = match (section, port) {
                (Some(section), None) => format!("Gateway {name} has no listener {section}"),
                (None, Some(port)) => format!("Gateway {name} has no listener on port {port}"),
                (Some(section), Some(port)) => format!("Gateway {name} has no listener {section} on port {port}"),
                (None, None) => format!("Gateway {name} has no listener"),
            };
            writer.no("Accepted", "NoMatchingParent", &text)
        }
        Verdict::NotAllowedByListeners => {
            let text = "no listener takes routes of this kind from this namespace (allowedRoutes)";
            writer.no("Accepted", "NotAllowedByListeners", text)
        }
        Verdict::NoMatchingListenerHostname => {
            let text = "no host name of the route meets one of the listeners";
            writer.no("Accepted", "NoMatchingListenerHostname", text)
        }
        Verdict::Unusable(unusable) => writer.no("Accepted", unusable.reason, &unusable.text),
    }
}
