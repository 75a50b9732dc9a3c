//! Makes [`ir::Infra`] real: proxies come, run and go as it says. [`host`] runs Envoy as a supervised child on this machine.

pub mod host;
