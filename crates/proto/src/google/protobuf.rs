//! The well-known types. [`Any`] is our own, so that its bytes are shared; the others are prost-types'.

use bytes::Bytes;
use prost::{DecodeError, Name};
pub use prost_types::value::Kind;
pub use prost_types::{Duration, FieldMask, ListValue, NullValue, Struct, Timestamp, Value};

/// A message of any type: the URL that names its type, and its encoded bytes.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    /// `type.googleapis.com/` and the full name of the message.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message. Decoding from [`Bytes`] shares them instead of copying.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

impl Any {
    /// Encodes a message. Equal messages give equal bytes.
    #[must_use]
    pub fn pack<T: Name>(message: &T) -> Self {
        Self { type_url: T::type_url(), value: message.encode_to_vec().into() }
    }

    /// Decodes the message.
    ///
    /// # Errors
    /// If the type URL names another message than `T`, or the bytes are not one.
    pub fn unpack<T: Name + Default>(&self) -> Result<T, UnpackError> {
        if !self.is::<T>() {
            return Err(UnpackError::OtherType { wanted: T::full_name(), found: self.type_url.clone() });
        }
        Ok(T::decode(self.value.clone())?)
    }

    /// True if the type URL names `T`. Only what follows the last slash counts.
    #[must_use]
    pub fn is<T: Name>(&self) -> bool {
        crate::full_name(&self.type_url) == T::full_name()
    }
}

/// Why an [`Any`] is not the wanted message.
#[derive(Debug, Clone, PartialEq)]
pub enum UnpackError {
    /// It holds a message of another type.
    OtherType {
        /// Full name of the wanted message.
        wanted: String,
        /// Type URL of the one that is there.
        found: String,
    },
    /// Its bytes do not decode.
    Decode(DecodeError),
}

impl From<DecodeError> for UnpackError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl std::fmt::Display for UnpackError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherType { wanted, found } => write!(out, "expected {wanted}, found {found}"),
            Self::Decode(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for UnpackError {}

impl Name for Any {
    const NAME: &'static str = "Any";
    const PACKAGE: &'static str = "google.protobuf";

    fn full_name() -> String {
        "google.protobuf.Any".into()
    }

    fn type_url() -> String {
        "type.googleapis.com/google.protobuf.Any".into()
    }
}
