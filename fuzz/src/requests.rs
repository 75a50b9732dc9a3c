//! Any bytes as the body of a gRPC request, in any pieces: the messages do not depend on how they came, and are no more than the bytes.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use xds::fuzzing::messages;

use super::pieces::{cut, lengths};

/// What stands before each message.
const HEAD: usize = 5;

/// One input.
pub fn run(data: &[u8]) {
    let _ = body(&mut Unstructured::new(data));
}

fn body(source: &mut Unstructured<'_>) -> Result<()> {
    let (lengths, mut body) = (lengths(source)?, Vec::new());
    while !source.is_empty() && body.len() < 1 << 18 {
        match source.int_in_range(0..=3)? {
            // a message as it should be, of which some are longer than what is taken in at once
            0 => {
                let length = source.int_in_range(0..=100_000_u32)?;
                body.extend([&[0][..], &length.to_be_bytes()].concat());
                body.resize(body.len() + length as usize, source.arbitrary()?);
            }
            1 => body.extend([&[0][..], &source.arbitrary::<u32>()?.to_be_bytes()].concat()),
            _ => {
                let length = source.int_in_range(0..=16)?;
                body.extend(source.bytes(length.min(source.len()))?);
            }
        }
    }
    let whole = messages([Bytes::from(body.clone())]);
    let pieces = cut(&body, lengths).into_iter().map(Bytes::copy_from_slice);
    assert_eq!(messages(pieces), whole);
    let taken: usize = whole.0.iter().map(|message| HEAD + message.len()).sum();
    assert!(taken <= body.len());
    Ok(())
}
