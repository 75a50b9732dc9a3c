//! The versions that a client has under its names. What many names have in common costs a byte for each: they came in one response, which is
//! the same for all clients of a fleet that begin at the same time, and most are acknowledged with it and never spoken of again.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::listing::Listing;
use crate::resource::{Mark, Version};
use crate::wire::Nonce;

#[cfg(test)]
mod tests;

/// What a client has under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The version that it has acknowledged last.
    pub(super) acked: Option<Mark>,
    /// The version that it was sent last; none after a removal.
    pub(super) sent: Option<Mark>,
    /// The response that is to be answered before the next one for this name.
    pub(super) flying: Option<Nonce>,
    /// The number of the item that was last reported to be in use.
    pub(super) confirmed: u64,
}

// of each name that has a state of its own: up to 200,000 for 50,000 clusters
const _: () = assert!(size_of::<Known>() == 32);

impl Known {
    /// The client says that it has this version, or that it has something.
    pub(super) fn listed(version: Option<Version>) -> Self {
        let version = Some(version.unwrap_or(Version::FOREIGN).mark());
        Self { acked: version, sent: version, ..Self::default() }
    }
}

/// What of a name follows from the listing that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    /// Nothing, or it is not there.
    None,
    /// It was sent and is not answered.
    Flying,
    /// It was sent, and nobody waits for an answer.
    Sent,
    /// It is acknowledged.
    Acked,
    /// It is reported to be in use.
    Confirmed,
}

/// Every state but none.
const COMMON: [Common; 4] = [Common::Flying, Common::Sent, Common::Acked, Common::Confirmed];

/// See the module.
#[derive(Default)]
pub(super) struct KnownNames {
    listing: Option<Box<Listed>>,
    /// The names that have a state of their own.
    others: HashMap<Arc<str>, Known>,
    /// The digests of all that was sent last, joined by exclusive or, so that a change costs what it changes.
    digest: u64,
}

/// Names of a listing.
struct Listed {
    listing: Arc<Listing>,
    /// The response that brought those that fly.
    nonce: Nonce,
    states: Box<[Common]>,
    /// How many are not none.
    count: usize,
}

impl Listed {
    fn known(&self, place: usize) -> Option<Known> {
        let (state, entry) = (self.states.get(place)?, self.listing.entry(place)?);
        let sent = Known { sent: Some(entry.mark), ..Known::default() };
        let acked = Known { acked: Some(entry.mark), ..sent };
        match state {
            Common::None => None,
            Common::Flying => Some(Known { flying: Some(self.nonce), ..sent }),
            Common::Sent => Some(sent),
            Common::Acked => Some(acked),
            Common::Confirmed => Some(Known { confirmed: entry.seq, ..acked }),
        }
    }

    /// Keeps what a name has if it follows from the listing; else none.
    fn set(&mut self, place: usize, known: Option<&Known>) -> bool {
        let Some(before) = self.states.get(place).copied() else { return false };
        let mut found = false;
        for state in COMMON.into_iter().take(if known.is_some() { COMMON.len() } else { 0 }) {
            self.put(place, state);
            found = self.known(place).as_ref() == known;
            if found {
                break;
            }
        }
        if !found {
            self.put(place, Common::None);
        }
        self.count = self.count + usize::from(found) - usize::from(before != Common::None);
        found
    }

    fn put(&mut self, place: usize, state: Common) {
        if let Some(at) = self.states.get_mut(place) {
            *at = state;
        }
    }

    fn names(&self) -> impl Iterator<Item = (usize, &Arc<str>)> {
        let there = self.states.iter().enumerate().filter(|(_, state)| **state != Common::None);
        there.filter_map(|(place, _)| Some((place, &self.listing.entry(place)?.name)))
    }
}

impl KnownNames {
    /// What the client has under a name.
    pub(super) fn get(&self, name: &str) -> Option<Known> {
        let listed = self.listing.as_ref().and_then(|listed| listed.known(listed.listing.place(name)?));
        listed.or_else(|| self.others.get(name).copied())
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.others.len() + self.listing.as_ref().map_or(0, |listed| listed.count)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        let listed = self.listing.iter().flat_map(|listed| listed.names()).map(|(_, name)| name);
        listed.chain(self.others.keys())
    }

    /// Stands for all that the client has once it has taken what it was sent: the same for all clients that have the same.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// What was sent last under a name is another.
    fn note_sent(&mut self, name: &str, before: Option<Mark>, after: Option<Mark>) {
        if before != after {
            let digest = |mark: Option<Mark>| mark.map_or(0, |mark| mark.digest(name));
            self.digest ^= digest(before) ^ digest(after);
        }
    }

    /// The client has this under the name.
    pub(super) fn insert(&mut self, name: &Arc<str>, known: Known) {
        self.note_sent(name, self.get(name).and_then(|before| before.sent), known.sent);
        let place = self.listing.as_ref().and_then(|listed| listed.listing.place(name));
        let follows = match (&mut self.listing, place) {
            (Some(listed), Some(place)) => listed.set(place, Some(&known)),
            _ => false,
        };
        if follows {
            self.others.remove(name);
        } else {
            self.others.insert(Arc::clone(name), known);
        }
    }

    /// The client has nothing under the name.
    pub(super) fn remove(&mut self, name: &str) {
        self.note_sent(name, self.get(name).and_then(|before| before.sent), None);
        if let Some(listed) = &mut self.listing
            && let Some(place) = listed.listing.place(name)
        {
            listed.set(place, None);
        }
        self.others.remove(name);
    }

    /// Changes what the client has under a name; none if it has nothing.
    pub(super) fn edit<T>(&mut self, name: &str, edit: impl FnOnce(&mut Known) -> T) -> Option<T> {
        if let Some(known) = self.others.get_mut(name) {
            let before = known.sent;
            let result = edit(known);
            let known = *known;
            self.note_sent(name, before, known.sent);
            if let Some(listed) = &mut self.listing
                && let Some(place) = listed.listing.place(name)
                && listed.set(place, Some(&known))
            {
                self.others.remove(name);
            }
            return Some(result);
        }
        let listed = self.listing.as_mut()?;
        let place = listed.listing.place(name)?;
        let mut known = listed.known(place)?;
        let before = known.sent;
        let result = edit(&mut known);
        if !listed.set(place, Some(&known)) {
            let name = Arc::clone(&listed.listing.entry(place)?.name);
            self.others.insert(name, known);
        }
        self.note_sent(name, before, known.sent);
        Some(result)
    }

    /// What the client has under a name, or now this.
    pub(super) fn get_or_insert(&mut self, name: &Arc<str>, new: Known) -> Known {
        self.get(name).unwrap_or_else(|| {
            self.insert(name, new);
            new
        })
    }

    /// Keeps only these names.
    pub(super) fn retain(&mut self, which: impl Fn(&str) -> bool) {
        let gone = self.keys().filter(|name| !which(name));
        let sent = gone.filter_map(|name| Some(self.get(name)?.sent?.digest(name)));
        let gone = sent.fold(0, |all, digest| all ^ digest);
        self.digest ^= gone;
        if let Some(listed) = &mut self.listing {
            let gone: Vec<usize> = listed.names().filter(|(_, name)| !which(name)).map(|(place, _)| place).collect();
            gone.into_iter().for_each(|place| _ = listed.set(place, None));
        }
        self.others.retain(|name, _| which(name));
        self.shrink();
    }

    /// Response `nonce` is about to bring what is in this listing: from now on what follows from it costs next to nothing.
    pub(super) fn list(&mut self, listing: &Arc<Listing>, nonce: Nonce) {
        let before = std::mem::take(self);
        let states = vec![Common::None; listing.len()].into();
        self.listing = Some(Box::new(Listed { listing: Arc::clone(listing), nonce, states, count: 0 }));
        let names = before.keys().filter_map(|name| Some((name, before.get(name)?)));
        names.for_each(|(name, known)| self.insert(name, known));
    }

    /// How many names would have to be moved for another listing.
    pub(super) fn listed(&self) -> usize {
        self.listing.as_ref().map_or(0, |listed| listed.count)
    }

    /// Gives back what a burst of names took.
    pub(super) fn shrink(&mut self) {
        if self.others.len() < self.others.capacity() / 4 {
            self.others.shrink_to_fit();
        }
        self.listing.take_if(|listed| listed.count == 0);
    }
}
