//! What the tables of the miniature should be: plain maps, everything from scratch.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::{Conflicts, Inputs, PICKY, State, claims_of, groups_of};
use crate::{Chunk, stable_hash};

pub(super) struct Expected {
    pub(super) state: State,
    pub(super) conflicts: Conflicts,
    pub(super) panics: Vec<String>,
}

type Row = (u8, (u8, u8));
type Piece<G> = (Chunk<G, u8>, Vec<Row>);

pub(super) fn state(inputs: &Inputs) -> Expected {
    let mut expected = Expected { state: State::new(), conflicts: Conflicts::new(), panics: Vec::new() };
    let groups = groups(inputs);
    expected.rows("a", inputs.a.iter());
    expected.rows("b", inputs.b.iter());
    expected.readers(inputs, &groups);
    expected.claims(inputs);
    expected.pieces(inputs, &groups);
    expected
}

impl Expected {
    fn rows<K: Debug, V: Debug>(&mut self, table: &'static str, rows: impl Iterator<Item = (K, V)>) {
        let rows = rows.map(|(key, value)| (format!("{key:?}"), format!("{value:?}")));
        self.state.insert(table, rows.collect());
    }

    fn readers(&mut self, inputs: &Inputs, groups: &BTreeMap<u8, Vec<Row>>) {
        let Inputs { a, b } = inputs;
        let group = |name: &u8| groups.get(&(name % 8)).cloned().unwrap_or_default();
        self.rows("narrow", a.iter().map(|(key, row)| (key, row.1 % 3)));
        self.rows("get", b.iter().map(|(key, other)| (key, a.get(other).map(|row| row.1 % 3))));
        self.rows("contains", b.iter().map(|(key, other)| (key, a.contains_key(other))));
        self.rows("members", b.iter().map(|(key, name)| (key, group(name))));
        self.rows("keys", b.iter().map(|(key, name)| (key, group(name).iter().map(|row| row.0).collect::<Vec<_>>())));
        self.rows("count", b.iter().map(|(key, name)| (key, group(name).len())));
        self.rows("any", b.iter().map(|(key, name)| (key, !group(name).is_empty())));
        self.rows("grouped", groups.iter().map(|(name, members)| (name, (members, b.get(name)))));
        let distinct = groups.keys().flat_map(|name| {
            let own = (*name, (*name, b.get(name).copied().unwrap_or(99)));
            [Some(own), (*name == 3).then_some((3, (4, 98)))].into_iter().flatten()
        });
        self.owned("distinct", distinct.collect());
        self.rows("tally", groups.iter().map(|(name, members)| (name, members.len())));
        let tallied = |name: &u8| (groups.get(&(name % 8)).map(Vec::len), groups.contains_key(&(name % 8)));
        self.rows("tallied", b.iter().map(|(key, name)| (key, tallied(name))));
        let (picky, rest): (Vec<_>, Vec<_>) = a.iter().partition(|(_, row)| row.1 == PICKY);
        self.rows("picky", rest.iter().map(|(key, row)| (key, Some(row.1 % 3))));
        self.panics = picky.iter().map(|(key, _)| format!("picky {key} picky")).collect();
        self.panics.sort();
    }

    fn claims(&mut self, inputs: &Inputs) {
        let emitted = inputs.a.iter().flat_map(|(key, row)| claims_of(*key, *row).into_iter().map(|out| (*key, out)));
        let claims = self.owned("claims", emitted.collect());
        let mut same: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (key, value) in &claims {
            same.entry(*value).or_default().push(*key);
        }
        let claim = |key| (claims.get(key), claims.contains_key(key));
        self.rows("claim", inputs.b.iter().map(|(key, other)| (key, claim(other))));
        self.rows("same", same.iter());
        self.owned("shares", same.iter().map(|(value, members)| (*value, (members.len() % 3, *value))).collect());
    }

    /// Of the rows that sources emit, in the order of the sources, the first of each key.
    fn owned<K: Ord + Copy + Debug>(&mut self, table: &'static str, emitted: Vec<(u8, (K, u8))>) -> BTreeMap<K, u8> {
        let mut owners: BTreeMap<K, Vec<u8>> = BTreeMap::new();
        let mut rows = BTreeMap::new();
        for (source, (key, value)) in emitted {
            let claimants = owners.entry(key).or_default();
            if !claimants.contains(&source) {
                claimants.push(source);
            }
            rows.entry(key).or_insert(value);
        }
        let conflicts: Vec<String> = owners.iter().filter_map(|(key, claimants)| conflict(key, claimants)).collect();
        if !conflicts.is_empty() {
            self.conflicts.insert(table, conflicts);
        }
        self.rows(table, rows.iter());
        rows
    }

    fn pieces(&mut self, inputs: &Inputs, groups: &BTreeMap<u8, Vec<Row>>) {
        let cut_groups = groups.iter().map(|(name, members)| (*name, cut(*name, members, 2)));
        let cut_groups: BTreeMap<u8, Vec<Piece<u8>>> = cut_groups.collect();
        self.rows("pieces", cut_groups.values().flatten().map(|(chunk, piece)| (chunk, piece)));
        let list = |pieces: &Vec<Piece<u8>>| {
            pieces.iter().map(|(chunk, piece)| (chunk.start, piece.len())).collect::<Vec<_>>()
        };
        self.rows("lists", cut_groups.iter().map(|(name, pieces)| (name, list(pieces))));
        let first = |name: &u8| {
            let pieces = cut_groups.get(&(name % 8)).into_iter().flatten();
            let first: Option<&Vec<Row>> =
                pieces.filter(|(chunk, _)| chunk.start.is_none()).map(|piece| &piece.1).next();
            (first.is_some(), first.into_iter().flatten().map(|row| u32::from(row.1.1)).sum::<u32>())
        };
        self.rows("first", inputs.b.iter().map(|(key, name)| (key, first(name))));
        let all: Vec<Row> = inputs.a.iter().map(|(key, row)| (*key, *row)).collect();
        let wide = cut((), &all, 3);
        let values = |piece: &Vec<Row>| piece.iter().map(|row| row.1.1).collect::<Vec<_>>();
        self.rows("wide_pieces", wide.iter().map(|(chunk, piece)| (chunk, values(piece))));
        let fine = wide.iter().flat_map(|(chunk, piece)| cut(chunk.clone(), piece, 1));
        let values = |piece: Vec<Row>| piece.iter().map(|row| (row.0, row.1.1)).collect::<Vec<_>>();
        self.rows("fine_pieces", fine.map(|(chunk, piece)| (chunk, values(piece))));
    }
}

fn groups(inputs: &Inputs) -> BTreeMap<u8, Vec<Row>> {
    let mut groups: BTreeMap<u8, Vec<Row>> = BTreeMap::new();
    for (key, row) in &inputs.a {
        for group in groups_of(*row) {
            groups.entry(group).or_default().push((*key, *row));
        }
    }
    groups
}

fn conflict<K: Debug>(key: &K, claimants: &[u8]) -> Option<String> {
    let (owner, losers) = claimants.split_first()?;
    let losers: Vec<String> = losers.iter().map(u8::to_string).collect();
    (!losers.is_empty()).then(|| format!("{key:?}: {owner} before {}", losers.join(", ")))
}

/// The pieces of a group: cut before every key whose hash ends in as many zeros as the size asks for, and where that
/// leaves more than four times the size, at one zero less, down to one; then by counting.
fn cut<G: Clone>(group: G, members: &[Row], size: usize) -> Vec<Piece<G>> {
    let zeros = size.next_power_of_two().trailing_zeros();
    let mut pieces = Vec::new();
    for segment in at_zeros(members, zeros) {
        let starts_at_border = segment.first().is_some_and(|row| ends_in(row.0, zeros));
        let first = pieces.is_empty() && !starts_at_border;
        for piece in shorten(segment, size, zeros) {
            let start = if first && piece[0].0 == members[0].0 { None } else { Some(piece[0].0) };
            pieces.push((Chunk { group: group.clone(), start }, piece));
        }
    }
    pieces
}

fn shorten(segment: Vec<Row>, size: usize, zeros: u32) -> Vec<Vec<Row>> {
    if segment.len() <= 4 * size {
        return vec![segment];
    }
    if zeros <= 1 {
        return segment.chunks(size).map(<[Row]>::to_vec).collect();
    }
    at_zeros(&segment, zeros - 1).into_iter().flat_map(|segment| shorten(segment, size, zeros - 1)).collect()
}

fn at_zeros(members: &[Row], zeros: u32) -> Vec<Vec<Row>> {
    let mut segments: Vec<Vec<Row>> = Vec::new();
    for row in members {
        match segments.last_mut() {
            Some(segment) if !ends_in(row.0, zeros) => segment.push(*row),
            _ => segments.push(vec![*row]),
        }
    }
    segments
}

fn ends_in(key: u8, zeros: u32) -> bool {
    stable_hash(&key).trailing_zeros() >= zeros
}
