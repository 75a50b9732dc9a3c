//! `EnvoyProxy.spec.provider.kubernetes`: what the Kubernetes objects of a fleet shall be like.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::meta::Labels;
use crate::open::open_enum;
use crate::tree::Verbatim;

/// Fields of a Kubernetes object, passed on as they are written: the API server knows what they mean.
pub type Fields = BTreeMap<Box<str>, Arc<Value>>;

/// `EnvoyProxy.spec.provider.kubernetes`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubernetesProvider {
    /// The Pods, as a number of them.
    pub envoy_deployment: Option<Box<EnvoyWorkload>>,
    /// The Pods, one on every node.
    pub envoy_daemon_set: Option<Box<EnvoyWorkload>>,
    /// Where clients reach them.
    pub envoy_service: Option<Box<EnvoyService>>,
    /// How many there are.
    pub envoy_hpa: Option<Box<EnvoyExtra>>,
    /// How many may be away.
    #[serde(rename = "envoyPDB")]
    pub envoy_pdb: Option<Box<EnvoyExtra>>,
    /// Who they are.
    pub envoy_service_account: Option<EnvoyServiceAccount>,
    /// Bind the ports of the listeners as they are, also below 1024.
    pub use_listener_port_as_container_port: bool,
}

/// `envoyDeployment` and `envoyDaemonSet`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyWorkload {
    /// Name of the object.
    pub name: Option<Box<str>>,
    /// How many Pods (Deployment only).
    pub replicas: Option<u32>,
    /// How Pods are replaced.
    pub strategy: Option<Arc<Value>>,
    /// The Pods.
    pub pod: EnvoyPod,
    /// Envoy's container.
    pub container: EnvoyContainer,
    /// Containers before Envoy's (Deployment only).
    pub init_containers: Option<Arc<Value>>,
    /// Changes to the finished object.
    pub patch: Option<ObjectPatch>,
}

/// `pod`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub struct EnvoyPod {
    /// Labels of the Pods.
    pub labels: Labels,
    /// Annotations of the Pods.
    pub annotations: Labels,
    /// Fields of the Pods' `spec`.
    #[serde(flatten)]
    pub spec: Fields,
}

/// `container`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyContainer {
    /// Envoy's image.
    pub image: Option<Box<str>>,
    /// Envoy's image without its tag.
    pub image_repository: Option<Box<str>>,
    /// Fields of the container.
    #[serde(flatten)]
    pub fields: Fields,
}

/// `envoyService`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub struct EnvoyService {
    /// Name of the Service.
    pub name: Option<Box<str>>,
    /// How it is reached.
    #[serde(rename = "type")]
    pub service_type: EnvoyServiceType,
    /// Labels of the Service.
    pub labels: Labels,
    /// Annotations of the Service.
    pub annotations: Labels,
    /// Changes to the finished object.
    pub patch: Option<ObjectPatch>,
    /// Fields of its `spec`.
    #[serde(flatten)]
    pub spec: Fields,
}

open_enum! {
    /// `envoyService.type`.
    EnvoyServiceType {
        /// At an address of a load balancer.
        LoadBalancer = "LoadBalancer",
        /// At an address of the cluster.
        ClusterIp = "ClusterIP",
        /// At a port of every node.
        NodePort = "NodePort",
    }
}

/// `envoyHpa` and `envoyPDB`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub struct EnvoyExtra {
    /// Name of the object.
    pub name: Option<Box<str>>,
    /// Changes to the finished object.
    pub patch: Option<ObjectPatch>,
    /// Fields of its `spec`.
    #[serde(flatten)]
    pub spec: Fields,
}

/// `envoyServiceAccount`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub struct EnvoyServiceAccount {
    /// Name of the `ServiceAccount`.
    pub name: Option<Box<str>>,
}

/// `patch` of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
pub struct ObjectPatch {
    /// How it is meant.
    #[serde(rename = "type")]
    pub patch_type: ObjectPatchType,
    /// The change, in which a null means something.
    pub value: Verbatim,
}

open_enum! {
    /// `patch.type`.
    ObjectPatchType {
        /// Some lists are merged item by item.
        StrategicMerge = "StrategicMerge",
        /// RFC 7396.
        JsonMerge = "JSONMerge",
    }
}
