//! Tables of the objects that policies close because they guard with fields which are not built.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::status::PolicyStatus;
use api::{Kind, Labels, ObjectKey, ReferenceGrant};
use engine::{Cx, Graph, Index, Table};

use super::status::Sources;
use super::{Base, Settings};
use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::closing::{self, Anchor, Attached, Closers, Closing, ClosingClaim, Selecting};
use crate::gateway::{self, GatewayPlan};
use crate::lookup::{GrantIndex, HasGrants, Reader, selects_namespace};
use crate::reference::{Reference, permit};
use crate::status::policy::{Reached, Standing};
use crate::status::unsupported;

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

/// Claims of policies, by the ways in which a target finds them.
#[derive(Clone, Copy)]
struct Claims {
    grants: GrantIndex,
    namespaces: Table<ObjectKey, Arc<Labels>>,
    settings: Settings,
    /// Policies that close something, by their namespace.
    own: Index<Arc<str>, ObjectKey, Arc<Attached>>,
    /// Grants that let policies of other namespaces select, by namespace and kind of what is selected.
    granted: Index<(Arc<str>, Kind), ObjectKey, Arc<ReferenceGrant>>,
    named: Index<ObjectKey, ClosingClaim, Arc<str>>,
    selectors: Index<Anchor, SelectorKey, Arc<Selecting>>,
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
    let granted = g.index("policy_grant_by_target", inputs.reference_grants, |_, grant: &Arc<ReferenceGrant>| {
        closing::granted(grant)
    });
    let named = g.derive("closing_claim", policies, |_, key, policy| policy.claims(key));
    let named = g.index("closing_claim_by_object", named, |claim: &ClosingClaim, _| [claim.target.object.clone()]);
    let selectors = g.derive("closing_selector", policies, |_, key: &ObjectKey, policy: &Arc<Attached>| {
        let row = |(number, selecting): (u32, &Arc<Selecting>)| ((key.clone(), number), selecting.clone());
        policy.selecting().map(row).collect::<Vec<_>>()
    });
    let selectors = g.index("closing_selector_by_anchor", selectors, |_: &SelectorKey, selecting: &Arc<Selecting>| {
        [selecting.anchor.clone()]
    });
    let claims = Claims { grants, namespaces, settings, own, granted, named, selectors };
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

impl Claims {
    fn row(self, cx: &mut Cx<'_>, object: &ObjectKey, labels: &Labels) -> Option<(ObjectKey, Arc<Closing>)> {
        let closing = self.closers(cx, object, labels)?.closing(!self.settings.closes_unsupported(cx))?;
        Some((object.clone(), Arc::new(closing)))
    }

    /// The policies that close an object; none if there can be none.
    fn closers(self, cx: &mut Cx<'_>, object: &ObjectKey, labels: &Labels) -> Option<Closers> {
        let (kind, own) = (object.kind()?, Arc::<str>::from(object.namespace()));
        // Only namespaces of policies that a grant names are looked at: others cost nothing here, however many policies they have.
        let others: BTreeSet<Arc<str>> = cx
            .members(self.granted, &(own.clone(), kind))
            .values()
            .flat_map(|grant| grant.spec.from.iter())
            .filter(|from| closing::is_policy(from) && *from.namespace != *own)
            .map(|from| Arc::from(&*from.namespace))
            .collect();
        let is_own = cx.any(self.own, &own);
        if !is_own && others.is_empty() {
            return None;
        }
        let mut found = Closers::default();
        if is_own {
            for (claim, words) in cx.members(self.named, object).iter() {
                found.named(claim, words);
            }
        }
        for namespace in others.iter().chain(is_own.then_some(&own)) {
            for anchor in Anchor::of(namespace, kind, labels) {
                for ((policy, _), selecting) in cx.members(self.selectors, &anchor).iter() {
                    if selecting.selects(object.name(), labels) && self.may_select(cx, policy, selecting, object) {
                        found.selected(policy, &selecting.words);
                    }
                }
            }
        }
        Some(found)
    }

    /// True if a policy selects in the namespace of an object, and may: into another namespace it needs a grant there.
    fn may_select(self, cx: &mut Cx<'_>, policy: &ObjectKey, selecting: &Selecting, object: &ObjectKey) -> bool {
        let namespace = object.namespace();
        let selects = |selector: &_| selects_namespace(cx, self.namespaces, selector, namespace);
        let is_own = policy.namespace() == namespace;
        (is_own || selecting.namespaces.admit(policy.namespace(), namespace, selects))
            && permit(&mut Reader { cx, tables: self }, policy, Reference::to(object)).is_ok()
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

/// The outcome of policies at each of their targets: named ones in their order, then selected ones.
pub(super) fn reached(g: &mut Graph, sources: &Sources) -> Table<ObjectKey, Arc<Vec<Reached>>> {
    let sources = *sources;
    let (closings, settings) = (sources.closings, sources.base.settings);
    let [routes, gateways, sets] = closings.objects;
    let selected = [
        selected(g, &sources, ["route_ancestor", "route_ancestor_count", "route_ancestor_by_policy"], routes),
        selected(g, &sources, ["gateway_ancestor", "gateway_ancestor_count", "gateway_ancestor_by_policy"], gateways),
        selected(g, &sources, ["set_ancestor", "set_ancestor_count", "set_ancestor_by_policy"], sets),
    ];
    g.map("attached_policy_reach", closings.policies, move |cx, key: &ObjectKey, policy: &Arc<Attached>| {
        let is_open = !settings.closes_unsupported(cx);
        let named = policy.targets.iter().map(|target| named(cx, &sources, (policy, is_open), target));
        let mut found: Vec<Reached> = named.collect();
        for index in selected {
            found.extend(cx.keys(index, key).map(|(_, ancestor)| {
                let target = PolicyTarget { object: ancestor.clone(), section: None };
                let standing = unsupported::selected(policy, is_open);
                Reached { target, ancestors: vec![ancestor.clone()], standing }
            }));
        }
        Arc::new(found)
    })
}

/// A policy with an ancestor of what it selects.
type AncestorKey = (ObjectKey, ObjectKey);

/// The ancestors of a policy's selected targets, by policy: each once, however much is selected.
fn selected(
    g: &mut Graph,
    sources: &Sources,
    [rows, counts, by_policy]: [&'static str; 3],
    objects: Table<ObjectKey, Arc<Closing>>,
) -> Index<ObjectKey, AncestorKey, usize> {
    let sources = *sources;
    let rows = g.derive(rows, objects, move |cx, object: &ObjectKey, closing: &Arc<Closing>| {
        if closing.selected_by.is_empty() {
            return Vec::new();
        }
        let ancestors = place(cx, &sources, object).unwrap_or_default();
        let row =
            |(policy, ancestor): (&ObjectKey, &ObjectKey)| ((policy.clone(), ancestor.clone(), object.clone()), ());
        let pairs =
            closing.selected_by.iter().flat_map(|policy| ancestors.iter().map(move |ancestor| (policy, ancestor)));
        pairs.map(row).collect::<Vec<_>>()
    });
    let counts = g.tally(counts, rows, |(policy, ancestor, _): &(ObjectKey, ObjectKey, ObjectKey), ()| {
        [(policy.clone(), ancestor.clone())]
    });
    g.index(by_policy, counts, |(policy, _): &AncestorKey, _| [policy.clone()])
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
