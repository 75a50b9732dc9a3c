//! [`Message`]: a message that was read, to look at before it becomes bytes.

use std::borrow::Cow;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage as _, Value};
use proto::google::protobuf::Any;
use serde_json::Value as Json;

use crate::check::{self, Violation};
use crate::error::Error;
use crate::well_known::WellKnown;
use crate::{MAX_DEPTH, Pool, encode, read};

/// What becomes of fields that a message does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The first one is an error.
    Refuse,
    /// They are left out, and told.
    Tell,
}

/// A message of a [`Pool`].
#[derive(Debug, Clone)]
pub struct Message<'p> {
    pool: &'p Pool,
    inner: DynamicMessage,
}

impl Pool {
    /// Reads a message from JSON as [`crate::from_json`] does. Gives also the fields that were left out, which is none unless that is allowed.
    ///
    /// # Errors
    /// The first thing that is wrong, with its path.
    pub fn read(&self, name: &str, json: &Json, unknown: Unknown) -> Result<(Message<'_>, Vec<Error>), Error> {
        let mut left_out = Vec::new();
        let told = (unknown == Unknown::Tell).then_some(&mut left_out);
        let inner = read::message(self, &self.named(name)?, json, told)?;
        Ok((Message { pool: self, inner }, left_out))
    }
}

impl<'p> Message<'p> {
    pub(crate) fn pool(&self) -> &'p Pool {
        self.pool
    }

    pub(crate) fn dynamic(&self) -> &DynamicMessage {
        &self.inner
    }

    /// Its canonical bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        encode::message(self.pool, &self.inner)
    }

    /// As [`crate::check()`].
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        check::message(self.pool, &self.inner)
    }

    /// The message, to look at.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::of(Cow::Borrowed(&self.inner))
    }

    /// Shows it, and every message inside it, what an `Any` of a known type holds included, each before those inside it.
    pub fn visit(&self, seen: &mut dyn FnMut(&View<'_>)) {
        Visitor { pool: self.pool, depth: 0, seen }.message(&self.inner);
    }
}

/// A message as it is seen from outside: by the names that its proto file has.
pub struct View<'m> {
    message: Cow<'m, DynamicMessage>,
    descriptor: MessageDescriptor,
}

impl<'m> View<'m> {
    pub(crate) fn of(message: Cow<'m, DynamicMessage>) -> Self {
        View { descriptor: message.descriptor(), message }
    }

    /// Its full name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.descriptor.full_name()
    }

    /// Whether it is of this full name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name() == name
    }

    /// Whether a field is set.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.message.has_field_by_name(field)
    }

    /// A text; empty where there is none.
    #[must_use]
    pub fn text(&self, field: &str) -> String {
        let value = self.message.get_field_by_name(field);
        value.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Texts of a list.
    #[must_use]
    pub fn texts(&self, field: &str) -> Vec<String> {
        let value = self.message.get_field_by_name(field);
        let items = value.as_deref().and_then(Value::as_list).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The message in a field, if there is one.
    #[must_use]
    pub fn inner(&self, field: &str) -> Option<View<'_>> {
        if !self.has(field) {
            return None;
        }
        match self.message.get_field_by_name(field)? {
            Cow::Borrowed(value) => value.as_message().map(|inner| View::of(Cow::Borrowed(inner))),
            Cow::Owned(value) => value.as_message().map(|inner| View::of(Cow::Owned(inner.clone()))),
        }
    }

    /// The messages of a list.
    #[must_use]
    pub fn items(&self, field: &str) -> Vec<View<'_>> {
        let Some(Cow::Borrowed(Value::List(items))) = self.message.get_field_by_name(field) else { return Vec::new() };
        items.iter().filter_map(Value::as_message).map(|inner| View::of(Cow::Borrowed(inner))).collect()
    }

    /// A number or the number of an enum's value; 0 where there is none.
    #[must_use]
    pub fn number(&self, field: &str) -> i64 {
        match self.message.get_field_by_name(field).as_deref() {
            Some(Value::I32(number) | Value::EnumNumber(number)) => (*number).into(),
            Some(Value::I64(number)) => *number,
            Some(Value::U32(number)) => (*number).into(),
            _ => 0,
        }
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn flag(&self, field: &str) -> bool {
        self.message.get_field_by_name(field).as_deref().and_then(Value::as_bool).unwrap_or_default()
    }
}

struct Visitor<'v, 'p> {
    pool: &'p Pool,
    depth: usize,
    seen: &'v mut dyn FnMut(&View<'_>),
}

impl Visitor<'_, '_> {
    fn message(&mut self, message: &DynamicMessage) {
        // What is read is no deeper.
        if self.depth >= MAX_DEPTH {
            return;
        }
        self.depth += 1;
        match WellKnown::of(&message.descriptor()) {
            None => {
                (self.seen)(&View::of(Cow::Borrowed(message)));
                message.fields().for_each(|(_, value)| self.value(value));
            }
            Some(WellKnown::Any) => {
                let any = message.transcode_to::<Any>().ok();
                let inner = any.and_then(|any| DynamicMessage::decode(self.pool.find(&any.type_url)?, any.value).ok());
                if let Some(inner) = inner {
                    self.message(&inner);
                }
            }
            Some(_) => {}
        }
        self.depth -= 1;
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Message(message) => self.message(message),
            Value::List(items) => items.iter().for_each(|item| self.value(item)),
            Value::Map(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                sorted.into_iter().for_each(|(_, value)| self.value(value));
            }
            _ => {}
        }
    }
}
