//! Spellings: what proxies make of a request before they compare it with a match, and the matches that no request can have therefore.

use std::borrow::Cow;

use api::http_route::{HeaderMatch, HttpRouteMatch, PathMatchType};

/// A field of a match and what is said of it.
pub(super) type Remark = (String, String);

/// Returns the path as proxies compare it: percent-encoded unreserved characters are decoded (RFC 3986, 6.2.2.2). Everything else that proxies
/// normalise makes a match impossible.
pub(super) fn normalized(path: &str) -> Cow<'_, str> {
    let Some(first) = path.find('%') else { return Cow::Borrowed(path) };
    let (before, mut rest) = path.split_at(first);
    let mut normalized = before.to_owned();
    while let Some(character) = rest.chars().next() {
        let (text, behind) = match unreserved(rest) {
            Some(decoded) => (decoded, rest.get(3..)),
            None => (character, rest.get(character.len_utf8()..)),
        };
        normalized.push(text);
        rest = behind.unwrap_or_default();
    }
    if normalized == path { Cow::Borrowed(path) } else { Cow::Owned(normalized) }
}

/// Returns the unreserved character that is percent-encoded at the beginning (RFC 3986, 2.3).
fn unreserved(text: &str) -> Option<char> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    let byte = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())??;
    (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)).then_some(char::from(byte))
}

const SLASHES: &str = "proxies merge repeated slashes";
const DOTS: &str = "proxies resolve the segments . and ..";
const ESCAPED: &str = "proxies answer %2F and %5C with a redirect to the path with a slash";
const BACKSLASH: &str = "proxies read a backslash as a slash";
const NUL: &str = "proxies answer %00 with 400";
const DECODED: &str = "proxies decode percent-encoded letters, digits and -._~";

/// Returns why no request has such a path when it is compared.
fn impossible(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let dots = |segment: &str| segment == "." || segment == "..";
    let known = [
        (lower.contains("//"), SLASHES),
        (lower.split('/').any(dots), DOTS),
        (lower.contains("%2f") || lower.contains("%5c"), ESCAPED),
        (lower.contains('\\'), BACKSLASH),
        (lower.contains("%00"), NUL),
    ];
    known.into_iter().find(|(found, _)| *found).map(|(_, why)| why)
}

/// Returns why a part of an expression for paths takes nothing, as far as its text shows it.
fn impossible_part(expression: &str) -> Option<&'static str> {
    let text = expression.replace("\\/", "/");
    // `//?` and the like take one slash too, `.` is any character
    let optional = |at: usize| text.get(at + 2..).unwrap_or_default().starts_with(['?', '*', '{']);
    let repeated = text.match_indices("//").any(|(at, _)| !optional(at));
    let dots = text.contains("/\\./") || text.contains("/\\.\\./");
    let lower = text.to_ascii_lowercase();
    let escaped = ["%2f", "%5c"].iter().any(|escaped| lower.contains(escaped));
    let encoded = || lower.match_indices('%').any(|(at, _)| unreserved(lower.get(at..).unwrap_or_default()).is_some());
    let known = [(repeated, SLASHES), (dots, DOTS), (escaped, ESCAPED), (lower.contains("%00"), NUL)];
    let known = known.into_iter().find(|(found, _)| *found).map(|(_, why)| why);
    known.or_else(|| encoded().then_some(DECODED))
}

/// Returns what is to be said of the path and the headers of a match that proxies take, as no request can have them.
pub(super) fn remarks(matched: &HttpRouteMatch) -> Vec<Remark> {
    let text = &*matched.path.value;
    let path = match matched.path.match_type {
        PathMatchType::RegularExpression => impossible_part(text).map(|why| {
            format!("{why} before they compare a path: this part of the expression matches nothing; write the path as it is then")
        }),
        PathMatchType::Unknown(_) => None,
        PathMatchType::Exact | PathMatchType::PathPrefix => of_path(text),
    };
    let path = path.map(|text| ("path.value".to_owned(), text));
    path.into_iter().chain(of_headers(&matched.headers)).collect()
}

fn of_path(text: &str) -> Option<String> {
    let normalized = normalized(text);
    if let Some(why) = impossible(normalized.trim_end_matches('/')) {
        return Some(format!(
            "{why} before they compare a path: this match takes no request; write the path as it is then"
        ));
    }
    (normalized != text).then(|| format!("this is compared as {normalized:?}: {DECODED}"))
}

/// Returns what is to be said of the headers of a match.
pub(super) fn of_headers(headers: &[HeaderMatch]) -> impl Iterator<Item = Remark> {
    const REFUSED: &str = "proxies refuse requests with an underscore in a header's name: this match takes no request; write a dash, and let clients send that";
    let underscored = headers.iter().enumerate().filter(|(_, header)| header.name.contains('_'));
    underscored.map(|(index, _)| (format!("headers[{index}].name"), REFUSED.to_owned()))
}

#[cfg(test)]
mod tests;
