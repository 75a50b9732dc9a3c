//! Attacks in a cluster that Chancery serves: by authors of objects, and by thieves of tokens. Tests share one lab, each with namespaces of its own.
//!
//! | file | shows |
//! |---|---|
//! | `deploy` | an `EnvoyProxy` and Backends that would reach objects, addresses and sockets of others |
//! | `pods` | an author of an `EnvoyProxy` that would change what the operator's lists do not name |
//! | `secrets` | the Secrets, `ConfigMap`s and `ClusterTrustBundle`s that Chancery requests from the API server, by its audit log |
//! | `tokens` | a token whose Pod or account is gone opens nothing, and an account that an `EnvoyProxy` names makes no Pod a proxy |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../served/cluster.rs"]
mod cluster;
mod deploy;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
mod pods;
mod secrets;
mod tokens;
