//! The members of a group, as a transform sees them: keys and values in the order of the keys.
#![expect(clippy::indexing_slicing, reason = "the rows of a group are numbers that its table issued")]

use std::fmt::{self, Debug};

use crate::slab::Slot;

/// The rows of one group, sorted by key. Copying it copies two references.
pub struct Members<'g, K, V> {
    rows: &'g [u32],
    slots: &'g [Slot<K, Option<V>>],
}

impl<'g, K, V> Members<'g, K, V> {
    pub(crate) fn new(rows: &'g [u32], slots: &'g [Slot<K, Option<V>>]) -> Self {
        Members { rows, slots }
    }

    pub(crate) fn none() -> Self {
        Members { rows: &[], slots: &[] }
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none. What a `group` transform is given is never empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The member with the smallest key.
    #[must_use]
    pub fn first(&self) -> Option<(&'g K, &'g V)> {
        self.iter().next()
    }

    /// Keys and values in the order of the keys.
    #[must_use]
    pub fn iter(&self) -> MembersIter<'g, K, V> {
        MembersIter { rows: self.rows.iter(), slots: self.slots }
    }

    /// Keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &'g K> + use<'g, K, V> {
        self.iter().map(|(key, _)| key)
    }

    /// Values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &'g V> + use<'g, K, V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K, V> Clone for Members<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Members<'_, K, V> {}

impl<K: Debug, V: Debug> Debug for Members<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'g, K, V> IntoIterator for Members<'g, K, V> {
    type Item = (&'g K, &'g V);
    type IntoIter = MembersIter<'g, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over [`Members`].
pub struct MembersIter<'g, K, V> {
    rows: std::slice::Iter<'g, u32>,
    slots: &'g [Slot<K, Option<V>>],
}

impl<'g, K, V> MembersIter<'g, K, V> {
    /// A member always has both; a row without them would be skipped.
    fn entry(&self, row: u32) -> Option<(&'g K, &'g V)> {
        let slot = &self.slots[row as usize];
        Some((slot.key.as_ref()?, slot.body.as_ref()?))
    }
}

impl<'g, K, V> Iterator for MembersIter<'g, K, V> {
    type Item = (&'g K, &'g V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = *self.rows.next()?;
            if let Some(entry) = self.entry(row) {
                return Some(entry);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for MembersIter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let row = *self.rows.next_back()?;
            if let Some(entry) = self.entry(row) {
                return Some(entry);
            }
        }
    }
}

impl<K, V> ExactSizeIterator for MembersIter<'_, K, V> {}
