//! Tests of decoding routes and Gateways: defaults, faults, rules.

use std::sync::Arc;

use super::{all, fine, lines};
use crate::gateway::Protocol;
use crate::http_route::{HttpRouteFilter, PathMatchType, PathModifier};
use crate::kind::Object;
use crate::{Gateway, HttpRoute};

fn route(rules: &str) -> (Option<Arc<HttpRoute>>, Vec<String>) {
    let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  parentRefs: [{name: g}]\n  rules:\n";
    let decoded = all(&format!("{head}{rules}"));
    let route = match decoded.object() {
        Some(Object::HttpRoute(route)) => Some(route.clone()),
        _ => None,
    };
    (route, lines(&decoded))
}

fn gateway(listeners: &str) -> (Option<Arc<Gateway>>, Vec<String>) {
    let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  gatewayClassName: c\n  listeners:\n";
    let decoded = all(&format!("{head}{listeners}"));
    let gateway = match decoded.object() {
        Some(Object::Gateway(gateway)) => Some(gateway.clone()),
        _ => None,
    };
    (gateway, lines(&decoded))
}

#[test]
fn the_defaults_of_the_api_are_filled_in() {
    let (route, problems) = route(
        "  - backendRefs: [{name: s, port: 80}]\n    filters:\n    - type: RequestRedirect\n      requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /x}}\n",
    );
    // The rule is good but for the redirect beside a backend.
    assert_eq!(problems.len(), 1, "{problems:?}");
    let route = route.expect("a route");
    let rule = &route.spec.rules[0];
    assert_eq!((&rule.matches[0].path.match_type, &*rule.matches[0].path.value), (&PathMatchType::PathPrefix, "/"));
    assert_eq!((&*rule.backend_refs[0].target.kind, rule.backend_refs[0].weight), ("Service", 1));
    assert_eq!(
        (&*route.spec.parent_refs[0].kind, &*route.spec.parent_refs[0].group),
        ("Gateway", "gateway.networking.k8s.io")
    );
    let HttpRouteFilter::RequestRedirect(redirect) = &rule.filters[0] else { panic!("a redirect") };
    assert_eq!((redirect.status_code, redirect.path.clone()), (302, Some(PathModifier::ReplaceFullPath("/x".into()))));
    assert!(rule.fault.is_some());
}

#[test]
fn a_route_without_rules_has_one_that_matches_everything() {
    let Object::HttpRoute(route) =
        fine("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {}\n")
    else {
        panic!("a route")
    };
    assert_eq!(route.spec.rules.len(), 1);
    assert_eq!(route.spec.rules[0].matches.len(), 1);
}

#[test]
fn an_unknown_filter_costs_its_rule_only() {
    let (route, problems) = route(
        "  - filters: [{type: Sparkle}]\n    backendRefs: [{name: s, port: 80}]\n  - backendRefs: [{name: s, port: 80}]\n",
    );
    let route = route.expect("the route is kept");
    assert!(route.spec.rules[0].fault.is_some());
    assert_eq!(route.spec.rules[0].filters[0], HttpRouteFilter::Unknown("Sparkle".into()));
    assert!(route.spec.rules[1].fault.is_none());
    assert!(problems[0].starts_with("a.yaml:7:22: error: HTTPRoute default/r: spec.rules[0].filters[0].type: \"Sparkle\" is not one of RequestHeaderModifier"), "{problems:?}");
}

#[test]
fn an_unknown_match_costs_that_match_only() {
    let (route, problems) = route(
        "  - matches:\n    - path: {type: Fuzzy, value: /a}\n    - path: {type: Exact, value: b}\n    - path: {value: /c}\n    backendRefs: [{name: s, port: 80}]\n",
    );
    let route = route.expect("the route is kept");
    let rule = &route.spec.rules[0];
    assert!(rule.fault.is_none(), "{:?}", rule.fault);
    let faults: Vec<_> = rule.matches.iter().map(|matched| matched.fault.is_some()).collect();
    assert_eq!(faults, [true, true, false]);
    assert_eq!(problems.len(), 2, "{problems:?}");
}

#[test]
fn a_wrong_type_costs_its_rule_and_the_rest_is_read() {
    let (route, problems) = route(
        "  - name: 5\n    matches: [{method: GET}]\n    backendRefs: [{name: s, port: \"80\"}]\n  - backendRefs: 7\n",
    );
    let route = route.expect("the route is kept");
    assert_eq!(route.spec.rules[0].name, None);
    assert!(route.spec.rules[0].fault.is_some() && route.spec.rules[0].matches[0].method.is_some());
    assert!(route.spec.rules[1].fault.is_some());
    assert_eq!(problems[0], "a.yaml:7:11: error: HTTPRoute default/r: spec.rules[0].name: expected a string, found 5");
    assert_eq!(
        problems[1],
        "a.yaml:9:35: error: HTTPRoute default/r: spec.rules[0].backendRefs[0].port: expected an integer, found \"80\"; remove the quotes"
    );
}

#[test]
fn what_cannot_be_read_keeps_its_place_and_takes_no_request() {
    let faults = |rules: &str| {
        let route = route(rules).0.expect("the route is kept");
        let of = |rule: &crate::http_route::HttpRouteRule| {
            (rule.fault.is_some(), rule.matches.iter().map(|matched| matched.fault.is_some()).collect::<Vec<_>>())
        };
        route.spec.rules.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(
        faults(
            "  - 7\n  - backendRefs: [{name: s, port: 80}]\n  - null\n  - matches: [{path: {value: a}}, {path: {value: /b}}]\n"
        ),
        [(false, vec![true]), (false, vec![false]), (false, vec![true]), (false, vec![true, false])]
    );
    assert_eq!(
        faults("  - matches: [x, {path: {value: /a}}]\n  - matches: [null]\n  - matches: 7\n"),
        [(false, vec![true, false]), (false, vec![true]), (false, vec![true])]
    );
    let (gateway, _) = gateway("  - 7\n  - {name: ok, port: 80, protocol: HTTP}\n");
    let faults: Vec<_> =
        gateway.expect("it is kept").spec.listeners.iter().map(|listener| listener.fault.is_some()).collect();
    assert_eq!(faults, [true, false]);
    let grpc = all(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: r}\nspec:\n  rules:\n  - 7\n  - matchez: []\n  - matches: 7\n  - {}\n",
    );
    let Some(Object::GrpcRoute(grpc)) = grpc.object() else { panic!("{grpc:?}") };
    let faults: Vec<_> =
        grpc.spec.rules.iter().map(|rule| rule.matches.iter().all(|matched| matched.fault.is_some())).collect();
    assert_eq!(faults, [true; 4]);
    assert_eq!(grpc.spec.rules.iter().map(|rule| rule.matches.len()).collect::<Vec<_>>(), [1, 1, 1, 0]);
}

#[test]
fn a_fault_outside_of_any_rule_costs_the_route() {
    let decoded = all(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {hostnames: ['bad_host', 'UPPER.example.com']}\n",
    );
    assert_eq!(decoded.objects, []);
    assert_eq!(decoded.problems.len(), 2);
    assert_eq!(decoded.problems[0].path.as_str(), "spec.hostnames[0]");
}

#[test]
fn addresses_are_ip_addresses_unless_their_type_says_otherwise() {
    let gateway = |address: &str| {
        let head = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  gatewayClassName: c\n  listeners: [{name: a, port: 80, protocol: HTTP}]\n";
        lines(&all(&format!("{head}  addresses: [{address}]\n")))
    };
    for good in [
        "{value: 10.0.0.1}",
        "{value: '::1', type: IPAddress}",
        "{type: Hostname, value: a.b}",
        "{type: a.b/c, value: x}",
    ] {
        assert_eq!(gateway(good), [""; 0], "{good}");
    }
    for bad in [
        "{value: a.b}",
        "{type: IPAddress, value: 10.0.0}",
        "{type: Hostname, value: 'A B'}",
        "{value: 10.0.0.1}, {value: 10.0.0.1}",
    ] {
        assert_ne!(gateway(bad), [""; 0], "{bad}");
    }
}

#[test]
fn a_bad_hostname_is_left_out_while_others_are_left() {
    let decoded = all(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {hostnames: ['bad_host', a.example.com]}\n",
    );
    let Some(Object::HttpRoute(route)) = decoded.object() else { panic!("{decoded:?}") };
    assert_eq!(*route.spec.hostnames, ["a.example.com".into()]);
    assert_eq!(decoded.problems.len(), 1);
}

#[test]
fn no_host_name_is_left_is_never_every_host() {
    let of = |kind: &str, hostnames: &str| {
        all(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: r}}\nspec: {{hostnames: {hostnames}, rules: [{{backendRefs: [{{name: s, port: 80}}]}}]}}\n"
        ))
    };
    // The first falls by a rule of the API, the second by its pattern.
    for hostnames in ["[10.0.0.1]", "[10.0.0.1, BAD_]", "[BAD_]"] {
        assert_eq!(of("TLSRoute", hostnames).objects, [], "{hostnames}");
    }
    assert_eq!(of("TLSRoute", "[10.0.0.1, a.example.com]").objects.len(), 1);
    let addresses = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec:\n  gatewayClassName: c\n  addresses: [{value: 127.0.0.1}, {value: 127.0.0.1}]\n  listeners: [{name: a, port: 80, protocol: HTTP}]\n";
    assert_eq!(all(addresses).objects, []);
}

#[test]
fn an_empty_field_with_a_name_that_is_none_is_told() {
    let (route, problems) = route("  - matches: [{pth: }]\n");
    assert!(route.expect("it is kept").spec.rules[0].matches[0].fault.is_some(), "{problems:?}");
    let (_, problems) = self::route("  - matches: [{path: {type: Exact, value: }}]\n");
    assert_eq!(
        problems,
        [
            "a.yaml:7:36: warning: HTTPRoute default/r: spec.rules[0].matches[0].path.value: value is empty, which is the same as without it"
        ]
    );
}

#[test]
fn rules_of_the_api_hold_for_routes() {
    for (rules, words) in [
        (
            "  - timeouts: {request: 1s, backendRequest: 2s}\n",
            "backendRequest timeout cannot be longer than request timeout",
        ),
        ("  - timeouts: {request: 1.5s}\n", "expected a duration such as 1h30m, 10s or 500ms, found \"1.5s\""),
        (
            "  - filters:\n    - {type: URLRewrite, urlRewrite: {hostname: a}}\n    - {type: URLRewrite, urlRewrite: {hostname: b}}\n",
            "URLRewrite filter cannot be repeated",
        ),
        ("  - filters: [{type: URLRewrite}]\n", "filter.urlRewrite must be specified for URLRewrite filter.type"),
        (
            "  - matches: [{path: {type: Exact, value: /a}}]\n    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]\n",
            "exactly one PathPrefix match",
        ),
        ("  - backendRefs: [{name: s}]\n", "must have port for Service reference"),
        ("  - matches: [{headers: [{name: a, value: b}, {name: a, value: c}]}]\n", "an earlier item has the same name"),
        ("  - {name: a}\n  - {name: a}\n", "rule name must be unique"),
        ("  - matches: [{path: {value: /a//b}}]\n", "must not contain '//'"),
        ("  - retry: {codes: [200]}\n", "200 is not in the range 400 to 599"),
    ] {
        let (route, problems) = route(rules);
        assert!(
            problems.iter().any(|line| line.to_lowercase().contains(&words.to_lowercase())),
            "{rules}: {problems:?}"
        );
        let spec = &route.expect("the route is kept").spec;
        let faults = spec
            .rules
            .iter()
            .any(|rule| rule.fault.is_some() || rule.matches.iter().any(|matched| matched.fault.is_some()));
        assert!(faults, "{rules}");
    }
}

#[test]
fn listeners_fail_alone() {
    let (gateway, problems) = gateway(
        "  - {name: a, port: 80, protocol: HTTP, tls: {certificateRefs: [{name: c}]}}\n  - {name: b, port: 81, protocol: HTTP}\n  - {name: b, port: 82, protocol: HTTP}\n  - {name: c, port: 0, protocol: HTTP}\n  - {name: d, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: c}]}}\n  - {name: e, port: 85, protocol: example.com/quic}\n",
    );
    let gateway = gateway.expect("the Gateway is kept");
    let faults: Vec<_> = gateway.spec.listeners.iter().map(|listener| listener.fault.is_some()).collect();
    // Of two with one name both: the other may be the one that guards.
    assert_eq!(faults, [true, true, true, true, false, false], "{problems:?}");
    assert_eq!(gateway.spec.listeners[5].protocol, Protocol::Unknown("example.com/quic".into()));
}

#[test]
fn of_more_items_than_there_may_be_none_is_compared_with_the_others() {
    let listeners: String =
        (0..1_000).map(|at| format!("  - {{name: l{at}, port: 80, protocol: HTTP, hostname: x.example}}\n")).collect();
    let (_, problems) = gateway(&listeners);
    let [one] = &problems[..] else { panic!("{problems:?}") };
    assert!(one.ends_with("has 1000 items, at most 64 are allowed"), "{one}");
}

#[test]
fn rules_about_a_list_are_told_beside_the_faults_of_its_items() {
    let fails = "    filters: [{type: RequestRedirect, requestRedirect: {scheme: htps}}]\n";
    let unique = "error: HTTPRoute default/r: spec.rules[{}]: rule name must be unique within the route";
    let told = |rules: &str| {
        let (route, problems) = route(rules);
        let route = route.expect("the route is kept");
        let faults = route.spec.rules.iter().map(|rule| rule.fault.is_some()).collect::<Vec<_>>();
        let about =
            |index: usize| problems.iter().any(|line| line.ends_with(&unique.replace("{}", &index.to_string())));
        (faults.clone(), (0..faults.len()).filter(|index| about(*index)).collect::<Vec<_>>())
    };
    let twice = "  - name: x\n  - name: x\n";
    assert_eq!(told(&format!("{twice}  - matches: []\n{fails}")), (vec![true, true, true], vec![0, 1]));
    // The one that is at fault otherwise may be one of the two.
    assert_eq!(told(&format!("  - name: x\n  - name: x\n{fails}")), (vec![true, true], vec![0, 1]));
    // A name that cannot be read, or that is misspelt, may be any; two that are the same stay so.
    assert_eq!(told("  - name: x\n  - name: 5\n"), (vec![false, true], vec![]));
    assert_eq!(told(&format!("{twice}  - name: 5\n")), (vec![true, true, true], vec![0, 1]));
    assert_eq!(told(&format!("{twice}  - nam: x\n{fails}")), (vec![true, true, true], vec![0, 1]));
    assert_eq!(told(&format!("  - name: x\n  - 7\n{twice}")), (vec![true, false, true, true], vec![0, 2, 3]));
}

#[test]
fn rules_around_a_fault_are_told_with_it_and_not_because_of_it() {
    for (rules, expect) in [
        // Two mistakes, each of its own.
        (
            "  - backendRefs: [{name: s, port: 80}]\n    filters: [{type: RequestRedirect, requestRedirect: {scheme: htps}}]\n",
            &[
                "\"htps\" is not one of http, https",
                "RequestRedirect filter must not be used together with backendRefs",
            ][..],
        ),
        ("  - timeouts: {request: 1s, backendRequest: 2x}\n", &["expected a duration"]),
        (
            "  - timeouts: {request: x, backendRequest: 2s}\n    matches: [{path: {value: /a}}]\n",
            &["expected a duration"],
        ),
        // Which type was meant nobody knows, and so neither whether its settings are those.
        ("  - filters: [{type: RequestRedirct, requestRedirect: {scheme: https}}]\n", &["is not one of"]),
        (
            "  - filters: [{type: URLRewrite, requestRedirect: {scheme: https}}, {type: URLRewrite, urlRewrite: {hostname: a}}]\n",
            &["must be specified for URLRewrite", "must be nil if the filter.type is not RequestRedirect"],
        ),
        ("  - filters: [{requestRedirect: {scheme: https}}]\n", &["type is missing"]),
    ] {
        let (_, problems) = route(rules);
        let all = expect.iter().all(|text| problems.iter().any(|line| line.contains(text)));
        assert!(all && problems.len() == expect.len(), "{rules}: {problems:#?}");
    }
}

#[test]
fn a_rule_about_the_list_costs_the_listeners_at_fault() {
    let (gateway, problems) = gateway(
        "  - {name: a, port: 80, protocol: HTTP, tls: {certificateRefs: [{name: c}]}}\n  - {name: b, port: 81, protocol: HTTP}\n  - {name: c, port: 82, protocol: HTTP, hostname: x.y}\n  - {name: d, port: 82, protocol: HTTP, hostname: x.y}\n",
    );
    let gateway = gateway.expect("the Gateway is kept");
    let faults: Vec<_> = gateway.spec.listeners.iter().map(|listener| listener.fault.is_some()).collect();
    assert_eq!(faults, [true, false, true, true], "{problems:?}");
}

#[test]
fn a_bad_parent_costs_that_parent() {
    let decoded = all(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  parentRefs: [{name: a}, {kind: Gateway}, {name: b, port: 99999}, {name: c}, null, {name: d}]\n",
    );
    let Some(Object::HttpRoute(route)) = decoded.object() else { panic!("{decoded:?}") };
    let names: Vec<_> = route.spec.parent_refs.iter().map(|parent| &*parent.name).collect();
    assert_eq!(names, ["a", "c", "d"]);
    let written = |path: &str| route.meta.written_path(path).map(|path| path.to_string());
    assert_eq!(written("spec.parentRefs[0].name"), None);
    assert_eq!(written("spec.parentRefs[1].name").as_deref(), Some("spec.parentRefs[3].name"));
    assert_eq!(written("spec.parentRefs[2]").as_deref(), Some("spec.parentRefs[5]"));
    assert_eq!(written("spec.hostnames[1]"), None);
}
