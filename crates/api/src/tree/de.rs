//! Typed values out of a tree, through serde.
//!
//! A tree that passed its schema always fits its type; an error here means that schema and type disagree.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize as _;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};

use super::{Cursor, Entries, Items, NOTHING, Tree, Value};

/// Nodes that are not to be read as they are, sorted by index.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    nodes: Vec<u32>,
    hollow: Vec<u32>,
}

impl Pruned {
    /// `nodes` are read as if they were not there, those of them that are `hollow` too as maps without entries.
    pub(crate) fn new(mut nodes: Vec<u32>, mut hollow: Vec<u32>) -> Self {
        nodes.sort_unstable();
        hollow.sort_unstable();
        Self { nodes, hollow }
    }

    pub(crate) fn has(&self, index: u32) -> bool {
        !self.nodes.is_empty() && self.nodes.binary_search(&index).is_ok()
    }

    /// True if everything is read as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.hollow.is_empty()
    }

    fn is_hollow(&self, index: u32) -> bool {
        !self.hollow.is_empty() && self.hollow.binary_search(&index).is_ok()
    }

    /// Whether an item of a list is read.
    pub(crate) fn keeps(&self, item: Cursor<'_, '_>) -> bool {
        !item.is_null() && !self.has(item.index) || self.is_hollow(item.index)
    }
}

/// Why a tree does not fit a type.
#[derive(Debug)]
pub(crate) struct DecodeError(pub(crate) String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// Reads the value at `cursor` as a `T`.
pub(crate) fn deserialize<T: de::DeserializeOwned>(cursor: Cursor<'_, '_>, pruned: &Pruned) -> Result<T, DecodeError> {
    T::deserialize(Reader { tree: cursor.tree, index: cursor.index, pruned })
}

/// The value at `cursor` as it is written, nulls included, whatever is wrong with it.
pub(crate) fn verbatim(cursor: Cursor<'_, '_>) -> Verbatim {
    Verbatim(Arc::new(json(cursor)))
}

fn json(cursor: Cursor<'_, '_>) -> serde_json::Value {
    match cursor.value() {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        // A number that JSON cannot hold stays the text that it was.
        Value::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| text.to_string().into()),
        Value::String(text) => text.to_string().into(),
        Value::List(_) => cursor.items().map(json).collect(),
        Value::Map(_) => {
            let fields =
                cursor.entries().map(|(name, value)| (name.as_str().unwrap_or_default().to_owned(), json(value)));
            serde_json::Value::Object(fields.collect())
        }
    }
}

/// A value that is kept as it is written: nulls are not left out, and numbers are numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Verbatim(pub Arc<serde_json::Value>);

impl Verbatim {
    /// By this name [`Reader`] knows what is asked of it.
    const NAME: &'static str = "$verbatim";
}

impl<'de> de::Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = Verbatim;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Verbatim, D::Error> {
                serde_json::Value::deserialize(deserializer).map(|value| Verbatim(Arc::new(value)))
            }
        }
        deserializer.deserialize_newtype_struct(Self::NAME, Whole)
    }
}

#[derive(Clone, Copy)]
struct Reader<'a, 't> {
    tree: &'a Tree<'t>,
    index: u32,
    pruned: &'a Pruned,
}

impl<'a, 't> Reader<'a, 't> {
    fn cursor(self) -> Cursor<'a, 't> {
        Cursor { tree: self.tree, index: self.index }
    }

    fn bounded<'de, V: Visitor<'de>>(self, most: i64, visitor: V) -> Result<V::Value, DecodeError> {
        match self.cursor().value() {
            Value::Int(number) => visitor.visit_i64((*number).clamp(0, most)),
            _ => self.deserialize_any(visitor),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_, '_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let cursor = self.cursor();
        match cursor.value() {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::Number(text) => visitor.visit_str(text),
            Value::String(text) => visitor.visit_str(text),
            Value::List(_) => visitor.visit_seq(ItemReader { items: cursor.items(), pruned: self.pruned }),
            Value::Map(_) => {
                visitor.visit_map(EntryReader { entries: cursor.entries(), value: None, pruned: self.pruned })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.cursor().is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if name == Verbatim::NAME {
            return visitor.visit_newtype_struct(json(self.cursor())).map_err(de::Error::custom);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    /// The fields that are `u16` have bounds in their schemas; anything beyond is a fault already told.
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.bounded(u16::MAX.into(), visitor)
    }

    /// Numbers without bounds in their schemas count as the nearest that there is: more retries than 4 billion are 4
    /// billion.
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.bounded(u32::MAX.into(), visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

struct ItemReader<'a, 't> {
    items: Items<'a, 't>,
    pruned: &'a Pruned,
}

impl<'de> de::SeqAccess<'de> for ItemReader<'_, '_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        let Some(item) = self.items.find(|item| self.pruned.keeps(*item)) else { return Ok(None) };
        let Cursor { tree, index } = if self.pruned.is_hollow(item.index) { NOTHING.root() } else { item };
        seed.deserialize(Reader { tree, index, pruned: self.pruned }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.items.size_hint().1
    }
}

struct EntryReader<'a, 't> {
    entries: Entries<'a, 't>,
    value: Option<Cursor<'a, 't>>,
    pruned: &'a Pruned,
}

impl<'de> de::MapAccess<'de> for EntryReader<'_, '_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let entry = self.entries.find(|(_, value)| !value.is_null() && !self.pruned.has(value.index));
        let Some((name, value)) = entry else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Reader { tree: name.tree, index: name.index, pruned: self.pruned }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        match self.value.take() {
            Some(value) => seed.deserialize(Reader { tree: value.tree, index: value.index, pruned: self.pruned }),
            None => Err(DecodeError("a value was asked for before its name".to_owned())),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.entries.size_hint().1
    }
}
