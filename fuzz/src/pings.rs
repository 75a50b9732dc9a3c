//! Any bytes as what a client sends over HTTP/2, in any pieces: the PINGs that are counted in them are those that are there.

use arbitrary::{Result, Unstructured};
use xds::fuzzing::pings;

use super::pieces::{cut, lengths};

/// Length of what a client sends before its first frame, and of the head of a frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;

/// One input.
pub fn run(data: &[u8]) {
    let _ = bytes(&mut Unstructured::new(data));
}

fn bytes(source: &mut Unstructured<'_>) -> Result<()> {
    let (lengths, mut bytes) = (lengths(source)?, Vec::new());
    if source.ratio(7, 8)? {
        bytes.resize(PREFACE, 0);
    }
    while !source.is_empty() && bytes.len() < 1 << 18 {
        match source.int_in_range(0..=3)? {
            // a frame as it should be, of which some are as long as they can be announced
            0 | 1 => {
                let length = if source.ratio(1, 64)? { 0xff_ffff } else { source.int_in_range(0..=40_u32)? };
                let [_, length_bytes @ ..] = length.to_be_bytes();
                bytes.extend(length_bytes);
                bytes.extend([source.int_in_range(4..=7)?, source.arbitrary()?, 0, 0, 0, 0]);
                let short = source.ratio(1, 16)?;
                bytes.resize(bytes.len() + if short { 0 } else { length.min(1 << 16) as usize }, source.arbitrary()?);
            }
            _ => {
                let length = source.int_in_range(0..=16)?;
                bytes.extend(source.bytes(length.min(source.len()))?);
            }
        }
    }
    let (pieces, heads) = (cut(&bytes, lengths), heads(&bytes));
    let come = pieces.iter().scan(0, |come, piece| {
        *come += piece.len();
        Some(*come)
    });
    let expected: Vec<usize> = come.map(|come| heads.iter().filter(|end| **end <= come).count()).collect();
    assert_eq!(pings(pieces), expected);
    Ok(())
}

/// Where the heads of PINGs that are no answers end.
fn heads(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (PREFACE, Vec::new());
    while let Some([a, b, c, kind, flags, ..]) = bytes.get(at..at + HEAD) {
        at += HEAD;
        if (*kind, flags % 2) == (6, 0) {
            ends.push(at);
        }
        at += usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
    }
    ends
}
