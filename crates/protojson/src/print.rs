//! Message → JSON value, by descriptor.

mod well_known;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};
use proto::google::protobuf::Any;
use serde_json::{Map, Number, Value as Json};

use crate::error::{Error, Path, Reason, Step};
use crate::well_known::WellKnown;
use crate::{MAX_DEPTH, Pool};

/// How the names of fields are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// camelCase.
    Json,
    /// As in the proto file.
    Proto,
}

/// Prints a message.
pub(crate) fn message(pool: &Pool, message: &DynamicMessage, names: Names) -> Result<Json, Error> {
    Printer { pool, names, depth: 0 }.message(message)
}

/// Prints what an `Any` holds.
pub(crate) fn any(pool: &Pool, any: &Any) -> Result<Json, Error> {
    Printer { pool, names: Names::Json, depth: 0 }.any(any)
}

/// Walks a message. Where it is follows from where an error comes out: nearly all messages have none.
struct Printer<'p> {
    pool: &'p Pool,
    names: Names,
    depth: usize,
}

impl Printer<'_> {
    fn message(&mut self, message: &DynamicMessage) -> Result<Json, Error> {
        match WellKnown::of(&message.descriptor()) {
            Some(kind) => self.well_known(kind, message),
            None => {
                // Most have one field, and a map that grows has room for four.
                let mut members = Map::with_capacity(message.fields().count());
                self.fields(message, &mut members)?;
                Ok(Json::Object(members))
            }
        }
    }

    /// Adds the fields that are set, in the order of their numbers.
    fn fields(&mut self, message: &DynamicMessage, members: &mut Map<String, Json>) -> Result<(), Error> {
        for (field, value) in message.fields() {
            let name = if self.names == Names::Json { field.json_name() } else { field.name() };
            let json = self.within(|| Step::Key(name.to_owned()), |this| this.field(&field, value))?;
            members.insert(name.to_owned(), json);
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, value: &Value) -> Result<Json, Error> {
        let kind = field.kind();
        match value {
            Value::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    list.push(self.within(|| Step::Index(index), |this| this.single(&kind, item))?);
                }
                Ok(Json::Array(list))
            }
            Value::Map(entries) => {
                let value_kind = kind.as_message().map(|entry| entry.map_entry_value_field().kind());
                let mut sorted: Vec<(&MapKey, &Value)> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                let mut members = Map::with_capacity(sorted.len());
                for (key, value) in sorted {
                    let name = key_text(key);
                    let kind = value_kind.as_ref().unwrap_or(&kind);
                    let json = self.within(|| Step::Key(name.clone()), |this| this.single(kind, value))?;
                    members.insert(name, json);
                }
                Ok(Json::Object(members))
            }
            single => self.single(&kind, single),
        }
    }

    fn single(&mut self, kind: &Kind, value: &Value) -> Result<Json, Error> {
        Ok(match value {
            Value::Message(message) => self.message(message)?,
            Value::EnumNumber(number) => kind.as_enum().map_or(Json::from(*number), |kind| enum_name(kind, *number)),
            Value::Bool(flag) => Json::Bool(*flag),
            Value::I32(number) => Json::from(*number),
            Value::U32(number) => Json::from(*number),
            // JSON's numbers are floats for many readers; the mapping writes 64 bits as strings.
            Value::I64(number) => Json::String(number.to_string()),
            Value::U64(number) => Json::String(number.to_string()),
            Value::F32(number) => single_precision(*number),
            Value::F64(number) => float(*number),
            Value::String(text) => Json::String(text.clone()),
            Value::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
            Value::List(_) | Value::Map(_) => Json::Null,
        })
    }

    /// Does something one step further in.
    fn within<T>(
        &mut self,
        step: impl FnOnce() -> Step,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { Err(wrong(Reason::TooDeep)) } else { inner(self) };
        self.depth -= 1;
        result.map_err(|mut error| {
            error.path.0.insert(0, step());
            error
        })
    }
}

/// The error that something is wrong right here.
fn wrong(reason: Reason) -> Error {
    reason.at(&Path::default())
}

/// The key of a map, as JSON writes it.
pub(crate) fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(flag) => flag.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
        MapKey::String(text) => text.clone(),
    }
}

/// The name of a value, or its number where this version of the enum has no name for it.
fn enum_name(descriptor: &EnumDescriptor, number: i32) -> Json {
    if descriptor.full_name() == "google.protobuf.NullValue" {
        return Json::Null;
    }
    descriptor.get_value(number).map_or(Json::from(number), |value| Json::from(value.name()))
}

/// A float; one without a fraction is printed as an integer if it is small enough to be exact.
fn float(number: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let negative_zero = number == 0.0 && number.is_sign_negative();
    if number.fract() == 0.0 && number.abs() < EXACT && !negative_zero {
        return Json::from(number as i64);
    }
    match Number::from_f64(number) {
        Some(number) => Json::Number(number),
        None if number.is_nan() => Json::from("NaN"),
        None if number > 0.0 => Json::from("Infinity"),
        None => Json::from("-Infinity"),
    }
}

/// A float of 32 bits in the fewest digits that give it back: 0.1, not 0.10000000149011612.
fn single_precision(number: f32) -> Json {
    float(number.to_string().parse().unwrap_or(f64::from(number)))
}
