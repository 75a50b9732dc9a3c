//! Everything that stands in a message: messages at any depth, what an `Any` or a `TypedStruct` holds included, and every text.

use std::borrow::Cow;
use std::fmt;

use prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value};
use proto::google::protobuf::Any;

use crate::check::Here;
use crate::error::Path;
use crate::message::View;
use crate::print::{self, Names};
use crate::well_known::WellKnown;
use crate::{MAX_DEPTH, Message, Pool, read};

/// A part of a message.
pub enum Part<'v> {
    /// A message, before what is inside it.
    Message(View<'v>),
    /// A text: of a field, a key, a `Struct`; or bytes, as far as they are text.
    Text(Cow<'v, str>),
    /// Settings that cannot be looked into, by the name of their type: it is not known, they are not of it alone, or they are nested too deep.
    Opaque(String),
    /// An `Any` with a `Struct`, a `Value` or a `ListValue`, by its full name: Envoy makes the message of it that it expects there, whichever that is.
    Untyped(String),
    /// A `TypedStruct`, by the full name of the type that it says. Envoy makes another message of it where something else says which it expects.
    Typed(String),
}

/// Where a part stands.
pub struct Place<'w>(&'w [Here<'w>]);

impl Place<'_> {
    /// Returns the way to it.
    #[must_use]
    pub fn path(&self) -> Path {
        Path(self.0.iter().map(Here::step).collect())
    }

    /// Returns the fields that hold it by their full names, the innermost first.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .rev()
            .filter_map(|step| if let Here::Field(field) = step { Some(field.full_name()) } else { None })
    }

    /// Returns the text under which it stands in its map.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        let step = self.0.iter().rev().find(|step| !matches!(step, Here::Value))?;
        if let Here::Key(MapKey::String(key)) = step { Some(key) } else { None }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(out)
    }
}

/// Messages that hold others as a `Struct` with a type: Envoy makes the message of it.
const TYPED: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

impl Message<'_> {
    /// Shows every part, each message before what is inside it, with where it stands.
    pub fn walk(&self, seen: &mut dyn FnMut(Part<'_>, &Place<'_>)) {
        Walker { pool: self.pool(), place: Vec::new(), seen }.message(self.dynamic());
    }
}

struct Walker<'w, 'p> {
    pool: &'p Pool,
    place: Vec<Here<'p>>,
    seen: &'w mut dyn FnMut(Part<'_>, &Place<'_>),
}

impl<'p> Walker<'_, 'p> {
    fn message(&mut self, message: &DynamicMessage) {
        let descriptor = message.descriptor();
        match WellKnown::of(&descriptor) {
            Some(WellKnown::Any) => return self.any(message),
            Some(_) => {}
            None => {
                self.show(Part::Message(View::of(Cow::Borrowed(message))));
                if TYPED.contains(&descriptor.full_name()) {
                    self.typed(message);
                }
            }
        }
        for (field, value) in message.fields() {
            if !matches!(value, Value::Bool(_) | Value::I32(_) | Value::I64(_) | Value::U32(_) | Value::EnumNumber(_)) {
                self.within(Here::Field(field), |this| this.value(value));
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.show(Part::Text(Cow::Borrowed(text))),
            Value::Bytes(bytes) => self.show(Part::Text(String::from_utf8_lossy(bytes))),
            Value::Message(message) => self.message(message),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.within(Here::Index(index), |this| this.value(item));
                }
            }
            Value::Map(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in sorted {
                    self.within(Here::Key(key.clone()), |this| {
                        if let MapKey::String(text) = key {
                            this.show(Part::Text(Cow::Borrowed(text)));
                        }
                        this.value(value);
                    });
                }
            }
            _ => {}
        }
    }

    fn any(&mut self, message: &DynamicMessage) {
        let Ok(any) = message.transcode_to::<Any>() else { return self.opaque("google.protobuf.Any") };
        if any.type_url.is_empty() && any.value.is_empty() {
            return;
        }
        let inner = self.pool.find(&any.type_url).and_then(|known| DynamicMessage::decode(known, any.value).ok());
        let kind = inner.as_ref().and_then(|inner| WellKnown::of(&inner.descriptor()));
        match (inner, kind) {
            // One in another, which has a JSON form of its own, stands under `value` there: however deep they are, the depth ends it.
            (Some(inner), Some(kind)) => {
                if matches!(kind, WellKnown::Struct | WellKnown::Value | WellKnown::ListValue) {
                    self.show(Part::Untyped(inner.descriptor().full_name().to_owned()));
                }
                self.within(Here::Value, |this| this.message(&inner));
            }
            (Some(inner), None) => self.message(&inner),
            (None, _) => self.opaque(&any.type_url),
        }
    }

    /// Walks the message that Envoy makes of a `Struct` with the name of a type. One with a field that the type does not have may be meant for another.
    fn typed(&mut self, message: &DynamicMessage) {
        let type_url = message.get_field_by_name("type_url");
        let type_url = type_url.as_deref().and_then(Value::as_str).unwrap_or_default();
        let value = message.get_field_by_name("value");
        self.show(Part::Typed(proto::full_name(type_url).to_owned()));
        let Some(value) = value.as_deref().and_then(Value::as_message) else { return };
        let made = self.pool.find(type_url).and_then(|known| {
            let json = print::message(self.pool, value, Names::Proto).ok()?;
            read::message(self.pool, &known, &json, None).ok()
        });
        match made {
            // One that holds itself as another `Struct` ends with the depth.
            Some(inner) => self.within(Here::Value, |this| this.message(&inner)),
            None => self.opaque(type_url),
        }
    }

    fn opaque(&mut self, name: &str) {
        self.show(Part::Opaque(name.to_owned()));
    }

    fn show(&mut self, part: Part<'_>) {
        (self.seen)(part, &Place(&self.place));
    }

    fn within(&mut self, step: Here<'p>, inner: impl FnOnce(&mut Self)) {
        self.place.push(step);
        if self.place.len() > MAX_DEPTH {
            self.opaque("a message nested too deep");
        } else {
            inner(self);
        }
        self.place.pop();
    }
}
