//! Spellings of a path that Envoy's normalisation leaves apart and that servers read as one: `/items:delete` and `/items%3Adelete`, `/%C3%A9` and
//! `/%c3%a9` (RFC 3986, 2.2 and 6.2.2.1). A route that guards a path must take all of them.

use crate::regex::escape;

/// Characters that have a meaning of their own in no path segment, but that may be written percent-encoded (RFC 3986, 3.3: `sub-delims`, `:` and `@`), and
/// brackets, which may not stand in a path and which Envoy hands on as they are written.
const RESERVED: &[u8] = b"!$&'()*+,;=:@[]";

/// Reserved characters of one path that are compared in all spellings. Each costs RE2 five instructions and every other character one: 1,024
/// characters of which 700 are reserved are 3,824, below the limit of 4,096. Those behind them are compared as written.
const MAX_RESERVED: usize = 700;

/// Returns the expression for all spellings of a path, none if there is but the one that is written. Unreserved characters are expected decoded.
pub(super) fn expression(path: &str) -> Option<String> {
    let mut expression = String::with_capacity(path.len() * 2);
    let mut reserved = 0;
    let mut several = false;
    let mut rest = path.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let encoded = encoded(rest);
        let byte = encoded.unwrap_or(first);
        rest = if encoded.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
        if RESERVED.contains(&byte) && reserved < MAX_RESERVED {
            reserved += 1;
            several = true;
            expression.push_str(&format!("(?:\\{}|{})", char::from(byte), percent(byte)));
        } else if encoded.is_some() || !byte.is_ascii_graphic() || b"\"<>^`{|}".contains(&byte) {
            // Envoy itself encodes what may not stand in a path.
            let text = percent(byte);
            several |= encoded.is_none() || text.len() > 3;
            expression.push_str(&text);
        } else {
            expression.push_str(&escape(char::from(byte).encode_utf8(&mut [0; 4])));
        }
    }
    several.then_some(expression)
}

/// Returns the byte that is percent-encoded at the beginning.
fn encoded(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Returns the expression for a byte in percent-encoding, its digits in either case.
fn percent(byte: u8) -> String {
    let digit = |digit: u8| match char::from_digit(u32::from(digit), 16) {
        Some(letter @ 'a'..='f') => format!("[{letter}{}]", letter.to_ascii_uppercase()),
        Some(digit) => digit.to_string(),
        None => String::new(),
    };
    format!("%{}{}", digit(byte >> 4), digit(byte & 15))
}

#[cfg(test)]
mod tests;
