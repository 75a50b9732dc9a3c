//! The client, message by message, and against our own server in turmoil.

mod absence;
mod delta;
mod fallback;
mod refusal;
mod rig;
mod saved;
mod server;
mod shell;
mod sotw;
mod turmoil;
