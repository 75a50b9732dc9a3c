//! Changes of the path, the same for rewrites and redirects (Gateway API `HTTPPathModifier`, all slash cases).

use ir::route::PathChange;
use proto::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};

use super::spelling;
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
        substitution: String,
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
/// prefix that is stripped must leave one slash whether or not one follows. One with several spellings is found by an expression, as its route is;
/// in a substitution a backslash stands for itself when it is doubled.
fn prefix(matched: &str, replacement: &str) -> PathPlan {
    let several = spelling::expression(matched);
    match (matched, replacement, several) {
        ("", "", _) => PathPlan::Keep,
        ("", replacement, _) => PathPlan::Prefix(format!("{replacement}/")),
        (matched, "", several) => {
            let found = several.unwrap_or_else(|| escape(matched));
            PathPlan::Regex { pattern: format!("^{found}/*"), substitution: "/".to_owned() }
        }
        (_, replacement, None) => PathPlan::Prefix(replacement.to_owned()),
        (_, replacement, Some(found)) => {
            PathPlan::Regex { pattern: format!("^{found}"), substitution: replacement.replace('\\', "\\\\") }
        }
    }
}

/// Envoy's form of [`PathPlan::Regex`].
pub(super) fn substitute(pattern: String, substitution: String) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute { pattern: Some(RegexMatcher { regex: pattern, ..RegexMatcher::default() }), substitution }
}
