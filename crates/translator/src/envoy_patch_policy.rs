//! `EnvoyPatchPolicy` of `gateway.envoyproxy.io`: which changes of which generated resources it asks for, and what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::envoy_patch_policy::{EnvoyJsonPatch, EnvoyPatchPolicy, JsonPatchOp};
use api::tree::Verbatim;
use api::{Kind, ObjectKey, RefusalKind};
use ir::RawName;
use ir::patch::{Action, Patch, patchable};
use store::PatchState;

use crate::key::{Age, InFleet, Seniority, without_tls};
use crate::reference::unfit;

/// What a policy asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchPolicy {
    pub(crate) generation: i64,
    pub(crate) rank: PatchRank,
    pub(crate) target: ObjectKey,
    /// Why it cannot be used.
    pub(crate) refused: Option<Arc<str>>,
    /// It is not the schema that refuses it.
    pub(crate) fault_is_ours: bool,
    /// What it does, by resource, in order.
    pub(crate) patches: BTreeMap<RawName, Arc<[Patch]>>,
    /// Patches that cannot be used: numbers and words.
    pub(crate) faults: Vec<(u32, Arc<str>)>,
    /// Fields that are written and not read.
    pub(crate) ignored: Vec<String>,
}

/// In which order policies are applied: that of the lowest priority first, then the older one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PatchRank {
    priority: i32,
    seniority: Seniority,
}

impl PatchRank {
    /// Whose.
    pub(crate) fn policy(&self) -> &ObjectKey {
        &self.seniority.object
    }
}

/// What a policy does to one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PatchKey {
    pub(crate) target: InFleet<RawName>,
    pub(crate) rank: PatchRank,
}

/// The name of a policy among what becomes of patches.
pub(crate) fn text(policy: &ObjectKey) -> Arc<str> {
    format!("{}/{}", policy.namespace(), policy.name()).into()
}

/// Reads a policy.
pub(crate) fn read(key: &ObjectKey, policy: &EnvoyPatchPolicy) -> PatchPolicy {
    let spec = &policy.spec;
    let seniority = Seniority { age: Age::from(&policy.meta), object: key.clone() };
    let reference = &spec.target_ref;
    let target = ObjectKey::new(&reference.group, &reference.kind, key.namespace(), &reference.name);
    let refused = match (&spec.fault, target.kind()) {
        (Some(fault), _) => Some(fault.to_string()),
        (None, Some(Kind::Gateway)) => None,
        (None, Some(Kind::GatewayClass)) => {
            Some("a GatewayClass can be the target where its Gateways are merged, and they are not here".to_owned())
        }
        (None, _) => Some(unfit(&reference.group, &reference.kind, "a target", &[Kind::Gateway])),
    };
    let (mut found, mut faults) = (BTreeMap::<RawName, Vec<Patch>>::new(), Vec::new());
    let mut broken = BTreeSet::new();
    for (number, patch) in (0_u32..).zip(&spec.json_patches) {
        let read = resource(patch).and_then(|resource| match read_patch(number, patch) {
            Ok(patch) => Ok((resource, patch)),
            Err(words) => {
                broken.insert(resource);
                Err(words)
            }
        });
        match read {
            Ok((resource, patch)) => found.entry(resource).or_default().push(patch),
            Err(words) => faults.push((number, words.into())),
        }
    }
    // What a policy does to a resource is done whole.
    found.retain(|resource, _| !broken.contains(resource));
    PatchPolicy {
        generation: policy.meta.generation,
        rank: PatchRank { priority: spec.priority, seniority },
        target,
        refused: refused.map(Arc::from),
        fault_is_ours: spec.fault.is_none(),
        patches: found.into_iter().map(|(resource, patches)| (resource, patches.into())).collect(),
        faults,
        ignored: spec.ignored.iter().map(ToString::to_string).collect(),
    }
}

/// What a patch is about.
fn resource(patch: &EnvoyJsonPatch) -> Result<RawName, String> {
    let message = patchable(&patch.type_url).ok_or_else(|| match patch.type_url.rsplit('.').next() {
        Some("Secret") => "type: Secrets are private and cannot be patched".to_owned(),
        _ => format!("type: {} cannot be patched", patch.type_url),
    })?;
    if patch.name.is_empty() {
        return Err("name is required: resources are found by it".to_owned());
    }
    Ok(RawName { message, name: (*patch.name).into() })
}

fn read_patch(number: u32, patch: &EnvoyJsonPatch) -> Result<Patch, String> {
    let operation = &patch.operation;
    let op = &operation.op;
    let value = || match &operation.value {
        Some(Verbatim(value)) => Ok(Arc::clone(value)),
        None => Err(format!("operation.value is required: {op} needs one")),
    };
    let from = || operation.from.clone().ok_or_else(|| format!("operation.from is required: {op} needs one"));
    let action = match op {
        JsonPatchOp::Add => Action::Add(value()?),
        JsonPatchOp::Remove => Action::Remove,
        JsonPatchOp::Replace => Action::Replace(value()?),
        JsonPatchOp::Move => Action::Move(from()?),
        JsonPatchOp::Copy => Action::Copy(from()?),
        JsonPatchOp::Test => Action::Test(value()?),
        JsonPatchOp::Unknown(word) => return Err(format!("operation.op: there is no {word}")),
    };
    let query = operation.json_path.clone().filter(|query| !query.is_empty());
    Ok(Patch { number, action, query, pointer: operation.path.clone() })
}

/// What became of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchOutcome {
    pub(crate) policy: Arc<PatchPolicy>,
    pub(crate) standing: PatchStanding,
    /// Of each of its resources.
    pub(crate) resources: BTreeMap<RawName, ResourceOutcome>,
}

/// Whether a policy has any effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchStanding {
    /// It has.
    Accepted,
    /// Nobody has switched such policies on.
    Disabled,
    /// Its target is not there.
    NotFound,
    /// It cannot be used.
    Invalid(Arc<str>),
}

/// What became of a resource with the patches of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceOutcome {
    /// The number of the first patch of it.
    pub(crate) first: u32,
    /// None: nobody has looked yet.
    pub(crate) state: Option<PatchState>,
    /// What proxies say to what they get under the name.
    pub(crate) answer: Answer,
}

/// What proxies say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// They use it.
    Accepted,
    /// Nothing yet.
    Pending,
    /// They refuse it, with these words.
    Refused(Arc<str>),
}

/// What is wrong with a policy: the path of the patch, or of nothing in particular, and words.
pub(crate) fn faults(outcome: &PatchOutcome) -> Vec<PatchFault> {
    let own = outcome.policy.faults.iter();
    let own = own.map(|(number, words)| PatchFault {
        path: path(*number, ""),
        not_found: false,
        text: words.to_string(),
        refusal: None,
    });
    own.chain(outcome.resources.iter().filter_map(|(id, resource)| fault(id, resource))).collect()
}

/// Something wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchFault {
    pub(crate) path: String,
    /// There is no such resource.
    pub(crate) not_found: bool,
    pub(crate) text: String,
    /// The rule of the operator that it breaks.
    pub(crate) refusal: Option<RefusalKind>,
}

fn path(number: u32, field: &str) -> String {
    format!("spec.jsonPatches[{number}]{field}")
}

fn fault(id: &RawName, resource: &ResourceOutcome) -> Option<PatchFault> {
    let named = format!("{} {}", id.kind(), id.name);
    let fault = |number: u32, field, not_found, text| {
        Some(PatchFault { path: path(number, field), not_found, text, refusal: None })
    };
    match resource.state.as_ref()? {
        PatchState::Applied(_) => match &resource.answer {
            Answer::Refused(words) => fault(resource.first, "", false, format!("a proxy refused {named}: {words}")),
            _ => None,
        },
        PatchState::NotFound(near) => {
            let general = |name: &Arc<str>| without_tls(name).unwrap_or_else(|| Arc::clone(name));
            let near = near.iter().map(general).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" or ");
            let near = if near.is_empty() { near } else { format!("; did you mean {near}?") };
            fault(resource.first, ".name", true, format!("the proxies get no {named}{near}"))
        }
        PatchState::LeftOut(number, words, refusal) => {
            let field = if number.is_some() { ".operation" } else { "" };
            let text = format!("{words}; {named} is without the patches of this policy");
            let path = path(number.unwrap_or(resource.first), field);
            Some(PatchFault { path, not_found: false, text, refusal: *refusal })
        }
        PatchState::Refused(words) => {
            let text =
                format!("a proxy refused {named} with the patches of this policy, so it is without them: {words}");
            fault(resource.first, "", false, text)
        }
    }
}

/// Clusters that a policy names and the proxies do not get, with the resource that names them.
pub(crate) fn missing(outcome: &PatchOutcome) -> impl Iterator<Item = (&RawName, &Arc<str>)> {
    outcome.resources.iter().flat_map(|(id, resource)| {
        let clusters = match &resource.state {
            Some(PatchState::Applied(missing)) => &**missing,
            _ => &[],
        };
        clusters.iter().map(move |cluster| (id, cluster))
    })
}
