//! The table behind an index: groups, each a list of rows of another table, sorted by their keys.

use std::cmp::Ordering;
use std::ops::Deref;

use crate::edges::{Facet, Target};
use crate::fault::{self, Fault};
use crate::handle::Key;
use crate::slab::Slab;
use crate::table::{Absent, AnyTable, Wake};

pub(crate) struct Groups<G> {
    pub(crate) id: u16,
    /// The table whose rows are the members.
    pub(crate) source: u16,
    pub(crate) slab: Slab<G, List>,
    live: usize,
    /// What happened to members in this tick, by group; `chunks` reads it.
    pub(crate) log: Log,
    edited: Vec<Edited>,
    published: Vec<u32>,
    pub(crate) absent: Absent<G>,
}

/// The members of a group: very many groups have one.
#[derive(Default)]
pub(crate) enum List {
    #[default]
    None,
    One(u32),
    #[expect(clippy::box_collection, reason = "8 bytes instead of 24 in each group")]
    Many(Box<Vec<u32>>),
}

impl Deref for List {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(row) => std::slice::from_ref(row),
            Self::Many(rows) => rows,
        }
    }
}

impl List {
    fn of(rows: Vec<u32>) -> Self {
        match *rows {
            [] => Self::None,
            [row] => Self::One(row),
            _ => Self::Many(Box::new(rows)),
        }
    }

    fn edit(&mut self, change: impl FnOnce(&mut Vec<u32>)) {
        let Self::Many(rows) = self else {
            let mut rows = self.to_vec();
            change(&mut rows);
            *self = Self::of(rows);
            return;
        };
        change(rows);
        if rows.len() < 2 {
            *self = Self::of(std::mem::take(&mut **rows));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Event {
    pub(crate) group: u32,
    pub(crate) op: Op,
    pub(crate) row: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Op {
    Remove,
    Add,
    /// The row stays and its value changed.
    Touch,
}

pub(crate) enum Log {
    /// Nobody reads it.
    Off,
    On(Vec<Event>),
    /// The node that writes this table does not tell.
    Unknown,
}

struct Edited {
    group: u32,
    /// Members before.
    before: u32,
    /// Members came or went; else only a value changed.
    keys: bool,
}

impl<G: Key> Groups<G> {
    pub(crate) fn new(id: u16, source: u16, log: Log) -> Self {
        Groups {
            id,
            source,
            slab: Slab::default(),
            live: 0,
            log,
            edited: Vec::new(),
            published: Vec::new(),
            absent: Absent::default(),
        }
    }

    pub(crate) fn keep_log(&mut self) {
        if matches!(self.log, Log::Off) {
            self.log = Log::On(Vec::new());
        }
    }

    /// What a read of this facet is recorded as, and the group if it has members.
    pub(crate) fn read(&self, group: &G, facet: Facet) -> (Option<Target>, Option<u32>) {
        match self.live_row(group) {
            Some(row) => (Some(Target::new(self.id, facet, row)), Some(row)),
            None => (self.absent.intern(group).map(|number| Target::new(self.id, Facet::Absence, number)), None),
        }
    }

    pub(crate) fn live_row(&self, group: &G) -> Option<u32> {
        self.slab.find(group).filter(|row| !self.slab.body(*row).is_empty())
    }

    pub(crate) fn members(&self, group: u32) -> &[u32] {
        self.slab.body(group)
    }

    /// Changes the members of a group; `keys` says whether any comes or goes.
    pub(crate) fn edit(&mut self, group: u32, keys: bool, change: impl FnOnce(&mut Vec<u32>)) {
        let members = self.slab.body_mut(group);
        let before = members.len();
        if keys {
            members.edit(change);
        }
        self.live = self.live + usize::from(!members.is_empty()) - usize::from(before > 0);
        // A group has no more members than its table has rows: the cast loses nothing.
        self.edited.push(Edited { group, before: before as u32, keys });
    }
}

impl<G: Key> AnyTable for Groups<G> {
    fn publish(&mut self, wake: &mut Wake<'_>) {
        let mut edited = std::mem::take(&mut self.edited);
        edited.sort_by_key(|edited| edited.group);
        for edits in edited.chunk_by(|left, right| left.group == right.group) {
            let Some(Edited { group, before, .. }) = edits.first() else { continue };
            self.published.push(*group);
            let (before, after) = (*before as usize, self.slab.body(*group).len());
            if before == 0 && after == 0 {
                continue;
            }
            wake.feed(*group, (before == 0) != (after == 0));
            wake.readers(self.id, Facet::Value, *group);
            if edits.iter().any(|edit| edit.keys) {
                wake.readers(self.id, Facet::Keys, *group);
            }
            if before != after {
                wake.readers(self.id, Facet::Count, *group);
            }
            if after == 0 {
                wake.readers(self.id, Facet::Presence, *group);
            }
            if before == 0
                && !fault::on(Fault::SleepGroupAbsence)
                && let Some(number) = self.slab.key(*group).and_then(|key| self.absent.find(key))
            {
                wake.readers(self.id, Facet::Absence, number);
            }
        }
    }

    fn settle(&mut self) {
        for group in std::mem::take(&mut self.published) {
            if self.slab.body(group).is_empty() && !fault::on(Fault::KeepRows) {
                self.slab.release(group);
            }
        }
        if let Log::On(log) = &mut self.log {
            *log = Vec::new();
        }
    }

    fn is_pending(&self) -> bool {
        false
    }

    fn forget(&mut self, absence: u32) {
        self.absent.forget(absence);
    }

    fn len(&self) -> usize {
        self.live
    }

    fn rows(&self) -> Vec<u32> {
        let slots = self.slab.slots().iter().zip(0..);
        slots.filter(|(slot, _)| !slot.body.is_empty()).map(|(_, row)| row).collect()
    }

    fn compare(&self, left: u32, right: u32) -> Ordering {
        self.slab.key(left).cmp(&self.slab.key(right))
    }

    fn describe(&self, row: u32) -> String {
        self.slab.key(row).map_or_else(String::new, |key| format!("{key:?}"))
    }

    fn remembered(&self) -> usize {
        self.slab.len() + self.absent.len()
    }
}
