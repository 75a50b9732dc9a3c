//! Lists per unit against a plain map.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::test_runner::{Config, TestRng, TestRunner};

use super::Lists;

#[test]
fn lists_are_what_was_set_last() {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&vec((0..12u32, vec(0..9u32, 0..4)), 1..80), |sets| {
        let (mut lists, mut model) = (Lists::default(), BTreeMap::new());
        for (unit, rows) in sets {
            lists.set(unit, &rows);
            model.insert(unit, rows);
            for unit in 0..13 {
                assert_eq!(lists.get(unit), model.get(&unit).map_or(&[][..], Vec::as_slice));
            }
        }
        let used = model.values().filter(|rows| rows.len() > 1).count();
        assert_eq!(lists.many.len() - lists.free.len(), used, "lists that are not in use are free");
        Ok(())
    });
    result.unwrap();
}
