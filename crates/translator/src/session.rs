//! Session persistence (GEP-1619): what a client brings back, as backends and rules of routes ask for it.

use std::sync::Arc;
use std::time::Duration;

use api::ObjectKey;
use api::http_route::{CookieLifetime, SessionCookie, SessionPersistence, SessionPersistenceType};
use ir::route::Session;

use crate::key::short_hash;

/// What is asked for, before it is known whose cookie it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Persistence {
    session: Session,
    /// The cookie has no name of its own.
    unnamed: bool,
    /// Worth saying although it works: a field and words.
    pub(crate) warning: Option<(&'static str, &'static str)>,
}

/// Envoy ends a session only together with its cookie.
const KEPT_BY_CLIENTS: &str = "absoluteTimeout also says how long clients keep the cookie: they have it after they were closed, as with lifetimeType Permanent";

/// No less than what is asked for.
fn whole_seconds(timeout: Duration) -> Duration {
    Duration::from_secs(timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0))
}

/// What a header says already, so that an answer or a request with a session in it would mean something else (RFC 9110, 9112, 6265).
fn meaning(name: &str) -> Option<&'static str> {
    match &*name.to_ascii_lowercase() {
        "content-length" | "transfer-encoding" | "content-type" | "content-encoding" | "content-range" | "trailer" => {
            Some("it says what the message is")
        }
        "connection" | "keep-alive" | "te" | "upgrade" | "proxy-connection" | "expect" => {
            Some("it is about the connection")
        }
        "host" | "location" => Some("it says where a request goes"),
        "cookie" | "set-cookie" => Some("it holds cookies; there is type Cookie"),
        "authorization" | "proxy-authorization" | "www-authenticate" | "proxy-authenticate" => Some("it says who may"),
        name if name.contains('_') => Some("proxies refuse requests with an underscore in a header's name"),
        _ => None,
    }
}

/// Why browsers would not keep a cookie of this name (RFC 6265bis, 4.1.3).
const PREFIXED: &str = "cookies whose names begin with __Host- or __Secure- are kept by browsers only with Secure, which is not said of them";

impl Persistence {
    /// Reads what is asked for; the field at fault and words, where that cannot be done.
    pub(crate) fn read(persistence: &SessionPersistence) -> Result<Self, (&'static str, String)> {
        let timeout = match persistence.absolute_timeout.as_ref().map(|text| text.get()) {
            Some(None) => return Err(("absoluteTimeout", "is not a duration".to_owned())),
            // Envoy counts whole seconds, and none of them is no end.
            Some(found) => found.filter(|timeout| !timeout.is_zero()).map(whole_seconds),
            None => None,
        };
        match (&persistence.persistence_type, &persistence.cookie, &persistence.header) {
            (SessionPersistenceType::Cookie, Some(cookie), None) => Self::of_cookie(cookie, timeout),
            (SessionPersistenceType::Header, None, Some(header)) => {
                if persistence.absolute_timeout.is_some() {
                    let text = "sessions by a header cannot be ended by time".to_owned();
                    return Err(("absoluteTimeout", text));
                }
                if let Some(meaning) = meaning(&header.name) {
                    return Err(("header.name", format!("{} cannot carry a session: {meaning}", &*header.name)));
                }
                let session = Session::Header { name: (*header.name).into() };
                Ok(Self { session, unnamed: false, warning: None })
            }
            (SessionPersistenceType::Unknown(word), ..) => {
                Err(("type", format!("{word:?} is not supported, Cookie and Header are")))
            }
            _ => Err(("type", "exactly the field of its type is needed".to_owned())),
        }
    }

    fn of_cookie(cookie: &SessionCookie, timeout: Option<Duration>) -> Result<Self, (&'static str, String)> {
        let warning = match (&cookie.lifetime_type, timeout) {
            (CookieLifetime::Session, None) | (CookieLifetime::Permanent, Some(_)) => None,
            (CookieLifetime::Session, Some(_)) => Some(("absoluteTimeout", KEPT_BY_CLIENTS)),
            (CookieLifetime::Permanent, None) => {
                return Err(("absoluteTimeout", "is needed with lifetimeType Permanent, and more than 0".to_owned()));
            }
            (CookieLifetime::Unknown(word), _) => {
                let text = format!("{word:?} is not supported, Session and Permanent are");
                return Err(("cookie.lifetimeType", text));
            }
        };
        // It stands in a header as it is (RFC 6265 4.1.1, path-value).
        let is_path = cookie.path.starts_with('/')
            && cookie.path.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b';');
        if !is_path {
            return Err(("cookie.path", "has to begin with / and be of visible ASCII letters without ;".to_owned()));
        }
        let begins = |prefix: &str| {
            let name = cookie.name.as_deref().and_then(|name| name.get(..prefix.len()));
            name.is_some_and(|name| name.eq_ignore_ascii_case(prefix))
        };
        let warning = if begins("__Host-") || begins("__Secure-") { Some(("cookie.name", PREFIXED)) } else { warning };
        let session = Session::Cookie {
            name: cookie.name.as_deref().unwrap_or_default().into(),
            path: (*cookie.path).into(),
            lifetime: timeout,
            backend: None,
        };
        Ok(Self { session, unnamed: cookie.name.is_none(), warning })
    }

    /// The session with one of several that may ask for the same; `whose` tells them apart where no name does. A name of the user's own goes with a second
    /// cookie, also where there is one backend alone: there may be another one tomorrow.
    pub(crate) fn of(&self, whose: &[&str], whose_backend: &[&str]) -> Arc<Session> {
        let mut session = self.session.clone();
        if let Session::Cookie { name, backend, .. } = &mut session {
            if self.unnamed {
                *name = format!("session-{}", short_hash(whose)).into();
            } else {
                *backend = Some(short_hash(whose_backend).into());
            }
        }
        Arc::new(session)
    }

    /// Whether a client can say with which of several backends its session is.
    pub(crate) fn tells_backends_apart(&self) -> bool {
        matches!(self.session, Session::Cookie { .. })
    }

    /// The session with a backend.
    pub(crate) fn of_backend(&self, backend: &ObjectKey) -> Arc<Session> {
        let whose = [backend.kind_name(), backend.namespace(), backend.name()];
        self.of(&whose, &whose)
    }
}
