//! Host names as listeners and routes write them: which requests they stand for, and what two of them have in common.

use std::net::Ipv4Addr;
use std::sync::Arc;

/// A host name: exact, a wildcard for one or more labels to the left (`*.example.com`), or any host at all.
///
/// Comparison of names is without regard to case (Gateway API `Hostname`), so the text is kept in small letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hostname(Option<Arc<str>>);

impl Hostname {
    /// Every host.
    pub(crate) const ANY: Self = Self(None);

    /// Reads a name as the Gateway API wants it (RFC 1123 labels, `*.` in front at most, no address); none if it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let labels = text.strip_prefix("*.").unwrap_or(text);
        let good = text.len() <= MAX_LENGTH && labels.split('.').all(is_label) && labels.parse::<Ipv4Addr>().is_err();
        if !good {
            return None;
        }
        let lower = text.bytes().any(|byte| byte.is_ascii_uppercase());
        Some(Self(Some(if lower { Arc::from(text.to_ascii_lowercase()) } else { Arc::from(text) })))
    }

    /// As Envoy writes it in a virtual host's domains: `*` for every host.
    pub(crate) fn domain(&self) -> Arc<str> {
        self.0.clone().unwrap_or_else(|| Arc::from("*"))
    }

    /// The text; none for every host.
    pub(crate) fn as_text(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }

    /// Stands for more than one host.
    pub(crate) fn is_wide(&self) -> bool {
        self.0.as_deref().is_none_or(|text| text.starts_with('*'))
    }

    /// Every host that `other` stands for is one of ours.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (&self.0, &other.0) else { return self.0.is_none() };
        match mine.strip_prefix('*') {
            None => mine == theirs,
            // `.example.com` at the end of `a.example.com` and of `*.a.example.com`, and of `*.example.com` itself.
            Some(suffix) => theirs.ends_with(suffix) && theirs.len() > suffix.len(),
        }
    }

    /// The hosts that both stand for (Gateway API: a route's and its listener's); none if there are none.
    pub(crate) fn intersect(&self, other: &Self) -> Option<Self> {
        if self.covers(other) {
            Some(other.clone())
        } else if other.covers(self) {
            Some(self.clone())
        } else {
            None
        }
    }

    /// Every name that covers this one and is not this one, the most specific first; the last is [`Hostname::ANY`].
    pub(crate) fn broader(&self) -> impl Iterator<Item = Self> + '_ {
        let labels = self.0.as_deref().map(|text| text.strip_prefix("*.").unwrap_or(text));
        let mut rest = labels.map(|text| text.split_once('.').map(|(_, rest)| rest));
        std::iter::from_fn(move || {
            let current = rest?;
            rest = current.map(|text| text.split_once('.').map(|(_, rest)| rest));
            Some(Self(current.map(|text| Arc::from(format!("*.{text}")))))
        })
    }
}

/// Limit of the Gateway API (`Hostname`), which is that of DNS.
const MAX_LENGTH: usize = 253;

/// An RFC 1123 label: letters, digits and dashes inside, at most 63.
fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests;
