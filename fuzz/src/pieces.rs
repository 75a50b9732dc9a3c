//! Bytes that come in any pieces.

use arbitrary::{Result, Unstructured};

/// Most lengths of pieces that are chosen.
const MOST: usize = 64;

/// Lengths of pieces, a byte for each. They are taken first: what the bytes are made of is all that is left.
pub fn lengths<'a>(source: &mut Unstructured<'a>) -> Result<&'a [u8]> {
    let count = source.int_in_range(0..=MOST)?;
    source.bytes(count.min(source.len()))
}

/// These bytes in pieces of these lengths, most of them short; the last is what is left.
pub fn cut<'a>(mut bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for length in lengths {
        let length = if *length < 0xc0 { usize::from(length / 8) } else { usize::from(length - 0xbf) * 4_000 };
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}
