//! R12: what a client says about a resource that it refuses can repeat the resource, private keys included. Only what cannot
//! hold any of it leaves this module.

use std::sync::Arc;

use crate::resource::TypeUrl;

#[cfg(test)]
mod tests;

/// Longest text handed on, in characters: Envoy cuts its own at 4,110, of which all but the last sentence repeats the resource.
const LONGEST: usize = 1000;

/// Longest name of a client that is shown, in characters: those of Kubernetes have at most 253.
const LONGEST_NODE: usize = 253;

/// Said in place of words that may hold a secret.
const WITHHELD: &str = "refused; the proxy's words are withheld because they can contain secrets";

/// What Envoy says about a Secret, and what we say instead: none of its words are handed on.
const SECRET_CAUSES: [(&str, &str); 6] = [
    ("KEY_VALUES_MISMATCH", "the private key does not belong to the certificate"),
    ("Failed to load certificate chain", "the certificate chain cannot be read"),
    ("Failed to load incomplete private key", "the private key is missing or cannot be read"),
    ("Failed to load private key", "the private key cannot be read"),
    ("Failed to load trusted CA", "the trusted certificates cannot be read"),
    ("Proto constraint validation failed", "a field of the secret breaks a rule of Envoy's API"),
];

/// Where Envoy begins to repeat a message.
const DUMPS: [&str; 3] = ["goo.gle/debugstr", "goo.gle/debugonly", "goo.gle/debugproto"];

/// Signs of key material in any text.
const KEY_SIGNS: [&str; 5] = ["-----BEGIN", "private_key", "inline_bytes", "inline_string", "generic_secret"];

/// What may be shown of a refusal.
pub(crate) fn refusal(type_url: &TypeUrl, text: &str) -> Arc<str> {
    if *type_url == TypeUrl::Secret {
        let cause = SECRET_CAUSES.iter().find(|(sign, _)| text.contains(sign));
        return cause.map_or(WITHHELD, |(_, words)| words).into();
    }
    let text = without_dump(text);
    if KEY_SIGNS.iter().any(|sign| text.contains(sign)) {
        return WITHHELD.into();
    }
    let clean: String = text.chars().map(shown).take(LONGEST).collect();
    if clean.trim().is_empty() { "refused without a reason".into() } else { clean.trim().into() }
}

/// What may be shown of what a client calls itself.
pub(crate) fn node(id: &str) -> Arc<str> {
    id.chars().map(shown).take(LONGEST_NODE).collect::<String>().into()
}

/// What a client says of itself, as one line of a log or a table that says nothing else than it seems to.
pub(crate) fn line(text: String) -> Arc<str> {
    if text.chars().all(|c| shown(c) == c) { text.into() } else { text.chars().map(shown).collect::<String>().into() }
}

/// A blank in place of what ends a line, speaks to a terminal, changes the direction of what follows or is not seen.
fn shown(c: char) -> char {
    match c {
        _ if c.is_control() => ' ',
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => ' ',
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => ' ',
        _ => c,
    }
}

/// The text without the message that it repeats: what stands before it, and the broken rule that stands behind it.
fn without_dump(text: &str) -> String {
    let Some(start) = DUMPS.iter().filter_map(|sign| text.find(sign)).min() else { return text.to_owned() };
    let (before, dump) = text.split_at(start);
    let before = before.trim_end_matches(['<', ' ', ':']);
    let rule = dump.find("Proto constraint validation failed").and_then(|at| dump.get(at..)).unwrap_or("");
    if before.is_empty() {
        rule.to_owned()
    } else {
        format!("{before}: {rule}").trim_end_matches([':', ' ']).to_owned()
    }
}
