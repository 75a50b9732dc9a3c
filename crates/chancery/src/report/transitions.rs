//! When each condition last changed its status (`lastTransitionTime`): a transition is a change of `status`, nothing else.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use api::status::{Condition, ConditionStatus, GatewayStatus, ListenerSetStatus, Status};
use api::{ObjectKey, Timestamp};
use hashbrown::{DefaultHashBuilder as Hasher, HashMap as UnorderedMap};

/// The last transition of every condition of every object.
#[derive(Default)]
pub(crate) struct Transitions {
    objects: UnorderedMap<ObjectKey, Arc<[Transition]>>,
    /// Those of the object that was noted last. Most routes have the same conditions, and many come at the same time.
    last: Arc<[Transition]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Transition {
    /// Whose condition and of which type, hashed: 8 bytes in place of two strings for each of some 100,000 conditions.
    condition: u64,
    status: ConditionStatus,
    since: Timestamp,
}

impl Transitions {
    /// Takes the new status of an object, `None` if it has none any more.
    pub(crate) fn note(&mut self, key: &ObjectKey, status: Option<Status>, now: Timestamp) {
        let Some(mut status) = status else {
            self.objects.remove(key);
            return;
        };
        let old = self.objects.get(key).map(|transitions| &**transitions).unwrap_or_default();
        let mut new = Vec::new();
        visit(&mut status, self.objects.hasher(), |condition, seen| {
            let before =
                old.iter().find(|transition| transition.condition == condition && transition.status == seen.status);
            let since = before.map_or(now, |transition| transition.since);
            new.push(Transition { condition, status: seen.status, since });
        });
        if *self.last != *new {
            self.last = new.into();
        }
        self.objects.insert(key.clone(), Arc::clone(&self.last));
    }

    /// Puts the times into a status; conditions that were never noted get the start of 1970.
    pub(crate) fn fill(&self, key: &ObjectKey, status: &mut Status) {
        let known = self.objects.get(key).map(|transitions| &**transitions).unwrap_or_default();
        visit(status, self.objects.hasher(), |condition, seen| {
            let since =
                known.iter().find(|transition| transition.condition == condition).map(|transition| transition.since);
            seen.last_transition_time = Some(since.unwrap_or(Timestamp(0)));
        });
    }
}

/// Calls with every condition of a status and a hash of where it stands.
fn visit(status: &mut Status, hasher: &Hasher, mut each: impl FnMut(u64, &mut Condition)) {
    match status {
        Status::GatewayClass(class) => visit_all("", &mut class.conditions, hasher, &mut each),
        Status::Raw(raw) => visit_all("", &mut raw.conditions, hasher, &mut each),
        Status::Gateway(GatewayStatus { conditions, listeners, .. })
        | Status::ListenerSet(ListenerSetStatus { conditions, listeners }) => {
            visit_all("", conditions, hasher, &mut each);
            for listener in listeners {
                visit_all(&listener.name, &mut listener.conditions, hasher, &mut each);
            }
        }
        Status::Route(route) => {
            for parent in &mut route.parents {
                visit_all(&parent.parent_ref, &mut parent.conditions, hasher, &mut each);
            }
        }
        Status::Policy(policy) => {
            for ancestor in &mut policy.ancestors {
                visit_all(&ancestor.ancestor_ref, &mut ancestor.conditions, hasher, &mut each);
            }
        }
        Status::EnvoyProxy(proxy) => {
            for ancestor in &mut proxy.ancestors {
                visit_all(&ancestor.ancestor_ref, &mut ancestor.conditions, hasher, &mut each);
            }
        }
        Status::Backend(backend) => visit_all("", &mut backend.conditions, hasher, &mut each),
    }
}

/// The conditions of one holder.
fn visit_all(
    holder: impl Hash,
    conditions: &mut [Condition],
    hasher: &Hasher,
    each: &mut impl FnMut(u64, &mut Condition),
) {
    for condition in conditions {
        each(hasher.hash_one((&holder, &*condition.condition_type)), condition);
    }
}
