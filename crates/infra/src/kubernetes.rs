//! Proxies as Pods of a Kubernetes cluster: a Deployment or `DaemonSet`, a Service and what belongs to them, for each Gateway.
//!
//! Map: [`object`] what the objects are like, `name` what they are called, [`mod@shutdown`] how a proxy ends.

mod name;
pub mod object;
pub mod shutdown;

pub use object::{ClusterOptions, ObjectKind, Wanted, objects};
pub use shutdown::shutdown;
