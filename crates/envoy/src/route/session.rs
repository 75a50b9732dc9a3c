//! Sessions: a cookie or a header in which a client brings back to which endpoint its requests go.

use ir::route::Session;
use proto::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use proto::envoy::config::core::v3::{HeaderValueOption, TypedExtensionConfig};
use proto::envoy::config::route::v3::HeaderMatcher;
use proto::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
};
use proto::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use proto::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use proto::envoy::r#type::http::v3::{Cookie, CookieAttribute};
use proto::google::protobuf::Any;

use super::{headers, matches};
use crate::regex;
use crate::wire::duration;

/// The filter, off where no route or destination says how.
pub(crate) const FILTER: &str = "envoy.filters.http.stateful_session";

/// The filter where nothing asks for it.
pub(crate) fn off() -> Any {
    Any::pack(&StatefulSession::default())
}

/// A client whose endpoint takes no requests any more goes to another, and stays with that.
pub(super) fn of_route(session: &Session) -> Any {
    let state = match session {
        Session::Cookie { name, path, lifetime, .. } => TypedExtensionConfig {
            name: "envoy.http.stateful_session.cookie".to_owned(),
            typed_config: Some(Any::pack(&CookieBasedSessionState {
                cookie: Some(Cookie {
                    name: name.as_ref().to_owned(),
                    path: path.as_ref().to_owned(),
                    ttl: lifetime.map(duration),
                    // Envoy adds HttpOnly. Not Secure: one route may be behind HTTP and HTTPS.
                    attributes: vec![CookieAttribute { name: "SameSite".to_owned(), value: "Strict".to_owned() }],
                }),
            })),
        },
        Session::Header { name } => TypedExtensionConfig {
            name: "envoy.http.stateful_session.header".to_owned(),
            typed_config: Some(Any::pack(&HeaderBasedSessionState { name: name.as_ref().to_owned() })),
        },
    };
    let session = StatefulSession { session_state: Some(state), ..StatefulSession::default() };
    Any::pack(&StatefulSessionPerRoute { r#override: Some(Override::StatefulSession(session)) })
}

/// The name of the second cookie, which says with which of several backends a session is.
fn second(name: &str) -> String {
    format!("{name}-backend")
}

/// What requests have that belong to a session with a destination; none where they do not say it.
pub(super) fn brought_back(session: &Session) -> Vec<HeaderMatcher> {
    let Session::Cookie { name, backend, .. } = session else { return Vec::new() };
    let first = cookie(name, ".*");
    let second =
        backend.as_ref().map(|backend| cookie(&second(name), &format!("{}(?:[;,].*)?", regex::escape(backend))));
    std::iter::once(first).chain(second).collect()
}

fn cookie(name: &str, value: &str) -> HeaderMatcher {
    matches::header("cookie", &format!("(?:.*[;,] *)?{}={value}", regex::escape(name)))
}

/// What answers say of it beside the cookie that Envoy's filter adds: for as long, but from each of them, so that it does not end before the other.
pub(super) fn told(session: &Session) -> Option<HeaderValueOption> {
    let Session::Cookie { name, path, lifetime, backend: Some(backend) } = session else { return None };
    let age = lifetime.map(|lifetime| format!("; Max-Age={}", lifetime.as_secs())).unwrap_or_default();
    let value = format!("{}={backend}; Path={path}{age}; HttpOnly; SameSite=Strict", second(name));
    Some(headers::option("set-cookie", &value, HeaderAppendAction::AppendIfExistsOrAdd))
}
