//! The commit: every node that has something to do, once, in the order of declaration.

use std::time::Instant;

use crate::graph::Graph;
use crate::node::Step;
use crate::report::TickStats;
use crate::table::Wake;

/// Scratch space kept from node to node and tick to tick: 1,024 numbers. What a wide tick needs beyond is given back.
const SCRATCH: usize = 1_024;

impl Graph {
    /// Computes everything that depends on what was written since the last tick, each unit at most once (an heir of a
    /// [conflict](Graph::conflicts) once more). Afterwards [`Graph::changes`] tells what came of it.
    pub fn tick(&mut self) -> TickStats {
        self.settle();
        let mut stats = TickStats::default();
        // A node wakes only nodes behind it.
        let mut next = 0;
        while let Some(id) = self.due.take_from(next) {
            self.step(id as usize, &mut stats);
            self.stepped.push(id);
            next = id + 1;
        }
        for target in self.edges.take_orphans() {
            let Some((table, number)) = target.absence() else { continue };
            if self.edges.has_readers(target) {
                continue;
            }
            if let Some(table) = self.tables.get_mut(table as usize) {
                table.forget(number);
            }
        }
        if self.units.capacity() > SCRATCH {
            self.units = Vec::new();
        }
        stats
    }

    /// Frees what the last tick replaced: old values and removed rows. [`Graph::changes`] is empty afterwards.
    ///
    /// The next tick does this too. It is a call of its own because freeing can cost more than computing did, so that
    /// it can be done after the changes are published.
    pub fn settle(&mut self) {
        for id in self.stepped.drain(..) {
            if let Some(table) = self.tables.get_mut(id as usize) {
                table.settle();
            }
        }
    }

    /// Runs and publishes one node.
    fn step(&mut self, id: usize, stats: &mut TickStats) {
        let (before, rest) = self.tables.split_at_mut(id);
        let (Some(table), Some(node)) = (rest.first_mut(), self.nodes.get_mut(id)) else { return };
        let Some(dirty) = self.dirty.get_mut(id) else { return };
        if dirty.is_empty() && !table.is_pending() {
            return;
        }
        let start = Instant::now();
        dirty.take(&mut self.units);
        if let Some(run) = &mut node.run {
            let (edges, reads) = (&mut self.edges, &mut self.reads);
            // A table's number is its place in a list shorter than `MAX_TABLES`: the cast loses nothing.
            let mut step = Step { tables: before, edges, reads, node: id as u16, units: &self.units };
            let runs = run.run(&mut step, &mut **table);
            stats.nodes += 1;
            stats.runs += runs;
            node.runs += runs;
        }
        let feeds = self.feeds.get(id).map_or(&[][..], Vec::as_slice);
        table.publish(&mut Wake { edges: &self.edges, feeds, dirty: &mut self.dirty, due: &mut self.due });
        node.time += start.elapsed();
    }
}
