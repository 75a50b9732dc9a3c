//! The gRPC framing: five bytes in front of each message, one that tells of compression and four of length.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Largest response that is read: 50,000 clusters of 1 KB in one, and a quarter more.
pub const LARGEST_RESPONSE: usize = 64 << 20;

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// Compression was not offered.
    #[error("a compressed message, which this client has not asked for")]
    Compressed,
    /// Longer than [`LARGEST_RESPONSE`].
    #[error("a message of {0} bytes, which is more than {LARGEST_RESPONSE}")]
    TooLarge(usize),
}

/// Cuts a stream of bytes into messages.
#[derive(Default)]
pub struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// More of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message.
    ///
    /// # Errors
    /// The stream cannot be read on.
    pub fn next_message(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((head, rest)) = self.buffer.split_first_chunk::<5>() else { return Ok(None) };
        let [compressed, length @ ..] = *head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if compressed != 0 {
            return Err(FrameError::Compressed);
        }
        if length > LARGEST_RESPONSE {
            return Err(FrameError::TooLarge(length));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(5);
        let message = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // the next message starts a buffer of its own and lets go of this one's memory
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }
}

/// A message in its frame.
#[must_use]
pub fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(message);
    framed.freeze()
}
