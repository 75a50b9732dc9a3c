//! How large a document is, in each way in which an operation can make it larger.

use serde_json::Value;

use super::OperationError;

/// Values that a document may have after an operation: `copy` can double it.
pub(super) const MOST_VALUES: u64 = 200_000;

/// Bytes of texts and names of members that a document may have: far above the 4 MiB of a message that Envoy takes from us.
pub(super) const MOST_BYTES: u64 = 16 << 20;

/// The size of a document or of a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Maps, lists and plain values.
    pub(super) values: u64,
    /// Of texts and of names of members.
    pub(super) bytes: u64,
    /// Levels of maps and lists, and one for what is in the deepest.
    pub(super) depth: u64,
}

impl Size {
    /// Measures a document: its whole is looked at.
    pub(super) fn of(value: &Value) -> Self {
        let plain = |bytes: usize| Self { values: 1, bytes: bytes as u64, depth: 1 };
        let around = |size: Self, inner: Self| Self {
            values: size.values + inner.values,
            bytes: size.bytes + inner.bytes,
            depth: size.depth.max(inner.depth + 1),
        };
        match value {
            Value::Array(items) => items.iter().map(Self::of).fold(plain(0), around),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    let inner = Self::of(value);
                    Self { bytes: inner.bytes + name.len() as u64, ..inner }
                };
                members.iter().map(member).fold(plain(0), around)
            }
            Value::String(text) => plain(text.len()),
            _ => plain(1),
        }
    }

    /// Counts a part that is added so many times.
    ///
    /// # Errors
    /// [`OperationError::TooLarge`] if that is more than a document may have: it is known before anything is copied.
    pub(super) fn with(self, part: Self, times: u64) -> Result<(), OperationError> {
        let values = self.values.saturating_add(part.values.saturating_mul(times));
        let bytes = self.bytes.saturating_add(part.bytes.saturating_mul(times));
        if values > MOST_VALUES || bytes > MOST_BYTES { Err(OperationError::TooLarge) } else { Ok(()) }
    }
}
