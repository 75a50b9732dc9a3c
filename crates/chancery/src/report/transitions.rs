//! When each condition last changed its status (`lastTransitionTime`): a transition is a change of `status`, nothing else.

use api::status::{Condition, ConditionStatus, Status};
use api::{ObjectKey, Timestamp};
use hashbrown::HashMap as UnorderedMap;

/// The last transition of every condition of every object.
#[derive(Default)]
pub(crate) struct Transitions(UnorderedMap<ObjectKey, Box<[Transition]>>);

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
            self.0.remove(key);
            return;
        };
        let old = self.0.get(key).map(|transitions| &**transitions).unwrap_or_default();
        let mut new = Vec::new();
        visit(&mut status, |condition, seen| {
            let before =
                old.iter().find(|transition| transition.condition == condition && transition.status == seen.status);
            let since = before.map_or(now, |transition| transition.since);
            new.push(Transition { condition, status: seen.status, since });
        });
        self.0.insert(key.clone(), new.into_boxed_slice());
    }

    /// Puts the times into a status; conditions that were never noted get the start of 1970.
    pub(crate) fn fill(&self, key: &ObjectKey, status: &mut Status) {
        let known = self.0.get(key).map(|transitions| &**transitions).unwrap_or_default();
        visit(status, |condition, seen| {
            let since =
                known.iter().find(|transition| transition.condition == condition).map(|transition| transition.since);
            seen.last_transition_time = Some(since.unwrap_or(Timestamp(0)));
        });
    }
}

/// Calls with every condition of a status and a hash of where it stands.
fn visit(status: &mut Status, mut each: impl FnMut(u64, &mut Condition)) {
    let mut visit_all = |holder: &str, conditions: &mut Vec<Condition>| {
        for condition in conditions {
            let place = xxhash_rust::xxh3::xxh3_64(format!("{holder}\0{}", condition.condition_type).as_bytes());
            each(place, condition);
        }
    };
    match status {
        Status::GatewayClass(class) => visit_all("", &mut class.conditions),
        Status::Gateway(gateway) => {
            visit_all("", &mut gateway.conditions);
            for listener in &mut gateway.listeners {
                visit_all(&listener.name, &mut listener.conditions);
            }
        }
        Status::Route(route) => {
            for parent in &mut route.parents {
                visit_all(&format!("{:?}", parent.parent_ref), &mut parent.conditions);
            }
        }
        Status::Policy(policy) => {
            for ancestor in &mut policy.ancestors {
                visit_all(&format!("{:?}", ancestor.ancestor_ref), &mut ancestor.conditions);
            }
        }
        Status::EnvoyProxy(proxy) => {
            for ancestor in &mut proxy.ancestors {
                visit_all(&format!("{:?}", ancestor.ancestor_ref), &mut ancestor.conditions);
            }
        }
        Status::Backend(backend) => visit_all("", &mut backend.conditions),
    }
}
