//! Tables of the budget of route entries: which routes make too many, from all routes of a namespace in order of precedence.

use std::sync::Arc;

use api::ObjectKey;
use engine::{Chunk, Cx, Graph, Table};

use crate::http_route::RouteOutcome;
use crate::key::{Age, Seniority};
use crate::route_budget::{Admission, RouteBudget};

/// A route before it is known whether it is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) age: Age,
    /// Entries that it makes, where it is attached.
    pub(super) entries: u32,
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
        Admission::AtMost(u32::MAX)
    }
}

/// Adds up what routes make, in pieces: a change costs its piece and one sum for each piece of its namespace. Only where these are too many all routes
/// of the namespace are gone through.
pub(super) fn budgets(g: &mut Graph, drafts: Table<ObjectKey, Draft>, budget: RouteBudget) -> Budgets {
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
    Budgets { budget, crowded, late }
}
