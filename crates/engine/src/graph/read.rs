//! Reading a graph from outside: values, changes, costs, and what went wrong.

use crate::graph::Graph;
use crate::groups::Groups;
use crate::handle::{Index, Key, Table, Value};
use crate::members::Members;
use crate::report::{Change, Conflict, GraphSize, NodeStats, Panic, Refusal};
use crate::rows::Rows;
use crate::table::table;

impl Graph {
    /// The value of a key. Of an input that is what was set last, of any other table what the last tick computed.
    #[must_use]
    pub fn get<K: Key, V: Value>(&self, table: Table<K, V>, key: &K) -> Option<&V> {
        let rows = self.table_of(table)?;
        rows.value(rows.live_row(key)?)
    }

    /// All rows, in an order that depends on history: replicas differ. Whoever writes bytes goes through a group, or
    /// sorts.
    pub fn iter<K: Key, V: Value>(&self, table: Table<K, V>) -> impl Iterator<Item = (&K, &V)> {
        let slots = self.table_of(table).map_or(&[][..], |rows| rows.slab.slots());
        slots.iter().filter_map(|slot| Some((slot.key.as_ref()?, slot.body.as_ref()?)))
    }

    /// The number of rows.
    #[must_use]
    pub fn len<K: Key, V: Value>(&self, table: Table<K, V>) -> usize {
        self.tables.get(table.id as usize).map_or(0, |table| table.len())
    }

    /// Whether a table has no rows.
    #[must_use]
    pub fn is_empty<K: Key, V: Value>(&self, table: Table<K, V>) -> bool {
        self.len(table) == 0
    }

    /// The members of a group after the last tick, in the order of their keys.
    ///
    /// After an input was removed and before the next tick, a group no longer yields the row.
    #[must_use]
    pub fn members<G: Key, K: Key, V: Value>(&self, index: Index<G, K, V>, group: &G) -> Members<'_, K, V> {
        self.find_members(index, group).unwrap_or(Members::none())
    }

    /// All groups that have members, in an order that depends on history.
    pub fn groups<G: Key, K: Key, V: Value>(&self, index: Index<G, K, V>) -> impl Iterator<Item = &G> {
        let slots = table::<Groups<G>>(&self.tables, index.id).map_or(&[][..], |groups| groups.slab.slots());
        slots.iter().filter(|slot| !slot.body.is_empty()).filter_map(|slot| slot.key.as_ref())
    }

    /// The rows that the last tick changed, each once, in no order; empty once the graph has settled. Read the changes
    /// of an input before setting it again: `new` is its present value.
    pub fn changes<K: Key, V: Value>(&self, table: Table<K, V>) -> impl Iterator<Item = Change<'_, K, V>> {
        let changes = self.table_of(table).into_iter().flat_map(Rows::changes);
        changes.filter_map(|(key, old, new)| Some(Change { key: key?, old, new }))
    }

    /// The keys that more than one unit emits, sorted. A conflict that users can cause is better a group, keyed by what
    /// is claimed, so that the transform can tell the loser who won.
    #[must_use]
    pub fn conflicts<K: Key, V: Value>(&self, table: Table<K, V>) -> Vec<Conflict<'_, K>> {
        let node = self.nodes.get(table.id as usize);
        let (Some(run), Some(rows)) = (node.and_then(|node| node.run.as_ref()), self.table_of(table)) else {
            return Vec::new();
        };
        let Some(source) = run.source().and_then(|source| self.tables.get(source as usize)) else { return Vec::new() };
        let conflict = |(row, owner, losers): (u32, u32, &[u32])| {
            let mut losers = losers.to_vec();
            losers.sort_unstable_by(|left, right| source.compare(*left, *right));
            let losers = losers.into_iter().map(|loser| source.describe(loser)).collect();
            Some(Conflict { key: rows.slab.key(row)?, owner: source.describe(owner), losers })
        };
        let mut conflicts: Vec<_> = run.conflicts().into_iter().filter_map(conflict).collect();
        conflicts.sort_unstable_by(|left, right| left.key.cmp(right.key));
        conflicts
    }

    /// The units that have no output because their transform panicked, sorted by node and key. Rust's panic hook has
    /// been called for each.
    #[must_use]
    pub fn panics(&self) -> Vec<Panic<'_>> {
        let mut panics = Vec::new();
        for node in &self.nodes {
            let units = node.run.iter().flat_map(|run| run.failures().units.values());
            let first = panics.len();
            panics.extend(units.map(|unit| Panic { node: &node.name, key: &unit.key, message: &unit.message }));
            if let Some(of_node) = panics.get_mut(first..) {
                of_node.sort_unstable_by_key(|panic| panic.key);
            }
        }
        panics
    }

    /// What was asked of the graph and not done: a bound was reached, or a handle was used where it cannot be.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        self.refusals.list()
    }

    /// Every node in the order of declaration, with its costs since the start.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeStats<'_>> {
        self.nodes.iter().zip(&self.tables).map(|(node, table)| NodeStats {
            name: &node.name,
            kind: node.kind,
            size: table.len(),
            runs: node.runs,
            time: node.time,
        })
    }

    /// What the graph remembers.
    #[must_use]
    pub fn size(&self) -> GraphSize {
        GraphSize { edges: self.edges.len(), keys: self.tables.iter().map(|table| table.remembered()).sum() }
    }

    fn table_of<K: Key, V: Value>(&self, handle: Table<K, V>) -> Option<&Rows<K, V>> {
        table(&self.tables, handle.id)
    }

    fn find_members<G: Key, K: Key, V: Value>(&self, index: Index<G, K, V>, group: &G) -> Option<Members<'_, K, V>> {
        let groups = table::<Groups<G>>(&self.tables, index.id)?;
        let source = table::<Rows<K, V>>(&self.tables, groups.source)?;
        Some(Members::new(groups.members(groups.live_row(group)?), source.slab.slots()))
    }
}
