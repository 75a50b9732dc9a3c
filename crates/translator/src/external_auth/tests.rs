//! What is asked, as written and as it is meant.

use ir::route::{AuthProtocol, ExternalAuth};
use serde_json::{Value, json};

use super::read;

fn asked(filter: Value) -> Result<ExternalAuth, String> {
    let filter = serde_json::from_value(filter).expect("a filter");
    read(&filter, "shop").map(|whole| whole("shop/auth/80".into()))
}

fn prefix(path: &str) -> Result<String, String> {
    match asked(json!({"protocol": "HTTP", "http": {"path": path}}))?.protocol {
        AuthProtocol::Http { path_prefix, .. } => Ok(path_prefix.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_prefix_has_a_slash_in_front_and_none_behind() {
    for (written, meant) in
        [("", ""), ("/", ""), ("/check", "/check"), ("check", "/check"), ("/check/", "/check"), ("a/b", "/a/b")]
    {
        assert_eq!(prefix(written).as_deref(), Ok(meant));
    }
}

#[test]
fn a_prefix_that_servers_understand_in_different_ways_is_refused() {
    for written in
        ["/a/../b", "..", "/./a", "/a//b", "//a", "/a%2Fb", "/%2e%2e/b", "/a\\b", "/a?b=c", "/a#b", "/a b", "/a\r\nx"]
    {
        assert!(prefix(written).is_err(), "{written:?}");
    }
}

#[test]
fn names_of_headers_are_compared_without_regard_to_case() {
    let headers = json!({"allowedHeaders": ["X-Token", "x-token", "Cookie"], "allowedResponseHeaders": ["X-User"]});
    let auth = asked(json!({"protocol": "HTTP", "http": headers})).expect("good");
    assert_eq!(auth.request_headers, ["x-token".into(), "cookie".into()]);
    let AuthProtocol::Http { response_headers, .. } = auth.protocol else { panic!("HTTP") };
    assert_eq!(response_headers, ["x-user".into()]);
    for name in ["", "a b", "a:b", "a\n"] {
        assert!(asked(json!({"protocol": "GRPC", "grpc": {"allowedHeaders": [name]}})).is_err(), "{name:?}");
    }
}

#[test]
fn calls_are_for_the_server_as_it_is_named() {
    let authority = |server: Value| {
        let auth = asked(json!({"protocol": "GRPC", "grpc": {}, "backendRef": server})).expect("good");
        let AuthProtocol::Grpc { authority } = auth.protocol else { panic!("gRPC") };
        authority.to_string()
    };
    assert_eq!(authority(json!({"name": "auth"})), "auth.shop");
    assert_eq!(authority(json!({"name": "auth", "namespace": "security"})), "auth.security");
}

#[test]
fn a_body_of_no_bytes_is_none_and_one_has_a_bound() {
    let body = |size: u32| {
        asked(json!({"protocol": "GRPC", "grpc": {}, "forwardBody": {"maxSize": size}}))
            .map(|auth| auth.max_body.map(std::num::NonZeroU32::get))
    };
    assert_eq!(body(0), Ok(None));
    assert_eq!(body(1), Ok(Some(1)));
    assert_eq!(body(16 << 20), Ok(Some(16 << 20)));
    assert!(body((16 << 20) + 1).is_err_and(|text| text.contains("forwardBody.maxSize 16777217")));
}

#[test]
fn what_is_missing_or_unknown_is_refused() {
    for filter in [json!({"protocol": "HTTP"}), json!({"protocol": "GRPC"}), json!({"protocol": "SOAP", "http": {}})] {
        assert!(asked(filter.clone()).is_err(), "{filter}");
    }
}
