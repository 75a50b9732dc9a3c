//! Routes: one `ir::Route` becomes one Envoy route, or several where its destinations differ in what Envoy can say only per
//! route. This is the hot path: each route is built once and encoded once, as a field of its virtual host.

mod cors;
pub(crate) mod external_auth;
mod forward;
mod headers;
mod matches;
mod mirror;
pub(crate) mod over_budget;
mod path;
mod redirect;
mod retry;
pub(crate) mod session;
mod spelling;
#[cfg(test)]
mod tests;
pub(crate) mod whole_body;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ir::route::{Action, Filters, Respond};
use ir::{ClusterName, RoutePiece};
use prost_types::{Struct, Value, value::Kind};
use proto::envoy::config::core::v3::Metadata;
use proto::envoy::config::route::v3::{DirectResponseAction, Route, route};
use proto::google::protobuf::Any;
use xxhash_rust::xxh3::xxh3_128;

use crate::resource::{EncodedPiece, cluster_needs};

/// The number of `routes` in `envoy.config.route.v3.VirtualHost`.
const ROUTES_FIELD: u32 = 3;

/// The key under which a route's metadata says why it answers by itself.
const METADATA_NAMESPACE: &str = "chancery";

/// Encodes a run of routes. Equal pieces have equal bytes, whatever virtual host they are in.
///
/// Of `before`, an earlier version with its encoding, the routes are taken over that stand at the beginning and at the end and are
/// the very same: a change of one route costs little more than that route.
pub fn route_piece(piece: &RoutePiece, before: Option<(&RoutePiece, &EncodedPiece)>) -> EncodedPiece {
    let (old, encoded) = before.map_or((&[][..], &[][..]), |(old, encoded)| (&old.routes[..], &encoded.ends[..]));
    let (first, last) = same_at_both_ends(&piece.routes, old);
    let end = |routes: usize| routes.checked_sub(1).and_then(|at| encoded.get(at)).map_or(0, |end| *end as usize);
    let (kept, rest) = (end(first), end(old.len() - last));
    let bytes_before = before.map_or(&[][..], |(_, encoded)| &encoded.bytes[..]);
    let changed = piece.routes.get(first..piece.routes.len() - last).unwrap_or_default();

    let mut bytes = Vec::with_capacity(bytes_before.len() + changed.len() * 192);
    let mut ends = Vec::with_capacity(piece.routes.len());
    let mut clusters = Vec::with_capacity(changed.len());
    bytes.extend_from_slice(bytes_before.get(..kept).unwrap_or_default());
    ends.extend_from_slice(encoded.get(..first).unwrap_or_default());
    for route in changed {
        each(route, &mut clusters, |route| prost::encoding::message::encode(ROUTES_FIELD, &route, &mut bytes));
        ends.push(position(bytes.len()));
    }
    let moved = bytes.len();
    bytes.extend_from_slice(bytes_before.get(rest..).unwrap_or_default());
    let behind = encoded.get(old.len() - last..).unwrap_or_default();
    ends.extend(behind.iter().map(|end| position(*end as usize - rest + moved)));

    let was = old.get(first..old.len() - last).unwrap_or_default();
    let clusters = match before {
        Some((_, encoded)) if needs_of(was) == cluster_needs(clusters.clone()) => encoded.clusters.clone(),
        None => cluster_needs(clusters).into(),
        Some(_) => needs_of(&piece.routes).into(),
    };
    // exactly as long as they are: there are many, and they live long
    let bytes = Bytes::from(bytes.into_boxed_slice());
    EncodedPiece { hash: xxh3_128(&bytes), bytes, ends: ends.into(), clusters }
}

/// How many routes are the very same at the beginning and, apart from those, at the end.
fn same_at_both_ends(new: &[Arc<ir::Route>], old: &[Arc<ir::Route>]) -> (usize, usize) {
    let same = |(new, old): &(&Arc<ir::Route>, &Arc<ir::Route>)| Arc::ptr_eq(new, old);
    let first = new.iter().zip(old).take_while(same).count();
    let shorter = new.len().min(old.len()) - first;
    (first, new.iter().rev().zip(old.iter().rev()).take(shorter).take_while(same).count())
}

/// A piece has at most some hundred routes: its bytes end far below 4 GiB.
fn position(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The clusters that routes name.
fn needs_of(routes: &[Arc<ir::Route>]) -> Vec<ClusterName> {
    let mut clusters = Vec::with_capacity(routes.len());
    for route in routes {
        note_clusters(route, &mut clusters);
    }
    cluster_needs(clusters)
}

/// The clusters that a route names, its filters included.
fn note_clusters(route: &ir::Route, clusters: &mut Vec<ClusterName>) {
    external_auth::note_clusters(&route.filters, clusters);
    if let Action::Forward(forward) = &route.action {
        forward::note_clusters(route, forward, clusters);
    }
}

/// The same as messages, for configurations that are written whole.
pub(crate) fn messages(piece: &RoutePiece) -> Vec<Route> {
    let mut routes = Vec::with_capacity(piece.routes.len());
    for route in &piece.routes {
        each(route, &mut Vec::new(), |route| routes.push(route));
    }
    routes
}

/// Builds the Envoy routes of one route in order of precedence, and notes the clusters that they name.
fn each(route: &ir::Route, clusters: &mut Vec<ClusterName>, mut emit: impl FnMut(Route)) {
    note_clusters(route, clusters);
    let mut emit = |message: Route| {
        if let Some(preflight) = cors::preflight(&message) {
            emit(preflight);
        }
        emit(message);
    };
    match &route.action {
        Action::Forward(forward) => forward::routes(route, forward, emit),
        Action::Redirect(redirect) => redirect::routes(base(route), &route.filters, redirect, emit),
        Action::Respond(respond) => emit(respond_route(route, respond)),
    }
}

/// Name and match: what every Envoy route of `route` has.
fn base(route: &ir::Route) -> Route {
    Route {
        name: route.name.as_ref().to_owned(),
        r#match: Some(matches::route_match(&route.matches)),
        ..Route::default()
    }
}

/// Adds the action and what the filters put on the route around it.
fn finish(mut message: Route, filters: &Filters, action: route::Action) -> Route {
    (message.request_headers_to_remove, message.request_headers_to_add) = headers::mutations(&filters.request_headers);
    (message.response_headers_to_remove, message.response_headers_to_add) =
        headers::mutations(&filters.response_headers);
    if let Some(cors) = &filters.cors {
        message.typed_per_filter_config.insert(cors::FILTER.to_owned(), cors::policy(cors));
    }
    let asked = external_auth::policies(&filters.external_auth, external_auth::Asks::OfRoute);
    message.typed_per_filter_config.extend(asked);
    message.typed_per_filter_config.extend(whole_body::policies(&filters.external_auth, external_auth::Asks::OfRoute));
    message.typed_per_filter_config.extend(of_backend(filters));
    message.action = Some(action);
    message
}

/// What a backend asks for itself; on the way to one it stands beside its weight.
fn of_backend(filters: &Filters) -> impl Iterator<Item = (String, Any)> {
    let session = filters.session.as_deref().map(|session| (session::FILTER.to_owned(), session::of_route(session)));
    let budget = filters.retry_budget.then(|| (over_budget::FILTER.to_owned(), over_budget::policy()));
    session.into_iter().chain(budget)
}

fn respond_route(route: &ir::Route, respond: &Respond) -> Route {
    let mut message = base(route);
    message.metadata = Some(reason(&respond.reason));
    let response = DirectResponseAction { status: u32::from(respond.status), ..DirectResponseAction::default() };
    finish(message, &route.filters, route::Action::DirectResponse(response))
}

/// Metadata for people who read the configuration; nothing of it reaches a client.
fn reason(text: &str) -> Metadata {
    let value = Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = Struct { fields: BTreeMap::from([("reason".to_owned(), value)]) };
    Metadata { filter_metadata: BTreeMap::from([(METADATA_NAMESPACE.to_owned(), fields)]), ..Metadata::default() }
}
