//! Tables of the budget of route entries and endpoints: which routes make too many, from all routes of a namespace in order of precedence.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ObjectKey;
use engine::{Chunk, Cx, Graph, Index, Table};
use ir::FleetName;

use super::Backends;
use crate::http_route::RouteOutcome;
use crate::key::{Age, Seniority};
use crate::route_budget::{Admission, ClusterCharge, ClusterPayer, RouteBudget};

/// A route before it is known whether it is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) age: Age,
    /// Entries that it makes, where it is attached.
    pub(super) entries: u32,
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

/// Routes that are not attached, as they make too many entries.
#[derive(Clone, Copy)]
pub(super) struct Budgets {
    budget: RouteBudget,
    /// Namespaces whose routes make too many together: all their routes ask, and most find none.
    crowded: Table<Arc<str>, ()>,
    /// Routes of these that come too late.
    late: Table<ObjectKey, ()>,
    /// Routes whose clusters have too many endpoints, with the Gateways where that is so.
    endpoints: Index<ObjectKey, (ObjectKey, FleetName), ()>,
}

impl Budgets {
    /// Decides whether a route is attached.
    pub(super) fn admission(&self, cx: &mut Cx<'_>, route: &ObjectKey, draft: &Draft) -> Admission {
        if draft.entries > self.budget.route() {
            return Admission::Refused(self.budget);
        }
        if cx.contains(self.crowded, &Arc::from(route.namespace())) && cx.contains(self.late, route) {
            return Admission::Crowded(self.budget);
        }
        if cx.any(self.endpoints, route) {
            return Admission::Endpoints(self.budget);
        }
        Admission::AtMost(u32::MAX)
    }
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
        let counts = (1..=budget.route()).contains(&draft.entries);
        counts.then(|| (Seniority { age: draft.age, object: key.clone() }, draft.entries))
    });
    let by_namespace =
        g.index("route_entries_by_namespace", entries, |key: &Seniority, _| [Arc::<str>::from(key.object.namespace())]);
    let pieces = g.chunks("route_entries_by_piece", by_namespace, PIECE);
    let sums = g.group("route_entries_of_piece", pieces, |_, _, members| {
        members.values().map(|entries| u64::from(*entries)).sum::<u64>()
    });
    let sums =
        g.index("piece_sum_by_namespace", sums, |piece: &Chunk<Arc<str>, Seniority>, _| [Arc::clone(&piece.group)]);
    let crowded = g.derive_group("crowded_namespace", sums, move |_, namespace, sums| {
        let all: u64 = sums.values().sum();
        (all > u64::from(budget.namespace)).then(|| (Arc::clone(namespace), ()))
    });
    // One that does not fit in costs those behind it nothing.
    let late = g.derive("late_route", crowded, move |cx, namespace, ()| {
        let mut left = budget.namespace;
        let members = cx.members(by_namespace, namespace);
        let late = members.iter().filter(|(_, entries)| match left.checked_sub(**entries) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        late.map(|(key, _)| (key.object.clone(), ())).collect::<Vec<_>>()
    });
    let endpoints = late_by_endpoints(g, drafts, backends, budget);
    Budgets { budget, crowded, late, endpoints }
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
        (all > u64::from(budget.namespace)).then(|| (payer.clone(), ()))
    });
    // A cluster is paid for by the oldest route that has it. One that does not fit in costs those behind it nothing.
    let late = g.derive("route_late_by_endpoints", crowded, move |cx, payer, ()| {
        let (mut left, mut paid) = (budget.namespace, BTreeSet::new());
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
