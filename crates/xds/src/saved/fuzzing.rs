//! Journals as the fuzzer makes them, of records that say anything that a record can say. There only where something is built for fuzzing,
//! and with the tests.

use bytes::Bytes;
use prost::Message;

use super::journal::{FORMAT, Owner, sealed};
use super::record::Record;

/// A number up to this one: the fuzzer's choice, 0 once it has none left.
pub type Choose<'a> = dyn FnMut(u32) -> u32 + 'a;

/// A file of this fleet with these records, whatever is in them.
#[must_use]
pub fn journal(fleet: &str, records: &[Vec<u8>]) -> Bytes {
    let owner = Owner { fleet: fleet.into(), records: records.len() as u64 }.encode_to_vec();
    let sealed = std::iter::once(&owner).chain(records).flat_map(|content| sealed(content));
    FORMAT.head().into_iter().chain(sealed).collect()
}

/// A record, as a rule one that makes sense; of these names.
#[must_use]
pub fn transaction(choose: &mut Choose<'_>, names: &[&str]) -> Vec<u8> {
    Record::chosen(choose, names).encode_to_vec()
}
