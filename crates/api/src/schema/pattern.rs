//! Patterns of strings: regular expressions, compiled when first used, and quick ways for the usual ones.

use std::sync::OnceLock;

use regex::Regex;

/// A regular expression of a schema (the syntax of RE2, which Kubernetes and the `regex` crate share).
#[derive(Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    quick: Option<(Quick, &'static str)>,
    compiled: OnceLock<Option<Regex>>,
}

type Quick = fn(&str) -> bool;

/// Patterns that nearly every object meets, and functions that accept the same strings. A property test compares.
pub(super) const QUICK: &[(&str, Quick, &str)] = &[
    ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", is_label, "a DNS label (small letters, digits and dashes)"),
    (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", is_name, DNS_NAME),
    (
        r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        |text| is_name(text.strip_prefix("*.").unwrap_or(text)),
        HOST,
    ),
    (
        r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        |text| text.is_empty() || is_name(text),
        DNS_NAME,
    ),
    (
        "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
        |text| {
            text.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !text.ends_with('-')
        },
        "the name of a kind (letters, digits and dashes)",
    ),
    (
        r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$",
        |text| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        },
        "a name of a header or cookie (a token of RFC 9110)",
    ),
    (r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$", is_path, "a path (RFC 3986)"),
    ("^([0-9]{1,5}(h|m|s|ms)){1,4}$", is_duration, DURATION),
];

const HOST: &str = "a host name (small letters, digits, dashes and dots, `*.` may stand in front)";

/// What other patterns ask for, in words.
const WORDED: &[(&str, &str)] = &[
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
        "a DNS name, a slash and a path, such as example.com/controller",
    ),
    (
        r"(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)",
        "* or an origin such as https://example.com, https://*.example.com:8443",
    ),
    (r"^[!-~]+([\t ]?[!-~]+)*$", "visible ASCII letters, single spaces between them"),
    (
        r"^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
        "IPAddress, Hostname, or a type of somebody's own such as example.com/pool",
    ),
    (
        r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        "the value of a label (letters, digits, dashes, underscores, dots)",
    ),
    (
        r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]+$",
        "a protocol: HTTP, HTTPS, TLS, TCP, UDP, or one of somebody's own such as example.com/chat",
    ),
    (r"^(([^:/?#]+):)(//([^/?#]*))([^?#]*)(\?([^#]*))?(#(.*))?", "a URI such as spiffe://example.com/shop"),
    (
        r"^(System|([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]))$",
        "System, or a set of somebody's own such as example.com/roots",
    ),
    (r"^[a-z0-9_.-]+$", "small letters, digits, dots, dashes and underscores"),
    (r"^[a-zA-Z0-9_.:/-]+$", "letters, digits and _ . : / -"),
    (r"^[a-zA-Z0-9_.:/-]+( [a-zA-Z0-9_.:/-]+)*$", "words of letters, digits and _ . : / -, single spaces between them"),
];

const DURATION: &str = "a duration such as 1h30m, 10s or 500ms";

const DNS_NAME: &str = "a DNS name (small letters, digits, dashes and dots)";

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let quick = QUICK.iter().find(|(known, ..)| *known == text).map(|(_, quick, words)| (*quick, *words));
        Self { text: text.into(), quick, compiled: OnceLock::new() }
    }

    /// Whether the pattern occurs in a text. A pattern that does not compile occurs nowhere.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self.quick {
            Some((quick, _)) => quick(text),
            None => self.regex().is_some_and(|regex| regex.is_match(text)),
        }
    }

    /// Whether the texts are durations.
    pub(super) fn is_duration(&self) -> bool {
        self.quick.is_some_and(|(_, words)| words == DURATION)
    }

    /// Whether the texts are host names.
    pub(super) fn is_host(&self) -> bool {
        self.quick.is_some_and(|(_, words)| words == HOST)
    }

    /// What a text must be, for people.
    pub(super) fn wanted(&self) -> String {
        match self.quick {
            Some((_, words)) => words.to_owned(),
            None => match WORDED.iter().find(|(pattern, _)| *pattern == &*self.text) {
                Some((_, words)) => (*words).to_owned(),
                None => format!("a text that matches {}", self.text),
            },
        }
    }

    pub(super) fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(&self.text).ok()).as_ref()
    }
}

/// RFC 1123 label: at most 63 characters.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

/// RFC 1123 subdomain: labels with dots between them, at most 253 characters.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && is_name(text)
}

/// The name of a label: at most 63 letters, digits, dashes, underscores and dots, with a letter or digit at either end; in front of it there may be a
/// subdomain and a slash.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let at_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let ends = at_end(name.bytes().next()) && at_end(name.bytes().next_back());
    prefix.is_none_or(is_dns_subdomain) && (1..=63).contains(&name.len()) && ends && name.bytes().all(inside)
}

/// Small letters, digits and dashes, no dash at the ends, of any length.
fn is_label(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

/// Labels with dots between them.
fn is_name(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// GEP-2257: one to four numbers of at most five digits, each with its unit.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    for _ in 0..4 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        // `ms` before `m`: what follows a number is a unit, and no unit begins with `s`.
        let unit = ["h", "ms", "m", "s"].into_iter().find(|unit| tail.starts_with(unit));
        let Some(unit) = unit.filter(|_| (1..=5).contains(&number.len())) else { return false };
        rest = tail.get(unit.len()..).unwrap_or_default();
        if rest.is_empty() {
            return true;
        }
    }
    false
}

/// Characters of a path (RFC 3986, `pchar` and slash), percent signs only before two hexadecimal digits.
fn is_path(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
            (byte, tail) if byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@".contains(byte) => tail,
            _ => return false,
        };
    }
    !text.is_empty()
}
