//! The `chancery` binary as a library: the verbs, and what `run` is wired from.
//!
//! [`cli`] has the verbs; `serve` is the wiring of `run`, read top to bottom it is the picture in ARCHITECTURE.md; `core` is the one
//! thread that owns the graph; [`publish`] turns its changes into bytes; `admin` answers those who ask,
//! [`host_header`] decides which of their requests; `memory` says how much the process may use; `offline` does what needs no process.

mod admin;
pub mod cli;
mod core;
mod diagnostics;
mod explain;
pub mod host_header;
mod last_good;
mod memory;
mod offline;
pub mod publish;
mod report;
mod sarif;
mod serve;
mod telemetry;
mod yaml;
