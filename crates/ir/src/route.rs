//! Routes: who answers a request, and what is changed on the way.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::name::{ClusterName, RouteConfigurationName, VirtualHostName};

/// All virtual hosts behind one HTTP port or one TLS server name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteConfiguration {
    /// Unique in the fleet.
    pub name: RouteConfigurationName,
    /// Where its virtual hosts are.
    pub hosts: Hosts,
}

/// A small route configuration holds its hosts; a large one has them delivered one by one, so that one change costs the same
/// at any size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Hosts {
    /// Inside the route configuration, sorted by name.
    Inline(Vec<Arc<VirtualHost>>),
    /// As resources of their own, never none.
    Separate,
}

/// The routes of some domains. Domains are unique in a route configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VirtualHost {
    /// Unique in the fleet.
    pub name: VirtualHostName,
    /// Exact names, `*.` suffix wildcards, or `*`; ports are not looked at.
    pub domains: Vec<Arc<str>>,
    /// The routes in order of precedence (the first that matches wins), in pieces that change, and are encoded, on their own.
    /// No route at all answers 404.
    pub pieces: Vec<Arc<RoutePiece>>,
    /// Who is asked whether a request may pass before its route is chosen, one after the other: all of them have to allow it. The route is chosen by the
    /// request as their answers change it, and asks by itself behind them. At most [`VirtualHost::MOST_EXTERNAL_AUTH`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<Arc<ExternalAuth>>,
}

impl VirtualHost {
    /// So many can be asked before a route is chosen (Gateway API: `maxItems` of `Listener.filters.requests`).
    pub const MOST_EXTERNAL_AUTH: usize = 16;
}

/// A run of consecutive routes of a virtual host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RoutePiece {
    /// In order of precedence.
    pub routes: Vec<Arc<Route>>,
}

/// One match with what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// From the route object and its rule's name or content, never its position; shown in Envoy's access log and statistics.
    pub name: Arc<str>,
    /// Which requests.
    #[serde(rename = "match")]
    pub matches: RouteMatch,
    /// Who answers.
    pub action: Action,
    /// What is changed for every destination.
    #[serde(skip_serializing_if = "MaybeFilters::is_none")]
    pub filters: MaybeFilters,
}

/// Which requests a route takes: all of these must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RouteMatch {
    /// The path without query.
    pub path: PathMatch,
    /// The method, in capitals as HTTP has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// Header values; names in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<NamedMatch>,
    /// Query parameters; names as written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<NamedMatch>,
    /// Only gRPC calls: the content type says so. What cannot be sent to a backend is answered with UNAVAILABLE then, and not with 500.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
}

/// A comparison with a normalised path: no dot segments, no repeated slashes, unreserved characters as they are. Case matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    /// The whole path.
    Exact(Arc<str>),
    /// Whole segments from the left; written without a slash at the end, `/` takes every path.
    Prefix(Arc<str>),
    /// An RE2 expression for the whole path.
    Regex(Arc<str>),
}

/// One header or query parameter and the value it must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NamedMatch {
    /// The name.
    pub name: Arc<str>,
    /// The value.
    pub value: ValueMatch,
}

/// How a value is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueMatch {
    /// The whole value, case-sensitive.
    Exact(Arc<str>),
    /// An RE2 expression for the whole value.
    Regex(Arc<str>),
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Backends.
    Forward(Box<Forward>),
    /// The proxy, with a redirect.
    Redirect(Box<Redirect>),
    /// The proxy, with this status.
    Respond(Respond),
}

/// An answer of the proxy itself, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// For people who read the configuration; not sent to clients.
    pub reason: Arc<str>,
}

/// Requests go to backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forward {
    /// At least one, and the weights do not sum up to 0 (such a route is a [`Respond`] with 500).
    pub destinations: Vec<Destination>,
    /// The whole exchange, retries included. `None` is unlimited for as long as something is sent; zero is unlimited, whatever is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// One try; `None` is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub try_timeout: Option<Duration>,
    /// Further tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
}

/// One backend and its share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Destination {
    /// Where to.
    pub backend: Backend,
    /// Share = weight / sum of weights; 0 gets nothing. At most 1,000,000 (Gateway API).
    pub weight: u32,
    /// What is changed for this destination only, after the route's own; where both set a thing, this one wins.
    #[serde(skip_serializing_if = "MaybeFilters::is_none")]
    pub filters: MaybeFilters,
}

/// A backend, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Backend {
    /// A cluster of the fleet.
    Cluster(ClusterName),
    /// The share of a broken reference: answers 500, gRPC calls UNAVAILABLE. The text says why.
    Broken(Arc<str>),
}

/// Changes on the way to a backend and back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// On the request.
    #[serde(skip_serializing_if = "MaybeHeaderChanges::is_none")]
    pub request_headers: MaybeHeaderChanges,
    /// On the response.
    #[serde(skip_serializing_if = "MaybeHeaderChanges::is_none")]
    pub response_headers: MaybeHeaderChanges,
    /// Of host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Box<Rewrite>>,
    /// Copies of the request; answers to them are dropped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Cross-origin requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Arc<Cors>>,
    /// Who is asked first whether the request may pass, one after the other: all of them have to allow it. It holds for every action.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<Arc<ExternalAuth>>,
    /// Instead of forwarding: only on a destination whose own filters redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Box<Redirect>>,
    /// How a client comes back to the endpoint that answered it. It holds within the destination that is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Arc<Session>>,
    /// A request whose retry the budget of its cluster leaves no room for is answered with 503.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retry_budget: bool,
}

/// What a client brings back, so that its requests go to one endpoint as long as that takes requests (GEP-1619).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Session {
    /// A cookie.
    Cookie {
        /// Its name.
        name: Arc<str>,
        /// Below this path.
        path: Arc<str>,
        /// So long the session lasts and the client keeps the cookie; `None`: until the client ends.
        #[serde(skip_serializing_if = "Option::is_none")]
        lifetime: Option<Duration>,
        /// Which backend it is of those whose cookies may have this name: the value of a second one.
        #[serde(skip_serializing_if = "Option::is_none")]
        backend: Option<Arc<str>>,
    },
    /// A header.
    Header {
        /// Its name.
        name: Arc<str>,
    },
}

impl Filters {
    /// Nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == *Self::NOTHING
    }
}

/// [`Filters`] in a pointer: most routes and destinations have none, and there are many of them.
pub type MaybeFilters = Maybe<Filters>;

/// [`HeaderChanges`] in a pointer: most filters have none of the request or none of the response.
pub type MaybeHeaderChanges = Maybe<HeaderChanges>;

/// A value in a pointer, or [`Nothing`], which reads like an empty one.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Maybe<T: Nothing>(Option<Box<T>>);

/// What may be empty, and then says nothing.
pub trait Nothing: Clone + Default + fmt::Debug + Eq + 'static {
    /// The empty one.
    const NOTHING: &'static Self;
}

impl<T: Nothing> Maybe<T> {
    /// It says nothing.
    pub fn is_none(&self) -> bool {
        **self == *T::NOTHING
    }
}

impl<T: Nothing> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Nothing> PartialEq for Maybe<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Nothing> Eq for Maybe<T> {}

impl<T: Nothing> From<T> for Maybe<T> {
    fn from(value: T) -> Self {
        Self((value != *T::NOTHING).then(|| Box::new(value)))
    }
}

impl<T: Nothing> Deref for Maybe<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

impl<T: Nothing> DerefMut for Maybe<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Nothing> fmt::Debug for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Nothing for HeaderChanges {
    const NOTHING: &'static Self = &Self { remove: Vec::new(), set: Vec::new(), add: Vec::new() };
}

impl Nothing for Filters {
    const NOTHING: &'static Self = &Self {
        request_headers: Maybe(None),
        response_headers: Maybe(None),
        rewrite: None,
        mirrors: Vec::new(),
        cors: None,
        external_auth: Vec::new(),
        redirect: None,
        session: None,
        retry_budget: false,
    };
}

/// Changes of headers: removed first, then set, then added. Values are literal text, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeaderChanges {
    /// Names to remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Arc<str>>,
    /// Replaces all values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Appends a value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<(Arc<str>, Arc<str>)>,
}

impl HeaderChanges {
    /// Nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }
}

/// A new host or path for the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// The host header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// The path; the query stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

/// How a path is changed (Gateway API `HTTPPathModifier`, all slash cases).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PathChange {
    /// The whole path becomes this.
    Full(Arc<str>),
    /// The matched prefix becomes this; written without a slash at the end, empty strips the prefix. `matched` is the prefix
    /// of the route's match, in the form of [`PathMatch::Prefix`].
    Prefix {
        /// What is replaced.
        matched: Arc<str>,
        /// By what.
        replacement: Arc<str>,
    },
}

/// A redirect. Everything is decided: the translator has worked out scheme and port from the listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `http` or `https`; `None` keeps the request's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Arc<str>>,
    /// `None` keeps the request's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// The port to print; `None` prints none (only where `host` is given, else Envoy keeps the request's port).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `port` is the one that the scheme has anyway: it is printed only in place of another one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_default_port: bool,
    /// `None` keeps path and query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

/// A copy of some requests for another backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mirror {
    /// Where to. A broken mirror backend is left out by the translator.
    pub cluster: ClusterName,
    /// Share of the requests, in millionths: 0 to 1,000,000.
    pub share: u32,
}

/// Cross-origin resource sharing (Gateway API `HTTPCORSFilter`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cors {
    /// Origins as written: `https://a.example`, `https://*.b.example:8443`, `*`.
    pub allow_origins: Vec<Arc<str>>,
    /// Methods, or `*`.
    pub allow_methods: Vec<Arc<str>>,
    /// Header names, or `*`.
    pub allow_headers: Vec<Arc<str>>,
    /// Header names, or `*`.
    pub expose_headers: Vec<Arc<str>>,
    /// How long a preflight's answer may be kept, in seconds.
    pub max_age: u32,
    /// Cookies and the like are allowed.
    pub allow_credentials: bool,
}

/// A server that is asked whether a request may pass (Gateway API `HTTPExternalAuthFilter`). Whatever goes wrong in asking, it may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// Who is asked.
    pub cluster: ClusterName,
    /// How.
    pub protocol: AuthProtocol,
    /// Headers of the request that the server is told, in lower case: over HTTP besides host, method, path and authorization, which it is always
    /// told; over gRPC all where none is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_headers: Vec<Arc<str>>,
    /// The longest body that is sent along, in bytes; a request with a longer one is answered 413. `None` sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<NonZeroU32>,
}

/// How a server is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthProtocol {
    /// The request as it came, without its body. 200 allows it, anything else is what the client gets.
    #[serde(rename_all = "camelCase")]
    Http {
        /// In front of the request's path; empty, or with a slash at the beginning and none at the end.
        #[serde(skip_serializing_if = "str::is_empty")]
        path_prefix: Arc<str>,
        /// Headers of an answer that allows it, which the request gets, in lower case; all where none is given. Never those that say who is
        /// asked for, or where the request ends.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        response_headers: Vec<Arc<str>>,
    },
    /// `envoy.service.auth.v3.Authorization`.
    Grpc {
        /// The host that the calls are for.
        authority: Arc<str>,
    },
}

/// Further tries after a failed one. A connection that could not be made is always tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retry {
    /// Further tries: 1 and up.
    pub attempts: u32,
    /// Response codes that are tried again, 400 to 599, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<u16>,
    /// Base of the pause between tries; `None` is Envoy's 25 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Duration>,
}
