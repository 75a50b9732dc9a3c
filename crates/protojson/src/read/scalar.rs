//! JSON value → scalar, as protobuf's JSON mapping has it.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use prost_reflect::{EnumDescriptor, Kind, MapKey, Value};
use serde_json::{Number, Value as Json};

use crate::error::Reason;
use crate::nearest;

/// With padding or without, as the mapping asks of readers.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
/// Longest piece of a wrong value that an error shows.
const SHOWN: usize = 40;

/// The value of a scalar kind.
pub(super) fn value(kind: &Kind, json: &Json) -> Result<Value, Reason> {
    let wrong = |what: &str| expected(what, json);
    Ok(match kind {
        Kind::Bool => Value::Bool(json.as_bool().ok_or_else(|| wrong("true or false"))?),
        Kind::String => match json {
            Json::String(text) => Value::String(text.clone()),
            Json::Number(_) | Json::Bool(_) => return Err(wrong("a string (in quotes)")),
            _ => return Err(wrong("a string")),
        },
        Kind::Bytes => Value::Bytes(json.as_str().and_then(bytes).ok_or_else(|| wrong("bytes in base64"))?),
        Kind::Enum(descriptor) => Value::EnumNumber(enum_number(descriptor, json)?),
        Kind::Double => Value::F64(float(json).ok_or_else(|| wrong("a number"))?),
        Kind::Float => Value::F32(single(json).ok_or_else(|| wrong("a number of 32 bits"))?),
        Kind::Message(_) => return Err(wrong("an object")),
        integer => self::integer(integer, json)?,
    })
}

/// The key of a map, which JSON writes as a string.
pub(super) fn key(kind: &Kind, text: &str) -> Result<MapKey, Reason> {
    let json = Json::String(text.to_owned());
    let value = match kind {
        Kind::String => Value::String(text.to_owned()),
        Kind::Bool => Value::Bool(text.parse().map_err(|_| expected("true or false", &json))?),
        integer => self::integer(integer, &json)?,
    };
    value.into_map_key().ok_or_else(|| expected("a key", &json))
}

/// The reason "expected this, found that", with the wrong value shortened.
pub(super) fn expected(what: &str, json: &Json) -> Reason {
    let found = match json {
        Json::Null => "null".to_owned(),
        Json::Object(_) => "an object".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::String(text) if text.chars().nth(SHOWN).is_some() => {
            format!("{:?}…", text.chars().take(SHOWN).collect::<String>())
        }
        other => other.to_string(),
    };
    Reason::Expected { expected: what.to_owned(), found }
}

/// Standard or URL-safe base64.
pub(super) fn bytes(text: &str) -> Option<Bytes> {
    let alphabet = if text.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    GeneralPurpose::new(&alphabet, LENIENT).decode(text).ok().map(Bytes::from)
}

fn integer(kind: &Kind, json: &Json) -> Result<Value, Reason> {
    let (what, value) = match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => (
            "an integer from -2147483648 to 2147483647",
            whole(json).and_then(|number| number.try_into().ok()).map(Value::I32),
        ),
        Kind::Uint32 | Kind::Fixed32 => {
            ("an integer from 0 to 4294967295", whole(json).and_then(|number| number.try_into().ok()).map(Value::U32))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            ("an integer of 64 bits", whole(json).and_then(|number| number.try_into().ok()).map(Value::I64))
        }
        _ => (
            "an integer of 64 bits, not negative",
            whole(json).and_then(|number| number.try_into().ok()).map(Value::U64),
        ),
    };
    value.ok_or_else(|| expected(what, json))
}

/// A whole number, which may be written as a string or as a float without a fraction.
fn whole(json: &Json) -> Option<i128> {
    match json {
        Json::Number(number) => whole_number(number),
        Json::String(text) => text.parse().ok().or_else(|| whole_float(plain_float(text)?)),
        _ => None,
    }
}

fn whole_number(number: &Number) -> Option<i128> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    integer.or_else(|| whole_float(number.as_f64()?))
}

fn whole_float(float: f64) -> Option<i128> {
    // Every float within this bound is exact as i128; 64-bit kinds are narrower.
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

fn float(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            plain => plain_float(plain),
        },
        _ => None,
    }
}

/// A float in digits. Rust also reads "inf" and "nan", which the mapping does not know, and overflows to infinity.
fn plain_float(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse::<f64>().ok().filter(|float| digits && float.is_finite())
}

/// A float that 32 bits can hold.
fn single(json: &Json) -> Option<f32> {
    let double = float(json)?;
    let single = double as f32;
    (single.is_finite() || !double.is_finite()).then_some(single)
}

fn enum_number(descriptor: &EnumDescriptor, json: &Json) -> Result<i32, Reason> {
    match json {
        Json::String(name) => match descriptor.get_value_by_name(name) {
            Some(value) => Ok(value.number()),
            None => Err(unknown_enum(descriptor, name)),
        },
        Json::Null if descriptor.full_name() == "google.protobuf.NullValue" => Ok(0),
        Json::Number(number) => whole_number(number)
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| expected("a value of the enum", json)),
        other => Err(expected(&format!("a value of {}", descriptor.full_name()), other)),
    }
}

fn unknown_enum(descriptor: &EnumDescriptor, name: &str) -> Reason {
    let values: Vec<_> = descriptor.values().collect();
    Reason::UnknownEnum {
        enumeration: descriptor.full_name().to_owned(),
        value: name.to_owned(),
        nearest: nearest::of(name, values.iter().map(|value| value.name())),
    }
}
