//! The supervisor with the real Envoy: what people see when things start, die, go and come back.

mod lifetime;
pub(crate) mod stage;
mod trouble;
