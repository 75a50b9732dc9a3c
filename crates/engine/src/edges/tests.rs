//! Edges against a plain map.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::test_runner::{Config, TestRng, TestRunner};

use super::{Edges, Facet, MAX_TABLES, Target};

fn target(number: u32) -> Target {
    let facets = [Facet::Value, Facet::Presence, Facet::Absence, Facet::Keys, Facet::Count];
    Target::new((number % 2) as u16, facets[number as usize % 5], number / 10)
}

#[test]
fn readers_are_those_who_read_it_last() {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&vec(((0..3u16, 0..5u32), vec(0..30u32, 0..8)), 1..60), |runs| {
        let mut edges = Edges::default();
        let mut model: BTreeMap<(u16, u32), BTreeSet<u32>> = BTreeMap::new();
        let mut lost = BTreeSet::new();
        for ((node, unit), reads) in runs {
            let mut targets: Vec<Target> = reads.iter().map(|read| target(*read)).collect();
            assert!(edges.reconcile(node, unit, &mut targets));
            let now: BTreeSet<u32> = reads.into_iter().collect();
            let before = model.insert((node, unit), now.clone()).unwrap_or_default();
            lost.extend(before.difference(&now).map(|read| target(*read)).filter(|target| target.absence().is_some()));
        }
        for number in 0..30 {
            let mut readers = Vec::new();
            edges.for_readers(target(number), |node, unit| readers.push((node, unit)));
            readers.sort_unstable();
            let expected: Vec<_> =
                model.iter().filter(|(_, reads)| reads.contains(&number)).map(|(who, _)| *who).collect();
            assert_eq!(readers, expected);
            assert_eq!(edges.has_readers(target(number)), !expected.is_empty());
        }
        assert_eq!(edges.len(), model.values().map(BTreeSet::len).sum::<usize>());
        let orphans: BTreeSet<Target> = edges.take_orphans().into_iter().collect();
        assert!(orphans.is_subset(&lost));
        assert!(lost.iter().all(|target| edges.has_readers(*target) || orphans.contains(target)));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn the_last_table_and_facet_fit_into_a_lane() {
    let last = Target::new(MAX_TABLES - 1, Facet::Absence, 7);
    assert_eq!(last.absence(), Some((MAX_TABLES - 1, 7)));
    assert_eq!(Target::new(MAX_TABLES - 1, Facet::Count, 7).absence(), None);
}
