//! The objects of the engine benchmark. Everything grows with the routes: a Gateway with two listeners and a namespace of its own for
//! each 100 routes, a Service with a slice of ten endpoints for each route, and a ReferenceGrant for each 1,000.
//!
//! A route has one parent, shares its host with one other, has two rules, and names two Services; every twentieth one's own
//! Service is in another namespace. So each object has the same number of users at every size.

use std::fmt::Write as _;

/// Routes of one Gateway.
pub(super) const ROUTES_PER_GATEWAY: usize = 100;

/// Routes whose services share a namespace behind one grant; one in [`PERIOD`] of them needs it.
pub(super) const ROUTES_PER_GRANT: usize = 1_000;

/// Everything repeats after this many routes.
const PERIOD: usize = 20;

/// A listener's state.
#[derive(Clone, Copy)]
pub(super) struct Listeners {
    /// The second listener, which has no routes, is on its other port.
    pub(super) moved: bool,
    /// The first listener is for the hosts of its Gateway, not for all of `example.com`.
    pub(super) narrow: bool,
}

/// The route or service of round `round` that has this place in its period: spread over all `n`, alike in what it needs.
pub(super) fn spread(round: usize, place: usize, n: usize) -> usize {
    (round * 37 * PERIOD + place) % n
}

/// All objects for `n` routes.
pub(super) fn all(n: usize) -> String {
    let mut documents: Vec<String> = Vec::with_capacity(4 * n);
    let gateways = n / ROUTES_PER_GATEWAY;
    documents.extend((0..gateways).map(|index| gateway(index, Listeners { moved: false, narrow: true })));
    documents.extend((0..n / ROUTES_PER_GRANT).map(grant));
    for index in 0..n {
        documents.extend([route(index, 1), service(index, "http"), slice(index, 0)]);
    }
    documents.join("---\n")
}

/// Gateway number `index`.
pub(super) fn gateway(index: usize, listeners: Listeners) -> String {
    let (first, second) = (1_024 + index, if listeners.moved { 30_000 } else { 20_000 } + index);
    let host = if listeners.narrow { format!("*.g{index}.example.com") } else { "*.example.com".to_owned() };
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: edge\n  namespace: team-{index}\nspec:\n  \
         gatewayClassName: chancery\n  listeners:\n  - name: http\n    protocol: HTTP\n    port: {first}\n    hostname: \
         '{host}'\n  - name: spare\n    protocol: HTTP\n    port: {second}\n"
    )
}

/// Grant number `index`: ten namespaces may name the services of one.
pub(super) fn grant(index: usize) -> String {
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata:\n  name: grant\n  namespace: \
         shared-{index}\nspec:\n  to:\n  - group: ''\n    kind: Service\n  from:\n"
    );
    let teams = ROUTES_PER_GRANT / ROUTES_PER_GATEWAY;
    for team in index * teams..(index + 1) * teams {
        let _ = write!(text, "  - group: gateway.networking.k8s.io\n    kind: HTTPRoute\n    namespace: team-{team}\n");
    }
    text
}

/// Route number `index`; `weight` is that of its own Service in the first rule.
pub(super) fn route(index: usize, weight: usize) -> String {
    let gateway = index / ROUTES_PER_GATEWAY;
    let host = format!("h{}.g{gateway}.example.com", index % ROUTES_PER_GATEWAY / 2);
    route_text(index, &format!("team-{gateway}"), "edge", &host, weight)
}

fn route_text(index: usize, namespace: &str, parent: &str, host: &str, weight: usize) -> String {
    let (own, other) = (home(index), neighbour(index));
    let beside = home(other);
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: route-{index}\n  namespace: \
         {namespace}\nspec:\n  parentRefs:\n  - name: {parent}\n    sectionName: http\n  hostnames:\n  - {host}\n  rules:\n  - \
         matches:\n    - path:\n        type: PathPrefix\n        value: /path-{index}\n    backendRefs:\n    - name: \
         service-{index}\n      namespace: {own}\n      port: 80\n      weight: {weight}\n    - name: service-{other}\n      \
         namespace: {beside}\n      port: 80\n  - matches:\n    - path:\n        type: PathPrefix\n        value: \
         /path-{index}/static\n    backendRefs:\n    - name: service-{index}\n      namespace: {own}\n      port: 80\n"
    )
}

/// The other Service that a route names: one of its own namespace.
const fn neighbour(index: usize) -> usize {
    if index % PERIOD == PERIOD - 1 { index - 1 } else { index + 1 }
}

/// The namespace of a Service.
fn home(index: usize) -> String {
    if index.is_multiple_of(PERIOD) {
        format!("shared-{}", index / ROUTES_PER_GRANT)
    } else {
        format!("team-{}", index / ROUTES_PER_GATEWAY)
    }
}

/// Service number `index`.
pub(super) fn service(index: usize, protocol: &str) -> String {
    let home = home(index);
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: service-{index}\n  namespace: {home}\nspec:\n  ports:\n  - name: \
         http\n    port: 80\n    targetPort: 8080\n    appProtocol: {protocol}\n"
    )
}

/// The slice of Service number `index`; `version` is in the first address.
pub(super) fn slice(index: usize, version: usize) -> String {
    let home = home(index);
    let mut text = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: service-{index}-1\n  namespace: {home}\n  \
         labels:\n    kubernetes.io/service-name: service-{index}\naddressType: IPv4\nports:\n- name: http\n  port: \
         8080\nendpoints:\n- addresses:\n  - 11.0.{}.{}\n",
        version >> 8 & 255,
        version & 255
    );
    for endpoint in 1..10 {
        let number = index * 10 + endpoint;
        let _ = write!(text, "- addresses:\n  - 10.{}.{}.{}\n", number >> 16 & 127, number >> 8 & 255, number & 255);
    }
    text
}

/// An object that nobody names.
pub(super) fn unused(version: usize) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: unused\ndata:\n  version: 'v{version}'\n")
}

/// All objects for `n` routes on one host of one Gateway.
pub(super) fn all_on_one_host(n: usize) -> String {
    let mut documents: Vec<String> = Vec::with_capacity(4 * n);
    documents.push(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata:\n  name: all\n  namespace: all\nspec:\n  \
         gatewayClassName: chancery\n  listeners:\n  - name: http\n    protocol: HTTP\n    port: 1024\n"
            .to_owned(),
    );
    documents.extend((0..n / ROUTES_PER_GATEWAY).map(open_grant));
    for index in 0..n {
        documents.extend([route_on_one_host(index, 1), service(index, "http"), slice(index, 0)]);
    }
    documents.extend((0..n / ROUTES_PER_GRANT).map(|index| open_grant_of(&format!("shared-{index}"))));
    documents.join("---\n")
}

/// Route number `index` on the one host.
pub(super) fn route_on_one_host(index: usize, weight: usize) -> String {
    route_text(index, "all", "all", "one.example.com", weight)
}

fn open_grant(team: usize) -> String {
    open_grant_of(&format!("team-{team}"))
}

/// Routes of the namespace `all` may name the services of this one.
fn open_grant_of(namespace: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata:\n  name: grant\n  namespace: \
         {namespace}\nspec:\n  to:\n  - group: ''\n    kind: Service\n  from:\n  - group: gateway.networking.k8s.io\n    kind: \
         HTTPRoute\n    namespace: all\n"
    )
}
