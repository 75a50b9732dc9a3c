//! [`Offers`]: who gives one identity, and which of them is in force.

use std::sync::Arc;

use api::Object;
use store::Origin;

use crate::file::spot::Spot;

/// How well founded an offer is. What is written now comes before what is only remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The file says so.
    Written,
    /// The file said so last; now it is gone, or cannot be understood there.
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
    /// Where it is written.
    pub(crate) fn origin(&self) -> Origin {
        Origin { file: self.spot.display.clone(), line: self.line }
    }

    /// Whether it says what was in force before, from the same place.
    pub(crate) fn equals(&self, (object, origin): &(Object, Origin)) -> bool {
        self.line == origin.line && self.spot.display == origin.file && self.object == *object
    }

    /// Whether it is this object (not merely an equal one) of this file.
    pub(crate) fn is(&self, spot: &Spot, object: &Object) -> bool {
        std::ptr::eq(self.object.meta(), object.meta()) && *self.spot == *spot
    }

    fn rank(&self) -> (Standing, &Spot, u32) {
        (self.standing, &self.spot, self.line)
    }
}

/// The offers of one identity.
#[derive(Debug)]
pub(crate) struct Offers {
    winner: Offer,
    /// Sorted; absent as nearly always.
    #[expect(clippy::box_collection, reason = "8 bytes instead of 24 in each of 150,000 entries that have no rest")]
    rest: Option<Box<Vec<Offer>>>,
}

/// What is left after an offer was withdrawn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// There was no such offer.
    Unchanged,
    /// The entry has to go.
    None,
    /// So many.
    Some(usize),
}

impl Offers {
    /// The first offer of an identity.
    pub(crate) fn new(offer: Offer) -> Self {
        Self { winner: offer, rest: None }
    }

    /// The one in force: the first in the order of standing, path and line.
    pub(crate) fn winner(&self) -> &Offer {
        &self.winner
    }

    /// Whether there is more than one.
    pub(crate) fn is_disputed(&self) -> bool {
        self.rest.is_some()
    }

    /// The files that make them.
    pub(crate) fn spots(&self) -> impl Iterator<Item = &Arc<Spot>> {
        std::iter::once(&self.winner).chain(self.rest.iter().flat_map(|rest| rest.iter())).map(|offer| &offer.spot)
    }

    /// Adds an offer; how many there are now.
    pub(crate) fn add(&mut self, mut offer: Offer) -> usize {
        if offer.rank() < self.winner.rank() {
            std::mem::swap(&mut offer, &mut self.winner);
        }
        let rest = self.rest.get_or_insert_default();
        let at = rest.partition_point(|other| other.rank() <= offer.rank());
        rest.insert(at, offer);
        rest.len() + 1
    }

    /// Takes out this object of this file.
    pub(crate) fn withdraw(&mut self, spot: &Spot, object: &Object) -> Left {
        let is_winner = self.winner.is(spot, object);
        let Some(rest) = &mut self.rest else {
            return if is_winner { Left::None } else { Left::Unchanged };
        };
        let at = rest.iter().position(|offer| is_winner || offer.is(spot, object));
        let Some(taken) = at.map(|at| rest.remove(at)) else { return Left::Unchanged };
        let left = rest.len() + 1;
        if is_winner {
            self.winner = taken;
        }
        if left == 1 {
            self.rest = None;
        }
        Left::Some(left)
    }
}
