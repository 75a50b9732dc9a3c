//! Paths as proxies normalise them, one by one.

use api::http_route::HttpRouteMatch;
use serde_json::json;

use super::{normalized, remarks};

#[test]
fn unreserved_characters_are_decoded_and_nothing_else() {
    for (written, wanted) in [
        ("/admin", "/admin"),
        ("/%61dmin", "/admin"),
        ("/%61%64%6D%69%6e/%7E%2d%5F%2e", "/admin/~-_."),
        ("/%2F%5c%20%3a%c3%A9", "/%2F%5c%20%3a%c3%A9"),
        ("/%2561", "/%2561"),
        ("/%6", "/%6"),
        ("/%+1", "/%+1"),
        ("/%é", "/%é"),
        ("/%", "/%"),
    ] {
        assert_eq!(normalized(written), wanted);
    }
}

#[test]
fn a_match_that_no_request_has_is_named() {
    let said = |kind: &str, path: &str| {
        let matched: HttpRouteMatch = serde_json::from_value(json!({"path": {"type": kind, "value": path}})).unwrap();
        remarks(&matched).into_iter().map(|(field, text)| format!("{field}: {text}")).collect::<Vec<_>>().join("; ")
    };
    for fine in ["/", "/admin", "/admin/", "/a..b/.c", "/a%20b", "/a:b"] {
        assert_eq!(said("PathPrefix", fine), "");
        assert_eq!(said("Exact", fine), "");
    }
    for (path, words) in [
        ("/a//b", "merge repeated slashes"),
        ("/a/./b", "resolve the segments"),
        ("/a/%2e%2E", "resolve the segments"),
        ("/a%2fb", "redirect"),
        ("/a%5Cb", "redirect"),
        ("/a\\b", "backslash"),
        ("/a%00", "400"),
        ("/%61dmin", "this is compared as \"/admin\""),
    ] {
        let text = said("Exact", path);
        assert!(text.starts_with("path.value: ") && text.contains(words), "{path}: {text}");
    }
    for fine in ["/a//?b", "/a.*", "/a/./b", "/a\\.b", "/[^/]+/x", "/%C3%A9"] {
        assert_eq!(said("RegularExpression", fine), "");
    }
    for (path, words) in [
        ("/a//b", "merge"),
        ("/a\\/\\/b", "merge"),
        ("/a/\\.\\./b", "resolve"),
        ("/a(%2F|/)b", "redirect"),
        ("/%61", "decode"),
    ] {
        assert!(said("RegularExpression", path).contains(words), "{path}");
    }
}

#[test]
fn a_header_with_an_underscore_is_named() {
    let headers = json!([{"name": "x-a", "value": "1"}, {"name": "x_b", "value": "1"}]);
    let matched: HttpRouteMatch = serde_json::from_value(json!({"headers": headers})).unwrap();
    let said = remarks(&matched);
    assert_eq!(said.iter().map(|(field, _)| &**field).collect::<Vec<_>>(), ["headers[1].name"]);
}
