//! The objects of proxies, made by `infra::kubernetes` in a real cluster. Tests share one lab, each with a namespace of its own.
//!
//! | file | shows |
//! |---|---|
//! | `making` | that all is made, changed and removed, and what is told of it |
//! | `taking` | that nothing of somebody else is touched |
//! | `drift` | that what somebody else changes is put right, and that an autoscaler is left alone |
//! | `moving` | that what replaces is made before what it replaces goes |
//! | `failing` | refusals, namespaces that go, an API server that is away, ends at any moment |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drift;
mod failing;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
mod inside;
mod making;
mod moving;
mod stage;
mod taking;
