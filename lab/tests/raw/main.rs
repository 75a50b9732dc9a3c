//! Envoy's own resources as objects in a cluster: two namespaces, three applications, ten Pods with an Envoy beside each. Tests take turns with one lab.
//!
//! | file | shows |
//! |---|---|
//! | `town` | the applications and what is written for them |
//! | `aim` | each Envoy has exactly what is for it, and conditions say so |
//! | `load` | requests to all applications while objects, labels and Chancery itself change |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "figures, and when what went wrong")]

mod aim;
#[path = "../chaos/load.rs"]
mod asking;
#[path = "../served/cluster.rs"]
mod cluster;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
#[path = "../proxies/inside.rs"]
#[expect(dead_code, reason = "nobody needs a client here")]
mod inside;
mod load;
mod town;
