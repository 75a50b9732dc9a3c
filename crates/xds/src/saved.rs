//! What outlives the process, as bytes: how it begins, and how damage is found. The client's state ([`crate::client::Saved`]) is one
//! piece; a fleet of the server has a `journal`. Whoever keeps the bytes lets nobody else read or write them.

use bytes::Bytes;

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod journal;
mod record;

#[cfg(test)]
mod tests;

pub(crate) use journal::{Doubt, Edit};
pub use journal::{SavedFleet, Unsaved};

/// Length of a checksum.
pub(crate) const SUM: usize = size_of::<u128>();

/// Why bytes are not what was saved.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SavedError {
    /// They do not begin as they should.
    #[error("something else than saved xDS state")]
    Foreign,
    /// Another version of the program wrote them.
    #[error("format {0} of saved xDS state, which this version of the program does not read")]
    Format(u32),
    /// They have changed since they were written, or are not all there.
    #[error("damaged saved xDS state")]
    Damaged,
}

/// How saved bytes begin: what they are, and a number that is raised whenever older programs could not read what is written.
pub(crate) struct Format {
    pub(crate) magic: [u8; 4],
    pub(crate) number: u32,
}

impl Format {
    /// The first bytes.
    pub(crate) fn head(&self) -> Vec<u8> {
        [self.magic, self.number.to_be_bytes()].concat()
    }

    /// What is behind them.
    pub(crate) fn rest(&self, bytes: &Bytes) -> Result<Bytes, SavedError> {
        let rest = bytes.strip_prefix(&self.magic).ok_or(SavedError::Foreign)?;
        let (number, rest) = rest.split_first_chunk().ok_or(SavedError::Damaged)?;
        match u32::from_be_bytes(*number) {
            number if number == self.number => Ok(bytes.slice_ref(rest)),
            number => Err(SavedError::Format(number)),
        }
    }
}

/// The checksum of some bytes: 128-bit XXH3, big-endian.
pub(crate) fn sum(content: &[u8]) -> [u8; SUM] {
    xxhash_rust::xxh3::xxh3_128(content).to_be_bytes()
}
