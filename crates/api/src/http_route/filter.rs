//! Filters of an `HTTPRoute` rule or backend.

use serde::Deserialize;

use crate::http_route::HttpMethod;
use crate::open::open_enum;
use crate::reference::{BackendObjectRef, LocalObjectRef};

/// `filters[]`: one thing that happens to a request or its response.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "WrittenFilter")]
pub enum HttpRouteFilter {
    /// Changes request headers.
    RequestHeaderModifier(Box<HeaderFilter>),
    /// Changes response headers.
    ResponseHeaderModifier(Box<HeaderFilter>),
    /// Sends a copy of the request elsewhere.
    RequestMirror(Box<RequestMirrorFilter>),
    /// Answers with a redirect.
    RequestRedirect(Box<RequestRedirectFilter>),
    /// Rewrites host and path.
    UrlRewrite(Box<UrlRewriteFilter>),
    /// Cross-origin resource sharing (GEP-1767).
    Cors(Box<CorsFilter>),
    /// Asks a server whether the request may pass (GEP-1494, experimental).
    ExternalAuth(Box<ExternalAuthFilter>),
    /// A filter of an implementation, as an object of its own.
    ExtensionRef(Box<LocalObjectRef>),
    /// A type that this version does not know, or one whose settings are missing (`type` as written).
    Unknown(Box<str>),
}

/// The fields as written: a type and one set of settings per type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenFilter {
    #[serde(rename = "type")]
    filter_type: Box<str>,
    request_header_modifier: Option<Box<HeaderFilter>>,
    response_header_modifier: Option<Box<HeaderFilter>>,
    request_mirror: Option<Box<RequestMirrorFilter>>,
    request_redirect: Option<Box<RequestRedirectFilter>>,
    url_rewrite: Option<Box<UrlRewriteFilter>>,
    cors: Option<Box<CorsFilter>>,
    external_auth: Option<Box<ExternalAuthFilter>>,
    extension_ref: Option<Box<LocalObjectRef>>,
}

impl From<WrittenFilter> for HttpRouteFilter {
    fn from(written: WrittenFilter) -> Self {
        let known = match &*written.filter_type {
            "RequestHeaderModifier" => written.request_header_modifier.map(Self::RequestHeaderModifier),
            "ResponseHeaderModifier" => written.response_header_modifier.map(Self::ResponseHeaderModifier),
            "RequestMirror" => written.request_mirror.map(Self::RequestMirror),
            "RequestRedirect" => written.request_redirect.map(Self::RequestRedirect),
            "URLRewrite" => written.url_rewrite.map(Self::UrlRewrite),
            "CORS" => written.cors.map(Self::Cors),
            "ExternalAuth" => written.external_auth.map(Self::ExternalAuth),
            "ExtensionRef" => written.extension_ref.map(Self::ExtensionRef),
            _ => None,
        };
        known.unwrap_or(Self::Unknown(written.filter_type))
    }
}

impl HttpRouteFilter {
    /// `type` as written.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::RequestHeaderModifier(_) => "RequestHeaderModifier",
            Self::ResponseHeaderModifier(_) => "ResponseHeaderModifier",
            Self::RequestMirror(_) => "RequestMirror",
            Self::RequestRedirect(_) => "RequestRedirect",
            Self::UrlRewrite(_) => "URLRewrite",
            Self::Cors(_) => "CORS",
            Self::ExternalAuth(_) => "ExternalAuth",
            Self::ExtensionRef(_) => "ExtensionRef",
            Self::Unknown(name) => name,
        }
    }
}

/// `requestHeaderModifier` and `responseHeaderModifier`: remove, then set, then add.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderFilter {
    /// Replaces all values of a header.
    pub set: Box<[HeaderValue]>,
    /// Adds a value.
    pub add: Box<[HeaderValue]>,
    /// Removes headers.
    pub remove: Box<[Box<str>]>,
}

/// A header with a literal value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderValue {
    /// Name, in any case.
    pub name: Box<str>,
    /// Value, literally.
    pub value: Box<str>,
}

/// `requestMirror`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMirrorFilter {
    /// Where the copy goes.
    pub backend_ref: BackendObjectRef,
    /// Share of the requests in percent, 0 to 100. Neither this nor `fraction`: all.
    pub percent: Option<u32>,
    /// Share of the requests.
    pub fraction: Option<Fraction>,
}

/// A share as numerator and denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fraction {
    /// At most the denominator.
    pub numerator: u32,
    /// At least 1, default 100.
    pub denominator: u32,
}

impl Default for Fraction {
    fn default() -> Self {
        Self { numerator: 0, denominator: 100 }
    }
}

/// `requestRedirect`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRedirectFilter {
    /// `http` or `https`; none keeps that of the request.
    pub scheme: Option<RedirectScheme>,
    /// Host; none keeps that of the request.
    pub hostname: Option<Box<str>>,
    /// Path; none keeps that of the request.
    pub path: Option<PathModifier>,
    /// Port; none is decided by the scheme and the listener.
    pub port: Option<u16>,
    /// 301, 302 (default), 303, 307 or 308.
    pub status_code: u16,
}

impl Default for RequestRedirectFilter {
    fn default() -> Self {
        Self { scheme: None, hostname: None, path: None, port: None, status_code: 302 }
    }
}

open_enum! {
    /// `requestRedirect.scheme`.
    RedirectScheme {
        /// http
        Http = "http",
        /// https
        Https = "https",
    }
}

/// `urlRewrite`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UrlRewriteFilter {
    /// The new host.
    pub hostname: Option<Box<str>>,
    /// The new path.
    pub path: Option<PathModifier>,
}

/// `path` of a redirect or rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "WrittenPathModifier")]
pub enum PathModifier {
    /// Replaces the whole path.
    ReplaceFullPath(Box<str>),
    /// Replaces the prefix that matched.
    ReplacePrefixMatch(Box<str>),
    /// A type that this version does not know, or one whose value is missing (`type` as written).
    Unknown(Box<str>),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenPathModifier {
    #[serde(rename = "type")]
    modifier_type: Box<str>,
    replace_full_path: Option<Box<str>>,
    replace_prefix_match: Option<Box<str>>,
}

impl From<WrittenPathModifier> for PathModifier {
    fn from(written: WrittenPathModifier) -> Self {
        let known = match &*written.modifier_type {
            "ReplaceFullPath" => written.replace_full_path.map(Self::ReplaceFullPath),
            "ReplacePrefixMatch" => written.replace_prefix_match.map(Self::ReplacePrefixMatch),
            _ => None,
        };
        known.unwrap_or(Self::Unknown(written.modifier_type))
    }
}

/// `cors`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorsFilter {
    /// Origins: `scheme://host[:port]`, the host may start with `*.` or be `*`; `*` alone is every origin.
    pub allow_origins: Box<[Box<str>]>,
    /// Whether credentials may be sent.
    pub allow_credentials: bool,
    /// Methods; `*` is every method.
    pub allow_methods: Box<[CorsMethod]>,
    /// Request headers; `*` is every header.
    pub allow_headers: Box<[Box<str>]>,
    /// Response headers that scripts may read.
    pub expose_headers: Box<[Box<str>]>,
    /// Seconds for which a preflight answer holds, default 5.
    pub max_age: u32,
}

impl Default for CorsFilter {
    fn default() -> Self {
        Self {
            allow_origins: Box::default(),
            allow_credentials: false,
            allow_methods: Box::default(),
            allow_headers: Box::default(),
            expose_headers: Box::default(),
            max_age: 5,
        }
    }
}

/// A method in `cors.allowMethods`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CorsMethod {
    /// `*`: every method.
    Any,
    /// One method.
    Method(HttpMethod),
}

impl CorsMethod {
    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "*",
            Self::Method(method) => method.as_str(),
        }
    }
}

impl From<&str> for CorsMethod {
    fn from(word: &str) -> Self {
        if word == "*" { Self::Any } else { Self::Method(HttpMethod::from(word)) }
    }
}

impl<'de> Deserialize<'de> for CorsMethod {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(crate::open::Word(std::marker::PhantomData))
    }
}

/// `externalAuth` (GEP-1494, experimental).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalAuthFilter {
    /// How the server is asked.
    pub protocol: ExternalAuthProtocol,
    /// The server.
    pub backend_ref: BackendObjectRef,
    /// For `GRPC`.
    pub grpc: Option<GrpcAuth>,
    /// For `HTTP`.
    pub http: Option<HttpAuth>,
    /// Whether the body goes along.
    pub forward_body: Option<ForwardBody>,
}

open_enum! {
    /// `externalAuth.protocol`.
    ExternalAuthProtocol {
        /// Envoy's authorization API.
        Grpc = "GRPC",
        /// A plain HTTP request.
        Http = "HTTP",
    }
}

/// `externalAuth.grpc`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcAuth {
    /// Request headers that go along; empty is all.
    pub allowed_headers: Box<[Box<str>]>,
}

/// `externalAuth.http`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpAuth {
    /// Prefix of the path.
    pub path: Option<Box<str>>,
    /// Request headers that go along.
    pub allowed_headers: Box<[Box<str>]>,
    /// Headers of the answer that go on to the backend.
    pub allowed_response_headers: Box<[Box<str>]>,
}

/// `externalAuth.forwardBody`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardBody {
    /// Bytes at most; 0 forwards none.
    pub max_size: u32,
}
