//! Redirects and rewrites: the tables of the Gateway API; and what filters refuse.

use api::http_route::{HttpRouteFilter, PathModifier, RequestRedirectFilter, UrlRewriteFilter};
use ir::route::{PathChange, PathMatch};
use serde_json::json;

use super::super::ListenerPort;
use super::{Draft, check_origin, check_path, check_redirect, path_change, prefix, share};

fn redirect(listener: (u16, bool), settings: serde_json::Value) -> (Option<String>, Option<u16>) {
    let filter: RequestRedirectFilter = serde_json::from_value(settings).expect("a redirect");
    let draft = Draft { redirect: Some(&filter), ..Draft::default() };
    let flavour = Some(ListenerPort { port: listener.0, tls: listener.1 });
    let redirect = draft.redirect(&PathMatch::Prefix("/".into()), flavour).expect("a redirect");
    (redirect.scheme.map(|scheme| scheme.to_string()), redirect.port)
}

#[test]
fn a_redirect_names_the_port_that_the_api_says() {
    let (http, https, alt) = ((80, false), (443, true), (8080, false));
    let cases = [
        (http, json!({}), 80),
        (http, json!({"port": 80}), 80),
        (http, json!({"port": 8080}), 8080),
        (http, json!({"scheme": "https"}), 443),
        (http, json!({"scheme": "https", "port": 443}), 443),
        (http, json!({"scheme": "https", "port": 8443}), 8443),
        (alt, json!({}), 8080),
        (alt, json!({"port": 80}), 80),
        (alt, json!({"scheme": "https"}), 443),
        (https, json!({}), 443),
        (https, json!({"port": 443}), 443),
        (https, json!({"port": 8443}), 8443),
        (https, json!({"scheme": "http"}), 80),
        (https, json!({"scheme": "http", "port": 80}), 80),
        (https, json!({"scheme": "http", "port": 8080}), 8080),
    ];
    for (listener, settings, port) in cases {
        let (scheme, printed) = redirect(listener, settings.clone());
        assert_eq!(printed, Some(port), "{listener:?} {settings}: without a host Envoy would keep the request's port");
        let effective = scheme.unwrap_or(if listener.1 { "https".into() } else { "http".into() });
        let default = if effective == "https" { 443 } else { 80 };
        let mut with_host = settings.clone();
        with_host["hostname"] = "example.org".into();
        assert_eq!(redirect(listener, with_host).1, (port != default).then_some(port), "{listener:?} {settings}");
    }
}

#[test]
fn a_prefix_is_replaced_whatever_the_slashes() {
    let change = |matched: &str, replacement: &str| {
        path_change(&PathModifier::ReplacePrefixMatch(replacement.into()), &PathMatch::Prefix(prefix(matched)))
    };
    let to = |matched: &str, replacement: &str| {
        Some(PathChange::Prefix { matched: matched.into(), replacement: replacement.into() })
    };
    for matched in ["/foo", "/foo/"] {
        for replacement in ["/xyz", "/xyz/"] {
            assert_eq!(change(matched, replacement), to("/foo", "/xyz"));
        }
        for replacement in ["", "/"] {
            assert_eq!(change(matched, replacement), to("/foo", ""));
        }
    }
    assert_eq!(change("/", "/xyz"), to("/", "/xyz"));
    let full = PathModifier::ReplaceFullPath("/x".into());
    assert_eq!(path_change(&full, &PathMatch::Exact("/a".into())), Some(PathChange::Full("/x".into())));
    let on_exact = PathModifier::ReplacePrefixMatch("/x".into());
    assert_eq!(path_change(&on_exact, &PathMatch::Exact("/a".into())), None);
}

#[test]
fn a_rewrite_keeps_what_it_does_not_name() {
    let filter: UrlRewriteFilter = serde_json::from_value(json!({"hostname": "a.org"})).expect("a rewrite");
    let draft = Draft { any: true, rewrite: Some(&filter), ..Draft::default() };
    let rewrite = draft.finish(&PathMatch::Prefix("/".into()), None).rewrite.clone().expect("a rewrite");
    assert_eq!((rewrite.host.as_deref(), rewrite.path), (Some("a.org"), None));
}

#[test]
fn shares_of_mirrors_are_millionths() {
    let of = |settings: serde_json::Value| share(&serde_json::from_value(settings).expect("a mirror"));
    assert_eq!(of(json!({})), Ok(1_000_000));
    assert_eq!(of(json!({"percent": 20})), Ok(200_000));
    assert_eq!(of(json!({"percent": 0})), Ok(0));
    assert_eq!(of(json!({"fraction": {"numerator": 25, "denominator": 50}})), Ok(500_000));
    assert_eq!(of(json!({"fraction": {"numerator": 1}})), Ok(10_000));
    assert_eq!(of(json!({"fraction": {"numerator": 1, "denominator": 3}})), Ok(333_333));
    for bad in [
        json!({"percent": 101}),
        json!({"fraction": {"numerator": 2, "denominator": 1}}),
        json!({"fraction": {"numerator": 1, "denominator": 0}}),
        json!({"percent": 1, "fraction": {"numerator": 1}}),
    ] {
        assert!(of(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn values_that_envoy_would_refuse_are_refused_here() {
    let redirect = |settings: serde_json::Value| check_redirect(&serde_json::from_value(settings).expect("a redirect"));
    assert_eq!(redirect(json!({"statusCode": 308, "scheme": "https"})), Ok(()));
    for bad in [
        json!({"statusCode": 304}),
        json!({"scheme": "ftp"}),
        json!({"port": 0}),
        json!({"hostname": "*.x.org"}),
        json!({"hostname": "a b"}),
        json!({"path": {"type": "ReplaceFullPath", "replaceFullPath": "x"}}),
        json!({"path": {"type": "Odd"}}),
    ] {
        assert!(redirect(bad.clone()).is_err(), "{bad}");
    }
    assert!(check_path(&PathModifier::ReplaceFullPath("/a\nb".into())).is_err());
    for (path, instead) in [("/f?x=1", "'?'; write %3F"), ("/f#x", "'#'; write %23"), ("/a b", "' '; write %20")] {
        for modifier in [PathModifier::ReplaceFullPath, PathModifier::ReplacePrefixMatch] {
            assert_eq!(check_path(&modifier(path.into())), Err(format!("{path:?} is not a path, it holds {instead}")));
        }
    }
    for good in ["*", "https://a.example", "https://*.b.example:8443", "http://*", "http://[::1]:80"] {
        assert!(check_origin(good).is_ok(), "{good}");
    }
    for bad in ["", "a.example", "https://", "https://a b", "https://a/path"] {
        assert!(check_origin(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_filter_without_its_settings_is_unknown() {
    let filter: HttpRouteFilter = serde_json::from_value(json!({"type": "URLRewrite"})).expect("a filter");
    assert!(matches!(filter, HttpRouteFilter::Unknown(_)));
}
