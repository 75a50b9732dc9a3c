//! Secrets: certificates with their keys, and trust bundles. Their content is never printed and never serialised.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::name::SecretName;

/// Something delivered by secret discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// Unique in the fleet.
    pub name: SecretName,
    /// What it is. The translator has parsed it: a key fits its certificate.
    pub content: SecretContent,
}

/// What a secret holds, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretContent {
    /// A certificate chain, leaf first, with its private key.
    Certificate {
        /// The chain.
        chain: Hidden,
        /// The key.
        key: Hidden,
    },
    /// Certificates to believe.
    Bundle(Hidden),
}

/// Bytes that no log, error, dump or golden file shows: they print and serialise as their length.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub Arc<[u8]>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<hidden>")
    }
}
