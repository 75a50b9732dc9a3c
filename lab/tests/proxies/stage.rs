//! A Chancery's part that makes objects, running inside the lab, and what it is told and tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use infra::kubernetes::{ClusterOptions, Fleets, Options, Pace, PodsFact, PodsState, Scope, run};
use ir::infra::kubernetes::{KubernetesInfra, Patch, PatchType, Place, Service, ServiceType, Workload};
use ir::infra::{ObjectName, ProxyOptions};
use ir::{FleetName, Infra};
use serde_json::{Value, json};
use tests::wait;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::harness::Lab;
use crate::inside::{client, enter};

/// One that runs, until it is dropped.
pub(crate) struct Stage {
    wanted: watch::Sender<Fleets>,
    pub(crate) leading: watch::Sender<bool>,
    pub(crate) cluster: watch::Sender<Arc<ClusterOptions>>,
    facts: mpsc::Receiver<PodsFact>,
    told: BTreeMap<FleetName, Option<PodsState>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Short waits: what is waited for in these tests comes soon.
const PACE: Pace = Pace {
    answer: Duration::from_secs(20),
    away: (Duration::from_millis(50), Duration::from_millis(500)),
    refused: (Duration::from_millis(100), Duration::from_millis(500)),
    repair: (Duration::from_millis(50), Duration::from_millis(400)),
};

pub(crate) fn options(controller: &str) -> ClusterOptions {
    ClusterOptions {
        controller: controller.into(),
        namespace: "chancery-system".into(),
        xds_host: "chancery.chancery-system.svc".into(),
        xds_port: 18_000,
        audience: "chancery".into(),
        envoy_repository: "docker.io/envoyproxy/envoy".into(),
        envoy_tag: "distroless-v1.40.0".into(),
        own_image: "ghcr.io/chancery/chancery:v1".into(),
        authorities: "PEM".into(),
    }
}

impl Stage {
    /// One that leads, with a controller of this name, in these namespaces.
    pub(crate) fn new(lab: &Lab, controller: &str, namespaces: &[&str]) -> Self {
        Self::start(lab, controller, namespaces, true)
    }

    pub(crate) fn start(lab: &Lab, controller: &str, namespaces: &[&str], leads: bool) -> Self {
        Self::start_as(lab, controller, namespaces, leads, None)
    }

    /// One that has the rights of a ServiceAccount (`namespace:name`).
    pub(crate) fn with_rights_of(lab: &Lab, account: &str, namespaces: &[&str]) -> Self {
        Self::start_as(lab, account, namespaces, true, Some(format!("system:serviceaccount:{account}")))
    }

    fn start_as(lab: &Lab, controller: &str, namespaces: &[&str], leads: bool, user: Option<String>) -> Self {
        let (wanted, on_wanted) = watch::channel(Fleets::default());
        let (leading, on_leading) = watch::channel(leads);
        let (cluster, on_cluster) = watch::channel(Arc::new(options(controller)));
        // a small room: who tells must not depend on who listens
        let (sender, facts) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let scope = match namespaces {
            [] => Scope::All,
            names => Scope::Namespaces(names.iter().map(|name| Arc::from(*name)).collect()),
        };
        let (state, config, token) =
            (lab.state(), lab.exec(&["kubectl", "config", "view", "--flatten", "--raw"]).unwrap(), stop.clone());
        let thread = std::thread::spawn(move || {
            enter(&state);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, proxies) = (client(&config, user).await, watch::Sender::default());
                let options = Options { client, scope, cluster: on_cluster, pace: PACE, proxies };
                run(options, on_wanted, on_leading, sender, token).await.unwrap();
            });
        });
        Self { wanted, leading, cluster, facts, told: BTreeMap::new(), stop, thread: Some(thread) }
    }

    /// These there shall be, and no others.
    pub(crate) fn want<'a>(&self, fleets: impl IntoIterator<Item = &'a Infra>) {
        let wanted = fleets.into_iter().map(|infra| (infra.fleet.clone(), Arc::new(infra.clone())));
        self.wanted.send_replace(Arc::new(wanted.collect()));
    }

    /// What was told last of a fleet; none: nothing yet.
    pub(crate) fn told(&mut self, fleet: &FleetName) -> Option<Option<PodsState>> {
        while let Ok(PodsFact { fleet, state }) = self.facts.try_recv() {
            self.told.insert(fleet, state);
        }
        self.told.get(fleet).cloned()
    }

    /// Waits until something is told of a fleet that is there.
    pub(crate) fn until<T>(&mut self, what: &str, fleet: &FleetName, find: impl Fn(&PodsState) -> Option<T>) -> T {
        let found = wait::until(what, || find(self.told(fleet)?.as_ref()?));
        found.unwrap_or_else(|error| panic!("{error}: told was {:#?}", self.told(fleet)))
    }

    pub(crate) fn until_ready(&mut self, fleet: &FleetName) {
        self.until("readiness", fleet, |state| (state.ready && state.problem.is_none()).then_some(()));
    }

    /// Waits until a problem is told that has these words.
    pub(crate) fn until_problem(&mut self, fleet: &FleetName, words: &[&str]) -> PodsState {
        self.until(&format!("a problem with {words:?}"), fleet, |state| {
            let problem = state.problem.as_ref()?;
            words.iter().all(|words| problem.contains(words)).then(|| state.clone())
        })
    }

    pub(crate) fn until_gone(&mut self, fleet: &FleetName) {
        wait::until("the end", || self.told(fleet)?.is_none().then_some(())).unwrap();
    }

    /// Ends it; whatever is on its way is not finished.
    pub(crate) fn end(self) {
        drop(self);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// A fleet whose Pods become ready by themselves: any program will do.
pub(crate) fn fleet(namespace: &str, name: &str) -> Infra {
    let workload = Workload { patch: Some(patch(json!({}))), ..Workload::default() };
    let kubernetes = KubernetesInfra {
        class: "edge".into(),
        uid: None,
        place: Place::Gateway,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        mapped_ports: vec![(80, 10_080)],
        cluster_addresses: Vec::new(),
        dual_stack: false,
        workload,
        service: Service { service_type: ServiceType::LoadBalancer, ..Service::default() },
        autoscaler: None,
        disruption_budget: None,
        service_account: None,
    };
    Infra {
        fleet: format!("{namespace}/{name}").as_str().into(),
        gateway: ObjectName { namespace: namespace.into(), name: name.into() },
        addresses: Vec::new(),
        ports: vec![80],
        udp_ports: Vec::new(),
        options: ProxyOptions::default(),
        kubernetes: Some(Box::new(kubernetes)),
    }
}

/// Puts a program that waits in the place of Envoy, and something more into its container.
pub(crate) fn patch(more: Value) -> Patch {
    let mut container = json!({
        "name": "envoy", "image": "lab/machine", "command": ["sh", "-c", "exec sleep 100000"], "args": null,
        "readinessProbe": null, "lifecycle": null, "resources": null,
    });
    container.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let pod = json!({ "initContainers": null, "containers": [container], "terminationGracePeriodSeconds": 1 });
    let value = Arc::new(json!({ "spec": { "template": { "spec": pod } } }));
    Patch { patch_type: PatchType::StrategicMerge, value }
}

/// The settings of a fleet's objects.
pub(crate) fn settings(infra: &mut Infra) -> &mut KubernetesInfra {
    infra.kubernetes.as_mut().unwrap()
}

/// The name of a fleet's objects, unless it has others.
pub(crate) fn name(infra: &Infra) -> String {
    let made = infra::kubernetes::objects(infra, &options("any"));
    made.iter().find(|wanted| wanted.kind == infra::kubernetes::ObjectKind::ConfigMap).unwrap().name.to_string()
}
