//! Header changes, rewrites, redirects, mirrors, CORS and answers of the proxy itself.

use std::sync::Arc;

use ir::route::{Action, Cors, Filters, HeaderChanges, Mirror, PathChange, Redirect, Rewrite};

use super::{check, check_one, forwarding, respond, route, routes, sets, to};
use crate::testing::expect;

#[test]
fn header_changes_are_literal_and_leave_pseudo_headers_alone() {
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let changes = HeaderChanges {
        remove: vec!["x-gone".into(), "host".into(), ":path".into()],
        set: pairs(&[("x-set", "50%"), (":authority", "x")]),
        add: pairs(&[("x-add", ""), ("host", "x")]),
    };
    let filters =
        Filters { request_headers: changes.into(), response_headers: sets("x-a", "b").into(), ..Filters::default() };
    check_one(
        forwarding(vec![to("a", 1)], filters),
        "
requestHeadersToAdd:
- {header: {key: x-set, value: 50%%}, appendAction: OVERWRITE_IF_EXISTS_OR_ADD}
- {header: {key: x-add}, keepEmptyValue: true}
requestHeadersToRemove: [x-gone]
responseHeadersToAdd: [{header: {key: x-a, value: b}, appendAction: OVERWRITE_IF_EXISTS_OR_ADD}]
route: {cluster: a}
",
    );
}

fn prefix(matched: &str, replacement: &str) -> PathChange {
    PathChange::Prefix { matched: matched.into(), replacement: replacement.into() }
}

#[test]
fn paths_are_rewritten_in_the_way_that_their_slashes_want() {
    let check_path = |path, wanted: &str| {
        let filters =
            Filters { rewrite: Some(Box::new(Rewrite { host: None, path: Some(path) })), ..Filters::default() };
        let mut found = routes(forwarding(vec![to("a", 1)], filters))[0]["route"].take();
        found.as_object_mut().unwrap().retain(|field, _| field.contains("ewrite"));
        expect(&found, wanted);
    };
    check_path(PathChange::Full("/a%20b".into()), "pathRewrite: /a%%20b");
    check_path(prefix("/foo", "/xyz"), "prefixRewrite: /xyz");
    check_path(prefix("/foo/", "/xyz/"), "prefixRewrite: /xyz");
    check_path(prefix("/", "/xyz"), "prefixRewrite: /xyz/");
    check_path(prefix("/", "/"), "{}");
    check_path(prefix("/f.o-o", ""), r"regexRewrite: {pattern: {regex: '^\/f\.o\-o/*'}, substitution: /}");
    check_path(prefix("/foo", "/"), r"regexRewrite: {pattern: {regex: '^\/foo/*'}, substitution: /}");
}

fn check_redirect(redirect: Redirect, wanted: &str) {
    check_one(route(Action::Redirect(redirect.into()), Filters::default()), wanted);
}

#[test]
fn redirects_of_every_code_and_part() {
    let plain = Redirect { status: 302, scheme: None, host: None, port: None, is_default_port: false, path: None };
    check_redirect(plain.clone(), "redirect: {responseCode: FOUND}");
    check_redirect(
        Redirect {
            status: 301,
            scheme: Some("https".into()),
            host: Some("a.example".into()),
            port: Some(8443),
            is_default_port: false,
            path: Some(PathChange::Full("/all".into())),
        },
        "redirect: {schemeRedirect: https, hostRedirect: a.example, portRedirect: 8443, pathRedirect: /all}",
    );
    let path = |path| Redirect { status: 308, path: Some(path), ..plain.clone() };
    check_redirect(path(prefix("/a", "/b")), "redirect: {responseCode: PERMANENT_REDIRECT, prefixRewrite: /b}");
    check_redirect(
        path(prefix("/a", "")),
        r"redirect: {responseCode: PERMANENT_REDIRECT, regexRewrite: {pattern: {regex: '^\/a/*'}, substitution: /}}",
    );
}

#[test]
fn a_default_port_is_printed_only_in_place_of_another() {
    let scheme = Some("https".into());
    let plain = Redirect { status: 302, scheme, host: None, port: Some(443), is_default_port: true, path: None };
    check(
        route(Action::Redirect(plain.into()), Filters::default()),
        "
- name: r
  match: {prefix: /, headers: [{name: ':authority', stringMatch: {safeRegex: {regex: '.*:[0-9]+'}}}]}
  redirect: {responseCode: FOUND, schemeRedirect: https, portRedirect: 443}
- name: r
  match: {prefix: /}
  redirect: {responseCode: FOUND, schemeRedirect: https}
",
    );
}

#[test]
fn mirrors_take_their_share_and_keep_the_host() {
    let mirror = |cluster: &str, share| Mirror { cluster: cluster.into(), share };
    let mirrors = vec![mirror("m", 1_000_000), mirror("half", 500_000), mirror("none", 0)];
    check_one(
        forwarding(vec![to("a", 1)], Filters { mirrors, ..Filters::default() }),
        "
route:
  cluster: a
  requestMirrorPolicies:
  - {cluster: m, disableShadowHostSuffixAppend: true}
  - cluster: half
    runtimeFraction: {defaultValue: {numerator: 500000, denominator: MILLION}}
    disableShadowHostSuffixAppend: true
",
    );
}

#[test]
fn origins_are_compared_whole_with_their_default_ports() {
    let origins = |origins: &[&str]| {
        let allow_origins = origins.iter().map(|origin| Arc::from(*origin)).collect();
        let cors = Cors { allow_origins, max_age: 5, ..Cors::default() };
        let filters = Filters { cors: Some(Arc::new(cors)), ..Filters::default() };
        let found = forwarding(vec![to("a", 1)], filters);
        routes(found)[0]["typedPerFilterConfig"]["envoy.filters.http.cors"].take()
    };
    expect(
        &origins(&[
            "*",
            "https://a.example",
            "http://A.example:80",
            "https://a.example:8443",
            "http://*.b.example",
            "app://x",
            "https://*:1",
        ]),
        r"
'@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy
allowOriginStringMatch:
- exact: '*'
- safeRegex: {regex: 'https\:\/\/a\.example(:443)?'}
- safeRegex: {regex: 'http\:\/\/a\.example(:80)?'}
- exact: https://a.example:8443
- safeRegex: {regex: 'http\:\/\/[^/:]+\.b\.example(:80)?'}
- exact: app://x
- safeRegex: {regex: 'https\:\/\/[^/:]+:1'}
maxAge: '5'
allowCredentials: false
forwardNotMatchingPreflights: false
",
    );
}

#[test]
fn an_answer_of_the_proxy_says_why_and_takes_response_headers() {
    let filters = Filters { response_headers: sets("x-a", "b").into(), ..Filters::default() };
    check_one(
        route(respond(421), filters),
        "
metadata: {filterMetadata: {chancery: {reason: why}}}
responseHeadersToAdd: [{header: {key: x-a, value: b}, appendAction: OVERWRITE_IF_EXISTS_OR_ADD}]
directResponse: {status: 421}
",
    );
}

#[test]
fn escaped_text_matches_itself_only() {
    for (text, wanted) in [("/a.b", r"\/a\.b"), ("é+_1Z", "é\\+_1Z"), ("\0", r"\x00"), ("", "")] {
        assert_eq!(crate::regex::escape(text), wanted);
    }
}

#[test]
fn preflights_of_a_route_with_a_method_have_a_route_of_their_own() {
    let filters = Filters { cors: Some(Arc::new(Cors::default())), ..Filters::default() };
    let matched = |method: Option<&str>| {
        let mut found = forwarding(vec![to("a", 1)], filters.clone());
        found.matches.method = method.map(Into::into);
        let found = routes(found);
        found.as_array().unwrap().iter().map(|route| route["match"]["headers"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(matched(None).len(), 1);
    assert_eq!(matched(Some("OPTIONS")).len(), 1);
    let [preflight, own] = &matched(Some("GET"))[..] else { panic!("two routes") };
    expect(own, "[{name: ':method', stringMatch: {exact: GET}}]");
    expect(
        preflight,
        "
- {name: ':method', stringMatch: {exact: OPTIONS}}
- {name: origin, stringMatch: {safeRegex: {regex: .+}}}
- {name: access-control-request-method, stringMatch: {exact: GET}}
",
    );
}
