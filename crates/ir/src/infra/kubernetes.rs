//! Proxies in a Kubernetes cluster: what the objects of a fleet shall be like beyond what is the same for all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a fleet's objects shall be like (`EnvoyProxy.spec.provider.kubernetes`, `Gateway.spec.infrastructure`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesInfra {
    /// The class of the Gateway.
    pub class: Arc<str>,
    /// `metadata.uid` of the Gateway: it owns the objects that are in its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Arc<str>>,
    /// In which namespace the objects are.
    #[serde(default, skip_serializing_if = "Place::is_default")]
    pub place: Place,
    /// Labels of every object and Pod (`Gateway.spec.infrastructure.labels`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations of every object and Pod (`Gateway.spec.infrastructure.annotations`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Ports of clients that proxies bind as others, with these: sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mapped_ports: Vec<(u16, u16)>,
    /// Addresses of the cluster that are asked for (`Gateway.spec.addresses` of routability `Cluster`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_addresses: Vec<IpAddr>,
    /// More than one address of the cluster is asked for: one of each family, where it has both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dual_stack: bool,
    /// What runs the Pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Workload,
    /// Where clients reach them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service: Service,
    /// `HorizontalPodAutoscaler`, if there shall be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<Extra>,
    /// `PodDisruptionBudget`, if there shall be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_budget: Option<Extra>,
    /// Name of the `ServiceAccount`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<Arc<str>>,
}

/// The port of a proxy's own listener, for probes and collectors: no listener of a Gateway is bound there.
pub const LOCAL_PORT: u16 = 19_003;

/// The port at which a proxy shows its configuration, on its Pod's loopback: none of a Gateway's either.
pub const CONFIG_PORT: u16 = 19_004;

/// Fields of a Kubernetes object, as the user wrote them.
pub type Fields = BTreeMap<Arc<str>, Arc<Value>>;

/// A namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// That of the Gateway.
    #[default]
    Gateway,
    /// That of the controller.
    Controller,
}

impl Place {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What runs the Pods of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// A Pod on every node (`DaemonSet`), not a number of them (`Deployment`).
    #[serde(skip_serializing_if = "is_default")]
    pub on_every_node: bool,
    /// Name; none is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// How many Pods; none is one, or what the autoscaler says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// `spec.strategy` of a `Deployment`, `spec.updateStrategy` of a `DaemonSet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Arc<Value>>,
    /// Labels of the Pods only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations of the Pods only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Fields of the Pods' `spec`. Lists (`volumes`) are added to ours.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pod: Fields,
    /// Envoy's image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<str>>,
    /// Envoy's image without its tag, which is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<Arc<str>>,
    /// Fields of Envoy's container. Lists (`env`, `volumeMounts`) are added to ours.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub container: Fields,
    /// Containers that run before Envoy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Arc<Value>>,
    /// Changes to the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

/// Where clients reach the proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Name; none is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Its type.
    #[serde(skip_serializing_if = "is_default")]
    pub service_type: ServiceType,
    /// Labels of the Service only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations of the Service only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// `externalIPs` may be among its fields, which the operator allows: they take an address's traffic in the whole cluster.
    #[serde(skip_serializing_if = "is_default")]
    pub external_ips: bool,
    /// Fields of its `spec`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spec: Fields,
    /// Changes to the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

/// How a Service is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// At an address of a load balancer.
    #[default]
    LoadBalancer,
    /// At an address of the cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// At a port of every node.
    NodePort,
}

impl ServiceType {
    /// The word of the Kubernetes API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalancer => "LoadBalancer",
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
        }
    }
}

/// An object that is there only if it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extra {
    /// Name; none is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Fields of its `spec`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spec: Fields,
    /// Changes to the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

/// A change to a finished object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// How it is meant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patch_type: PatchType,
    /// The change.
    pub value: Arc<Value>,
}

/// How a change is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatchType {
    /// Some lists are merged item by item, as `kubectl patch` does it.
    #[default]
    StrategicMerge,
    /// RFC 7396.
    #[serde(rename = "JSONMerge")]
    JsonMerge,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
