//! Changes to JSON documents, as users write them: on objects that we make (`patch` of `EnvoyProxy`), and of one set of settings over
//! another (`mergeType`).
//!
//! [`json_merge`] is RFC 7396. [`strategic_merge`] is what Kubernetes calls so: the same, but some lists are merged item by item, and
//! a patch may hold directives. [`apply`] does one operation of a JSON Patch (RFC 6902), as users aim them at what we generate.

mod operation;
mod strategic;

use serde_json::Value;

pub use operation::{Action, Budget, OperationError, Place, apply};
pub use strategic::{MergeError, strategic_merge};

/// Applies a JSON merge patch (RFC 7396): null takes a field away, objects are merged, everything else is replaced.
pub fn json_merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}
