//! Canonical bytes: prost-reflect's own encoder takes maps in the order of a hash table, which differs from run to run.

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};
use proto::google::protobuf::Any;

use crate::any::{self, is_any};
use crate::{MAX_DEPTH, Pool};

/// The canonical bytes of a message.
pub(crate) fn message(pool: &Pool, message: &DynamicMessage) -> Bytes {
    let mut encoder = Encoder { pool: Some(pool), depth: 0 };
    let mut out = Vec::new();
    encoder.message(message, &mut out);
    out.into()
}

/// The canonical bytes of what an `Any` holds; as they are if its type is unknown or they are not of that type.
pub(crate) fn any(pool: &Pool, any: &Any) -> Bytes {
    Encoder { pool: Some(pool), depth: 0 }.any(any).unwrap_or_else(|| any.value.clone())
}

/// The bytes of one value alone, without a tag; equal values have equal bytes.
pub(crate) fn value(kind: &Kind, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder { pool: None, depth: 0 }.scalar(kind, value, &mut out);
    out
}

struct Encoder<'p> {
    /// Where the types of `Any`s are looked up; without it they stay as they are.
    pool: Option<&'p Pool>,
    /// How many `Any`s are open. Within one, the decoder has bounded the depth to 100 messages.
    depth: usize,
}

impl Encoder<'_> {
    fn message(&mut self, message: &DynamicMessage, out: &mut Vec<u8>) {
        if message.extensions().next().is_some() {
            // Only descriptor options have extensions, and those hold no maps: prost-reflect's bytes are stable.
            return out.extend(message.encode_to_vec());
        }
        if is_any(&message.descriptor())
            && let Ok(mut any) = message.transcode_to::<Any>()
        {
            any.value = self.any(&any).unwrap_or(any.value);
            return out.extend(any.encode_to_vec());
        }
        for (field, value) in message.fields() {
            self.field(&field, value, out);
        }
        for unknown in message.unknown_fields() {
            unknown.encode(out);
        }
    }

    /// The `Any` that holds a message which stands in its place.
    fn open(&mut self, content: &DynamicMessage, out: &mut Vec<u8>) {
        prost::encoding::string::encode(1, &any::type_url(content), out);
        let tag = out.len();
        encode_key(2, WireType::LengthDelimited, out);
        let empty = out.len();
        delimited(out, |out| self.message(content, out));
        // A length of zero alone: an empty field is left out.
        if out.len() == empty + 1 {
            out.truncate(tag);
        }
    }

    /// Canonical bytes of what an `Any` holds, if its type is known and its bytes are of that type.
    fn any(&mut self, any: &Any) -> Option<Bytes> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        let descriptor = self.pool?.find(&any.type_url)?;
        let inner = DynamicMessage::decode(descriptor, any.value.clone()).ok()?;
        let mut out = Vec::new();
        self.depth += 1;
        self.message(&inner, &mut out);
        self.depth -= 1;
        Some(out.into())
    }

    fn field(&mut self, field: &FieldDescriptor, value: &Value, out: &mut Vec<u8>) {
        let (number, kind) = (field.number(), field.kind());
        match value {
            Value::Map(entries) => self.map(number, &kind, entries.iter(), out),
            Value::List(items) if field.is_packed() => {
                encode_key(number, WireType::LengthDelimited, out);
                delimited(out, |out| items.iter().for_each(|item| self.scalar(&kind, item, out)));
            }
            Value::List(items) => {
                for item in items {
                    self.single(number, &kind, field.is_group(), item, out);
                }
            }
            single => self.single(number, &kind, field.is_group(), single, out),
        }
    }

    fn map<'m>(
        &mut self,
        number: u32,
        kind: &Kind,
        entries: impl Iterator<Item = (&'m MapKey, &'m Value)>,
        out: &mut Vec<u8>,
    ) {
        let Kind::Message(entry) = kind else { return };
        let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        let mut sorted: Vec<_> = entries.collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        for (key, value) in sorted {
            encode_key(number, WireType::LengthDelimited, out);
            delimited(out, |out| {
                self.single(1, &key_kind, false, &Value::from(key.clone()), out);
                self.single(2, &value_kind, false, value, out);
            });
        }
    }

    fn single(&mut self, number: u32, kind: &Kind, group: bool, value: &Value, out: &mut Vec<u8>) {
        if let (true, Value::Message(message)) = (group, value) {
            encode_key(number, WireType::StartGroup, out);
            self.message(message, out);
            return encode_key(number, WireType::EndGroup, out);
        }
        encode_key(number, kind.wire_type(), out);
        self.scalar(kind, value, out);
    }

    /// A value without its tag. Pairs that cannot be (prost-reflect checks values against kinds) write nothing.
    fn scalar(&mut self, kind: &Kind, value: &Value, out: &mut Vec<u8>) {
        match (kind, value) {
            (Kind::Double, Value::F64(number)) => out.extend(number.to_le_bytes()),
            (Kind::Float, Value::F32(number)) => out.extend(number.to_le_bytes()),
            (Kind::Sint32, Value::I32(number)) => encode_varint(zigzag(i64::from(*number)), out),
            (Kind::Sint64, Value::I64(number)) => encode_varint(zigzag(*number), out),
            (Kind::Sfixed32, Value::I32(number)) => out.extend(number.to_le_bytes()),
            (Kind::Sfixed64, Value::I64(number)) => out.extend(number.to_le_bytes()),
            (Kind::Fixed32, Value::U32(number)) => out.extend(number.to_le_bytes()),
            (Kind::Fixed64, Value::U64(number)) => out.extend(number.to_le_bytes()),
            (_, Value::I32(number) | Value::EnumNumber(number)) => {
                encode_varint(i64::from(*number).cast_unsigned(), out);
            }
            (_, Value::I64(number)) => encode_varint(number.cast_unsigned(), out),
            (_, Value::U32(number)) => encode_varint(u64::from(*number), out),
            (_, Value::U64(number)) => encode_varint(*number, out),
            (_, Value::Bool(flag)) => encode_varint(u64::from(*flag), out),
            (_, Value::String(text)) => delimited(out, |out| out.extend_from_slice(text.as_bytes())),
            (_, Value::Bytes(bytes)) => delimited(out, |out| out.extend_from_slice(bytes)),
            (Kind::Message(field), Value::Message(message)) if is_any(field) && !is_any(&message.descriptor()) => {
                delimited(out, |out| self.open(message, out));
            }
            (_, Value::Message(message)) => delimited(out, |out| self.message(message, out)),
            (_, Value::F32(_) | Value::F64(_) | Value::List(_) | Value::Map(_)) => {}
        }
    }
}

/// Writes something and, before it, how long it is.
fn delimited(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    // Most are so short that one byte says it.
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    let more = encoded_len_varint(length as u64) - 1;
    if more > 0 {
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(start + 1..end, start + 1 + more);
    }
    if let Some(mut place) = out.get_mut(start..) {
        encode_varint(length as u64, &mut place);
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}
