//! Tables of the budget of route entries and endpoints: which routes make too many, from all routes of a namespace in order of precedence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ObjectKey;
use engine::{Chunk, Cx, Graph, Index, Stable, StableHasher, Table};
use ir::FleetName;

use super::Backends;
use crate::http_route::RouteOutcome;
use crate::key::{Age, Seniority};
use crate::route_budget::{Admission, Claim, ClusterCharge, ClusterPayer, Exclusion, GatewayCharge, RouteBudget};

/// A route before it is known where it is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) age: Age,
    /// Entries that it makes on its Gateways, where it is attached.
    pub(super) gateways: Arc<[GatewayCharge]>,
    /// Its clusters on all its Gateways.
    pub(super) clusters: Arc<[ClusterCharge]>,
    /// Everything that follows from a small one. A large one is evaluated once more if it is attached, so that it takes no memory otherwise.
    pub(super) outcome: Option<Arc<RouteOutcome>>,
}

impl Draft {
    /// Entries of a small route. Drafts of small ones that are not attached take 100 KB each at most, some ten times as much as the object.
    pub(super) const SMALL: u32 = 1_024;
}

/// Costs that one piece has on average, as with pieces of routes.
const PIECE: usize = 128;

/// Routes that are not attached to some of their Gateways, as they make too many entries there.
#[derive(Clone, Copy)]
pub(super) struct Budgets {
    budget: RouteBudget,
    /// Namespaces whose routes make too many together: all their routes ask, and most find none.
    crowded: Table<Arc<str>, ()>,
    /// Gateways for which nothing is left.
    late: Table<Late, ()>,
    /// Routes that make too many by themselves on a default Gateway of another namespace.
    large: Index<ClusterPayer, ObjectKey, BTreeSet<FleetName>>,
    /// Routes whose clusters have too many endpoints, with the Gateways where that is so.
    endpoints: Index<ObjectKey, (ObjectKey, FleetName), ()>,
}

/// A Gateway for which a namespace has no entries left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Late {
    payer: ClusterPayer,
    /// The route; none: all that come there by default.
    route: Option<ObjectKey>,
}

impl Stable for Late {
    fn stable(&self, hasher: &mut StableHasher) {
        hasher.bytes(self.payer.namespace.as_bytes());
        hasher.bytes(self.payer.fleet.0.as_bytes());
        if let Some(route) = &self.route {
            hasher.bytes(route.kind_name().as_bytes());
            hasher.bytes(route.name().as_bytes());
        }
    }
}

impl Budgets {
    /// Decides to which of its Gateways a route is attached.
    pub(super) fn admission(&self, cx: &mut Cx<'_>, route: &ObjectKey, draft: &Draft) -> Admission {
        let namespace: Arc<str> = route.namespace().into();
        let crowded = cx.contains(self.crowded, &namespace);
        let endpoints: BTreeSet<FleetName> = match cx.any(self.endpoints, route) {
            true => cx.members(self.endpoints, route).keys().map(|(_, fleet)| fleet.clone()).collect(),
            false => BTreeSet::new(),
        };
        let mut excluded = Vec::new();
        for charge in draft.gateways.iter() {
            let payer = ClusterPayer { namespace: Arc::clone(&namespace), fleet: charge.fleet.clone() };
            let by_default = charge.claim == Claim::Default;
            let late = |route: &ObjectKey| Late { payer: payer.clone(), route: (!by_default).then(|| route.clone()) };
            let found = if by_default && cx.any(self.large, &payer) {
                Some(Exclusion::Default(self.budget))
            } else if charge.entries > self.budget.route() {
                Some(Exclusion::Large(self.budget))
            } else if crowded && cx.contains(self.late, &late(route)) {
                Some(if by_default { Exclusion::Default(self.budget) } else { Exclusion::Crowded(self.budget) })
            } else if endpoints.contains(&charge.fleet) {
                Some(Exclusion::Endpoints(self.budget))
            } else {
                None
            };
            excluded.extend(found.map(|exclusion| (charge.fleet.clone(), exclusion)));
        }
        Admission::Except(excluded)
    }
}

/// The entries of a route that count, and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Charges {
    sum: u64,
    gateways: Arc<[GatewayCharge]>,
}

/// True if a route is not too large for a Gateway by itself: else it makes no entries there.
fn fits(charge: &GatewayCharge, budget: RouteBudget) -> bool {
    (1..=budget.route()).contains(&charge.entries)
}

/// Adds up what routes make, in pieces: a change costs its piece and one sum for each piece of its namespace. Only where these are too many all routes
/// of the namespace are gone through.
pub(super) fn budgets(
    g: &mut Graph,
    drafts: Table<ObjectKey, Draft>,
    backends: Backends,
    budget: RouteBudget,
) -> Budgets {
    let entries = g.derive("route_entries", drafts, move |_, key, draft| {
        let counted = draft.gateways.iter().filter(|charge| fits(charge, budget));
        let sum: u64 = counted.map(|charge| u64::from(charge.entries)).sum();
        let charges = || Charges { sum, gateways: Arc::clone(&draft.gateways) };
        (sum > 0).then(|| (Seniority { age: draft.age, object: key.clone() }, charges()))
    });
    let by_namespace =
        g.index("route_entries_by_namespace", entries, |key: &Seniority, _| [Arc::<str>::from(key.object.namespace())]);
    let pieces = g.chunks("route_entries_by_piece", by_namespace, PIECE);
    let sums = g.group("route_entries_of_piece", pieces, |_, _, members| {
        members.values().map(|charges| charges.sum).sum::<u64>()
    });
    let sums =
        g.index("piece_sum_by_namespace", sums, |piece: &Chunk<Arc<str>, Seniority>, _| [Arc::clone(&piece.group)]);
    let crowded = g.derive_group("crowded_namespace", sums, move |_, namespace, sums| {
        let all: u64 = sums.values().sum();
        (all > u64::from(budget.namespace)).then(|| (Arc::clone(namespace), ()))
    });
    let late = g.derive("late_route", crowded, move |cx, namespace, ()| {
        let members = cx.members(by_namespace, namespace);
        let charges = members.iter().flat_map(|(key, charges)| charges.gateways.iter().map(|one| (&key.object, one)));
        late(namespace, charges.filter(|(_, charge)| fits(charge, budget)), budget)
    });
    let large = g.derive("large_default_route", drafts, move |_, key, draft| {
        let large = draft.gateways.iter();
        let large = large.filter(|charge| charge.claim == Claim::Default && charge.entries > budget.route());
        let fleets: BTreeSet<FleetName> = large.map(|charge| charge.fleet.clone()).collect();
        (!fleets.is_empty()).then(|| (key.clone(), fleets))
    });
    let large = g.index("large_default_route_by_payer", large, |key: &ObjectKey, fleets: &BTreeSet<FleetName>| {
        let payer = |fleet: &FleetName| ClusterPayer { namespace: key.namespace().into(), fleet: fleet.clone() };
        fleets.iter().map(payer).collect::<Vec<_>>()
    });
    let endpoints = late_by_endpoints(g, drafts, backends, budget);
    Budgets { budget, crowded, late, large, endpoints }
}

/// A route with what it makes on a Gateway.
type Charged<'a> = (&'a ObjectKey, &'a GatewayCharge);

/// Spends the budget of a namespace whose routes come in order of precedence. Nobody else can make its own Gateways larger, so these come first, then
/// those that routes name, then default Gateways. Of other namespaces the one whose Gateways take least comes first: one that grows pushes out only
/// itself. A route that does not fit in costs those behind it nothing. On a default Gateway all routes of the namespace are attached or none: a
/// route that guards another's paths must not be the one that is left out.
fn late<'a>(namespace: &Arc<str>, charges: impl Iterator<Item = Charged<'a>>, budget: RouteBudget) -> Vec<(Late, ())> {
    let mut of_owners: BTreeMap<(Claim, Arc<str>), Vec<Charged<'_>>> = BTreeMap::new();
    for (route, charge) in charges {
        let owner = charge.fleet.0.split_once('/').map_or("", |(namespace, _)| namespace);
        of_owners.entry((charge.claim, owner.into())).or_default().push((route, charge));
    }
    let sum = |all: &[Charged<'_>]| all.iter().map(|(_, one)| u64::from(one.entries)).sum::<u64>();
    let mut of_owners: Vec<_> = of_owners.into_iter().map(|((claim, _), all)| (claim, sum(&all), all)).collect();
    // Stable: those that take as much come by name.
    of_owners.sort_by_key(|(claim, sum, _)| (*claim, *sum));
    let (mut left, mut late) = (u64::from(budget.namespace), Vec::new());
    let mut spend = |entries: u64| left.checked_sub(entries).map(|rest| left = rest).is_some();
    let payer = |fleet: &FleetName| ClusterPayer { namespace: Arc::clone(namespace), fleet: fleet.clone() };
    for (claim, _, all) in of_owners {
        if claim != Claim::Default {
            let left_out = all.into_iter().filter(|(_, charge)| !spend(u64::from(charge.entries)));
            late.extend(
                left_out.map(|(route, charge)| Late { payer: payer(&charge.fleet), route: Some(route.clone()) }),
            );
            continue;
        }
        let mut of_gateways: BTreeMap<&FleetName, u64> = BTreeMap::new();
        for (_, charge) in all {
            *of_gateways.entry(&charge.fleet).or_default() += u64::from(charge.entries);
        }
        let mut of_gateways: Vec<_> = of_gateways.into_iter().collect();
        of_gateways.sort_by_key(|(_, entries)| *entries);
        let left_out = of_gateways.into_iter().filter(|(_, entries)| !spend(*entries));
        late.extend(left_out.map(|(fleet, _)| Late { payer: payer(fleet), route: None }));
    }
    late.into_iter().map(|late| (late, ())).collect()
}

/// Adds up the endpoints that the clusters of a namespace have on a Gateway, each cluster once. A change of endpoints costs nothing of that while it
/// stays within its step, and else the piece of the cluster and one sum for each piece of its namespace, for each Gateway.
fn late_by_endpoints(
    g: &mut Graph,
    drafts: Table<ObjectKey, Draft>,
    backends: Backends,
    budget: RouteBudget,
) -> Index<ObjectKey, (ObjectKey, FleetName), ()> {
    let of_routes = g.derive("route_clusters", drafts, |_, key, draft| {
        let key = Seniority { age: draft.age, object: key.clone() };
        (!draft.clusters.is_empty()).then(|| (key, Arc::clone(&draft.clusters)))
    });
    let by_cluster =
        g.index("charge_by_cluster", of_routes, |_: &Seniority, charges: &Arc<[ClusterCharge]>| charges.to_vec());
    let by_payer = g.index("charge_by_payer", of_routes, |_: &Seniority, charges: &Arc<[ClusterCharge]>| {
        let payers = charges.chunk_by(|one, two| one.payer == two.payer);
        payers.filter_map(|of_one| of_one.first().map(|charge| charge.payer.clone())).collect::<Vec<_>>()
    });
    let costs = g.distinct("cluster_endpoints", by_cluster, move |cx, charge: &ClusterCharge| {
        let step = backends.endpoint_step(cx, charge.target.backend());
        (step > 0).then(|| (charge.clone(), step))
    });
    let costs_of = g.index("cluster_endpoints_by_payer", costs, |charge: &ClusterCharge, _| [charge.payer.clone()]);
    let pieces = g.chunks("cluster_endpoints_by_piece", costs_of, PIECE);
    let sums = g.group("cluster_endpoints_of_piece", pieces, |_, _, members| {
        members.values().map(|step| u64::from(*step)).sum::<u64>()
    });
    let sums =
        g.index("endpoint_sum_by_payer", sums, |piece: &Chunk<ClusterPayer, ClusterCharge>, _| [piece.group.clone()]);
    let crowded = g.derive_group("crowded_payer", sums, move |_, payer, sums| {
        let all: u64 = sums.values().sum();
        (all > u64::from(budget.endpoints())).then(|| (payer.clone(), ()))
    });
    // A cluster is paid for by the oldest route that has it. One that does not fit in costs those behind it nothing.
    let late = g.derive("route_late_by_endpoints", crowded, move |cx, payer, ()| {
        let (mut left, mut paid) = (budget.endpoints(), BTreeSet::new());
        let mut late = Vec::new();
        for (key, charges) in cx.members(by_payer, payer).iter() {
            let new = charges.iter().filter(|charge| charge.payer == *payer && !paid.contains(*charge));
            let new: Vec<&ClusterCharge> = new.collect();
            let all =
                new.iter().filter_map(|charge| cx.get(costs, charge)).fold(0, |sum: u32, one| sum.saturating_add(*one));
            match left.checked_sub(all) {
                Some(rest) => {
                    left = rest;
                    paid.extend(new);
                }
                None => late.push(((key.object.clone(), payer.fleet.clone()), ())),
            }
        }
        late
    });
    g.index("late_by_endpoints", late, |(route, _): &(ObjectKey, FleetName), ()| [route.clone()])
}
