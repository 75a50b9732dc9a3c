//! PEM as users have it: blocks are found wherever they stand, and written again in the one form that every reader takes.
//!
//! Readers of PEM differ: in line ends, in text around blocks, in whether a block may begin where another ends. What goes to a proxy is
//! therefore not the user's text but what was read of it.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;

/// Reads base64 with and without its padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Characters of a label: the longest that there is has 26 (`ENCRYPTED PRIVATE KEY` has 21).
const MAX_LABEL: usize = 64;

/// Characters of a line (RFC 7468, section 2).
const LINE: usize = 64;

/// Beginnings of texts that are no PEM and that users take for it, with what to say of them.
const MISTAKEN: [(&[u8], &str); 4] = [
    (b"LS0tLS1CRUdJTi", "it is base64 of PEM: encode it once only, or use stringData"),
    (b"\xff\xfe", "it is UTF-16: save it as ASCII or UTF-8"),
    (b"\xfe\xff", "it is UTF-16: save it as ASCII or UTF-8"),
    (b"-\0-\0", "it is UTF-16: save it as ASCII or UTF-8"),
];

/// A block as it is in the text.
#[derive(Clone, Copy)]
pub(super) struct Block<'t> {
    /// Its number in the text, from 1.
    pub(super) number: usize,
    /// The label of its lines, for example `CERTIFICATE`.
    pub(super) label: &'t str,
    body: &'t [u8],
}

/// The reason why a block cannot be read. The words never quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// Its BEGIN line has no label, or no five dashes behind it.
    Begin(usize),
    /// It ends before it begins.
    Stray(usize),
    /// It does not end, or another begins before.
    Open(usize),
    /// It ends as another.
    Ends(usize),
    /// It is encrypted.
    Encrypted(usize),
    /// It has lines of the form `name: value`.
    Headers(usize),
    /// It is no base64.
    Base64(usize),
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(number) => write!(f, "block {number} of PEM has a damaged BEGIN line"),
            Self::Stray(number) => write!(f, "block {number} of PEM has an END line and no BEGIN line"),
            Self::Open(number) => write!(f, "block {number} of PEM has no END line"),
            Self::Ends(number) => write!(f, "block {number} of PEM has an END line of another label"),
            Self::Encrypted(number) => write!(f, "block {number} of PEM is encrypted: store it decrypted"),
            Self::Headers(number) => write!(f, "block {number} of PEM has header lines, which are not supported"),
            Self::Base64(number) => write!(f, "block {number} of PEM holds characters that are not base64"),
        }
    }
}

/// The blocks of a text in their order. Text before, between and behind them is passed over. Ends at the first defect.
pub(super) fn blocks(text: &[u8]) -> Blocks<'_> {
    Blocks { rest: text, number: 0 }
}

/// See [`blocks`].
pub(super) struct Blocks<'t> {
    rest: &'t [u8],
    number: usize,
}

impl<'t> Iterator for Blocks<'t> {
    type Item = Result<Block<'t>, Defect>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.read();
        if !matches!(found, Some(Ok(_))) {
            self.rest = &[];
        }
        found
    }
}

impl<'t> Blocks<'t> {
    fn read(&mut self) -> Option<Result<Block<'t>, Defect>> {
        let number = self.number + 1;
        let Some((before, behind)) = split(self.rest, BEGIN) else {
            return memmem::find(self.rest, END).map(|_| Err(Defect::Stray(number)));
        };
        if memmem::find(before, END).is_some() {
            return Some(Err(Defect::Stray(number)));
        }
        let Some((label, behind)) = label(behind) else { return Some(Err(Defect::Begin(number))) };
        let Some((body, behind)) = split(behind, END) else { return Some(Err(Defect::Open(number))) };
        if memmem::find(body, BEGIN).is_some() {
            return Some(Err(Defect::Open(number)));
        }
        let behind = behind.strip_prefix(label.as_bytes()).and_then(|behind| behind.strip_prefix(DASHES));
        let Some(behind) = behind else { return Some(Err(Defect::Ends(number))) };
        (self.rest, self.number) = (behind, number);
        Some(Ok(Block { number, label, body }))
    }
}

impl Block<'_> {
    /// Its content.
    pub(super) fn der(&self) -> Result<Vec<u8>, Defect> {
        if memchr::memchr(b':', self.body).is_some() {
            let encrypted = memmem::find(self.body, b"ENCRYPTED").is_some();
            return Err(if encrypted { Defect::Encrypted(self.number) } else { Defect::Headers(self.number) });
        }
        // Vertical tabs and form feeds count as well: some editors leave them.
        let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
        let base64: Vec<u8> = self.body.iter().copied().filter(|byte| !is_space(*byte)).collect();
        LENIENT.decode(base64).map_err(|_| Defect::Base64(self.number))
    }
}

/// Appends a block with lines of 64 characters, each with a line feed (RFC 7468).
pub(super) fn write(to: &mut Vec<u8>, label: &str, der: &[u8]) {
    let base64 = LENIENT.encode(der);
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| to.extend_from_slice(part));
        to.push(b'\n');
    };
    line(&[BEGIN, label.as_bytes(), DASHES]);
    base64.as_bytes().chunks(LINE).for_each(|chunk| line(&[chunk]));
    line(&[END, label.as_bytes(), DASHES]);
}

/// The blocks of a text that [`write()`] made, each with its first and last line.
pub(super) fn written(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memmem::find(rest, END).unwrap_or(rest.len());
        let line = rest.get(end..).and_then(|tail| memchr::memchr(b'\n', tail)).map_or(rest.len(), |at| end + at + 1);
        let (block, after) = rest.split_at_checked(line)?;
        rest = after;
        Some(block)
    })
}

/// Returns a description of a text without a usable block, if users are known to take such a text for PEM.
pub(super) fn mistaken(text: &[u8]) -> Option<&'static str> {
    let found = MISTAKEN.iter().find(|(start, _)| text.trim_ascii_start().starts_with(start));
    found.map(|(_, words)| *words)
}

fn split<'t>(text: &'t [u8], at: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let (before, rest) = text.split_at_checked(memmem::find(text, at)?)?;
    Some((before, rest.get(at.len()..)?))
}

/// The label that a text begins with, and what is behind its dashes.
fn label(text: &[u8]) -> Option<(&str, &[u8])> {
    let head = text.get(..text.len().min(MAX_LABEL + DASHES.len()))?;
    let label = text.get(..memmem::find(head, DASHES)?)?;
    let is_fit = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
    let behind = text.get(label.len() + DASHES.len()..)?;
    let label = std::str::from_utf8(label).ok()?;
    (!label.is_empty() && label.as_bytes().iter().all(is_fit)).then_some((label, behind))
}

#[cfg(test)]
mod tests;
