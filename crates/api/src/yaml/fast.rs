//! The fast reader: block style on single lines, as people and tools write Kubernetes objects.
//!
//! It returns nothing as soon as it sees anything that it is not sure about (anchors, tags, block scalars, scalars over
//! several lines, escapes, tabs, odd indentation, errors); the full reader then decides.

use std::borrow::Cow;

use super::{MAX_DEPTH, documents, flow, scalar};
use crate::tree::{Builder, Tree, Value};

/// The tree of a document, if it is plain enough.
pub(super) fn parse(text: &str) -> Option<Tree<'_>> {
    if text.trim_start().starts_with('{') {
        return flow::parse_json(text);
    }
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, indent: 0, builder: Builder::for_text(text.len()) };
    reader.next_line()?;
    if reader.at == reader.bytes.len() {
        return None;
    }
    reader.block(0)?;
    (reader.at == reader.bytes.len()).then_some(Tree { nodes: reader.builder.nodes })
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// The first byte of the content of the current line, or the end.
    at: usize,
    /// Columns in front of `at`.
    indent: usize,
    builder: Builder<'t>,
}

impl<'t> Reader<'t> {
    /// A list or map whose first entry is at `at`, in column `indent`.
    fn block(&mut self, depth: u32) -> Option<()> {
        if depth >= MAX_DEPTH {
            return None;
        }
        if self.is_item() { self.list(depth) } else { self.map(depth) }
    }

    fn list(&mut self, depth: u32) -> Option<()> {
        let column = self.indent;
        let open = self.builder.open(offset(self.at)?);
        let mut count = 0;
        while self.at < self.bytes.len() && self.indent == column && self.is_item() {
            let gap = self.bytes.get(self.at + 1..)?.iter().take_while(|byte| **byte == b' ').count();
            self.at += 1 + gap;
            self.indent += 1 + gap;
            match self.peek() {
                // `-` alone: the item is on the next lines.
                None | Some(b'\n') => self.nested(column, false, depth)?,
                Some(b'#' | b'\r' | b'\t') => return None,
                Some(_) if self.is_item() || self.name_end().is_some() => self.block(depth + 1)?,
                Some(_) => self.value(column)?,
            }
            self.within_limit()?;
            count += 1;
        }
        self.builder.close(open, Value::List(count));
        self.ends_at(column)
    }

    fn map(&mut self, depth: u32) -> Option<()> {
        let column = self.indent;
        let open = self.builder.open(offset(self.at)?);
        let mut count = 0;
        while self.at < self.bytes.len() && self.indent == column && !self.is_item() {
            let (name, end) = self.name_end()?;
            if matches!(name, "<<") {
                return None;
            }
            self.builder.leaf(offset(self.at)?, Value::String(Cow::Borrowed(name)));
            let gap = self.bytes.get(end..)?.iter().take_while(|byte| **byte == b' ').count();
            self.at = end + gap;
            match self.peek() {
                None | Some(b'\n') => self.nested(column, true, depth)?,
                Some(b'#') => return None,
                Some(_) => self.value(column)?,
            }
            self.within_limit()?;
            count += 1;
        }
        if self.builder.duplicate(open, count).is_some() {
            return None;
        }
        self.builder.close(open, Value::Map(count));
        self.ends_at(column)
    }

    /// The full reader words the error.
    fn within_limit(&self) -> Option<()> {
        (!self.builder.is_full()).then_some(())
    }

    /// After a collection in `column`: what follows must belong to a collection further out.
    fn ends_at(&self, column: usize) -> Option<()> {
        (self.at == self.bytes.len() || self.indent <= column).then_some(())
    }

    /// The value of an entry or item whose own line has none: on the lines below, or null.
    ///
    /// The items of a list may stand in the column of the name that they belong to.
    fn nested(&mut self, column: usize, in_map: bool, depth: u32) -> Option<()> {
        let here = offset(self.at)?;
        self.next_line()?;
        let inside =
            self.at < self.bytes.len() && (self.indent > column || (in_map && self.indent == column && self.is_item()));
        if !inside {
            self.builder.leaf(here, Value::Null);
            return Some(());
        }
        if self.is_item() || self.name_end().is_some() {
            return self.block(depth + 1);
        }
        // A scalar on a line of its own is rare.
        None
    }

    /// A value that starts and ends on this line; then goes to the next line.
    fn value(&mut self, column: usize) -> Option<()> {
        let start = self.at;
        match self.peek()? {
            b'"' | b'\'' => {
                let (text, end) = self.quoted()?;
                self.builder.leaf(offset(start)?, Value::String(Cow::Borrowed(text)));
                self.at = end;
            }
            b'[' | b'{' => self.at = flow::parse_inline(self.text, start, &mut self.builder)?,
            _ => {
                let end = plain_end(self.bytes, start)?;
                let text = self.text.get(start..end)?;
                self.builder.leaf(offset(start)?, scalar::resolve(Cow::Borrowed(text)));
                self.at = end;
            }
        }
        self.rest_is_empty()?;
        self.next_line()?;
        // A deeper line would continue the scalar.
        (self.at == self.bytes.len() || self.indent <= column).then_some(())
    }

    /// Only blanks and a comment may follow on this line.
    fn rest_is_empty(&mut self) -> Option<()> {
        let gap = self.bytes.get(self.at..)?.iter().take_while(|byte| **byte == b' ').count();
        self.at += gap;
        match self.peek() {
            None | Some(b'\n') => Some(()),
            Some(b'\r') => (self.bytes.get(self.at + 1) == Some(&b'\n')).then_some(()),
            Some(b'#') if gap > 0 => {
                self.at = documents::memchr(self.bytes, self.at).unwrap_or(self.bytes.len());
                Some(())
            }
            Some(_) => None,
        }
    }

    /// Goes to the first content behind the current line; blank and comment lines are passed over.
    ///
    /// At the start of the text (`at` is 0) the first line counts.
    fn next_line(&mut self) -> Option<()> {
        let mut line = match self.at {
            0 => 0,
            at => documents::memchr(self.bytes, at).map_or(self.bytes.len(), |newline| newline + 1),
        };
        loop {
            let rest = self.bytes.get(line..)?;
            let indent = rest.iter().take_while(|byte| **byte == b' ').count();
            match rest.get(indent) {
                None => {
                    (self.at, self.indent) = (self.bytes.len(), 0);
                    return Some(());
                }
                Some(b'\n') => line += indent + 1,
                Some(b'\r') if rest.get(indent + 1) == Some(&b'\n') => line += indent + 2,
                Some(b'#') => {
                    line = documents::memchr(self.bytes, line).map_or(self.bytes.len(), |newline| newline + 1)
                }
                Some(b'\t' | b'\r' | b'%') => return None,
                // Borders are cut off before; one with content on its line is for the full reader.
                Some(b'-' | b'.') if indent == 0 && (rest.starts_with(b"---") || rest.starts_with(b"...")) => {
                    return None;
                }
                Some(_) => {
                    (self.at, self.indent) = (line + indent, indent);
                    return Some(());
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Whether `at` is the dash of a list item.
    fn is_item(&self) -> bool {
        matches!(self.bytes.get(self.at..), Some([b'-', b' ' | b'\n', ..] | [b'-']))
    }

    /// The name of an entry at `at` and the byte behind its colon.
    fn name_end(&self) -> Option<(&'t str, usize)> {
        let (name, end) = match self.peek()? {
            b'"' | b'\'' => self.quoted()?,
            first if first.is_ascii_alphanumeric() || first == b'_' || first == b'.' || first == b'/' => {
                let rest = self.bytes.get(self.at..)?;
                let length = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
                let name = self.text.get(self.at..self.at + length)?;
                // `true:` and `1:` are names that are no strings.
                matches!(scalar::resolve(Cow::Borrowed(name)), Value::String(_)).then_some((name, self.at + length))?
            }
            _ => return None,
        };
        // Longer names need the explicit form `? name`.
        let colon = name.len() <= 1024 && matches!(self.bytes.get(end..), Some([b':', b' ' | b'\n', ..] | [b':']));
        colon.then_some((name, end + 1))
    }

    /// The text of a quoted scalar without escapes on one line, and the byte behind it.
    fn quoted(&self) -> Option<(&'t str, usize)> {
        flow::simple_quoted(self.text, self.at)
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/')
}

/// The end of a plain scalar on one line, blanks behind it left out. None where it may not be plain or one line.
fn plain_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = bytes.get(start..)?;
    match rest {
        [
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'.'
            | b'_'
            | b'^'
            | b'$'
            | b'('
            | b'~'
            | b'+'
            | b'\\'
            | b'='
            | b'<',
            ..,
        ] => {}
        [b'-', next, ..] if !matches!(next, b' ' | b'\n' | b'\r' | b'\t' | b'-') => {}
        _ => return None,
    }
    let mut end = 0;
    let mut at = 0;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\n' => break,
            b'\r' if rest.get(at + 1) == Some(&b'\n') => break,
            b'#' if end < at => break,
            b':' if matches!(rest.get(at + 1), None | Some(b' ' | b'\n' | b'\r' | b'\t')) => return None,
            b' ' => {}
            // Control characters, tabs and anything beyond ASCII (byte order marks, line separators) take the slow way.
            0..=0x1f | 0x7f.. => return None,
            _ => end = at + 1,
        }
        at += 1;
    }
    Some(start + end)
}

/// A byte's place as the tree keeps it.
pub(super) fn offset(at: usize) -> Option<u32> {
    u32::try_from(at).ok()
}
