//! Lists of names that clients of a fleet share: what is sent to many of them at once is the same for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;

use crate::resource::{Mark, TypeUrl};
use crate::snapshot::Item;

#[cfg(test)]
mod tests;

/// The least names of a response for which there is a list: below it what a client has of each costs less than an hour's logs. Histories of
/// tests have few names.
const FEWEST: usize = if cfg!(any(test, fuzzing)) { 2 } else { 64 };

/// A list serves for another response of which no more than one in so many names is not in it, or in another version.
const FEW: usize = 4;

/// The names of a response with their versions. It keeps none of the resources.
pub(crate) struct Listing {
    entries: Box<[Entry]>,
    places: HashMap<Arc<str>, u32>,
}

/// One name.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) mark: Mark,
    /// The number of its item.
    pub(crate) seq: u64,
}

impl Listing {
    pub(crate) fn new(items: &[Arc<Item>]) -> Self {
        let entry =
            |item: &Arc<Item>| Entry { name: Arc::clone(item.name()), mark: item.version().mark(), seq: item.seq };
        let entries: Box<[Entry]> = items.iter().map(entry).collect();
        let places = entries.iter().zip(0..).map(|(entry, place)| (Arc::clone(&entry.name), place)).collect();
        Self { entries, places }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The place of a name.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        usize::try_from(*self.places.get(name)?).ok()
    }

    pub(crate) fn entry(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// Whether most of these items are in it.
    fn is_of(&self, items: &[Arc<Item>]) -> bool {
        let is_at = |(place, item): (usize, &&Arc<Item>)| {
            let same = |place: usize| self.entry(place).is_some_and(|entry| entry.seq == item.seq);
            self.entry(place).is_some_and(|entry| Arc::ptr_eq(&entry.name, item.name()) && entry.seq == item.seq)
                || self.place(item.name()).is_some_and(same)
        };
        let others = items.iter().enumerate().filter(|(place, item)| !is_at((*place, item))).count();
        others <= items.len() / FEW && self.len() <= items.len() * 2
    }
}

/// What clients of a fleet share, as long as one of them has it.
#[derive(Default)]
pub(crate) struct Listings(BTreeMap<TypeUrl, Shared>);

/// The latest list of a kind, and the latest items that were sent together.
type Shared = (Weak<Listing>, Option<Weak<[Arc<Item>]>>);

impl Listings {
    /// The list for a response with these items, and the items as they are shared; no list for a few.
    pub(crate) fn share(
        &mut self,
        type_url: &TypeUrl,
        items: Vec<Arc<Item>>,
    ) -> (Arc<[Arc<Item>]>, Option<Arc<Listing>>) {
        if items.len() < FEWEST {
            return (items.into(), None);
        }
        let (listing, shared) = self.0.entry(type_url.clone()).or_default();
        let same = |shared: &Arc<[Arc<Item>]>| {
            shared.len() == items.len() && shared.iter().zip(&items).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        let listed = listing.upgrade().filter(|listing| listing.is_of(&items)).unwrap_or_else(|| {
            let new = Arc::new(Listing::new(&items));
            *listing = Arc::downgrade(&new);
            new
        });
        let items = shared.as_ref().and_then(Weak::upgrade).filter(same).unwrap_or_else(|| {
            let new: Arc<[Arc<Item>]> = items.into();
            *shared = Some(Arc::downgrade(&new));
            new
        });
        (items, Some(listed))
    }
}
