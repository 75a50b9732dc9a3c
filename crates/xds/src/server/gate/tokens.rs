//! Bearer tokens: somebody else verifies them, and is asked once for each.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::Semaphore;

use super::Identity;
use crate::server::grpc::{Broken, Code};
use crate::server::limits::{Account, VERIFIED_AT_ONCE};
use crate::server::locked;
use crate::server::patience::Patience;

mod accepted;
#[cfg(test)]
mod tests;

use accepted::Accepted;

/// Refused tokens that are remembered: the next ones are verified each time, which costs their peers as much. 50 bytes each, so 200 KB.
const MOST_REFUSED: usize = 4_096;

/// An identity is asked for again after this time, however long its token is good for: it may have been withdrawn. While there is no answer
/// it holds, as long as its token does.
const ASKED_AGAIN: Duration = Duration::from_secs(600);

/// A token that was refused is refused again without a question for this time: a client comes again several times a second.
const REFUSED_AGAIN: Duration = Duration::from_secs(2);

/// Tokens that are being verified: enough for 1,000 in a second at 60 ms each, and what a Kubernetes API server takes from one client.
/// One peer's take half of that at most.
const UNDER_WAY: usize = 2 * VERIFIED_AT_ONCE;

/// A token that is not good costs its peer as much as so many requests: with the default limits 1,000 at once and 100 in a second, a
/// tenth of what is verified at all.
const REFUSAL: usize = 200;

/// The longest wait for a verifier.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest token that is looked at, in bytes. Kubernetes' have about 1,000.
const LONGEST: usize = 8 << 10;

/// Why a token gives no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is not good.
    Refused,
    /// It cannot be said just now.
    Unavailable,
}

/// What [`VerifyToken::verify`] gives.
pub type Verifying<'a> = Pin<Box<dyn Future<Output = Result<Identity, TokenError>> + Send + 'a>>;

/// Says whose a bearer token is.
pub trait VerifyToken: Send + Sync {
    /// Whose this token is and until when. It must not be logged.
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a>;

    /// Returns the group of an identity. While many tokens are remembered, a group has a share of the places; a group of one author is his namespace.
    fn group<'a>(&self, identity: &'a Identity) -> &'a str {
        &identity.name
    }
}

/// A token that is not good has its price.
fn refused(peer: &Account) -> Broken {
    peer.charge(REFUSAL);
    Broken(Code::Unauthenticated, "the bearer token is not good")
}

/// SHA-256.
type Hash = [u8; 32];

/// See the module.
pub(super) struct Tokens {
    verifier: Arc<dyn VerifyToken>,
    accepted: Mutex<Accepted>,
    /// Tokens that were refused, each with the time until which it is not verified again.
    refused: Mutex<BTreeMap<Hash, Instant>>,
    under_way: Semaphore,
}

impl Tokens {
    pub(super) fn new(verifier: Arc<dyn VerifyToken>) -> Self {
        Self { verifier, accepted: Mutex::default(), refused: Mutex::default(), under_way: Semaphore::new(UNDER_WAY) }
    }

    /// Whose the token in these headers is, which a peer with this account sent.
    pub(super) async fn identity(&self, headers: &HeaderMap, peer: &Arc<Account>) -> Result<Identity, Broken> {
        let token = bearer(headers)?;
        let hash = hash(token);
        if locked(&self.refused).get(&hash).is_some_and(|until| Instant::now() < *until) {
            return Err(refused(peer));
        }
        let known = locked(&self.accepted).get(&hash).map(|(identity, until)| (identity.clone(), until));
        let known = known.filter(|(identity, _)| !identity.is_revoked());
        if let Some((identity, _)) = known.as_ref().filter(|(_, until)| Instant::now() < *until) {
            return Ok(identity.clone());
        }
        // whose the call is, is not known yet: until it is, it is the peer's
        let _place = peer.call().await?;
        let _own = peer.verifying.acquire().await;
        let _turn = self.under_way.acquire().await;
        let verified = tokio::select! {
            biased;
            verified = self.verifier.verify(token) => verified,
            () = Patience::new(PATIENCE) => Err(TokenError::Unavailable),
        };
        match verified {
            Ok(identity) => {
                let group = self.verifier.group(&identity).to_owned();
                Ok(locked(&self.accepted).insert(hash, identity, &group, Instant::now()))
            }
            Err(TokenError::Refused) => {
                locked(&self.accepted).forget(&hash);
                self.refuse(hash, Instant::now());
                Err(refused(peer))
            }
            // What was verified once holds as long as the token itself while nobody can be asked.
            Err(TokenError::Unavailable) => known
                .map(|(identity, _)| identity)
                .filter(|identity| identity.expires.is_some_and(|expires| Instant::now() < expires))
                .ok_or(Broken(Code::Unavailable, "the bearer token cannot be verified just now")),
        }
    }

    fn refuse(&self, hash: Hash, now: Instant) {
        let mut refused = locked(&self.refused);
        if refused.len() >= MOST_REFUSED {
            refused.retain(|_, until| now < *until);
        }
        if refused.len() < MOST_REFUSED {
            refused.insert(hash, now + REFUSED_AGAIN);
        }
    }
}

/// Tokens that are known here, each with the fleet that it stands for. Clones share them.
#[derive(Clone, Default)]
pub struct KnownTokens(Arc<Mutex<BTreeMap<Hash, Arc<str>>>>);

impl KnownTokens {
    /// Adds a token. It is kept as its hash, so that how long a look-up takes says nothing of it.
    pub fn insert(&self, token: &str, fleet: Arc<str>) {
        locked(&self.0).insert(hash(token), fleet);
    }

    /// Removes a token: no new call may bring it.
    pub fn remove(&self, token: &str) {
        locked(&self.0).remove(&hash(token));
    }

    /// Returns true if the token in these headers is known.
    #[must_use]
    pub fn has(&self, headers: &HeaderMap) -> bool {
        self.fleet(headers).is_ok()
    }

    /// Returns the fleet of the token in these headers.
    pub(super) fn fleet(&self, headers: &HeaderMap) -> Result<Arc<str>, Broken> {
        let known = locked(&self.0).get(&hash(bearer(headers)?)).cloned();
        known.ok_or(Broken(
            Code::Unauthenticated,
            "the bearer token is not that of a proxy: it is in the file `token` of the proxy's folder, next to `gateway`",
        ))
    }
}

impl fmt::Debug for KnownTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownTokens")
    }
}

/// The token of a call.
fn bearer(headers: &HeaderMap) -> Result<&str, Broken> {
    let missing =
        Broken(Code::Unauthenticated, "no bearer token: the call needs the header `authorization: Bearer ...`");
    let Some(text) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return Err(missing) };
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && (1..=LONGEST).contains(&token.len()) => {
            Ok(token)
        }
        _ => Err(missing),
    }
}

fn hash(token: &str) -> Hash {
    let mut hash = Hash::default();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    hash.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    hash
}
