//! `ConfigMap`.

use serde::Deserialize;

use crate::kind::Kind;
use crate::meta::Labels;
use crate::resource::{Resource, Spec};

/// A core `ConfigMap`.
pub type ConfigMap = Resource<ConfigMapSpec>;

/// The fields of a `ConfigMap`; `binaryData` is not read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapSpec {
    /// Texts by key.
    pub data: Labels,
}

impl Spec for ConfigMapSpec {
    const KIND: Kind = Kind::ConfigMap;
    const FIELD: &'static str = "";
}
