//! Splits a text into its YAML documents without parsing them.

use std::hash::{BuildHasher, Hasher};

/// One document of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document<'t> {
    /// Its text, without the `---` in front unless content follows on the same line.
    pub text: &'t str,
    /// Line of the whole text on which it starts, from 1.
    pub line: u32,
    /// Hash of the text: a document whose hash is known need not be parsed again. Stable, not seeded; compare the text
    /// as well where an attacker chooses it.
    pub hash: u64,
}

impl Document<'_> {
    /// True for documents without content: blank lines, comments and directives only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.lines().all(|line| {
            let line = line.trim_start();
            line.is_empty() || line.starts_with('#')
        })
    }
}

/// The documents of a text in order. Cheap: about a gigabyte per second.
///
/// A line that starts with `---` or `...` is always a border, even inside a block scalar (YAML 1.2, 9.1.2).
pub fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rest = Some((text, 1));
    std::iter::from_fn(move || {
        loop {
            let (text, line) = rest.take()?;
            let (document, next) = split(text, line);
            rest = next;
            if !document.is_empty() {
                return Some(Document { hash: hash(document.text), ..document });
            }
        }
    })
}

/// The first document of `text`, and the rest with its line.
fn split(text: &str, first_line: u32) -> (Document<'_>, Option<(&str, u32)>) {
    let (mut start, mut start_line) = (0, first_line);
    let (mut at, mut line) = (0, first_line);
    // Whether something other than comments and directives was seen since `start`.
    let mut content = false;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let end = memchr(bytes, at).map_or(bytes.len(), |newline| newline + 1);
        let this = text.get(at..end).unwrap_or_default();
        let begins_with = |mark: &str| {
            this.strip_prefix(mark).is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']))
        };
        if begins_with("---") {
            if content {
                return (document(text, start, at, start_line), text.get(at..).map(|rest| (rest, line)));
            }
            let alone = this.get(3..).is_none_or(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'));
            // Directives in front belong to the document; without them the border is left out.
            let directives = text.get(start..at).unwrap_or_default().lines().any(|line| line.starts_with('%'));
            if !directives {
                (start, start_line) = if alone { (end, line + 1) } else { (at, line) };
            }
            content = true;
        } else if begins_with("...") {
            return (document(text, start, at, start_line), text.get(end..).map(|rest| (rest, line + 1)));
        } else {
            let trimmed = this.trim_ascii();
            content |= !(trimmed.is_empty() || trimmed.starts_with('#') || this.starts_with('%'));
        }
        (at, line) = (end, line + 1);
    }
    (document(text, start, at, start_line), None)
}

fn document(text: &str, from: usize, to: usize, line: u32) -> Document<'_> {
    Document { text: text.get(from..to).unwrap_or_default(), line, hash: 0 }
}

fn hash(text: &str) -> u64 {
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The first line break at or behind `from`.
pub(super) fn memchr(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', bytes.get(from..)?).map(|offset| from + offset)
}
