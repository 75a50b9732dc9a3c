//! The messages that have a JSON form of their own.

use prost_reflect::{DynamicMessage, MessageDescriptor};

/// Which of protobuf's well-known types a message is. (`Empty` is `{}`, as any message without fields.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Any,
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    /// `UInt32Value` and its kin: one field, number 1.
    Wrapper,
}

impl WellKnown {
    pub(crate) fn of(message: &MessageDescriptor) -> Option<Self> {
        Some(match message.full_name().strip_prefix("google.protobuf.")? {
            "Any" => Self::Any,
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "FieldMask" => Self::FieldMask,
            "Struct" => Self::Struct,
            "Value" => Self::Value,
            "ListValue" => Self::ListValue,
            "BoolValue" | "BytesValue" | "DoubleValue" | "FloatValue" | "Int32Value" | "Int64Value" | "StringValue"
            | "UInt32Value" | "UInt64Value" => Self::Wrapper,
            _ => return None,
        })
    }
}

/// `seconds` and `nanos` of a `Duration` or a `Timestamp`.
pub(crate) fn seconds_and_nanos(message: &DynamicMessage) -> (i64, i32) {
    let seconds = message.get_field_by_number(1).and_then(|value| value.as_i64()).unwrap_or_default();
    let nanos = message.get_field_by_number(2).and_then(|value| value.as_i32()).unwrap_or_default();
    (seconds, nanos)
}

/// Greatest number of seconds in a `Duration`, either way: 10,000 years (google/protobuf/duration.proto).
pub(crate) const DURATION_MAX: i64 = 315_576_000_000;
/// First and last second of a `Timestamp`: the years 1 to 9999 (google/protobuf/timestamp.proto).
pub(crate) const TIMESTAMP_RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
