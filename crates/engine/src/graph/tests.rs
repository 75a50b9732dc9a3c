//! The graph from outside: what runs, what changes, what is refused.

use std::sync::Arc;

use crate::{Graph, Index, NodeKind, Table};

type Map = Vec<(u32, u32)>;

fn sorted(g: &Graph, table: Table<u32, u32>) -> Map {
    let mut rows: Map = g.iter(table).map(|(key, value)| (*key, *value)).collect();
    rows.sort_unstable();
    rows
}

fn runs(g: &Graph, name: &str) -> u64 {
    g.nodes().find(|node| node.name == name).unwrap().runs
}

#[test]
fn a_graph_goes_to_other_threads() {
    fn check<T: Send + Sync>() {}
    check::<Graph>();
}

#[test]
fn room_for_rows_is_no_row_and_only_inputs_get_it() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let twice = g.map("twice", input, |_, _, value| value * 2);
    g.make_room(input, 1_000);
    assert_eq!(g.tick().runs, 0);
    assert!(g.is_empty(input));
    g.set(input, 1, 10);
    g.tick();
    assert_eq!(sorted(&g, twice), [(1, 20)]);
    g.make_room(twice, 1_000);
    assert_eq!(g.refusals().len(), 1);
}

#[test]
fn a_map_follows_its_source() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let twice = g.map("twice", input, |_, _, value| value * 2);
    g.set(input, 1, 10);
    g.set(input, 2, 20);
    assert_eq!(g.tick().runs, 2);
    assert_eq!(sorted(&g, twice), [(1, 20), (2, 40)]);
    g.set(input, 1, 11);
    assert!(g.remove(input, &2));
    assert!(!g.remove(input, &3));
    g.tick();
    assert_eq!(sorted(&g, twice), [(1, 22)]);
    let mut changes: Vec<_> = g.changes(twice).map(|c| (*c.key, c.old.copied(), c.new.copied())).collect();
    changes.sort_unstable();
    assert_eq!(changes, [(1, Some(20), Some(22)), (2, Some(40), None)]);
    g.settle();
    assert_eq!(g.changes(twice).count(), 0);
    assert_eq!((g.len(twice), g.get(twice, &1), g.get(twice, &2)), (1, Some(&22), None));
}

#[test]
fn equal_values_wake_nobody() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let parity = g.map("parity", input, |_, _, value| value % 2);
    let reader = g.map("reader", input, move |cx, _, _| cx.get(parity, &0).copied());
    g.set(input, 0, 1);
    g.set(input, 1, 1);
    g.tick();
    g.set(input, 0, 3);
    assert_eq!(g.tick().runs, 2, "the parity of 0, and the reader whose source row changed");
    assert_eq!(g.changes(reader).count(), 0);
    g.set(input, 0, 3);
    assert_eq!(g.tick().runs, 0);
}

#[test]
fn the_latest_value_before_a_tick_wins() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let copy = g.map("copy", input, |_, _, value| *value);
    g.set(input, 1, 1);
    g.set(input, 1, 2);
    assert_eq!(g.tick().runs, 1);
    g.set(input, 1, 3);
    g.set(input, 1, 2);
    assert_eq!(g.tick().runs, 0, "it is what it was");
    g.set(input, 2, 1);
    g.remove(input, &2);
    assert_eq!(g.tick().runs, 0, "it came and went");
    g.settle();
    assert_eq!(g.size().keys, 2, "one key each in the input and the copy");
    assert_eq!(sorted(&g, copy), [(1, 2)]);
}

#[test]
fn a_row_that_is_written_back_to_what_it_was_keeps_the_very_value() {
    let mut g = Graph::new();
    let input: Table<u32, Arc<u32>> = g.input("input");
    g.set(input, 1, Arc::new(7));
    g.tick();
    g.settle();
    let before = Arc::clone(g.get(input, &1).unwrap());
    g.set(input, 1, Arc::new(8));
    g.set(input, 1, Arc::new(7));
    g.tick();
    assert_eq!(g.changes(input).count(), 0);
    assert!(Arc::ptr_eq(&before, g.get(input, &1).unwrap()), "nobody is told of another one");
}

#[test]
fn settling_between_set_and_tick_loses_nothing() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let copy = g.map("copy", input, |_, _, value| *value);
    g.set(input, 1, 1);
    g.tick();
    g.remove(input, &1);
    g.tick();
    g.set(input, 1, 2);
    g.remove(input, &1);
    g.set(input, 2, 2);
    g.settle();
    g.set(input, 1, 3);
    g.settle();
    g.tick();
    assert_eq!(sorted(&g, copy), [(1, 3), (2, 2)]);
}

/// Readers of every facet of group 7, in tables of the name of the facet.
struct Facets {
    g: Graph,
    input: Table<u32, u32>,
    asker: Table<(), u32>,
    results: Table<(), u32>,
}

fn facets() -> Facets {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let asker: Table<(), u32> = g.input("asker");
    let groups: Index<u32, u32, u32> = g.index("index", input, |_, value| [value / 10]);
    g.map("members", asker, move |cx, (), _| cx.members(groups, &7).values().sum::<u32>());
    g.map("keys", asker, move |cx, (), _| cx.keys(groups, &7).sum::<u32>());
    g.map("count", asker, move |cx, (), _| cx.count(groups, &7));
    g.map("any", asker, move |cx, (), _| cx.any(groups, &7));
    g.map("get", asker, move |cx, (), _| cx.get(input, &1).copied());
    g.map("contains", asker, move |cx, (), _| cx.contains(input, &1));
    let results = g.map("results", asker, move |cx, (), _| cx.members(groups, &7).len() as u32);
    g.set(asker, (), 0);
    g.tick();
    Facets { g, input, asker, results }
}

impl Facets {
    /// The readers that run when `edit` is made.
    fn woken(&mut self, edit: impl FnOnce(&mut Graph, Table<u32, u32>)) -> Vec<&'static str> {
        let names = ["members", "keys", "count", "any", "get", "contains"];
        let before = names.map(|name| runs(&self.g, name));
        edit(&mut self.g, self.input);
        self.g.tick();
        names
            .into_iter()
            .zip(before)
            .filter(|(name, runs_before)| runs(&self.g, name) != *runs_before)
            .map(|(name, _)| name)
            .collect()
    }
}

#[test]
fn a_read_wakes_for_what_it_asked_and_for_nothing_else() {
    let mut f = facets();
    assert_eq!(f.woken(|g, input| g.set(input, 5, 50)), [""; 0], "another group");
    assert_eq!(f.woken(|g, input| g.set(input, 1, 70)), ["members", "keys", "count", "any", "get", "contains"]);
    assert_eq!(f.woken(|g, input| g.set(input, 1, 71)), ["members", "get"]);
    assert_eq!(f.woken(|g, input| g.set(input, 2, 72)), ["members", "keys", "count"]);
    let swap = |g: &mut Graph, input| {
        g.remove(input, &2);
        g.set(input, 3, 72);
    };
    assert_eq!(f.woken(swap), ["members", "keys"]);
    assert_eq!(f.woken(|g, input| g.set(input, 1, 10)), ["members", "keys", "count", "get"]);
    assert_eq!(f.woken(|g, input| assert!(g.remove(input, &3))), ["members", "keys", "count", "any"]);
    assert_eq!(f.woken(|g, input| assert!(g.remove(input, &1))), ["get", "contains"]);
    assert_eq!(f.g.get(f.results, &()), Some(&0));
    f.g.remove(f.asker, &());
    f.g.remove(f.input, &5);
    f.g.tick();
    f.g.settle();
    assert_eq!((f.g.size().edges, f.g.size().keys), (0, 0), "nothing is remembered of what is gone");
}

#[test]
fn groups_are_sorted_by_key_whatever_the_history() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let all = g.index("all", input, |_, _| [()]);
    let list = g.group("list", all, |_, (), members| members.keys().copied().collect::<Vec<_>>());
    let keys = (0..500u32).map(|at| at * 7_919 % 1_009);
    let mut expected = std::collections::BTreeSet::new();
    for (at, key) in keys.enumerate() {
        if key % 5 == 0 && !expected.is_empty() {
            let victim = *expected.iter().nth(expected.len() / 2).unwrap();
            expected.remove(&victim);
            g.remove(input, &victim);
        }
        expected.insert(key);
        g.set(input, key, 0);
        if at % 23 == 0 || at < 20 {
            g.tick();
            assert!(g.get(list, &()).unwrap().iter().eq(&expected));
            assert!(g.members(all, &()).keys().eq(&expected));
        }
    }
    assert_eq!(g.groups(all).count(), 1);
}

#[test]
fn the_smallest_source_key_owns_a_row_that_two_emit() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("claim");
    let claims = g.derive("owner", input, |_, key, claimed| [(*claimed, *key)]);
    g.set(input, 8, 5);
    g.set(input, 1, 5);
    g.set(input, 9, 5);
    g.tick();
    assert_eq!(sorted(&g, claims), [(5, 1)]);
    let conflicts = g.conflicts(claims);
    assert_eq!(conflicts.len(), 1);
    assert_eq!((conflicts[0].key, conflicts[0].owner.as_str()), (&5, "1"));
    assert_eq!(conflicts[0].losers, ["8", "9"]);
    g.remove(input, &1);
    g.tick();
    assert_eq!(sorted(&g, claims), [(5, 8)]);
    g.remove(input, &9);
    g.tick();
    assert!(g.conflicts(claims).is_empty());
}

#[test]
fn who_owns_a_row_is_decided_after_all_units_ran() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("claim");
    let claims = g.derive("owner", input, |_, key, claimed| [(*claimed, *key)]);
    g.set(input, 1, 5);
    g.set(input, 12, 5);
    g.tick();
    // Row numbers, and so the order of runs: 1, 12, 23.
    g.remove(input, &1);
    g.set(input, 23, 5);
    g.tick();
    assert_eq!(sorted(&g, claims), [(5, 12)]);
}

#[test]
fn a_unit_that_emits_a_key_twice_keeps_the_first() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let out = g.derive("out", input, |_, key, value| vec![(*key, *value), (*key, 0), (100, 1)]);
    g.set(input, 1, 10);
    g.tick();
    assert_eq!(sorted(&g, out), [(1, 10), (100, 1)]);
}

#[test]
fn a_panic_costs_its_unit_until_something_it_read_changes() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let limit: Table<(), u32> = g.input("limit");
    let out = g.map("checked", input, move |cx, key, value| {
        let limit = cx.get(limit, &()).copied().unwrap_or(0);
        assert!(*value <= limit, "{key} is over {limit}");
        *value
    });
    let index = g.index("index", out, |_, value| {
        assert_ne!(*value, 13, "unlucky");
        [*value]
    });
    g.set(limit, (), 20);
    g.set(input, 1, 10);
    g.set(input, 2, 30);
    g.set(input, 3, 13);
    g.tick();
    assert_eq!(sorted(&g, out), [(1, 10), (3, 13)]);
    let panics: Vec<_> = g.panics().iter().map(|panic| (panic.node, panic.key, panic.message)).collect();
    let [(node, key, message), (index_node, index_key, _)] = panics[..] else { panic!("{panics:?}") };
    assert_eq!((node, key, message), ("checked", "2", "2 is over 20"));
    assert_eq!((index_node, index_key), ("index", "3"));
    g.set(limit, (), 40);
    g.remove(input, &3);
    g.tick();
    assert_eq!(sorted(&g, out), [(1, 10), (2, 30)]);
    assert!(g.panics().is_empty());
    assert_eq!(g.members(index, &30).len(), 1);
    g.set(limit, (), 25);
    g.tick();
    assert_eq!(sorted(&g, out), [(1, 10)]);
    g.remove(input, &2);
    g.tick();
    assert!(g.panics().is_empty(), "the unit is gone, and its panic with it");
}

#[test]
fn writing_a_derived_table_is_refused() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let copy = g.map("copy", input, |_, _, value| *value);
    g.set(copy, 1, 1);
    g.remove(copy, &1);
    g.tick();
    assert!(g.is_empty(copy));
    assert_eq!(g.refusals().len(), 1);
    assert_eq!(g.refusals()[0].node, "copy");
}

#[test]
fn a_handle_of_another_graph_is_refused() {
    let (mut g, mut other) = (Graph::new(), Graph::new());
    let near: Table<u32, u32> = g.input("near");
    let _: Table<u32, u32> = other.input("first");
    let far: Table<u32, u32> = other.input("second");
    g.set(far, 1, 1);
    let copy = g.map("copy", far, |_, _, value| *value);
    let reader = g.map("reader", near, move |cx, _, _| cx.contains(far, &1));
    g.set(near, 1, 1);
    g.tick();
    assert_eq!((g.get(copy, &1), g.get(reader, &1)), (None, Some(&false)));
    assert_eq!(g.refusals().len(), 2);
}

#[test]
fn more_tables_than_fit_are_refused() {
    let mut g = Graph::new();
    let first: Table<u32, u32> = g.input("first");
    for _ in 1..8_190 {
        let _: Table<u32, u32> = g.input("more");
    }
    assert!(g.refusals().is_empty());
    let over = g.map("over", first, |_, _, value| *value);
    g.set(first, 1, 1);
    g.tick();
    assert!(g.is_empty(over));
    assert_eq!(g.refusals()[0].node, "over");
}

#[test]
fn a_node_declared_late_computes_what_is_there() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let index = g.index("index", input, |_, value| [value % 2]);
    (0..100).for_each(|key| g.set(input, key, key));
    g.tick();
    let copy = g.map("copy", input, |_, _, value| *value);
    let count = g.group("count", index, |_, _, members| members.len() as u32);
    let chunks = g.chunks("chunks", index, 4);
    let sizes = g.group("sizes", chunks, |_, _, members| members.len());
    g.tick();
    assert_eq!(g.len(copy), 100);
    assert_eq!(sorted(&g, count), [(0, 50), (1, 50)]);
    assert_eq!(g.iter(sizes).map(|(_, size)| size).sum::<usize>(), 100);
    g.set(input, 7, 8);
    g.tick();
    assert_eq!(g.members(index, &0).len(), 51);
    assert_eq!(g.iter(sizes).map(|(_, size)| size).sum::<usize>(), 100);
}

#[test]
fn nodes_report_their_costs() {
    let mut g = Graph::new();
    let input: Table<u32, Arc<str>> = g.input("input");
    let index = g.index("by_text", input, |_, text| [text.clone()]);
    g.group("group", index, |_, _, members| members.len());
    g.set(input, 1, "a".into());
    g.set(input, 2, "a".into());
    let stats = g.tick();
    assert_eq!((stats.nodes, stats.runs), (2, 3));
    let nodes: Vec<_> = g.nodes().map(|node| (node.name, node.kind, node.size, node.runs)).collect();
    let expected =
        [("input", NodeKind::Input, 2, 0), ("by_text", NodeKind::Index, 1, 2), ("group", NodeKind::Derived, 1, 1)];
    assert_eq!(nodes, expected);
}

#[test]
fn one_change_runs_the_same_at_any_size() {
    let runs = [100u32, 5_000].map(|size| {
        let mut g = Graph::new();
        let input: Table<u32, u32> = g.input("input");
        let views = g.map("view", input, |_, _, value| value + 1);
        let index = g.index("index", views, |key, _| [key / 10]);
        g.group("group", index, |_, _, members| members.values().sum::<u32>());
        (0..size).for_each(|key| g.set(input, key, key));
        g.tick();
        g.set(input, 55, 0);
        g.tick().runs
    });
    assert_eq!(runs, [3, 3]);
}

fn limit(g: &mut Graph, table: Table<u32, u32>, rows: u32) {
    crate::table::table_mut::<crate::rows::Rows<u32, u32>>(&mut *g.tables[table.id as usize])
        .unwrap()
        .slab
        .set_limit(rows);
}

#[test]
fn rows_beyond_the_bound_are_refused_and_the_rest_goes_on() {
    let mut g = Graph::new();
    let input: Table<u32, u32> = g.input("input");
    let out = g.derive("out", input, |_, key, value| vec![(*key, *value), (*key + 100, *value)]);
    limit(&mut g, input, 3);
    limit(&mut g, out, 5);
    (1..=4).for_each(|key| g.set(input, key, key));
    assert_eq!(g.refusals().len(), 1);
    g.tick();
    assert_eq!(g.len(input), 3);
    assert_eq!(sorted(&g, out), [(1, 1), (2, 2), (3, 3), (101, 1), (102, 2)]);
    assert_eq!(g.panics().iter().map(|panic| panic.key).collect::<Vec<_>>(), ["3"]);
    g.remove(input, &1);
    g.tick();
    g.settle();
    g.set(input, 3, 5);
    g.tick();
    assert_eq!(sorted(&g, out), [(2, 2), (3, 5), (102, 2), (103, 5)]);
    assert!(g.panics().is_empty());
}
