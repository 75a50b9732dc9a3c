//! The node behind `map`, `derive` and `group`: a unit is a row of a table or a group of an index, and emits rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::bits::Bits;
use crate::cx::Cx;
use crate::fault::{self, Fault};
use crate::handle::{Key, Value};
use crate::lists::Lists;
use crate::node::{AnyNode, Failures, Step, TOO_MANY_READS, TOO_MANY_ROWS};
use crate::rows::Rows;
use crate::slab::{NIL, fill_to, make_room, trim};
use crate::table::{AnyTable, table_mut};

/// Runs the transform of one unit; emits nothing when the unit is gone.
pub(crate) type Eval<K, V> = Box<dyn Fn(&mut Cx<'_>, u32, &mut Vec<(K, V)>) + Send + Sync>;

pub(crate) struct Units<K, V> {
    /// The table whose rows are the units.
    source: u16,
    eval: Eval<K, V>,
    /// Unit: the rows that it emitted at its last run, lost ones included.
    outputs: Lists,
    owners: Owners,
    emitted: Vec<(K, V)>,
    rows: Vec<u32>,
    /// The rows of the run that is under way.
    mark: Bits,
    failures: Failures,
}

impl<K: Key, V: Value> Units<K, V> {
    pub(crate) fn new(source: u16, eval: Eval<K, V>) -> Self {
        Units {
            source,
            eval,
            outputs: Lists::default(),
            owners: Owners::default(),
            emitted: Vec::new(),
            rows: Vec::new(),
            mark: Bits::default(),
            failures: Failures::default(),
        }
    }

    fn run_unit(&mut self, step: &mut Step<'_>, table: &mut Rows<K, V>, unit: u32) {
        step.reads.targets.clear();
        step.reads.lost = false;
        let Some(source) = step.tables.get(self.source as usize) else { return };
        let Units { eval, emitted, failures, .. } = self;
        let reads = &mut *step.reads;
        let tables = step.tables;
        let whole = failures.guard(unit, || source.describe(unit), || eval(&mut Cx::new(tables, reads), unit, emitted));
        let linked = step.edges.reconcile(step.node, unit, &mut step.reads.targets);
        if !linked || step.reads.lost {
            self.failures.note(unit, source.describe(unit), TOO_MANY_READS);
        }
        if !whole || !linked || step.reads.lost {
            self.emitted.clear();
        }
        self.store(&**source, table, unit);
    }

    /// Makes the rows of a unit equal to what it emitted.
    fn store(&mut self, source: &dyn AnyTable, table: &mut Rows<K, V>, unit: u32) {
        let mut emitted = std::mem::take(&mut self.emitted);
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        for (key, value) in emitted.drain(..) {
            let Some(row) = table.slab.intern(key) else {
                self.failures.note(unit, source.describe(unit), TOO_MANY_ROWS);
                continue;
            };
            // A unit that emits a key twice keeps the first.
            if self.mark.insert(row) {
                rows.push(row);
                if self.owners.claim(source, unit, row) {
                    table.write(row, Some(value));
                }
            }
        }
        for row in self.outputs.get(unit) {
            if !self.mark.contains(*row) && self.owners.withdraw(unit, *row) {
                table.write(*row, None);
            }
        }
        self.outputs.set(unit, &rows);
        for row in &rows {
            self.mark.remove(*row);
        }
        (self.emitted, self.rows) = (emitted, rows);
    }
}

impl<K: Key, V: Value> AnyNode for Units<K, V> {
    fn run(&mut self, step: &mut Step<'_>, table: &mut dyn AnyTable) -> u64 {
        let Some(table) = table_mut::<Rows<K, V>>(table) else { return 0 };
        let units = step.units;
        // The first time, when most of what there will ever be comes at once.
        table.slab.make_room(units.len());
        self.outputs.make_room(units.len());
        make_room(&mut self.owners.units, units.len());
        step.edges.make_room(step.node, units.len());
        for unit in units {
            self.run_unit(step, table, *unit);
        }
        table.slab.trim();
        self.outputs.trim();
        trim(&mut self.owners.units);
        step.edges.trim(step.node);
        let mut runs = units.len() as u64;
        // Only now: until its last unit has run, the node does not know who still claims a row.
        while let Some(row) = self.owners.disputed.pop() {
            let Some(source) = step.tables.get(self.source as usize) else { continue };
            let Some(heir) = self.owners.heir(&**source, row) else { continue };
            self.run_unit(step, table, heir);
            self.owners.asked(heir, row);
            runs += 1;
        }
        runs
    }

    fn failures(&self) -> &Failures {
        &self.failures
    }

    fn source(&self) -> Option<u16> {
        Some(self.source)
    }

    fn conflicts(&self) -> Vec<(u32, u32, &[u32])> {
        let losers = self.owners.losers.iter();
        losers.map(|(row, losers)| (*row, self.owners.of(*row), losers.as_slice())).collect()
    }
}

/// Which unit has which row. Of several that emit one key, the one with the smallest key of its own has it.
#[derive(Default)]
struct Owners {
    /// Row: unit.
    units: Vec<u32>,
    /// Row: the units that emitted it in vain. Their values are not kept: an heir runs again.
    losers: BTreeMap<u32, Vec<u32>>,
    /// Rows with losers whose owner changed or left.
    disputed: Vec<u32>,
}

impl Owners {
    fn of(&self, row: u32) -> u32 {
        self.units.get(row as usize).copied().unwrap_or(NIL)
    }

    fn set(&mut self, row: u32, unit: u32) {
        fill_to(&mut self.units, row as usize, NIL);
        if let Some(owner) = self.units.get_mut(row as usize) {
            *owner = unit;
        }
    }

    /// A unit emits a row; returns whether it has it.
    fn claim(&mut self, source: &dyn AnyTable, unit: u32, row: u32) -> bool {
        let owner = self.of(row);
        if owner == unit {
            return true;
        }
        if owner != NIL {
            if source.compare(unit, owner) != Ordering::Less {
                self.lose(row, unit);
                return false;
            }
            self.lose(row, owner);
        }
        self.set(row, unit);
        self.forget_loser(row, unit);
        if self.losers.contains_key(&row) {
            self.disputed.push(row);
        }
        true
    }

    /// A unit no longer emits a row; returns whether it had it.
    fn withdraw(&mut self, unit: u32, row: u32) -> bool {
        if self.of(row) != unit {
            self.forget_loser(row, unit);
            return false;
        }
        self.set(row, NIL);
        if self.losers.contains_key(&row) {
            self.disputed.push(row);
        }
        true
    }

    /// The loser that should have the row: the smallest, if it is before the owner.
    fn heir(&self, source: &dyn AnyTable, row: u32) -> Option<u32> {
        let losers = self.losers.get(&row)?;
        let best = losers.iter().copied().min_by(|left, right| source.compare(*left, *right))?;
        let owner = self.of(row);
        let vacant = owner == NIL;
        if fault::on(Fault::NoPromotion) && !vacant {
            return None;
        }
        (vacant || source.compare(best, owner) == Ordering::Less).then_some(best)
    }

    /// An heir ran. If it did not take the row after all, the next one is asked.
    fn asked(&mut self, heir: u32, row: u32) {
        if self.of(row) != heir {
            self.forget_loser(row, heir);
            self.disputed.push(row);
        }
    }

    fn lose(&mut self, row: u32, unit: u32) {
        let losers = self.losers.entry(row).or_default();
        if !losers.contains(&unit) {
            losers.push(unit);
        }
    }

    fn forget_loser(&mut self, row: u32, unit: u32) {
        if let Some(losers) = self.losers.get_mut(&row) {
            losers.retain(|loser| *loser != unit);
            if losers.is_empty() {
                self.losers.remove(&row);
            }
        }
    }
}
