//! `ServiceImport` of the Multi-Cluster Services API (KEP-1645): a Service that several clusters have.

use serde::Deserialize;

use crate::kind::Kind;
use crate::resource::{Resource, Spec};
use crate::service::ServicePort;

/// A named set of ports whose endpoints are in several clusters; they come from slices.
pub type ServiceImport = Resource<ServiceImportSpec>;

/// `ServiceImport.spec`: what is read of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportSpec {
    /// Ports.
    pub ports: Box<[ServicePort]>,
}

impl Spec for ServiceImportSpec {
    const KIND: Kind = Kind::ServiceImport;
}
