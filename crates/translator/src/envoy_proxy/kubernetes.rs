//! `EnvoyProxy.spec.provider.kubernetes`: what the Kubernetes objects of a fleet shall be like.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Labels;
use api::envoy_proxy::kubernetes::{
    EnvoyExtra, EnvoyService, EnvoyServiceType, EnvoyWorkload, KubernetesProvider, ObjectPatch, ObjectPatchType,
};
use ir::infra::kubernetes::{Extra, Fields, Patch, PatchType, Service, ServiceType, Workload};

/// What the objects of every Gateway with these settings shall be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectSettings {
    pub(crate) workload: Workload,
    pub(crate) service: Service,
    pub(crate) autoscaler: Option<Extra>,
    pub(crate) disruption_budget: Option<Extra>,
    pub(crate) service_account: Option<Arc<str>>,
    /// Ports are bound as they are, also those below 1024.
    pub(crate) own_ports: bool,
}

/// Reads them.
pub(crate) fn read(provider: &KubernetesProvider) -> ObjectSettings {
    let workload = match (provider.envoy_deployment.as_deref(), provider.envoy_daemon_set.as_deref()) {
        (_, Some(daemon_set)) => Workload { on_every_node: true, ..workload(daemon_set) },
        (Some(deployment), None) => workload(deployment),
        (None, None) => Workload::default(),
    };
    let account = provider.envoy_service_account.as_ref().and_then(|account| account.name.as_deref());
    ObjectSettings {
        workload,
        service: provider.envoy_service.as_deref().map(service).unwrap_or_default(),
        autoscaler: provider.envoy_hpa.as_deref().map(extra),
        disruption_budget: provider.envoy_pdb.as_deref().map(extra),
        service_account: account.map(Arc::from),
        own_ports: provider.use_listener_port_as_container_port,
    }
}

fn workload(written: &EnvoyWorkload) -> Workload {
    Workload {
        on_every_node: false,
        name: shared(&written.name),
        replicas: written.replicas,
        strategy: written.strategy.clone(),
        pod_labels: strings(&written.pod.labels),
        pod_annotations: strings(&written.pod.annotations),
        pod: fields(&written.pod.spec),
        image: shared(&written.container.image),
        image_repository: shared(&written.container.image_repository),
        container: fields(&written.container.fields),
        init_containers: written.init_containers.clone(),
        patch: written.patch.as_ref().map(patch),
    }
}

fn service(written: &EnvoyService) -> Service {
    Service {
        name: shared(&written.name),
        service_type: match written.service_type {
            EnvoyServiceType::ClusterIp => ServiceType::ClusterIp,
            EnvoyServiceType::NodePort => ServiceType::NodePort,
            EnvoyServiceType::LoadBalancer | EnvoyServiceType::Unknown(_) => ServiceType::LoadBalancer,
        },
        labels: strings(&written.labels),
        annotations: strings(&written.annotations),
        external_ips: false,
        spec: fields(&written.spec),
        patch: written.patch.as_ref().map(patch),
    }
}

fn extra(written: &EnvoyExtra) -> Extra {
    Extra { name: shared(&written.name), spec: fields(&written.spec), patch: written.patch.as_ref().map(patch) }
}

fn patch(written: &ObjectPatch) -> Patch {
    let patch_type = match written.patch_type {
        ObjectPatchType::JsonMerge => PatchType::JsonMerge,
        ObjectPatchType::StrategicMerge | ObjectPatchType::Unknown(_) => PatchType::StrategicMerge,
    };
    Patch { patch_type, value: Arc::clone(&written.value.0) }
}

fn fields(written: &api::envoy_proxy::kubernetes::Fields) -> Fields {
    written.iter().map(|(field, value)| (Arc::from(&**field), Arc::clone(value))).collect()
}

/// Labels or annotations as the IR has them.
pub(crate) fn strings(labels: &Labels) -> BTreeMap<Arc<str>, Arc<str>> {
    labels.iter().map(|(name, value)| (Arc::from(name), Arc::from(value))).collect()
}

fn shared(text: &Option<Box<str>>) -> Option<Arc<str>> {
    text.as_deref().map(Arc::from)
}
