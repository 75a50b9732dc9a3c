//! Accounts and workloads that this installation made, by which a Pod proves whose proxy it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::infra::ObjectName;

use super::name::Owner;
use super::object::ObjectKind;
use super::seen::ObjectId;
use super::world::{Change, World};

#[cfg(test)]
mod tests;

/// The `ServiceAccount`s, Deployments and `DaemonSet`s with the labels of this installation that the API server has, each with its Gateway. What
/// settings only name is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyObjects {
    objects: BTreeMap<ObjectId, Owner>,
    is_listed: bool,
}

/// The reason why a Pod is no proxy of the Gateway that its labels name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAProxy {
    /// Its account is not there, is another Gateway's or was not made by this installation.
    #[error("its ServiceAccount is not one that Chancery made for this Gateway")]
    Account,
    /// The same of its Deployment or `DaemonSet`.
    #[error("it does not belong to a Deployment or DaemonSet that Chancery made for this Gateway")]
    Workload,
}

impl ProxyObjects {
    /// The objects of a list of `(kind, namespace, name)`, all there are: for tests.
    #[must_use]
    pub fn of(objects: &[(ObjectKind, &str, &str, &Owner)]) -> Self {
        let id = |kind: ObjectKind, namespace: &str, name: &str| ObjectId {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        };
        let objects =
            objects.iter().map(|(kind, namespace, name, owner)| (id(*kind, namespace, name), (*owner).clone()));
        Self { objects: objects.collect(), is_listed: true }
    }

    /// Returns true once all of them are known.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Returns true for a `ServiceAccount` that this installation made for a Gateway.
    #[must_use]
    pub fn has_account(&self, account: &ObjectName) -> bool {
        self.owner(ObjectKind::ServiceAccount, &account.namespace, &account.name).is_some()
    }

    /// Judges whether a Pod with this account and controller is a proxy of a Gateway. Labels of an object are its author's words: the caller
    /// asks only of Pods in a namespace in which objects of that Gateway are made.
    ///
    /// # Errors
    /// Its account or its workload was not made for that Gateway.
    pub fn check(
        &self,
        owner: &Owner,
        account: &ObjectName,
        controller: Option<&(Arc<str>, Arc<str>)>,
    ) -> Result<(), NotAProxy> {
        if self.owner(ObjectKind::ServiceAccount, &account.namespace, &account.name) != Some(owner) {
            return Err(NotAProxy::Account);
        }
        let (kind, name) = workload(controller).ok_or(NotAProxy::Workload)?;
        // A Pod is in the namespace of its account, and its workload is there too.
        if self.owner(kind, &account.namespace, name) != Some(owner) {
            return Err(NotAProxy::Workload);
        }
        Ok(())
    }

    fn owner(&self, kind: ObjectKind, namespace: &Arc<str>, name: &str) -> Option<&Owner> {
        self.objects.get(&ObjectId { kind, namespace: Arc::clone(namespace), name: name.into() })
    }

    /// Takes what has changed of the API server's objects. Returns true if something is other than before.
    pub(super) fn update(&mut self, changes: &[Change], world: &World, is_listed: bool) -> bool {
        let mut changed = std::mem::replace(&mut self.is_listed, is_listed) != is_listed;
        for Change { id, .. } in changes.iter().filter(|change| is_proof(change.id.kind)) {
            let before = match world.get(id) {
                // One that is on its way out proves nothing: its author may hold it there.
                Some(seen) if !seen.deleting => self.objects.insert(id.clone(), seen.owner.clone()),
                _ => self.objects.remove(id),
            };
            changed |= before.as_ref() != self.objects.get(id);
        }
        changed
    }
}

/// Returns true for the kinds that say whose a Pod is.
pub(super) fn is_proof(kind: ObjectKind) -> bool {
    kind == ObjectKind::ServiceAccount || kind.has_pods()
}

/// The Deployment or `DaemonSet` of a Pod, by the kind and the name of its controller. A Deployment's `ReplicaSet` is `<Deployment>-<hash>`, and a hash has no
/// dash.
#[must_use]
pub fn workload(controller: Option<&(Arc<str>, Arc<str>)>) -> Option<(ObjectKind, &str)> {
    let (kind, name) = controller?;
    match &**kind {
        "ReplicaSet" => Some((ObjectKind::Deployment, name.rsplit_once('-')?.0)),
        "DaemonSet" => Some((ObjectKind::DaemonSet, name)),
        _ => None,
    }
}
