//! Objects of an API server: JSON straight into a [`Tree`], without what nobody reads.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::decode::{Decoded, Origin, decode};
use crate::kind::Kind;
use crate::tree::{Builder, Tree, Value};

/// What is kept of `metadata`. Not `resourceVersion`: it changes with every status that is written, and an object of which nothing else
/// changed has to be equal to the one before. Whoever writes needs it, and gets it from the source.
pub const METADATA: [&str; 8] =
    ["name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp", "labels", "annotations"];

/// Why a text is no JSON.
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for JsonError {}

/// Reads the object of a kind as an API server gives it, and checks it as [`decode`] does: an old definition of the kind may have let
/// pass what ours does not. Problems have no place.
///
/// `apiVersion` and `kind` may be missing, as they are in the lists of core kinds. Of the status (but that of a Pod), of `managedFields` and of
/// other metadata that nobody reads no value is made.
///
/// # Errors
///
/// The text is no JSON, or nested more than 128 deep.
pub fn read(kind: Kind, text: &str) -> Result<Decoded, JsonError> {
    let mut builder = Builder::for_text(text.len());
    let mut reader = serde_json::Deserializer::from_str(text);
    Whole { builder: &mut builder, kind }.deserialize(&mut reader).map_err(JsonError)?;
    reader.end().map_err(JsonError)?;
    let origin = Origin { file: None, text: "", line: 1 };
    Ok(decode(&Tree { nodes: builder.nodes }, origin))
}

/// The object: its kind is known, and some of its fields are left out.
struct Whole<'b, 't> {
    builder: &'b mut Builder<'t>,
    kind: Kind,
}

/// `metadata`.
struct Metadata<'b, 't>(&'b mut Builder<'t>);

/// Any value.
struct Any<'b, 't>(&'b mut Builder<'t>);

impl<'t> DeserializeSeed<'t> for Whole<'_, 't> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Whole<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'t>>(self, mut map: M) -> Result<(), M::Error> {
        let Self { builder, kind } = self;
        let (at, mut count) = (builder.open(0), 2);
        for (name, value) in [("apiVersion", kind.api_version().into()), ("kind", Cow::Borrowed(kind.name()))] {
            builder.leaf(0, Value::String(Cow::Borrowed(name)));
            builder.leaf(0, Value::String(value));
        }
        while let Some(Text(name)) = map.next_key()? {
            let is_metadata = name == "metadata";
            if matches!(&*name, "apiVersion" | "kind") || name == "status" && kind != Kind::Pod {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            builder.leaf(0, Value::String(name));
            if is_metadata {
                map.next_value_seed(Metadata(builder))?;
            } else {
                map.next_value_seed(Any(builder))?;
            }
            count += 1;
        }
        builder.close(at, Value::Map(count));
        Ok(())
    }
}

impl<'t> DeserializeSeed<'t> for Metadata<'_, 't> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Passes what is no map on to [`Any`]: the check says what is wrong with it.
macro_rules! as_any {
    ($($visit:ident: $value:ty,)+) => {
        $(fn $visit<E: serde::de::Error>(self, value: $value) -> Result<(), E> {
            Any(self.0).$visit(value)
        })+

        fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
            Any(self.0).visit_unit()
        }

        fn visit_seq<S: SeqAccess<'t>>(self, items: S) -> Result<(), S::Error> {
            Any(self.0).visit_seq(items)
        }
    };
}

impl<'t> Visitor<'t> for Metadata<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    as_any! {
        visit_bool: bool,
        visit_i64: i64,
        visit_u64: u64,
        visit_f64: f64,
        visit_borrowed_str: &'t str,
        visit_str: &str,
    }

    fn visit_map<M: MapAccess<'t>>(self, mut map: M) -> Result<(), M::Error> {
        let (at, mut count) = (self.0.open(0), 0);
        while let Some(Text(name)) = map.next_key()? {
            if METADATA.contains(&&*name) {
                self.0.leaf(0, Value::String(name));
                map.next_value_seed(Any(self.0))?;
                count += 1;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        self.0.close(at, Value::Map(count));
        Ok(())
    }
}

impl<'t> DeserializeSeed<'t> for Any<'_, 't> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Any<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.leaf(0, Value::Null);
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.0.leaf(0, Value::Bool(value));
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.0.leaf(0, Value::Int(value));
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        let value = i64::try_from(value).map_or_else(|_| Value::Number(value.to_string().into()), Value::Int);
        self.0.leaf(0, value);
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.0.leaf(0, Value::Number(value.to_string().into()));
        Ok(())
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'t str) -> Result<(), E> {
        self.0.leaf(0, Value::String(Cow::Borrowed(text)));
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.0.leaf(0, Value::String(Cow::Owned(text.to_owned())));
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'t>>(self, mut items: S) -> Result<(), S::Error> {
        let (at, mut count) = (self.0.open(0), 0);
        while items.next_element_seed(Any(self.0))?.is_some() {
            count += 1;
        }
        self.0.close(at, Value::List(count));
        Ok(())
    }

    fn visit_map<M: MapAccess<'t>>(self, mut map: M) -> Result<(), M::Error> {
        let (at, mut count) = (self.0.open(0), 0);
        while let Some(Text(name)) = map.next_key()? {
            self.0.leaf(0, Value::String(name));
            map.next_value_seed(Any(self.0))?;
            count += 1;
        }
        self.0.close(at, Value::Map(count));
        Ok(())
    }
}

/// A string, borrowed where it stands in the text literally.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

#[cfg(test)]
mod tests;
