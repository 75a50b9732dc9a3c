//! JSON, and the flow style of YAML (`[a, b]`, `{a: b}`) where it stays on one line.

use std::borrow::Cow;

use super::fast::offset;
use super::{MAX_DEPTH, scalar};
use crate::tree::{Builder, Tree, Value};

/// The tree of a document that is strict JSON, of any number of lines.
pub(super) fn parse_json(text: &str) -> Option<Tree<'_>> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, json: true, builder: Builder::for_text(text.len()) };
    reader.blanks();
    reader.value(0)?;
    reader.blanks();
    (reader.at == reader.bytes.len()).then_some(Tree { nodes: reader.builder.nodes })
}

/// Reads the flow value at `start` of a line into `builder`; the byte behind it.
pub(super) fn parse_inline<'t>(text: &'t str, start: usize, builder: &mut Builder<'t>) -> Option<usize> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: start, json: false, builder: std::mem::take(builder) };
    let read = reader.value(0);
    *builder = reader.builder;
    read.map(|()| reader.at)
}

/// The text of a quoted scalar that has no escapes and stays on one line, and the byte behind it.
pub(super) fn simple_quoted(text: &str, start: usize) -> Option<(&str, usize)> {
    let bytes = text.as_bytes();
    let quote = *bytes.get(start)?;
    let body = bytes.get(start + 1..)?;
    let length = body.iter().position(|byte| *byte == quote || matches!(byte, b'\\' | 0..=0x1f | 0x7f..))?;
    let end = start + 1 + length;
    let closed = bytes.get(end) == Some(&quote) && bytes.get(end + 1) != Some(&quote);
    // In single quotes a backslash is itself; that and doubled quotes are left to the full reader.
    closed.then_some((text.get(start + 1..end)?, end + 1))
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    /// Strict JSON over several lines; else plain YAML flow style on one line.
    json: bool,
    builder: Builder<'t>,
}

impl<'t> Reader<'t> {
    fn value(&mut self, depth: u32) -> Option<()> {
        if depth >= MAX_DEPTH {
            return None;
        }
        let start = offset(self.at)?;
        match self.bytes.get(self.at)? {
            b'{' => self.map(start, depth),
            b'[' => self.list(start, depth),
            b'"' | b'\'' => {
                let text = self.quoted()?;
                self.builder.leaf(start, Value::String(text));
                Some(())
            }
            _ => {
                let text = self.word()?;
                let value = scalar::resolve(Cow::Borrowed(text));
                let json_word = matches!(text, "true" | "false" | "null") || is_json_number(text);
                self.builder.leaf(start, value);
                (!self.json || json_word).then_some(())
            }
        }
    }

    fn list(&mut self, start: u32, depth: u32) -> Option<()> {
        let open = self.builder.open(start);
        let mut count = 0;
        self.at += 1;
        self.blanks();
        while *self.bytes.get(self.at)? != b']' {
            self.value(depth + 1)?;
            count += 1;
            self.within_limit()?;
            self.comma(b']')?;
        }
        self.at += 1;
        self.builder.close(open, Value::List(count));
        Some(())
    }

    fn map(&mut self, start: u32, depth: u32) -> Option<()> {
        let open = self.builder.open(start);
        let mut count = 0;
        self.at += 1;
        self.blanks();
        while *self.bytes.get(self.at)? != b'}' {
            let at = offset(self.at)?;
            let name = match self.bytes.get(self.at)? {
                b'"' | b'\'' => self.quoted()?,
                _ if self.json => return None,
                _ => Cow::Borrowed(self.word()?),
            };
            if !matches!(scalar::resolve(Cow::Borrowed(&name)), Value::String(_)) || name == "<<" {
                return None;
            }
            self.builder.leaf(at, Value::String(name));
            if self.json {
                self.blanks();
            }
            // In YAML `a:b` is one scalar.
            let colon =
                self.bytes.get(self.at) == Some(&b':') && (self.json || self.bytes.get(self.at + 1) == Some(&b' '));
            if !colon {
                return None;
            }
            self.at += 1;
            self.blanks();
            self.value(depth + 1)?;
            count += 1;
            self.within_limit()?;
            self.comma(b'}')?;
        }
        self.at += 1;
        if self.builder.duplicate(open, count).is_some() {
            return None;
        }
        self.builder.close(open, Value::Map(count));
        Some(())
    }

    /// The full reader words the error.
    fn within_limit(&self) -> Option<()> {
        (!self.builder.is_full()).then_some(())
    }

    /// A comma and a further value, or the closing bracket.
    fn comma(&mut self, close: u8) -> Option<()> {
        self.blanks();
        match self.bytes.get(self.at)? {
            b',' => {
                self.at += 1;
                self.blanks();
                (*self.bytes.get(self.at)? != close).then_some(())
            }
            byte => (*byte == close).then_some(()),
        }
    }

    fn blanks(&mut self) {
        let json = self.json;
        let blank = |byte: &&u8| **byte == b' ' || (json && matches!(**byte, b'\n' | b'\r' | b'\t'));
        self.at += self.bytes.get(self.at..).unwrap_or_default().iter().take_while(blank).count();
    }

    /// A plain scalar of letters that mean nothing else anywhere.
    fn word(&mut self) -> Option<&'t str> {
        let rest = self.bytes.get(self.at..)?;
        let plain = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'.' | b'/' | b'-' | b'+');
        let length = rest.iter().take_while(plain).count();
        let text = self.text.get(self.at..self.at + length)?;
        self.at += length;
        // A dash in front may begin a list.
        let number = text.strip_prefix('-').is_none_or(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
        (length > 0 && number).then_some(text)
    }

    fn quoted(&mut self) -> Option<Cow<'t, str>> {
        if let Some((text, end)) = simple_quoted(self.text, self.at) {
            self.at = end;
            let double = self.text.as_bytes().get(end - 1) == Some(&b'"');
            return (double || !self.json).then_some(Cow::Borrowed(text));
        }
        if !self.json || *self.bytes.get(self.at)? != b'"' {
            return None;
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.text.get(self.at..)?;
            let length = rest.find(|letter: char| matches!(letter, '"' | '\\' | '\0'..='\u{1f}'))?;
            out.push_str(rest.get(..length)?);
            self.at += length + 1;
            match rest.as_bytes().get(length)? {
                b'"' => return Some(Cow::Owned(out)),
                b'\\' => out.push(self.escape()?),
                _ => return None,
            }
        }
    }

    /// What a backslash stands for (RFC 8259, 7); `at` is behind it.
    fn escape(&mut self) -> Option<char> {
        let letter = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex4()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return char::from_u32(high);
                }
                let pair = self.bytes.get(self.at..self.at + 2)? == b"\\u";
                self.at += 2;
                let low = self.hex4().filter(|low| pair && (0xdc00..0xe000).contains(low))?;
                return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            }
            _ => return None,
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    }
}

/// RFC 8259, 6: no leading zeros, no plus, digits on both sides of the point.
fn is_json_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits(whole) && (whole == "0" || !whole.starts_with('0')) && digits(fraction) && digits(exponent)
}
