//! `HTTPRoute`: rules, matches, where the traffic goes.

mod filter;

use std::sync::Arc;

use serde::Deserialize;

pub use self::filter::{
    CorsFilter, ExternalAuthFilter, ExternalAuthProtocol, ForwardBody, Fraction, GrpcAuth, HeaderFilter, HeaderValue,
    HttpAuth, HttpRouteFilter, PathModifier, RequestMirrorFilter, RequestRedirectFilter, UrlRewriteFilter,
};
use crate::duration::DurationText;
use crate::kind::Kind;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::reference::{BackendObjectRef, GatewayScope, ParentRef};
use crate::resource::{Resource, Spec};
use crate::route_object::mark_rules;

/// Rules for HTTP requests.
pub type HttpRoute = Resource<HttpRouteSpec>;

/// `HTTPRoute.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSpec {
    /// What it attaches to. Most routes attach to the same: whoever has many of them can share one list.
    #[serde(deserialize_with = "list")]
    pub parent_refs: Arc<[ParentRef]>,
    /// Whether it attaches to default Gateways (experimental).
    pub use_default_gateways: Option<GatewayScope>,
    /// Hosts, as written; empty means those of the listener.
    pub hostnames: Box<[Box<str>]>,
    /// 1 to 16 rules; a route without `rules` has one that matches everything and has no backend.
    pub rules: Box<[HttpRouteRule]>,
}

pub(crate) fn list<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<[T]>, D::Error> {
    Vec::deserialize(deserializer).map(Arc::from)
}

impl Default for HttpRouteSpec {
    fn default() -> Self {
        let rules = [HttpRouteRule::default()].into();
        Self { parent_refs: Arc::default(), use_default_gateways: None, hostnames: Box::default(), rules }
    }
}

impl Spec for HttpRouteSpec {
    const KIND: Kind = Kind::HttpRoute;

    fn mark(&mut self, faults: UnitFaults) {
        mark_rules(&mut self.rules, faults, |rule| (&mut rule.fault, &mut rule.matches), |matched| &mut matched.fault);
    }
}

/// `HTTPRoute.spec.rules[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteRule {
    /// Name, unique in the route.
    pub name: Option<Box<str>>,
    /// Any of these must match. The API's default is one match for the prefix `/`.
    pub matches: Box<[HttpRouteMatch]>,
    /// What happens to matching requests.
    pub filters: Box<[HttpRouteFilter]>,
    /// Where matching requests go.
    pub backend_refs: Box<[HttpBackendRef]>,
    /// Timeouts.
    pub timeouts: Option<Box<HttpRouteTimeouts>>,
    /// Retries.
    pub retry: Option<Box<HttpRouteRetry>>,
    /// Sticky sessions (experimental, deprecated).
    pub session_persistence: Option<Box<SessionPersistence>>,
    /// Why what the rule wants cannot be done. Its matches are good, and requests that match answer 500.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

impl Default for HttpRouteRule {
    fn default() -> Self {
        Self {
            name: None,
            matches: [HttpRouteMatch::default()].into(),
            filters: Box::default(),
            backend_refs: Box::default(),
            timeouts: None,
            retry: None,
            session_persistence: None,
            fault: None,
        }
    }
}

/// `HTTPRoute.spec.rules[].matches[]`: all of its conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteMatch {
    /// Path, default the prefix `/`.
    pub path: PathMatch,
    /// Header conditions.
    pub headers: Box<[HeaderMatch]>,
    /// Query parameter conditions.
    pub query_params: Box<[QueryParamMatch]>,
    /// Method.
    pub method: Option<HttpMethod>,
    /// Why this match cannot be used: it matches nothing, the rule's other matches hold.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
}

/// `matches[].path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PathMatch {
    /// How it is compared.
    #[serde(rename = "type")]
    pub match_type: PathMatchType,
    /// What it is compared with.
    pub value: Box<str>,
}

impl Default for PathMatch {
    fn default() -> Self {
        Self { match_type: PathMatchType::PathPrefix, value: "/".into() }
    }
}

open_enum! {
    /// `matches[].path.type`.
    PathMatchType {
        /// Whole segments at the start.
        PathPrefix = "PathPrefix",
        /// The whole path.
        Exact = "Exact",
        /// A regular expression over the whole path.
        RegularExpression = "RegularExpression",
    }
}

/// `matches[].headers[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderMatch {
    /// How the value is compared.
    #[serde(rename = "type")]
    pub match_type: ValueMatchType,
    /// Name of the header, in any case.
    pub name: Box<str>,
    /// What the value is compared with.
    pub value: Box<str>,
}

/// `matches[].queryParams[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryParamMatch {
    /// How the value is compared.
    #[serde(rename = "type")]
    pub match_type: ValueMatchType,
    /// Name of the parameter, case-sensitive.
    pub name: Box<str>,
    /// What the value is compared with.
    pub value: Box<str>,
}

open_enum! {
    /// `headers[].type` and `queryParams[].type`.
    ValueMatchType {
        /// Equal.
        Exact = "Exact",
        /// A regular expression over the whole value.
        RegularExpression = "RegularExpression",
    }
}

open_enum! {
    /// HTTP methods.
    HttpMethod {
        /// GET
        Get = "GET",
        /// HEAD
        Head = "HEAD",
        /// POST
        Post = "POST",
        /// PUT
        Put = "PUT",
        /// DELETE
        Delete = "DELETE",
        /// CONNECT
        Connect = "CONNECT",
        /// OPTIONS
        Options = "OPTIONS",
        /// TRACE
        Trace = "TRACE",
        /// PATCH
        Patch = "PATCH",
    }
}

/// `backendRefs[]`: one weighted target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "WrittenBackendRef")]
pub struct HttpBackendRef {
    /// The target.
    pub target: BackendObjectRef,
    /// Share of the traffic, 0 to 1,000,000, default 1.
    pub weight: u32,
    /// What happens to requests that go to this target.
    pub filters: Box<[HttpRouteFilter]>,
}

/// The fields as written: target, weight and filters side by side.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenBackendRef {
    group: Box<str>,
    kind: Box<str>,
    namespace: Option<Box<str>>,
    name: Box<str>,
    port: Option<u16>,
    weight: u32,
    filters: Box<[HttpRouteFilter]>,
}

impl Default for WrittenBackendRef {
    fn default() -> Self {
        let BackendObjectRef { group, kind, namespace, name, port } = BackendObjectRef::default();
        Self { group, kind, namespace, name, port, weight: 1, filters: Box::default() }
    }
}

impl From<WrittenBackendRef> for HttpBackendRef {
    fn from(written: WrittenBackendRef) -> Self {
        let WrittenBackendRef { group, kind, namespace, name, port, weight, filters } = written;
        Self { target: BackendObjectRef { group, kind, namespace, name, port }, weight, filters }
    }
}

/// `rules[].timeouts`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteTimeouts {
    /// The whole transaction, retries included; zero is off.
    pub request: Option<DurationText>,
    /// One try; zero is off.
    pub backend_request: Option<DurationText>,
}

/// `rules[].retry` (GEP-1731).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteRetry {
    /// Status codes that are tried again, 400 to 599.
    pub codes: Box<[u16]>,
    /// Further tries, default 1; 0 turns retries off.
    pub attempts: u32,
    /// Least time between tries.
    pub backoff: Option<DurationText>,
}

impl Default for HttpRouteRetry {
    fn default() -> Self {
        Self { codes: Box::default(), attempts: 1, backoff: None }
    }
}

/// `rules[].sessionPersistence` (GEP-1619).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionPersistence {
    /// By cookie or header.
    #[serde(rename = "type")]
    pub persistence_type: SessionPersistenceType,
    /// When a session ends whatever happens.
    pub absolute_timeout: Option<DurationText>,
    /// For `Cookie`.
    pub cookie: Option<SessionCookie>,
    /// For `Header`.
    pub header: Option<SessionHeader>,
}

open_enum! {
    /// `sessionPersistence.type`.
    SessionPersistenceType {
        /// By cookie.
        Cookie = "Cookie",
        /// By header.
        Header = "Header",
    }
}

/// `sessionPersistence.cookie`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionCookie {
    /// Name of the cookie.
    pub name: Option<Box<str>>,
    /// Path of the cookie, default `/`.
    pub path: Box<str>,
    /// How long clients keep it.
    pub lifetime_type: CookieLifetime,
}

impl Default for SessionCookie {
    fn default() -> Self {
        Self { name: None, path: "/".into(), lifetime_type: CookieLifetime::default() }
    }
}

open_enum! {
    /// `cookie.lifetimeType`.
    CookieLifetime {
        /// Until the client's session ends.
        Session = "Session",
        /// Until the absolute timeout.
        Permanent = "Permanent",
    }
}

/// `sessionPersistence.header`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionHeader {
    /// Name of the header.
    pub name: Box<str>,
}
