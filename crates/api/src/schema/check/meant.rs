//! The value that was probably meant where another is written: what a message tells people to write.

use super::super::{Pattern, Property, Word};
use crate::tree::Cursor;

/// A DNS name has so many characters at most: of a longer text no part is written into a message.
const MAX_NAME: usize = 253;

/// `; write shop.example.com` for a URL, a host with its port or one in capitals, where a host name is wanted.
pub(super) fn host(pattern: &Pattern, text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(host, _)| host);
    let host = host.to_ascii_lowercase();
    let is_name = scheme.len() <= MAX_NAME && host.len() <= MAX_NAME && pattern.is_host();
    if is_name && pattern.matches(&host) { format!("; write {host}") } else { String::new() }
}

/// `; write /cart` for a path without its slash, where a rule asks for one.
pub(super) fn path(message: &str, value: Cursor<'_, '_>) -> String {
    let asks = message.contains("start with '/'");
    let plain = |text: &&str| !text.is_empty() && !text.starts_with('/') && text.len() <= MAX_NAME;
    let text = value.as_str().filter(plain).filter(|text| asks && !text.contains([' ', ':', '?', '#', '%']));
    text.map(|text| format!("; write /{text}")).unwrap_or_default()
}

/// `; write type: CORS` for a field that is missing, where its value is the name of a field in the same map.
pub(super) fn named(around: Cursor<'_, '_>, missing: &Property) -> Option<String> {
    let is_written = |word: &str| {
        let mut names = around.entries().filter_map(|(name, _)| name.as_str());
        names.any(|name| name.eq_ignore_ascii_case(word))
    };
    let mut meant = missing.schema.words.iter().filter_map(|word| match word {
        Word::String(word) => is_written(word).then_some(word),
        Word::Int(_) => None,
    });
    // Two candidates are ambiguous.
    let (only, more) = (meant.next()?, meant.next());
    more.is_none().then(|| format!("; write {}: {only}", missing.name))
}
