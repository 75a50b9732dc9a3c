//! What is kept of an object that the API server has: who it is, whose, and what facts are made of.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, GroupVersionKind};
use serde::Deserialize;
use serde_json::Value;

use super::name::Owner;
use super::object::ObjectKind;
use super::{fields, lean};

/// Addresses, and names of hosts, of a Service that are kept of each sort; and ports, 6 bytes each, so 24 KB.
const ADDRESSES: usize = 64;
const PORTS: usize = 4_096;

/// Longest words of Kubernetes about a workload that are kept, in bytes.
const LONGEST_WORDS: usize = 1_000;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId {
    pub(super) kind: ObjectKind,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl fmt::Display for ObjectId {
    /// For people: `Service shop/gw-1234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.names().1, self.namespace, self.name)
    }
}

/// What the library has to know of a kind.
pub(super) fn resource((api_version, kind, plural): (&str, &str, &str)) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// An object of the API server, reduced to the fields that are used.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Raw {
    #[serde(deserialize_with = "lean::metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

/// A `ConfigMap` with its `data`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RawData {
    #[serde(deserialize_with = "lean::metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) data: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    replicas: Option<u32>,
    r#type: Option<Arc<str>>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    #[serde(rename = "externalIPs")]
    /// An API server takes spellings that are none here, such as `010.0.0.1`.
    external_ips: Option<Vec<String>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort {
    port: u16,
    node_port: Option<u16>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    observed_generation: i64,
    /// Of a Deployment.
    available_replicas: u32,
    /// Of a `DaemonSet`.
    number_available: u32,
    conditions: Option<Vec<RawCondition>>,
    load_balancer: Option<RawLoadBalancer>,
    /// Of a node.
    addresses: Option<Vec<RawNodeAddress>>,
}

#[derive(Clone, Debug, Deserialize)]
struct RawCondition {
    r#type: String,
    status: String,
    #[serde(default)]
    message: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawLoadBalancer {
    ingress: Option<Vec<RawIngress>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawIngress {
    ip: Option<String>,
    hostname: Option<Arc<str>>,
}

#[derive(Clone, Debug, Deserialize)]
struct RawNodeAddress {
    r#type: String,
    address: String,
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Raw {
    pub(super) fn uid(&self) -> Arc<str> {
        self.metadata.uid.as_deref().unwrap_or_default().into()
    }

    /// Numbers of one object grow; one that is no number is older than all.
    pub(super) fn version(&self) -> u64 {
        self.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
    }

    pub(super) fn own_fields(&self) -> u64 {
        fields::hash(fields::own(self.metadata.managed_fields.as_deref().unwrap_or_default()))
    }

    /// How many Pods a Deployment shall have.
    pub(super) fn replicas(&self) -> Option<u32> {
        self.spec.replicas
    }

    /// The addresses by which clients reach a node: external ones if it has any.
    pub(super) fn node_addresses(&self) -> Vec<IpAddr> {
        let of = |kind: &str| -> Vec<IpAddr> {
            let addresses = self.status.addresses.iter().flatten().filter(|address| address.r#type == kind);
            addresses.filter_map(|address| address.address.parse().ok()).collect()
        };
        let external = of("ExternalIP");
        if external.is_empty() { of("InternalIP") } else { external }
    }
}

/// An object of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) owner: Owner,
    pub(super) uid: Arc<str>,
    pub(super) version: u64,
    /// It is on its way out.
    pub(super) deleting: bool,
    /// See [`fields::hash`].
    pub(super) own_fields: u64,
    /// Who else owns fields of it.
    pub(super) others: Arc<[Arc<str>]>,
    pub(super) about: About,
}

/// What facts are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Nothing,
    Workload(Workload),
    Service(Service),
}

/// How it goes with Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    /// The figures are of what is asked for now.
    pub(super) current: bool,
    /// None shall run. (A `DaemonSet` says that of itself at first, before it has looked at the nodes.)
    pub(super) is_off: bool,
    /// How many serve.
    pub(super) available: u32,
    /// Why Pods cannot be made, in the words of Kubernetes.
    pub(super) trouble: Option<Arc<str>>,
}

/// How a Service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    /// `LoadBalancer`, `ClusterIP`, `NodePort`.
    pub(super) of_type: Arc<str>,
    pub(super) cluster: Vec<IpAddr>,
    pub(super) external: Vec<IpAddr>,
    pub(super) ingress: Vec<IpAddr>,
    pub(super) hostnames: Vec<Arc<str>>,
    /// Ports, and those of nodes that lead to them.
    pub(super) ports: Vec<(u16, Option<u16>)>,
}

impl Seen {
    /// Reads an object: what is kept of it is none if it does not say for which Gateway it is, or is in a namespace in which none of that Gateway are made.
    pub(super) fn read(kind: ObjectKind, raw: &Raw, controller: &str) -> Option<(ObjectId, Option<Self>)> {
        let metadata = &raw.metadata;
        let id =
            ObjectId { kind, namespace: metadata.namespace.as_deref()?.into(), name: metadata.name.as_deref()?.into() };
        let Some(owner) = Owner::read(metadata).filter(|owner| owner.may_have(&id.namespace, controller)) else {
            return Some((id, None));
        };
        let others = fields::others(metadata.managed_fields.as_deref().unwrap_or_default());
        let about = match kind {
            ObjectKind::Deployment | ObjectKind::DaemonSet => About::Workload(workload(kind, raw)),
            ObjectKind::Service => About::Service(service(raw)),
            _ => About::Nothing,
        };
        let seen = Self {
            owner,
            uid: raw.uid(),
            version: raw.version(),
            deleting: metadata.deletion_timestamp.is_some(),
            own_fields: raw.own_fields(),
            others: others.into_iter().map(Arc::from).collect(),
            about,
        };
        Some((id, Some(seen)))
    }
}

fn workload(kind: ObjectKind, raw: &Raw) -> Workload {
    let Raw { metadata, spec, status, .. } = raw;
    let (is_off, available) = match kind {
        ObjectKind::DaemonSet => (false, status.number_available),
        _ => (spec.replicas == Some(0), status.available_replicas),
    };
    let failing = |condition: &&RawCondition| condition.r#type == "ReplicaFailure" && condition.status == "True";
    let trouble = status.conditions.iter().flatten().find(failing).map(|condition| words(&condition.message));
    Workload { current: status.observed_generation >= metadata.generation.unwrap_or(0), is_off, available, trouble }
}

fn words(text: &str) -> Arc<str> {
    text.get(..text.floor_char_boundary(LONGEST_WORDS)).unwrap_or_default().into()
}

fn some_addresses<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<IpAddr> {
    texts.filter_map(|text| text.parse().ok()).take(ADDRESSES).collect()
}

/// Returns true for the name of a host, which has 253 bytes at most (RFC 1123).
fn is_host(name: &Arc<str>) -> bool {
    (1..=253).contains(&name.len())
}

fn service(raw: &Raw) -> Service {
    let Raw { spec, status, .. } = raw;
    let ingress = || status.load_balancer.iter().flat_map(|found| found.ingress.iter().flatten());
    Service {
        of_type: spec.r#type.clone().filter(|of_type| of_type.len() <= 63).unwrap_or_else(|| "ClusterIP".into()),
        // `None`, of a headless Service, is no address
        cluster: some_addresses(spec.cluster_ips.iter().flatten()),
        external: some_addresses(spec.external_ips.iter().flatten()),
        ingress: some_addresses(ingress().filter_map(|found| found.ip.as_ref())),
        hostnames: ingress().filter_map(|found| found.hostname.clone()).filter(is_host).take(ADDRESSES).collect(),
        ports: spec.ports.iter().flatten().take(PORTS).map(|port| (port.port, port.node_port)).collect(),
    }
}
