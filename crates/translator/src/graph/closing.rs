//! Tables of the objects that policies close because they guard with fields which are not built.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::status::PolicyStatus;
use api::{Kind, Labels, ObjectKey, ReferenceGrant};
use engine::{Cx, Graph, Index, Table};

use super::status::Sources;
use super::{Base, Settings};
use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::closing::{
    self, Anchor, Attached, Closers, Closing, ClosingClaim, Pattern, PatternPolicies, Reach, Selecting,
};
use crate::gateway::{self, GatewayPlan};
use crate::listener::Namespaces;
use crate::lookup::{GrantIndex, HasGrants, Reader, selects_namespace};
use crate::reference::{Reference, permit};
use crate::status::policy::{Reached, Standing};
use crate::status::unsupported;

mod selected;

/// The closed objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closings {
    /// Every policy, whether it closes anything or not.
    pub(crate) policies: Table<ObjectKey, Arc<Attached>>,
    /// Routes, Gateways and `ListenerSet`s with policies that close them: few, if any.
    pub(crate) objects: [Table<ObjectKey, Arc<Closing>>; 3],
    /// Closed routes by namespace: most namespaces have none, and their routes ask no more than that.
    routes: Index<Arc<str>, ObjectKey, Arc<Closing>>,
}

/// A selector of a policy, by its number.
type SelectorKey = (ObjectKey, u32);

/// Namespaces of policies that may select, by namespace and kind of what is selected.
type ForeignTable = Table<(Arc<str>, Kind), Arc<[Arc<str>]>>;

/// Claims of policies, by the ways in which a target finds them.
#[derive(Clone, Copy)]
struct Claims {
    grants: GrantIndex,
    namespaces: Table<ObjectKey, Arc<Labels>>,
    settings: Settings,
    /// Policies that close something, by their namespace.
    own: Index<Arc<str>, ObjectKey, Arc<Attached>>,
    /// Other namespaces whose policies may select, by namespace and kind of what is selected.
    foreign: ForeignTable,
    named: Index<ObjectKey, ClosingClaim, Arc<str>>,
    /// Each selector once, however many policies have it.
    patterns: Index<Anchor, Arc<Pattern>, Arc<PatternPolicies>>,
}

impl HasGrants for Claims {
    fn grants(&self) -> GrantIndex {
        self.grants
    }
}

pub(super) fn closings(g: &mut Graph, base: &Base) -> Closings {
    let Base { inputs, grants, namespaces, settings, .. } = *base;
    let policies = g.map("attached_policy", inputs.attachments, |_, _, policy| Arc::new(closing::read(policy)));
    let own = g.index("closing_policy_by_namespace", policies, |key: &ObjectKey, policy: &Arc<Attached>| {
        policy.lack.is_some().then(|| Arc::<str>::from(key.namespace()))
    });
    let foreign = foreign(g, policies, inputs.reference_grants);
    let named = g.derive("closing_claim", policies, |_, key, policy| policy.claims(key));
    let named = g.index("closing_claim_by_object", named, |claim: &ClosingClaim, _| [claim.target.object.clone()]);
    let patterns = patterns(g, policies);
    let claims = Claims { grants, namespaces, settings, own, foreign, named, patterns };
    let routes =
        g.derive("route_closing", inputs.routes, move |cx, key, route| claims.row(cx, key, &route.meta().labels));
    let gateways =
        g.derive("gateway_closing", inputs.gateways, move |cx, key, gateway| claims.row(cx, key, &gateway.meta.labels));
    let sets = g.derive("listener_set_closing", inputs.listener_sets, move |cx, key, set| {
        claims.row(cx, key, &set.meta.labels)
    });
    let by_namespace = g.index("route_closing_by_namespace", routes, |key: &ObjectKey, _| [key.namespace().into()]);
    Closings { policies, objects: [routes, gateways, sets], routes: by_namespace }
}

/// Selectors of policies that close, each once, by what finds them.
fn patterns(
    g: &mut Graph,
    policies: Table<ObjectKey, Arc<Attached>>,
) -> Index<Anchor, Arc<Pattern>, Arc<PatternPolicies>> {
    let selectors = g.derive("closing_selector", policies, |_, key: &ObjectKey, policy: &Arc<Attached>| {
        let row = |(number, selecting): (u32, &Arc<Selecting>)| ((key.clone(), number), selecting.clone());
        policy.selecting().map(row).collect::<Vec<_>>()
    });
    let selectors = g.index("closing_selector_by_pattern", selectors, |_: &SelectorKey, selecting: &Arc<Selecting>| {
        [selecting.pattern.clone()]
    });
    let patterns = g.group("closing_pattern", selectors, |_, _, members| {
        Arc::new(PatternPolicies::of(members.iter().map(|((policy, _), selecting)| (policy, &selecting.words))))
    });
    g.index("closing_pattern_by_anchor", patterns, |pattern: &Arc<Pattern>, _| pattern.anchors().collect::<Vec<_>>())
}

/// Namespaces of policies that select in others where a grant there names them. Others cost nothing there, however many policies they have.
fn foreign(
    g: &mut Graph,
    policies: Table<ObjectKey, Arc<Attached>>,
    grants: Table<ObjectKey, Arc<ReferenceGrant>>,
) -> ForeignTable {
    let outward = g.index("outward_policy_by_namespace", policies, |key: &ObjectKey, policy: &Arc<Attached>| {
        let is_outward = policy.selecting().any(|(_, selecting)| selecting.pattern.namespaces != Namespaces::Same);
        is_outward.then(|| Arc::<str>::from(key.namespace()))
    });
    let granted = g.index("policy_grant_by_target", grants, |_, grant: &Arc<ReferenceGrant>| closing::granted(grant));
    g.derive_group("policy_namespace_by_target", granted, move |cx, of: &(Arc<str>, Kind), grants| {
        let (own, _) = of;
        let named = grants.values().flat_map(|grant| grant.spec.from.iter());
        let named = named.filter(|from| closing::is_policy(from) && *from.namespace != **own);
        let mut found: BTreeSet<Arc<str>> = named.map(|from| Arc::from(&*from.namespace)).collect();
        found.retain(|namespace| cx.any(outward, namespace));
        (!found.is_empty()).then(|| (of.clone(), found.into_iter().collect()))
    })
}

impl Claims {
    fn row(self, cx: &mut Cx<'_>, object: &ObjectKey, labels: &Labels) -> Option<(ObjectKey, Arc<Closing>)> {
        let closing = self.closers(cx, object, labels)?.closing(!self.settings.closes_unsupported(cx))?;
        Some((object.clone(), Arc::new(closing)))
    }

    /// The policies that close an object; none if there can be none.
    fn closers(self, cx: &mut Cx<'_>, object: &ObjectKey, labels: &Labels) -> Option<Closers> {
        let (kind, own) = (object.kind()?, Arc::<str>::from(object.namespace()));
        let is_own = cx.any(self.own, &own);
        let others = cx.get(self.foreign, &(own.clone(), kind));
        if !is_own && others.is_none() {
            return None;
        }
        let mut found = Closers::default();
        if is_own {
            for (claim, words) in cx.members(self.named, object).iter() {
                found.named(claim, words);
            }
        }
        let mut is_done = is_own && !self.select(cx, (&own, Reach::Own), (object, labels), &mut found);
        for namespace in others.into_iter().flat_map(|others| others.iter()) {
            for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_attached()) {
                is_done = is_done
                    || self.is_granted(cx, &ObjectKey::of(kind, namespace, ""), object)
                        && !self.select(cx, (namespace, Reach::Others(kind)), (object, labels), &mut found);
            }
        }
        Some(found)
    }

    /// Returns true if a grant lets policies like this one, of another namespace, close an object. What it does not name costs the object no step.
    fn is_granted(self, cx: &mut Cx<'_>, policy: &ObjectKey, object: &ObjectKey) -> bool {
        permit(&mut Reader { cx, tables: self }, policy, Reference::to(object)).is_ok()
    }

    /// Adds the policies of a namespace that select an object. False: no more need to be found.
    fn select(
        self,
        cx: &mut Cx<'_>,
        (namespace, reach): (&Arc<str>, Reach),
        (object, labels): (&ObjectKey, &Labels),
        found: &mut Closers,
    ) -> bool {
        if !found.step(namespace) {
            return false;
        }
        for anchor in Anchor::of((namespace, reach), object, labels) {
            for (pattern, policies) in cx.members(self.patterns, &anchor).iter() {
                if !found.step(namespace) {
                    return false;
                }
                let is_for = pattern.selects(object.name(), labels) && self.is_for(cx, policies, pattern, object);
                if is_for && !found.selected(pattern, policies) {
                    return false;
                }
            }
        }
        true
    }

    /// Returns true if policies, which may close an object, select in its namespace.
    fn is_for(self, cx: &mut Cx<'_>, policies: &PatternPolicies, pattern: &Pattern, object: &ObjectKey) -> bool {
        // All policies of a pattern are of one namespace.
        let Some((policy, _)) = policies.first.first() else { return false };
        let namespace = object.namespace();
        let selects = |selector: &_| selects_namespace(cx, self.namespaces, selector, namespace);
        let is_own = policy.namespace() == namespace;
        is_own || pattern.namespaces.admit(policy.namespace(), namespace, selects)
    }
}

impl Closings {
    /// Returns the parts of a Gateway, a set or a route that policies close.
    pub(crate) fn of<'g>(&self, cx: &mut Cx<'g>, object: &ObjectKey) -> Option<&'g Arc<Closing>> {
        let [routes, gateways, sets] = self.objects;
        match object.kind()? {
            Kind::Gateway => cx.get(gateways, object),
            Kind::ListenerSet => cx.get(sets, object),
            // One question that all routes of a namespace share, before the one of this route.
            _ if cx.any(self.routes, &Arc::from(object.namespace())) => cx.get(routes, object),
            _ => None,
        }
    }

    /// The same of a route, from outside.
    pub(crate) fn of_route<'g>(&self, graph: &'g Graph, route: &ObjectKey) -> Option<&'g Arc<Closing>> {
        let [routes, ..] = self.objects;
        graph.get(routes, route)
    }

    /// Listeners of a Gateway and its sets that nothing may pass, by their ids, with the reasons.
    pub(crate) fn listeners(
        &self,
        cx: &mut Cx<'_>,
        gateway: &ObjectKey,
        plan: &GatewayPlan,
    ) -> BTreeMap<Arc<str>, Arc<str>> {
        let all = self.of(cx, gateway).cloned();
        let of_all = all.as_ref().and_then(|closing| closing.reason(None));
        let mut found = BTreeMap::new();
        for (set, listeners) in plan.live_by_owner() {
            let own = match set {
                None => all.clone(),
                Some(set) => self.of(cx, set).cloned(),
            };
            for listener in listeners {
                let own = || own.as_ref().and_then(|closing| closing.reason(Some(&listener.name)));
                found.extend(of_all.clone().or_else(own).map(|reason| (listener.id.clone(), reason)));
            }
        }
        found
    }
}

/// The outcome of policies at each of their targets: named ones in their order, then the ancestors of selected ones, each once.
pub(super) fn reached(g: &mut Graph, sources: &Sources) -> Table<ObjectKey, Arc<Vec<Reached>>> {
    let sources = *sources;
    let (closings, settings) = (sources.closings, sources.base.settings);
    let ancestors = selected::ancestors(g, &sources);
    g.map("attached_policy_reach", closings.policies, move |cx, key: &ObjectKey, policy: &Arc<Attached>| {
        let is_open = !settings.closes_unsupported(cx);
        let named = policy.targets.iter().map(|target| named(cx, &sources, (policy, is_open), target));
        let mut found: Vec<Reached> = named.collect();
        let selected = selected::of_policy(cx, ancestors, key, policy);
        // The words are the same for all of them.
        let standing = (!selected.is_empty()).then(|| unsupported::selected(policy, is_open));
        found.extend(selected.into_iter().zip(standing.iter().cycle()).map(|(ancestor, standing)| {
            let target = PolicyTarget { object: ancestor.clone(), section: None };
            Reached { target, ancestors: vec![ancestor], standing: standing.clone() }
        }));
        Arc::new(found)
    })
}

/// The ancestors of a target that is ours; none if it is not.
fn place(cx: &mut Cx<'_>, sources: &Sources, object: &ObjectKey) -> Option<Vec<ObjectKey>> {
    let is_ours = match object.kind() {
        Some(Kind::Gateway) => cx.contains(sources.gateways.plans, object),
        Some(Kind::ListenerSet) => cx.contains(sources.gateways.sets, object),
        _ => {
            let outcome = cx.get(sources.routes.outcomes, object)?;
            let parents = outcome.parents.iter().filter_map(|parent| gateway::of_fleet(&parent.owner.fleet));
            let mut gateways: Vec<ObjectKey> = parents.collect();
            gateways.sort_unstable();
            gateways.dedup();
            return (!gateways.is_empty()).then_some(gateways);
        }
    };
    is_ours.then(|| vec![object.clone()])
}

/// The outcome of a policy at a target that it names. Other controllers report it for their own objects.
fn named(cx: &mut Cx<'_>, sources: &Sources, (policy, is_open): (&Attached, bool), target: &Target) -> Reached {
    let fault = target.fault();
    let target = match Reached::known(target) {
        Ok(target) => target.clone(),
        Err(refused) => return refused,
    };
    let Some(ancestors) = place(cx, sources, &target.object) else {
        // In a cluster an object that is not there may be on its way, and may belong to another controller.
        let is_missing = sources.base.options.file_mode && !exists(cx, sources, &target.object);
        let standing = if is_missing { Standing::NotFound } else { Standing::Foreign };
        return Reached { target, ancestors: Vec::new(), standing };
    };
    let standing = match (lacks_section(cx, sources, &target), fault) {
        (Some(lacks), _) => lacks,
        (None, Some(fault)) if policy.lack.is_none() => Standing::Invalid(fault.clone()),
        _ => unsupported::standing(policy, &target, is_open),
    };
    Reached { target, ancestors, standing }
}

fn exists(cx: &mut Cx<'_>, sources: &Sources, object: &ObjectKey) -> bool {
    let inputs = sources.base.inputs;
    match object.kind() {
        Some(Kind::Gateway) => cx.contains(inputs.gateways, object),
        Some(Kind::ListenerSet) => cx.contains(inputs.listener_sets, object),
        _ => cx.contains(inputs.routes, object),
    }
}

/// Returns the standing of a policy whose target is a listener or rule that is not there; none if it is.
fn lacks_section(cx: &mut Cx<'_>, sources: &Sources, target: &PolicyTarget) -> Option<Standing> {
    let section = target.section.as_deref()?;
    let object = &target.object;
    let has = match object.kind() {
        Some(Kind::Gateway) => {
            let plan = cx.get(sources.gateways.plans, object)?;
            plan.own_listeners().iter().any(|listener| &*listener.name == section)
        }
        Some(Kind::ListenerSet) => {
            let plan = cx.get(sources.gateways.sets, object)?;
            plan.listeners.iter().any(|listener| &*listener.name == section)
        }
        _ => {
            let route = cx.get(sources.base.inputs.routes, object)?;
            return (!route.rule_names().contains(&section)).then_some(Standing::NoRule);
        }
    };
    (!has).then_some(Standing::NoListener)
}

/// Statuses of policies of which no field is built.
pub(super) fn statuses(
    g: &mut Graph,
    sources: &Sources,
    reached: Table<ObjectKey, Arc<Vec<Reached>>>,
) -> Table<ObjectKey, Arc<PolicyStatus>> {
    let (settings, policies) = (sources.base.settings, sources.closings.policies);
    g.derive("unbuilt_policy_status", reached, move |cx, key: &ObjectKey, reached: &Arc<Vec<Reached>>| {
        if !key.kind().is_some_and(Kind::is_unbuilt_policy) {
            return None;
        }
        let generation = cx.get(policies, key)?.generation;
        Some((key.clone(), Arc::new(unsupported::status(generation, reached, &settings.controller(cx)))))
    })
}

/// The outcome of a policy that is built in part, with the targets that the rest of it closes.
pub(super) fn with_closed(
    cx: &mut Cx<'_>,
    sources: &Sources,
    reached: Table<ObjectKey, Arc<Vec<Reached>>>,
    policy: &ObjectKey,
    own: Vec<Reached>,
) -> Vec<Reached> {
    let closes = cx.get(sources.closings.policies, policy).is_some_and(|policy| policy.lack.is_some());
    if !closes || !sources.base.settings.closes_unsupported(cx) {
        return own;
    }
    let all = cx.get(reached, policy).cloned().unwrap_or_default();
    let closed = |at: usize| all.get(at).filter(|one| matches!(one.standing, Standing::Unsupported(_))).cloned();
    let count = own.len();
    let own = own.into_iter().enumerate().map(|(at, one)| closed(at).unwrap_or(one));
    own.chain(all.iter().skip(count).cloned()).collect()
}
