//! Tables of changes that users make to generated resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ObjectKey;
use engine::{Cx, Graph, Index, Table};
use ir::patch::{Patch, PatchSet, PolicyPatches};
use ir::raw::RawRules;
use ir::{Cluster, ClusterName, FleetName, RawName};
use store::{ClusterState, FactKey, ListenerState, ProxyFacts, Tables};

use super::{Base, Gateways};
use crate::envoy_patch_policy::{
    self as policy, Answer, PatchKey, PatchOutcome, PatchPolicy, PatchStanding, ResourceOutcome,
};
use crate::gateway::{self, GatewayPlan};
use crate::key::{InFleet, without_tls};
use crate::listener::{ListenerPlan, listener_name};
use crate::lookup::listener_state;
use crate::output::ClusterTables;

/// What is changed, and what became of each policy.
#[derive(Clone, Copy)]
pub(crate) struct Patches {
    pub(crate) sets: Table<InFleet<RawName>, Arc<PatchSet>>,
    pub(crate) outcomes: Table<ObjectKey, Arc<PatchOutcome>>,
}

/// What can be written about by a name that is not its own: listeners by the one without an address, for all that a Gateway has; clusters of routes by
/// theirs without what depends on TLS settings, where these have something behind it: that holds whatever their settings are.
#[derive(Clone, Copy)]
struct Generated {
    gateways: Table<ObjectKey, Arc<GatewayPlan>>,
    proxies: Table<Arc<str>, Arc<ProxyFacts>>,
    clusters: Table<InFleet<ClusterName>, Arc<Cluster>>,
    by_general_name: Index<InFleet<ClusterName>, InFleet<ClusterName>, Arc<Cluster>>,
}

/// Kinds of resources for which a proxy binds addresses.
const BINDING: [&str; 2] = ["Listener", "Cluster"];

pub(super) fn patches(g: &mut Graph, base: &Base, gateways: Gateways, clusters: ClusterTables) -> Patches {
    let (inputs, settings, plans, file_mode) = (base.inputs, base.settings, gateways.plans, base.options.file_mode);
    let policies =
        g.map("patch_policy", inputs.envoy_patch_policies, |_, key, object| Arc::new(policy::read(key, object)));
    let standings = g.map("patch_standing", policies, move |cx, _, policy: &Arc<PatchPolicy>| match &policy.refused {
        _ if !settings.patches(cx) => PatchStanding::Disabled,
        Some(words) => PatchStanding::Invalid(Arc::clone(words)),
        None if !cx.contains(plans, &policy.target) => PatchStanding::NotFound,
        None => PatchStanding::Accepted,
    });
    let [of_routes, ..] = clusters;
    let by_general_name = g.index("cluster_by_general_name", of_routes, |key: &InFleet<ClusterName>, _| {
        without_tls(&key.name.0).map(|name| InFleet { fleet: key.fleet.clone(), name: ClusterName(name) })
    });
    let generated = Generated { clusters: of_routes, by_general_name, gateways: plans, proxies: inputs.proxies };
    let wanted = g.derive("patch_wanted", policies, move |cx, key, policy| {
        if cx.get(standings, key) != Some(&PatchStanding::Accepted) {
            return Vec::new();
        }
        let mut rows: BTreeMap<InFleet<RawName>, Arc<[Patch]>> = BTreeMap::new();
        for (id, patches) in &policy.patches {
            for target in generated.meant(cx, &policy.target, id) {
                // A cluster or listener can be written about by either of its names.
                let all = rows.entry(target).or_default();
                *all =
                    if all.is_empty() { Arc::clone(patches) } else { all.iter().chain(&**patches).cloned().collect() };
            }
        }
        let row = |(target, patches)| (PatchKey { target, rank: policy.rank.clone() }, patches);
        rows.into_iter().map(row).collect::<Vec<_>>()
    });
    let by_target: Index<InFleet<RawName>, PatchKey, Arc<[Patch]>> =
        g.index("patch_by_target", wanted, |key: &PatchKey, _| [key.target.clone()]);
    let sets = g.derive_group("patch_set", by_target, move |cx, target, members| {
        let refusals = cx.get(inputs.refusals, &fact(target));
        let (refused, accepted) =
            refusals.map(|known| (known.words.clone(), known.accepted.clone())).unwrap_or_default();
        let one = |(key, patches): (&PatchKey, &Arc<[Patch]>)| PolicyPatches {
            policy: policy::text(key.rank.policy()),
            patches: Arc::clone(patches),
        };
        let policies = members.iter().map(one).collect();
        // Others bind nothing.
        let binds = file_mode && BINDING.contains(&target.name.kind());
        let claimed = binds.then(|| Arc::new(gateways.claimed_by_others(cx, &target.fleet)));
        let rules = RawRules { claimed, ..settings.raw_rules(cx) };
        [(target.clone(), Arc::new(PatchSet { policies, refused, accepted, rules }))]
    });
    let outcomes = g.derive("patch_outcome", policies, move |cx, key, policy| {
        let standing = cx.get(standings, key)?.clone();
        let resources = if standing == PatchStanding::Accepted {
            resources(cx, (inputs, generated), key, policy)
        } else {
            BTreeMap::new()
        };
        Some((key.clone(), Arc::new(PatchOutcome { policy: Arc::clone(policy), standing, resources })))
    });
    Patches { sets, outcomes }
}

/// The name of a generated resource among facts of all kinds.
fn fact(target: &InFleet<RawName>) -> FactKey {
    FactKey::of_kind(Arc::clone(&target.fleet.0), target.name.kind(), &target.name.name)
}

impl Generated {
    /// The resources of a name.
    fn meant(&self, cx: &mut Cx<'_>, gateway: &ObjectKey, id: &RawName) -> Vec<InFleet<RawName>> {
        let fleet = gateway::fleet(gateway);
        let of_name = |name: Arc<str>| InFleet { fleet: fleet.clone(), name: RawName { name, ..id.clone() } };
        let general = InFleet { fleet: fleet.clone(), name: ClusterName(Arc::clone(&id.name)) };
        let found: Vec<_> = match id.kind() {
            "Cluster" | "ClusterLoadAssignment" => {
                let found: Vec<_> =
                    cx.keys(self.by_general_name, &general).map(|key| Arc::clone(&key.name.0)).collect();
                // While TLS comes or goes there is the one without as well, and it serves.
                let is_there = !found.is_empty() && cx.contains(self.clusters, &general);
                found.into_iter().chain(is_there.then(|| Arc::clone(&id.name))).collect()
            }
            "Listener" => self.listeners(cx, gateway, &id.name),
            _ => Vec::new(),
        };
        let itself = found.is_empty().then(|| Arc::clone(&id.name));
        found.into_iter().chain(itself).map(of_name).collect()
    }

    /// A listener at all addresses where it is bound, by its name without one.
    fn listeners(&self, cx: &mut Cx<'_>, gateway: &ObjectKey, name: &Arc<str>) -> Vec<Arc<str>> {
        let fleet = gateway::fleet(gateway);
        let facts = cx.get(self.proxies, &fleet.0).cloned().unwrap_or_default();
        let Some(plan) = cx.get(self.gateways, gateway) else { return Vec::new() };
        let mut sockets = plan.live_listeners().iter().map(ListenerPlan::socket);
        let Some(socket) = sockets.find(|socket| listener_name(&fleet, *socket, None).0 == *name) else {
            return Vec::new();
        };
        let places = plan.addresses.places(|address| facts.is_missing(address));
        places.into_iter().map(|place| listener_name(&fleet, socket, place).0).collect()
    }
}

fn resources(
    cx: &mut Cx<'_>,
    (inputs, generated): (Tables, Generated),
    key: &ObjectKey,
    policy: &PatchPolicy,
) -> BTreeMap<RawName, ResourceOutcome> {
    let (fleet, text) = (gateway::fleet(&policy.target), policy::text(key));
    let mut outcomes = BTreeMap::new();
    for (id, patches) in &policy.patches {
        let first = patches.first().map_or(0, |patch| patch.number);
        for target in generated.meant(cx, &policy.target, id) {
            let state = cx.get(inputs.patch_states, &fact(&target)).and_then(|states| states.get(&text)).cloned();
            let answer = answer(cx, inputs, &fleet, &target.name);
            outcomes.insert(target.name, ResourceOutcome { first, state, answer });
        }
    }
    outcomes
}

/// What proxies say to a resource that they get. Some may refuse what others take.
fn answer(cx: &mut Cx<'_>, inputs: Tables, FleetName(fleet): &FleetName, id: &RawName) -> Answer {
    let key = FactKey::new(Arc::clone(fleet), Arc::clone(&id.name));
    let live = cx.contains(inputs.fleet_live, fleet);
    let elsewhere = !live && cx.contains(inputs.live_elsewhere, fleet);
    if let Some(words) = cx.get(inputs.disputes, &FactKey::of_kind(Arc::clone(fleet), id.kind(), &id.name)) {
        return Answer::Refused(Arc::clone(words));
    }
    match id.kind() {
        "Listener" => match listener_state(cx, inputs, &key) {
            Some(ListenerState::Accepted) => return Answer::Accepted,
            Some(ListenerState::Refused(words)) => return Answer::Refused(words),
            None => return Answer::Pending,
        },
        "Cluster" => match cx.get(inputs.cluster_state, &key) {
            Some(ClusterState::Warm) => return Answer::Accepted,
            Some(ClusterState::Refused(words)) => return Answer::Refused(Arc::clone(words)),
            // Nobody tells of clusters that are warm elsewhere.
            None if elsewhere => return Answer::Accepted,
            _ => return Answer::Pending,
        },
        // Nobody tells of acknowledged endpoints.
        "ClusterLoadAssignment" => {
            if let Some(ClusterState::Refused(words)) = cx.get(inputs.cluster_state, &key) {
                return Answer::Refused(Arc::clone(words));
            }
        }
        _ => {
            if let Some(words) = cx.get(inputs.route_refusals, &key) {
                return Answer::Refused(Arc::clone(words));
            }
        }
    }
    if live || elsewhere { Answer::Accepted } else { Answer::Pending }
}
