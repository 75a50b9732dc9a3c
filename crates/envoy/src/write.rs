//! Fields of protobuf messages, written where they belong: for what there is most of, messages in between would cost more than the
//! bytes. Fields come in the order of their numbers, as everywhere else, so that one message has one form.

use prost::encoding::{WireType, encode_key, encode_varint};

/// Adds a text; an empty one is not written.
pub(crate) fn text(number: u32, text: &str, to: &mut Vec<u8>) {
    if !text.is_empty() {
        item(number, text, to);
    }
}

/// Adds one text of a list; an empty one counts.
pub(crate) fn item(number: u32, text: &str, to: &mut Vec<u8>) {
    header(number, text.len(), to);
    to.extend_from_slice(text.as_bytes());
}

/// Adds a number; 0 is not written.
pub(crate) fn number(number: u32, value: u32, to: &mut Vec<u8>) {
    if value != 0 {
        always(number, value, to);
    }
}

/// Adds a number of a choice: 0 counts.
pub(crate) fn always(number: u32, value: u32, to: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, to);
    encode_varint(u64::from(value), to);
}

/// Adds key and length: what stands before a text, or before a message inside a message.
pub(crate) fn header(number: u32, length: usize, to: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(length as u64, to);
}

/// Adds a message, which `fill` writes. Most are shorter than 128 bytes, and their length is one; a longer one is moved.
pub(crate) fn message(number: u32, to: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    encode_key(number, WireType::LengthDelimited, to);
    let at = to.len();
    to.push(0);
    fill(to);
    let length = to.len() - at - 1;
    match (u8::try_from(length), to.get_mut(at)) {
        (Ok(short @ 0..=127), Some(byte)) => *byte = short,
        _ => {
            let mut varint = Vec::with_capacity(10);
            encode_varint(length as u64, &mut varint);
            to.splice(at..=at, varint);
        }
    }
}
