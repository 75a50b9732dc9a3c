//! The messages of the discovery service, only as much of them as a server needs.
//!
//! [`mod@read`] takes requests in: own slim messages ([`message`]), whose other fields are skipped, so that the 61 KB of a node's
//! extensions are never parsed, and whose text is shared with the bytes that came ([`Text`]). [`mod@write`] puts responses together
//! from a head per stream and the shared bytes of the resources.
//! Field numbers: `envoy/service/discovery/v3/discovery.proto`, `envoy/config/core/v3/base.proto`.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytestring::ByteString;

use crate::resource::{TypeUrl, Version};
use crate::snapshot::Item;

pub(crate) mod message;
pub(crate) mod read;
pub(crate) mod write;

#[cfg(test)]
mod tests;

/// The two ways of saying what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variant {
    /// Incremental xDS: what changed, resource by resource.
    Delta,
    /// State of the world: a request names everything that is wanted, a response of clusters or listeners all of them.
    Sotw,
}

/// One of the streams of one client.
pub(crate) type StreamId = u32;

/// The one stream for all kinds. Streams for one kind have other numbers.
pub(crate) const AGGREGATED: StreamId = 0;

/// A response among all those to one client.
pub(crate) type Nonce = NonZeroU64;

/// Text in a request: a slice of the message, which was checked to be UTF-8. As long as one of them is there, so is all of the message
/// and the frame that it came in: what is kept beyond the request is a copy.
pub(crate) type Text = ByteString;

/// What a client says in one message, apart from who it is.
#[derive(Clone, Default)]
pub(crate) struct Request {
    /// The stream that it came in on.
    pub(crate) stream: StreamId,
    pub(crate) type_url: Text,
    pub(crate) subscribe: Vec<Text>,
    pub(crate) unsubscribe: Vec<Text>,
    /// What it holds from an earlier stream; a foreign version is none.
    pub(crate) initial_versions: Vec<(Text, Option<Version>)>,
    /// The response that this answers; empty if none.
    pub(crate) nonce: Text,
    /// Why it refuses that response; may hold secrets.
    pub(crate) error: Option<String>,
}

/// Without the words of a refusal, which may hold secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, type_url, subscribe, unsubscribe, initial_versions, nonce, error } = self;
        f.debug_struct("Request")
            .field("stream", stream)
            .field("type_url", type_url)
            .field("subscribe", subscribe)
            .field("unsubscribe", unsubscribe)
            .field("initial_versions", initial_versions)
            .field("nonce", nonce)
            .field("refuses", &error.is_some())
            .finish()
    }
}

/// The same of a SotW client.
#[derive(Clone, Default)]
pub(crate) struct WholeRequest {
    /// As in [`Request`].
    pub(crate) stream: StreamId,
    pub(crate) type_url: Text,
    /// What it wants from now on.
    pub(crate) names: Vec<Text>,
    /// What it accepted last, in the words of this server or of an earlier one; empty if nothing.
    pub(crate) version: Text,
    /// As in [`Request`].
    pub(crate) nonce: Text,
    /// As in [`Request`].
    pub(crate) error: Option<String>,
}

/// What a client is told in one message.
#[derive(Clone)]
pub(crate) struct Response {
    /// The stream that it goes out on.
    pub(crate) stream: StreamId,
    pub(crate) type_url: TypeUrl,
    pub(crate) nonce: Nonce,
    /// What is new, shared with other clients that are sent the same.
    pub(crate) puts: Arc<[Arc<Item>]>,
    pub(crate) removed: Vec<Arc<str>>,
    pub(crate) manner: Manner,
    /// The client understands times to live.
    pub(crate) with_ttl: bool,
    /// Stands for all that a delta client has of this kind from now on.
    pub(crate) system_version: u64,
    /// How a SotW client is told.
    pub(crate) whole: Option<Whole>,
}

/// What a response says of its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    /// These are the resources now.
    #[default]
    News,
    /// What is removed never was: said as an error too, for clients that tell absence from removal by it (gRFC A88).
    Denial,
    /// What is removed never was, and a request waits for it: Envoy asks for the virtual host of a host name that it has none for (on-demand VHDS),
    /// and goes on when it gets a resource without a message, with that name as its alias.
    Unresolved,
    /// The resources are unchanged, and live on for as long again.
    Heartbeat,
}

/// What a SotW response says beyond [`Response`].
#[derive(Clone)]
pub(crate) struct Whole {
    /// Stands for all that the client has of this kind from now on.
    pub(crate) version: u64,
    /// All of a kind whose responses are complete; none where a response holds only what is new.
    pub(crate) all: Option<Vec<Arc<Item>>>,
}

impl Response {
    /// The resources that stand in it.
    pub(crate) fn resources(&self) -> &[Arc<Item>] {
        self.whole.as_ref().and_then(|whole| whole.all.as_deref()).unwrap_or(&self.puts)
    }
}
