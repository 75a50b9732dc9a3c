//! Status of classes.

use api::status::{GatewayClassStatus, SupportedFeature};

use super::Writer;
use crate::gateway_class::{ClassView, SUPPORTED_FEATURES};

/// The status of a class of ours.
pub(crate) fn status(generation: i64, class: &ClassView) -> GatewayClassStatus {
    let writer = Writer { generation };
    let accepted = match &class.parameters {
        Ok(_) => writer.yes("Accepted", "Accepted", "the class is served"),
        Err(text) => writer.no("Accepted", "InvalidParameters", text),
    };
    let supported_features = SUPPORTED_FEATURES.iter().map(|name| SupportedFeature { name: (*name).into() }).collect();
    GatewayClassStatus { conditions: vec![accepted], supported_features }
}
