//! Any bytes as the body of a gRPC response at the client, in any pieces: what is cut out of them is what is there, up to the first message
//! that may not be, and behind that nothing.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use xds::client::{FrameError, Frames, LARGEST_RESPONSE, frame};

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
        match source.int_in_range(0..=7)? {
            0..=2 => {
                let length = source.int_in_range(0..=40)?;
                body.extend_from_slice(&frame(&vec![source.arbitrary()?; length]));
            }
            3 => {
                let length = source.int_in_range(0..=100_000)?;
                body.extend_from_slice(&frame(&vec![source.arbitrary()?; length]));
            }
            // about as long as a message may be
            4 => {
                let length = LARGEST_RESPONSE as u32 + source.int_in_range(0..=2)? - 1;
                body.extend([&[0][..], &length.to_be_bytes()].concat());
            }
            _ => {
                let length = source.int_in_range(0..=16)?;
                body.extend(source.bytes(length.min(source.len()))?);
            }
        }
    }
    let (mut frames, mut messages, mut end) = (Frames::default(), Vec::new(), None);
    for piece in cut(&body, lengths) {
        if end.is_some() {
            break;
        }
        frames.push(piece);
        end = loop {
            match frames.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
    }
    if let Some(end) = end {
        frames.push(&frame(b"behind"));
        assert_eq!(frames.next_message(), Err(end), "a stream that is broken stays so");
    }
    assert_eq!((messages, end), read(&body));
    Ok(())
}

/// The messages in the bytes, and why they cannot be read on.
fn read(mut bytes: &[u8]) -> (Vec<Bytes>, Option<FrameError>) {
    let mut messages = Vec::new();
    while let Some((&[compressed, a, b, c, d], rest)) = bytes.split_first_chunk::<HEAD>() {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if compressed != 0 {
            return (messages, Some(FrameError::Compressed));
        }
        if length > LARGEST_RESPONSE {
            return (messages, Some(FrameError::TooLarge(length)));
        }
        let Some((message, rest)) = rest.split_at_checked(length) else { break };
        messages.push(Bytes::copy_from_slice(message));
        bytes = rest;
    }
    (messages, None)
}
