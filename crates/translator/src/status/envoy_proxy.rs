//! Status of `EnvoyProxy` objects: one entry per class and Gateway that names the object.

use std::sync::Arc;

use api::reference::ParentRef;
use api::status::{EnvoyProxyAncestorStatus, EnvoyProxyStatus};

use super::{UNSUPPORTED, Writer};
use crate::envoy_proxy::ProxyView;

/// The API sets no bound. An entry has some 500 bytes, so this is a third of what an object may have in etcd (1.5 MB).
const MAX_ANCESTORS: usize = 1_024;

/// The status of an `EnvoyProxy` that these name, each with what the cluster refuses of what is made of it there.
pub(crate) fn status(
    generation: i64,
    view: &ProxyView,
    named_by: impl ExactSizeIterator<Item = (ParentRef, Option<Arc<str>>)>,
) -> EnvoyProxyStatus {
    let writer = Writer { generation };
    let ignored =
        view.ignored.iter().chain(&view.warnings).map(|(path, text)| (UNSUPPORTED, format!("{path}: {text}")));
    let warning = writer.warning(ignored.collect());
    let left_out = named_by.len().saturating_sub(MAX_ANCESTORS);
    let entry = |(ancestor_ref, refused): (ParentRef, Option<Arc<str>>)| {
        let accepted = match view.fault.as_deref().or(refused.as_deref()) {
            None => writer.yes("Accepted", "Accepted", "the EnvoyProxy can be used"),
            Some(text) => writer.no("Accepted", "InvalidParameters", text),
        };
        EnvoyProxyAncestorStatus { ancestor_ref, conditions: [accepted].into_iter().chain(warning.clone()).collect() }
    };
    let mut ancestors: Vec<_> = named_by.take(MAX_ANCESTORS).map(entry).collect();
    if let (Some(last), true) = (ancestors.last_mut(), left_out > 0) {
        last.conditions.push(writer.aggregated(left_out));
    }
    EnvoyProxyStatus { ancestors }
}
