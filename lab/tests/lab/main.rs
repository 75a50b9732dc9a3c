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
//! | `ends` | nothing is left, however the lab ends |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod containers;
mod ends;
mod harness;
mod logs;
mod network;
mod outage;
mod security;
mod volumes;
