//! Policies of the experimental channel: for backends, and for what is recorded of a Gateway.

use std::collections::BTreeSet;

use tests::collector::{Collector, Span};
use tests::wait;

use crate::place::{Answer, NODE, Place, exchange, http, inside, service};
use crate::world::HTTP;

const SESSIONS: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: shop}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  sessionPersistence: {type: Cookie, cookie: {name: visit}}
";

/// One retry at a time, whatever share of the requests it is.
const BUDGET: &str = "
  retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 1, interval: 1s}}
";

const RULES: &str = "[{matches: [{path: {value: /status}}], retry: {codes: [500], attempts: 1}, backendRefs: [{name: shop, port: 80}]}, \
                     {matches: [{path: {value: /retry}}], retry: {codes: [500], attempts: 4}, backendRefs: [{name: shop, port: 80}]}, \
                     {backendRefs: [{name: shop, port: 80}]}]";

/// Who answers so many requests with more of a head.
fn answering(place: &Place, more: &str) -> BTreeSet<String> {
    (0..30).map(|_| place.ask_with(80, "/", more).unwrap().pod().unwrap()).collect()
}

/// The statuses of many requests at a time.
fn at_once(place: &Place, path: &str) -> BTreeSet<u16> {
    let to = place.at(80);
    std::thread::scope(|scope| {
        let ask = || inside(&place.state, || exchange(to, path, ""));
        let all: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        all.into_iter().map(|one| one.join().unwrap().unwrap().status).collect()
    })
}

/// Waits until one request has its answer by the last of as many tries as its rule allows.
fn until_retried(place: &Place) {
    let mut number = 0;
    let retried = || {
        number += 1;
        let path = format!("/retry/?uuid={number}&succeedAfter=4&responseCode=500");
        place.ask(&path).filter(|answer| answer.status == 200)
    };
    wait::until("an answer after four retries", retried).unwrap();
}

#[test]
fn clients_come_back_to_their_pod_and_retries_have_a_budget() {
    let place = Place::make("traffic", &[HTTP], "");
    place.apply(&service("shop", "{name: http, port: 80, targetPort: 3000}"));
    for pod in ["one", "two"] {
        place.echo(pod, "shop", &http(pod));
    }
    place.world.route("shop", "edge", RULES);
    let both = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    place.until("an answer", "/", |answer| answer.status == 200);
    wait::until("answers of both", || (answering(&place, "") == both).then_some(())).unwrap();
    assert_eq!(at_once(&place, "/status/500"), BTreeSet::from([500]), "nothing bounds what is tried again");

    place.apply(SESSIONS);
    let first = place.until("a cookie", "/", |answer| answer.cookie().is_some());
    place.until_told("xbackendtrafficpolicy/shop", "Accepted", "Accepted", &[]);
    let cookie = first.cookie().unwrap();
    assert!(cookie.starts_with("visit="), "{cookie}");
    let pod = first.pod().unwrap();
    assert_eq!(answering(&place, &format!("cookie: {cookie}\r\n")), BTreeSet::from([pod.clone()]));
    assert_eq!(answering(&place, ""), both, "whoever brings none meets both");
    // its Pod goes: another answers, and says whom to come back to
    place.namespace().run(&["delete", "pod", &pod, "--grace-period=1"]);
    let moved = |answer: &Answer| answer.status == 200 && answer.cookie().is_some();
    let found = || place.ask_with(80, "/", &format!("cookie: {cookie}\r\n")).filter(moved);
    assert_ne!(wait::until("another Pod", found).unwrap().pod(), Some(pod));

    place.apply(&(SESSIONS.to_owned() + BUDGET.trim_start_matches('\n')));
    let statuses = || Some(at_once(&place, "/status/500")).filter(|all| all.contains(&503));
    let statuses = wait::until("503 over the budget", statuses).unwrap();
    assert!(statuses.iter().all(|status| [500, 503].contains(status)), "{statuses:?}");
    place.until_told("xbackendtrafficpolicy/shop", "Accepted", "Accepted", &[]);
    // one after the other all have room
    until_retried(&place);
    place.namespace().run(&["delete", "xbackendtrafficpolicy", "shop"]);
    let unbounded = || (at_once(&place, "/status/500") == BTreeSet::from([500])).then_some(());
    wait::until("no budget", unbounded).unwrap();
}

const TRACES: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XTelemetryPolicy
metadata: {name: traces}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}]
  tracing:
    mode: Enabled
    provider: {backendRef: {name: collector, port: 80}}
    serviceName: edge
    attributes:
    - {name: path, sourceType: Attribute, attributeKey: url.path}
    - {name: tenant, sourceType: Header, headerName: x-tenant}
";

#[test]
fn spans_of_requests_come_to_a_collector() {
    let place = Place::make("traces", &[HTTP], "");
    place.world.route("edge", "edge", "[{backendRefs: [{name: cart, port: 80}]}]");
    place.until_pod("/", "cart");
    place.apply(TRACES);
    place.until_told("xtelemetrypolicy/traces", "Accepted", "Accepted", &[]);
    place.until_told("xtelemetrypolicy/traces", "ResolvedRefs", "BackendNotFound", &["collector"]);
    assert_eq!(place.ask("/dark").unwrap().status, 200);

    let collector = inside(&place.state, || Collector::start_at(NODE)).unwrap();
    place.serve_own("collector", collector.port);
    place.until_told("xtelemetrypolicy/traces", "ResolvedRefs", "ResolvedRefs", &[]);
    let told = place.namespace().get("xtelemetrypolicy/traces").unwrap();
    assert_eq!(told["status"]["ancestors"][0]["ancestorRef"]["name"], "edge", "{told:#}");
    let span = wait::until("a span", || {
        place.ask_with(80, "/bright", "x-tenant: ann\r\n")?;
        let is_bright = |span: &Span| span.attributes.get("path").is_some_and(|path| path == "/bright");
        collector.spans().into_iter().find(is_bright)
    })
    .unwrap();
    let said = |key: &str| span.attributes.get(key).map(String::as_str);
    assert_eq!((said("service.name"), said("tenant")), (Some("edge"), Some("ann")), "{span:?}");
}
