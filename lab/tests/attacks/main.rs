//! Attacks in a cluster that Chancery serves: by authors of objects, and by who has got hold of something that is not theirs. Tests share one lab, each with
//! namespaces of its own.
//!
//! | file | shows |
//! |---|---|
//! | `secrets` | what of others' Secrets, `ConfigMap`s and `ClusterTrustBundle`s Chancery asks the API server for, by the audit log |
//! | `tokens` | what a token is good for whose Pod is gone |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../served/cluster.rs"]
mod cluster;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
mod secrets;
mod tokens;
