//! Status of `Backend` objects: whether they can be sent to.

use api::status::BackendStatus;

use super::Writer;
use crate::backend::Reading;

/// The status of a `Backend`, in use or not.
pub(crate) fn status(generation: i64, reading: &Reading) -> BackendStatus {
    let writer = Writer { generation };
    let accepted = match &reading.view {
        Ok(_) => writer.yes("Accepted", "Accepted", "the Backend can be used"),
        Err(fault) => writer.no("Accepted", "Invalid", &fault.text),
    };
    BackendStatus { conditions: vec![accepted] }
}
