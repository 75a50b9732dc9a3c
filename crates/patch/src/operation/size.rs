//! The size of a document, in each way in which an operation can make it larger.

use serde_json::Value;

use super::OperationError;

/// Values that a document may have after an operation: `copy` can double it.
pub(super) const MOST_VALUES: u64 = 200_000;

/// Bytes of texts and names of members that a document may have: far above the 4 MiB of a message that Envoy takes from us.
pub(super) const MOST_BYTES: u64 = 16 << 20;

/// Bytes of text that take as long as a value.
const TEXT: u64 = 64;

/// Bytes of a step of a path in addition to its name: quotes and brackets, or the number of an item.
const STEP: u64 = 4;

/// The size of a document or of a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Maps, lists and plain values.
    pub(super) values: u64,
    /// Bytes of texts and of names of members.
    pub(super) bytes: u64,
    /// Bytes of the paths of all values, one with the other.
    pub(super) paths: u64,
    /// Levels of maps and lists, and one for what is in the deepest.
    pub(super) depth: u64,
}

impl Size {
    /// Measures a document: its whole is looked at.
    pub(super) fn of(value: &Value) -> Self {
        let plain = |bytes: usize| Self { values: 1, bytes: bytes as u64, paths: 0, depth: 1 };
        let around = |size: Self, (name, inner): (u64, Self)| Self {
            values: size.values + inner.values,
            bytes: size.bytes + inner.bytes + name,
            paths: size.paths.saturating_add(inner.paths).saturating_add(inner.values.saturating_mul(name + STEP)),
            depth: size.depth.max(inner.depth + 1),
        };
        match value {
            Value::Array(items) => items.iter().map(|item| (0, Self::of(item))).fold(plain(0), around),
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.len() as u64, Self::of(value))).fold(plain(0), around)
            }
            Value::String(text) => plain(text.len()),
            _ => plain(1),
        }
    }

    /// Looks at a value that measuring, copying or comparing it takes.
    pub(super) fn work(self) -> u64 {
        self.values + self.bytes / TEXT
    }

    /// Counts a part that is added `times` times.
    ///
    /// # Errors
    /// [`OperationError::TooLarge`] if that is more than a document may have: it is known before anything is copied.
    pub(super) fn with(self, part: Self, times: u64) -> Result<(), OperationError> {
        let values = self.values.saturating_add(part.values.saturating_mul(times));
        let bytes = self.bytes.saturating_add(part.bytes.saturating_mul(times));
        if values > MOST_VALUES || bytes > MOST_BYTES { Err(OperationError::TooLarge) } else { Ok(()) }
    }
}
