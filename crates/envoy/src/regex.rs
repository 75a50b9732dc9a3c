//! Regular expressions: the limit on their size, and how text gets into one.

/// The largest compiled size, in RE2 instructions, of an expression that a proxy takes.
///
/// Envoy's own limit is 100, which a dozen alternatives exceed; the bootstrap raises it to this figure, and expressions of
/// users are checked against it before they are sent. An instruction takes 16 bytes, and RE2 compiles an expression forwards
/// and backwards: at most 128 KiB for each.
pub const REGEX_PROGRAM_SIZE_LIMIT: u32 = 4096;

/// The text as an RE2 expression that matches exactly it.
///
/// Everything but ASCII letters, digits and `_` is escaped; a character beyond ASCII stands for itself, and NUL has a form of
/// its own (RE2's `QuoteMeta` does the same).
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => escaped.push_str("\\x00"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => escaped.push(character),
            _ if !character.is_ascii() => escaped.push(character),
            _ => {
                escaped.push('\\');
                escaped.push(character);
            }
        }
    }
    escaped
}
