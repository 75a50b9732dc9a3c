//! Tables of matches that are lost: a route whose match an older route of another namespace has as well gets no request there, and says so.
//!
//! Only hosts that several namespaces have routes on are looked at, and of these only the entries of namespaces other than the one that has most of the
//! host: each looks its match up in an index that all entries are in. So a namespace that comes to a host pays for its own routes, not for those of others.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use engine::{Chunk, Graph, Index, Members, Table};
use ir::{Route, RoutePiece};

use super::route::is_stream;
use crate::PieceKey;
use crate::hostname::Hostname;
use crate::key::{Bucket, EntryKey, Place, ProblemKey};

/// Lost matches of a route that are named. The number of the others is said.
const NAMED: usize = 4;

/// A match of a listener and host name, by a hash that only brings together what is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Claim {
    bucket: Arc<Bucket>,
    hash: u64,
}

/// A match of a route that gets nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Loss {
    route: ObjectKey,
    place: Place,
    bucket: Arc<Bucket>,
}

/// The pieces of all listeners and host names, and these pieces by those.
type Pieces = Index<Chunk<Arc<Bucket>, EntryKey>, EntryKey, Arc<Route>>;
type ByBucket = Index<Arc<Bucket>, PieceKey, Arc<RoutePiece>>;

/// Returns a problem for each route that loses matches to routes of other namespaces.
pub(super) fn problems(
    g: &mut Graph,
    entries: Table<EntryKey, Arc<Route>>,
    pieces: Pieces,
    by_bucket: ByBucket,
) -> Table<ProblemKey, Arc<Problem>> {
    // The namespace of a piece, or none if it has several. A piece that is all of its host, and of one namespace, is left out.
    let owners = g.derive_group("piece_owner", pieces, move |cx, chunk: &Chunk<_, _>, members| {
        let owner = owner(members);
        let is_alone = owner.is_some() && cx.count(by_bucket, &chunk.group) <= 1;
        (!is_alone).then(|| (PieceKey(chunk.clone()), owner))
    });
    let owners_of = g.index("piece_owner_by_bucket", owners, |key: &PieceKey, _| [key.0.group.clone()]);
    let shared = g.derive_group("shared_bucket", owners_of, |_, bucket: &Arc<Bucket>, owners| {
        Some((bucket.clone(), most(owners)?))
    });
    let by_match = g.index("entry_by_match", entries, |key: &EntryKey, route: &Arc<Route>| {
        (!is_stream(key)).then(|| claim(key, route))
    });
    let contested = g.derive("contested_match", owners, move |cx, key, owner| {
        let Some(most) = cx.get(shared, &key.0.group) else { return Vec::new() };
        if owner.as_ref() == Some(most) {
            return Vec::new();
        }
        let members = cx.members(pieces, &key.0);
        members.iter().map(|(entry, route)| ((claim(entry, route), entry.clone()), ())).collect()
    });
    let contested = g.index("contested_by_match", contested, |(claim, _): &(Claim, EntryKey), ()| [claim.clone()]);
    let contested = g.distinct("contested_claim", contested, |_, claim: &Claim| [(claim.clone(), ())]);
    let lost = g.derive("lost_match", contested, move |cx, claim, ()| lost(cx.members(by_match, claim)));
    let by_route = g.index("lost_match_by_route", lost, |loss: &Loss, _: &ObjectKey| [loss.route.clone()]);
    g.derive_group("lost_match_problem", by_route, |_, route: &ObjectKey, losses| [problem(route, losses)])
}

/// The namespace that has most pieces of a host which several have routes on: the first by name of those that have at least half as many as any, rounded
/// to a power of two, so that one route more or less seldom makes it another. None if all pieces are of one.
fn most(owners: Members<'_, PieceKey, Option<Arc<str>>>) -> Option<Arc<str>> {
    let mut counts: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    let mut is_mixed = false;
    for owner in owners.values() {
        match owner {
            Some(namespace) => *counts.entry(namespace).or_default() += 1,
            None => is_mixed = true,
        }
    }
    if counts.len() <= 1 && !is_mixed {
        return None;
    }
    let size = |count: &usize| count.next_power_of_two();
    let largest = counts.values().map(size).max();
    let most = counts.iter().find(|(_, count)| Some(size(count)) == largest);
    // All pieces are mixed: every entry is looked at.
    Some(most.map_or_else(|| "".into(), |(namespace, _)| Arc::clone(namespace)))
}

/// The namespace that all entries of a piece are of.
fn owner(members: Members<'_, EntryKey, Arc<Route>>) -> Option<Arc<str>> {
    let mut routes = members.keys().map(|key| &key.route);
    let first = routes.next()?.namespace();
    routes.all(|route| route.namespace() == first).then(|| first.into())
}

fn claim(key: &EntryKey, route: &Route) -> Claim {
    let mut hasher = DefaultHasher::new();
    route.matches.hash(&mut hasher);
    Claim { bucket: key.bucket.clone(), hash: hasher.finish() }
}

/// The entries of one match come in order of precedence: the first one has it.
fn lost(entries: Members<'_, EntryKey, Arc<Route>>) -> BTreeMap<Loss, ObjectKey> {
    let mut entries = entries.iter();
    let Some((winner, first)) = entries.next() else { return BTreeMap::new() };
    let is_lost = |key: &EntryKey, route: &Route| {
        key.route.namespace() != winner.route.namespace() && route.matches == first.matches
    };
    let loss = |key: &EntryKey| Loss { route: key.route.clone(), place: key.place, bucket: key.bucket.clone() };
    let losers = entries.filter(|(key, route)| is_lost(key, route));
    losers.map(|(key, _)| (loss(key), winner.route.clone())).collect()
}

fn problem(route: &ObjectKey, losses: Members<'_, Loss, ObjectKey>) -> (ProblemKey, Arc<Problem>) {
    let said = losses.iter().take(NAMED).map(|(loss, winner)| {
        let Place { rule, matched } = loss.place;
        let (fleet, hostname) = (&loss.bucket.listener.fleet, &loss.bucket.hostname);
        let host = if *hostname == Hostname::ANY { String::new() } else { format!(" for {}", hostname.domain()) };
        format!("those of rules[{rule}].matches[{matched}]{host} on Gateway {fleet} go to {winner}")
    });
    let said = said.collect::<Vec<_>>().join(", ");
    let more = losses.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more such matches") } else { String::new() };
    let text = format!(
        "requests do not come to this route where an older route of another namespace (older, then first by name) has the same match: {said}{more}; \
         change the match or the host name"
    );
    let path = losses.keys().next().map(|loss| format!("spec.rules[{}]", loss.place.rule)).unwrap_or_default();
    (ProblemKey::hashed(route, &["lost matches"]), Arc::new(Problem::of(route, path, Severity::Warning, text)))
}
