//! Matches: from what users write to what a proxy compares, and how specific each is.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::grpc_route::{GrpcMethodMatchType, GrpcRouteMatch};
use api::http_route::{HeaderMatch, HttpMethod, HttpRouteMatch, PathMatchType, ValueMatchType};
use ir::route::{NamedMatch, PathMatch, RouteMatch, ValueMatch};

use super::spelling::normalized;
use crate::key::Rank;
use crate::regex;

/// A match and how specific it is, or the field because of which it takes nothing (empty: the match itself) and why.
pub(super) type Compiled = Result<(Rank, RouteMatch), (String, String)>;

/// A match of an `HTTPRoute`.
pub(super) fn http(matched: &HttpRouteMatch) -> Compiled {
    if let Some(fault) = &matched.fault {
        return Err((String::new(), fault.text.to_string()));
    }
    let headers = headers(&matched.headers)?;
    let mut query: Vec<NamedMatch> = Vec::with_capacity(matched.query_params.len());
    for (index, parameter) in matched.query_params.iter().enumerate() {
        if !query.iter().any(|other| *other.name == *parameter.name) {
            let value = value(&parameter.match_type, &parameter.value, "query parameter");
            let value = value.map_err(|text| (format!("queryParams[{index}].value"), text))?;
            query.push(NamedMatch { name: (&*parameter.name).into(), value });
        }
    }
    let method = match &matched.method {
        Some(HttpMethod::Unknown(word)) => {
            return Err(("method".to_owned(), format!("method {word:?} is not supported")));
        }
        Some(method) => Some(Arc::from(method.as_str())),
        None => None,
    };
    let path = path(&matched.path.match_type, &matched.path.value).map_err(|text| ("path.value".to_owned(), text))?;
    let matched = RouteMatch { path, method, headers, query, grpc: false };
    Ok((rank(&matched), matched))
}

/// A match of a `GRPCRoute`: a call has the path `/<service>/<method>` (gRPC over HTTP/2, "Requests").
pub(super) fn grpc(matched: &GrpcRouteMatch) -> Compiled {
    if let Some(fault) = &matched.fault {
        return Err((String::new(), fault.text.to_string()));
    }
    let method = matched.method.as_deref();
    let given =
        |part: Option<&'_ Box<str>>| part.map(|text| &**text).filter(|text| !text.is_empty()).map(str::to_owned);
    let service_name = given(method.and_then(|method| method.service.as_ref()));
    let method_name = given(method.and_then(|method| method.method.as_ref()));
    let path = grpc_path(method.map(|method| &method.match_type), service_name.as_deref(), method_name.as_deref());
    let path = path.map_err(|(field, text)| (format!("method.{field}"), text))?;
    let headers = headers(&matched.headers)?;
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let rank = grpc_rank(length(&service_name), length(&method_name), headers.len());
    Ok((rank, RouteMatch { path, method: None, headers, query: Vec::new(), grpc: true }))
}

fn grpc_path(
    kind: Option<&GrpcMethodMatchType>,
    service: Option<&str>,
    method: Option<&str>,
) -> Result<PathMatch, (&'static str, String)> {
    let regex = match kind {
        None | Some(GrpcMethodMatchType::Exact) => false,
        Some(GrpcMethodMatchType::RegularExpression) => true,
        Some(GrpcMethodMatchType::Unknown(word)) => {
            return Err(("type", format!("method match type {word:?} is not supported")));
        }
    };
    for (field, text) in [("service", service), ("method", method)] {
        let Some(text) = text else { continue };
        let good = if regex { regex::check(text) } else { grpc_name(text) };
        good.map_err(|text| (field, text))?;
    }
    let expression = |part: Option<&str>| match part {
        None => "[^/]+".to_owned(),
        Some(text) if regex => format!("(?:{text})"),
        Some(text) => text.replace('.', "\\."),
    };
    Ok(match (service, method) {
        (None, None) => PathMatch::Prefix("/".into()),
        (Some(service), Some(method)) if !regex => PathMatch::Exact(format!("/{service}/{method}").into()),
        (Some(service), None) if !regex => PathMatch::Prefix(format!("/{service}").into()),
        _ => {
            // Two that proxies take may be none together: with groups of one name, or of twice the size.
            let both = format!("/{}/{}", expression(service), expression(method));
            regex::check(&both).map_err(|text| ("method", text))?;
            PathMatch::Regex(both.into())
        }
    })
}

/// Full names of services and names of methods, as protobuf has them.
fn grpc_name(text: &str) -> Result<(), String> {
    let good = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if good { Ok(()) } else { Err(format!("{text:?} is not the name of a service or method")) }
}

fn headers(written: &[HeaderMatch]) -> Result<Vec<NamedMatch>, (String, String)> {
    let mut headers: Vec<NamedMatch> = Vec::with_capacity(written.len());
    for (index, header) in written.iter().enumerate() {
        let name: Arc<str> = lower(&header.name);
        // Of several entries for one name the first counts (Gateway API `HTTPRouteMatch.headers`).
        if !headers.iter().any(|other| other.name == name) {
            let value = value(&header.match_type, &header.value, "header");
            let value = value.map_err(|text| (format!("headers[{index}].value"), text))?;
            headers.push(NamedMatch { name, value });
        }
    }
    Ok(headers)
}

/// What is said of an item that [`repeated`] finds.
pub(super) const REPEATED: &str =
    "an earlier item has the same name (names of headers have no case): this one is ignored; remove one of the two";

/// Which names of headers an earlier one is equal to.
pub(super) fn repeated<'n>(names: impl Iterator<Item = &'n str>) -> impl Iterator<Item = usize> {
    let mut seen = BTreeSet::new();
    names.map(lower).enumerate().filter(move |(_, name)| !seen.insert(name.clone())).map(|(index, _)| index)
}

/// How specific a match is (Gateway API `HTTPRouteRule.matches`): exact path, regular expression, prefix; the longer expression or
/// prefix; a method; the more headers; the more query parameters. Where the API leaves regular expressions open, Envoy Gateway's
/// order is kept.
fn rank(matched: &RouteMatch) -> Rank {
    let (kind, length) = match &matched.path {
        PathMatch::Exact(_) => (0, 0),
        PathMatch::Regex(text) => (1, text.len()),
        PathMatch::Prefix(text) if &**text == "/" => (2, 0),
        PathMatch::Prefix(text) => (2, text.len()),
    };
    let no_method = u32::from(matched.method.is_none());
    // The API allows paths of 1,024 characters, 16 headers and 16 query parameters.
    Rank(
        kind << 30
            | fewer(length, 16) << 14
            | no_method << 13
            | fewer(matched.headers.len(), 6) << 6
            | fewer(matched.query.len(), 6),
    )
}

/// How specific a match of a `GRPCRoute` is (Gateway API `GRPCRouteRule.matches`): the longer service, the longer method, the more headers. Of
/// expressions the length of the expression counts. They take gRPC calls only, and these before any `HTTPRoute`: smaller than every [`rank`].
fn grpc_rank(service: usize, method: usize, headers: usize) -> Rank {
    // The API allows names of 1,024 characters and 16 headers.
    Rank(fewer(service, 11) << 17 | fewer(method, 11) << 6 | fewer(headers, 6))
}

/// The more, the smaller: in so many bits.
fn fewer(count: usize, bits: u32) -> u32 {
    let most = (1_u32 << bits) - 1;
    most - u32::try_from(count).unwrap_or(most).min(most)
}

fn path(kind: &PathMatchType, text: &str) -> Result<PathMatch, String> {
    match kind {
        PathMatchType::Exact => literal_path(text).map(|()| PathMatch::Exact(normalized(text).into())),
        PathMatchType::PathPrefix => literal_path(text).map(|()| PathMatch::Prefix(prefix(&normalized(text)))),
        PathMatchType::RegularExpression => regex::check(text).map(|()| PathMatch::Regex(text.into())),
        PathMatchType::Unknown(word) => Err(format!("path match type {word:?} is not supported")),
    }
}

/// A prefix in normal form: no slash at the end, but for the prefix of everything.
pub(super) fn prefix(text: &str) -> Arc<str> {
    match text.trim_end_matches('/') {
        "" => Arc::from("/"),
        trimmed => Arc::from(trimmed),
    }
}

fn literal_path(text: &str) -> Result<(), String> {
    let good = text.starts_with('/') && text.bytes().all(|byte| byte > b' ' && byte != 0x7f && !b"?#".contains(&byte));
    if good { Ok(()) } else { Err(format!("{text:?} is not a path; a path starts with a slash and has no query")) }
}

fn value(kind: &ValueMatchType, text: &str, what: &str) -> Result<ValueMatch, String> {
    match kind {
        ValueMatchType::Exact => Ok(ValueMatch::Exact(text.into())),
        ValueMatchType::RegularExpression => regex::check(text).map(|()| ValueMatch::Regex(text.into())),
        ValueMatchType::Unknown(word) => Err(format!("{what} match type {word:?} is not supported")),
    }
}

/// Header names are compared without regard to case; small letters are their normal form.
pub(crate) fn lower(name: &str) -> Arc<str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

#[cfg(test)]
mod tests;
