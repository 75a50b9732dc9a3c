//! From [`ir::Infra`] to Kubernetes objects, as JSON: pure, so that it can be looked at and compared.

mod fixed;
mod workload;

pub(super) use workload::{POD_FOLDERS, config_files, xds_service};

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ir::Infra;
use ir::infra::KubernetesInfra;
use ir::infra::kubernetes::{Extra, Fields, Patch, PatchType, Place, ServiceType};
use serde_json::{Map, Value, json};

use super::name;

#[cfg(test)]
pub(super) mod tests;

/// What is the same for all fleets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// The name of the controller. With its namespace it tells installations apart that share a cluster: none touches what another made.
    pub controller: Arc<str>,
    /// The namespace of the controller.
    pub namespace: Arc<str>,
    /// The host name at which proxies reach the control plane, and that its certificate has.
    pub xds_host: Arc<str>,
    /// The port.
    pub xds_port: u16,
    /// For whom the tokens are with which proxies prove who they are.
    pub audience: Arc<str>,
    /// Envoy's image without its tag.
    pub envoy_repository: Arc<str>,
    /// The tag of Envoy's image.
    pub envoy_tag: Arc<str>,
    /// Our own image: it brings the tool that drains a proxy.
    pub own_image: Arc<str>,
    /// Certificates of the authorities that sign the control plane's, as PEM.
    pub authorities: Arc<str>,
}

impl ClusterOptions {
    /// The label that every object of this installation carries.
    pub(super) fn label(&self) -> String {
        name::controller(&self.controller, &self.namespace)
    }
}

/// Kinds of objects that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Who the proxies are.
    ServiceAccount,
    /// Their bootstrap.
    ConfigMap,
    /// A number of Pods.
    Deployment,
    /// A Pod on every node.
    DaemonSet,
    /// Where clients reach them.
    Service,
    /// How many there are.
    HorizontalPodAutoscaler,
    /// How many of them may be away.
    PodDisruptionBudget,
}

impl ObjectKind {
    /// Every kind, in the order in which objects are made: what Pods need comes before them.
    pub const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Service,
        Self::Deployment,
        Self::DaemonSet,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
    ];

    /// Whether Pods are made of it.
    #[must_use]
    pub const fn has_pods(self) -> bool {
        matches!(self, Self::Deployment | Self::DaemonSet)
    }

    /// Returns true if facts are made of more than metadata of it.
    pub(super) const fn has_facts(self) -> bool {
        matches!(self, Self::Service | Self::Deployment | Self::DaemonSet)
    }

    /// Group and version, kind, plural.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ServiceAccount => ("v1", "ServiceAccount", "serviceaccounts"),
            Self::ConfigMap => ("v1", "ConfigMap", "configmaps"),
            Self::Service => ("v1", "Service", "services"),
            Self::Deployment => ("apps/v1", "Deployment", "deployments"),
            Self::DaemonSet => ("apps/v1", "DaemonSet", "daemonsets"),
            Self::HorizontalPodAutoscaler => ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
            Self::PodDisruptionBudget => ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        }
    }
}

/// An object that there shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// All of it, for server-side apply; or why there is none, with the field of `EnvoyProxy` that is at fault.
    pub object: Result<Value, Fault>,
    /// Addresses in the cluster that it asks for; a Service can do without them.
    pub cluster_addresses: Vec<IpAddr>,
}

/// What of the user's settings cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field of `EnvoyProxy`.
    pub path: Arc<str>,
    /// What is wrong.
    pub text: Arc<str>,
}

/// The objects of a fleet, in the order in which they are made. None for a fleet of this machine.
#[must_use]
pub fn objects(infra: &Infra, options: &ClusterOptions) -> Vec<Wanted> {
    let Some(kubernetes) = infra.kubernetes.as_deref() else { return Vec::new() };
    let maker = Maker::new(infra, kubernetes, options);
    let mut made = vec![maker.service_account(), maker.config_map(), maker.service(), maker.workload()];
    made.extend(kubernetes.autoscaler.as_ref().map(|extra| maker.autoscaler(extra)));
    made.extend(kubernetes.disruption_budget.as_ref().map(|extra| maker.disruption_budget(extra)));
    made
}

/// One fleet's objects in the making.
struct Maker<'a> {
    infra: &'a Infra,
    kubernetes: &'a KubernetesInfra,
    options: &'a ClusterOptions,
    namespace: Arc<str>,
    /// The name of every object without its own.
    name: Arc<str>,
    /// Envoy's, as text.
    bootstrap: String,
}

impl<'a> Maker<'a> {
    fn new(infra: &'a Infra, kubernetes: &'a KubernetesInfra, options: &'a ClusterOptions) -> Self {
        let namespace = match kubernetes.place {
            Place::Gateway => &infra.gateway.namespace,
            Place::Controller => &options.namespace,
        };
        let name = name::object_name(&infra.gateway, kubernetes.place).into();
        let bootstrap = workload::bootstrap(infra, options);
        Self { infra, kubernetes, options, namespace: Arc::clone(namespace), name, bootstrap }
    }

    /// An object with this content beside its metadata.
    fn object(&self, kind: ObjectKind, own: Own<'_>, content: Value) -> Wanted {
        let (api_version, kind_name, _) = kind.names();
        let name = own.name.unwrap_or(&self.name);
        let mut object = json!({ "apiVersion": api_version, "kind": kind_name, "metadata": self.metadata(name, own) });
        merge(&mut object, content);
        let fault = |path: &str, text: String| Fault { path: path.into(), text: text.into() };
        // Fields of the user stand in it already.
        let mut checked = self.still_ours(&object, kind, name).map_err(|text| fault(own.path, text));
        if let (Ok(()), Some(patch)) = (&checked, own.patch) {
            let patched = apply(&mut object, patch).and_then(|()| self.still_ours(&object, kind, name));
            checked = patched.map_err(|text| fault(&format!("{}.patch.value", own.path), text));
        }
        Wanted {
            kind,
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(name),
            object: checked.map(|()| object),
            cluster_addresses: Vec::new(),
        }
    }

    /// Own labels win over the user's: by them objects and Pods are found.
    fn metadata(&self, name: &str, own: Own<'_>) -> Value {
        let mut annotations = strings(&self.kubernetes.annotations);
        annotations.extend(own.annotations.map(strings).unwrap_or_default());
        annotations.insert(name::FULL_NAME.to_owned(), (*self.infra.gateway.name).into());
        let mut labels = self.labels(own.labels);
        labels.insert(name::CONTROLLER.to_owned(), self.options.label().into());
        let mut metadata = json!({
            "name": name,
            "namespace": &*self.namespace,
            "labels": labels,
            "annotations": annotations,
        });
        if let (Some(owner), Value::Object(fields)) = (self.owner(), &mut metadata) {
            fields.insert("ownerReferences".to_owned(), owner);
        }
        metadata
    }

    /// With the Gateway its objects go, where they can: only what is in its namespace can be its own.
    fn owner(&self) -> Option<Value> {
        let uid = self.kubernetes.uid.as_deref().filter(|_| self.kubernetes.place == Place::Gateway)?;
        let owner = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "name": &*self.infra.gateway.name,
            "uid": uid,
        });
        Some(json!([owner]))
    }

    fn labels(&self, more: Option<&BTreeMap<Arc<str>, Arc<str>>>) -> Map<String, Value> {
        let mut labels = strings(&self.kubernetes.labels);
        labels.extend(more.map(strings).unwrap_or_default());
        let gateway = &self.infra.gateway.name;
        let own = [
            ("gateway.networking.k8s.io/gateway-name", name::label_value(gateway)),
            ("gateway.networking.k8s.io/gateway-class-name", name::label_value(&self.kubernetes.class)),
        ];
        labels.extend(own.map(|(label, value)| (label.to_owned(), value.into())));
        labels.extend(self.selector());
        labels
    }

    fn selector(&self) -> Map<String, Value> {
        let labels = name::selector(&self.infra.gateway).into_iter();
        labels.map(|(label, value)| (label.to_string(), (*value).into())).collect()
    }

    fn service_account(&self) -> Wanted {
        let own = Own { name: self.kubernetes.service_account.as_ref(), ..Own::default() };
        self.object(ObjectKind::ServiceAccount, own, json!({}))
    }

    fn service_account_name(&self) -> &Arc<str> {
        self.kubernetes.service_account.as_ref().unwrap_or(&self.name)
    }

    fn config_map(&self) -> Wanted {
        let data = self.files();
        self.object(ObjectKind::ConfigMap, Own::default(), json!({ "data": data }))
    }

    /// One port of the Service for each of the Gateway: clients and redirects know that one, whatever proxies bind.
    fn service(&self) -> Wanted {
        let settings = &self.kubernetes.service;
        let port = |name: String, protocol: &str, port: u16| json!({ "name": name, "port": port, "protocol": protocol, "targetPort": self.bound(port) });
        let tcp = self.infra.ports.iter().map(|number| port(format!("port-{number}"), "TCP", *number));
        let udp = self.infra.udp_ports.iter().map(|number| port(format!("udp-{number}"), "UDP", *number));
        let mut spec = json!({
            "type": settings.service_type.as_str(),
            "selector": self.selector(),
            "ports": tcp.chain(udp).collect::<Vec<_>>(),
        });
        let of_nodes = settings.service_type != ServiceType::ClusterIp;
        let address = self.infra.addresses.first().map(ToString::to_string);
        let addresses = self.cluster_addresses();
        let own = [
            ("externalTrafficPolicy", of_nodes.then(|| "Local".to_owned())),
            ("loadBalancerIP", address.filter(|_| settings.service_type == ServiceType::LoadBalancer)),
            ("ipFamilyPolicy", self.kubernetes.dual_stack.then(|| "PreferDualStack".to_owned())),
        ];
        if let Value::Object(fields) = &mut spec {
            fields.extend(own.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.into()))));
            put_cluster_addresses(fields, &addresses);
        }
        put_over(&mut spec, &settings.spec);
        let own = Own {
            name: settings.name.as_ref(),
            labels: Some(&settings.labels),
            annotations: Some(&settings.annotations),
            patch: settings.patch.as_ref(),
            path: "spec.provider.kubernetes.envoyService",
        };
        Wanted { cluster_addresses: addresses, ..self.object(ObjectKind::Service, own, json!({ "spec": spec })) }
    }

    /// Addresses that the Service shall have in the cluster: no more than one of each family, as no Service has more.
    fn cluster_addresses(&self) -> Vec<IpAddr> {
        let is_inside = self.kubernetes.service.service_type == ServiceType::ClusterIp;
        let outer = self.infra.addresses.iter().filter(|_| is_inside);
        let mut found: Vec<IpAddr> = Vec::new();
        for address in self.kubernetes.cluster_addresses.iter().chain(outer) {
            if found.iter().all(|other| other.is_ipv4() != address.is_ipv4()) {
                found.push(*address);
            }
        }
        found
    }

    /// The port that proxies bind for a port of the Gateway.
    fn bound(&self, port: u16) -> u16 {
        let mapped = self.kubernetes.mapped_ports.iter().find(|(from, _)| *from == port);
        mapped.map_or(port, |(_, to)| *to)
    }

    fn workload_kind(&self) -> ObjectKind {
        if self.kubernetes.workload.on_every_node { ObjectKind::DaemonSet } else { ObjectKind::Deployment }
    }

    fn workload(&self) -> Wanted {
        let settings = &self.kubernetes.workload;
        let path = match settings.on_every_node {
            false => "spec.provider.kubernetes.envoyDeployment",
            true => "spec.provider.kubernetes.envoyDaemonSet",
        };
        let own = Own { name: settings.name.as_ref(), patch: settings.patch.as_ref(), path, ..Own::default() };
        self.object(self.workload_kind(), own, json!({ "spec": self.workload_spec() }))
    }

    fn autoscaler(&self, extra: &Extra) -> Wanted {
        let cpu = json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } });
        let mut spec = json!({
            "scaleTargetRef": self.scale_target(),
            "metrics": [{ "type": "Resource", "resource": cpu }],
        });
        put_over(&mut spec, &extra.spec);
        self.extra(ObjectKind::HorizontalPodAutoscaler, extra, "spec.provider.kubernetes.envoyHpa", spec)
    }

    fn disruption_budget(&self, extra: &Extra) -> Wanted {
        let mut spec = json!({ "selector": self.match_labels() });
        put_over(&mut spec, &extra.spec);
        self.extra(ObjectKind::PodDisruptionBudget, extra, "spec.provider.kubernetes.envoyPDB", spec)
    }

    fn extra(&self, kind: ObjectKind, extra: &Extra, path: &'static str, spec: Value) -> Wanted {
        let own = Own { name: extra.name.as_ref(), patch: extra.patch.as_ref(), path, ..Own::default() };
        self.object(kind, own, json!({ "spec": spec }))
    }
}

/// Gives a Service's `spec` the addresses that it shall have in the cluster; none is whichever there is.
pub(super) fn put_cluster_addresses(spec: &mut Map<String, Value>, addresses: &[IpAddr]) {
    spec.remove(ALL_IN_CLUSTER);
    spec.remove(IN_CLUSTER);
    let Some(first) = addresses.first() else { return };
    spec.insert(IN_CLUSTER.to_owned(), first.to_string().into());
    if addresses.len() > 1 {
        let all = addresses.iter().map(|address| Value::from(address.to_string())).collect();
        spec.insert(ALL_IN_CLUSTER.to_owned(), all);
        spec.insert("ipFamilyPolicy".to_owned(), "PreferDualStack".into());
    }
}

/// A Service's address in the cluster, the first of all of them.
pub(super) const IN_CLUSTER: &str = "clusterIP";
const ALL_IN_CLUSTER: &str = "clusterIPs";

/// What one object has of its own.
#[derive(Clone, Copy, Default)]
struct Own<'a> {
    name: Option<&'a Arc<str>>,
    labels: Option<&'a BTreeMap<Arc<str>, Arc<str>>>,
    annotations: Option<&'a BTreeMap<Arc<str>, Arc<str>>>,
    patch: Option<&'a Patch>,
    /// The field of `EnvoyProxy` that describes it.
    path: &'static str,
}

fn strings(from: &BTreeMap<Arc<str>, Arc<str>>) -> Map<String, Value> {
    from.iter().map(|(name, value)| (name.to_string(), (**value).into())).collect()
}

/// Adds fields to an object.
fn merge(object: &mut Value, content: Value) {
    if let (Value::Object(object), Value::Object(content)) = (object, content) {
        object.extend(content);
    }
}

/// The user's fields over ours.
fn put_over(ours: &mut Value, fields: &Fields) {
    if let Value::Object(ours) = ours {
        ours.extend(fields.iter().map(|(field, value)| (field.to_string(), (**value).clone())));
    }
}

fn apply(object: &mut Value, patch: &Patch) -> Result<(), String> {
    match patch.patch_type {
        PatchType::StrategicMerge => patch::strategic_merge(object, &patch.value).map_err(|error| error.to_string()),
        PatchType::JsonMerge => {
            patch::json_merge(object, &patch.value);
            Ok(())
        }
    }
}
