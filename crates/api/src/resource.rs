//! `Resource`: metadata and the part that a kind adds to it.

use crate::kind::Kind;
use crate::meta::ObjectMeta;
use crate::tree::Verbatim;

/// An object of one kind: metadata and what the user wrote.
///
/// For kinds without a `spec` in YAML (EndpointSlice, Secret, ConfigMap, `EnvoyGateway`) `spec` holds the fields that
/// stand beside `metadata`. There is no status here: statuses are output ([`crate::status`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource<S> {
    /// Metadata.
    pub meta: ObjectMeta,
    /// What the kind adds.
    pub spec: S,
}

/// What a kind adds to metadata.
pub trait Spec: serde::de::DeserializeOwned {
    /// The kind.
    const KIND: Kind;
    /// The field that holds it, empty where its fields stand beside `metadata`.
    const FIELD: &'static str = "spec";

    /// Notes which of its parts cannot be used. Called once after decoding.
    fn mark(&mut self, faults: crate::problem::UnitFaults) {
        drop(faults);
    }

    /// Notes how it is written, where that is needed. Called once after decoding.
    fn keep(&mut self, _written: impl FnOnce() -> Verbatim) {}
}

/// From a kind's resource back to its spec; only there so that the table of kinds can check itself.
pub(crate) trait HasSpec {
    type Spec: Spec;
}

impl<S: Spec> HasSpec for Resource<S> {
    type Spec = S;
}
