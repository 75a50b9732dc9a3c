//! Finds the serialized `FileDescriptorProto`s inside a binary.
//!
//! A C++ program that links protobuf carries each of its `.proto` files as plain serialized bytes. Such a run of bytes
//! opens with field 1, the file's name: `0x0A <length> <name>.proto`. It has no length of its own, so the fields are
//! walked until one does not fit; C++ writes them in the order of their numbers, which ends the walk where the next
//! descriptor, a table or padding begins.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::FileDescriptorProto;

/// Tag byte of field 1 (`name`), a string.
const NAME_TAG: u8 = 0x0A;
/// Names are shorter than this in every API seen; one length byte is enough up to here.
const LONGEST_NAME: usize = 127;

/// One descriptor that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What it says.
    pub file: FileDescriptorProto,
    /// Its bytes as they stood there. Options such as `validate.rules` are only in these: prost drops extensions.
    pub bytes: Vec<u8>,
}

impl Found {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { file: FileDescriptorProto::decode(bytes).ok()?, bytes: bytes.to_vec() })
    }
}

/// All descriptors found, by file name; where a name occurs more than once the longest one counts.
pub fn file_descriptors(binary: &[u8]) -> BTreeMap<String, Found> {
    let mut longest: BTreeMap<String, &[u8]> = BTreeMap::new();
    let mut rest = binary;
    while let Some(at) = rest.iter().position(|byte| *byte == NAME_TAG) {
        rest = rest.get(at..).unwrap_or_default();
        if let Some(name) = proto_name(rest) {
            let bytes = descriptor_bytes(rest);
            let best = longest.entry(name).or_default();
            if bytes.len() > best.len() {
                *best = bytes;
            }
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    longest.into_iter().filter_map(|(name, bytes)| Some((name, Found::decode(bytes)?))).collect()
}

/// The file name, if a descriptor may begin here.
fn proto_name(bytes: &[u8]) -> Option<String> {
    let length = usize::from(*bytes.get(1)?);
    if length > LONGEST_NAME {
        return None;
    }
    let name = bytes.get(2..2 + length)?;
    let stem = name.strip_suffix(b".proto")?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./".contains(byte);
    if stem.is_empty() || !stem.iter().all(plain) {
        return None;
    }
    String::from_utf8(name.to_vec()).ok()
}

/// As many bytes from the start as are fields of a `FileDescriptorProto` in ascending order.
fn descriptor_bytes(bytes: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut last = 0;
    while let Some((number, length)) = bytes.get(end..).and_then(field) {
        let repeats = matches!(number, 3..=7 | 10 | 11 | 15);
        if number < last || (number == last && !repeats) {
            break;
        }
        last = number;
        end += length;
    }
    bytes.get(..end).unwrap_or_default()
}

/// Number and encoded length of the field at the start, if it is one of a `FileDescriptorProto`.
fn field(bytes: &[u8]) -> Option<(u64, usize)> {
    let (tag, tag_length) = varint(bytes)?;
    let (number, wire_type) = (tag >> 3, tag & 7);
    let (value, value_length) = varint(bytes.get(tag_length..)?)?;
    let head = tag_length + value_length;
    let total = match (number, wire_type) {
        (10 | 11 | 14, 0) => head,
        (1..=12 | 15, 2) => head.checked_add(usize::try_from(value).ok()?)?,
        _ => return None,
    };
    (total <= bytes.len()).then_some((number, total))
}

/// A base-128 number and how many bytes it took.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F).checked_shl(u32::try_from(index).ok()? * 7)?;
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}
