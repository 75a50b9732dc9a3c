//! What the graph asks of a node without knowing its types, and what happens when a transform panics.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cx::Reads;
use crate::edges::Edges;
use crate::table::{AnyTable, Tables};

pub(crate) trait AnyNode: Send + Sync {
    /// Runs the units of the step and writes the table; returns how many runs that took.
    fn run(&mut self, step: &mut Step<'_>, table: &mut dyn AnyTable) -> u64;
    /// The units without an output because of a panic or a bound.
    fn failures(&self) -> &Failures;
    /// The table whose rows are the units.
    fn source(&self) -> Option<u16> {
        None
    }
    /// Outputs that more than one unit emits: row, owner, losers.
    fn conflicts(&self) -> Vec<(u32, u32, &[u32])> {
        Vec::new()
    }
}

/// One node's part of a tick.
pub(crate) struct Step<'t> {
    /// The tables declared before this node.
    pub(crate) tables: &'t Tables,
    pub(crate) edges: &'t mut Edges,
    /// Scratch space.
    pub(crate) reads: &'t mut Reads,
    pub(crate) node: u16,
    /// The units to run, rising, each once.
    pub(crate) units: &'t [u32],
}

/// Why units have no output: kept until they run again.
#[derive(Default)]
pub(crate) struct Failures {
    pub(crate) units: BTreeMap<u32, Failure>,
}

pub(crate) struct Failure {
    pub(crate) key: String,
    pub(crate) message: String,
}

pub(crate) const TOO_MANY_ROWS: &str = "the table is full: it has the most rows that a table can have";
pub(crate) const TOO_MANY_READS: &str = "the graph is full: this unit read more than can be remembered";

impl Failures {
    /// Runs one transform. False: it panicked, and that is noted.
    pub(crate) fn guard(&mut self, unit: u32, key: impl Fn() -> String, run: impl FnOnce()) -> bool {
        // What a transform leaves half done is its list of outputs, which is thrown away, and reads, which are kept:
        // the unit has to run again when one of them changes.
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(()) => {
                if !self.units.is_empty() {
                    self.units.remove(&unit);
                }
                true
            }
            Err(payload) => {
                let key = catch_unwind(AssertUnwindSafe(key)).unwrap_or_default();
                self.units.insert(unit, Failure { key, message: text(&*payload) });
                false
            }
        }
    }

    pub(crate) fn note(&mut self, unit: u32, key: String, message: &str) {
        self.units.insert(unit, Failure { key, message: message.to_owned() });
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        return (*text).to_owned();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without a message".to_owned())
}
