//! [`Accepted`]: identities of tokens that were accepted, with a share of them for each group of identities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::{ASKED_AGAIN, Hash};
use crate::server::gate::Identity;

#[cfg(test)]
mod tests;

/// Identities of tokens that are remembered: 10,000 proxies with a token each, and their next ones. 300 bytes each, so 5 MB.
pub(super) const REMEMBERED: usize = 16_384;

/// With more than three quarters of [`REMEMBERED`] none is added to a group that has this many, an eighth: the new one takes the place of one of its own.
const SHARE: usize = REMEMBERED / 8;

/// See the module.
#[derive(Default)]
pub(super) struct Accepted {
    tokens: BTreeMap<Hash, Token>,
    /// Tokens of each group, those first that are to be verified again first.
    groups: BTreeMap<Arc<str>, BTreeSet<(Instant, Hash)>>,
}

struct Token {
    identity: Identity,
    group: Arc<str>,
    until: Instant,
}

impl Token {
    /// Returns true while a call has this identity: all of them share its name.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.identity.name) > 1
    }
}

impl Accepted {
    /// The identity of a token, and the time until which it is not verified again.
    pub(super) fn get(&self, hash: &Hash) -> Option<(&Identity, Instant)> {
        self.tokens.get(hash).map(|token| (&token.identity, token.until))
    }

    /// Remembers a token that was accepted now, and returns its identity as it is shared with earlier calls. While there is no room, one that no call uses is
    /// forgotten: in a group that has its share one of its own, else one of the group that has the most.
    pub(super) fn insert(&mut self, hash: Hash, mut identity: Identity, group: &str, now: Instant) -> Identity {
        let before = self.remove(&hash);
        if let Some(before) = before.filter(|before| before.identity.name == identity.name) {
            identity.name = before.identity.name;
        } else if !self.has_room(group) {
            return identity;
        }
        let again = now + ASKED_AGAIN;
        let until = identity.expires.map_or(again, |expires| expires.min(again));
        let group = self.groups.get_key_value(group).map_or_else(|| group.into(), |(known, _)| Arc::clone(known));
        self.groups.entry(Arc::clone(&group)).or_default().insert((until, hash));
        self.tokens.insert(hash, Token { identity: identity.clone(), group, until });
        identity
    }

    /// Forgets a token.
    pub(super) fn forget(&mut self, hash: &Hash) {
        self.remove(hash);
    }

    fn remove(&mut self, hash: &Hash) -> Option<Token> {
        let token = self.tokens.remove(hash)?;
        if let Some(own) = self.groups.get_mut(&token.group) {
            own.remove(&(token.until, *hash));
            if own.is_empty() {
                self.groups.remove(&token.group);
            }
        }
        Some(token)
    }

    /// Makes room for a token of a group; false: there is none.
    fn has_room(&mut self, group: &str) -> bool {
        if self.tokens.len() < REMEMBERED - REMEMBERED / 4 {
            return true;
        }
        if self.groups.get(group).is_some_and(|own| own.len() >= SHARE) {
            return self.forget_one(group);
        }
        if self.tokens.len() < REMEMBERED {
            return true;
        }
        let largest = self.groups.iter().max_by_key(|(_, own)| own.len()).map(|(group, _)| Arc::clone(group));
        largest.is_some_and(|group| self.forget_one(&group))
    }

    /// Forgets the token of a group that is to be verified again first, of those that no call uses.
    fn forget_one(&mut self, group: &str) -> bool {
        let is_idle = |hash: &Hash| self.tokens.get(hash).is_some_and(|token| !token.is_in_use());
        let found = self.groups.get(group).and_then(|own| own.iter().map(|(_, hash)| *hash).find(is_idle));
        found.and_then(|hash| self.remove(&hash)).is_some()
    }
}
