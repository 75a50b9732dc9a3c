//! `EnvoyPatchPolicy` of Envoy Gateway: operations of JSON Patch on generated resources of Envoy's.

use serde::Deserialize;

use crate::kind::Kind;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::reference::PolicyTargetRef;
use crate::resource::{Resource, Spec};
use crate::tree::Verbatim;

/// Changes of what a Gateway's proxies get.
pub type EnvoyPatchPolicy = Resource<EnvoyPatchPolicySpec>;

/// `EnvoyPatchPolicy.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyPatchPolicySpec {
    /// How it is written.
    #[serde(rename = "type")]
    pub patch_type: EnvoyPatchType,
    /// The Gateway, of its namespace.
    pub target_ref: PolicyTargetRef,
    /// Of several policies the one with the lowest is applied first.
    pub priority: i32,
    /// What is changed, in this order.
    pub json_patches: Box<[EnvoyJsonPatch]>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

open_enum! {
    /// `spec.type`.
    EnvoyPatchType {
        /// RFC 6902.
        JsonPatch = "JSONPatch",
    }
}

/// `spec.jsonPatches[]`: one operation on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyJsonPatch {
    /// The type URL of the resource.
    #[serde(rename = "type")]
    pub type_url: Box<str>,
    /// The name of the resource.
    pub name: Box<str>,
    /// What is done to it.
    pub operation: JsonPatchOperation,
}

/// `spec.jsonPatches[].operation`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JsonPatchOperation {
    /// What is done.
    pub op: JsonPatchOp,
    /// A JSON pointer; with `json_path`, from each place that this finds.
    pub path: Box<str>,
    /// A JSONPath.
    pub json_path: Option<Box<str>>,
    /// A JSON pointer to what is moved or copied.
    pub from: Option<Box<str>>,
    /// What is added, put in place, or compared with.
    pub value: Option<Verbatim>,
}

open_enum! {
    /// `spec.jsonPatches[].operation.op`.
    JsonPatchOp {
        /// Sets a member, or puts an item into a list.
        Add = "add",
        /// Takes it away.
        Remove = "remove",
        /// Puts another in its place.
        Replace = "replace",
        /// Takes another value away and adds it.
        Move = "move",
        /// Adds what another value is.
        Copy = "copy",
        /// Compares.
        Test = "test",
    }
}

impl Spec for EnvoyPatchPolicySpec {
    const KIND: Kind = Kind::EnvoyPatchPolicy;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
        self.ignored = found.ignored.into();
    }
}
