//! Rules of strings and of bytes.

use prost_reflect::Value;
use proto::validate::string_rules::WellKnown;
use proto::validate::{BytesRules, KnownRegex, StringRules};
use regex::bytes::{Regex, RegexBuilder};

use super::{Rules, Test};

/// What the name of an HTTP header must match (PGV, `HTTP_HEADER_NAME`).
const HEADER_NAME: &str = "^:?[0-9a-zA-Z!#$%&'*+-.^_|~`]+$";
/// What its value must match (PGV, `HTTP_HEADER_VALUE`).
const HEADER_VALUE: &str = r"^[^\x00-\x08\x0A-\x1F\x7F]*$";
/// What either must match where the rule is not strict: nothing that ends a header.
const LOOSE_HEADER: &str = r"^[^\x00\x0A\x0D]*$";

/// Compiles the rules of a string.
pub(super) fn string(rules: &StringRules, out: &mut Rules) {
    out.ignore_empty = rules.ignore_empty();
    let chars: fn(&str) -> u64 = |text| text.chars().count() as u64;
    let bytes: fn(&str) -> u64 = |text| text.len() as u64;
    length(rules.len, rules.min_len, rules.max_len, ("characters", chars), out);
    length(rules.len_bytes, rules.min_bytes, rules.max_bytes, ("bytes", bytes), out);
    affixes(rules, out);
    if let Some(wanted) = rules.r#const.clone() {
        test(out, format!("must be {wanted:?}"), move |text| text == wanted);
    }
    if !rules.r#in.is_empty() {
        let allowed = rules.r#in.clone();
        test(out, format!("must be one of {allowed:?}"), move |text| allowed.iter().any(|one| one == text));
    }
    if !rules.not_in.is_empty() {
        let refused = rules.not_in.clone();
        test(out, format!("must be none of {refused:?}"), move |text| !refused.iter().any(|one| one == text));
    }
    if let Some(pattern) = &rules.pattern {
        matches(out, format!("must match {pattern}"), pattern);
    }
    if let Some(WellKnown::WellKnownRegex(number)) = rules.well_known {
        let (what, pattern) = match KnownRegex::try_from(number) {
            Ok(KnownRegex::HttpHeaderName) => ("name", HEADER_NAME),
            Ok(KnownRegex::HttpHeaderValue) => ("value", HEADER_VALUE),
            _ => return,
        };
        let pattern = if rules.strict() { pattern } else { LOOSE_HEADER };
        matches(out, format!("must be a valid {what} of an HTTP header"), pattern);
    }
}

/// Compiles the rules of bytes.
pub(super) fn bytes(rules: &BytesRules, out: &mut Rules) {
    out.ignore_empty = rules.ignore_empty();
    let len = |value: &Value| value.as_bytes().map_or(0, |bytes| bytes.len() as u64);
    if let Some(min) = rules.min_len {
        out.tests.push(Test::new(at_least(min, "bytes"), move |value| len(value) >= min));
    }
    if let Some(max) = rules.max_len {
        out.tests.push(Test::new(format!("must have at most {max} bytes"), move |value| len(value) <= max));
    }
}

fn length(
    exact: Option<u64>,
    min: Option<u64>,
    max: Option<u64>,
    (unit, len): (&str, fn(&str) -> u64),
    out: &mut Rules,
) {
    if let Some(exact) = exact {
        test(out, format!("must have {exact} {unit}"), move |text| len(text) == exact);
    }
    if let Some(min) = min {
        test(out, at_least(min, unit), move |text| len(text) >= min);
    }
    if let Some(max) = max {
        test(out, format!("must have at most {max} {unit}"), move |text| len(text) <= max);
    }
}

fn at_least(min: u64, unit: &str) -> String {
    if min == 1 { "must not be empty".to_owned() } else { format!("must have at least {min} {unit}") }
}

fn affixes(rules: &StringRules, out: &mut Rules) {
    if let Some(prefix) = rules.prefix.clone() {
        test(out, format!("must start with {prefix:?}"), move |text| text.starts_with(&prefix));
    }
    if let Some(suffix) = rules.suffix.clone() {
        test(out, format!("must end with {suffix:?}"), move |text| text.ends_with(&suffix));
    }
    if let Some(part) = rules.contains.clone() {
        test(out, format!("must contain {part:?}"), move |text| text.contains(&part));
    }
    if let Some(part) = rules.not_contains.clone() {
        test(out, format!("must not contain {part:?}"), move |text| !text.contains(&part));
    }
}

/// A test by regular expression. One that does not compile gives no test, and the message counts as sound.
fn matches(out: &mut Rules, words: String, pattern: &str) {
    if let Some(regex) = regex(pattern) {
        test(out, words, move |text| regex.is_match(text.as_bytes()));
    }
}

/// Classes such as `\s` are ASCII in RE2, which Envoy uses.
fn regex(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).unicode(false).build().ok()
}

fn test(out: &mut Rules, words: String, holds: impl Fn(&str) -> bool + Send + Sync + 'static) {
    out.tests.push(Test::new(words, move |value| value.as_str().is_some_and(&holds)));
}
