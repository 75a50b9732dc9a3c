//! Makes [`ir::Infra`] real: proxies come, run and go as it says. [`host`] runs Envoy as a supervised child on this machine,
//! [`kubernetes`] as Pods of a cluster.

pub mod host;
pub mod kubernetes;
