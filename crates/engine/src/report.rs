//! What a graph says about itself: changes, costs, conflicts, and what went wrong.

use std::time::Duration;

/// One row that differs from what it was before the last tick. At most one of `old` and `new` is None, and they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'g, K, V> {
    /// The key of the row.
    pub key: &'g K,
    /// The value before the tick; None: the row came.
    pub old: Option<&'g V>,
    /// The value after the tick; None: the row went.
    pub new: Option<&'g V>,
}

/// What one tick did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickStats {
    /// Nodes that had something to do.
    pub nodes: usize,
    /// Runs of transforms: rows and groups that were computed (again).
    pub runs: u64,
}

/// What kind of node stands behind a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Written from outside.
    Input,
    /// `map`, `derive`, `group` or `derive_group`: rows computed by a transform.
    Derived,
    /// Groups of rows.
    Index,
    /// Pieces of groups.
    Chunks,
}

/// The name, size and cost of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStats<'g> {
    /// As declared.
    pub name: &'g str,
    /// What kind of node it is.
    pub kind: NodeKind,
    /// Rows with a value, or groups with members.
    pub size: usize,
    /// Runs since the start.
    pub runs: u64,
    /// Time in its runs and in telling others of the changes, since the start.
    pub time: Duration,
}

/// What the graph remembers, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphSize {
    /// Recorded reads, 24 bytes each and a few more for the lists.
    pub edges: usize,
    /// Keys of rows and groups, those that were looked for and are absent included.
    pub keys: usize,
}

/// A unit that has no output because its transform panicked, or because a bound of the engine was reached.
///
/// It runs again when anything that it read changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panic<'g> {
    /// The node.
    pub node: &'g str,
    /// The unit: `Debug` of the key of the row or of the group.
    pub key: &'g str,
    /// What the panic said.
    pub message: &'g str,
}

/// A key that more than one unit emits. The unit with the smallest key of its own has the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict<'g, K> {
    /// The key that is emitted more than once.
    pub key: &'g K,
    /// `Debug` of the key of the unit whose value the row has.
    pub owner: String,
    /// The same of the others, in the order of their keys.
    pub losers: Vec<String>,
}

/// Something that was asked of the graph and not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The node concerned.
    pub node: String,
    /// Why.
    pub reason: &'static str,
}

/// Refusals kept at most. Each is a fault of the program or the end of a bound and comes once per node, and a graph
/// has a few dozen nodes.
const MAX_REFUSALS: usize = 256;

#[derive(Default)]
pub(crate) struct Refusals {
    list: Vec<Refusal>,
}

impl Refusals {
    pub(crate) fn add(&mut self, node: &str, reason: &'static str) {
        let known = self.list.iter().any(|refusal| refusal.node == node && refusal.reason == reason);
        if !known && self.list.len() < MAX_REFUSALS {
            self.list.push(Refusal { node: node.to_owned(), reason });
        }
    }

    pub(crate) fn list(&self) -> &[Refusal] {
        &self.list
    }
}
