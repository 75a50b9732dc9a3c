//! `Secret`: certificates and keys, which nothing here ever prints.

use std::fmt;

use serde::Deserialize;

use crate::kind::Kind;
use crate::resource::{Resource, Spec};

/// A core Secret.
pub type Secret = Resource<SecretSpec>;

/// `type` of a Secret that holds a certificate and its key.
pub const TYPE_TLS: &str = "kubernetes.io/tls";

/// The fields of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretSpec {
    /// `type`, default `Opaque`.
    pub secret_type: Option<Box<str>>,
    /// `data` and `stringData` together (the latter wins), decoded and sorted by key.
    entries: Box<[(Box<str>, SecretValue)]>,
}

impl SecretSpec {
    /// The content of a key, for example `tls.crt`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let at = self.entries.binary_search_by(|(candidate, _)| (**candidate).cmp(key)).ok()?;
        self.entries.get(at).map(|(_, value)| &*value.0)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(key, _)| &**key)
    }

    /// A Secret of a type with these entries, for sources that do not read text.
    #[must_use]
    pub fn new(secret_type: Option<&str>, entries: impl IntoIterator<Item = (Box<str>, Box<[u8]>)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (key, SecretValue(value))).collect();
        entries.sort_by(|(one, _), (two, _)| one.cmp(two));
        entries.dedup_by(|(later, _), (kept, _)| later == kept);
        Self { secret_type: secret_type.map(Into::into), entries: entries.into() }
    }
}

impl Spec for SecretSpec {
    const KIND: Kind = Kind::Secret;
    const FIELD: &'static str = "";
}

impl<'de> Deserialize<'de> for SecretSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenSecret::deserialize(deserializer)?;
        let plain = written.string_data.iter().map(|(key, value)| (Box::from(key), Box::from(value.as_bytes())));
        let encoded =
            written.data.iter().filter_map(|(key, value)| Some((Box::from(key), crate::base64::decode(value)?)));
        // Of equal keys the first counts.
        Ok(Self::new(written.secret_type.as_deref(), plain.chain(encoded)))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenSecret {
    #[serde(rename = "type")]
    secret_type: Option<Box<str>>,
    data: crate::meta::Labels,
    string_data: crate::meta::Labels,
}

/// Bytes that are not printed: `Debug` shows their number only, and there is no `Display` and no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
struct SecretValue(Box<[u8]>);

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests;
