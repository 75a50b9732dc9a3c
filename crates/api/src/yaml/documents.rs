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
        let mut rest = self.text.trim_start();
        while let Some(comment) = rest.strip_prefix('#') {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
        }
        rest.is_empty()
    }
}

/// The documents of a text in order. Cheap: about a gigabyte per second.
///
/// A line that starts with `---` or `...` is always a border, even inside a block scalar (YAML 1.2, 9.1.2).
pub fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut marks = Marks::of(text);
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

/// Lines that begin as borders do, each looked for once.
struct Marks<'t> {
    bytes: &'t [u8],
    dashes: Mark<'t>,
    dots: Mark<'t>,
}

impl<'t> Marks<'t> {
    fn of(text: &'t str) -> Self {
        let mark = |border| Mark { finder: memmem::Finder::new(border), found: None };
        Self { bytes: text.as_bytes(), dashes: mark("\n---"), dots: mark("\n...") }
    }

    /// The next one from the line at `at` on, this line included; the end if there is none.
    fn next(&mut self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.starts_with(b"---") || rest.starts_with(b"...") {
            return at;
        }
        self.dashes.next(self.bytes, at).min(self.dots.next(self.bytes, at))
    }
}

/// Lines that begin with one of the borders.
struct Mark<'t> {
    finder: memmem::Finder<'t>,
    /// The last one that was found: nothing lies between it and where the search began.
    found: Option<usize>,
}

impl Mark<'_> {
    /// The next one behind the line break in front of `at`; the end if there is none.
    fn next(&mut self, bytes: &[u8], at: usize) -> usize {
        if let Some(found) = self.found.filter(|found| *found >= at) {
            return found;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let found = self.finder.find(rest).map_or(bytes.len(), |found| at + found + 1);
        self.found = Some(found);
        found
    }
}

fn newlines(bytes: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or(u32::MAX)
}

/// The first line break at or behind `from`.
pub(super) fn memchr(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', bytes.get(from..)?).map(|offset| from + offset)
}
