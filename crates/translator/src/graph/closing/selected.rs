//! The Gateways that policies reach by what they select: kept by selector, not by policy and object.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::ObjectKey;
use engine::{Cx, Graph, Table};

use super::place;
use crate::closing::{Attached, Closing, Pattern};
use crate::graph::status::Sources;

/// Largest number of ancestors of a selector that its policies reach. A status has 16 entries (`MOST_ANCESTORS`) and counts the rest; each policy keeps its
/// own, so 10,000 policies of one selector keep 640,000 at most.
const MOST_REACHED: usize = 64;

/// Finds the ancestors of a policy's targets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Selector {
    Pattern(Arc<Pattern>),
    /// All selectors of a namespace, for an object there that has more of them than are recorded.
    Any(Arc<str>),
}

/// The ancestors of what is selected, by kind of object.
pub(super) type Ancestors = [Table<Selector, Arc<[ObjectKey]>>; 3];

/// An object that is selected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selected {
    by: Vec<Selector>,
    ancestors: Vec<ObjectKey>,
}

/// Declares the tables.
pub(super) fn ancestors(g: &mut Graph, sources: &Sources) -> Ancestors {
    let [routes, gateways, sets] = sources.closings.objects;
    [
        of_kind(g, sources, ["selected_route", "route_ancestor_count", "route_ancestor", "route_ancestors"], routes),
        of_kind(
            g,
            sources,
            ["selected_gateway", "gateway_ancestor_count", "gateway_ancestor", "gateway_ancestors"],
            gateways,
        ),
        of_kind(g, sources, ["selected_set", "set_ancestor_count", "set_ancestor", "set_ancestors"], sets),
    ]
}

/// The ancestors of objects of a kind. An object has at most nine selectors here, and a row for each with each of its at most 32 parents.
fn of_kind(
    g: &mut Graph,
    sources: &Sources,
    [rows, counts, by_selector, found]: [&'static str; 4],
    objects: Table<ObjectKey, Arc<Closing>>,
) -> Table<Selector, Arc<[ObjectKey]>> {
    let sources = *sources;
    let rows = g.derive(rows, objects, move |cx, object: &ObjectKey, closing: &Arc<Closing>| {
        let by: Vec<Selector> = closing.selected_by.iter().cloned().map(Selector::Pattern).collect();
        let any = closing.is_cut.then(|| Selector::Any(object.namespace().into()));
        let by: Vec<Selector> = by.into_iter().chain(any).collect();
        if by.is_empty() {
            return None;
        }
        let ancestors = place(cx, &sources, object)?;
        Some((object.clone(), Arc::new(Selected { by, ancestors })))
    });
    let counts = g.tally(counts, rows, |_: &ObjectKey, selected: &Arc<Selected>| {
        let pairs = selected.by.iter().flat_map(|by| selected.ancestors.iter().map(|one| (by.clone(), one.clone())));
        pairs.collect::<Vec<_>>()
    });
    let by_selector =
        g.index(by_selector, counts, |(selector, _): &(Selector, ObjectKey), _: &usize| [selector.clone()]);
    g.group(found, by_selector, |_, _, members| members.keys().take(MOST_REACHED).map(|(_, one)| one.clone()).collect())
}

/// The ancestors of what a policy selects.
pub(super) fn of_policy(
    cx: &mut Cx<'_>,
    tables: Ancestors,
    policy: &ObjectKey,
    attached: &Attached,
) -> BTreeSet<ObjectKey> {
    let patterns: BTreeSet<Selector> =
        attached.selecting().map(|(_, selecting)| Selector::Pattern(selecting.pattern.clone())).collect();
    let any = (!patterns.is_empty()).then(|| Selector::Any(policy.namespace().into()));
    let mut found = BTreeSet::new();
    for selector in patterns.iter().chain(&any) {
        for table in tables {
            found.extend(cx.get(table, selector).into_iter().flat_map(|all| all.iter().cloned()));
        }
    }
    found
}
