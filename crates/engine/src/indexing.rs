//! The nodes behind `index` and `tally`: they keep the groups of every row, and of every group its members sorted by key, or
//! their number.

use crate::bits::{Bits, KEPT};
use crate::groups::{Event, Groups, Log, Op};
use crate::handle::{Key, Value};
use crate::lists::Lists;
use crate::node::{AnyNode, Failures, Step, TOO_MANY_ROWS};
use crate::rows::Rows;
use crate::slab::Slab;
use crate::table::{AnyTable, table, table_mut};

/// Adds the groups of one row to the list.
pub(crate) type GroupsOf<G, K, V> = Box<dyn Fn(&K, &V, &mut Vec<G>) + Send + Sync>;

/// The groups of every row, and what changed in them.
struct Grouping<G, K, V> {
    source: u16,
    groups_of: GroupsOf<G, K, V>,
    /// Row of the source: its groups, rising.
    current: Lists,
    named: Vec<G>,
    groups: Vec<u32>,
    log: Vec<Event>,
    failures: Failures,
}

impl<G: Key, K: Key, V: Value> Grouping<G, K, V> {
    fn new(source: u16, groups_of: GroupsOf<G, K, V>) -> Self {
        Grouping {
            source,
            groups_of,
            current: Lists::default(),
            named: Vec::new(),
            groups: Vec::new(),
            log: Vec::new(),
            failures: Failures::default(),
        }
    }

    /// Notes what changes for one row; `table` is where groups have their numbers.
    fn run_row<S: Default>(&mut self, source: &Rows<K, V>, table: &mut Slab<G, S>, row: u32) {
        let Grouping { groups_of, named, groups, failures, .. } = self;
        let entry = source.entry(row);
        let whole = failures.guard(
            row,
            || source.describe(row),
            || {
                if let Some((key, value)) = entry {
                    groups_of(key, value, named);
                }
            },
        );
        if !whole {
            named.clear();
        }
        groups.clear();
        for group in named.drain(..) {
            match table.intern(group) {
                Some(group) => groups.push(group),
                None => failures.note(row, source.describe(row), TOO_MANY_ROWS),
            }
        }
        groups.sort_unstable();
        groups.dedup();
        compare(self.current.get(row), groups, row, &mut self.log);
        self.current.set(row, groups);
    }
}

/// Keeps the members of every group, sorted.
pub(crate) struct Indexing<G, K, V>(Grouping<G, K, V>);

impl<G: Key, K: Key, V: Value> Indexing<G, K, V> {
    pub(crate) fn new(source: u16, groups_of: GroupsOf<G, K, V>) -> Self {
        Indexing(Grouping::new(source, groups_of))
    }
}

impl<G: Key, K: Key, V: Value> AnyNode for Indexing<G, K, V> {
    fn run(&mut self, step: &mut Step<'_>, groups: &mut dyn AnyTable) -> u64 {
        let Some(groups) = table_mut::<Groups<G>>(groups) else { return 0 };
        let Some(source) = table::<Rows<K, V>>(step.tables, self.0.source) else { return 0 };
        self.0.current.make_room(step.units.len());
        // The first time: most groups have one member.
        groups.slab.make_room(step.units.len());
        for row in step.units {
            self.0.run_row(source, &mut groups.slab, *row);
        }
        groups.slab.trim();
        let mut log = std::mem::take(&mut self.0.log);
        log.sort_unstable();
        for events in log.chunk_by(|left, right| left.group == right.group) {
            let Some(first) = events.first() else { continue };
            let keys = first.op != Op::Touch;
            groups.edit(first.group, keys, |members| apply(source, members, events));
        }
        if let Log::On(kept) = &mut groups.log {
            *kept = log;
        } else {
            log.clear();
            log.shrink_to(KEPT);
            self.0.log = log;
        }
        step.units.len() as u64
    }

    fn failures(&self) -> &Failures {
        &self.0.failures
    }
}

/// Keeps the number of members of every group, and not the members.
pub(crate) struct Tallying<G, K, V>(Grouping<G, K, V>);

impl<G: Key, K: Key, V: Value> Tallying<G, K, V> {
    pub(crate) fn new(source: u16, groups_of: GroupsOf<G, K, V>) -> Self {
        Tallying(Grouping::new(source, groups_of))
    }
}

impl<G: Key, K: Key, V: Value> AnyNode for Tallying<G, K, V> {
    fn run(&mut self, step: &mut Step<'_>, counts: &mut dyn AnyTable) -> u64 {
        let Some(counts) = table_mut::<Rows<G, usize>>(counts) else { return 0 };
        let Some(source) = table::<Rows<K, V>>(step.tables, self.0.source) else { return 0 };
        self.0.current.make_room(step.units.len());
        for row in step.units {
            self.0.run_row(source, &mut counts.slab, *row);
        }
        self.0.log.sort_unstable();
        for events in self.0.log.chunk_by(|left, right| left.group == right.group) {
            let Some(Event { group, .. }) = events.first() else { continue };
            let of = |op| events.iter().filter(|event| event.op == op).count();
            let before = counts.value(*group).copied().unwrap_or(0);
            let after = (before + of(Op::Add)).saturating_sub(of(Op::Remove));
            counts.write(*group, (after > 0).then_some(after));
        }
        self.0.log.clear();
        self.0.log.shrink_to(KEPT);
        step.units.len() as u64
    }

    fn failures(&self) -> &Failures {
        &self.0.failures
    }
}

/// What changed between two rising lists of groups of one row.
fn compare(old: &[u32], new: &[u32], row: u32, log: &mut Vec<Event>) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let (group, op) = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(left), Some(right)) if left == right => (**left, Op::Touch),
            (Some(left), Some(right)) if left > right => (**right, Op::Add),
            (None, Some(right)) => (**right, Op::Add),
            (Some(left), _) => (**left, Op::Remove),
        };
        if op != Op::Add {
            old.next();
        }
        if op != Op::Remove {
            new.next();
        }
        log.push(Event { group, op, row });
    }
}

/// Up to this many events are sorted in one by one (a memmove each); more are merged in one pass over the group.
const FEW: usize = 8;

fn apply<K: Key, V: Value>(source: &Rows<K, V>, members: &mut Vec<u32>, events: &[Event]) {
    let changes = events.partition_point(|event| event.op != Op::Touch);
    let Some(changes) = events.get(..changes) else { return };
    let (removed, added) = changes.split_at(changes.partition_point(|event| event.op == Op::Remove));
    if changes.len() > FEW {
        return merge(source, members, removed, added);
    }
    for event in removed {
        if let Ok(at) = members.binary_search_by(|other| source.compare(*other, event.row)) {
            members.remove(at);
        }
    }
    for event in added {
        if let Err(at) = members.binary_search_by(|other| source.compare(*other, event.row)) {
            if members.len() == members.capacity() {
                members.reserve_exact(members.len() / 4 + 1);
            }
            members.insert(at, event.row);
        }
    }
}

/// One pass takes out, one stable sort merges: it finds the two sorted runs by itself.
fn merge<K: Key, V: Value>(source: &Rows<K, V>, members: &mut Vec<u32>, removed: &[Event], added: &[Event]) {
    if !removed.is_empty() {
        let mut gone = Bits::default();
        for event in removed {
            gone.insert(event.row);
        }
        members.retain(|row| !gone.contains(*row));
    }
    if !added.is_empty() {
        let mut rows: Vec<u32> = added.iter().map(|event| event.row).collect();
        rows.sort_unstable_by(|left, right| source.compare(*left, *right));
        members.reserve_exact(rows.len());
        members.append(&mut rows);
        members.sort_by(|left, right| source.compare(*left, *right));
    }
}
