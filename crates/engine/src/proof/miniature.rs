//! The graph of the property test: every kind of node, and a reader of every facet.

use std::fmt::Debug;
use std::panic::resume_unwind;

use super::{Conflicts, Op, PICKY, State, claims_of, groups_of};
use crate::{Chunk, Graph, GraphSize, Key, Table, Value};

pub(super) struct Miniature {
    g: Graph,
    a: Table<u8, (u8, u8)>,
    b: Table<u8, u8>,
    watched: Vec<Watched>,
}

/// Table, key, old value, new value.
pub(super) type Change = (&'static str, String, Option<String>, Option<String>);

/// Looks at one table of a graph.
type Look<T> = Box<dyn Fn(&Graph) -> Vec<T>>;

struct Watched {
    name: &'static str,
    rows: Look<(String, String)>,
    changes: Look<Change>,
    conflicts: Look<String>,
}

impl Miniature {
    pub(super) fn declare() -> Miniature {
        let mut g = Graph::new();
        let (a, b) = (g.input("a"), g.input("b"));
        let mut m = Miniature { g, a, b, watched: Vec::new() };
        m.readers();
        m.claims();
        m.pieces();
        m
    }

    fn readers(&mut self) {
        let (a, b) = (self.a, self.b);
        let g = &mut self.g;
        let narrow = g.map("narrow", a, |_, _, (_, value)| value % 3);
        let groups = g.index("groups", a, |_, row| groups_of(*row));
        let get = g.map("get", b, move |cx, _, key| cx.get(narrow, key).copied());
        let contains = g.map("contains", b, move |cx, _, key| cx.contains(narrow, key));
        let members = g.map("members", b, move |cx, _, group| {
            cx.members(groups, &(group % 8)).iter().map(|(key, row)| (*key, *row)).collect::<Vec<_>>()
        });
        let keys = g.map("keys", b, move |cx, _, group| cx.keys(groups, &(group % 8)).copied().collect::<Vec<_>>());
        let count = g.map("count", b, move |cx, _, group| cx.count(groups, &(group % 8)));
        let any = g.map("any", b, move |cx, _, group| cx.any(groups, &(group % 8)));
        let grouped = g.group("grouped", groups, move |cx, group, members| {
            (members.iter().map(|(key, row)| (*key, *row)).collect::<Vec<_>>(), cx.get(b, group).copied())
        });
        let picky = g.map("picky", a, move |cx, key, (_, value)| {
            let narrow = cx.get(narrow, key).copied();
            if *value == PICKY {
                // Without the panic hook, which would fill the output of the test.
                resume_unwind(Box::new("picky"));
            }
            narrow
        });
        let distinct = g.distinct("distinct", groups, move |cx, group| {
            let own = [(*group, cx.get(b, group).copied().unwrap_or(99))];
            own.into_iter().chain((*group == 3).then_some((4, 98)))
        });
        let tally = g.tally("tally", a, |_, row| groups_of(*row));
        let tallied = g.map("tallied", b, move |cx, _, group| {
            (cx.get(tally, &(group % 8)).copied(), cx.contains(tally, &(group % 8)))
        });
        self.watch("a", a);
        self.watch("b", b);
        self.watch("distinct", distinct);
        self.watch("tally", tally);
        self.watch("tallied", tallied);
        self.watch("narrow", narrow);
        self.watch("get", get);
        self.watch("contains", contains);
        self.watch("members", members);
        self.watch("keys", keys);
        self.watch("count", count);
        self.watch("any", any);
        self.watch("grouped", grouped);
        self.watch("picky", picky);
    }

    fn claims(&mut self) {
        let (a, b) = (self.a, self.b);
        let g = &mut self.g;
        let claims = g.derive("claims", a, |_, key, row| claims_of(*key, *row));
        let by_value = g.index("by_value", claims, |_, value| [*value]);
        let claim = g.map("claim", b, move |cx, _, key| (cx.get(claims, key).copied(), cx.contains(claims, key)));
        let same = g.group("same", by_value, |_, _, members| members.keys().copied().collect::<Vec<_>>());
        let shares = g.derive_group("shares", by_value, |_, value, members| Some((members.len() % 3, *value)));
        self.watch("claims", claims);
        self.watch("claim", claim);
        self.watch("same", same);
        self.watch("shares", shares);
    }

    fn pieces(&mut self) {
        let (a, b) = (self.a, self.b);
        let g = &mut self.g;
        let groups = g.index("groups_to_cut", a, |_, row| groups_of(*row));
        let chunks = g.chunks("chunks", groups, 2);
        let pieces = g
            .group("pieces", chunks, |_, _, members| members.iter().map(|(key, row)| (*key, *row)).collect::<Vec<_>>());
        let by_group = g.index("pieces_by_group", pieces, |chunk, _| [chunk.group]);
        let lists = g.group("lists", by_group, |_, _, members| {
            members.iter().map(|(chunk, piece)| (chunk.start, piece.len())).collect::<Vec<_>>()
        });
        let first = g.map("first", b, move |cx, _, group| {
            let chunk = Chunk { group: group % 8, start: None };
            (
                cx.any(chunks, &chunk),
                cx.members(chunks, &chunk).values().map(|(_, value)| u32::from(*value)).sum::<u32>(),
            )
        });
        let wide = g.index("wide", a, |_, _| [()]);
        let wide_chunks = g.chunks("wide_chunks", wide, 3);
        let wide_pieces =
            g.group("wide_pieces", wide_chunks, |_, _, members| members.values().map(|row| row.1).collect::<Vec<_>>());
        let fine_chunks = g.chunks("fine_chunks", wide_chunks, 1);
        let fine_pieces = g.group("fine_pieces", fine_chunks, |_, _, members| {
            members.iter().map(|(key, row)| (*key, row.1)).collect::<Vec<_>>()
        });
        self.watch("pieces", pieces);
        self.watch("lists", lists);
        self.watch("first", first);
        self.watch("wide_pieces", wide_pieces);
        self.watch("fine_pieces", fine_pieces);
    }

    fn watch<K: Key, V: Value + Debug>(&mut self, name: &'static str, table: Table<K, V>) {
        self.watched.push(Watched {
            name,
            rows: Box::new(move |g| g.iter(table).map(|(key, value)| (show(key), show(value))).collect()),
            changes: Box::new(move |g| {
                g.changes(table).map(|c| (name, show(c.key), c.old.map(show), c.new.map(show))).collect()
            }),
            conflicts: Box::new(move |g| {
                let conflicts = g.conflicts(table).into_iter();
                conflicts.map(|c| format!("{:?}: {} before {}", c.key, c.owner, c.losers.join(", "))).collect()
            }),
        });
    }

    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::SetA(key, group, value) => self.g.set(self.a, key, (group, value)),
            Op::RemoveA(key) => drop(self.g.remove(self.a, &key)),
            Op::SetB(key, value) => self.g.set(self.b, key, value),
            Op::RemoveB(key) => drop(self.g.remove(self.b, &key)),
            Op::Settle => self.g.settle(),
        }
    }

    /// Returns the number of runs.
    pub(super) fn tick(&mut self) -> u64 {
        self.g.tick().runs
    }

    pub(super) fn settle(&mut self) {
        self.g.settle();
    }

    pub(super) fn size(&self) -> GraphSize {
        self.g.size()
    }

    pub(super) fn state(&self) -> State {
        let rows = self.watched.iter().map(|watched| (watched.name, (watched.rows)(&self.g).into_iter().collect()));
        rows.collect()
    }

    pub(super) fn changes(&self) -> Vec<Change> {
        self.watched.iter().flat_map(|watched| (watched.changes)(&self.g)).collect()
    }

    pub(super) fn conflicts(&self) -> Conflicts {
        let conflicts = self.watched.iter().map(|watched| (watched.name, (watched.conflicts)(&self.g)));
        conflicts.filter(|(_, conflicts)| !conflicts.is_empty()).collect()
    }

    pub(super) fn panics(&self) -> Vec<String> {
        let mut panics: Vec<_> =
            self.g.panics().iter().map(|p| format!("{} {} {}", p.node, p.key, p.message)).collect();
        panics.sort();
        panics
    }
}

fn show(value: impl Debug) -> String {
    format!("{value:?}")
}
