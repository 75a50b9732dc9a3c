//! What the graph asks of a table without knowing its types, and how a table wakes its readers.

use std::any::Any;
use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bits::{Bits, Dirty};
use crate::edges::{Edges, Facet, Target};
use crate::fault::{self, Fault};
use crate::handle::Key;
use crate::slab::Slab;

pub(crate) trait AnyTable: Any + Send + Sync {
    /// Ends the writing of this tick: marks what is fed by the rows that changed, and who read them.
    fn publish(&mut self, wake: &mut Wake<'_>);
    /// Frees old values and the rows that were removed.
    fn settle(&mut self);
    /// Something was written that is not published yet.
    fn is_pending(&self) -> bool;
    /// Forgets an absent key.
    fn forget(&mut self, absence: u32);
    /// Rows with a value, or groups with members.
    fn len(&self) -> usize;
    /// The numbers of these rows.
    fn rows(&self) -> Vec<u32>;
    /// The order of two rows, by key.
    fn compare(&self, left: u32, right: u32) -> Ordering;
    /// The key of a row, for people.
    fn describe(&self, row: u32) -> String;
    /// Keys remembered, absent ones included.
    fn remembered(&self) -> usize;
}

/// The tables that a node may read: those declared before it.
pub(crate) type Tables = [Box<dyn AnyTable>];

pub(crate) fn table<T: AnyTable>(tables: &Tables, id: u16) -> Option<&T> {
    let table: &dyn Any = &**tables.get(id as usize)?;
    table.downcast_ref()
}

pub(crate) fn table_mut<T: AnyTable>(table: &mut dyn AnyTable) -> Option<&mut T> {
    let table: &mut dyn Any = table;
    table.downcast_mut()
}

/// A node whose units are the rows of a table.
#[derive(Clone, Copy)]
pub(crate) struct Feed {
    pub(crate) node: u16,
    /// It looks only at whether a row is there.
    pub(crate) presence: bool,
}

/// Who is told of changes.
pub(crate) struct Wake<'t> {
    pub(crate) edges: &'t Edges,
    /// Nodes whose units are the rows of this table.
    pub(crate) feeds: &'t [Feed],
    pub(crate) dirty: &'t mut [Dirty],
    /// Nodes that have something to do.
    pub(crate) due: &'t mut Bits,
}

impl Wake<'_> {
    /// The unit of the same number, in every node fed by the table; where the row is as present as it was, not in those that
    /// look at nothing else.
    pub(crate) fn feed(&mut self, row: u32, came_or_went: bool) {
        for feed in
            self.feeds.iter().filter(|feed| !feed.presence || (came_or_went && !fault::on(Fault::SleepDistinct)))
        {
            if let Some(dirty) = self.dirty.get_mut(feed.node as usize) {
                dirty.insert(row);
                self.due.insert(u32::from(feed.node));
            }
        }
    }

    pub(crate) fn readers(&mut self, table: u16, facet: Facet, row: u32) {
        let asleep = match facet {
            Facet::Value => Fault::SleepValue,
            Facet::Presence => Fault::SleepPresence,
            Facet::Absence => Fault::SleepAbsence,
            Facet::Keys => Fault::SleepKeys,
            Facet::Count => Fault::SleepCount,
        };
        if fault::on(asleep) {
            return;
        }
        self.edges.for_readers(Target::new(table, facet, row), |node, unit| {
            if let Some(dirty) = self.dirty.get_mut(node as usize) {
                dirty.insert(unit);
                self.due.insert(u32::from(node));
            }
        });
    }
}

/// Keys that somebody read and did not find. They have numbers of their own: while a transform reads, it holds
/// borrows of the table's values, so a new key cannot become a row.
pub(crate) struct Absent<K> {
    keys: Mutex<Slab<K, ()>>,
}

impl<K> Default for Absent<K> {
    fn default() -> Self {
        Absent { keys: Mutex::default() }
    }
}

impl<K: Key> Absent<K> {
    /// The number of an absent key. None: no room for more, and the read is refused.
    pub(crate) fn intern(&self, key: &K) -> Option<u32> {
        let mut keys = self.lock();
        keys.find(key).or_else(|| keys.intern(key.clone()))
    }

    pub(crate) fn find(&mut self, key: &K) -> Option<u32> {
        let keys = self.keys.get_mut().unwrap_or_else(PoisonError::into_inner);
        if keys.is_empty() { None } else { keys.find(key) }
    }

    pub(crate) fn forget(&mut self, number: u32) {
        if !fault::on(Fault::KeepAbsent) {
            let keys = self.keys.get_mut().unwrap_or_else(PoisonError::into_inner);
            keys.release(number);
            // Nearly all keys of a first fill are looked for before they come.
            keys.clear();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Slab<K, ()>> {
        // A panic of a key's own `Hash` or `Eq` leaves the slab as it was: both run before anything is written.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
