//! A lab with real programs, and what pods in it do. Most tests share one, each with a namespace of its own.
//!
//! | file | shows |
//! |---|---|
//! | `network` | Services, load balancers, names, endpoints that follow readiness |
//! | `containers` | images, init containers, crashes, probes, ends |
//! | `volumes` | Secrets that change, tokens, what a node without more kinds says |
//! | `security` | users, ports below 1024, folders that are not to be written |
//! | `logs` | what `kubectl logs` can ask for |
//! | `outage` | an API server that is killed and comes back |
//! | `install` | the manifests of Chancery: rights, and definitions that keep what they do not name |
//! | `ends` | nothing is left, however the lab ends |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod containers;
mod ends;
mod harness;
mod install;
mod logs;
mod network;
mod outage;
mod security;
mod volumes;
