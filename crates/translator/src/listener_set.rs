//! `ListenerSet`: whether its Gateway takes it, and what its listeners want. What becomes of them the Gateway decides, which has all of them.

use std::sync::Arc;

use api::gateway::ListenerNamespacesFrom;
use api::{Gateway, Kind, ListenerSet, ObjectKey};
use ir::FleetName;

use crate::gateway::address::AddressPlan;
use crate::gateway::{GatewayPlan, Lookup};
use crate::listener::{self, ListenerPlan, Namespaces, Refusal, Socket};
use crate::reference::Reference;

/// A set as it wants to be, judged without looking at other listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetDraft {
    pub(crate) key: ObjectKey,
    pub(crate) gateway: ObjectKey,
    pub(crate) generation: i64,
    /// The Gateway takes sets of this namespace.
    pub(crate) is_admitted: bool,
    pub(crate) listeners: Box<[ListenerPlan]>,
    /// Written and without effect: field and words.
    pub(crate) warnings: Box<[(String, String)]>,
}

impl SetDraft {
    /// Why a Gateway does not take it.
    pub(crate) fn refusal(&self) -> Refusal {
        let text = format!(
            "the Gateway takes no ListenerSet of namespace {} (spec.allowedListeners of the Gateway)",
            self.key.namespace()
        );
        Refusal::new("NotAllowed", text).at("spec.parentRef")
    }
}

impl SetDraft {
    /// Where it wants to listen, but for those that its own listeners dispute with each other.
    pub(crate) fn sockets(&self) -> Vec<Socket> {
        let mut listeners = self.listeners.to_vec();
        listener::mark_conflicts(&mut listeners, std::iter::once(self.listeners.len()));
        listeners.iter().filter(|listener| listener.refused.is_none()).map(ListenerPlan::socket).collect()
    }
}

/// The Gateway that a set is for; none if it is for something else.
pub(crate) fn gateway(set: &ListenerSet) -> Option<ObjectKey> {
    let key = set.spec.parent_ref.object(set.meta.namespace());
    (key.kind() == Some(Kind::Gateway)).then_some(key)
}

/// Judges a set for which a Gateway of ours says from where it takes them.
pub(crate) fn draft(
    lookup: &mut impl Lookup,
    (key, set): (&ObjectKey, &ListenerSet),
    gateway: ObjectKey,
    is_admitted: bool,
) -> SetDraft {
    let listeners = set.spec.listeners.iter().map(|listener| listener::check(lookup, key, listener));
    SetDraft {
        key: key.clone(),
        gateway,
        generation: set.meta.generation,
        is_admitted,
        listeners: listeners.collect(),
        warnings: listener::warnings(&set.spec.listeners).into(),
    }
}

/// From where a Gateway takes sets (`spec.allowedListeners`): from nowhere unless it says so.
pub(crate) fn allowed(gateway: &Gateway) -> Namespaces {
    let Some(allowed) = gateway.spec.allowed_listeners.as_deref() else { return Namespaces::None };
    let namespaces = &allowed.namespaces;
    match (&namespaces.from, &namespaces.selector) {
        (ListenerNamespacesFrom::Same, _) => Namespaces::Same,
        (ListenerNamespacesFrom::All, _) => Namespaces::All,
        (ListenerNamespacesFrom::Selector, Some(selector)) if selector.defect().is_none() => {
            Namespaces::Selector(Arc::new((**selector).clone()))
        }
        _ => Namespaces::None,
    }
}

/// What to say of `spec.allowedListeners` of a Gateway.
pub(crate) fn warnings(gateway: &Gateway) -> Option<(String, String)> {
    let namespaces = &gateway.spec.allowed_listeners.as_deref()?.namespaces;
    let found = match (&namespaces.from, &namespaces.selector) {
        (ListenerNamespacesFrom::Selector, None) => {
            ("selector", "from is Selector and there is no selector: no namespace is chosen".to_owned())
        }
        (ListenerNamespacesFrom::Selector, Some(selector)) => {
            ("selector", format!("{}: no namespace is chosen", selector.defect()?))
        }
        (ListenerNamespacesFrom::None | ListenerNamespacesFrom::Same | ListenerNamespacesFrom::All, Some(_)) => {
            ("selector", listener::UNSELECTED.to_owned())
        }
        (ListenerNamespacesFrom::Unknown(word), _) => {
            ("from", format!("{word:?} is not supported, None, Same, Selector and All are: no namespace is chosen"))
        }
        _ => return None,
    };
    Some((format!("spec.allowedListeners.namespaces.{}", found.0), found.1))
}

/// Secrets that a set may use: only these are parsed.
pub(crate) fn secret_uses(set: &ListenerSet) -> Vec<ObjectKey> {
    let refs = listener::certificate_refs(&set.spec.listeners).map(Reference::from);
    refs.map(|to| to.object(set.meta.namespace())).collect()
}

/// A set of a Gateway of ours, as far as its status tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetPlan {
    pub(crate) gateway: ObjectKey,
    pub(crate) fleet: FleetName,
    pub(crate) generation: i64,
    /// The Gateway does not take it, or is not accepted itself: `Accepted` and `Programmed` say so.
    pub(crate) refused: Option<[Refusal; 2]>,
    /// Those that the Gateway asks for: without them nothing of it is served, though it is accepted.
    pub(crate) addresses: Arc<AddressPlan>,
    pub(crate) listeners: Box<[ListenerPlan]>,
    pub(crate) warnings: Box<[(String, String)]>,
}

impl SetPlan {
    /// With what became of its listeners in the Gateway.
    pub(crate) fn of(draft: &SetDraft, listeners: &[ListenerPlan], gateway: &GatewayPlan) -> Self {
        // What is wrong with the Gateway is told there, to those who may read it.
        let because = |reason, what| Refusal::new(reason, format!("the Gateway is not {what}")).at("spec.parentRef");
        let of_gateway = || [because("ParentNotAccepted", "accepted"), because("ParentNotProgrammed", "accepted")];
        let refused = if draft.is_admitted {
            gateway.not_accepted().map(|_| of_gateway())
        } else {
            Some([draft.refusal(), draft.refusal()])
        };
        Self {
            gateway: draft.gateway.clone(),
            fleet: gateway.fleet.clone(),
            generation: draft.generation,
            refused,
            addresses: Arc::clone(&gateway.addresses),
            listeners: listeners.into(),
            warnings: draft.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
