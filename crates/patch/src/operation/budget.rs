//! The budget for the work of all operations on one resource: the core thread does it, and all other authors wait.

use serde_json::Value;

use super::OperationError;
use super::size::Size;

/// Work for all operations on one resource, in looks at a value. A look takes about 100 ns and 100 bytes: 0.2 s and 200 MB.
const MOST_WORK: u64 = 2_000_000;

/// Work for a resource without values: 2 ms. A thousand patches, each of another small resource, take two seconds.
const LEAST_WORK: u64 = 20_000;

/// Work for each value of the resource and of its patches: 0.1 ms, some six regular expressions for each, so that what an author can cause grows with
/// what there is to change.
const WORK_OF_VALUE: u64 = 1_000;

/// Looks at each value that printing a resource costs, and parsing, judging and encoding it once more: 0.5 µs a value each.
const READ: u64 = 5;

/// Values or places that move up where an item or a member is taken out or put in, for each look: about 10 ns each.
const MOVED: u64 = 8;

/// Work that may still be done on one resource, over all policies in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    whole: u64,
}

impl Budget {
    /// The budget of a resource with so much to change: its document and the values of its patches.
    pub fn of<'v>(parts: impl IntoIterator<Item = &'v Value>) -> Self {
        let work: u64 = parts.into_iter().map(|part| Size::of(part).work()).fold(0, u64::saturating_add);
        let whole = work.saturating_mul(WORK_OF_VALUE).saturating_add(LEAST_WORK).min(MOST_WORK);
        Self { left: whole, whole }
    }

    /// Returns true if an operation has cost more than was left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Takes the work of printing a resource, or of reading it.
    ///
    /// # Errors
    /// [`OperationError::Spent`] if that is more than is left.
    pub fn read(&mut self, document: &Value) -> Result<(), OperationError> {
        self.spend(Size::of(document).work().saturating_mul(READ))
    }

    /// Takes work. Where less is left, nothing is: cheaper operations of later policies would only be left out one by one.
    pub(super) fn spend(&mut self, work: u64) -> Result<(), OperationError> {
        let left = self.left.checked_sub(work);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(OperationError::Spent)
    }

    /// Takes the work of a change in a list or map with this number of entries.
    pub(super) fn shift(&mut self, entries: usize) -> Result<(), OperationError> {
        self.spend(1 + entries as u64 / MOVED)
    }

    /// Returns true if this much work is more than all operations on the resource may do.
    pub(super) fn is_above(&self, work: u64) -> bool {
        work > self.whole
    }
}
