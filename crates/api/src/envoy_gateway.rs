//! `EnvoyGateway`: the static configuration. The fields that this version reads.

use std::sync::Arc;

use serde::Deserialize;

use crate::envoy_proxy::EnvoyProxySpec;
use crate::kind::Kind;
use crate::open::open_enum;
use crate::resource::{Resource, Spec};
use crate::tree::Verbatim;

/// The static configuration: a file of this kind, not a resource.
pub type EnvoyGateway = Resource<EnvoyGatewaySpec>;

/// The controller that we are, unless the configuration says otherwise: Envoy Gateway's, so that its users' classes
/// work unchanged.
pub const DEFAULT_CONTROLLER_NAME: &str = "gateway.envoyproxy.io/gatewayclass-controller";

/// The fields of the static configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyGatewaySpec {
    /// Which classes are ours.
    pub gateway: GatewayConfig,
    /// Where objects come from and where proxies run.
    pub provider: Option<Box<ProviderConfig>>,
    /// What is switched on beyond Gateway API.
    pub extension_apis: ExtensionApis,
    /// Settings for every fleet, unless a class or Gateway has its own.
    pub envoy_proxy: Option<Box<EnvoyProxySpec>>,
}

impl EnvoyGatewaySpec {
    /// Files and folders that objects come from (`provider.custom.resource.file.paths`).
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let custom = self.provider.iter().filter_map(|provider| provider.custom.as_ref());
        let files = custom.filter_map(|custom| custom.resource.file.as_ref());
        files.flat_map(|file| file.paths.iter().map(|path| &**path))
    }
}

impl Spec for EnvoyGatewaySpec {
    const KIND: Kind = Kind::EnvoyGateway;
    const FIELD: &'static str = "";

    fn keep(&mut self, written: impl FnOnce() -> Verbatim) {
        if let Some(proxy) = self.envoy_proxy.as_deref_mut() {
            proxy.written = Verbatim(Arc::new(written().0.get("envoyProxy").cloned().unwrap_or_default()));
        }
    }
}

/// `gateway`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayConfig {
    /// The controller that we are, default [`DEFAULT_CONTROLLER_NAME`].
    pub controller_name: Box<str>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self { controller_name: DEFAULT_CONTROLLER_NAME.into() }
    }
}

/// `provider`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderConfig {
    /// Kubernetes for both, or each apart.
    #[serde(rename = "type")]
    pub provider_type: ProviderType,
    /// For `Custom`.
    pub custom: Option<CustomProvider>,
}

open_enum! {
    /// `provider.type`.
    ProviderType {
        /// Objects from the API server, proxies as Deployments.
        Kubernetes = "Kubernetes",
        /// As `custom` says.
        Custom = "Custom",
    }
}

/// `provider.custom`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomProvider {
    /// Where objects come from.
    pub resource: ResourceProvider,
    /// Where proxies run.
    pub infrastructure: Option<InfrastructureProvider>,
}

/// `provider.custom.resource`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceProvider {
    /// Kind of source.
    #[serde(rename = "type")]
    pub resource_type: ResourceProviderType,
    /// For `File`.
    pub file: Option<FileProvider>,
}

open_enum! {
    /// `provider.custom.resource.type`.
    ResourceProviderType {
        /// Files and directories.
        File = "File",
        /// The API server.
        Kubernetes = "Kubernetes",
    }
}

/// `provider.custom.resource.file`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileProvider {
    /// Files and directories.
    pub paths: Box<[Box<str>]>,
}

/// `provider.custom.infrastructure`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InfrastructureProvider {
    /// Where proxies run.
    #[serde(rename = "type")]
    pub infrastructure_type: InfrastructureProviderType,
}

open_enum! {
    /// `provider.custom.infrastructure.type`.
    InfrastructureProviderType {
        /// As processes of this machine.
        Host = "Host",
    }
}

/// `extensionApis`. Absent is none: the binary decides by mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionApis {
    /// Whether routes may name a `Backend`.
    pub enable_backend: Option<bool>,
}
