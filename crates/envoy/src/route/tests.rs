//! Routes. What a real Envoy makes of them is in `tests/behaviour.rs`.

mod filters;
mod forward;
mod matches;
mod properties;

use std::sync::Arc;

use ir::route::{Action, Backend, Destination, Filters, Forward, HeaderChanges, PathMatch, Respond, RouteMatch};
use ir::{Route, RoutePiece, VirtualHost};
use serde_json::Value;

use super::route_piece;
use crate::testing::{expect, json};
use crate::virtual_host::virtual_host;

/// The Envoy routes of a route, as JSON.
fn routes(route: Route) -> Value {
    let piece = Arc::new(RoutePiece { routes: vec![Arc::new(route)] });
    let encoded = route_piece(&piece, None);
    let host =
        VirtualHost { name: "h".into(), domains: vec!["*".into()], pieces: vec![piece], external_auth: Vec::new() };
    json(&virtual_host(&host, &[&encoded]))["routes"].take()
}

/// The whole list of Envoy routes.
fn check(found: Route, wanted: &str) {
    expect(&routes(found), wanted);
}

/// The only Envoy route without name, match and the time-outs that every forwarding route has.
fn check_one(found: Route, wanted: &str) {
    let mut list = routes(found);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    let one = list[0].as_object_mut().unwrap();
    one.retain(|field, _| field != "name" && field != "match");
    if let Some(action) = one.get_mut("route").and_then(Value::as_object_mut) {
        action.retain(|field, value| !(field == "timeout" && value == "0s"));
    }
    expect(&list[0], wanted);
}

fn route(action: Action, filters: Filters) -> Route {
    let matches = RouteMatch {
        path: PathMatch::Prefix("/".into()),
        method: None,
        headers: Vec::new(),
        query: Vec::new(),
        grpc: false,
    };
    Route { name: "r".into(), matches, action, filters: filters.into() }
}

fn forward(destinations: Vec<Destination>) -> Forward {
    Forward { destinations, timeout: None, try_timeout: None, retry: None }
}

fn forwarding(destinations: Vec<Destination>, filters: Filters) -> Route {
    route(Action::Forward(Box::new(forward(destinations))), filters)
}

fn to(cluster: &str, weight: u32) -> Destination {
    Destination { backend: Backend::Cluster(cluster.into()), weight, filters: Filters::default().into() }
}

fn with(filters: Filters, destination: Destination) -> Destination {
    Destination { filters: filters.into(), ..destination }
}

fn broken(reason: &str) -> Destination {
    Destination { backend: Backend::Broken(reason.into()), weight: 1, filters: Filters::default().into() }
}

fn respond(status: u16) -> Action {
    Action::Respond(Respond { status, reason: "why".into() })
}

fn sets(name: &str, value: &str) -> HeaderChanges {
    HeaderChanges { set: vec![(name.into(), value.into())], ..HeaderChanges::default() }
}
