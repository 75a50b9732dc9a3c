//! Several ways to one directory: it is read by the first one, whatever the order in which changes are noticed.
//!
//! A look at a folder takes what is in each directory before the links there, both by name, and the first way to a directory is taken. Looks at single places come
//! in another order. Where that makes a difference the directory at which two ways part is looked at as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::file::shares::Real;
use crate::file::spot::Spot;
use crate::file::tree::Tree;

impl Tree {
    /// Takes the places that have to be looked at once more: by other ways to what is gone, for room that came, for watches that are to be had again, and
    /// directories in which another way comes first. A way that was taken may have gone since it was compared.
    pub(crate) fn take_again(&mut self) -> BTreeSet<Arc<Spot>> {
        let mut again = std::mem::take(&mut self.again);
        for other in std::mem::take(&mut self.contested) {
            let first = self.shares.taken_for(&other);
            again.extend(first.filter(|first| self.precedes(&other, first)).and_then(|first| self.fork(&other, first)));
        }
        again.extend(self.shares.take_fitting());
        again
    }

    /// Returns true if a place has to be looked at once more because of another one, of which no event comes.
    pub(crate) fn has_again(&self) -> bool {
        !self.again.is_empty() || !self.contested.is_empty()
    }

    /// Compares the ways to a directory after the one that was taken has been looked at.
    pub(super) fn compare_ways(&mut self, before: &Spot, real: &Real) {
        let (again, contested): (Vec<_>, Vec<_>) = match self.shares.way(real) {
            // It may lead over a link now where it did not, so that it comes later.
            Some(way) if **way == *before => {
                (Vec::new(), self.shares.others(real).filter(|other| self.precedes(other, way)).cloned().collect())
            }
            // Each of the others is taken now, or says which one is.
            _ => (self.shares.others(real).cloned().collect(), Vec::new()),
        };
        self.again.extend(again);
        self.contested.extend(contested);
    }

    /// Notes a way that is not taken, if it comes before the one that is.
    pub(super) fn contest(&mut self, other: &Arc<Spot>, first: &Spot) {
        if self.precedes(other, first) {
            self.contested.insert(Arc::clone(other));
        }
    }

    /// Returns true if a look at both would come to this place first.
    fn precedes(&self, one: &Spot, other: &Spot) -> bool {
        let Some((one, other)) = one.fork(other) else { return false };
        (self.links.contains_key(&one), one) < (self.links.contains_key(&other), other)
    }

    /// The directory at which two ways part.
    fn fork(&self, one: &Spot, other: &Spot) -> Option<Arc<Spot>> {
        let (entry, _) = one.fork(other)?;
        let (parent, _) = entry.parent_and_name()?;
        self.directories.get_key_value(&parent).map(|(spot, _)| Arc::clone(spot))
    }
}
