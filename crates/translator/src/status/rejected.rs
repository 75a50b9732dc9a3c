//! Statuses of objects that cannot be used as they are: an old definition let pass what we cannot read.

use std::sync::Arc;

use api::reference::ParentRef;
use api::status::{
    BackendStatus, Condition, GatewayClassStatus, GatewayStatus, ListenerSetStatus, PolicyAncestorStatus, PolicyStatus,
    RouteParentStatus, RouteStatus, Status,
};
use api::{Kind, ObjectKey};
use store::Rejected;

use super::{UNSUPPORTED, Writer};

/// The Gateway API has it for routes: the message of one whose last usable form is in force begins with `Fall Back`.
const PARTIALLY_INVALID: &str = "PartiallyInvalid";

/// Who is asked whether something is ours.
pub(crate) trait Lookup {
    /// Who we are.
    fn controller(&mut self) -> Arc<str>;
    /// Whether a class is ours.
    fn is_our_class(&mut self, name: &str) -> bool;
    /// Whether a Gateway, or a `ListenerSet` of one, is ours.
    fn is_our_parent(&mut self, parent: &ObjectKey) -> bool;
}

/// What is said of an object that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rejection {
    /// If it never could: its status, where it is ours.
    alone: Option<Status>,
    /// Else, beside the status of what it was before, which is in force.
    beside: Condition,
}

impl Rejection {
    /// The status, with that of what it was before.
    pub(crate) fn status(&self, before: Option<Status>) -> Option<Status> {
        let Some(mut before) = before else { return self.alone.clone() };
        for conditions in before.conditions_mut() {
            let mut beside = self.beside.clone();
            if let Some(at) = conditions.iter().position(|old| old.condition_type == beside.condition_type) {
                beside.message = format!("{}; {}", beside.message, conditions.swap_remove(at).message).into();
            }
            conditions.push(beside);
        }
        Some(before)
    }
}

/// Judges an object.
pub(crate) fn rejection(lookup: &mut impl Lookup, key: &ObjectKey, rejected: &Rejected) -> Rejection {
    let text = format!("Fall Back: what it was before is in force; {}", rejected.words);
    let beside = Writer { generation: rejected.generation }.yes(PARTIALLY_INVALID, UNSUPPORTED, &text);
    Rejection { alone: status(lookup, key, rejected), beside }
}

/// The status of an object; none if it is nothing of ours.
fn status(lookup: &mut impl Lookup, key: &ObjectKey, rejected: &Rejected) -> Option<Status> {
    let writer = Writer { generation: rejected.generation };
    let no = |kind: &str, reason: &str| writer.no(kind, reason, &rejected.words);
    let status = match key.kind()? {
        Kind::GatewayClass => {
            let ours = *lookup.controller() == *rejected.belongs_to;
            let conditions = vec![no("Accepted", "Unsupported")];
            ours.then_some(Status::GatewayClass(GatewayClassStatus { conditions, supported_features: Vec::new() }))?
        }
        Kind::Gateway => {
            let conditions = vec![no("Accepted", "Invalid"), no("Programmed", "Invalid")];
            let ours = lookup.is_our_class(&rejected.belongs_to);
            ours.then_some(Status::Gateway(GatewayStatus { conditions, ..GatewayStatus::default() }))?
        }
        Kind::ListenerSet => {
            let conditions = vec![no("Accepted", "Invalid"), no("Programmed", "Invalid")];
            let gateway = rejected.refers_to.first()?.object(key.namespace());
            let status = ListenerSetStatus { conditions, ..ListenerSetStatus::default() };
            lookup.is_our_parent(&gateway).then_some(Status::ListenerSet(status))?
        }
        kind if kind.is_route() => {
            let parents = parents(lookup, key, rejected, &no("Accepted", "UnsupportedValue"));
            (!parents.is_empty()).then_some(Status::Route(RouteStatus { parents }))?
        }
        Kind::BackendTlsPolicy | Kind::BackendTrafficPolicy | Kind::EnvoyPatchPolicy => {
            let entry = |target: &ParentRef| PolicyAncestorStatus {
                ancestor_ref: ParentRef { namespace: Some(key.namespace().into()), ..target.clone() },
                controller_name: lookup.controller(),
                conditions: vec![no("Accepted", "Invalid")],
            };
            Status::Policy(PolicyStatus { ancestors: rejected.refers_to.iter().map(entry).collect() })
        }
        Kind::Backend => Status::Backend(BackendStatus { conditions: vec![no("Accepted", "Invalid")] }),
        _ => return None,
    };
    Some(status)
}

/// An entry for each parent that is ours.
fn parents(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    rejected: &Rejected,
    accepted: &Condition,
) -> Vec<RouteParentStatus> {
    let mut entry = |parent: &ParentRef| {
        let object = parent.object(key.namespace());
        lookup.is_our_parent(&object).then(|| RouteParentStatus {
            parent_ref: ParentRef { namespace: Some(object.namespace().into()), ..parent.clone() },
            controller_name: lookup.controller(),
            conditions: vec![accepted.clone()],
        })
    };
    rejected.refers_to.iter().filter_map(&mut entry).collect()
}
