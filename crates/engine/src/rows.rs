//! A table: rows with a key and a value, what changed in them, and who looked for keys that are not there.

use std::cmp::Ordering;

use crate::bits::Bits;
use crate::edges::{Facet, Target};
use crate::fault::{self, Fault};
use crate::handle::{Key, Value};
use crate::slab::Slab;
use crate::table::{Absent, AnyTable, Wake};

pub(crate) struct Rows<K, V> {
    pub(crate) id: u16,
    /// A key without a value was removed, and keeps its number until the table settles: nothing that was read in
    /// this tick may come to mean another key.
    pub(crate) slab: Slab<K, Option<V>>,
    live: usize,
    /// Rows written since the last publication, with the value that they had before the first write.
    pending: Vec<(u32, Option<V>)>,
    in_pending: Bits,
    /// Some row was written twice.
    rewritten: bool,
    /// The changes of the last tick: old values, all different from the present ones.
    published: Vec<(u32, Option<V>)>,
    /// Rows that came and went between two publications: no change, but their keys have to be freed.
    dead: Vec<u32>,
    pub(crate) absent: Absent<K>,
}

impl<K: Key, V: Value> Rows<K, V> {
    pub(crate) fn new(id: u16) -> Self {
        Rows {
            id,
            slab: Slab::default(),
            live: 0,
            pending: Vec::new(),
            in_pending: Bits::default(),
            rewritten: false,
            published: Vec::new(),
            dead: Vec::new(),
            absent: Absent::default(),
        }
    }

    /// What a read of this facet is recorded as, and the row if it has a value.
    pub(crate) fn read(&self, key: &K, facet: Facet) -> (Option<Target>, Option<u32>) {
        match self.live_row(key) {
            Some(row) => (Some(Target::new(self.id, facet, row)), Some(row)),
            None => (self.absent.intern(key).map(|number| Target::new(self.id, Facet::Absence, number)), None),
        }
    }

    pub(crate) fn live_row(&self, key: &K) -> Option<u32> {
        self.slab.find(key).filter(|row| self.slab.body(*row).is_some())
    }

    pub(crate) fn value(&self, row: u32) -> Option<&V> {
        self.slab.body(row).as_ref()
    }

    /// Key and value of a row that has a value.
    pub(crate) fn entry(&self, row: u32) -> Option<(&K, &V)> {
        let key = self.slab.key(row)?;
        Some((key, self.value(row)?))
    }

    pub(crate) fn write(&mut self, row: u32, value: Option<V>) {
        let body = self.slab.body_mut(row);
        if *body == value && !(fault::on(Fault::NoCutOff) && value.is_some()) {
            return;
        }
        self.live = self.live + usize::from(value.is_some()) - usize::from(body.is_some());
        let old = std::mem::replace(body, value);
        if self.in_pending.insert(row) {
            self.pending.push((row, old));
        } else {
            self.rewritten = true;
        }
    }

    /// The changes of the last tick: row, old value, new value.
    pub(crate) fn changes(&self) -> impl ExactSizeIterator<Item = (Option<&K>, Option<&V>, Option<&V>)> {
        self.published.iter().map(|(row, old)| (self.slab.key(*row), old.as_ref(), self.value(*row)))
    }

    /// A row written twice can end where it began, and is then no change: it has the very value of before, not one like it, for
    /// those who know shared values by their address.
    fn drop_what_did_not_change(&mut self) {
        let Rows { slab, pending, in_pending, dead, .. } = self;
        pending.retain_mut(|(row, old)| {
            let new = slab.body_mut(*row);
            let unchanged = *old == *new && !(fault::on(Fault::NoRewriteCheck) && new.is_some());
            if unchanged {
                in_pending.remove(*row);
                std::mem::swap(old, new);
                if new.is_none() {
                    dead.push(*row);
                }
            }
            !unchanged
        });
    }

    fn free(&mut self, row: u32) {
        let gone = self.slab.body(row).is_none() && !self.in_pending.contains(row);
        if gone && !fault::on(Fault::KeepRows) {
            self.slab.release(row);
        }
    }
}

impl<K: Key, V: Value> AnyTable for Rows<K, V> {
    fn publish(&mut self, wake: &mut Wake<'_>) {
        if std::mem::take(&mut self.rewritten) {
            self.drop_what_did_not_change();
        }
        for (row, old) in &self.pending {
            self.in_pending.remove(*row);
            let new = self.slab.body(*row);
            wake.feed(*row, old.is_some() != new.is_some());
            match (old, new) {
                (Some(_), Some(_)) => wake.readers(self.id, Facet::Value, *row),
                (Some(_), None) => {
                    wake.readers(self.id, Facet::Value, *row);
                    wake.readers(self.id, Facet::Presence, *row);
                }
                (None, _) => {
                    if let Some(number) = self.slab.key(*row).and_then(|key| self.absent.find(key)) {
                        wake.readers(self.id, Facet::Absence, number);
                    }
                }
            }
        }
        // The graph settles before it ticks, so nothing is lost here.
        self.published = std::mem::take(&mut self.pending);
    }

    fn settle(&mut self) {
        for (row, old) in std::mem::take(&mut self.published) {
            drop(old);
            self.free(row);
        }
        for row in std::mem::take(&mut self.dead) {
            self.free(row);
        }
    }

    fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn forget(&mut self, absence: u32) {
        self.absent.forget(absence);
    }

    fn len(&self) -> usize {
        self.live
    }

    fn rows(&self) -> Vec<u32> {
        let slots = self.slab.slots().iter().zip(0..);
        slots.filter(|(slot, _)| slot.body.is_some()).map(|(_, row)| row).collect()
    }

    fn compare(&self, left: u32, right: u32) -> Ordering {
        self.slab.key(left).cmp(&self.slab.key(right))
    }

    fn describe(&self, row: u32) -> String {
        self.slab.key(row).map_or_else(String::new, |key| format!("{key:?}"))
    }

    fn remembered(&self) -> usize {
        self.slab.len() + self.absent.len()
    }
}
