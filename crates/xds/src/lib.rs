//! xDS: a server that knows Envoy, of both variants (delta, SotW), over one stream for everything or one for each kind, and a client.
//!
//! Resources are opaque: bytes with a name, a version and the names of what they need. [`mod@envoy`] has the rules that the code cites as
//! R1 to R17: what Envoy 1.40 does with what a server sends (measured). `order` holds the order of delivery as data.
//!
//! The protocol is sans-io: a `fleet` holds what a group of clients should have, a `session` what one of them has, and both are
//! driven by messages, changes and the time, all of them arguments. `server` is the thin shell of sockets around them;
//! its `gate` decides who may call, and as what.
//!
//! Reading order: [`mod@envoy`], the rules; `resource`, `order`, `names`, `timed`; `needs`, `inline` and `snapshot`; `event`, `redact`,
//! `facts` and `fleet`; `wire` and `empty`, then `session` and its parts (its opening has a map, a table of what is kept per name, and a
//! glossary) and `streams`; [`saved`], [`load`] and `server`. The other end of a stream is [`client`].

#[cfg(test)]
extern crate self as xds;

pub mod client;
mod empty;
pub mod envoy;
mod event;
mod facts;
mod fleet;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod inline;
mod listing;
pub mod load;
mod names;
mod needs;
mod order;
mod redact;
mod resource;
pub mod saved;
mod server;
mod session;
mod snapshot;
mod streams;
mod timed;
mod wire;

pub use event::{Event, Features, MOST_OBJECTIONS, Node, Objection};
pub use resource::{Change, FleetUpdate, Need, Resource, TypeUrl, Version, route_configuration_of};
pub use server::{
    Cleartext, ClientState, Fleets, FleetsOf, Gate, Identity, KnownTokens, Limits, ListenError, MOST_REFUSALS, Pem,
    Rate, Refusal, RefusalReason, Revoked, Server, Tls, TlsError, TokenError, VerifyToken, Verifying,
};
pub use session::STALLED;
