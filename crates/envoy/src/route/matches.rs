//! Which requests a route takes.

use std::sync::Arc;

use ir::route::{NamedMatch, PathMatch, RouteMatch, ValueMatch};
use proto::envoy::config::route::v3 as route;
use proto::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use proto::envoy::config::route::v3::route_match::PathSpecifier;
use proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};

use super::spelling;

/// What gRPC servers take for a call: they look at the beginning of the content type. Envoy's own match takes a plus behind it only, and a call with
/// parameters would pass by a guarded route (measured with Envoy 1.40 and gRPC for Python 1.85).
const GRPC: &str = "(?i)application/grpc(?:[+;, \t].*)?";

/// The whole match. The method is the pseudo header `:method`; all parts must hold.
pub(super) fn route_match(matches: &RouteMatch) -> route::RouteMatch {
    let mut headers = Vec::with_capacity(matches.headers.len() + 2);
    if let Some(method) = &matches.method {
        headers.push(exact(":method", method.as_ref().to_owned()));
    }
    headers.extend(matches.grpc.then(calls));
    headers.extend(matches.headers.iter().map(|named| header_matcher(&named.name, value(&named.value))));
    route::RouteMatch {
        path_specifier: Some(path(&matches.path)),
        headers,
        query_parameters: matches.query.iter().map(query_parameter).collect(),
        ..route::RouteMatch::default()
    }
}

/// Requests that are calls of gRPC.
fn calls() -> route::HeaderMatcher {
    header("content-type", GRPC)
}

/// Whether a match is for calls of gRPC only.
pub(super) fn takes_calls(matches: &route::RouteMatch) -> bool {
    matches.headers.contains(&calls())
}

/// Envoy's `path_separated_prefix` compares whole segments and refuses a slash at its end, so `/` is a plain prefix. A path with several
/// spellings becomes an expression that takes them all.
fn path(path: &PathMatch) -> PathSpecifier {
    let several = |regex: String| PathSpecifier::SafeRegex(self::regex(&regex.into()));
    match path {
        // The proxy merges slashes, but for a path of nothing else: that of `//` stays two (measured with Envoy 1.40).
        PathMatch::Exact(path) if &**path == "/" => several("//?".to_owned()),
        PathMatch::Exact(path) => {
            spelling::expression(path).map_or_else(|| PathSpecifier::Path(path.as_ref().to_owned()), several)
        }
        PathMatch::Prefix(prefix) => match prefix.trim_end_matches('/') {
            "" => PathSpecifier::Prefix("/".to_owned()),
            prefix => match spelling::expression(prefix) {
                Some(expression) => several(format!("{expression}(?:/.*)?")),
                None => PathSpecifier::PathSeparatedPrefix(prefix.to_owned()),
            },
        },
        PathMatch::Regex(regex) => PathSpecifier::SafeRegex(self::regex(regex)),
    }
}

fn header_matcher(name: &str, matcher: StringMatcher) -> route::HeaderMatcher {
    route::HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(matcher)),
        ..route::HeaderMatcher::default()
    }
}

/// Requests with a header of one value.
pub(super) fn exact(name: &str, value: String) -> route::HeaderMatcher {
    header_matcher(name, string(MatchPattern::Exact(value)))
}

/// Requests that have a header.
pub(super) fn present(name: &str) -> route::HeaderMatcher {
    let header_match_specifier = Some(HeaderMatchSpecifier::PresentMatch(true));
    route::HeaderMatcher { name: name.to_owned(), header_match_specifier, ..route::HeaderMatcher::default() }
}

/// Requests whose host has a port. One in brackets without (RFC 3986, 3.2.2) ends with its bracket.
pub(super) fn host_with_port() -> route::HeaderMatcher {
    header(":authority", ".*:[0-9]+")
}

/// Requests with a header whose whole value is matched by an expression.
pub(super) fn header(name: &str, expression: &str) -> route::HeaderMatcher {
    header_matcher(name, string(MatchPattern::SafeRegex(regex(&expression.into()))))
}

fn query_parameter(named: &NamedMatch) -> route::QueryParameterMatcher {
    route::QueryParameterMatcher {
        name: named.name.as_ref().to_owned(),
        query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(value(&named.value))),
    }
}

fn value(value: &ValueMatch) -> StringMatcher {
    string(match value {
        ValueMatch::Exact(text) => MatchPattern::Exact(text.as_ref().to_owned()),
        ValueMatch::Regex(expression) => MatchPattern::SafeRegex(regex(expression)),
    })
}

pub(super) fn string(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }
}

/// Envoy compares the whole text. An empty expression is not allowed by `RegexMatcher`; `()` says the same.
fn regex(expression: &Arc<str>) -> RegexMatcher {
    let regex = if expression.is_empty() { "()" } else { expression.as_ref() };
    RegexMatcher { regex: regex.to_owned(), ..RegexMatcher::default() }
}
