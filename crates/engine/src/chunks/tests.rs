//! Groups in pieces: what is cut, and what a change costs.

use crate::{Chunk, Graph, Table, stable_hash};

struct Pieces {
    g: Graph,
    input: Table<u64, u64>,
    pieces: Table<Chunk<(), u64>, Vec<u64>>,
    lists: Table<(), Vec<usize>>,
}

fn declare(size: usize) -> Pieces {
    let mut g = Graph::new();
    let input = g.input("input");
    let all = g.index("all", input, |_, _| [()]);
    let chunks = g.chunks("chunks", all, size);
    let pieces = g.group("pieces", chunks, |_, _, members| members.keys().copied().collect::<Vec<u64>>());
    let by_group = g.index("by_group", pieces, |chunk, _| [chunk.group]);
    let lists = g.group("lists", by_group, |_, (), members| members.values().map(Vec::len).collect::<Vec<_>>());
    Pieces { g, input, pieces, lists }
}

impl Pieces {
    fn build(size: usize, keys: impl IntoIterator<Item = u64>) -> Pieces {
        let mut p = declare(size);
        keys.into_iter().for_each(|key| p.g.set(p.input, key, 0));
        p.g.tick();
        p
    }

    /// The pieces in order, each with the key that it is named after.
    fn list(&self) -> Vec<(Option<u64>, Vec<u64>)> {
        let mut list: Vec<_> = self.g.iter(self.pieces).map(|(chunk, piece)| (chunk.start, piece.clone())).collect();
        list.sort();
        list
    }

    /// How many pieces, and how many lists of pieces, an edit computes again.
    fn cost(&mut self, edit: impl FnOnce(&mut Graph, Table<u64, u64>)) -> (u64, u64) {
        let runs = |g: &Graph| ["pieces", "lists"].map(|name| g.nodes().find(|node| node.name == name).unwrap().runs);
        let before = runs(&self.g);
        edit(&mut self.g, self.input);
        self.g.tick();
        let after = runs(&self.g);
        (after[0] - before[0], after[1] - before[1])
    }
}

#[test]
fn pieces_are_the_group_in_order_and_about_as_long_as_asked() {
    let p = Pieces::build(64, 0..20_000);
    let list = p.list();
    assert!(list.iter().flat_map(|(_, piece)| piece).copied().eq(0..20_000));
    assert!(list.iter().all(|(_, piece)| !piece.is_empty() && piece.len() <= 4 * 64));
    assert!((230..420).contains(&list.len()), "{} pieces for 20,000 keys, about 320 expected", list.len());
    assert!(list.iter().skip(1).all(|(start, piece)| *start == piece.first().copied()));
    let lengths: Vec<usize> = list.iter().map(|(_, piece)| piece.len()).collect();
    assert_eq!(p.g.get(p.lists, &()), Some(&lengths));
}

#[test]
fn one_change_costs_one_piece() {
    let mut p = Pieces::build(64, (0..10_000).map(|key| key * 2));
    let inner = (2_000..).find(|key| key % 2 == 1 && stable_hash(key) % 64 != 0).unwrap();
    assert_eq!(p.cost(|g, input| g.set(input, 5_000, 1)), (1, 0), "a value; the keys of the piece are what they were");
    assert_eq!(p.cost(|g, input| g.set(input, inner, 0)), (1, 1), "a key that comes");
    assert_eq!(p.cost(|g, input| assert!(g.remove(input, &inner))), (1, 1), "a key that goes");
}

#[test]
fn a_border_that_comes_cuts_one_piece_and_one_that_goes_joins_two() {
    let mut p = Pieces::build(64, (0..10_000).map(|key| key * 2));
    let before = p.list();
    let border = (2_000..).find(|key| key % 2 == 1 && stable_hash(key) % 64 == 0).unwrap();
    p.g.set(p.input, border, 0);
    p.g.tick();
    let cut = p.list();
    assert_eq!(cut.len(), before.len() + 1);
    assert_eq!(p.g.changes(p.pieces).count(), 2);
    p.g.remove(p.input, &border);
    p.g.tick();
    assert_eq!(p.list(), before);
    assert_eq!(p.g.changes(p.pieces).count(), 2);
}

#[test]
fn names_without_borders_are_cut_all_the_same() {
    // Odd hashes have no zero at the end at all.
    let odd: Vec<u64> = (0..4_000).filter(|key| stable_hash(key) % 2 == 1).collect();
    let mut p = Pieces::build(16, odd.iter().copied());
    let list = p.list();
    assert!(list.iter().flat_map(|(_, piece)| piece).eq(&odd));
    assert!(list.iter().all(|(_, piece)| piece.len() <= 4 * 16));
    // Whatever the history, the same pieces.
    let gone = odd[odd.len() / 2];
    p.g.remove(p.input, &gone);
    p.g.tick();
    let rest = odd.iter().copied().filter(|key| *key != gone);
    assert_eq!(p.list(), Pieces::build(16, rest.rev()).list());
    p.g.set(p.input, gone, 0);
    p.g.tick();
    assert_eq!(p.list(), list);
    odd.iter().for_each(|key| assert!(p.g.remove(p.input, key)));
    p.g.tick();
    assert!(p.list().is_empty() && p.g.is_empty(p.lists));
}

#[test]
fn long_segments_are_cut_at_weaker_borders() {
    // No border of size 64, but those of size 32 and below are there.
    let keys: Vec<u64> = (0..4_000).filter(|key| stable_hash(key) % 64 != 0).collect();
    let mut p = Pieces::build(64, keys.iter().copied());
    let list = p.list();
    assert!(list.len() > 15 && list.iter().all(|(_, piece)| piece.len() <= 4 * 64));
    let inner = *keys.iter().skip(2_000).find(|key| stable_hash(*key) % 2 == 1).unwrap();
    let cost = p.cost(|g, input| assert!(g.remove(input, &inner)));
    assert_eq!(cost, (1, 1), "a key that is no border of any kind moves none");
}

#[test]
fn sizes_out_of_range_are_taken_as_the_nearest() {
    for (size, pieces) in [(0, 100), (1, 100), (usize::MAX, 1)] {
        assert_eq!(Pieces::build(size, 0..100).list().len(), pieces, "{size}");
    }
}
