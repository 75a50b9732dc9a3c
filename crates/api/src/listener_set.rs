//! `ListenerSet`: more listeners for a Gateway, in an object and often a namespace of their own (GEP-1713).

use serde::Deserialize;

use crate::gateway::Listener;
use crate::kind::{Kind, group};
use crate::problem::UnitFaults;
use crate::resource::{Resource, Spec};

/// Listeners that are added to those of a Gateway.
pub type ListenerSet = Resource<ListenerSetSpec>;

/// `ListenerSet.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetSpec {
    /// The Gateway.
    pub parent_ref: ParentGatewayRef,
    /// 1 to 64 listeners, with the fields that those of a Gateway have.
    pub listeners: Box<[Listener]>,
}

impl Spec for ListenerSetSpec {
    const KIND: Kind = Kind::ListenerSet;

    fn mark(&mut self, faults: UnitFaults) {
        crate::gateway::mark(&mut self.listeners, faults);
    }
}

/// `ParentGatewayReference`: the Gateway of a set. Group and kind are filled in (Gateway API defaults).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentGatewayRef {
    /// Group, default `gateway.networking.k8s.io`.
    pub group: Box<str>,
    /// Kind, default `Gateway`.
    pub kind: Box<str>,
    /// Namespace; none means the set's own.
    pub namespace: Option<Box<str>>,
    /// Name.
    pub name: Box<str>,
}

impl Default for ParentGatewayRef {
    fn default() -> Self {
        Self { group: group::GATEWAY.into(), kind: "Gateway".into(), namespace: None, name: Box::default() }
    }
}
