//! [`Digest`]: what stands in a row for a value that leaves the graph. Such a value is only wanted where it changes or where somebody
//! asks, and is quickly made again from what the graph keeps anyway; tens of thousands of them would be a good part of all memory.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;
use std::sync::OnceLock;

use foldhash::quality::RandomState;

/// A hash of a value, seeded per process. Equal values have equal digests, and two different ones that follow each other in a row
/// have the same in one of 2^63 cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(NonZeroU64);

impl Digest {
    pub(crate) fn of(value: &impl Hash) -> Self {
        static SEED: OnceLock<RandomState> = OnceLock::new();
        Self(NonZeroU64::MIN | SEED.get_or_init(RandomState::default).hash_one(value))
    }
}
