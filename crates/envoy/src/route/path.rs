//! Changes of the path, the same for rewrites and redirects (Gateway API `HTTPPathModifier`, all slash cases).

use ir::route::PathChange;
use proto::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};

use crate::regex::escape;

/// What Envoy has to do with the path. The query stays in every case.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathPlan {
    /// Nothing.
    Keep,
    /// The whole path becomes this.
    Full(String),
    /// What the route's prefix matched becomes this.
    Prefix(String),
    /// What this expression finds becomes the text.
    Regex {
        /// RE2, found once.
        pattern: String,
        /// Without captures.
        substitution: &'static str,
    },
}

impl PathPlan {
    /// Slashes at the end of prefix and replacement carry no meaning; a path always starts with a slash.
    pub(super) fn new(change: Option<&PathChange>) -> Self {
        match change {
            None => Self::Keep,
            Some(PathChange::Full(path)) if path.is_empty() => Self::Full("/".to_owned()),
            Some(PathChange::Full(path)) => Self::Full(path.as_ref().to_owned()),
            Some(PathChange::Prefix { matched, replacement }) => {
                prefix(matched.trim_end_matches('/'), replacement.trim_end_matches('/'))
            }
        }
    }
}

/// Envoy replaces the matched text and nothing else. `/` matches one character, which the replacement must give back; a
/// prefix that is stripped must leave one slash whether or not one follows.
fn prefix(matched: &str, replacement: &str) -> PathPlan {
    match (matched, replacement) {
        ("", "") => PathPlan::Keep,
        ("", replacement) => PathPlan::Prefix(format!("{replacement}/")),
        (matched, "") => PathPlan::Regex { pattern: format!("^{}/*", escape(matched)), substitution: "/" },
        (_, replacement) => PathPlan::Prefix(replacement.to_owned()),
    }
}

/// Envoy's form of [`PathPlan::Regex`].
pub(super) fn substitute(pattern: String, substitution: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher { regex: pattern, ..RegexMatcher::default() }),
        substitution: substitution.to_owned(),
    }
}
