//! Faults that tests put in on purpose, to see that the property tests notice. Outside tests there are none.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A reader of an absent key is not woken when the key arrives.
    SleepAbsence,
    /// A reader of an absent group is not woken when it gets members.
    SleepGroupAbsence,
    /// A reader of a presence is not woken when the row goes.
    SleepPresence,
    /// A reader of a value is not woken when it changes.
    SleepValue,
    /// A reader of a count is not woken when it changes.
    SleepCount,
    /// A reader of the keys of a group is not woken when they change.
    SleepKeys,
    /// A unit that looks only at whether its group is there is not run when that changes.
    SleepDistinct,
    /// Who owns an output is not decided again after all units ran.
    NoPromotion,
    /// Outputs equal to the previous ones count as changes.
    NoCutOff,
    /// A row written twice that ends where it began counts as a change.
    NoRewriteCheck,
    /// A new border does not cut the piece before it.
    NoCut,
    /// Edges of what is no longer read are kept.
    StaleEdges,
    /// Absent keys are never forgotten.
    KeepAbsent,
    /// Removed rows are never freed.
    KeepRows,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn on(fault: Fault) -> bool {
    ON.get() == Some(fault)
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn on(_: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) fn set(fault: Option<Fault>) {
    ON.set(fault);
}
