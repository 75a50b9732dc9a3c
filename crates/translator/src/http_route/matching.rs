//! Matches: from what users write to what a proxy compares, and how specific each is.

use std::sync::Arc;

use api::http_route::{HttpMethod, HttpRouteMatch, PathMatchType, ValueMatchType};
use ir::route::{NamedMatch, PathMatch, RouteMatch, ValueMatch};

use crate::key::Rank;
use crate::regex;

/// A match, or the field because of which it takes nothing (empty: the match itself) and why.
pub(super) fn compile(matched: &HttpRouteMatch) -> Result<RouteMatch, (String, String)> {
    if let Some(fault) = &matched.fault {
        return Err((String::new(), fault.text.to_string()));
    }
    let mut headers: Vec<NamedMatch> = Vec::with_capacity(matched.headers.len());
    for (index, header) in matched.headers.iter().enumerate() {
        let name: Arc<str> = lower(&header.name);
        // Of several entries for one name the first counts (Gateway API `HTTPRouteMatch.headers`).
        if !headers.iter().any(|other| other.name == name) {
            let value = value(&header.match_type, &header.value, "header");
            let value = value.map_err(|text| (format!("headers[{index}].value"), text))?;
            headers.push(NamedMatch { name, value });
        }
    }
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
    Ok(RouteMatch { path, method, headers, query })
}

/// How specific a match is (Gateway API `HTTPRouteRule.matches`): exact path, regular expression, prefix; the longer expression or
/// prefix; a method; the more headers; the more query parameters. Where the API leaves regular expressions open, Envoy Gateway's
/// order is kept.
pub(super) fn rank(matched: &RouteMatch) -> Rank {
    let (kind, length) = match &matched.path {
        PathMatch::Exact(_) => (0, 0),
        PathMatch::Regex(text) => (1, text.len()),
        PathMatch::Prefix(text) if &**text == "/" => (2, 0),
        PathMatch::Prefix(text) => (2, text.len()),
    };
    let fewer = |count: usize, bits: u32| {
        let most = (1_u32 << bits) - 1;
        most - u32::try_from(count).unwrap_or(most).min(most)
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

fn path(kind: &PathMatchType, text: &str) -> Result<PathMatch, String> {
    match kind {
        PathMatchType::Exact => literal_path(text).map(|()| PathMatch::Exact(text.into())),
        PathMatchType::PathPrefix => literal_path(text).map(|()| PathMatch::Prefix(prefix(text))),
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
pub(super) fn lower(name: &str) -> Arc<str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

#[cfg(test)]
mod tests;
