//! Values that a proxy looks up while it runs (RTDS).

#[cfg(test)]
mod tests;

use ir::Runtime;
use prost_types::{Struct, Value, value::Kind};
use proto::envoy::service::runtime::v3 as proto_runtime;

use crate::resource::{Encoded, type_url};

/// The layer of every bootstrap that the control plane fills, and the name of the only resource of its kind in a fleet.
pub const RUNTIME_LAYER: &str = "chancery.limits";

/// The values of a fleet.
pub fn runtime(runtime: &Runtime) -> Encoded {
    let message = proto_runtime::Runtime { name: RUNTIME_LAYER.to_owned(), layer: Some(layer(runtime)) };
    Encoded::whole(type_url::RUNTIME, RUNTIME_LAYER.into(), &message, Vec::new())
}

/// The same as Envoy's keys and values.
pub(crate) fn layer(runtime: &Runtime) -> Struct {
    let limit = |(cluster, limit): (&ir::ClusterName, &u32)| {
        let value = Value { kind: Some(Kind::NumberValue(f64::from(*limit))) };
        (format!("circuit_breakers.{cluster}.default.max_connections"), value)
    };
    Struct { fields: runtime.max_connections.iter().map(limit).collect() }
}
