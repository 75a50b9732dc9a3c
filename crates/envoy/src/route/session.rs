//! Sessions: a cookie or a header in which a client brings back to which endpoint its requests go.

use ir::route::Session;
use proto::envoy::config::core::v3::TypedExtensionConfig;
use proto::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
};
use proto::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use proto::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use proto::envoy::r#type::http::v3::{Cookie, CookieAttribute};
use proto::google::protobuf::Any;

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
        Session::Cookie { name, path, lifetime } => TypedExtensionConfig {
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
