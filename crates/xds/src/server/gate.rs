//! Who may call, and as what. Every call passes here, whatever it came over and whatever it asks for:
//! how its bytes came ([`Peer`]) and its headers give an [`Identity`], and that and the node of its first message give a fleet.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::select_all;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use super::grpc::{Broken, Code};
use super::limits::{Account, Accounts, CallPlace, Limits, Names, Pace, Totals};
use super::places::SourceNetwork;
use super::refusals::RefusalReason;
use crate::event::Node;

mod tokens;

#[cfg(test)]
mod tests;

use tokens::Tokens;
pub use tokens::{KnownTokens, TokenError, VerifyToken, Verifying};

/// How the bytes of a connection come, and what that proves.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// A Unix socket: a process of our own user, or of root.
    Unix,
    /// TCP in cleartext: a process on this machine.
    Loopback,
    /// TLS with a certificate of an authority of ours: whom it names, and until when it holds.
    Tls(Option<Arc<str>>, Option<Instant>),
    /// TLS without a certificate, from this address.
    Anonymous(IpAddr),
}

impl Peer {
    /// Who the connection proves its caller to be.
    fn identity(&self) -> Option<Identity> {
        let process = |name: &str| Some(Identity { name: name.into(), expires: None, revoked: None });
        match self {
            Self::Unix => process("unix"),
            Self::Loopback => process(LOOPBACK),
            Self::Tls(name, expires) => name.clone().map(|name| Identity { name, expires: *expires, revoked: None }),
            Self::Anonymous(_) => None,
        }
    }

    /// Whom a certificate names.
    fn certified(&self) -> Option<Identity> {
        self.identity().filter(|_| matches!(self, Self::Tls(..)))
    }

    /// Until when what it proves holds.
    fn expires(&self) -> Option<Instant> {
        match self {
            Self::Unix | Self::Loopback | Self::Anonymous(_) => None,
            Self::Tls(_, expires) => *expires,
        }
    }

    /// The name that the connection is counted under.
    fn name(&self) -> Arc<str> {
        match self {
            Self::Anonymous(address) => format!("no certificate, from {}", SourceNetwork::from(*address)).into(),
            _ => self.identity().map_or_else(|| "a certificate without name".into(), |identity| identity.name),
        }
    }
}

/// Who calls, proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the certificate, the token or the socket names.
    pub name: Arc<str>,
    /// Until when that holds; none: as long as the connection.
    pub expires: Option<Instant>,
    /// What says that it holds no more before then, if anything does.
    pub revoked: Option<Revoked>,
}

impl Identity {
    /// It was withdrawn.
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.as_ref().is_some_and(Revoked::is_so)
    }
}

/// Says when an identity is withdrawn: the value of one of the channels becomes true and stays so. Clones are the same.
#[derive(Clone, Debug)]
pub struct Revoked(pub Vec<Arc<watch::Sender<bool>>>);

impl PartialEq for Revoked {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Eq for Revoked {}

impl Revoked {
    pub(super) fn is_so(&self) -> bool {
        self.0.iter().any(|revoked| *revoked.borrow())
    }

    /// Waits until it is so.
    pub(super) async fn until(self) {
        let waiting = self.0.iter().map(|revoked| {
            let mut seen = revoked.subscribe();
            Box::pin(async move {
                let _its_sender_is_here = seen.wait_for(|revoked| *revoked).await;
            })
        });
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return std::future::pending().await;
        }
        let _the_first = select_all(waiting).await;
    }
}

/// The fleets that an identity may have. A client's node chooses among them, nothing else: it can narrow, never widen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fleets {
    /// Each: the operator trusts all who come here (cleartext on this machine).
    Any,
    /// These. A node that names another is refused; one that names none gets the only one.
    These(Vec<Arc<str>>),
    /// None, and why: for the log.
    Nobody(Arc<str>),
    /// This one, and what the node says is no claim: the client has chosen when it chose the socket.
    Only(Arc<str>),
}

const NOBODY: Broken = Broken(
    Code::Unauthenticated,
    "the client certificate names nobody: it needs one SPIFFE URI or a DNS name among its subject alternative names",
);

/// The name of an identity that is proven by a connection over loopback alone. A fleet's name has a slash.
const LOOPBACK: &str = "loopback";

const NOTHING: &str = "this identity may have no configuration";

const NOBODY_SAID: &str =
    "node.cluster has to say which Gateway (namespace/name), or node.id which workload (name.namespace)";

const ANOTHER: &str = "node.cluster names a Gateway that this identity may not have";

/// The workload that `<Pod>.<namespace>` names. A namespace has no dots.
fn workload(id: &str) -> Option<Arc<str>> {
    let (pod, namespace) = id.rsplit_once('.').filter(|_| !id.contains('/'))?;
    (!pod.is_empty() && !namespace.is_empty()).then(|| format!("workload/{namespace}/{pod}").into())
}

/// So many characters of what a client claims are logged.
const SHOWN: usize = 200;

/// Says which fleets an identity may have.
pub type FleetsOf = Arc<dyn Fn(&Identity) -> Fleets + Send + Sync>;

/// What a listener in cleartext grants clients that bring no token. Each is off unless the operator asks for it by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleartext {
    /// Clients without a token are served: each names its fleet itself.
    pub clients: bool,
    /// Secrets are sent to all clients.
    pub secrets: bool,
}

/// What a listener asks of those who call. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Rules>);

struct Rules {
    fleets_of: FleetsOf,
    proof: Proof,
    /// Callers get secrets.
    secrets: bool,
    accounts: Accounts,
}

/// What shows who calls.
enum Proof {
    /// The connection.
    Connection,
    /// A bearer token that a verifier is asked about, or else a certificate.
    Verified(Tokens),
    /// A bearer token that is known here. Without one a call is who its connection says, if `anonymous`.
    Known { tokens: KnownTokens, anonymous: bool },
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    /// Callers are who their connection proves them to be; `fleets_of` says what they may have.
    #[must_use]
    pub fn new(fleets_of: FleetsOf, limits: Limits) -> Self {
        Self::of_rules(fleets_of, Proof::Connection, limits)
    }

    fn of_rules(fleets_of: FleetsOf, proof: Proof, limits: Limits) -> Self {
        Self(Arc::new(Rules { fleets_of, proof, secrets: true, accounts: Accounts::new(limits) }))
    }

    /// Callers are who their bearer token says, which every call has to bring beside what its connection proves, until either ends. One that brings
    /// no token is who its certificate says, if it has one.
    #[must_use]
    pub fn with_tokens(fleets_of: FleetsOf, limits: Limits, verifier: Arc<dyn VerifyToken>) -> Self {
        Self::of_rules(fleets_of, Proof::Verified(Tokens::new(verifier)), limits)
    }

    /// Everybody gets the fleet that `node.cluster` names: for tests and benchmarks. See [`Self::cleartext`].
    #[must_use]
    pub fn open() -> Self {
        Self::new(Arc::new(|_| Fleets::Any), Limits::default().local())
    }

    /// Callers on this machine get the fleet that their token stands for, without secrets; `cleartext` says what else is granted.
    #[must_use]
    pub fn cleartext(tokens: KnownTokens, cleartext: Cleartext, limits: Limits) -> Self {
        let proof = Proof::Known { tokens, anonymous: cleartext.clients };
        let fleets_of: FleetsOf = Arc::new(|identity| match &*identity.name {
            LOOPBACK => Fleets::Any,
            // The token says which; what the node says is no claim.
            _ => Fleets::Only(Arc::clone(&identity.name)),
        });
        let accounts = Accounts::new(limits.local());
        Self(Arc::new(Rules { fleets_of, proof, secrets: cleartext.secrets, accounts }))
    }

    /// Everybody gets this fleet who brings its token; without a token it is for tests and benchmarks: everybody.
    pub(super) fn of(fleet: Arc<str>, token: Option<Arc<str>>, limits: Limits) -> Self {
        let proof = match token {
            None => Proof::Connection,
            Some(token) => {
                let tokens = KnownTokens::default();
                tokens.insert(&token, Arc::clone(&fleet));
                Proof::Known { tokens, anonymous: false }
            }
        };
        Self::of_rules(Arc::new(move |_| Fleets::Only(Arc::clone(&fleet))), proof, limits.local())
    }

    /// How long a new connection may last.
    pub(super) fn age(&self) -> Option<Duration> {
        self.limits().age.map(|age| age.mul_f64(0.9 + 0.2 * fastrand::f64()))
    }

    /// What callers take is counted here from now on.
    pub(super) fn count_in(&self, totals: &Arc<Totals>) {
        self.0.accounts.count_in(totals);
    }

    /// What one identity may take.
    pub(super) fn limits(&self) -> &Limits {
        &self.0.accounts.limits
    }

    /// The account that a connection is counted in.
    pub(super) fn account(&self, peer: &Peer) -> Arc<Account> {
        self.0.accounts.of(&peer.name())
    }

    /// Whether a connection proves nothing of who its calls are: all users of this machine can make one in cleartext.
    pub(super) fn is_unproven(&self, peer: &Peer) -> bool {
        matches!((&self.0.proof, peer), (Proof::Known { .. }, Peer::Loopback))
    }

    /// Who makes a call that is to be answered with what a fleet has.
    pub(super) async fn admit(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Broken> {
        let certified = peer.certified().filter(|_| !headers.contains_key(AUTHORIZATION));
        let identity = match (&self.0.proof, certified) {
            (Proof::Verified(_), Some(certified)) => certified,
            (Proof::Known { anonymous: true, .. }, _) if !headers.contains_key(AUTHORIZATION) => {
                self.logged(peer, peer.identity().ok_or(NOBODY))?
            }
            (Proof::Known { tokens, .. }, _) => {
                Identity { name: self.logged(peer, tokens.fleet(headers))?, expires: peer.expires(), revoked: None }
            }
            (Proof::Verified(tokens), None) => {
                let found = tokens.identity(headers, &self.account(peer)).await;
                let Identity { name, expires, revoked } = self.logged(peer, found)?;
                Identity { name, expires: [expires, peer.expires()].into_iter().flatten().min(), revoked }
            }
            (Proof::Connection, _) => self.logged(peer, peer.identity().ok_or(NOBODY))?,
        };
        self.caller(identity).await
    }

    /// Who makes a call that everybody may make whose connection was taken.
    pub(super) async fn admit_anyone(&self, peer: &Peer) -> Result<Caller, Broken> {
        self.caller(Identity { name: peer.name(), expires: peer.expires(), revoked: None }).await
    }

    /// Logs a refusal.
    fn logged<T>(&self, peer: &Peer, result: Result<T, Broken>) -> Result<T, Broken> {
        result.inspect_err(|Broken(_, words)| self.account(peer).tell(RefusalReason::Identity, words))
    }

    async fn caller(&self, identity: Identity) -> Result<Caller, Broken> {
        let expired = |at: &Instant| *at <= Instant::now();
        if identity.is_revoked() || identity.expires.as_ref().is_some_and(expired) {
            return Err(Broken(Code::Unauthenticated, "the identity of the client has expired"));
        }
        let account = self.0.accounts.of(&identity.name);
        let place = account.call().await?;
        Ok(Caller { identity, gate: self.clone(), account, place: Some(place) })
    }
}

/// Who makes a call, with what it may have.
pub(super) struct Caller {
    identity: Identity,
    gate: Gate,
    account: Arc<Account>,
    place: Option<CallPlace>,
}

impl Caller {
    /// Who that is.
    #[cfg(any(test, fuzzing))]
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Gives the call's place away, which is to be kept for as long as the call lasts.
    pub(super) fn take_place(&mut self) -> Option<CallPlace> {
        self.place.take()
    }

    /// Until when the call may go on.
    pub(super) fn expires(&self) -> Option<Instant> {
        self.identity.expires
    }

    /// What says that it may not go on before then.
    pub(super) fn revoked(&self) -> Option<Revoked> {
        self.identity.revoked.clone()
    }

    /// Who it is.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.identity.name
    }

    /// Whether the caller gets secrets.
    pub(super) fn has_secrets(&self) -> bool {
        self.gate.0.secrets
    }

    /// None yet of the names of a client.
    pub(super) fn names(&self) -> Names {
        Names::new(Arc::clone(&self.account))
    }

    /// The pace of the call's requests.
    pub(super) fn pace(&self) -> Pace {
        Pace::new(Arc::clone(&self.account))
    }

    /// Logs that the call is refused something for what it asks.
    pub(super) fn tell(&self, Broken(code, words): &Broken) {
        match code {
            Code::InvalidArgument => self.account.tell(RefusalReason::Malformed, words),
            Code::ResourceExhausted => self.account.tell(RefusalReason::Request, words),
            _ => {}
        }
    }

    /// What the call is counted in.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The fleet of a client that says who it is.
    pub(super) fn fleet(&self, node: &Node) -> Result<Arc<str>, Broken> {
        let claim = &node.cluster;
        let refused = |words| {
            self.account.tell(RefusalReason::Identity, words);
            Err(Broken(Code::PermissionDenied, words))
        };
        match (self.gate.0.fleets_of)(&self.identity) {
            Fleets::Only(fleet) => Ok(fleet),
            Fleets::Any => match workload(&node.id) {
                // As Envoys of Bootes say who they are; their cluster is whatever its owner likes.
                Some(workload) if !claim.contains('/') => Ok(workload),
                _ if claim.is_empty() => refused(NOBODY_SAID),
                _ => Ok(Arc::clone(claim)),
            },
            Fleets::Nobody(why) => {
                self.account.tell(RefusalReason::Identity, &format!("{NOTHING}: {why}"));
                Err(Broken(Code::PermissionDenied, NOTHING))
            }
            Fleets::These(fleets) if fleets.is_empty() => refused(NOTHING),
            Fleets::These(fleets) if claim.is_empty() => match <[_; 1]>::try_from(fleets) {
                Ok([fleet]) => Ok(fleet),
                Err(_) => refused("node.cluster has to say which Gateway of several: namespace/name"),
            },
            Fleets::These(fleets) => match fleets.into_iter().find(|fleet| fleet == claim) {
                Some(fleet) => Ok(fleet),
                None => {
                    let shown: String = claim.chars().take(SHOWN).collect();
                    self.account.tell(RefusalReason::Identity, &format!("{ANOTHER}: {shown:?}"));
                    Err(Broken(Code::PermissionDenied, ANOTHER))
                }
            },
        }
    }
}
