//! Who read what: one slab of edges, each in the list of its unit and in the list of what it read.
#![expect(
    clippy::indexing_slicing,
    reason = "edges, lanes and units are numbers that this slab issued or made room for"
)]

use crate::fault::{self, Fault};
use crate::slab::{NIL, fill_to, make_room, push, trim};

/// The part of a row that a transform asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Facet {
    /// The value of a row; the keys and values of a group.
    Value = 0,
    /// That the row is there; that the group has members.
    Presence = 1,
    /// That it is not. The number is one of the table's absent keys, not of its rows.
    Absence = 2,
    /// The keys of a group.
    Keys = 3,
    /// The number of members of a group.
    Count = 4,
}

const FACETS: u16 = 8;

/// Tables that a graph can have: a table and a facet share 16 bits, and the last number means "none".
pub(crate) const MAX_TABLES: u16 = u16::MAX / FACETS - 1;

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Target {
    lane: u16,
    row: u32,
}

impl Target {
    pub(crate) fn new(table: u16, facet: Facet, row: u32) -> Target {
        Target { lane: table * FACETS + facet as u16, row }
    }

    /// Table and number of an absent key, if that is what was read.
    pub(crate) fn absence(self) -> Option<(u16, u32)> {
        (self.lane % FACETS == Facet::Absence as u16).then_some((self.lane / FACETS, self.row))
    }
}

/// 24 bytes. `next_of_unit` makes a singly linked list sorted by target, `prev` and `next` a doubly linked one.
struct Edge {
    row: u32,
    lane: u16,
    node: u16,
    unit: u32,
    next_of_unit: u32,
    prev: u32,
    next: u32,
}

#[derive(Default)]
pub(crate) struct Edges {
    slab: Vec<Edge>,
    free: Vec<u32>,
    /// Lane, row: first edge.
    readers: Vec<Vec<u32>>,
    /// Node, unit: first edge.
    units: Vec<Vec<u32>>,
    /// Absent keys that lost a reader: the tick looks at its end whether they still have one.
    orphans: Vec<Target>,
}

impl Edges {
    /// Makes the edges of a unit equal to `reads`. Sorts `reads`. False: there is no room for more edges.
    pub(crate) fn reconcile(&mut self, node: u16, unit: u32, reads: &mut Vec<Target>) -> bool {
        reads.sort_unstable();
        reads.dedup();
        let (mut old, mut tail) = (self.first(node, unit), NIL);
        let mut fits = true;
        for target in reads.iter().copied() {
            while old != NIL && self.target(old) < target {
                (old, tail) = self.skip(old, tail, (node, unit));
            }
            let edge = if old != NIL && self.target(old) == target {
                let kept = old;
                old = self.slab[kept as usize].next_of_unit;
                kept
            } else {
                self.link(node, unit, target)
            };
            if edge == NIL {
                self.orphans.push(target);
                fits = false;
                continue;
            }
            self.follow((node, unit), tail, edge);
            tail = edge;
        }
        while old != NIL {
            (old, tail) = self.skip(old, tail, (node, unit));
        }
        self.follow((node, unit), tail, NIL);
        fits
    }

    /// Makes room for this many units of a node, if it has none yet.
    pub(crate) fn make_room(&mut self, node: u16, units: usize) {
        make_room(self.units_of(node), units);
    }

    /// Gives back room that was made in vain.
    pub(crate) fn trim(&mut self, node: u16) {
        trim(self.units_of(node));
    }

    pub(crate) fn for_readers(&self, target: Target, mut each: impl FnMut(u16, u32)) {
        let mut at = self.first_reader(target);
        while at != NIL {
            let edge = &self.slab[at as usize];
            each(edge.node, edge.unit);
            at = edge.next;
        }
    }

    pub(crate) fn has_readers(&self, target: Target) -> bool {
        self.first_reader(target) != NIL
    }

    pub(crate) fn take_orphans(&mut self) -> Vec<Target> {
        std::mem::take(&mut self.orphans)
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    /// Drops an edge that is no longer read; returns the next old edge and the tail of the new list.
    fn skip(&mut self, old: u32, tail: u32, of: (u16, u32)) -> (u32, u32) {
        let next = self.slab[old as usize].next_of_unit;
        if fault::on(Fault::StaleEdges) {
            self.follow(of, tail, old);
            return (next, old);
        }
        self.unlink(old);
        (next, tail)
    }

    fn target(&self, edge: u32) -> Target {
        let edge = &self.slab[edge as usize];
        Target { lane: edge.lane, row: edge.row }
    }

    fn first(&self, node: u16, unit: u32) -> u32 {
        self.units.get(node as usize).and_then(|units| units.get(unit as usize)).copied().unwrap_or(NIL)
    }

    fn first_reader(&self, target: Target) -> u32 {
        self.readers.get(target.lane as usize).and_then(|rows| rows.get(target.row as usize)).copied().unwrap_or(NIL)
    }

    fn reader_slot(&mut self, target: Target) -> &mut u32 {
        let (lane, row) = (target.lane as usize, target.row as usize);
        if lane >= self.readers.len() {
            self.readers.resize_with(lane + 1, Vec::new);
        }
        fill_to(&mut self.readers[lane], row, NIL);
        &mut self.readers[lane][row]
    }

    /// Puts `edge` behind `tail` in the list of a unit.
    fn follow(&mut self, (node, unit): (u16, u32), tail: u32, edge: u32) {
        if tail != NIL {
            self.slab[tail as usize].next_of_unit = edge;
            return;
        }
        if self.first(node, unit) == edge {
            return;
        }
        let units = self.units_of(node);
        fill_to(units, unit as usize, NIL);
        units[unit as usize] = edge;
    }

    fn units_of(&mut self, node: u16) -> &mut Vec<u32> {
        if node as usize >= self.units.len() {
            self.units.resize_with(node as usize + 1, Vec::new);
        }
        &mut self.units[node as usize]
    }

    fn link(&mut self, node: u16, unit: u32, target: Target) -> u32 {
        let next = *self.reader_slot(target);
        let edge = Edge { row: target.row, lane: target.lane, node, unit, next_of_unit: NIL, prev: NIL, next };
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = edge;
                at
            }
            None if self.slab.len() >= NIL as usize => return NIL,
            None => {
                push(&mut self.slab, edge);
                (self.slab.len() - 1) as u32
            }
        };
        if next != NIL {
            self.slab[next as usize].prev = at;
        }
        *self.reader_slot(target) = at;
        at
    }

    fn unlink(&mut self, at: u32) {
        let target = self.target(at);
        let (prev, next) = (self.slab[at as usize].prev, self.slab[at as usize].next);
        if next != NIL {
            self.slab[next as usize].prev = prev;
        }
        if prev != NIL {
            self.slab[prev as usize].next = next;
        } else {
            *self.reader_slot(target) = next;
            if next == NIL && target.absence().is_some() {
                self.orphans.push(target);
            }
        }
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests;
