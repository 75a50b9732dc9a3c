//! Cross-origin resource sharing, as configuration of Envoy's CORS filter for one route.

use std::sync::Arc;

use ir::route::Cors;
use proto::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto::envoy::config::route::v3::{Route, RouteMatch};
use proto::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use proto::google::protobuf::Any;

use super::matches::{exact, header, string};
use crate::regex::escape;

/// The pseudo header of the method.
const METHOD: &str = ":method";

/// The method of preflights.
const PREFLIGHT: &str = "OPTIONS";

/// The filter's name, as key of a route's configuration for it.
pub(crate) const FILTER: &str = "envoy.filters.http.cors";

/// Envoy echoes what the request asks for where a list is `*`. A preflight of a foreign origin is answered here, without
/// permission, and never reaches a backend.
pub(super) fn policy(cors: &Cors) -> Any {
    Any::pack(&CorsPolicy {
        allow_origin_string_match: cors.allow_origins.iter().map(|origin| origin_matcher(origin)).collect(),
        allow_methods: list(&cors.allow_methods),
        allow_headers: list(&cors.allow_headers),
        expose_headers: list(&cors.expose_headers),
        max_age: cors.max_age.to_string(),
        allow_credentials: Some(cors.allow_credentials),
        forward_not_matching_preflights: Some(false),
        ..CorsPolicy::default()
    })
}

/// The route that takes the preflights of one that has a policy and takes one method only: a browser asks with `OPTIONS` whether that method is allowed
/// (Fetch standard, 4.9). The filter answers all of them: none whose origin is empty comes here.
pub(super) fn preflight(route: &Route) -> Option<Route> {
    if !route.typed_per_filter_config.contains_key(FILTER) {
        return None;
    }
    let asked = method(route.r#match.as_ref()?)?.to_owned();
    if asked == PREFLIGHT {
        return None;
    }
    let mut preflight = route.clone();
    let headers = &mut preflight.r#match.as_mut()?.headers;
    headers.retain(|header| header.name != METHOD);
    headers.extend([
        exact(METHOD, PREFLIGHT.to_owned()),
        header("origin", ".+"),
        exact("access-control-request-method", asked),
    ]);
    Some(preflight)
}

/// The one method that a match takes.
fn method(matches: &RouteMatch) -> Option<&str> {
    let header = matches.headers.iter().find(|header| header.name == METHOD)?;
    match header.header_match_specifier.as_ref()? {
        HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::Exact(method)), ..
        }) => Some(method),
        _ => None,
    }
}

fn list(values: &[Arc<str>]) -> String {
    values.join(", ")
}

/// `*` takes every origin: Envoy's filter compares the pattern with a literal `*` first. Browsers write scheme and host in
/// lower case (RFC 6454 6.2). Envoy compares the whole origin.
fn origin_matcher(origin: &str) -> StringMatcher {
    let origin = origin.to_ascii_lowercase();
    let (rest, port) = split_port(&origin);
    let optional = default_port(rest).filter(|default| port.is_none_or(|port| port == *default));
    string(match (optional, port) {
        _ if origin == "*" => MatchPattern::Exact(origin),
        (Some(default), _) => regex(format!("{}(:{default})?", wildcard(rest))),
        (None, Some(port)) if rest.contains('*') => regex(format!("{}:{port}", wildcard(rest))),
        (None, None) if rest.contains('*') => regex(wildcard(rest)),
        _ => MatchPattern::Exact(origin),
    })
}

fn regex(regex: String) -> MatchPattern {
    MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() })
}

/// `https://a.example:8443` is `https://a.example` and `8443`. The colon behind the scheme is followed by no digit.
fn split_port(origin: &str) -> (&str, Option<&str>) {
    match origin.rsplit_once(':') {
        Some((rest, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => (rest, Some(port)),
        _ => (origin, None),
    }
}

/// The port that an origin of this scheme means when it names none.
fn default_port(origin: &str) -> Option<&'static str> {
    match origin.split_once("://") {
        Some(("http", _)) => Some("80"),
        Some(("https", _)) => Some("443"),
        _ => None,
    }
}

/// `*` stands for any number of labels and never reaches into the port or beyond the host.
fn wildcard(origin: &str) -> String {
    origin.split('*').map(escape).collect::<Vec<_>>().join("[^/:]+")
}
