//! Other users of the machine.
