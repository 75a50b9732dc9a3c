//! Changes that users make to generated resources, as operations of JSON Patch on the JSON form of a message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::raw::RawRules;

/// Full names of the messages that can be patched, in the order in which they are: what is named comes first.
pub const PATCHABLE: [&str; 5] = [
    "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "envoy.config.cluster.v3.Cluster",
    "envoy.config.route.v3.VirtualHost",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.config.listener.v3.Listener",
];

/// That of a type URL, if it can be patched.
#[must_use]
pub fn patchable(type_url: &str) -> Option<&'static str> {
    let message = type_url.strip_prefix("type.googleapis.com/")?;
    PATCHABLE.into_iter().find(|known| *known == message)
}

/// All that is done to one resource of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PatchSet {
    /// In the order in which they are applied. Each is left out whole where it cannot be done.
    pub policies: Vec<PolicyPatches>,
    /// What proxies refused, by the mark of all that was applied then; with their words.
    #[serde(skip)]
    pub refused: BTreeMap<u64, Arc<str>>,
    /// The same of what they have accepted since something was refused. Then policies are added one by one, each when those before it are accepted.
    #[serde(skip)]
    pub accepted: BTreeSet<u64>,
    /// Rules of the operator for them.
    #[serde(skip)]
    pub rules: RawRules,
}

/// What one policy does to the resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyPatches {
    /// `<namespace>/<name>` of the policy.
    pub policy: Arc<str>,
    /// In their order.
    pub patches: Arc<[Patch]>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Which of the policy's, from 0.
    pub number: u32,
    /// What is done.
    pub action: Action,
    /// A JSONPath: the pointer begins at each place that it finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<str>>,
    /// A JSON pointer; empty is the whole.
    pub pointer: Box<str>,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Sets a member, or puts an item into a list. At the whole: a resource that may not be there without.
    Add(Arc<Value>),
    /// Takes it away.
    Remove,
    /// Puts another in the place of what is there.
    Replace(Arc<Value>),
    /// Takes what is at this pointer away and adds it.
    Move(Box<str>),
    /// Adds what is at this pointer.
    Copy(Box<str>),
    /// Nothing of the policy is done to the resource unless this is there.
    Test(Arc<Value>),
}
