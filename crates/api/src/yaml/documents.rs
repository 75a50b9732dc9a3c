//! Splits a text into its YAML documents without parsing them.

use memchr::memmem;
use xxhash_rust::xxh3::xxh3_128;

/// One document of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document<'t> {
    /// Its text, without the `---` in front unless content follows on the same line.
    pub text: &'t str,
    /// Line of the whole text on which it starts, from 1.
    pub line: u32,
    /// Hash of the text (xxh3): a document whose hash is known need not be parsed again.
    pub hash: u128,
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
    let mut marks = Marks { bytes: text.as_bytes(), dashes: None };
    let mut rest = Some((0, 1));
    std::iter::from_fn(move || {
        loop {
            let (from, line) = rest.take()?;
            let (document, next) = split(text, &mut marks, from, line);
            rest = next;
            if !document.is_empty() {
                return Some(Document { hash: xxh3_128(document.text.as_bytes()), ..document });
            }
        }
    })
}

/// The first document of `text` at or behind `from`, and where the rest begins, with its line.
fn split<'t>(
    text: &'t str,
    marks: &mut Marks<'t>,
    from: usize,
    first_line: u32,
) -> (Document<'t>, Option<(usize, u32)>) {
    let (mut start, mut start_line) = (from, first_line);
    let (mut at, mut line) = (from, first_line);
    // Whether something other than comments and directives was seen since `start`.
    let mut content = false;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if content {
            let skipped = at;
            at = marks.next(at);
            line += newlines(bytes.get(skipped..at).unwrap_or_default());
        }
        let end = memchr(bytes, at).map_or(bytes.len(), |newline| newline + 1);
        let this = text.get(at..end).unwrap_or_default();
        let begins_with = |mark: &str| {
            this.strip_prefix(mark).is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']))
        };
        if begins_with("---") {
            if content {
                return (document(text, start, at, start_line), Some((at, line)));
            }
            let alone = this.get(3..).is_none_or(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'));
            // Directives in front belong to the document; without them the border is left out.
            let directives = text.get(start..at).unwrap_or_default().lines().any(|line| line.starts_with('%'));
            if !directives {
                (start, start_line) = if alone { (end, line + 1) } else { (at, line) };
            }
            content = true;
        } else if begins_with("...") {
            return (document(text, start, at, start_line), Some((end, line + 1)));
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

/// Lines that begin as borders do.
struct Marks<'t> {
    bytes: &'t [u8],
    /// The last line of dashes that was found, so that what lies before it is searched once and not once for each line of dots.
    dashes: Option<usize>,
}

impl Marks<'_> {
    /// The next one from the line at `at` on, this line included; the end if there is none.
    fn next(&mut self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.starts_with(b"---") || rest.starts_with(b"...") {
            return at;
        }
        let dashes = match self.dashes {
            Some(found) if found >= at => found,
            _ => memmem::find(rest, b"\n---").map_or(self.bytes.len(), |found| at + found + 1),
        };
        self.dashes = Some(dashes);
        let before = self.bytes.get(at..dashes).unwrap_or_default();
        memmem::find(before, b"\n...").map_or(dashes, |found| at + found + 1)
    }
}

fn newlines(bytes: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or(u32::MAX)
}

/// The first line break at or behind `from`.
pub(super) fn memchr(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', bytes.get(from..)?).map(|offset| from + offset)
}
