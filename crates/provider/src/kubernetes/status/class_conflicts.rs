//! [`ClassConflicts`]: classes whose status another controller writes under our controller name, and what is held back because of it.
//!
//! The evidence is the status of the `GatewayClass` alone: replaced again and again ([`super::contest`]), by a manager that is not ours. Only
//! administrators of the cluster may write that, so no author of a Gateway or a route silences the statuses of others. The class itself is written
//! ever more rarely: where that stays, the other has stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::status::Status;
use api::{Kind, ObjectKey};
use serde_json::Value;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::contest::SOON;
use crate::kubernetes::Observed;

/// How long a class has to stay as it was written until the other has stopped, and when what is held back is looked at again. Tests do not wait so long.
pub(super) const AGAIN: Duration = if cfg!(test) { Duration::from_secs(2) } else { SOON };

/// Classes in conflict by name; as many as there are classes of ours at most.
#[derive(Default)]
pub(super) struct ClassConflicts(BTreeMap<SmolStr, ClassConflict>);

struct ClassConflict {
    /// The other one, as `managedFields` has it.
    manager: SmolStr,
    /// When the class was written last.
    written: Instant,
}

impl ClassConflicts {
    /// Notes that a class is contested, if it is by another manager.
    pub(super) fn note(&mut self, key: &ObjectKey, observed: &Observed, now: Instant) {
        if let (Some(Kind::GatewayClass), Some(manager)) = (key.kind(), observed.other_writer(key)) {
            let begins = ClassConflict { manager: manager.clone(), written: now };
            self.0.entry(key.name().into()).or_insert(begins).manager = manager;
        }
    }

    /// Notes that a class was written. Returns when it is known whether that stays, if it is in conflict.
    pub(super) fn written(&mut self, key: &ObjectKey, now: Instant) -> Option<Instant> {
        let conflict = self.get_mut(key)?;
        conflict.written = now;
        Some(now + AGAIN)
    }

    /// Ends the conflict of a class that has our status, unless that is too fresh: then returns when to look again.
    pub(super) fn settled(&mut self, key: &ObjectKey, now: Instant) -> Option<Instant> {
        let until = self.get_mut(key)?.written + AGAIN;
        if until > now {
            return Some(until);
        }
        self.0.remove(key.name());
        None
    }

    /// The words about a class in conflict.
    pub(super) fn words(&self, key: &ObjectKey, controller: &str) -> Option<Arc<str>> {
        let ClassConflict { manager, .. } =
            self.0.get(key.name()).filter(|_| key.kind() == Some(Kind::GatewayClass))?;
        let words = format!(
            "another controller (field manager {manager:?}) writes it under our controllerName {controller}; the statuses of the class, its \
             Gateways and their routes are not written until it stops: remove the other controller, or give one of the two another controllerName"
        );
        Some(words.into())
    }

    /// Returns whether a status is held back: all that it is about belongs to classes in conflict. The class itself is never held back.
    pub(super) fn hold_back(&self, key: &ObjectKey, status: Option<&Status>, observed: &Observed) -> bool {
        if self.0.is_empty() || key.kind() == Some(Kind::GatewayClass) || observed.get(key).is_none() {
            return false;
        }
        let is_in_conflict = |of: &ObjectKey| observed.class_of(of).is_some_and(|class| self.0.contains_key(&class));
        if matches!(key.kind(), Some(Kind::Gateway | Kind::ListenerSet)) {
            return is_in_conflict(key);
        }
        let status = match status {
            Some(status) => serde_json::to_value(status).ok(),
            None => observed.object(key).and_then(|mut object| object.get_mut("status").map(Value::take)),
        };
        let about = status.as_ref().map(|status| objects_of(status, key, observed.controller())).unwrap_or_default();
        !about.is_empty() && about.iter().all(|of| of.as_ref().is_some_and(is_in_conflict))
    }

    fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut ClassConflict> {
        self.0.get_mut(key.name()).filter(|_| key.kind() == Some(Kind::GatewayClass))
    }
}

/// The parents or ancestors that our entries of a status name; none for one that has no class.
fn objects_of(status: &Value, key: &ObjectKey, controller: &str) -> Vec<Option<ObjectKey>> {
    let lists = [("parents", "parentRef"), ("ancestors", "ancestorRef")];
    let entries = lists.iter().flat_map(|(list, reference)| {
        let entries = status.get(list).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let own =
            entries.iter().filter(|entry| entry.get("controllerName").and_then(Value::as_str) == Some(controller));
        own.filter_map(move |entry| entry.get(reference))
    });
    entries.map(|reference| object(reference, key.namespace())).collect()
}

/// The object that a reference names, if it is one with a class.
pub(crate) fn object(reference: &Value, namespace: &str) -> Option<ObjectKey> {
    let word = |field: &str| reference.get(field).and_then(Value::as_str);
    let kind = match word("kind").unwrap_or("Gateway") {
        "Gateway" => Kind::Gateway,
        "ListenerSet" => Kind::ListenerSet,
        "GatewayClass" => return Some(ObjectKey::of(Kind::GatewayClass, "", word("name")?)),
        _ => return None,
    };
    Some(ObjectKey::of(kind, word("namespace").unwrap_or(namespace), word("name")?))
}
