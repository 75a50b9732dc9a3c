//! `ClusterTrustBundle`: CA certificates for everybody in a cluster.

use serde::Deserialize;

use crate::kind::Kind;
use crate::resource::{Resource, Spec};

/// Certificates to believe.
pub type ClusterTrustBundle = Resource<ClusterTrustBundleSpec>;

/// `ClusterTrustBundle.spec`: what is read of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTrustBundleSpec {
    /// PEM.
    pub trust_bundle: Box<str>,
}

impl Spec for ClusterTrustBundleSpec {
    const KIND: Kind = Kind::ClusterTrustBundle;
}
