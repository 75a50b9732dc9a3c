//! The node behind `chunks`: groups cut into pieces, such that one change costs one piece.
//!
//! A *border* is a key whose stable hash ends in zeros; a *segment* reaches from a border to the next. Borders depend
//! on nothing but the set of keys, so any history gives the same pieces on every replica, and a key that comes or goes
//! moves no border but its own. A segment that happens to be long is cut further ([`cut`]), again by its keys alone.

use std::ops::Range;

use crate::fault::{self, Fault};
use crate::groups::{Event, Groups, Log, Op};
use crate::handle::{Key, Types, Value};
use crate::node::{AnyNode, Failures, Step, TOO_MANY_ROWS};
use crate::rows::Rows;
use crate::slab::{NIL, fill_to};
use crate::stable::{Stable, stable_hash};
use crate::table::{AnyTable, table, table_mut};

mod cut;

/// Names one piece of a group. Pieces of a group are in the order of their keys, and so are these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk<G, K> {
    /// The group.
    pub group: G,
    /// The first key of the piece; None for what comes before the first border.
    pub start: Option<K>,
}

pub(crate) struct Chunking<G, K, V> {
    index: u16,
    size: usize,
    /// Group of the index: its pieces in order.
    groups: Vec<Vec<Piece>>,
    failures: Failures,
    types: Types<(G, K, V)>,
}

#[derive(Clone, Copy)]
struct Piece {
    /// The row of the source that it starts with, or `NIL`.
    start: u32,
    /// Its group in the table of pieces.
    row: u32,
    /// It starts a segment; else its segment was too long for one piece.
    border: bool,
}

/// What a group is cut with: the table of its keys, its members after the tick, its name.
struct View<'t, G, K, V> {
    source: &'t Rows<K, V>,
    members: &'t [u32],
    group: &'t G,
}

impl<G: Key, K: Key + Stable, V: Value> Chunking<G, K, V> {
    /// Pieces have about `size` members.
    pub(crate) fn new(index: u16, size: usize) -> Self {
        Chunking {
            index,
            size: size.clamp(1, cut::MAX_SIZE),
            groups: Vec::new(),
            failures: Failures::default(),
            types: Types::default(),
        }
    }

    /// `events` are what happened to the group in this tick. None: anything may have. False: the table is full.
    fn run_group(
        &self,
        view: &View<'_, G, K, V>,
        old: &mut Vec<Piece>,
        events: Option<&[Event]>,
        table: &mut Groups<Chunk<G, K>>,
    ) -> bool {
        let mut fits = true;
        let ranges = match events {
            Some(events) if !old.is_empty() && !view.members.is_empty() => view.ranges(old, events),
            _ => whole(old),
        };
        if !ranges.is_empty() {
            let mut pieces = Vec::with_capacity(old.len() + 1);
            let mut kept = 0;
            for range in ranges {
                pieces.extend_from_slice(old.get(kept..range.start).unwrap_or_default());
                kept = range.end;
                fits &= self.cut_range(view, old, range, &mut pieces, table);
            }
            pieces.extend_from_slice(old.get(kept..).unwrap_or_default());
            *old = pieces;
        }
        match events {
            Some(events) => {
                for event in events.iter().filter(|event| event.op == Op::Touch) {
                    if let Some(piece) = view.piece_of(old, event.row).and_then(|at| old.get(at)) {
                        table.edit(piece.row, false, |_| ());
                    }
                }
            }
            None => old.iter().for_each(|piece| table.edit(piece.row, false, |_| ())),
        }
        fits
    }

    /// Cuts what is now between the start of a range of old pieces and its end, and writes the pieces. False: one of
    /// them did not fit into the table.
    fn cut_range(
        &self,
        view: &View<'_, G, K, V>,
        old: &[Piece],
        range: Range<usize>,
        pieces: &mut Vec<Piece>,
        table: &mut Groups<Chunk<G, K>>,
    ) -> bool {
        let (before, after) = (old.get(range.start), old.get(range.end));
        let begin = before.filter(|_| range.start > 0).map_or(0, |piece| view.position(piece.start));
        let end = after.map_or(view.members.len(), |piece| view.position(piece.start));
        let members = view.members.get(begin..end).unwrap_or_default();
        let old = old.get(range.clone()).unwrap_or_default();
        let new = cut::cut(members, self.size, |row| view.source.slab.key(row).map_or(0, stable_hash));
        let uncut = fault::on(Fault::NoCut) && !old.is_empty() && new.len() > old.len();
        let mut known: Vec<(u32, u32)> = old.iter().map(|piece| (piece.start, piece.row)).collect();
        known.sort_unstable();
        let mut written = Vec::with_capacity(new.len());
        for (at, part) in new.iter().enumerate() {
            let Some(rows) = members.get(part.rows.clone()) else { continue };
            let first = begin + part.rows.start == 0 && !part.border;
            let start = if first { NIL } else { rows.first().copied().unwrap_or(NIL) };
            let row = match known.binary_search_by_key(&start, |known| known.0) {
                Ok(found) => known.get(found).map(|known| known.1),
                Err(_) => view.name(start).and_then(|name| table.slab.intern(name)),
            };
            let Some(row) = row else { return false };
            if table.members(row) != rows && !(uncut && at == 0) {
                table.edit(row, true, |members| {
                    members.clear();
                    members.reserve_exact(rows.len());
                    members.extend_from_slice(rows);
                });
            }
            pieces.push(Piece { start, row, border: part.border || first });
            written.push(row);
        }
        written.sort_unstable();
        for piece in old {
            if written.binary_search(&piece.row).is_err() {
                table.edit(piece.row, true, |members| *members = Vec::new());
            }
        }
        true
    }
}

impl<G: Key, K: Key, V: Value> View<'_, G, K, V> {
    /// The pieces that have to be cut again: whole segments, rising, apart from each other.
    fn ranges(&self, old: &[Piece], events: &[Event]) -> Vec<Range<usize>> {
        let mut changes: Vec<Event> = events.iter().filter(|event| event.op != Op::Touch).copied().collect();
        if changes.len() > old.len() {
            return whole(old);
        }
        changes.sort_unstable_by(|left, right| self.source.compare(left.row, right.row));
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for event in changes {
            let range = self.segment_of(old, event);
            match ranges.last_mut() {
                // A range that begins where the last one does may follow only the empty one before the first piece.
                Some(last) if range.start < last.end || range.start == last.start => {
                    *last = last.start.min(range.start)..last.end.max(range.end);
                }
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// The number of members before the key of a row.
    fn position(&self, row: u32) -> usize {
        self.members.partition_point(|member| self.source.compare(*member, row).is_lt())
    }

    /// The piece that the key of a row belongs to. None: it comes before the first piece.
    fn piece_of(&self, pieces: &[Piece], row: u32) -> Option<usize> {
        let before = |piece: &Piece| piece.start == NIL || self.source.compare(piece.start, row).is_le();
        pieces.partition_point(before).checked_sub(1)
    }

    /// The segment that a member comes to or goes from; with it goes the one before, if a border goes.
    fn segment_of(&self, pieces: &[Piece], event: Event) -> Range<usize> {
        let Some(at) = self.piece_of(pieces, event.row) else { return 0..0 };
        let is_border = |at: &usize| pieces.get(*at).is_none_or(|piece| piece.border);
        let mut start = (0..=at).rev().find(is_border).unwrap_or(0);
        if event.op == Op::Remove && pieces.get(start).is_some_and(|piece| piece.start == event.row) {
            start = (0..start).rev().find(is_border).unwrap_or(0);
        }
        start..(at + 1..).find(is_border).unwrap_or(pieces.len())
    }

    fn name(&self, start: u32) -> Option<Chunk<G, K>> {
        let start = if start == NIL { None } else { Some(self.source.slab.key(start)?.clone()) };
        Some(Chunk { group: self.group.clone(), start })
    }
}

impl<G: Key, K: Key + Stable, V: Value> AnyNode for Chunking<G, K, V> {
    fn run(&mut self, step: &mut Step<'_>, pieces: &mut dyn AnyTable) -> u64 {
        let Some(pieces) = table_mut::<Groups<Chunk<G, K>>>(pieces) else { return 0 };
        let Some(index) = table::<Groups<G>>(step.tables, self.index) else { return 0 };
        let Some(source) = table::<Rows<K, V>>(step.tables, index.source) else { return 0 };
        for unit in step.units.iter().copied() {
            let Some(group) = index.slab.key(unit) else { continue };
            let view = View { source, members: index.members(unit), group };
            let events = match &index.log {
                Log::On(log) => {
                    let from = log.partition_point(|event| event.group < unit);
                    let to = log.partition_point(|event| event.group <= unit);
                    log.get(from..to)
                }
                Log::Off | Log::Unknown => None,
            };
            fill_to(&mut self.groups, unit as usize, Vec::new());
            let Some(mut old) = self.groups.get_mut(unit as usize).map(std::mem::take) else { continue };
            self.failures.units.remove(&unit);
            if !self.run_group(&view, &mut old, events, pieces) {
                self.failures.note(unit, format!("{group:?}"), TOO_MANY_ROWS);
            }
            if let Some(kept) = self.groups.get_mut(unit as usize) {
                *kept = old;
            }
        }
        step.units.len() as u64
    }

    fn failures(&self) -> &Failures {
        &self.failures
    }
}

fn whole(pieces: &[Piece]) -> Vec<Range<usize>> {
    std::iter::once(0..pieces.len()).collect()
}

#[cfg(test)]
mod tests;
