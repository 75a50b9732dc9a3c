//! A cluster that Chancery serves, from outside. Tests share one lab, each with a namespace of its own.
//!
//! | file | shows |
//! |---|---|
//! | `cluster` | how it comes to be: by the commands of the README |
//! | `certs` | `chancery certs`: who signs, and who signs next |
//! | `people` | `chancery status` and `chancery proxy`, and the rights that they need |
//! | `world` | a namespace with a Gateway, and what its conditions say |
//! | `mistakes` | what people get wrong costs its part, is told where it is, and nothing else notices |
//! | `probes` | what a proxy says of itself to those who probe it |
//! | `rights` | the roles allow what is used, and no more |
//! | `addresses` | where a Gateway is reachable, as it asks for it |
//! | `quickstart` | the rest of these commands: requests go through Envoy |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod addresses;
mod certs;
mod cluster;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
mod mistakes;
mod people;
mod probes;
mod quickstart;
mod rights;
mod world;
