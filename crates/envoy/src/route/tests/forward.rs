//! Forwarding, weights, broken destinations, time-outs and retries.

use std::sync::Arc;
use std::time::Duration;

use ir::route::{
    Action, AuthProtocol, ExternalAuth, Filters, Forward, HeaderChanges, Mirror, Redirect, Retry, Rewrite,
};

use super::{broken, check, check_one, forward, forwarding, route, sets, to, with};
use crate::route::{external_auth, route_piece};

#[test]
fn one_destination_is_a_cluster_without_any_time_limit() {
    check(
        forwarding(vec![to("a", 7)], Filters::default()),
        "[{name: r, match: {prefix: /}, route: {cluster: a, timeout: 0s}}]",
    );
}

#[test]
fn a_destination_without_weight_is_left_out() {
    check_one(forwarding(vec![to("a", 1), to("b", 0)], Filters::default()), "route: {cluster: a}");
}

#[test]
fn several_destinations_share_by_weight() {
    check_one(
        forwarding(vec![to("a", 1), to("b", 9)], Filters::default()),
        "route: {weightedClusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 9}]}}",
    );
}

#[test]
fn header_changes_of_a_destination_are_merged_into_its_weight() {
    let own = Filters { request_headers: sets("x", "own").into(), ..Filters::default() };
    let rule = Filters {
        request_headers: HeaderChanges { add: vec![("x".into(), "rule".into())], ..sets("w", "rule") }.into(),
        ..Filters::default()
    };
    check_one(
        forwarding(vec![to("a", 1), with(own, to("b", 1))], rule),
        "
route:
  weightedClusters:
    clusters:
    - name: a
      weight: 1
      requestHeadersToAdd:
      - {header: {key: w, value: rule}, appendAction: OVERWRITE_IF_EXISTS_OR_ADD}
      - {header: {key: x, value: rule}}
    - name: b
      weight: 1
      requestHeadersToAdd:
      - {header: {key: w, value: rule}, appendAction: OVERWRITE_IF_EXISTS_OR_ADD}
      - {header: {key: x, value: own}, appendAction: OVERWRITE_IF_EXISTS_OR_ADD}
",
    );
}

#[test]
fn a_broken_share_answers_500_and_says_why() {
    check_one(
        forwarding(vec![to("a", 1), broken("no Service b"), broken("no Service c")], Filters::default()),
        "
metadata: {filterMetadata: {chancery: {reason: no Service b; no Service c}}}
route:
  clusterNotFoundResponseCode: INTERNAL_SERVER_ERROR
  weightedClusters:
    clusters: [{name: a, weight: 1}, {name: chancery.invalid, weight: 1}, {name: chancery.invalid, weight: 1}]
",
    );
    check_one(
        forwarding(vec![broken("b")], Filters::default()),
        "
metadata: {filterMetadata: {chancery: {reason: b}}}
route: {clusterNotFoundResponseCode: INTERNAL_SERVER_ERROR, cluster: chancery.invalid}
",
    );
}

#[test]
fn no_weight_at_all_answers_500_instead_of_falling_through() {
    check_one(
        forwarding(vec![to("a", 0)], Filters::default()),
        "
metadata: {filterMetadata: {chancery: {reason: no destination has a weight}}}
directResponse: {status: 500}
",
    );
}

#[test]
fn destinations_with_rewrites_get_routes_with_thresholds_that_add_up() {
    let host = |host: &str| {
        let rewrite = Rewrite { host: Some(host.into()), path: None };
        Filters { rewrite: Some(Box::new(rewrite)), ..Filters::default() }
    };
    let redirect =
        Redirect { status: 301, scheme: None, host: Some("d".into()), port: None, is_default_port: false, path: None };
    let redirected = Filters { redirect: Some(Box::new(redirect)), ..Filters::default() };
    let threshold = |numerator: u32| {
        format!("{{prefix: /, runtimeFraction: {{defaultValue: {{numerator: {numerator}, denominator: MILLION}}}}}}")
    };
    let destinations = vec![with(host("x"), to("a", 1)), to("b", 1), with(redirected, to("c", 0)), to("d", 1)];
    check(
        forwarding(destinations, host("rule")),
        &format!(
            "
- {{name: r, match: {}, route: {{cluster: a, hostRewriteLiteral: x, timeout: 0s}}}}
- {{name: r, match: {}, route: {{cluster: b, hostRewriteLiteral: rule, timeout: 0s}}}}
- {{name: r, match: {{prefix: /}}, route: {{cluster: d, hostRewriteLiteral: rule, timeout: 0s}}}}
",
            threshold(333_333),
            threshold(666_667)
        ),
    );
}

#[test]
fn a_destination_that_redirects_forwards_nothing() {
    let redirect =
        Redirect { status: 301, scheme: None, host: Some("d".into()), port: None, is_default_port: false, path: None };
    let redirected = Filters { redirect: Some(Box::new(redirect)), ..Filters::default() };
    let found = forwarding(vec![with(redirected, to("a", 1))], Filters::default());
    check_one(found, "redirect: {hostRedirect: d}");
}

#[test]
fn a_piece_names_the_clusters_that_its_routes_reach() {
    let mirror = |cluster: &str, share| Mirror { cluster: cluster.into(), share };
    let filters = Filters { mirrors: vec![mirror("m", 1), mirror("off", 0)], ..Filters::default() };
    let found = forwarding(vec![to("b", 1), to("a", 1), to("a", 2), to("zero", 0), broken("x")], filters);
    let piece = route_piece(&ir::RoutePiece { routes: vec![found.into()] }, None);
    let names: Vec<&str> = piece.clusters.iter().map(ir::ClusterName::as_str).collect();
    assert_eq!(names, ["a", "b", "m"]);
}

fn check_forward(edit: impl FnOnce(&mut Forward), wanted: &str) {
    let mut found = forward(vec![to("a", 1)]);
    edit(&mut found);
    check_one(route(Action::Forward(Box::new(found)), Filters::default()), wanted);
}

#[test]
fn time_outs_are_the_users() {
    check_forward(
        |forward| forward.timeout = Some(Duration::from_millis(1500)),
        "route: {cluster: a, timeout: 1.500s}",
    );
    check_forward(
        |forward| forward.try_timeout = Some(Duration::from_secs(2)),
        "route: {cluster: a, retryPolicy: {numRetries: 0, perTryTimeout: 2s}}",
    );
}

#[test]
fn no_silence_ends_a_request_before_its_own_time_outs() {
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
    check_forward(|forward| forward.timeout = hours(1), "route: {cluster: a, timeout: 3600s}");
    check_forward(|forward| forward.timeout = hours(2), "route: {cluster: a, timeout: 7200s, idleTimeout: 7200s}");
    check_forward(|forward| forward.timeout = hours(0), "route: {cluster: a, idleTimeout: 0s}");
    check_forward(
        |forward| forward.try_timeout = hours(2),
        "route: {cluster: a, idleTimeout: 7200s, retryPolicy: {numRetries: 0, perTryTimeout: 7200s}}",
    );
}

#[test]
fn retries_cover_refusals_always_and_codes_and_resets_where_asked() {
    let predicate = "
    retryHostPredicate:
    - name: envoy.retry_host_predicates.previous_hosts
      typedConfig:
        '@type': type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate
    hostSelectionRetryMaxAttempts: '5'";
    let retry = |attempts, codes: &[u16], backoff| Some(Box::new(Retry { attempts, codes: codes.to_vec(), backoff }));
    check_forward(
        |forward| forward.retry = retry(1, &[], None),
        &format!(
            "
route:
  cluster: a
  retryPolicy:
    retryOn: connect-failure,refused-stream
    numRetries: 1{predicate}
requestBodyBufferLimit: '1048576'
"
        ),
    );
    check_forward(
        |forward| {
            forward.retry = retry(3, &[500, 503], Some(Duration::from_millis(100)));
            forward.try_timeout = Some(Duration::from_secs(1));
        },
        &format!(
            "
route:
  cluster: a
  retryPolicy:
    retryOn: connect-failure,refused-stream,retriable-status-codes,reset
    numRetries: 3
    perTryTimeout: 1s{predicate}
    retriableStatusCodes: [500, 503]
    retryBackOff: {{baseInterval: 0.100s, maxInterval: 1s}}
requestBodyBufferLimit: '1048576'
"
        ),
    );
    check_forward(|forward| forward.retry = retry(0, &[500], None), "route: {cluster: a}");
}

#[test]
fn who_is_asked_for_one_destination_has_a_route_of_its_own_and_is_asked_after_that_of_the_rule() {
    let asked = |cluster: &str| {
        let protocol = AuthProtocol::Grpc { authority: cluster.into() };
        let auth = ExternalAuth { cluster: cluster.into(), protocol, request_headers: Vec::new(), max_body: None };
        Filters { external_auth: vec![Arc::new(auth)], ..Filters::default() }
    };
    let found = forwarding(vec![to("a", 1), with(asked("two"), to("b", 1))], asked("one"));
    let routes = super::routes(found);
    let cluster = |route: &serde_json::Value, filter: &str| {
        let text = route["typedPerFilterConfig"][filter].to_string();
        text.split("\"clusterName\":\"").nth(1).map(|rest| rest.split('"').next().unwrap().to_owned())
    };
    let order: Vec<Vec<String>> = routes
        .as_array()
        .unwrap()
        .iter()
        .map(|route| external_auth::FILTERS.iter().filter_map(|filter| cluster(route, filter)).collect())
        .collect();
    assert_eq!(order, [vec!["one"], vec!["one", "two"]]);
}
