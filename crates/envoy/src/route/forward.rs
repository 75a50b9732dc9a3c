//! Forwarding: one destination, several by weight in one Envoy route, or several Envoy routes by fraction.

use std::borrow::Cow;
use std::time::Duration;

use ir::ClusterName;
use ir::route::{Backend, Destination, Filters, Forward, Respond, Rewrite};
use proto::envoy::config::core::v3::RuntimeFractionalPercent;
use proto::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier,
};
use proto::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use proto::envoy::config::route::v3::{Route, RouteAction, WeightedCluster, route};

use super::path::{PathPlan, substitute};
use super::{
    base, external_auth, finish, headers, matches, mirror, of_backend, reason, redirect, respond_route, retry, session,
};
use crate::http_connection_manager::STREAM_IDLE_SECONDS;
use crate::wire::{duration, millionths, seconds};

/// Destinations of weight 0 get nothing and are left out.
///
/// Envoy's weighted clusters can change headers per destination, but neither path nor host nor copies nor CORS: then each
/// destination gets an Envoy route of its own. Those take the request one after the other by a fraction of one random value,
/// which Envoy draws once per request, so the thresholds add up and the last one takes the rest.
pub(super) fn routes(route: &ir::Route, forward: &Forward, mut emit: impl FnMut(Route)) {
    let live = || forward.destinations.iter().filter(|destination| destination.weight > 0);
    let count = live().count();
    if count == 0 {
        return emit(respond_route(route, &Respond { status: 500, reason: "no destination has a weight".into() }));
    }
    if count > 1 {
        for destination in live() {
            with_session(route, forward, destination, &mut emit);
        }
    }
    if count > 1 && route.filters.redirect.is_none() && !live().any(|found| needs_own_route(&found.filters)) {
        return emit(weighted(route, forward));
    }
    let total: u64 = live().map(|destination| u64::from(destination.weight)).sum();
    let mut reached = 0;
    for (position, destination) in live().enumerate() {
        reached += u64::from(destination.weight);
        let share = (position + 1 < count).then(|| threshold(reached, total));
        single(route, forward, destination, |mut message| {
            if let Some(matches) = &mut message.r#match {
                matches.runtime_fraction.clone_from(&share);
            }
            emit(message);
        });
    }
}

/// Of a destination that redirects nothing is used but who authorises the request, not even its mirrors.
pub(super) fn note_clusters(route: &ir::Route, forward: &Forward, clusters: &mut Vec<ClusterName>) {
    let redirects =
        |destination: &Destination| destination.filters.redirect.is_some() || route.filters.redirect.is_some();
    let mirrors = |filters: &Filters, clusters: &mut Vec<ClusterName>| {
        clusters.extend(filters.mirrors.iter().filter(|mirror| mirror.share > 0).map(|mirror| mirror.cluster.clone()));
    };
    let mut forwards = false;
    for destination in forward.destinations.iter().filter(|found| found.weight > 0) {
        external_auth::note_clusters(&destination.filters, clusters);
        if redirects(destination) {
            continue;
        }
        forwards = true;
        mirrors(&destination.filters, clusters);
        if let Backend::Cluster(cluster) = &destination.backend {
            clusters.push(cluster.clone());
        }
    }
    if forwards {
        mirrors(&route.filters, clusters);
    }
}

/// Requests of a session with a destination go there, whatever the weights say.
fn with_session(route: &ir::Route, forward: &Forward, destination: &Destination, emit: &mut impl FnMut(Route)) {
    let brought_back = destination.filters.session.as_deref().map(session::brought_back).unwrap_or_default();
    if brought_back.is_empty() || destination.filters.redirect.is_some() || route.filters.redirect.is_some() {
        return;
    }
    single(route, forward, destination, |mut message| {
        if let Some(matches) = &mut message.r#match {
            matches.headers.extend(brought_back.iter().cloned());
        }
        emit(message);
    });
}

/// What Envoy cannot say in a `ClusterWeight`.
fn needs_own_route(filters: &Filters) -> bool {
    filters.rewrite.is_some()
        || !filters.mirrors.is_empty()
        || filters.cors.is_some()
        || !filters.external_auth.is_empty()
        || filters.redirect.is_some()
}

/// `reached` of `total`, to the nearest millionth.
fn threshold(reached: u64, total: u64) -> RuntimeFractionalPercent {
    let numerator = (u128::from(reached) * 1_000_000 + u128::from(total) / 2) / u128::from(total.max(1));
    let default_value = Some(millionths(u32::try_from(numerator).unwrap_or(1_000_000)));
    RuntimeFractionalPercent { default_value, ..RuntimeFractionalPercent::default() }
}

/// The Envoy routes for one destination: both levels of filters become one.
fn single(route: &ir::Route, forward: &Forward, destination: &Destination, mut emit: impl FnMut(Route)) {
    let filters = merged(&route.filters, &destination.filters);
    let mut message = base(route);
    if let Some(redirect) = &filters.redirect {
        return redirect::routes(message, &filters, redirect, emit);
    }
    let mut action = action(forward, &filters);
    action.cluster_specifier = Some(ClusterSpecifier::Cluster(cluster(&destination.backend).to_owned()));
    note_broken([destination], &mut message, &mut action);
    message.request_body_buffer_limit = retry::body_limit(forward);
    let mut message = finish(message, &filters, route::Action::Route(action));
    message.response_headers_to_add.extend(filters.session.as_deref().and_then(session::told));
    emit(message);
}

/// One Envoy route for several destinations. Where one of them changes headers, each gets the merged changes and the route
/// none: the order in which Envoy goes through its levels does not matter then.
fn weighted(route: &ir::Route, forward: &Forward) -> Route {
    let live = || forward.destinations.iter().filter(|destination| destination.weight > 0);
    let merge = live().any(|destination| !destination.filters.is_empty());
    let mut filters = Cow::Borrowed(&route.filters);
    let mut message = base(route);
    let mut action = action(forward, &filters);
    let clusters = live().map(|destination| cluster_weight(route, destination, merge)).collect();
    action.cluster_specifier =
        Some(ClusterSpecifier::WeightedClusters(WeightedCluster { clusters, ..WeightedCluster::default() }));
    note_broken(live(), &mut message, &mut action);
    message.request_body_buffer_limit = retry::body_limit(forward);
    if merge {
        let plain = filters.to_mut();
        plain.request_headers = Default::default();
        plain.response_headers = Default::default();
    }
    finish(message, &filters, route::Action::Route(action))
}

fn cluster_weight(route: &ir::Route, destination: &Destination, merge: bool) -> ClusterWeight {
    let mut weight = ClusterWeight {
        name: cluster(&destination.backend).to_owned(),
        weight: Some(destination.weight),
        ..ClusterWeight::default()
    };
    if merge {
        let request = headers::merge(&route.filters.request_headers, &destination.filters.request_headers);
        let response = headers::merge(&route.filters.response_headers, &destination.filters.response_headers);
        (weight.request_headers_to_remove, weight.request_headers_to_add) = headers::mutations(&request);
        (weight.response_headers_to_remove, weight.response_headers_to_add) = headers::mutations(&response);
    }
    weight.response_headers_to_add.extend(destination.filters.session.as_deref().and_then(session::told));
    weight.typed_per_filter_config = of_backend(&destination.filters).collect();
    weight
}

/// What does not depend on where the request goes. Without a time-out of the user Envoy's 15 s would hold.
fn action(forward: &Forward, filters: &Filters) -> RouteAction {
    let rewrite = filters.rewrite.as_deref();
    let host = rewrite.and_then(|rewrite| rewrite.host.as_ref());
    let mut action = RouteAction {
        timeout: Some(forward.timeout.map_or_else(|| seconds(0), duration)),
        idle_timeout: idle_timeout(forward),
        retry_policy: retry::policy(forward),
        request_mirror_policies: mirror::policies(&filters.mirrors),
        upgrade_configs: external_auth::upgrades(filters),
        host_rewrite_specifier: host.map(|host| HostRewriteSpecifier::HostRewriteLiteral(host.as_ref().to_owned())),
        ..RouteAction::default()
    };
    match PathPlan::new(rewrite.and_then(|rewrite| rewrite.path.as_ref())) {
        PathPlan::Keep => {}
        PathPlan::Full(path) => action.path_rewrite = headers::literal(&path),
        PathPlan::Prefix(prefix) => action.prefix_rewrite = prefix,
        PathPlan::Regex { pattern, substitution } => action.regex_rewrite = Some(substitute(pattern, substitution)),
    }
    action
}

/// The silence that a request may keep, where its route allows it more time than [`STREAM_IDLE_SECONDS`]: then its own time-outs are the limit.
fn idle_timeout(forward: &Forward) -> Option<prost_types::Duration> {
    let limit = Duration::from_secs(STREAM_IDLE_SECONDS.into());
    let asked = forward.timeout.or(forward.try_timeout)?;
    (asked.is_zero() || asked > limit).then(|| duration(asked))
}

fn cluster(backend: &Backend) -> &str {
    match backend {
        Backend::Cluster(cluster) => cluster.as_str(),
        Backend::Broken(_) => ClusterName::INVALID,
    }
}

/// The share of a broken destination goes to a cluster that never exists, and answers 500, or 503 where gRPC calls get UNAVAILABLE for that;
/// the reasons are there to be read.
fn note_broken<'a>(
    destinations: impl IntoIterator<Item = &'a Destination>,
    message: &mut Route,
    action: &mut RouteAction,
) {
    let mut reasons = Vec::new();
    for destination in destinations {
        if let Backend::Broken(text) = &destination.backend {
            reasons.push(text.as_ref());
        }
    }
    if !reasons.is_empty() {
        let is_grpc = message.r#match.as_ref().is_some_and(matches::takes_calls);
        let code = if is_grpc {
            ClusterNotFoundResponseCode::ServiceUnavailable
        } else {
            ClusterNotFoundResponseCode::InternalServerError
        };
        action.cluster_not_found_response_code = code as i32;
        message.metadata = Some(reason(&reasons.join("; ")));
    }
}

/// The destination's filters after the route's; where both set a thing, the destination's holds.
fn merged<'a>(outer: &'a Filters, inner: &'a Filters) -> Cow<'a, Filters> {
    if inner.is_empty() {
        return Cow::Borrowed(outer);
    }
    let mirrors = outer.mirrors.iter().chain(&inner.mirrors).cloned().collect();
    Cow::Owned(Filters {
        request_headers: headers::merge(&outer.request_headers, &inner.request_headers).into(),
        response_headers: headers::merge(&outer.response_headers, &inner.response_headers).into(),
        rewrite: merged_rewrite(outer.rewrite.as_deref(), inner.rewrite.as_deref()).map(Box::new),
        mirrors,
        cors: inner.cors.clone().or_else(|| outer.cors.clone()),
        external_auth: outer.external_auth.iter().chain(&inner.external_auth).cloned().collect(),
        redirect: inner.redirect.clone().or_else(|| outer.redirect.clone()),
        session: inner.session.clone().or_else(|| outer.session.clone()),
        retry_budget: inner.retry_budget || outer.retry_budget,
    })
}

fn merged_rewrite(outer: Option<&Rewrite>, inner: Option<&Rewrite>) -> Option<Rewrite> {
    let field = |rewrite: Option<&Rewrite>| rewrite.cloned().unwrap_or(Rewrite { host: None, path: None });
    let (outer_fields, inner_fields) = (field(outer), field(inner));
    (outer.is_some() || inner.is_some()).then(|| Rewrite {
        host: inner_fields.host.or(outer_fields.host),
        path: inner_fields.path.or(outer_fields.path),
    })
}
