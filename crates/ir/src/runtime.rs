//! Values that a proxy looks up while it runs: where one changes, nothing is made anew.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::name::ClusterName;

/// Those of a fleet; where there is none, what the resource itself says holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// Connections of a cluster at a time; of one that takes datagrams, clients within a minute.
    pub max_connections: BTreeMap<ClusterName, u32>,
}
