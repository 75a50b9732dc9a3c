//! Keys with numbers: each key is stored once, found by hash, and keeps its number until it is released.
#![expect(clippy::indexing_slicing, reason = "rows are numbers that this slab issued")]

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::bits::KEPT;
use crate::handle::Key;

/// No row, no edge, no unit.
pub(crate) const NIL: u32 = u32::MAX;

/// Rows that a table can have. [`crate::lists::Lists`] keeps rows in 31 bits, and `NIL` without its top bit is
/// not a row either; at the 24 bytes that the smallest row costs this is 51 GB in one table.
pub(crate) const MAX_ROWS: u32 = (1 << 31) - 1;

pub(crate) struct Slot<K, S> {
    /// None: the slot is free.
    pub(crate) key: Option<K>,
    pub(crate) body: S,
}

pub(crate) struct Slab<K, S> {
    find: HashTable<u32>,
    slots: Vec<Slot<K, S>>,
    free: Vec<u32>,
    /// Seeded per process: tenants choose the names that are hashed here.
    seed: RandomState,
    limit: u32,
}

impl<K, S> Default for Slab<K, S> {
    fn default() -> Self {
        Slab {
            find: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            seed: RandomState::default(),
            limit: MAX_ROWS,
        }
    }
}

impl<K: Key, S: Default> Slab<K, S> {
    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        let slots = &self.slots;
        self.find.find(self.seed.hash_one(key), |row| slots[*row as usize].key.as_ref() == Some(key)).copied()
    }

    /// The row of the key, a new one if there is none. None: the slab is full.
    pub(crate) fn intern(&mut self, key: K) -> Option<u32> {
        let Slab { find, slots, free, seed, limit } = self;
        let hash = seed.hash_one(&key);
        // The hash of a stored key is made exactly as that of a key looked for: of `&K`, never of `Option<K>`.
        let rehash = |row: &u32| slots[*row as usize].key.as_ref().map_or(0, |key| seed.hash_one(key));
        let vacant = match find.entry(hash, |row| slots[*row as usize].key.as_ref() == Some(&key), rehash) {
            Entry::Occupied(found) => return Some(*found.get()),
            Entry::Vacant(vacant) => vacant,
        };
        let row = match free.pop() {
            Some(row) => {
                slots[row as usize].key = Some(key);
                row
            }
            None if slots.len() >= *limit as usize => return None,
            None => {
                push(slots, Slot { key: Some(key), body: S::default() });
                (slots.len() - 1) as u32
            }
        };
        vacant.insert(row);
        Some(row)
    }

    /// Makes room for this many keys in an empty slab: growing step by step would hash each key several times.
    pub(crate) fn make_room(&mut self, keys: usize) {
        if self.slots.is_empty() {
            self.slots.reserve_exact(keys);
            self.find.reserve(keys, |_| 0);
        }
    }

    /// Gives back most of the room that was made for keys that did not come.
    pub(crate) fn trim(&mut self) {
        let Slab { find, slots, seed, .. } = self;
        if trim(slots) {
            find.shrink_to_fit(|row| slots[*row as usize].key.as_ref().map_or(0, |key| seed.hash_one(key)));
        }
    }

    /// Gives back the room of an empty slab, if it is worth the trouble.
    pub(crate) fn clear(&mut self) {
        if self.is_empty() && self.slots.len() > KEPT {
            (self.find, self.slots, self.free) = (HashTable::new(), Vec::new(), Vec::new());
        }
    }

    /// Forgets the key of a row, so that its number can be issued again. The body must be empty by then.
    pub(crate) fn release(&mut self, row: u32) {
        let Some(key) = self.slots.get(row as usize).and_then(|slot| slot.key.as_ref()) else { return };
        if let Ok(found) = self.find.find_entry(self.seed.hash_one(key), |other| *other == row) {
            found.remove();
        }
        let slot = &mut self.slots[row as usize];
        slot.key = None;
        slot.body = S::default();
        self.free.push(row);
    }

    pub(crate) fn key(&self, row: u32) -> Option<&K> {
        self.slots.get(row as usize)?.key.as_ref()
    }

    pub(crate) fn body(&self, row: u32) -> &S {
        &self.slots[row as usize].body
    }

    pub(crate) fn body_mut(&mut self, row: u32) -> &mut S {
        &mut self.slots[row as usize].body
    }

    pub(crate) fn slots(&self) -> &[Slot<K, S>] {
        &self.slots
    }

    /// Keys that have a row.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[cfg(test)]
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }
}

/// Grows by a quarter, not by doubling: these vectors are most of the memory of the process.
pub(crate) fn push<T>(to: &mut Vec<T>, item: T) {
    if to.len() == to.capacity() {
        to.reserve_exact(to.len() / 4 + 4);
    }
    to.push(item);
}

/// Makes room for this many items in an empty list: growing by quarters would copy each of them several times.
pub(crate) fn make_room<T>(list: &mut Vec<T>, items: usize) {
    if list.is_empty() {
        list.reserve_exact(items);
    }
}

/// Gives back most of the room that was made for items that did not come; true if there was such room.
pub(crate) fn trim<T>(list: &mut Vec<T>) -> bool {
    let roomy = list.capacity() / 2 > list.len().max(KEPT);
    if roomy {
        list.shrink_to_fit();
    }
    roomy
}

/// Makes `at` a valid position.
pub(crate) fn fill_to<T: Clone>(to: &mut Vec<T>, at: usize, item: T) {
    if at >= to.len() {
        if at >= to.capacity() {
            to.reserve_exact(at + 1 - to.len() + at / 4);
        }
        to.resize(at + 1, item);
    }
}

#[cfg(test)]
mod tests;
