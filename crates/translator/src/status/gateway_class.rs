//! Status of classes.

use api::status::{GatewayClassStatus, SupportedFeature};

use super::Writer;
use crate::gateway_class::{ClassView, supported_features};

/// The status of a class of ours.
pub(crate) fn status(generation: i64, class: &ClassView, file_mode: bool) -> GatewayClassStatus {
    let writer = Writer { generation };
    let accepted = match class.settings() {
        Ok(_) => writer.yes("Accepted", "Accepted", "the class is served"),
        Err(text) => writer.no("Accepted", "InvalidParameters", &text),
    };
    let supported_features = supported_features(file_mode).map(|name| SupportedFeature { name: name.into() }).collect();
    // The definitions by which objects are read are built in.
    let version = writer.yes("SupportedVersion", "SupportedVersion", "objects are read as of Gateway API v1.7");
    GatewayClassStatus { conditions: vec![accepted, version], supported_features }
}
