//! What a transform reads with: every read is recorded, so that exactly the right runs come again.

use std::fmt;

use crate::edges::{Facet, Target};
use crate::groups::Groups;
use crate::handle::{Index, Key, Table, Value};
use crate::members::Members;
use crate::rows::Rows;
use crate::table::{Tables, table};

/// The reads of one run of one unit. What it returns borrows from the graph, not from `Cx`, so reads nest freely.
///
/// Ask for the least: a run comes again only for what it asked.
pub struct Cx<'g> {
    tables: &'g Tables,
    reads: &'g mut Reads,
}

/// What a run has read so far.
#[derive(Default)]
pub(crate) struct Reads {
    pub(crate) targets: Vec<Target>,
    /// A read could not be recorded, so the result of the run cannot be trusted to be woken.
    pub(crate) lost: bool,
}

impl<'g> Cx<'g> {
    pub(crate) fn new(tables: &'g Tables, reads: &'g mut Reads) -> Self {
        Cx { tables, reads }
    }

    /// The value of a key. Runs again when the value changes, comes or goes.
    pub fn get<K: Key, V: Value>(&mut self, table: Table<K, V>, key: &K) -> Option<&'g V> {
        let rows = self.rows(table)?;
        let row = self.record(rows.read(key, Facet::Value))?;
        rows.value(row)
    }

    /// Whether a key has a value. Runs again when that comes or goes.
    pub fn contains<K: Key, V: Value>(&mut self, table: Table<K, V>, key: &K) -> bool {
        let Some(rows) = self.rows(table) else { return false };
        self.record(rows.read(key, Facet::Presence)).is_some()
    }

    /// The members of a group in the order of their keys. Runs again when any key or value of the group changes.
    pub fn members<G: Key, K: Key, V: Value>(&mut self, index: Index<G, K, V>, group: &G) -> Members<'g, K, V> {
        self.facet(index, group, Facet::Value)
    }

    /// The keys of a group in order. Runs again when these change.
    pub fn keys<G: Key, K: Key, V: Value>(
        &mut self,
        index: Index<G, K, V>,
        group: &G,
    ) -> impl DoubleEndedIterator<Item = &'g K> + use<'g, G, K, V> {
        self.facet(index, group, Facet::Keys).keys()
    }

    /// The number of members of a group. Runs again when it changes.
    pub fn count<G: Key, K: Key, V: Value>(&mut self, index: Index<G, K, V>, group: &G) -> usize {
        self.facet(index, group, Facet::Count).len()
    }

    /// Whether a group has members. Runs again when that changes.
    pub fn any<G: Key, K: Key, V: Value>(&mut self, index: Index<G, K, V>, group: &G) -> bool {
        !self.facet(index, group, Facet::Presence).is_empty()
    }

    pub(crate) fn rows<K: Key, V: Value>(&self, handle: Table<K, V>) -> Option<&'g Rows<K, V>> {
        table(self.tables, handle.id)
    }

    /// The members of a group by number. Not recorded: the unit is fed by it.
    pub(crate) fn group<G: Key, K: Key, V: Value>(
        &self,
        index: Index<G, K, V>,
        row: u32,
    ) -> Option<(&'g G, Members<'g, K, V>)> {
        let groups: &Groups<G> = table(self.tables, index.id)?;
        let source: &Rows<K, V> = table(self.tables, groups.source)?;
        let group = groups.slab.key(row)?;
        let members = Members::new(groups.members(row), source.slab.slots());
        (!members.is_empty()).then_some((group, members))
    }

    fn facet<G: Key, K: Key, V: Value>(&mut self, index: Index<G, K, V>, group: &G, facet: Facet) -> Members<'g, K, V> {
        let Some(groups) = table::<Groups<G>>(self.tables, index.id) else { return Members::none() };
        let Some(row) = self.record(groups.read(group, facet)) else { return Members::none() };
        let Some(source) = table::<Rows<K, V>>(self.tables, groups.source) else { return Members::none() };
        Members::new(groups.members(row), source.slab.slots())
    }

    fn record(&mut self, (target, row): (Option<Target>, Option<u32>)) -> Option<u32> {
        match target {
            Some(target) => self.reads.targets.push(target),
            None => self.reads.lost = true,
        }
        row
    }
}

impl fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("reads", &self.reads.targets.len()).finish_non_exhaustive()
    }
}
