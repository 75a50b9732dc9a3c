//! Status of routes: one entry per parent that is ours.

use std::sync::Arc;

use api::status::{Condition, MOST_PARENTS, RouteParentStatus, RouteStatus};

use super::{ATTACHED, RESOLVED, Writer, unsupported};
use crate::closing::Closing;
use crate::http_route::{ParentOutcome, RouteOutcome, Verdict};

/// Reason of the warning that rules have nothing to forward to.
const NO_BACKENDS: &str = "NoBackends";

/// The status of a route, of which policies close something or nothing; `refused` gives the words of a proxy that refused the route in a fleet.
pub(crate) fn status(
    outcome: &RouteOutcome,
    closing: Option<&Closing>,
    mut refused: impl FnMut(&ParentOutcome) -> Option<Arc<str>>,
) -> RouteStatus {
    let writer = Writer { generation: outcome.route.meta().generation };
    let closed = closing.and_then(|closing| unsupported::of_route(writer, &outcome.route, closing));
    let parents = outcome.parents().map(|(parent_ref, parent)| RouteParentStatus {
        conditions: conditions(writer, outcome, parent, refused(parent)).into_iter().chain(closed.clone()).collect(),
        parent_ref,
        controller_name: parent.owner.controller.clone(),
    });
    // There is one of them nearly always, and room for four.
    let mut parents: Vec<_> = parents.collect();
    // Only with default Gateways there are more than a route can name.
    let left_out = parents.len().saturating_sub(MOST_PARENTS);
    parents.truncate(MOST_PARENTS);
    if let Some(last) = parents.last_mut().filter(|_| left_out > 0) {
        last.conditions.push(writer.aggregated(left_out));
    }
    parents.shrink_to_fit();
    RouteStatus { parents }
}

fn conditions(
    writer: Writer,
    outcome: &RouteOutcome,
    parent: &ParentOutcome,
    refused: Option<Arc<str>>,
) -> Vec<Condition> {
    let resolved = match outcome.bad_reference() {
        None => writer.yes("ResolvedRefs", "ResolvedRefs", RESOLVED),
        Some(fault) => writer.no("ResolvedRefs", fault.reason.as_str(), &fault.text),
    };
    let mut conditions = vec![accepted(writer, &parent.verdict), resolved];
    let partly = outcome.unusable().filter(|unusable| !unusable.all);
    if let (Some(unusable), Verdict::Accepted) = (partly, &parent.verdict) {
        conditions.push(writer.yes("PartiallyInvalid", "UnsupportedValue", &unusable.text));
    } else if let (Some(words), Verdict::Accepted) = (refused, &parent.verdict) {
        let text = format!("Fall Back: the proxy refused a part of this route: {words}");
        conditions.push(writer.yes("PartiallyInvalid", "UnsupportedValue", &text));
    }
    if parent.verdict == Verdict::Accepted {
        let idle = outcome.idle().iter().map(|text| (NO_BACKENDS, text.to_string()));
        conditions.extend(writer.warning(idle.collect()));
    }
    conditions
}

fn accepted(writer: Writer, verdict: &Verdict) -> Condition {
    match verdict {
        Verdict::Accepted => writer.yes("Accepted", "Accepted", ATTACHED),
        Verdict::Refused(refusal) => writer.no("Accepted", refusal.reason, &refusal.text),
    }
}
