//! `ListenerSet`: more listeners for a Gateway, in an object and often a namespace of their own (GEP-1713).

use serde::Deserialize;

use crate::gateway::Listener;
use crate::kind::Kind;
use crate::problem::UnitFaults;
use crate::reference::ParentRef;
use crate::resource::{Resource, Spec};

/// Listeners that are added to those of a Gateway.
pub type ListenerSet = Resource<ListenerSetSpec>;

/// `ListenerSet.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetSpec {
    /// The Gateway (`ParentGatewayReference`, which has no section and no port).
    pub parent_ref: ParentRef,
    /// 1 to 64 listeners, with the fields that those of a Gateway have.
    pub listeners: Box<[Listener]>,
}

impl Spec for ListenerSetSpec {
    const KIND: Kind = Kind::ListenerSet;

    fn mark(&mut self, faults: UnitFaults) {
        crate::gateway::mark(&mut self.listeners, faults);
    }
}
