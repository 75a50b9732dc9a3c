//! A Gateway under load while everything around it fails, restarts and changes: no answer may be wrong, what is changed has to arrive, and statuses
//! stay what they are. Tests take turns with one lab; `make chaos` gives more of everything.
//!
//! | file | shows |
//! |---|---|
//! | `shop` | the Gateway, its proxies and services |
//! | `load` | who asks, and judges the answers |
//! | `conditions` | what statuses say meanwhile |
//! | `control_plane` | Chancery and the API server fail, and are replaced |
//! | `proxies` | proxies end and come |
//! | `changes` | backends that are replaced, listeners that come and go |
//! | `patches` | patches on what the proxies get, one that they refuse among them |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "figures, and when what went wrong")]

mod changes;
#[path = "../served/cluster.rs"]
mod cluster;
mod conditions;
mod control_plane;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
#[path = "../proxies/inside.rs"]
mod inside;
mod load;
mod patches;
mod proxies;
mod scale;
mod shop;
