//! The graph: its declaration, and the writing of its inputs.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::bits::{Bits, Dirty};
use crate::chunks::{Chunk, Chunking};
use crate::cx::{Cx, Reads};
use crate::edges::{Edges, MAX_TABLES};
use crate::groups::{Groups, Log};
use crate::handle::{Index, Key, Table, Value};
use crate::indexing::{GroupsOf, Indexing, Tallying};
use crate::members::Members;
use crate::node::{AnyNode, TOO_MANY_ROWS};
use crate::report::{NodeKind, Refusals};
use crate::rows::Rows;
use crate::stable::Stable;
use crate::table::{AnyTable, Feed, table_mut};
use crate::units::{Eval, Units};

mod read;
mod tick;

/// Tables, and the transforms between them, in the order of declaration. See the crate's documentation.
#[derive(Default)]
pub struct Graph {
    /// Node `i` writes table `i` and reads tables `..i`. These lists are parallel.
    tables: Vec<Box<dyn AnyTable>>,
    nodes: Vec<Node>,
    dirty: Vec<Dirty>,
    /// Nodes that have something to do: dirty units, or rows written from outside.
    due: Bits,
    /// Nodes that the last tick stepped through, until the graph settles.
    stepped: Vec<u32>,
    /// Nodes whose units are the rows of the table.
    feeds: Vec<Vec<Feed>>,
    edges: Edges,
    refusals: Refusals,
    reads: Reads,
    units: Vec<u32>,
}

struct Node {
    name: Cow<'static, str>,
    kind: NodeKind,
    /// None for an input.
    run: Option<Box<dyn AnyNode>>,
    runs: u64,
    time: Duration,
}

/// A node about to be declared.
struct Declared {
    name: Cow<'static, str>,
    kind: NodeKind,
    /// The table that feeds it.
    source: Option<Source>,
}

/// What feeds a node.
#[derive(Clone, Copy)]
struct Source {
    table: u16,
    /// Only rows that come or go, not what is in them.
    presence: bool,
}

impl Source {
    fn of(table: u16) -> Option<Source> {
        Some(Source { table, presence: false })
    }
}

const NO_SUCH_TABLE: &str = "the handle is not of a table of this graph";
const NOT_AN_INPUT: &str = "only inputs can be written from outside";
const TOO_MANY_TABLES: &str = "the graph has the most tables that a graph can have";

impl Graph {
    /// An empty graph.
    #[must_use]
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A table written from outside.
    ///
    /// Names are for people, and should be unique. At most 8,190 tables and indexes fit into a graph, 2^31 - 1 rows
    /// into a table; what does not fit is refused and listed in [`Graph::refusals`].
    pub fn input<K: Key, V: Value>(&mut self, name: impl Into<Cow<'static, str>>) -> Table<K, V> {
        let declared = Declared { name: name.into(), kind: NodeKind::Input, source: None };
        Table::new(self.declare(declared, |id| Box::new(Rows::<K, V>::new(id)), None))
    }

    /// One row per row, with the same key.
    pub fn map<K, V, V2, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        source: Table<K, V>,
        transform: F,
    ) -> Table<K, V2>
    where
        K: Key,
        V: Value,
        V2: Value,
        F: for<'g> Fn(&mut Cx<'g>, &'g K, &'g V) -> V2 + Send + Sync + 'static,
    {
        self.rows(name, Source::of(source.id), move |cx, unit, out| {
            if let Some((key, value)) = cx.rows(source).and_then(|rows| rows.entry(unit)) {
                let value = transform(cx, key, value);
                out.push((key.clone(), value));
            }
        })
    }

    /// Zero or more rows per row. Of several rows that give the same key, the one with the smallest key of its own has
    /// it ([`Graph::conflicts`]); of several in one run, the first.
    pub fn derive<K, V, K2, V2, I, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        source: Table<K, V>,
        transform: F,
    ) -> Table<K2, V2>
    where
        K: Key,
        V: Value,
        K2: Key,
        V2: Value,
        I: IntoIterator<Item = (K2, V2)>,
        F: for<'g> Fn(&mut Cx<'g>, &'g K, &'g V) -> I + Send + Sync + 'static,
    {
        self.rows(name, Source::of(source.id), move |cx, unit, out| {
            if let Some((key, value)) = cx.rows(source).and_then(|rows| rows.entry(unit)) {
                out.extend(transform(cx, key, value));
            }
        })
    }

    /// Groups of rows, each sorted by key. A row can be in several groups. The function sees key and value only: if a
    /// group depends on another table, derive a table first.
    pub fn index<G, K, V, I, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        source: Table<K, V>,
        groups: F,
    ) -> Index<G, K, V>
    where
        G: Key,
        K: Key,
        V: Value,
        I: IntoIterator<Item = G>,
        F: Fn(&K, &V) -> I + Send + Sync + 'static,
    {
        let groups_of: GroupsOf<G, K, V> = Box::new(move |key, value, out| out.extend(groups(key, value)));
        let declared = Declared { name: name.into(), kind: NodeKind::Index, source: Source::of(source.id) };
        let node = Indexing::new(source.id, groups_of);
        Index::new(self.declare(
            declared,
            |id| Box::new(Groups::<G>::new(id, source.id, Log::Off)),
            Some(Box::new(node)),
        ))
    }

    /// One row per group that has members.
    pub fn group<G, K, V, V2, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        index: Index<G, K, V>,
        transform: F,
    ) -> Table<G, V2>
    where
        G: Key,
        K: Key,
        V: Value,
        V2: Value,
        F: for<'g> Fn(&mut Cx<'g>, &'g G, Members<'g, K, V>) -> V2 + Send + Sync + 'static,
    {
        self.rows(name, Source::of(index.id), move |cx, unit, out| {
            if let Some((group, members)) = cx.group(index, unit) {
                let value = transform(cx, group, members);
                out.push((group.clone(), value));
            }
        })
    }

    /// Zero or more rows per group that has members; conflicts as in [`Graph::derive`].
    pub fn derive_group<G, K, V, K2, V2, I, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        index: Index<G, K, V>,
        transform: F,
    ) -> Table<K2, V2>
    where
        G: Key,
        K: Key,
        V: Value,
        K2: Key,
        V2: Value,
        I: IntoIterator<Item = (K2, V2)>,
        F: for<'g> Fn(&mut Cx<'g>, &'g G, Members<'g, K, V>) -> I + Send + Sync + 'static,
    {
        self.rows(name, Source::of(index.id), move |cx, unit, out| {
            if let Some((group, members)) = cx.group(index, unit) {
                out.extend(transform(cx, group, members));
            }
        })
    }

    /// Zero or more rows per group that has members, whatever these are: runs when a group comes or goes, and never for what
    /// its members say. Conflicts as in [`Graph::derive`].
    pub fn distinct<G, K, V, K2, V2, I, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        index: Index<G, K, V>,
        transform: F,
    ) -> Table<K2, V2>
    where
        G: Key,
        K: Key,
        V: Value,
        K2: Key,
        V2: Value,
        I: IntoIterator<Item = (K2, V2)>,
        F: for<'g> Fn(&mut Cx<'g>, &'g G) -> I + Send + Sync + 'static,
    {
        self.rows(name, Some(Source { table: index.id, presence: true }), move |cx, unit, out| {
            if let Some((group, _)) = cx.group(index, unit) {
                out.extend(transform(cx, group));
            }
        })
    }

    /// The number of rows per group, for who needs no more than that: an index would keep the members, sorted, for nothing.
    /// A group without rows has no row.
    pub fn tally<G, K, V, I, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        source: Table<K, V>,
        groups: F,
    ) -> Table<G, usize>
    where
        G: Key,
        K: Key,
        V: Value,
        I: IntoIterator<Item = G>,
        F: Fn(&K, &V) -> I + Send + Sync + 'static,
    {
        let groups_of: GroupsOf<G, K, V> = Box::new(move |key, value, out| out.extend(groups(key, value)));
        let declared = Declared { name: name.into(), kind: NodeKind::Index, source: Source::of(source.id) };
        let node = Tallying::new(source.id, groups_of);
        Table::new(self.declare(declared, |id| Box::new(Rows::<G, usize>::new(id)), Some(Box::new(node))))
    }

    /// The same groups in pieces of about `size` members (1 to 2^20), at most four times as many.
    ///
    /// Where a group is cut depends on its keys alone: every history gives the same pieces, and a key that comes or
    /// goes changes one piece, or two where it is the first of one. Groups under about 1,000 members are as well left
    /// whole. To list the pieces of a group in order, compute a table per piece and index it by `chunk.group`.
    pub fn chunks<G, K, V>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        index: Index<G, K, V>,
        size: usize,
    ) -> Index<Chunk<G, K>, K, V>
    where
        G: Key,
        K: Key + Stable,
        V: Value,
    {
        let source = match self.tables.get_mut(index.id as usize).and_then(|table| table_mut::<Groups<G>>(&mut **table))
        {
            Some(groups) => {
                groups.keep_log();
                groups.source
            }
            None => u16::MAX,
        };
        let declared = Declared { name: name.into(), kind: NodeKind::Chunks, source: Source::of(index.id) };
        let node = Chunking::<G, K, V>::new(index.id, size);
        let table = |id| -> Box<dyn AnyTable> { Box::new(Groups::<Chunk<G, K>>::new(id, source, Log::Unknown)) };
        Index::new(self.declare(declared, table, Some(Box::new(node))))
    }

    /// Writes a row of an input. The latest value of a key before a tick wins; a value equal to the present one is
    /// no change.
    pub fn set<K: Key, V: Value>(&mut self, input: Table<K, V>, key: K, value: V) {
        let Some(rows) = self.writable(input) else { return };
        if let Some(row) = rows.slab.intern(key) {
            rows.write(row, Some(value));
            return;
        }
        self.refuse(input.id, TOO_MANY_ROWS);
    }

    /// Makes room for the first rows of an input. Growing step by step would hash each key several times.
    pub fn make_room<K: Key, V: Value>(&mut self, input: Table<K, V>, rows: usize) {
        if let Some(table) = self.writable(input) {
            table.slab.make_room(rows);
        }
    }

    /// Removes a row of an input; whether it was there.
    pub fn remove<K: Key, V: Value>(&mut self, input: Table<K, V>, key: &K) -> bool {
        let Some(rows) = self.writable(input) else { return false };
        let Some(row) = rows.live_row(key) else { return false };
        rows.write(row, None);
        true
    }

    fn writable<K: Key, V: Value>(&mut self, input: Table<K, V>) -> Option<&mut Rows<K, V>> {
        match self.nodes.get(input.id as usize) {
            Some(node) if node.run.is_some() => {
                self.refuse(input.id, NOT_AN_INPUT);
                return None;
            }
            Some(_) => {}
            None => self.refuse(input.id, NO_SUCH_TABLE),
        }
        self.due.insert(u32::from(input.id));
        table_mut(&mut **self.tables.get_mut(input.id as usize)?)
    }

    fn rows<K: Key, V: Value>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        source: Option<Source>,
        eval: impl Fn(&mut Cx<'_>, u32, &mut Vec<(K, V)>) + Send + Sync + 'static,
    ) -> Table<K, V> {
        let eval: Eval<K, V> = Box::new(eval);
        let declared = Declared { name: name.into(), kind: NodeKind::Derived, source };
        let node = Box::new(Units::new(source.map_or(u16::MAX, |source| source.table), eval));
        Table::new(self.declare(declared, |id| Box::new(Rows::<K, V>::new(id)), Some(node)))
    }

    fn declare(
        &mut self,
        Declared { name, kind, source }: Declared,
        table: impl FnOnce(u16) -> Box<dyn AnyTable>,
        run: Option<Box<dyn AnyNode>>,
    ) -> u16 {
        if self.tables.len() >= MAX_TABLES as usize {
            self.refusals.add(&name, TOO_MANY_TABLES);
            return u16::MAX;
        }
        let id = self.tables.len() as u16;
        let mut dirty = Dirty::default();
        if let Some(source) = source {
            let Source { table, presence } = source;
            match (self.feeds.get_mut(table as usize), self.tables.get(table as usize)) {
                (Some(feeds), Some(table)) => {
                    feeds.push(Feed { node: id, presence });
                    // A node declared late has its first run at the next tick.
                    table.rows().into_iter().for_each(|row| dirty.insert(row));
                    self.due.insert(u32::from(id));
                }
                _ => self.refusals.add(&name, NO_SUCH_TABLE),
            }
        }
        self.tables.push(table(id));
        self.nodes.push(Node { name, kind, run, runs: 0, time: Duration::ZERO });
        self.dirty.push(dirty);
        self.feeds.push(Vec::new());
        id
    }

    fn refuse(&mut self, id: u16, reason: &'static str) {
        let name = self.nodes.get(id as usize).map_or("", |node| &node.name);
        self.refusals.add(name, reason);
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

#[cfg(test)]
mod tests;
