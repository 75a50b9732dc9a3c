//! JSON value → well-known type.

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use prost_types::{Duration, FieldMask, ListValue, Struct, Timestamp, Value, value};
use proto::google::protobuf::Any;
use serde_json::{Map, Value as Json};

use super::{Here, Reader, scalar};
use crate::any;
use crate::error::{Error, Reason};
use crate::well_known::{DURATION_MAX, TIMESTAMP_RANGE, WellKnown};

/// What is not there.
const NULL: Json = Json::Null;

impl<'r> Reader<'r> {
    pub(super) fn well_known(
        &mut self,
        kind: WellKnown,
        descriptor: &MessageDescriptor,
        json: &'r Json,
    ) -> Result<DynamicMessage, Error> {
        match kind {
            WellKnown::Any => {
                let content = self.any(descriptor, json)?;
                Ok(any::closed(self.pool, descriptor, content))
            }
            WellKnown::Duration => {
                let value = json.as_str().and_then(duration);
                let value = value.ok_or_else(|| self.expected("seconds with an s, for example \"0.25s\"", json))?;
                Ok(seconds_and_nanos(descriptor, value.seconds, value.nanos))
            }
            WellKnown::Timestamp => {
                let value = json.as_str().and_then(timestamp);
                let value = value.ok_or_else(|| self.expected("a time as in \"2026-01-31T12:00:00Z\"", json))?;
                Ok(seconds_and_nanos(descriptor, value.seconds, value.nanos))
            }
            WellKnown::FieldMask => {
                // An underscore would come back as a capital letter.
                let paths = json.as_str().filter(|paths| !paths.contains('_'));
                let paths = paths.ok_or_else(|| self.expected("camelCase names with commas between", json))?;
                let paths = paths.split(',').filter(|path| !path.is_empty()).map(snake_case).collect();
                self.typed(descriptor, &FieldMask { paths })
            }
            WellKnown::Struct => {
                let value = self.structure(json)?;
                self.typed(descriptor, &value)
            }
            WellKnown::ListValue => {
                let value = self.values(json)?;
                self.typed(descriptor, &value)
            }
            WellKnown::Value => {
                let value = self.value(json)?;
                self.typed(descriptor, &value)
            }
            WellKnown::Wrapper => self.wrapper(descriptor, json),
        }
    }

    /// A typed message as a dynamic one of the same type.
    fn typed<T: Message>(&self, descriptor: &MessageDescriptor, message: &T) -> Result<DynamicMessage, Error> {
        // What was just encoded decodes again, unless it is nested deeper than decoders go.
        DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice())
            .map_err(|_| self.wrong(Reason::TooDeep))
    }

    fn wrapper(&mut self, descriptor: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, Error> {
        let mut message = DynamicMessage::new(descriptor.clone());
        if let Some(field) = descriptor.get_field(1) {
            let value = scalar::value(&field.kind(), json).map_err(|reason| self.wrong(reason))?;
            message.try_set_field(&field, value).map_err(|error| self.wrong(Reason::Bytes(error.to_string())))?;
        }
        Ok(message)
    }

    /// The message that an `Any` holds, or the `Any` itself: see [`any`].
    pub(super) fn any(&mut self, descriptor: &MessageDescriptor, json: &'r Json) -> Result<DynamicMessage, Error> {
        let members = self.object(json)?;
        if members.is_empty() {
            return Ok(DynamicMessage::new(descriptor.clone()));
        }
        let Some(Json::String(type_url)) = members.get("@type") else { return Err(self.wrong(Reason::NoType)) };
        // Envoy looks for the name behind the last slash.
        if !type_url.contains('/') {
            return self.within(Here::Key("@type"), |this| Err(this.wrong(Reason::NoSlash(type_url.clone()))));
        }
        match self.pool.known(type_url) {
            Ok(known) => {
                let content = self.any_message(&known, members)?;
                Ok(any::read(self.pool, descriptor, type_url, content))
            }
            Err(reason) => match unknown_bytes(members) {
                Some(value) => self.typed(descriptor, &Any { type_url: type_url.clone(), value }),
                None => self.within(Here::Key("@type"), |this| Err(this.wrong(reason))),
            },
        }
    }

    /// What stands beside `@type`: the fields, or for a type with a JSON form of its own that form under `value`.
    fn any_message(
        &mut self,
        descriptor: &MessageDescriptor,
        members: &'r Map<String, Json>,
    ) -> Result<DynamicMessage, Error> {
        let others = || members.iter().filter(|(name, _)| *name != "@type");
        if WellKnown::of(descriptor).is_none() {
            return self.fields(descriptor, others());
        }
        if let Some((stranger, _)) = others().find(|(name, _)| *name != "value") {
            let message = descriptor.full_name().to_owned();
            let reason = Reason::UnknownField { message, field: stranger.clone(), nearest: Some("value".into()) };
            return self.within(Here::Key(stranger), |this| Err(this.wrong(reason)));
        }
        self.within(Here::Key("value"), |this| this.message(descriptor, members.get("value").unwrap_or(&NULL)))
    }

    fn structure(&mut self, json: &'r Json) -> Result<Struct, Error> {
        let mut structure = Struct::default();
        for (name, json) in self.object(json)? {
            let value = self.within(Here::Key(name), |this| this.value(json))?;
            structure.fields.insert(name.clone(), value);
        }
        Ok(structure)
    }

    fn values(&mut self, json: &'r Json) -> Result<ListValue, Error> {
        let items = json.as_array().ok_or_else(|| self.expected("a list", json))?;
        let mut list = ListValue::default();
        for (index, item) in items.iter().enumerate() {
            list.values.push(self.within(Here::Index(index), |this| this.value(item))?);
        }
        Ok(list)
    }

    fn value(&mut self, json: &'r Json) -> Result<Value, Error> {
        let kind = match json {
            Json::Null => value::Kind::NullValue(0),
            Json::Bool(flag) => value::Kind::BoolValue(*flag),
            Json::Number(number) => value::Kind::NumberValue(number.as_f64().unwrap_or_default()),
            Json::String(text) => value::Kind::StringValue(text.clone()),
            Json::Array(_) => value::Kind::ListValue(self.values(json)?),
            Json::Object(_) => value::Kind::StructValue(self.structure(json)?),
        };
        Ok(Value { kind: Some(kind) })
    }
}

/// A `Duration` or a `Timestamp`.
fn seconds_and_nanos(descriptor: &MessageDescriptor, seconds: i64, nanos: i32) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    // A descriptor set of somebody's own may say otherwise what a time is: then it stays empty.
    let _ = message.try_set_field_by_number(1, prost_reflect::Value::I64(seconds));
    let _ = message.try_set_field_by_number(2, prost_reflect::Value::I32(nanos));
    message
}

/// The bytes of an `Any` of unknown type, in the form in which they are printed.
fn unknown_bytes(members: &Map<String, Json>) -> Option<Bytes> {
    if members.len() != 2 {
        return None;
    }
    scalar::bytes(members.get("value")?.as_str()?)
}

/// Seconds with up to nine digits behind the point and an `s`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.strip_suffix('s')?;
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|seconds| *seconds <= DURATION_MAX)?;
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration { seconds: sign * seconds, nanos: i32::try_from(sign).ok()? * nanos })
}

/// As in RFC 3339: date, time and zone, to the nanosecond. The parser alone would take a date without the rest.
fn timestamp(text: &str) -> Option<Timestamp> {
    let (_, time) = text.split_once('T')?;
    let time = match time.strip_suffix('Z') {
        Some(time) => time,
        None => {
            let (time, offset) = time.split_at_checked(time.len().checked_sub("+00:00".len())?)?;
            offset.starts_with(['+', '-']).then_some(time)?
        }
    };
    let digits = time.split_once('.').map_or("0", |(_, fraction)| fraction);
    if digits.len() > 9 {
        return None;
    }
    text.parse().ok().filter(|time: &Timestamp| TIMESTAMP_RANGE.contains(&time.seconds))
}

fn snake_case(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for char in path.chars() {
        if char.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(char.to_ascii_lowercase());
    }
    out
}
