//! [`Offers`]: who gives an identity, and which of them is in force.

use std::hash::BuildHasher;
use std::sync::Arc;

use api::{Object, ObjectKey};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use store::{Origin, identity};

use crate::file::spot::Spot;

/// How well founded an offer is. What is written now comes before what is only remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The file says so.
    Written,
    /// The file said so last; now it cannot be understood there.
    Kept,
    /// The file said so last; now it is gone.
    Last,
}

/// One object that a file gives.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) object: Object,
    pub(crate) spot: Arc<Spot>,
    pub(crate) line: u32,
    pub(crate) standing: Standing,
}

impl Offer {
    fn identity(&self) -> ObjectKey {
        identity(self.object.key())
    }

    /// Where it is written.
    pub(crate) fn origin(&self) -> Origin {
        Origin { file: self.spot.display.clone(), line: self.line }
    }

    /// Whether it is this object (not merely an equal one) of this file.
    pub(crate) fn is(&self, spot: &Spot, object: &Object) -> bool {
        std::ptr::eq(self.object.meta(), object.meta()) && *self.spot == *spot
    }

    fn rank(&self) -> (Standing, &Spot, u32) {
        (self.standing, &self.spot, self.line)
    }
}

/// Who gives each identity. Its order never reaches output.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// The one in force of each identity: the first in the order of standing, path and line. There are as many as objects, so the
    /// identity is looked up in the object and not kept beside it; and up to half of the places are empty, so a place is a pointer.
    winners: HashTable<Box<Offer>>,
    /// The others, sorted, of identities with more than one.
    rest: HashMap<ObjectKey, Vec<Offer>>,
    hasher: DefaultHashBuilder,
}

impl Offers {
    /// The one in force.
    pub(crate) fn winner(&self, key: &ObjectKey) -> Option<&Offer> {
        self.winners.find(self.hasher.hash_one(key), |offer| offer.identity() == *key).map(|offer| &**offer)
    }

    /// The object of an identity, and where it is written. A policy that guards is for what all of its texts are for: the one that comes first must
    /// not open what another one guards.
    pub(crate) fn effective(&self, key: &ObjectKey) -> Option<(Object, Origin)> {
        let winner = self.winner(key)?;
        let (object, origin) = (&winner.object, winner.origin());
        let others = self.rest.get(key).map_or(&[][..], Vec::as_slice).iter();
        let united =
            others.filter(|other| other.standing != Standing::Last).fold(None, |united: Option<Object>, other| {
                let so_far = united.as_ref().unwrap_or(object);
                let fault = || format!("written twice, at {origin} and at {}", other.origin());
                so_far.united(&other.object, fault).or(united)
            });
        Some((united.unwrap_or_else(|| object.clone()), origin))
    }

    /// Whether there is any identity with more than one offer.
    pub(crate) fn any_disputed(&self) -> bool {
        !self.rest.is_empty()
    }

    /// The files that make the offers of an identity, if there is more than one offer.
    pub(crate) fn disputants(&self, key: &ObjectKey) -> impl Iterator<Item = &Arc<Spot>> {
        let rest = self.rest.get(key).map_or(&[][..], Vec::as_slice);
        let winner = self.winner(key).filter(|_| !rest.is_empty());
        winner.into_iter().chain(rest).map(|offer| &offer.spot)
    }

    /// Adds an offer.
    pub(crate) fn add(&mut self, key: &ObjectKey, mut offer: Offer) {
        let Self { winners, rest, hasher } = self;
        let hash = hasher.hash_one(key);
        match winners.entry(hash, |offer| offer.identity() == *key, |offer| hasher.hash_one(offer.identity())) {
            Entry::Vacant(vacant) => drop(vacant.insert(Box::new(offer))),
            Entry::Occupied(mut winner) => {
                if offer.rank() < winner.get().rank() {
                    std::mem::swap(&mut offer, &mut **winner.get_mut());
                }
                let rest = rest.entry(key.clone()).or_default();
                let at = rest.partition_point(|other| other.rank() <= offer.rank());
                rest.insert(at, offer);
            }
        }
    }

    /// Takes out this object of this file.
    pub(crate) fn withdraw(&mut self, key: &ObjectKey, spot: &Spot, object: &Object) {
        let found = self.winners.find_entry(self.hasher.hash_one(key), |offer| offer.identity() == *key);
        let Ok(mut winner) = found else { return };
        let is_winner = winner.get().is(spot, object);
        match self.rest.get_mut(key) {
            None if is_winner => drop(winner.remove()),
            None => {}
            Some(rest) => {
                let at = rest.iter().position(|offer| is_winner || offer.is(spot, object));
                let taken = at.map(|at| rest.remove(at));
                if let Some(heir) = taken.filter(|_| is_winner) {
                    **winner.get_mut() = heir;
                }
                if rest.is_empty() {
                    self.rest.remove(key);
                }
            }
        }
    }
}
