//! JSON of any message of Envoy's API, made up by its descriptor: everything that protobuf's JSON mapping allows, in every spelling.

use arbitrary::{Result, Unstructured};
use prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax};
use serde_json::{Map, Value, json};

type U<'a, 'b> = &'a mut Unstructured<'b>;

/// Messages deeper than this are empty.
const MOST_DEPTH: usize = 7;
/// Fields of one message, items of one list.
const MOST_FIELDS: usize = 6;
const MOST_ITEMS: usize = 3;

const OWN_FORMS: &[&str] = &["Any", "Duration", "Timestamp", "FieldMask", "Struct", "Value", "ListValue"];
const WRAPPERS: &[&str] = &[
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "StringValue",
    "UInt32Value",
    "UInt64Value",
];

const TEXTS: &[&str] = &[
    "",
    "a",
    "a.example",
    "x-header",
    "*",
    "/a/b?c=d",
    "\u{e9}\u{1f600}",
    "\"\\\n\t\u{1}\u{7f}",
    "null",
    "true",
    "1.5",
    "%REQ(:PATH)%",
];
const KEYS: &[&str] = &["a", "b", "envoy.filters.http.cors", "", "@type", "z\u{e9}", "A b"];
const BYTES: &[&str] = &["", "AA==", "AA", "/+8=", "_-8", "aGVsbG8=", "AAECAwQFBgcICQ=="];
const DURATIONS: &[&str] = &[
    "0s",
    "1s",
    "-1s",
    "0.5s",
    "-0.000000001s",
    "1.000001s",
    "3600.250s",
    "315576000000s",
    "-315576000000s",
    "1.100000000s",
];
const TIMES: &[&str] = &[
    "1970-01-01T00:00:00Z",
    "2026-11-23T10:04:00.5Z",
    "2026-11-23T10:04:00.000001+02:00",
    "1969-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
];
const MASKS: &[&str] = &["", "a", "aField,b.cD", "nodeId.x"];
const INTEGERS_32: &[i32] = &[0, 1, -1, 7, 100, i32::MAX, i32::MIN];
const INTEGERS_64: &[i64] = &[0, 1, -1, 42, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
const FLOATS: &[f64] = &[0.0, 1.0, -1.5, 0.1, 0.25, 1e-20, 16_777_217.0, 123_456_789.125, 3.4e38, -2.5e-38];
const DOUBLES: &[f64] = &[f64::MAX, f64::MIN_POSITIVE, 9_007_199_254_740_993.0, 1e21, 0.1 + 0.2];

/// Makes up messages of a pool.
pub struct Maker {
    pool: DescriptorPool,
    names: Vec<String>,
    /// Names of those with an `Any` in them: half of what an `Any` holds is one of these.
    holders: Vec<String>,
}

impl Maker {
    /// Of all messages of Envoy's API. Entries of maps are none: they stand in no JSON by themselves.
    #[must_use]
    pub fn envoy() -> Self {
        let pool = DescriptorPool::decode(protojson::DESCRIPTORS).unwrap_or_default();
        let mut messages: Vec<_> = pool.all_messages().filter(|message| !message.is_map_entry()).collect();
        messages.sort_unstable_by(|one, other| one.full_name().cmp(other.full_name()));
        let names = messages.iter().map(|message| message.full_name().to_owned()).collect();
        messages.retain(|message| message.fields().any(|field| is_any(&field.kind())));
        let holders = messages.iter().map(|message| message.full_name().to_owned()).collect();
        Self { pool, names, holders }
    }

    /// Full names of the messages, sorted.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The JSON of a message of this full name.
    ///
    /// # Errors
    /// None: where the choices end, so does the message.
    pub fn json(&self, u: U<'_, '_>, name: &str) -> Result<Value> {
        let Some(descriptor) = self.pool.get_message_by_name(name) else { return Ok(Value::Null) };
        self.message(u, &descriptor, 0)
    }

    fn message(&self, u: U<'_, '_>, descriptor: &MessageDescriptor, depth: usize) -> Result<Value> {
        let Some(known) = descriptor.full_name().strip_prefix("google.protobuf.") else {
            return self.fields(u, descriptor, depth).map(Value::Object);
        };
        Ok(match known {
            "Any" => Value::Object(self.any(u, depth)?),
            "Duration" => (*u.choose(DURATIONS)?).into(),
            "Timestamp" => (*u.choose(TIMES)?).into(),
            "FieldMask" => (*u.choose(MASKS)?).into(),
            "Value" => value(u, depth)?,
            "ListValue" => Value::Array(values(u, depth)?),
            "Struct" => Value::Object(structure(u, depth)?),
            wrapper if WRAPPERS.contains(&wrapper) => match descriptor.get_field(1) {
                Some(field) => scalar(u, &field.kind())?,
                None => json!({}),
            },
            _ => Value::Object(self.fields(u, descriptor, depth)?),
        })
    }

    fn any(&self, u: U<'_, '_>, depth: usize) -> Result<Map<String, Value>> {
        let names = if u.arbitrary()? { &self.holders } else { &self.names };
        let name = u.choose(names)?;
        let Some(descriptor) = self.pool.get_message_by_name(name).filter(|_| depth < MOST_DEPTH && !u.is_empty())
        else {
            return Ok(Map::new());
        };
        let prefix = if u.ratio(1_u8, 8_u8)? { "types.example/" } else { "type.googleapis.com/" };
        let mut members = Map::from_iter([("@type".to_owned(), Value::from(format!("{prefix}{name}")))]);
        match self.message(u, &descriptor, depth + 1)? {
            Value::Object(fields) if !has_own_form(&descriptor) => members.extend(fields),
            value => drop(members.insert("value".to_owned(), value)),
        }
        Ok(members)
    }

    fn fields(&self, u: U<'_, '_>, descriptor: &MessageDescriptor, depth: usize) -> Result<Map<String, Value>> {
        let mut members = Map::new();
        let fields: Vec<FieldDescriptor> = descriptor.fields().collect();
        let mut chosen: Vec<&FieldDescriptor> =
            fields.iter().filter(|field| field.cardinality() == Cardinality::Required).collect();
        if depth < MOST_DEPTH && !fields.is_empty() {
            for _ in 0..u.int_in_range(0..=MOST_FIELDS)? {
                if u.is_empty() {
                    break;
                }
                chosen.push(u.choose(&fields)?);
            }
        }
        let mut taken = Vec::new();
        for field in chosen {
            let oneof = field.containing_oneof().map(|oneof| oneof.full_name().to_owned());
            let alone = oneof.unwrap_or_else(|| field.full_name().to_owned());
            if taken.contains(&alone) {
                continue;
            }
            taken.push(alone);
            let name = if u.arbitrary()? { field.name() } else { field.json_name() };
            members.insert(name.to_owned(), self.field(u, field, depth)?);
        }
        Ok(members)
    }

    fn field(&self, u: U<'_, '_>, field: &FieldDescriptor, depth: usize) -> Result<Value> {
        let kind = field.kind();
        let required = field.cardinality() == Cardinality::Required;
        if !required && u.ratio(1_u8, 32_u8)? {
            return Ok(Value::Null);
        }
        match &kind {
            Kind::Message(entry) if field.is_map() => {
                let (key, of) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
                let mut members = Map::new();
                for _ in 0..u.int_in_range(0..=MOST_ITEMS)? {
                    members.insert(self::key(u, &key)?, self.single(u, &of, depth)?);
                }
                Ok(Value::Object(members))
            }
            kind if field.is_list() => {
                let count = u.int_in_range(0..=MOST_ITEMS)?;
                (0..count).map(|_| self.single(u, kind, depth)).collect::<Result<_>>().map(Value::Array)
            }
            kind => self.single(u, kind, depth),
        }
    }

    fn single(&self, u: U<'_, '_>, kind: &Kind, depth: usize) -> Result<Value> {
        match kind {
            Kind::Message(descriptor) => self.message(u, descriptor, depth + 1),
            scalar => self::scalar(u, scalar),
        }
    }
}

fn is_any(kind: &Kind) -> bool {
    kind.as_message().is_some_and(|message| message.full_name() == "google.protobuf.Any")
}

/// Whether a type stands under `value` in an `Any`.
fn has_own_form(descriptor: &MessageDescriptor) -> bool {
    let own = |name: &str| OWN_FORMS.contains(&name) || WRAPPERS.contains(&name);
    descriptor.full_name().strip_prefix("google.protobuf.").is_some_and(own)
}

fn value(u: U<'_, '_>, depth: usize) -> Result<Value> {
    let most = if depth < MOST_DEPTH && !u.is_empty() { 5 } else { 3 };
    Ok(match u.int_in_range(0..=most)? {
        0 => Value::Null,
        1 => u.arbitrary::<bool>()?.into(),
        2 => (*u.choose(FLOATS)?).into(),
        3 => (*u.choose(TEXTS)?).into(),
        4 => Value::Array(values(u, depth)?),
        _ => Value::Object(structure(u, depth)?),
    })
}

fn values(u: U<'_, '_>, depth: usize) -> Result<Vec<Value>> {
    (0..u.int_in_range(0..=MOST_ITEMS)?).map(|_| value(u, depth + 1)).collect()
}

fn structure(u: U<'_, '_>, depth: usize) -> Result<Map<String, Value>> {
    (0..u.int_in_range(0..=MOST_ITEMS)?).map(|_| Ok(((*u.choose(KEYS)?).to_owned(), value(u, depth + 1)?))).collect()
}

fn key(u: U<'_, '_>, kind: &Kind) -> Result<String> {
    Ok(match kind {
        Kind::String => (*u.choose(KEYS)?).to_owned(),
        Kind::Bool => u.arbitrary::<bool>()?.to_string(),
        integer => match scalar(u, integer)? {
            Value::String(text) => text,
            number => number.to_string(),
        },
    })
}

fn scalar(u: U<'_, '_>, kind: &Kind) -> Result<Value> {
    Ok(match kind {
        Kind::Bool => u.arbitrary::<bool>()?.into(),
        Kind::String => (*u.choose(TEXTS)?).into(),
        Kind::Bytes => (*u.choose(BYTES)?).into(),
        Kind::Enum(descriptor) => enumeration(u, descriptor)?,
        Kind::Float => float(u, FLOATS)?,
        Kind::Double => {
            let plain = if u.arbitrary()? { DOUBLES } else { FLOATS };
            float(u, plain)?
        }
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            let number = if u.arbitrary()? { *u.choose(INTEGERS_32)? } else { u.arbitrary()? };
            spelled(u, number.into())?
        }
        Kind::Uint32 | Kind::Fixed32 => {
            let number = if u.arbitrary()? { *u.choose(INTEGERS_32)? } else { u.arbitrary()? };
            spelled(u, number.cast_unsigned().into())?
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            let number = if u.arbitrary()? { *u.choose(INTEGERS_64)? } else { u.arbitrary()? };
            spelled(u, number.into())?
        }
        Kind::Uint64 | Kind::Fixed64 => {
            let number = if u.arbitrary()? { *u.choose(INTEGERS_64)? } else { u.arbitrary()? };
            spelled(u, number.cast_unsigned().into())?
        }
        Kind::Message(_) => Value::Null,
    })
}

/// An integer as a number or as text.
fn spelled(u: U<'_, '_>, number: i128) -> Result<Value> {
    let plain = i64::try_from(number).map(Value::from).or_else(|_| u64::try_from(number).map(Value::from));
    Ok(if u.arbitrary()? { number.to_string().into() } else { plain.unwrap_or_default() })
}

fn float(u: U<'_, '_>, plain: &[f64]) -> Result<Value> {
    Ok(match u.int_in_range(0..=9)? {
        0 => "NaN".into(),
        1 => "Infinity".into(),
        2 => "-Infinity".into(),
        3 => u.choose(plain)?.to_string().into(),
        4 => u.arbitrary::<i16>()?.into(),
        _ => (*u.choose(plain)?).into(),
    })
}

/// A value by its name or its number, and now and then a number that has no name.
fn enumeration(u: U<'_, '_>, descriptor: &EnumDescriptor) -> Result<Value> {
    let values: Vec<_> = descriptor.values().collect();
    let value = u.choose(&values)?;
    // JSON has one null.
    let is_null = descriptor.full_name() == "google.protobuf.NullValue";
    let is_open = descriptor.parent_file().syntax() == Syntax::Proto3 && !is_null;
    Ok(match u.int_in_range(0..=7)? {
        0 if is_open => 7_777.into(),
        1..=3 => value.number().into(),
        _ => value.name().into(),
    })
}
