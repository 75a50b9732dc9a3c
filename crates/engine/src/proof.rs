//! The engine against its specification: after any history, a small graph with every kind of node and read must be
//! equal to a naive computation and to a fresh graph, and must remember no more than that does. The faults that are put
//! in on purpose show that these checks would notice.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::fault::{self, Fault};

mod miniature;
mod naive;

use miniature::Miniature;

/// What is set from outside.
#[derive(Clone, Default, Debug)]
struct Inputs {
    a: BTreeMap<u8, (u8, u8)>,
    b: BTreeMap<u8, u8>,
}

/// Table: key, value; both in their debug form.
type State = BTreeMap<&'static str, BTreeMap<String, String>>;

/// Table: key, owner and losers of every row that more than one unit emits.
type Conflicts = BTreeMap<&'static str, Vec<String>>;

#[derive(Clone, Copy, Debug)]
enum Op {
    SetA(u8, u8, u8),
    RemoveA(u8),
    SetB(u8, u8),
    RemoveB(u8),
    /// Not a change: frees what is old between two changes.
    Settle,
}

/// What is done before one tick.
type Batch = Vec<Op>;

const CASES: u32 = 400;

#[test]
fn any_history_gives_what_a_naive_computation_gives() {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&histories(), |history| check(&history).map_err(TestCaseError::fail));
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Whether the check notices a fault within `cases` histories, and a message for the log of the test.
#[track_caller]
fn caught(fault: Fault) {
    let mut runner = TestRunner::deterministic();
    for case in 0..CASES {
        let history = histories().new_tree(&mut runner).unwrap().current();
        fault::set(Some(fault));
        // A fault may also end in a panic of the engine; that is noticed as well.
        let result = catch_unwind(AssertUnwindSafe(|| check(&history)));
        fault::set(None);
        match result {
            Ok(Ok(())) => {}
            Ok(Err(message)) => return println!("{fault:?} noticed by history {case}: {message}"),
            Err(_) => return println!("{fault:?} noticed by history {case}: a panic"),
        }
    }
    panic!("{fault:?} was not noticed in {CASES} histories");
}

macro_rules! faults {
    ($($name:ident: $fault:ident;)*) => {$(
        #[test]
        fn $name() {
            caught(Fault::$fault);
        }
    )*};
}

faults! {
    a_reader_of_an_absent_key_that_sleeps_is_noticed: SleepAbsence;
    a_reader_of_an_absent_group_that_sleeps_is_noticed: SleepGroupAbsence;
    a_reader_of_a_presence_that_sleeps_is_noticed: SleepPresence;
    a_reader_of_a_value_that_sleeps_is_noticed: SleepValue;
    a_reader_of_a_count_that_sleeps_is_noticed: SleepCount;
    a_reader_of_keys_that_sleeps_is_noticed: SleepKeys;
    a_unit_per_group_that_is_not_told_of_a_new_group_is_noticed: SleepDistinct;
    ownership_not_decided_again_is_noticed: NoPromotion;
    a_missing_cut_off_is_noticed: NoCutOff;
    a_row_that_ends_where_it_began_is_noticed_as_a_change: NoRewriteCheck;
    a_border_that_does_not_cut_is_noticed: NoCut;
    stale_edges_are_noticed: StaleEdges;
    absent_keys_that_are_kept_are_noticed: KeepAbsent;
    removed_rows_that_are_kept_are_noticed: KeepRows;
}

fn histories() -> impl Strategy<Value = Vec<Batch>> {
    let op = prop_oneof![
        // Few groups and values: owners, groups and readers meet often.
        8 => (0..40u8, 0..5u8, 0..12u8).prop_map(|(key, group, value)| Op::SetA(key, group, value)),
        4 => (0..40u8).prop_map(Op::RemoveA),
        3 => (0..6u8, 0..40u8).prop_map(|(key, value)| Op::SetB(key, value)),
        1 => (0..6u8).prop_map(Op::RemoveB),
        1 => any::<()>().prop_map(|()| Op::Settle),
    ];
    // Long batches merge many members at once, short ones sort them in one by one.
    let batch = prop_oneof![6 => vec(op.clone(), 1..6), 1 => vec(op, 30..80)];
    vec(batch, 1..12)
}

fn check(history: &[Batch]) -> Result<(), String> {
    let mut inputs = Inputs::default();
    let mut grown = Miniature::declare();
    let mut before = grown.state();
    for (at, batch) in history.iter().enumerate() {
        for op in batch {
            grown.apply(*op);
            inputs.apply(*op);
        }
        grown.tick();
        let after = grown.state();
        equal("a change", &replay(before, &grown)?, &after)?;
        check_state(&inputs, &mut grown, &after).map_err(|message| format!("tick {at}: {message}"))?;
        before = after;
    }
    Ok(())
}

fn check_state(inputs: &Inputs, grown: &mut Miniature, after: &State) -> Result<(), String> {
    let expected = naive::state(inputs);
    equal("a table", after, &expected.state)?;
    equal("conflicts", &grown.conflicts(), &expected.conflicts)?;
    equal("panics", &grown.panics(), &expected.panics)?;

    let mut fresh = Miniature::declare();
    for (key, (group, value)) in inputs.a.iter().rev() {
        fresh.apply(Op::SetA(*key, *group, *value));
    }
    for (key, value) in inputs.b.iter().rev() {
        fresh.apply(Op::SetB(*key, *value));
    }
    fresh.tick();
    equal("a table of the fresh graph", &fresh.state(), &expected.state)?;
    fresh.settle();
    grown.settle();
    equal("what is remembered", &grown.size(), &fresh.size())?;

    let runs = grown.tick();
    equal("runs of a second tick", &runs, &0)?;
    equal("changes of a second tick", &grown.changes().len(), &0)
}

/// Applies the changes to the old tables, and checks that each is one.
fn replay(mut state: State, grown: &Miniature) -> Result<State, String> {
    for (table, key, old, new) in grown.changes() {
        let rows = state.entry(table).or_default();
        equal(&format!("the old value of {key} in {table}"), &old.as_ref(), &rows.get(&key))?;
        if old == new {
            return Err(format!("{table} says that {key} changed from {old:?} to itself"));
        }
        match new {
            Some(new) => rows.insert(key, new),
            None => rows.remove(&key),
        };
    }
    Ok(state)
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?}, expected {expected:?}")) }
}

impl Inputs {
    fn apply(&mut self, op: Op) {
        match op {
            Op::SetA(key, group, value) => drop(self.a.insert(key, (group, value))),
            Op::RemoveA(key) => drop(self.a.remove(&key)),
            Op::SetB(key, value) => drop(self.b.insert(key, value)),
            Op::RemoveB(key) => drop(self.b.remove(&key)),
            Op::Settle => {}
        }
    }
}

/// The groups of a row of `a`: none, one, or two.
fn groups_of((group, value): (u8, u8)) -> Vec<u8> {
    match value % 4 {
        3 => vec![],
        2 => vec![group, (group + 1) % 6],
        _ => vec![group],
    }
}

/// What a row of `a` claims, and the value that it gives: of two claimants it is often the same.
fn claims_of(key: u8, (group, value): (u8, u8)) -> Vec<(u8, u8)> {
    match value % 3 {
        0 => vec![(group, key % 2)],
        1 => vec![(group, key % 2), (value + 10, key), (group, 99)],
        _ => vec![],
    }
}

/// Rows of `a` with this value have no output in the table `picky`: its transform panics.
const PICKY: u8 = 7;
