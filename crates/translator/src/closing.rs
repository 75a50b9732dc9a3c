//! Targets of policies that guard with fields which are not built: what is closed, and why.
//!
//! A policy whose guards cannot be put into effect closes what it is attached to, so that nothing passes that it would have refused. The schemas
//! say which fields guard and are not built (`api`, the word `guard`); policies of all kinds go through here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::policy_attachment::{PolicyTargetSelector, PolicyTargetsFrom};
use api::reference::PolicyTargetRef;
use api::reference_grant::GrantFrom;
use api::{Fault, FieldPath, Kind, LabelSelector, ObjectKey, PolicyAttachment, ReferenceGrant, Resource};

use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::listener::Namespaces;
use crate::reference::unfit;

pub(crate) use self::pattern::{Anchor, Pattern, PatternPolicies, Reach, Selecting};

mod pattern;

/// A policy with what of it is not built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) generation: i64,
    /// The reason why its targets are closed; none: nothing of it guards.
    pub(crate) lack: Option<Lack>,
    /// Targets that it names, all in its own namespace; one of `targetRef` comes first.
    pub(crate) targets: Vec<Target>,
    /// Number of them that `targetRef` has.
    pub(crate) single: usize,
    pub(crate) selectors: Vec<Result<Arc<Selecting>, String>>,
    /// What it may be for where that is not written so that it is certain; only of a policy that closes.
    wide: Vec<Arc<Selecting>>,
    /// The same in words, and what it selects: with [`Self::targets`] all that it closes.
    pub(crate) wide_words: Box<[Box<str>]>,
    /// Fields that are ignored, with words.
    pub(crate) ignored: Box<[Arc<str>]>,
}

/// Reasons that keep a policy from guarding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// Fields that guard and are not built.
    pub(crate) guards: Box<[FieldPath]>,
    /// The reason why it cannot be used as it is written.
    pub(crate) fault: Option<Arc<str>>,
}

/// Largest number of fields of a policy, or of policies of a target, that a message names; it counts the rest.
const MOST_NAMED: usize = 8;

impl Lack {
    /// Returns a few words: the fields, or what is wrong.
    pub(crate) fn words(&self) -> String {
        let fields = self.guards.iter().map(ToString::to_string);
        match &self.fault {
            Some(fault) if self.guards.is_empty() => format!("not usable as written: {fault}"),
            _ => listed(fields),
        }
    }
}

/// Lists the first of several, and the number of the others.
pub(crate) fn listed(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(MOST_NAMED);
    let named = texts.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Lists the first of more than that.
fn first_of(texts: impl Iterator<Item = String>) -> String {
    let named = texts.take(MOST_NAMED).collect::<Vec<_>>().join(", ");
    format!("{named} and more")
}

/// Returns true if a `ReferenceGrant` is for policies that can close their targets.
pub(crate) fn is_policy(from: &GrantFrom) -> bool {
    Kind::find(&from.group, &from.kind).is_some_and(Kind::is_attached)
}

/// The namespace and kinds of objects that a `ReferenceGrant` lets policies of other namespaces select.
pub(crate) fn granted(grant: &ReferenceGrant) -> Vec<(Arc<str>, Kind)> {
    if !grant.spec.from.iter().any(is_policy) {
        return Vec::new();
    }
    let namespace: Arc<str> = grant.meta.namespace().into();
    let kinds =
        grant.spec.to.iter().filter_map(|to| Kind::find(&to.group, &to.kind).filter(|kind| can_be_closed(*kind)));
    kinds.map(|kind| (namespace.clone(), kind)).collect()
}

/// The claim of a policy that closes on a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClosingClaim {
    pub(crate) target: PolicyTarget,
    pub(crate) policy: ObjectKey,
}

impl Attached {
    /// The claims on targets that are named, with what is lacking.
    pub(crate) fn claims(&self, policy: &ObjectKey) -> Vec<(ClosingClaim, Arc<str>)> {
        let Some(lack) = &self.lack else { return Vec::new() };
        let words: Arc<str> = lack.words().into();
        let known = self.targets.iter().filter_map(|target| match target {
            Target::Known(target) | Target::Spoilt(target, _) => {
                Some((ClosingClaim { target: target.clone(), policy: policy.clone() }, words.clone()))
            }
            Target::Refused(..) => None,
        });
        known.collect()
    }

    /// Selectors that close what they select, with their numbers.
    pub(crate) fn selecting(&self) -> impl Iterator<Item = (u32, &Arc<Selecting>)> {
        let closes = self.lack.is_some();
        let written = self.selectors.iter().map(|selector| selector.as_ref().ok());
        let all = (0_u32..).zip(written.chain(self.wide.iter().map(Some))).filter(move |_| closes);
        all.filter_map(|(number, selector)| Some((number, selector?)))
    }

    /// True if it closes more than what it is for, as that cannot be read.
    pub(crate) fn is_uncertain(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Returns true if it would close its targets, and names and selects none that is known.
    pub(crate) fn is_adrift(&self) -> bool {
        let nothing = self.targets.iter().all(|target| matches!(target, Target::Refused(..)));
        self.lack.is_some() && nothing && self.selecting().next().is_none()
    }
}

/// Reads what a policy is attached to.
pub(crate) fn read(policy: &Resource<PolicyAttachment>) -> Attached {
    let (spec, namespace) = (&policy.spec, policy.meta.namespace());
    let lacks = !spec.guards.is_empty() || spec.fault.is_some();
    let fault = spec.fault.as_deref().map(|fault| fault_words(fault).into());
    let lack = lacks.then(|| Lack { guards: spec.guards.clone(), fault });
    let single = usize::from(spec.target_ref.is_some());
    let targets = spec.targets().chain(&spec.further).enumerate().map(|(at, reference)| {
        let at = at.checked_sub(single);
        let fault = spec.target_faults.iter().find(|(item, _)| Some(*item) == at).map(|(_, fault)| fault.to_string());
        target(namespace, reference, fault)
    });
    let targets = targets.map(|target| if lacks { target.likely() } else { target });
    let words: Arc<str> = lack.as_ref().map(Lack::words).unwrap_or_default().into();
    let selectors = spec.target_selectors.iter().map(|selector| selecting(&policy.meta.key, selector, &words));
    let ignored = spec.ignored.iter().map(|fault| Arc::from(&*fault.path));
    let uncertain: BTreeSet<Uncertain> = if lacks { uncertain(spec) } else { BTreeSet::new() };
    let wide = uncertain.iter().flat_map(|one| one.selecting(&policy.meta.key, &words));
    let selected = spec.target_selectors.iter().filter(|_| lacks).filter_map(|one| Kind::of_policy_target(&one.kind));
    let selected: BTreeSet<Kind> = selected.collect();
    let selected = selected.into_iter().map(|kind| format!("each {kind} that it selects"));
    let wide_words = selected.chain(uncertain.iter().map(|one| one.words(namespace)));
    Attached {
        generation: policy.meta.generation,
        targets: targets.collect(),
        single,
        selectors: selectors.collect(),
        wide: wide.collect(),
        wide_words: wide_words.map(Into::into).collect(),
        ignored: ignored.collect(),
        lack,
    }
}

fn fault_words(fault: &Fault) -> String {
    if fault.path.is_empty() { fault.text.to_string() } else { fault.to_string() }
}

/// What a policy may be for, by what can be read of a target: in its own namespace every object of a kind, of a name, or every one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Uncertain {
    kind: Option<Kind>,
    name: Option<Arc<str>>,
}

/// The targets of a policy that are not certain. One that is for everything is for nothing else.
fn uncertain(spec: &PolicyAttachment) -> BTreeSet<Uncertain> {
    let everything = Uncertain { kind: None, name: None };
    let of_target = |target: &PolicyTargetRef| {
        let name = target.name.trim().to_ascii_lowercase();
        let name = Some(name).filter(|name| !name.is_empty()).map(Arc::from);
        Uncertain { kind: Kind::of_policy_target(&target.kind), name }
    };
    let targets = spec.targets().chain(&spec.further).map(of_target);
    let mut found: BTreeSet<Uncertain> = targets.filter(|one| one.kind.is_none() || one.name.is_none()).collect();
    let lacks_kind = |selector: &PolicyTargetSelector| Kind::of_policy_target(&selector.kind).is_none();
    if spec.for_all || spec.target_selectors.iter().any(lacks_kind) || found.contains(&everything) {
        found = BTreeSet::from([everything]);
    }
    found
}

impl Uncertain {
    fn selecting(&self, policy: &ObjectKey, words: &Arc<str>) -> impl Iterator<Item = Arc<Selecting>> {
        let kinds = closable().filter(|kind| self.kind.is_none_or(|own| own == *kind));
        kinds.map(|kind| {
            let pattern = Pattern::of_name(policy, kind, self.name.as_ref());
            Arc::new(Selecting { pattern: Arc::new(pattern), words: words.clone() })
        })
    }

    fn words(&self, namespace: &str) -> String {
        match (self.kind, &self.name) {
            (Some(kind), None) => format!("each {kind} of namespace {namespace}"),
            (None, Some(name)) => format!("each Gateway, ListenerSet and route of the name {namespace}/{name}"),
            (_, None) => format!("each Gateway, ListenerSet and route of namespace {namespace}"),
            (Some(kind), Some(name)) => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// Kinds that can be closed.
fn can_be_closed(kind: Kind) -> bool {
    matches!(kind, Kind::Gateway | Kind::ListenerSet) || kind.is_route()
}

/// All of them.
fn closable() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| can_be_closed(*kind))
}

fn no_target(group: &str, kind: &str) -> String {
    unfit(group, kind, "a target", &closable().collect::<Vec<_>>())
}

fn target(namespace: &str, reference: &PolicyTargetRef, fault: Option<String>) -> Target {
    let Some(kind) = Kind::of_policy_target(&reference.kind).filter(|_| !reference.name.is_empty()) else {
        let object = ObjectKey::new(&reference.group, &reference.kind, namespace, &reference.name);
        let text = fault.unwrap_or_else(|| no_target(&reference.group, &reference.kind));
        return Target::Refused(object, text.into());
    };
    let section = reference.section_name.as_deref().filter(|section| !section.is_empty()).map(Arc::from);
    let target = PolicyTarget { object: ObjectKey::of(kind, namespace, &reference.name), section };
    let of_kind = || (kind.name() != &*reference.kind).then(|| no_target(&reference.group, &reference.kind));
    match fault.or_else(of_kind) {
        Some(fault) => Target::Spoilt(target, fault.into()),
        None => Target::Known(target),
    }
}

impl Target {
    /// The same for an object that can be there: no name has capitals, or blanks around it.
    fn likely(self) -> Self {
        let likely = |target: PolicyTarget| {
            let name = target.object.name().trim().to_ascii_lowercase();
            let object = target.object.kind().map(|kind| ObjectKey::of(kind, target.object.namespace(), &name));
            PolicyTarget { object: object.unwrap_or(target.object), section: target.section }
        };
        match self {
            Self::Known(target) => Self::Known(likely(target)),
            Self::Spoilt(target, fault) => Self::Spoilt(likely(target), fault),
            Self::Refused(..) => self,
        }
    }
}

fn selecting(policy: &ObjectKey, selector: &PolicyTargetSelector, words: &Arc<str>) -> Result<Arc<Selecting>, String> {
    let kind = Kind::of_policy_target(&selector.kind).ok_or_else(|| no_target(&selector.group, &selector.kind))?;
    // What cannot be read of the labels selects all.
    let labels = if selector.labels.defect().is_none() { selector.labels.clone() } else { LabelSelector::default() };
    let namespaces = match selector.namespaces.as_deref() {
        None => Namespaces::Same,
        Some(namespaces) => match (&namespaces.from, &namespaces.selector) {
            (PolicyTargetsFrom::Same, _) => Namespaces::Same,
            (PolicyTargetsFrom::All, _) => Namespaces::All,
            (PolicyTargetsFrom::Selector, Some(selector)) if selector.defect().is_none() => {
                Namespaces::Selector(Arc::new(selector.clone()))
            }
            // Its own namespace is meant in any case.
            (PolicyTargetsFrom::Selector | PolicyTargetsFrom::Unknown(_), _) => Namespaces::Same,
        },
    };
    let pattern = Arc::new(Pattern::of_labels(policy, kind, labels, namespaces));
    Ok(Arc::new(Selecting { pattern, words: words.clone() }))
}

/// The parts of a Gateway, a `ListenerSet` or a route that policies close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// Such policies are allowed: nothing is closed, and it is said what is open.
    pub(crate) is_open: bool,
    /// All of it: the policies with what they lack.
    whole: Option<Arc<str>>,
    /// Listeners or rules by name.
    sections: BTreeMap<Arc<str>, Arc<str>>,
    /// Selectors that select the object, as many as are recorded.
    pub(crate) selected_by: Box<[Arc<Pattern>]>,
    /// There are more of them, or may be: not all selectors were compared.
    pub(crate) is_cut: bool,
}

/// Policies that close an object: those of all of it, and of its sections.
#[derive(Default)]
pub(crate) struct Closers {
    by_section: BTreeMap<Option<Arc<str>>, BTreeMap<ObjectKey, Arc<str>>>,
    selected_by: Vec<Arc<Pattern>>,
    /// More policies select it than those of `by_section`.
    has_more: bool,
    /// The namespace of policies whose selectors were not compared, as there were too many.
    uncompared: Option<Arc<str>>,
    steps: usize,
}

/// Largest number of steps in which one object looks for the selectors that select it: a step is a namespace of policies, or a selector compared with
/// its labels. A comparison takes some 0.1 µs to 1 µs, so 10,000 objects of a namespace cost at most 3 s, however many policies there are. What is left
/// over closes the object.
pub(crate) const MOST_STEPS: usize = 256;

impl Closers {
    /// A policy names the object, or a section of it.
    pub(crate) fn named(&mut self, claim: &ClosingClaim, words: &Arc<str>) {
        let section = claim.target.section.clone();
        self.by_section.entry(section).or_default().insert(claim.policy.clone(), words.clone());
    }

    /// Counts a step towards a selector of a namespace. False: there were all that there may be, and what is left closes the object.
    pub(crate) fn step(&mut self, namespace: &Arc<str>) -> bool {
        if self.steps >= MOST_STEPS {
            self.uncompared = Some(namespace.clone());
            return false;
        }
        self.steps += 1;
        true
    }

    /// Policies of one selector select the object. False: more selectors make no difference.
    pub(crate) fn selected(&mut self, pattern: &Arc<Pattern>, policies: &PatternPolicies) -> bool {
        if self.selected_by.len() >= MOST_NAMED {
            self.has_more = true;
            return false;
        }
        let whole = self.by_section.entry(None).or_default();
        whole.extend(policies.first.iter().cloned());
        self.has_more |= policies.has_more;
        self.selected_by.push(pattern.clone());
        true
    }

    /// Combines them; none if there are none. `is_open`: they are allowed to close nothing.
    pub(crate) fn closing(mut self, is_open: bool) -> Option<Closing> {
        if self.by_section.is_empty() && self.uncompared.is_none() {
            return None;
        }
        let words = |policies: BTreeMap<ObjectKey, Arc<str>>, has_more: bool| {
            let policies = policies.into_iter().map(|(policy, words)| format!("{policy} ({words})"));
            if has_more { first_of(policies) } else { listed(policies) }
        };
        let is_cut = self.has_more || self.uncompared.is_some();
        let whole = self.by_section.remove(&None).map(|policies| words(policies, self.has_more));
        let uncompared = self.uncompared.map(|namespace| {
            format!(
                "policies of namespace {namespace} with more selectors than are compared with one object ({MOST_STEPS})"
            )
        });
        let whole: Vec<String> = whole.into_iter().chain(uncompared).collect();
        let whole = (!whole.is_empty()).then(|| whole.join(", ").into());
        let sections = self.by_section.into_iter();
        let sections =
            sections.filter_map(|(section, policies)| Some((section?, words(policies, false).into()))).collect();
        Some(Closing { is_open, whole, sections, selected_by: self.selected_by.into(), is_cut })
    }
}

impl Closing {
    /// The policies that are about all of it.
    pub(crate) fn whole(&self) -> Option<&Arc<str>> {
        self.whole.as_ref()
    }

    /// The policies that are about a listener or rule alone.
    pub(crate) fn section(&self, name: &str) -> Option<&Arc<str>> {
        self.sections.get(name)
    }

    /// The listeners and rules that policies are about.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        self.sections.iter().map(|(name, words)| (&**name, words))
    }

    /// Returns the reason why nothing passes a listener or rule of this name, or one without a name; none if something may.
    pub(crate) fn reason(&self, section: Option<&str>) -> Option<Arc<str>> {
        let policies = self.whole().or_else(|| self.section(section?)).filter(|_| !self.is_open)?;
        Some(format!("closed by what this version does not support: {policies}").into())
    }
}

#[cfg(test)]
mod tests;
