//! The fields of an encoded message, each as it stands there.

use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

/// Numbers and bytes, tags included. What is no message ends it.
pub(super) fn of(message: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let before = rest;
        let mut after = rest;
        let (number, wire_type): (u32, WireType) = decode_key(&mut after).ok()?;
        skip_field(wire_type, number, &mut after, DecodeContext::default()).ok()?;
        rest = after;
        Some((number, before.get(..before.len() - after.len())?))
    })
}
