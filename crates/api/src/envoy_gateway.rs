//! `EnvoyGateway`: the static configuration. The fields that this version reads.

use std::sync::Arc;

use serde::Deserialize;

use crate::duration::DurationText;
use crate::envoy_proxy::EnvoyProxySpec;
use crate::kind::Kind;
use crate::open::open_enum;
use crate::resource::{Resource, Spec};
use crate::selector::LabelSelector;
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
    /// Treatment of policies that guard with fields which are not built; none: as the command line says.
    pub unsupported_policies: Option<UnsupportedPolicies>,
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

    /// Where the objects of a Kubernetes API server come from, if objects come from there: what `provider.kubernetes` says, as no provider at all
    /// means the same.
    #[must_use]
    pub fn kubernetes(&self) -> Option<KubernetesProvider> {
        match self.provider.as_deref() {
            None => Some(KubernetesProvider::default()),
            Some(provider) if provider.provider_type == ProviderType::Kubernetes => {
                Some(provider.kubernetes.clone().unwrap_or_default())
            }
            Some(_) => None,
        }
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

open_enum! {
    /// `unsupportedPolicies`.
    UnsupportedPolicies {
        /// Their targets are closed.
        Deny = "Deny",
        /// Their targets are served as if the policy was not there.
        Allow = "Allow",
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
    /// For `Kubernetes`.
    pub kubernetes: Option<KubernetesProvider>,
    /// For `Custom`.
    pub custom: Option<CustomProvider>,
}

/// `provider.kubernetes`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubernetesProvider {
    /// Whose objects are read; absent is everybody's.
    pub watch: Option<Watch>,
    /// Where the objects of proxies are made.
    pub deploy: Deploy,
    /// How replicas find out which of them writes.
    pub leader_election: LeaderElection,
}

/// `provider.kubernetes.watch`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Watch {
    /// Which of the two counts.
    #[serde(rename = "type")]
    pub watch_type: WatchType,
    /// For `Namespaces`.
    pub namespaces: Box<[Box<str>]>,
    /// For `NamespaceSelector`.
    pub namespace_selector: Option<LabelSelector>,
}

open_enum! {
    /// `provider.kubernetes.watch.type`.
    WatchType {
        /// Those that are named.
        Namespaces = "Namespaces",
        /// Those with these labels.
        NamespaceSelector = "NamespaceSelector",
    }
}

/// `provider.kubernetes.deploy`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deploy {
    /// In which namespace.
    #[serde(rename = "type")]
    pub deploy_type: DeployType,
    /// Fields of `EnvoyProxy.spec.provider.kubernetes` that have an effect, each with what is in it; none: all of them.
    pub allowed_fields: Option<Box<[Box<str>]>>,
    /// Names of ServiceAccounts that an `EnvoyProxy` may give Pods of proxies; none: all of them.
    pub allowed_service_accounts: Option<Box<[Box<str>]>>,
    /// Names of labels that `infrastructure` of a Gateway may give objects and Pods, or prefixes of them that end in `/`; none: all of them.
    pub allowed_labels: Option<Box<[Box<str>]>>,
    /// The same of annotations.
    pub allowed_annotations: Option<Box<[Box<str>]>>,
}

open_enum! {
    /// `provider.kubernetes.deploy.type`.
    DeployType {
        /// That of the Gateway, where it owns them.
        GatewayNamespace = "GatewayNamespace",
        /// That of the controller.
        ControllerNamespace = "ControllerNamespace",
    }
}

/// `provider.kubernetes.leaderElection`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    /// How long a lease holds after its last renewal; default 15 s.
    pub lease_duration: Option<DurationText>,
    /// How long a leader goes on that cannot renew it; default 10 s.
    pub renew_deadline: Option<DurationText>,
    /// How often it is renewed, or looked at; default 2 s.
    pub retry_period: Option<DurationText>,
    /// There is one replica, which leads.
    pub disable: bool,
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionApis {
    /// Whether routes may name a `Backend`.
    pub enable_backend: Option<bool>,
    /// Whether an `EnvoyPatchPolicy` has any effect.
    pub enable_envoy_patch_policy: bool,
    /// True if an `EnvoyProxy` may give Envoy the options of `extra_args`.
    pub enable_extra_args: bool,
    /// Options of Envoy by name, with their dashes or without.
    pub extra_args: Box<[Box<str>]>,
    /// Words for the powers of raw resources and patches over the proxy's machine.
    pub raw_resources: Box<[Box<str>]>,
    /// True if backends may lead to link-local addresses and metadata services of clouds.
    pub enable_link_local_backends: bool,
}

impl ExtensionApis {
    /// The options of Envoy that an `EnvoyProxy` may give.
    #[must_use]
    pub fn arguments(&self) -> &[Box<str>] {
        if self.enable_extra_args { &self.extra_args } else { &[] }
    }
}
