//! Generated resources with the changes that users make to them: checked like what they write themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use ir::patch::{Action, Patch, PatchSet, PolicyPatches};
use ir::raw::{RawFault, RawOutput, RawRefusal, RawRules};
use ir::{ClusterName, RawName, RawResource};
use patch::{Budget, OperationError};
use serde_json::Value as Json;
use xxhash_rust::xxh3::Xxh3;

use crate::raw::{CLUSTER, raw, read_raw};
use crate::resource::Encoded;

pub use inline::patched_bootstrap;

mod inline;
#[cfg(test)]
mod tests;

/// A generated resource, as it is without patches.
pub struct Base<'a> {
    /// Its message.
    pub bytes: &'a [u8],
    /// Whether it needs this.
    pub needs: &'a dyn Fn(&RawName) -> bool,
    /// Its hosts come one by one.
    pub vhds: bool,
}

/// A resource with its patches.
#[derive(Debug)]
pub struct Patched {
    /// None: no patch of any policy is in it.
    pub resource: Option<Encoded>,
    /// A cluster that becomes ready when somebody else has answered.
    pub slow: bool,
    /// The mark of all that is in it; 0 where nothing is.
    pub mark: u64,
    /// What it names, or would with patches that are left out: that one of these comes or goes may change what becomes of them.
    pub names: BTreeSet<RawName>,
    /// What became of each policy, in their order.
    pub outcomes: Vec<PatchOutcome>,
}

/// What became of the patches of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchOutcome {
    /// They are in the resource. Clusters that they name and the fleet does not have.
    Applied(Vec<Arc<str>>),
    /// There is no such resource.
    NotFound,
    /// They are left out: the number of the one that is to blame, if it is one, why, and the rule of the operator that they break.
    LeftOut(Option<u32>, String, Option<RawRefusal>),
    /// They are left out, because a proxy has refused the resource with them.
    Refused(Arc<str>),
}

/// Of a policy that is about to be tried.
const WAITS: &str = "it waits until proxies have answered to those before it, since they refused the resource with all";

/// Patches of one policy for one resource: each looks at the whole resource, and all share the budget of the resource.
const MOST_PATCHES: usize = 1_000;

/// Mistakes in a patched resource that are listed.
const LISTED: usize = 3;

/// Applies the patches of all policies to a resource, in their order; none as base: there is no such resource. A policy of which something
/// cannot be done, or with which the checks refuse the resource, is left out whole, and so is one for which the budget of the resource has no
/// work left. `has` says what the fleet has besides.
pub fn patched(
    id: &RawName,
    base: Option<&Base<'_>>,
    set: &PatchSet,
    has: &mut dyn FnMut(&RawName) -> bool,
) -> Patched {
    let mut current: Option<Arc<RawResource>> = None;
    let (mut mark, mut outcomes, mut names) = (0, Vec::with_capacity(set.policies.len()), BTreeSet::new());
    let printed = base.map(|base| print(id, base.bytes)).transpose();
    let mut budget = Budget::of(set.policies.iter().flat_map(values).chain(printed.iter().flatten()));
    // Of a resource that was refused nobody says which patches are to blame: from then on each waits for the answer to those before it.
    let is_sure = |mark: u64| mark == 0 || set.refused.is_empty() || set.accepted.contains(&mark);
    for policy in &set.policies {
        if budget.is_spent() || values(policy).try_for_each(|value| budget.read(value)).is_err() {
            outcomes.push(left_out(OperationError::Spent));
            continue;
        }
        let next = mark_of(mark, policy);
        if let Some(words) = set.refused.get(&next) {
            outcomes.push(PatchOutcome::Refused(Arc::clone(words)));
            continue;
        }
        if !is_sure(mark) {
            outcomes.push(left_out(WAITS));
            continue;
        }
        let before = match &current {
            Some(current) => print(id, &encode(Arc::clone(current), Vec::new()).body.concat()).map(Some),
            None => printed.clone(),
        };
        let applied = before.and_then(|before| apply(id, base, before, (policy, &set.rules), &mut budget));
        outcomes.push(match applied {
            Err(outcome) => outcome,
            Ok(resource) => {
                names.extend(resource.names.iter().cloned());
                match missing(base, &resource, has) {
                    Err(words) => left_out(words),
                    Ok(clusters) => {
                        (mark, current) = (next, Some(resource));
                        PatchOutcome::Applied(clusters)
                    }
                }
            }
        });
    }
    let Some(resource) = current else {
        return Patched { resource: None, slow: false, mark, names, outcomes };
    };
    let known = |name: &&RawName| has(name) || base.is_some_and(|base| (base.needs)(name));
    let needs = resource.names.iter().filter(known).cloned().collect();
    let slow = resource.slow;
    let encoded = encode(resource, needs);
    Patched { resource: Some(encoded), slow, mark, names, outcomes }
}

fn encode(resource: Arc<RawResource>, needs: Vec<RawName>) -> Encoded {
    let parts = resource.parts.iter().map(|part| Arc::clone(&part.bytes)).collect();
    raw(&RawOutput { resource, parts, needs }, None)
}

fn left_out(text: impl ToString) -> PatchOutcome {
    PatchOutcome::LeftOut(None, text.to_string(), None)
}

/// Returns the JSON form of a message.
fn print(id: &RawName, bytes: &[u8]) -> Result<Json, PatchOutcome> {
    protojson::to_proto_json(id.message, bytes).map_err(left_out)
}

/// Returns the values of a policy's patches.
fn values(policy: &PolicyPatches) -> impl Iterator<Item = &Json> {
    policy.patches.iter().filter_map(|patch| match &patch.action {
        Action::Add(value) | Action::Replace(value) | Action::Test(value) => Some(&**value),
        Action::Remove | Action::Move(_) | Action::Copy(_) => None,
    })
}

/// The mark of a policy on top of others.
fn mark_of(before: u64, policy: &PolicyPatches) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(policy.policy.as_bytes());
    policy.patches.iter().for_each(|patch| hasher.update(format!("\n{patch:?}").as_bytes()));
    // 0 is that of nothing.
    hasher.digest().max(1)
}

/// The resource with the patches of one policy more. It does nothing that the operator does not allow, but for what it does without patches.
fn apply(
    id: &RawName,
    base: Option<&Base<'_>>,
    before: Option<Json>,
    (policy, rules): (&PolicyPatches, &RawRules),
    budget: &mut Budget,
) -> Result<Arc<RawResource>, PatchOutcome> {
    before.iter().try_for_each(|before| budget.read(before)).map_err(left_out)?;
    if policy.patches.len() > MOST_PATCHES {
        return Err(left_out(format!("the policy has more than {MOST_PATCHES} patches of this resource")));
    }
    let operate = |document, patch| operate(document, patch, budget).map(Some);
    let document = policy.patches.iter().try_fold(before, operate)?;
    document.iter().try_for_each(|document| budget.read(document)).map_err(left_out)?;
    let reading = read_raw(id.message, &document.unwrap_or_default(), true);
    let Some(resource) = reading.resource else { return Err(left_out(listed(&reading.errors))) };
    if resource.id.name != id.name {
        let text = format!("the name of a resource cannot be changed, and would be {}", resource.id.name);
        return Err(left_out(text));
    }
    let refused = rules.refuse(&resource, || base.and_then(|base| without_patches(id, base)));
    if !refused.is_empty() {
        let refusal = refused.iter().find_map(|fault| fault.refusal);
        return Err(PatchOutcome::LeftOut(None, listed(&refused), refusal));
    }
    if base.is_some_and(|base| base.vhds) != resource.tail.is_some() {
        return Err(left_out("whether hosts come one by one (vhds) cannot be changed"));
    }
    Ok(resource)
}

/// One operation. What is not there can only be added as a whole.
fn operate(document: Option<Json>, patch: &Patch, budget: &mut Budget) -> Result<Json, PatchOutcome> {
    let makes = matches!(patch.action, Action::Add(_)) && patch.query.is_none() && patch.pointer.is_empty();
    let mut document = match document {
        Some(document) => document,
        None if makes => Json::Null,
        None => return Err(PatchOutcome::NotFound),
    };
    let action = match &patch.action {
        Action::Add(value) => patch::Action::Add(value),
        Action::Remove => patch::Action::Remove,
        Action::Replace(value) => patch::Action::Replace(value),
        Action::Move(from) => patch::Action::Move(from),
        Action::Copy(from) => patch::Action::Copy(from),
        Action::Test(value) => patch::Action::Test(value),
    };
    let place = patch::Place { query: patch.query.as_deref(), pointer: &patch.pointer };
    patch::apply(&mut document, action, place, budget)
        .map_err(|error| PatchOutcome::LeftOut(Some(patch.number), with_nearest(&error), None))?;
    Ok(document)
}

fn with_nearest(error: &OperationError) -> String {
    let near = match error {
        OperationError::Missing { name, members, .. } => protojson::nearest(name, members.iter().map(String::as_str)),
        _ => None,
    };
    near.map_or_else(|| error.to_string(), |near| format!("{error}; did you mean {near}?"))
}

fn listed(errors: &[RawFault]) -> String {
    let one = |fault: &RawFault| {
        if fault.path.is_empty() { fault.text.to_string() } else { format!("{}: {}", fault.path, fault.text) }
    };
    let mut texts: Vec<String> = errors.iter().take(LISTED).map(one).collect();
    if errors.len() > LISTED {
        texts.push(format!("{} more", errors.len() - LISTED));
    }
    texts.join("; ")
}

/// Clusters that patches name and the fleet does not have: a proxy's own bootstrap may. Of everything else a proxy would wait for what it does not
/// get, and so would all that is in the resource besides.
fn missing(
    base: Option<&Base<'_>>,
    resource: &RawResource,
    has: &mut dyn FnMut(&RawName) -> bool,
) -> Result<Vec<Arc<str>>, String> {
    let mut missing: Vec<&RawName> = resource.names.iter().filter(|name| !has(name)).collect();
    missing.retain(|name| *name.name != *ClusterName::INVALID);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let before = base.map(|base| named_by(&resource.id, base)).unwrap_or_default();
    missing.retain(|name| !before.contains(name));
    if let Some(waited) = missing.iter().find(|name| name.message != CLUSTER) {
        return Err(format!("it would wait for {} {}, which these proxies do not get", waited.kind(), waited.name));
    }
    Ok(missing.into_iter().map(|name| Arc::clone(&name.name)).collect())
}

/// What a resource names without patches.
fn named_by(id: &RawName, base: &Base<'_>) -> BTreeSet<RawName> {
    without_patches(id, base).map(|resource| resource.names.iter().cloned().collect()).unwrap_or_default()
}

fn without_patches(id: &RawName, base: &Base<'_>) -> Option<Arc<RawResource>> {
    let json = protojson::to_proto_json(id.message, base.bytes).ok()?;
    read_raw(id.message, &json, false).resource
}
