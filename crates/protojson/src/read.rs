//! JSON value → message, by descriptor.
//!
//! An `Any` whose type is known becomes the message that it holds, in the place of the `Any`: it is read once, and whoever looks at the tree later sees it
//! without decoding bytes. See [`crate::any`].

mod scalar;
mod well_known;

use std::collections::BTreeMap;

use prost_reflect::{Cardinality, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor, Value};
use serde_json::{Map, Value as Json};

use crate::error::{Error, Path, Reason, Step};
use crate::well_known::WellKnown;
use crate::{MAX_DEPTH, Pool, any, nearest};

/// Reads a message. Fields that there are not are added to `left_out`; without it the first one is an error.
pub(crate) fn message(
    pool: &Pool,
    descriptor: &MessageDescriptor,
    json: &Json,
    left_out: Option<&mut Vec<Error>>,
) -> Result<DynamicMessage, Error> {
    Reader { pool, place: Vec::new(), left_out }.message(descriptor, json)
}

/// Walks a JSON value and remembers where it is.
struct Reader<'r> {
    pool: &'r Pool,
    place: Vec<Here<'r>>,
    left_out: Option<&'r mut Vec<Error>>,
}

/// A [`Step`] that borrows: most are never shown.
#[derive(Clone, Copy)]
enum Here<'r> {
    Key(&'r str),
    Index(usize),
}

impl<'r> Reader<'r> {
    fn message(&mut self, descriptor: &MessageDescriptor, json: &'r Json) -> Result<DynamicMessage, Error> {
        match WellKnown::of(descriptor) {
            Some(kind) => self.well_known(kind, descriptor, json),
            None => {
                let fields = self.object(json)?;
                self.fields(descriptor, fields.iter())
            }
        }
    }

    /// A message from the members of its object.
    fn fields(
        &mut self,
        descriptor: &MessageDescriptor,
        members: impl Iterator<Item = (&'r String, &'r Json)>,
    ) -> Result<DynamicMessage, Error> {
        let mut message = DynamicMessage::new(descriptor.clone());
        let mut seen = Seen::default();
        for (name, json) in members {
            self.within(Here::Key(name), |this| {
                let field = match field(descriptor, name).map_err(|reason| this.wrong(reason)) {
                    Ok(field) => field,
                    Err(error) => return this.leave_out(error),
                };
                if json.is_null() && !takes_null(&field) {
                    return Ok(());
                }
                seen.add(&field).map_err(|reason| this.wrong(reason))?;
                let value = this.field(&field, json)?;
                message.try_set_field(&field, value).map_err(|error| this.wrong(Reason::Bytes(error.to_string())))
            })?;
        }
        Ok(message)
    }

    /// A field that the message does not have.
    fn leave_out(&mut self, error: Error) -> Result<(), Error> {
        match &mut self.left_out {
            Some(left_out) => left_out.push(error),
            None => return Err(error),
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, json: &'r Json) -> Result<Value, Error> {
        match field.kind() {
            kind if field.cardinality() != Cardinality::Repeated => self.single(&kind, json),
            Kind::Message(entry) if entry.is_map_entry() => self.map(&entry, json),
            kind => self.list(&kind, json),
        }
    }

    fn list(&mut self, kind: &Kind, json: &'r Json) -> Result<Value, Error> {
        let items = json.as_array().ok_or_else(|| self.expected("a list", json))?;
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            list.push(self.within(Here::Index(index), |this| this.single(kind, item))?);
        }
        Ok(Value::List(list))
    }

    fn map(&mut self, entry: &MessageDescriptor, json: &'r Json) -> Result<Value, Error> {
        let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        let mut map = BTreeMap::new();
        for (name, json) in self.object(json)? {
            self.within(Here::Key(name), |this| {
                let key = scalar::key(&key_kind, name).map_err(|reason| this.wrong(reason))?;
                let value = this.single(&value_kind, json)?;
                match map.insert(key, value) {
                    None => Ok(()),
                    Some(_) => Err(this.wrong(Reason::Twice)),
                }
            })?;
        }
        Ok(Value::Map(map.into_iter().collect()))
    }

    fn single(&mut self, kind: &Kind, json: &'r Json) -> Result<Value, Error> {
        match kind {
            Kind::Message(descriptor) if any::is_any(descriptor) => Ok(Value::Message(self.any(descriptor, json)?)),
            Kind::Message(descriptor) => Ok(Value::Message(self.message(descriptor, json)?)),
            scalar => scalar::value(scalar, json).map_err(|reason| self.wrong(reason)),
        }
    }

    fn object(&self, json: &'r Json) -> Result<&'r Map<String, Json>, Error> {
        json.as_object().ok_or_else(|| self.expected("an object", json))
    }

    /// Does something one step further in.
    fn within<T>(&mut self, step: Here<'r>, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.place.push(step);
        if self.place.len() > MAX_DEPTH {
            return Err(self.wrong(Reason::TooDeep));
        }
        let result = inner(self);
        self.place.pop();
        result
    }

    fn wrong(&self, reason: Reason) -> Error {
        let steps = self.place.iter().map(|step| match step {
            Here::Key(name) => Step::Key((*name).to_owned()),
            Here::Index(index) => Step::Index(*index),
        });
        reason.at(&Path(steps.collect()))
    }

    fn expected(&self, expected: &str, json: &Json) -> Error {
        self.wrong(scalar::expected(expected, json))
    }
}

/// Fields of a message that were read.
#[derive(Default)]
struct Seen {
    numbers: Vec<u32>,
    /// Those of a `oneof`.
    chosen: Vec<(OneofDescriptor, FieldDescriptor)>,
}

impl Seen {
    /// Refuses the same field under another name, and a second one of a `oneof`.
    fn add(&mut self, field: &FieldDescriptor) -> Result<(), Reason> {
        let number = field.number();
        if self.numbers.contains(&number) {
            return Err(Reason::Twice);
        }
        self.numbers.push(number);
        let Some(oneof) = field.containing_oneof() else { return Ok(()) };
        if let Some((_, other)) = self.chosen.iter().find(|(of, _)| *of == oneof) {
            return Err(Reason::Excludes { other: other.json_name().to_owned(), oneof: oneof.name().to_owned() });
        }
        self.chosen.push((oneof, field.clone()));
        Ok(())
    }
}

/// The field of a name, which may be camelCase or as in the proto file.
fn field(descriptor: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, Reason> {
    let found = descriptor.get_field_by_json_name(name).or_else(|| descriptor.get_field_by_name(name));
    found.ok_or_else(|| {
        let fields: Vec<FieldDescriptor> = descriptor.fields().collect();
        // The hint is in the spelling that the author uses.
        let spelled = |field: &'_ FieldDescriptor| -> String {
            if name.contains('_') { field.name().to_owned() } else { field.json_name().to_owned() }
        };
        let names: Vec<String> = fields.iter().map(spelled).collect();
        let renamed = RENAMED.iter().find(|(old, json, _)| [*old, *json].contains(&name));
        let renamed = renamed.and_then(|(.., new)| descriptor.get_field_by_name(new)).map(|field| spelled(&field));
        Reason::UnknownField {
            message: descriptor.full_name().to_owned(),
            field: name.to_owned(),
            nearest: renamed.or_else(|| nearest::of(name, names.iter().map(String::as_str))),
        }
    })
}

/// Fields of Envoy's API v2 in both spellings, and what stands in their place in v3: whoever has old manifests writes these.
const RENAMED: [(&str, &str, &str); 4] = [
    ("config", "config", "typed_config"),
    ("hosts", "hosts", "load_assignment"),
    ("regex", "regex", "safe_regex"),
    ("tls_context", "tlsContext", "transport_socket"),
];

/// `null` leaves a field unset, unless null is one of its values.
fn takes_null(field: &FieldDescriptor) -> bool {
    match field.kind() {
        _ if field.is_list() || field.is_map() => false,
        Kind::Message(message) => message.full_name() == "google.protobuf.Value",
        Kind::Enum(enumeration) => enumeration.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}
