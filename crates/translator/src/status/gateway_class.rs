//! Status of classes.

use api::status::{GatewayClassStatus, SupportedFeature};

use super::Writer;
use crate::gateway_class::{ClassView, supported_features, version};

/// The status of a class of ours.
pub(crate) fn status(generation: i64, class: &ClassView, file_mode: bool) -> GatewayClassStatus {
    let writer = Writer { generation };
    let accepted = match class.settings() {
        Ok(_) => writer.yes("Accepted", "Accepted", "the class is served"),
        Err(text) => writer.no("Accepted", "InvalidParameters", &text),
    };
    let features = supported_features(class.installed.as_ref(), file_mode).into_iter();
    let supported_features = features.map(|name| SupportedFeature { name: name.into() }).collect();
    let version = match version(class.installed.as_ref()) {
        Ok(text) => writer.yes("SupportedVersion", "SupportedVersion", &text),
        Err(text) => writer.no("SupportedVersion", "UnsupportedVersion", &text),
    };
    GatewayClassStatus { conditions: vec![accepted, version], supported_features }
}
