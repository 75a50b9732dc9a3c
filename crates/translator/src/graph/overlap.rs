//! Tables of matches that are lost: a route whose match an older route of another namespace has as well gets no request there, and says so.
//!
//! Only hosts that several namespaces have routes on are looked at, entry by entry; all others cost a look at the namespaces of a piece that changed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use api::{ObjectKey, Problem, Severity};
use engine::{Chunk, Graph, Index, Members, Table};
use ir::{Route, RoutePiece};

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
pub(super) fn problems(g: &mut Graph, pieces: Pieces, by_bucket: ByBucket) -> Table<ProblemKey, Arc<Problem>> {
    // The namespace of a piece, or none if it has several. A piece that is all of its host, and of one namespace, is left out.
    let owners = g.derive_group("piece_owner", pieces, move |cx, chunk: &Chunk<_, _>, members| {
        let owner = owner(members);
        let is_alone = owner.is_some() && cx.count(by_bucket, &chunk.group) <= 1;
        (!is_alone).then(|| (PieceKey(chunk.clone()), owner))
    });
    let owners_of = g.index("piece_owner_by_bucket", owners, |key: &PieceKey, _| [key.0.group.clone()]);
    let shared = g.derive_group("shared_bucket", owners_of, |_, bucket: &Arc<Bucket>, owners| {
        let mut namespaces = owners.values();
        let first = namespaces.next().cloned().flatten();
        let is_shared = first.is_none() || namespaces.any(|namespace| *namespace != first);
        is_shared.then(|| (bucket.clone(), ()))
    });
    let claims = g.derive("match_claim", owners, move |cx, key, _| {
        if !cx.contains(shared, &key.0.group) {
            return Vec::new();
        }
        let members = cx.members(pieces, &key.0);
        members.iter().map(|(entry, route)| ((claim(entry, route), entry.clone()), route.clone())).collect()
    });
    let by_match = g.index("claim_by_match", claims, |(claim, _): &(Claim, EntryKey), _: &Arc<Route>| [claim.clone()]);
    let lost = g.derive_group("lost_match", by_match, |_, _: &Claim, claims| lost(claims));
    let by_route = g.index("lost_match_by_route", lost, |loss: &Loss, _: &ObjectKey| [loss.route.clone()]);
    g.derive_group("lost_match_problem", by_route, |_, route: &ObjectKey, losses| [problem(route, losses)])
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

/// The claims on one match come in order of precedence: the first one has it.
fn lost(claims: Members<'_, (Claim, EntryKey), Arc<Route>>) -> BTreeMap<Loss, ObjectKey> {
    let mut claims = claims.iter();
    let Some(((_, winner), first)) = claims.next() else { return BTreeMap::new() };
    let is_lost = |key: &EntryKey, route: &Route| {
        key.route.namespace() != winner.route.namespace() && route.matches == first.matches
    };
    let loss = |key: &EntryKey| Loss { route: key.route.clone(), place: key.place, bucket: key.bucket.clone() };
    let losers = claims.filter(|((_, key), route)| is_lost(key, route));
    losers.map(|((_, key), _)| (loss(key), winner.route.clone())).collect()
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
