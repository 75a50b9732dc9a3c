//! JSON and YAML ⇄ any Envoy message, `Any` included; canonical bytes; Envoy's own validation rules.
//!
//! Everything works by descriptor, for each of the messages that the Envoy which we ship against knows: typed code is not
//! needed, and a message travels as its full name and its bytes.
//!
//! | want | call |
//! |---|---|
//! | bytes → JSON | [`to_json`], [`to_proto_json`], [`any_to_json`], [`message_to_json`] |
//! | JSON → bytes | [`from_json`] |
//! | text (YAML or JSON) → bytes, errors with line and column | [`from_text`] |
//! | equal bytes for equal messages, whoever encoded them | [`canonical`] |
//! | what Envoy would refuse | [`check()`] |
//! | a message to look into, with fields that nobody knows told and left out | [`Pool::read`] |
//!
//! The [`Pool`] of descriptors (about 20 MB in memory) is loaded on the first call of any of these, and never before.
//! Nothing here panics on any input; nesting is bounded by [`MAX_DEPTH`].

mod any;
mod check;
mod encode;
mod error;
mod message;
mod nearest;
mod pool;
mod position;
mod print;
mod read;
mod rules;
#[cfg(test)]
mod tests;
mod walk;
mod well_known;

use bytes::Bytes;
use prost::Name;
use proto::google::protobuf::Any;
use serde_json::Value as Json;

pub use check::Violation;
pub use error::{Error, Path, Position, Reason, Step};
pub use message::{Message, Unknown, View};
pub use pool::{DESCRIPTORS, Pool};
pub use walk::{Part, Place};

/// How deep a message or a JSON value may be nested, `Any`s counted in, one step for each field, item and key.
/// protobuf's own decoders stop at 100 messages; a real Envoy bootstrap needs about 30 steps. The bound keeps the
/// recursion here within the 2 MB of a thread's stack (measured in a debug build: 1.1 MB for the deepest message).
pub const MAX_DEPTH: usize = 128;

/// Prints a message as JSON: camelCase names, fields in the order of their numbers, map keys sorted, `Any` expanded.
///
/// `name` is a full name or a type URL. 64-bit integers are strings, as protobuf's JSON mapping wants. An `Any` of a type
/// that the pool does not know is printed as `{"@type": …, "value": <base64>}`, which [`from_json`] reads back; so is one whose bytes are not
/// of its type, or stand for what has no JSON.
///
/// # Errors
/// If the name is unknown, the bytes are not such a message, or it is nested deeper than [`MAX_DEPTH`].
pub fn to_json(name: &str, bytes: &[u8]) -> Result<Json, Error> {
    Pool::envoy().to_json(name, bytes)
}

/// [`to_json`] with the names that fields have in the proto files (`stat_prefix`), as those write them who patch messages.
///
/// # Errors
/// As [`to_json`].
pub fn to_proto_json(name: &str, bytes: &[u8]) -> Result<Json, Error> {
    Pool::envoy().to_proto_json(name, bytes)
}

/// [`to_json`] of what an `Any` holds, with its `@type` first.
///
/// # Errors
/// As [`to_json`], an unknown type excepted.
pub fn any_to_json(any: &Any) -> Result<Json, Error> {
    Pool::envoy().any_to_json(any)
}

/// [`to_json`] of a typed message.
///
/// # Errors
/// As [`to_json`].
pub fn message_to_json<T: Name>(message: &T) -> Result<Json, Error> {
    to_json(&T::full_name(), &message.encode_to_vec())
}

/// The name nearest to one that there is not, if any is near: what a typing error may have meant.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest::of(wanted, names)
}

/// Reads a message from JSON and gives its canonical bytes.
///
/// Field names may be camelCase or as in the proto file. Unknown fields, fields given twice (under both names, or two of
/// one `oneof`), unknown enum values, numbers out of range and unknown `@type`s are refused.
///
/// # Errors
/// The first thing that is wrong, with its path.
pub fn from_json(name: &str, json: &Json) -> Result<Bytes, Error> {
    Pool::envoy().from_json(name, json)
}

/// Reads a message from YAML or JSON text (one document) and gives its canonical bytes.
///
/// # Errors
/// The first thing that is wrong, with its path and its place in the text.
pub fn from_text(name: &str, text: &str) -> Result<Bytes, Error> {
    Pool::envoy().from_text(name, text)
}

/// Re-encodes a message so that equal messages have equal bytes: fields in the order of their numbers, map entries in the
/// order of their keys, defaults left out, the same inside every `Any` of a known type. Unknown fields are kept.
///
/// # Errors
/// If the name is unknown or the bytes are not such a message.
pub fn canonical(name: &str, bytes: &[u8]) -> Result<Bytes, Error> {
    Pool::envoy().canonical(name, bytes)
}

/// Checks a message against the rules in Envoy's API (`validate.rules`), inside every `Any` too. Envoy refuses a resource
/// that breaks one. Empty if all hold; sorted as the message is read.
#[must_use]
pub fn check(name: &str, bytes: &[u8]) -> Vec<Violation> {
    Pool::envoy().check(name, bytes)
}
