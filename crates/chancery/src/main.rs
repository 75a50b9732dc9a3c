//! The `chancery` binary.
fn main() {}
