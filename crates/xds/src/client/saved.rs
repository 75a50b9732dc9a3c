//! The last good resources as bytes, for a start without any server.
//!
//! The format: `XDSC`, a format number and the 128-bit XXH3 of the rest (both big-endian), then one protobuf message. Whoever keeps
//! the bytes replaces the file at once (write beside, flush, rename) and lets nobody else read it.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::cache::{Cache, Held};
use crate::resource::{Need, TypeUrl};
pub use crate::saved::SavedError;
use crate::saved::{Format, SUM, sum};

const FORMAT: Format = Format { magic: *b"XDSC", number: 1 };

/// What a client held. From [`Self::decode`] to [`super::Client::restore`].
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct Saved {
    #[prost(message, repeated, tag = "1")]
    pub(super) kinds: Vec<SavedKind>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedKind {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    /// State of the world: the version of all that is here; empty if it is none.
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) source: String,
    #[prost(string, repeated, tag = "4")]
    pub(super) patterns: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) resources: Vec<SavedResource>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedResource {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) source: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) body: Bytes,
}

impl Saved {
    /// Reads what [`super::Client::save`] wrote.
    ///
    /// # Errors
    /// The bytes are something else, of another format, or damaged.
    pub fn decode(bytes: &Bytes) -> Result<Self, SavedError> {
        let rest = FORMAT.rest(bytes)?;
        let (own, content) = rest.split_first_chunk::<SUM>().ok_or(SavedError::Damaged)?;
        if *own != sum(content) {
            return Err(SavedError::Damaged);
        }
        <Self as Message>::decode(rest.slice_ref(content)).map_err(|_| SavedError::Damaged)
    }

    /// What is held, but for resources with a time to live, which may be over by the time that this is read.
    pub(super) fn of(cache: &Cache, secrets: bool) -> Self {
        let wanted = cache.kinds.iter().filter(|(type_url, _)| secrets || **type_url != TypeUrl::Secret);
        let kinds = wanted.map(|(type_url, kind)| {
            let lives = |name: &Arc<str>| cache.lifetimes.contains(&Need::new(type_url.clone(), Arc::clone(name)));
            let held = kind.entries.iter().filter_map(|(name, entry)| Some((name, entry.held()?)));
            let resources: Vec<SavedResource> =
                held.filter(|(name, _)| !lives(name)).map(|(name, held)| SavedResource::of(name, held)).collect();
            let all = resources.len() == kind.entries.values().filter(|entry| entry.held().is_some()).count();
            let version = if all && !kind.lossy { kind.version.clone() } else { String::new() };
            let patterns = kind.patterns.iter().map(ToString::to_string).collect();
            let (type_url, source) = (type_url.as_str().to_owned(), kind.source.to_string());
            SavedKind { type_url, version, source, patterns, resources }
        });
        Self { kinds: kinds.collect() }
    }

    /// The bytes; the same for the same content.
    pub(super) fn encode_all(&self) -> Bytes {
        let content = self.encode_to_vec();
        [&FORMAT.head()[..], &sum(&content), &content].concat().into()
    }
}

/// Bodies can hold private keys.
impl std::fmt::Debug for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let resources: usize = self.kinds.iter().map(|kind| kind.resources.len()).sum();
        write!(f, "Saved({resources} resources)")
    }
}

impl SavedResource {
    fn of(name: &Arc<str>, held: &Held) -> Self {
        let Held { version, source, body } = held;
        Self { name: name.to_string(), version: version.to_string(), source: source.to_string(), body: body.clone() }
    }

    pub(super) fn held(self) -> (Arc<str>, Held) {
        (self.name.into(), Held { version: self.version.into(), source: self.source.into(), body: self.body })
    }
}
