//! `Any`s in the tree of a message that was read from JSON.
//!
//! Such a tree has, in the place of an `Any`, the message that it holds ("open"), which prost-reflect allows: a field takes a message of any type. Only what
//! encodes has to know: [`closed`] is where the `Any` comes back. These stay as they are, with their bytes: an `Any` of unknown type, one whose type has a
//! JSON form of its own (among them another `Any`), and one whose type URL is not the usual one and could not be told from the message.

use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage as _, Value};

use crate::well_known::WellKnown;
use crate::{Pool, encode};

/// What stands before the full name in the usual type URL.
const PREFIX: &str = "type.googleapis.com/";

/// `Any.type_url`
const TYPE_URL: u32 = 1;
/// `Any.value`
const VALUE: u32 = 2;

/// Whether a message is an `Any`.
pub(crate) fn is_any(descriptor: &MessageDescriptor) -> bool {
    descriptor.full_name() == "google.protobuf.Any"
}

/// What stands in the place of an `Any` that holds this.
pub(crate) fn read(pool: &Pool, any: &MessageDescriptor, type_url: &str, content: DynamicMessage) -> DynamicMessage {
    let descriptor = content.descriptor();
    let usual = type_url.strip_prefix(PREFIX) == Some(descriptor.full_name());
    if usual && WellKnown::of(&descriptor).is_none() { content } else { with_type(pool, any, type_url, &content) }
}

/// An `Any` with its bytes, whichever way it stood in the tree.
pub(crate) fn closed(pool: &Pool, any: &MessageDescriptor, message: DynamicMessage) -> DynamicMessage {
    if is_any(&message.descriptor()) {
        return message;
    }
    with_type(pool, any, &type_url(&message), &message)
}

/// The type URL of what an `Any` holds, whichever way it stands in the tree.
pub(crate) fn type_url(message: &DynamicMessage) -> String {
    let descriptor = message.descriptor();
    if !is_any(&descriptor) {
        return format!("{PREFIX}{}", descriptor.full_name());
    }
    let value = message.get_field_by_number(TYPE_URL);
    value.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn with_type(pool: &Pool, any: &MessageDescriptor, type_url: &str, content: &DynamicMessage) -> DynamicMessage {
    let mut out = DynamicMessage::new(any.clone());
    // A descriptor set of somebody's own may say otherwise what an `Any` is: then it stays empty.
    let _ = out.try_set_field_by_number(TYPE_URL, Value::String(type_url.to_owned()));
    let _ = out.try_set_field_by_number(VALUE, Value::Bytes(encode::message(pool, content)));
    out
}
