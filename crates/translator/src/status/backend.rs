//! Status of `Backend` and `XBackend` objects: whether they can be sent to.

use std::sync::Arc;

use api::status::{BackendStatus, Condition, MOST_ANCESTORS_OF_A_BACKEND, PolicyAncestorStatus, PolicyStatus};
use api::{Kind, ObjectKey};

use super::{Writer, ancestor};
use crate::backend::Reading;

/// The status of a `Backend`, in use or not.
/// `lacking` are the words for a secret of it that proxies refuse.
pub(crate) fn status(generation: i64, reading: &Reading, lacking: Option<&str>) -> BackendStatus {
    BackendStatus { conditions: vec![accepted(generation, Kind::Backend, (reading, lacking))] }
}

/// The status of an `XBackend`: the same for each Gateway with a route that names it, sorted.
pub(crate) fn of_x_backend(
    generation: i64,
    (reading, lacking): (&Reading, Option<&str>),
    gateways: &[ObjectKey],
    controller: &Arc<str>,
) -> PolicyStatus {
    let writer = Writer { generation };
    let entry = |gateway: &ObjectKey| PolicyAncestorStatus {
        ancestor_ref: ancestor(gateway),
        controller_name: controller.clone(),
        conditions: vec![accepted(generation, Kind::XBackend, (reading, lacking))],
    };
    let mut ancestors: Vec<_> = gateways.iter().take(MOST_ANCESTORS_OF_A_BACKEND).map(entry).collect();
    let left_out = gateways.len().saturating_sub(MOST_ANCESTORS_OF_A_BACKEND);
    if let Some(last) = ancestors.last_mut().filter(|_| left_out > 0) {
        last.conditions.push(writer.aggregated(left_out));
    }
    PolicyStatus { ancestors }
}

fn accepted(generation: i64, kind: Kind, (reading, lacking): (&Reading, Option<&str>)) -> Condition {
    let writer = Writer { generation };
    match (&reading.view, lacking) {
        (Ok(_), Some(words)) => writer.no("Accepted", "Invalid", words),
        (Ok(_), None) => writer.yes("Accepted", "Accepted", &format!("the {kind} can be used")),
        (Err(fault), _) => writer.no("Accepted", "Invalid", &fault.text),
    }
}
