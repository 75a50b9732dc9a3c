//! Who may call, and as what. Every call passes here, whatever it came over and whatever it asks for:
//! how its bytes came ([`Peer`]) and its headers give an [`Identity`], and that and the node of its first message give a fleet.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;

use super::grpc::{Broken, Code};
use crate::event::Node;

#[cfg(test)]
mod tests;

/// How the bytes of a connection come, and what that proves.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// A Unix socket: a process of our own user, or of root.
    Unix,
    /// TCP in cleartext: a process on this machine.
    Loopback,
}

/// Who calls, proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the certificate, the token or the socket names.
    pub name: Arc<str>,
    /// Until when that holds; none: as long as the connection.
    pub expires: Option<Instant>,
}

/// The fleets that an identity may have. A client's node chooses among them, nothing else: it can narrow, never widen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fleets {
    /// Each: whoever comes here is trusted with everything (cleartext on this machine).
    Any,
    /// These. A node that names another is refused; one that names none gets the only one.
    These(Vec<Arc<str>>),
    /// This one, and what the node says is no claim: the client has chosen when it chose the socket.
    Only(Arc<str>),
}

/// Says which fleets an identity may have.
pub type FleetsOf = Arc<dyn Fn(&Identity) -> Fleets + Send + Sync>;

/// What a listener asks of those who call. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    fleets_of: FleetsOf,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    /// Callers are who their connection proves them to be; `fleets_of` says what they may have.
    #[must_use]
    pub fn new(fleets_of: FleetsOf) -> Self {
        Self { fleets_of }
    }

    /// Everybody gets the fleet that `node.cluster` names.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Arc::new(|_| Fleets::Any))
    }

    /// Everybody gets this fleet.
    pub(super) fn of(fleet: Arc<str>) -> Self {
        Self::new(Arc::new(move |_| Fleets::Only(Arc::clone(&fleet))))
    }

    /// Who makes a call.
    #[expect(clippy::unused_async, reason = "tokens are verified here")]
    pub(super) async fn admit(&self, peer: &Peer, _headers: &HeaderMap) -> Result<Caller, Broken> {
        let name = match peer {
            Peer::Unix => "unix",
            Peer::Loopback => "loopback",
        };
        Ok(Caller { identity: Identity { name: name.into(), expires: None }, gate: self.clone() })
    }
}

/// Who makes a call, with what it may have.
pub(super) struct Caller {
    identity: Identity,
    gate: Gate,
}

impl Caller {
    /// Until when the call may go on.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.identity.expires
    }

    /// The fleet of a client that says who it is.
    pub(super) fn fleet(&self, node: &Node) -> Result<Arc<str>, Broken> {
        let claim = &node.cluster;
        let refused = |words| {
            tracing::warn!(identity = %self.identity.name, %claim, "an xDS client is refused: {words}");
            Err(Broken(Code::PermissionDenied, words))
        };
        match (self.gate.fleets_of)(&self.identity) {
            Fleets::Only(fleet) => Ok(fleet),
            Fleets::Any if claim.is_empty() => refused("node.cluster has to say which Gateway: namespace/name"),
            Fleets::Any => Ok(Arc::clone(claim)),
            Fleets::These(fleets) if fleets.is_empty() => refused("this identity may have no configuration"),
            Fleets::These(fleets) if claim.is_empty() => match <[_; 1]>::try_from(fleets) {
                Ok([fleet]) => Ok(fleet),
                Err(_) => refused("node.cluster has to say which Gateway of several: namespace/name"),
            },
            Fleets::These(fleets) => match fleets.into_iter().find(|fleet| fleet == claim) {
                Some(fleet) => Ok(fleet),
                None => refused("node.cluster names a Gateway that this identity may not have"),
            },
        }
    }
}
