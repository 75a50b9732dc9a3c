//! Well-known type → JSON value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use prost_types::{Duration, FieldMask, ListValue, Struct, Timestamp, Value, value};
use proto::google::protobuf::Any;
use serde_json::{Map, Value as Json};

use super::{Printer, float, wrong};
use crate::encode;
use crate::error::{Error, Reason, Step};
use crate::well_known::{DURATION_MAX, TIMESTAMP_RANGE, WellKnown, seconds_and_nanos};

impl Printer<'_> {
    pub(super) fn well_known(&mut self, kind: WellKnown, message: &DynamicMessage) -> Result<Json, Error> {
        match kind {
            WellKnown::Any => {
                let any: Any = self.typed(message)?;
                self.any(&any)
            }
            WellKnown::Duration => self.duration(message),
            WellKnown::Timestamp => self.timestamp(message),
            WellKnown::FieldMask => {
                let mask: FieldMask = self.typed(message)?;
                Ok(Json::String(mask.paths.iter().map(|path| camel_case(path)).collect::<Vec<_>>().join(",")))
            }
            WellKnown::Struct => {
                let value: Struct = self.typed(message)?;
                self.structure(&value)
            }
            WellKnown::ListValue => {
                let value: ListValue = self.typed(message)?;
                self.values(&value)
            }
            WellKnown::Value => {
                let value: Value = self.typed(message)?;
                self.value(&value)
            }
            WellKnown::Wrapper => {
                let Some(field) = message.descriptor().get_field(1) else { return Ok(Json::Null) };
                self.single(&field.kind(), &message.get_field(&field))
            }
        }
    }

    /// A dynamic message as a typed one of the same type.
    fn typed<T: Message + Default>(&self, message: &DynamicMessage) -> Result<T, Error> {
        message.transcode_to().map_err(|error| wrong(Reason::Bytes(error.to_string())))
    }

    /// What an `Any` holds, `@type` first. Where its type is unknown, or it holds something that has no JSON, its bytes, in their
    /// canonical form: messages that are equal print the same, whoever encoded them.
    pub(super) fn any(&mut self, any: &Any) -> Result<Json, Error> {
        let mut members = Map::new();
        if any.type_url.is_empty() && any.value.is_empty() {
            return Ok(Json::Object(members));
        }
        members.insert("@type".to_owned(), Json::String(any.type_url.clone()));
        match self.content(any) {
            Ok(Some(content)) => members.extend(content),
            Err(error) if *error.reason == Reason::TooDeep => return Err(error),
            Ok(None) | Err(_) => {
                let bytes = encode::any(self.pool, any);
                drop(members.insert("value".to_owned(), Json::String(STANDARD.encode(bytes))));
            }
        }
        Ok(Json::Object(members))
    }

    /// What stands beside `@type`; nothing if the type is unknown.
    fn content(&mut self, any: &Any) -> Result<Option<Map<String, Json>>, Error> {
        let Some(descriptor) = self.pool.find(&any.type_url) else { return Ok(None) };
        let message = DynamicMessage::decode(descriptor, any.value.clone())
            .map_err(|error| wrong(Reason::Bytes(error.to_string())))?;
        let mut members = Map::new();
        if WellKnown::of(&message.descriptor()).is_some() {
            let value = self.within(|| Step::Key("value".into()), |this| this.message(&message))?;
            members.insert("value".to_owned(), value);
        } else {
            self.fields(&message, &mut members)?;
        }
        Ok(Some(members))
    }

    fn duration(&self, message: &DynamicMessage) -> Result<Json, Error> {
        let (seconds, nanos) = seconds_and_nanos(message);
        let one_sign = (seconds <= 0 && nanos <= 0) || (seconds >= 0 && nanos >= 0);
        if seconds.unsigned_abs() > DURATION_MAX.unsigned_abs() || nanos.unsigned_abs() > 999_999_999 || !one_sign {
            return Err(wrong(Reason::Range("this duration")));
        }
        Ok(Json::String(Duration { seconds, nanos }.to_string()))
    }

    fn timestamp(&self, message: &DynamicMessage) -> Result<Json, Error> {
        let (seconds, nanos) = seconds_and_nanos(message);
        if !TIMESTAMP_RANGE.contains(&seconds) || !(0..=999_999_999).contains(&nanos) {
            return Err(wrong(Reason::Range("this time")));
        }
        Ok(Json::String(Timestamp { seconds, nanos }.to_string()))
    }

    fn structure(&mut self, structure: &Struct) -> Result<Json, Error> {
        let mut members = Map::new();
        for (name, value) in &structure.fields {
            let json = self.within(|| Step::Key(name.clone()), |this| this.value(value))?;
            members.insert(name.clone(), json);
        }
        Ok(Json::Object(members))
    }

    fn values(&mut self, list: &ListValue) -> Result<Json, Error> {
        let mut items = Vec::with_capacity(list.values.len());
        for (index, value) in list.values.iter().enumerate() {
            items.push(self.within(|| Step::Index(index), |this| this.value(value))?);
        }
        Ok(Json::Array(items))
    }

    fn value(&mut self, value: &Value) -> Result<Json, Error> {
        Ok(match &value.kind {
            None | Some(value::Kind::NullValue(_)) => Json::Null,
            Some(value::Kind::BoolValue(flag)) => Json::Bool(*flag),
            Some(value::Kind::NumberValue(number)) => float(*number),
            Some(value::Kind::StringValue(text)) => Json::String(text.clone()),
            Some(value::Kind::ListValue(list)) => self.values(list)?,
            Some(value::Kind::StructValue(structure)) => self.structure(structure)?,
        })
    }
}

fn camel_case(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut upper = false;
    for char in path.chars() {
        if char == '_' {
            upper = true;
        } else {
            out.push(if upper { char.to_ascii_uppercase() } else { char });
            upper = false;
        }
    }
    out
}
