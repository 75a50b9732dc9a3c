//! Tables of Secrets, backends, endpoints and policies.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use api::backend_tls_policy::BackendTlsPolicy;
use api::service::ServiceType;
use api::{Backend, EndpointSlice, Kind, ObjectKey, XBackend};
use engine::{Cx, Graph, Index, Table};
use ir::cluster::{CircuitBreaker, Health, Locality, RetryBudget};
use ir::{Endpoint, EndpointSetName, Endpoints, FleetName};
use store::Tables;

use super::Base;
use crate::backend::object::{self, Allowed};
use crate::backend::own::OwnPlaces;
use crate::backend::slice::{self, Lack, PortName};
use crate::backend::x_backend::{self, PodEndpoint, PodLabel};
use crate::backend::{Encryption, Reading, SecretUse, Treatment, Verdict, of_kind, service};
use crate::backend_tls_policy::{self, TlsPolicy};
use crate::backend_traffic_policy::{self as policy, Claim, PolicyTarget};
use crate::digest::Digest;
use crate::gateway;
use crate::key::{BackendKey, ClusterTarget, Seniority, Transport};
use crate::listener_set;
use crate::lookup::{BackendTables, Reader, ServiceAddresses};
use crate::raw;
use crate::route_budget;
use crate::secret::{self, Parsed};
use crate::stream::{self, Share};
use crate::x_backend_traffic_policy::{self, BackendPolicy};

/// Certificates and bundles: Secrets first, then `ConfigMap`s, then `ClusterTrustBundle`s.
#[derive(Clone, Copy)]
pub(crate) struct Secrets {
    pub(crate) parsed: [Table<SecretUse, Arc<Parsed>>; 3],
    verdicts: [Table<SecretUse, secret::Verdict>; 3],
}

/// What there is once for each kind of [`Secrets`], of the kind of an object.
fn of_secret<T>([secrets, config_maps, trust_bundles]: [T; 3], object: &ObjectKey) -> T {
    match object.kind() {
        Some(Kind::ConfigMap) => config_maps,
        Some(Kind::ClusterTrustBundle) => trust_bundles,
        _ => secrets,
    }
}

impl Secrets {
    /// Good or bad; changes when that changes and not with every rotation.
    pub(crate) fn verdicts_of(&self, object: &ObjectKey) -> Table<SecretUse, secret::Verdict> {
        of_secret(self.verdicts, object)
    }

    /// The content of Secrets.
    pub(crate) fn parsed_of_secrets(&self) -> Table<SecretUse, Arc<Parsed>> {
        let [secrets, ..] = self.parsed;
        secrets
    }

    /// The content.
    pub(crate) fn parsed_of(&self, object: &ObjectKey) -> Table<SecretUse, Arc<Parsed>> {
        of_secret(self.parsed, object)
    }
}

/// Only what a Gateway, a backend or a policy names is parsed.
pub(super) fn secrets(g: &mut Graph, base: &Base) -> Secrets {
    let by_gateway = g.index("secret_by_gateway", base.inputs.gateways, |_, gateway| gateway::secret_uses(gateway));
    let by_set = g.index("secret_by_listener_set", base.inputs.listener_sets, |_, set| listener_set::secret_uses(set));
    let by_backend = g.index("secret_by_backend", base.inputs.backends, |_, backend| object::secret_uses(backend));
    let by_policy = g.index("secret_by_tls_policy", base.inputs.backend_tls_policies, |_, policy| {
        backend_tls_policy::secret_uses(policy)
    });
    let by_x_backend =
        g.index("secret_by_x_backend", base.inputs.x_backends, |_, backend| x_backend::secret_uses(backend));
    let by_raw = g.index("secret_by_raw", base.inputs.raw, |_, object| raw::secret_use(object));
    let used = move |cx: &mut Cx<'_>, key: &ObjectKey| {
        cx.any(by_gateway, key)
            || cx.any(by_set, key)
            || cx.any(by_backend, key)
            || cx.any(by_policy, key)
            || cx.any(by_x_backend, key)
            || cx.any(by_raw, key)
    };
    let rows = |key: &ObjectKey, parts: Vec<_>| {
        let key = key.clone();
        parts.into_iter().map(move |(part, parsed)| (SecretUse::of(key.clone(), part), Arc::new(parsed)))
    };
    let served = base.own.pairs_served;
    let from_secrets = g.derive("secret_parsed", base.inputs.secrets, move |cx, key, secret| {
        let parts =
            if used(cx, key) { secret::read_secret(secret, || cx.get(served, key).cloned()) } else { Vec::new() };
        rows(key, parts)
    });
    let from_config_maps = g.derive("config_map_parsed", base.inputs.config_maps, move |cx, key, config_map| {
        let parts = if used(cx, key) { secret::read_config_map(config_map) } else { Vec::new() };
        rows(key, parts)
    });
    let from_trust_bundles =
        g.derive("trust_bundle_parsed", base.inputs.cluster_trust_bundles, move |cx, key, bundle| {
            let parts = if used(cx, key) { secret::read_trust_bundle(bundle) } else { Vec::new() };
            rows(key, parts)
        });
    let verdicts = [
        g.map("secret_verdict", from_secrets, |_, _, parsed| parsed.verdict()),
        g.map("config_map_verdict", from_config_maps, |_, _, parsed| parsed.verdict()),
        g.map("trust_bundle_verdict", from_trust_bundles, |_, _, parsed| parsed.verdict()),
    ];
    Secrets { parsed: [from_secrets, from_config_maps, from_trust_bundles], verdicts }
}

/// Backends, once for each of [`crate::backend::KINDS`].
#[derive(Clone, Copy)]
pub(crate) struct Backends {
    pub(crate) readings: [Table<BackendKey, Arc<Reading>>; 4],
    /// Usable, or why not: all that routes read.
    verdicts: [Table<BackendKey, Verdict>; 4],
    pub(crate) sets: EndpointSets,
    /// Endpoints as which those of a backend count in a budget.
    steps: [Table<BackendKey, u32>; 4],
}

/// Sets of endpoints: which there are, and what they are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointSets {
    /// Once for each of [`crate::backend::KINDS`].
    pub(crate) rows: [Table<EndpointSetName, EndpointSet>; 4],
    readings: [Table<BackendKey, Arc<Reading>>; 4],
    objects: Table<ObjectKey, Arc<Backend>>,
    x_backends: Table<ObjectKey, Arc<XBackend>>,
    /// By Service and `ServiceImport`; one that names none stands under no name.
    pub(super) slices: Index<ObjectKey, ObjectKey, Arc<EndpointSlice>>,
    pods: Index<PodLabel, ObjectKey, Arc<PodEndpoint>>,
    places: Table<(), Arc<OwnPlaces>>,
}

/// Whose endpoints they are, and what became of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointSet {
    pub(super) backend: BackendKey,
    digest: Digest,
    /// The number of endpoints.
    count: usize,
    /// Why there is no endpoint in it; none if there is one.
    pub(super) lack: Option<Lack>,
    /// The Service asks for a choice among them that proxies do not make.
    pub(super) is_choosy: bool,
}

impl EndpointSet {
    fn of(backend: &BackendKey, found: &impl Hash, count: usize, lack: Option<Lack>) -> Self {
        Self { backend: backend.clone(), digest: Digest::of(found), count, lack, is_choosy: false }
    }
}

impl EndpointSets {
    /// The endpoints.
    pub(crate) fn make(
        &self,
        graph: &Graph,
        name: &EndpointSetName,
        EndpointSet { backend, .. }: &EndpointSet,
    ) -> Endpoints {
        let localities = match backend.object.kind() {
            Some(Kind::Backend) => {
                graph.get(self.objects, &backend.object).map(|object| object::localities(object)).unwrap_or_default()
            }
            Some(Kind::XBackend) => self.selected(graph, &backend.object).unwrap_or_default(),
            _ => {
                let readings = of_kind(self.readings, &backend.object);
                let name_of = graph.get(readings, backend).map_or("", |reading| port_name(reading));
                let wanted = PortName { name: name_of, transport: backend.transport };
                let slices = graph.members(self.slices, &backend.object);
                slice::localities(&slice::find(wanted, &self.places(graph), slices.values()))
            }
        };
        Endpoints { name: name.clone(), localities }
    }

    fn selected(&self, graph: &Graph, backend: &ObjectKey) -> Option<Vec<Locality>> {
        let object = graph.get(self.x_backends, backend)?;
        let pods = graph.members(self.pods, &PodLabel::anchor(object)?);
        Some(x_backend::localities(object, &self.places(graph), pods.values()))
    }

    fn places(&self, graph: &Graph) -> Arc<OwnPlaces> {
        graph.get(self.places, &()).cloned().unwrap_or_default()
    }
}

/// A set that is made of those of several backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedSet {
    shares: Arc<[Share]>,
    /// What the sets of the shares are now.
    digests: Vec<Option<Digest>>,
}

impl SharedSet {
    /// The sets that have a share, each once.
    pub(super) fn sets(&self) -> BTreeSet<EndpointSetName> {
        self.shares.iter().filter_map(|share| share.set.clone()).collect()
    }
}

impl EndpointSets {
    /// What the shares come to now.
    pub(super) fn shared(&self, cx: &mut Cx<'_>, shares: &Arc<[Share]>) -> SharedSet {
        let mut digest_of = |share: &Share| {
            let set = share.set.as_ref()?;
            self.rows.iter().find_map(|table| cx.get(*table, set).map(|found| found.digest))
        };
        SharedSet { shares: Arc::clone(shares), digests: shares.iter().map(&mut digest_of).collect() }
    }

    /// The endpoints of such a set, each once, whichever share it belongs to: one that goes from a share to another is the same to the proxy.
    pub(crate) fn share(&self, graph: &Graph, name: &EndpointSetName, shared: &SharedSet) -> Endpoints {
        let endpoints = |set: &EndpointSetName| {
            let row = self.rows.iter().find_map(|table| graph.get(*table, set))?;
            let made = self.make(graph, set, row).localities;
            Some(made.into_iter().flat_map(|locality| locality.endpoints).collect::<Vec<_>>())
        };
        let shares = shared.shares.iter().map(|share| {
            let found = share.set.as_ref().and_then(endpoints).map(healthy).unwrap_or_default();
            (share.weight, found)
        });
        let endpoints = stream::share_out(shares.collect());
        let zone = None; // an endpoint of another zone is another one
        let locality = Locality { zone, priority: 0, endpoints };
        let localities = if locality.endpoints.is_empty() { Vec::new() } else { vec![locality] };
        Endpoints { name: name.clone(), localities }
    }
}

/// Endpoints that only drain serve while a backend has no others: beside those of other backends they would get nothing.
fn healthy(mut endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    if endpoints.iter().all(|endpoint| endpoint.health == Health::Draining) {
        endpoints.iter_mut().for_each(|endpoint| endpoint.health = Health::Healthy);
    }
    endpoints
}

impl Backends {
    /// Whether a backend can be sent to.
    pub(crate) fn verdicts_of(&self, object: &ObjectKey) -> Table<BackendKey, Verdict> {
        of_kind(self.verdicts, object)
    }

    /// Whether its set of endpoints is there and has none.
    pub(crate) fn is_empty(&self, cx: &mut Cx<'_>, backend: &BackendKey) -> bool {
        let set = cx.get(self.readings_of(&backend.object), backend).and_then(|reading| discovered(reading));
        let found = set.and_then(|set| cx.get(of_kind(self.sets.rows, &backend.object), &set));
        found.is_some_and(|set| set.lack.is_some())
    }

    /// Endpoints as which those of a backend count in each of its clusters.
    pub(super) fn endpoint_step(&self, cx: &mut Cx<'_>, backend: &BackendKey) -> u32 {
        cx.get(of_kind(self.steps, &backend.object), backend).copied().unwrap_or_default()
    }

    /// What is behind it.
    pub(crate) fn readings_of(&self, object: &ObjectKey) -> Table<BackendKey, Arc<Reading>> {
        of_kind(self.readings, object)
    }
}

pub(super) fn backends(
    g: &mut Graph,
    base: &Base,
    secrets: Secrets,
    (policies, tls_policies): (BackendPolicies, TlsPolicies),
) -> Backends {
    let Base { inputs, settings, options, grants, addresses, installed, .. } = *base;
    let tables = BackendTables { grants, addresses, secrets, installed, sockets: inputs.socket_paths };
    let places = move |cx: &mut Cx<'_>| cx.get(settings.places, &()).cloned().unwrap_or_default();
    let services = g.derive("service_port", inputs.services, move |cx, key, service| {
        let external = service.spec.service_type == ServiceType::ExternalName;
        let own = if external { places(cx) } else { Default::default() };
        let rows = service::read(key, service, options.file_mode, &own);
        rows.into_iter().map(|(key, reading)| (key, Arc::new(reading)))
    });
    let imports = g.derive("service_import_port", inputs.service_imports, |_, key, import| {
        let rows = service::read_import(key, import);
        rows.into_iter().map(|(key, reading)| (key, Arc::new(reading)))
    });
    let by_itself = |object: &ObjectKey| BackendKey { object: object.clone(), port: 0, transport: Transport::Tcp };
    let objects = g.derive("backend_view", inputs.backends, move |cx, key, backend| {
        let enabled = settings.backends(cx).unwrap_or(options.file_mode);
        let unguarded = !backend.spec.guards.is_empty() && !settings.closes_unsupported(cx);
        let own = places(cx);
        let allowed = Allowed { backends: enabled, loopback: options.file_mode, unguarded, own: &own };
        let reading = object::read(&mut Reader { cx, tables }, &by_itself(key), backend, allowed);
        [(by_itself(key), Arc::new(reading))]
    });
    let x_backends = g.derive("x_backend_view", inputs.x_backends, move |cx, key, backend| {
        let own = places(cx);
        let allowed = Allowed { backends: true, loopback: options.file_mode, unguarded: false, own: &own };
        let reading = x_backend::read(&mut Reader { cx, tables }, &by_itself(key), backend, allowed);
        [(by_itself(key), Arc::new(reading))]
    });
    let verdict = move |cx: &mut Cx<'_>, key: &BackendKey, reading: &Arc<Reading>| Verdict {
        target: ClusterTarget::of(key.clone(), discovered(reading).as_ref(), tls_policies.encryption(cx, key, reading)),
        fault: reading.view.as_ref().err().cloned().map(Box::new),
        no_datagrams: reading.view.as_ref().ok().and_then(|view| view.no_datagrams),
        treatment: policies.treatment(cx, &key.object, reading),
    };
    let verdicts = [
        g.map("service_verdict", services, verdict),
        g.map("service_import_verdict", imports, verdict),
        g.map("backend_verdict", objects, verdict),
        g.map("x_backend_verdict", x_backends, verdict),
    ];
    let readings = [services, imports, objects, x_backends];
    let sets = endpoint_sets(g, (inputs, addresses), settings.places, readings);
    let steps = endpoint_steps(g, readings, sets);
    Backends { readings, verdicts, sets, steps }
}

/// Services by their addresses, and their slices.
pub(super) fn service_addresses(g: &mut Graph, inputs: Tables) -> ServiceAddresses {
    ServiceAddresses {
        services: g.index("service_by_address", inputs.services, |_, service| {
            service.spec.addresses().collect::<BTreeSet<_>>()
        }),
        slices: g
            .index("slice_by_service", inputs.endpoint_slices, |_, slice| slice::owners(slice).collect::<Vec<_>>()),
    }
}

fn endpoint_sets(
    g: &mut Graph,
    (inputs, ServiceAddresses { slices, .. }): (Tables, ServiceAddresses),
    places: Table<(), Arc<OwnPlaces>>,
    readings: [Table<BackendKey, Arc<Reading>>; 4],
) -> EndpointSets {
    let [services, imports, objects, x_backends] = readings;
    let of_slices = move |cx: &mut Cx<'_>, key: &BackendKey, reading: &Arc<Reading>| {
        let name = discovered(reading)?;
        let members = cx.members(slices, &key.object);
        let wanted = PortName { name: port_name(reading), transport: key.transport };
        let own = cx.get(places, &()).cloned().unwrap_or_default();
        let found = slice::find(wanted, &own, members.values());
        let lack = found.is_empty().then(|| slice::lack(wanted, &own, members.values()));
        Some((name, EndpointSet { is_choosy: reading.is_choosy, ..EndpointSet::of(key, &found, found.len(), lack) }))
    };
    let pods = selectable_pods(g, inputs);
    let rows = [
        g.derive("endpoint_set", services, of_slices),
        g.derive("service_import_endpoint_set", imports, of_slices),
        g.derive("backend_endpoint_set", objects, move |cx, key, reading| {
            let name = discovered(reading)?;
            let found = object::localities(cx.get(inputs.backends, &key.object)?);
            Some((name, EndpointSet::of(key, &found, count(&found), None)))
        }),
        g.derive("x_backend_endpoint_set", x_backends, move |cx, key, reading| {
            let name = discovered(reading)?;
            let backend = cx.get(inputs.x_backends, &key.object).cloned()?;
            let members = cx.members(pods, &PodLabel::anchor(&backend)?);
            let own = cx.get(places, &()).cloned().unwrap_or_default();
            let found = x_backend::localities(&backend, &own, members.values());
            let lack = found.is_empty().then_some(Lack::Pod);
            Some((name, EndpointSet::of(key, &found, count(&found), lack)))
        }),
    ];
    EndpointSets { rows, readings, objects: inputs.backends, x_backends: inputs.x_backends, slices, pods, places }
}

/// The endpoints of all localities.
fn count(localities: &[Locality]) -> usize {
    localities.iter().map(|locality| locality.endpoints.len()).sum()
}

/// Endpoints of backends in coarse steps: what follows from these notices few changes of endpoints.
fn endpoint_steps(
    g: &mut Graph,
    readings: [Table<BackendKey, Arc<Reading>>; 4],
    sets: EndpointSets,
) -> [Table<BackendKey, u32>; 4] {
    let step = move |cx: &mut Cx<'_>, key: &BackendKey, reading: &Arc<Reading>| {
        let Ok(view) = &reading.view else { return 0 };
        let rows = of_kind(sets.rows, &key.object);
        let count = || view.endpoints.set().and_then(|set| cx.get(rows, set)).map_or(0, |set| set.count);
        route_budget::step(&view.endpoints, count)
    };
    let [services, imports, objects, x_backends] = readings;
    [
        g.map("service_endpoint_step", services, step),
        g.map("service_import_endpoint_step", imports, step),
        g.map("backend_endpoint_step", objects, step),
        g.map("x_backend_endpoint_step", x_backends, step),
    ]
}

/// Pods by each of their labels, of namespaces where an `XBackend` selects some.
fn selectable_pods(g: &mut Graph, inputs: Tables) -> Index<PodLabel, ObjectKey, Arc<PodEndpoint>> {
    let selecting = g.index("x_backend_by_namespace", inputs.x_backends, |key, backend| {
        PodLabel::anchor(backend).map(|_| Arc::<str>::from(key.namespace()))
    });
    let endpoints = g.derive("pod_endpoint", inputs.pods, move |cx, key, pod| {
        let endpoint = cx.any(selecting, &Arc::from(key.namespace())).then(|| PodEndpoint::of(pod)).flatten()?;
        Some((key.clone(), Arc::new(endpoint)))
    });
    g.index("pod_by_label", endpoints, |key, endpoint: &Arc<PodEndpoint>| endpoint.by_label(key))
}

/// The name by which slices name a port.
fn port_name(reading: &Reading) -> &str {
    reading.view.as_ref().map_or("", |view| &*view.port_name)
}

/// The set that a backend reads its endpoints from, if it has one.
fn discovered(reading: &Reading) -> Option<EndpointSetName> {
    reading.view.as_ref().ok()?.endpoints.set().cloned()
}

/// Which policies of one kind are about a backend, and which of these holds.
#[derive(Clone, Copy)]
pub(crate) struct ClaimsOnBackends {
    by_target: Table<PolicyTarget, ObjectKey>,
    /// Most backends have none, and nothing more is asked of them.
    by_object: Index<ObjectKey, Claim, ()>,
}

impl ClaimsOnBackends {
    /// The first of the claims on a target holds: their order is that of precedence.
    fn declare(g: &mut Graph, names: [&'static str; 3], claims: Table<Claim, ()>) -> Self {
        let [by_object, by_target, of_target] = names;
        let by_object = g.index(by_object, claims, |claim: &Claim, ()| [claim.target.object.clone()]);
        let by_target = g.index(by_target, claims, |claim: &Claim, ()| [claim.target.clone()]);
        let by_target = g.derive_group(of_target, by_target, |_, target, members| {
            members.first().map(|(claim, ())| (target.clone(), claim.seniority.object.clone()))
        });
        Self { by_target, by_object }
    }

    /// Whether a policy is about a backend, or a part of it.
    pub(crate) fn any(&self, cx: &mut Cx<'_>, object: &ObjectKey) -> bool {
        cx.any(self.by_object, object)
    }

    /// The policy that holds for a target itself.
    pub(crate) fn of(&self, cx: &mut Cx<'_>, target: &PolicyTarget) -> Option<ObjectKey> {
        cx.get(self.by_target, target).cloned()
    }
}

/// Which policy says how TLS is talked to a backend.
#[derive(Clone, Copy)]
pub(crate) struct TlsPolicies {
    pub(crate) policies: Table<ObjectKey, Arc<TlsPolicy>>,
    pub(crate) claims: ClaimsOnBackends,
    /// Policies that are for everything in their namespace.
    for_all: Index<Arc<str>, ObjectKey, Arc<BackendTlsPolicy>>,
}

impl TlsPolicies {
    /// Over what a backend is spoken to: a policy counts before what it says itself.
    fn encryption(&self, cx: &mut Cx<'_>, key: &BackendKey, reading: &Reading) -> Encryption {
        let own = || reading.view.as_ref().map(|view| view.encryption.clone()).unwrap_or_default();
        let policy = self.of_port(cx, &key.object, port_name(reading));
        let Some(policy) = policy else {
            let is_meant = backend_tls_policy::is_target(key.object.kind());
            let is_closed = is_meant && cx.any(self.for_all, &Arc::from(key.object.namespace()));
            return if is_closed { Encryption::Closed } else { own() };
        };
        policy.encryption()
    }

    /// The policy that holds for a port of this name: one of the port, else one of the whole.
    fn of_port(&self, cx: &mut Cx<'_>, object: &ObjectKey, port_name: &str) -> Option<Arc<TlsPolicy>> {
        if !self.claims.any(cx, object) {
            return None;
        }
        let target = |section: Option<&str>| PolicyTarget { object: object.clone(), section: section.map(Arc::from) };
        let sections = [Some(port_name).filter(|name| !name.is_empty()), None];
        sections.into_iter().map(target).find_map(|target| {
            let policy = self.claims.of(cx, &target)?;
            Some(cx.get(self.policies, &policy)?.clone().at(&target))
        })
    }
}

pub(super) fn tls_policies(g: &mut Graph, base: &Base, secrets: Secrets) -> TlsPolicies {
    let (inputs, grants, installed) = (base.inputs.backend_tls_policies, base.grants, base.installed);
    let (addresses, sockets) = (base.addresses, base.inputs.socket_paths);
    let read = g.map("tls_policy_reading", inputs, move |cx, key, policy| {
        let mut reader = Reader { cx, tables: BackendTables { grants, addresses, secrets, installed, sockets } };
        Arc::new(backend_tls_policy::read(&mut reader, key, policy))
    });
    let policies = within_budget(g, read);
    let claims = g.derive("tls_policy_claim", inputs, |_, _, policy| {
        policy::claims(&policy.meta, backend_tls_policy::targets(policy))
    });
    let names = ["tls_policy_by_object", "tls_policy_by_target", "tls_policy_of_target"];
    let for_all = g.index("tls_policy_for_all", inputs, |key, policy: &Arc<BackendTlsPolicy>| {
        policy.spec.for_all.then(|| Arc::<str>::from(key.namespace()))
    });
    TlsPolicies { policies, claims: ClaimsOnBackends::declare(g, names, claims), for_all }
}

/// Policies, of which those whose bundles are beyond what is left for their namespace cannot be used: the oldest come first.
fn within_budget(g: &mut Graph, read: Table<ObjectKey, Arc<TlsPolicy>>) -> Table<ObjectKey, Arc<TlsPolicy>> {
    let weights = g.derive("tls_policy_weight", read, |_, key, policy| {
        let key = Seniority { age: policy.age, object: key.clone() };
        (policy.weight > secret::Size::default()).then(|| (key, policy.weight))
    });
    let by_namespace =
        g.index("tls_policy_by_namespace", weights, |key: &Seniority, _| [Arc::<str>::from(key.object.namespace())]);
    let late = g.derive_group("late_tls_policy", by_namespace, |_, _, members| {
        let mut left = secret::MOST_BUNDLES.0;
        let late = members.iter().filter(|(_, weight)| match left.checked_sub(weight.0) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        late.map(|(key, _)| (key.object.clone(), ())).collect::<Vec<_>>()
    });
    g.map("tls_policy", read, move |cx, key, policy| {
        if cx.contains(late, key) { Arc::new(policy.beyond_budget()) } else { Arc::clone(policy) }
    })
}

/// Which policy says how many retries and which sessions there are with a backend.
#[derive(Clone, Copy)]
pub(crate) struct BackendPolicies {
    pub(crate) policies: Table<ObjectKey, Arc<BackendPolicy>>,
    pub(crate) claims: ClaimsOnBackends,
}

impl BackendPolicies {
    fn of(&self, cx: &mut Cx<'_>, backend: &ObjectKey) -> Option<Arc<BackendPolicy>> {
        if !self.claims.any(cx, backend) {
            return None;
        }
        let policy = self.claims.of(cx, &PolicyTarget { object: backend.clone(), section: None })?;
        cx.get(self.policies, &policy).cloned()
    }

    /// The share of what is sent to a backend that may be retries.
    pub(crate) fn retry_budget(&self, cx: &mut Cx<'_>, backend: &ObjectKey) -> Option<RetryBudget> {
        self.of(cx, backend)?.budget
    }

    /// How a backend wants what is sent to it to be treated. What it says itself counts before what a policy says.
    fn treatment(&self, cx: &mut Cx<'_>, backend: &ObjectKey, reading: &Reading) -> Option<Arc<Treatment>> {
        let policy = self.of(cx, backend);
        let own = reading.view.as_ref().ok().and_then(|view| view.session.clone());
        let of_policy = || Some(policy.as_ref()?.persistence.as_ref()?.of_backend(backend));
        let retry_budget = policy.as_ref().is_some_and(|policy| policy.budget.is_some());
        Treatment { session: own.or_else(of_policy), retry_budget }.shared()
    }
}

pub(super) fn backend_policies(g: &mut Graph, base: &Base) -> BackendPolicies {
    let inputs = base.inputs.x_backend_traffic_policies;
    let policies = g.map("backend_policy", inputs, |_, _, policy| Arc::new(x_backend_traffic_policy::read(policy)));
    let claims = g.derive("backend_policy_claim", inputs, |_, _, policy| {
        policy::claims(&policy.meta, x_backend_traffic_policy::targets(policy))
    });
    let names = ["backend_policy_by_object", "backend_policy_by_target", "backend_policy_of_target"];
    BackendPolicies { policies, claims: ClaimsOnBackends::declare(g, names, claims) }
}

/// Policies that hold.
#[derive(Clone, Copy)]
pub(crate) struct Policies {
    by_target: Table<PolicyTarget, ObjectKey>,
    /// Namespaces with a policy: most have none, and their routes ask no more than that.
    by_namespace: Index<Arc<str>, ObjectKey, CircuitBreaker>,
    limits: Table<ObjectKey, CircuitBreaker>,
    /// The policy on a Gateway as a whole.
    of_fleet: Table<FleetName, ObjectKey>,
}

impl Policies {
    /// Whether there is a policy in a namespace.
    pub(crate) fn any(&self, cx: &mut Cx<'_>, namespace: &str) -> bool {
        cx.any(self.by_namespace, &Arc::from(namespace))
    }

    /// The policy that holds for a target itself.
    pub(crate) fn of(&self, cx: &mut Cx<'_>, target: &PolicyTarget) -> Option<ObjectKey> {
        cx.get(self.by_target, target).cloned()
    }

    /// The limits of a policy.
    pub(crate) fn limits(&self, cx: &mut Cx<'_>, policy: &ObjectKey) -> CircuitBreaker {
        cx.get(self.limits, policy).copied().unwrap_or_default()
    }

    /// The limits of the policy of a fleet, if it has one.
    pub(crate) fn limits_of_fleet(&self, cx: &mut Cx<'_>, fleet: &FleetName) -> CircuitBreaker {
        let policy = cx.get(self.of_fleet, fleet);
        policy.map(|policy| self.limits(cx, policy)).unwrap_or_default()
    }
}

pub(super) fn policies(g: &mut Graph, base: &Base) -> Policies {
    let policies = base.inputs.backend_traffic_policies;
    let limits = g.map("policy_limits", policies, |_, _, policy| policy::circuit_breaker(policy));
    let by_namespace = g.index("policy_by_namespace", limits, |key, _| [Arc::from(key.namespace())]);
    let claims =
        g.derive("policy_claim", policies, |_, _, policy| policy::claims(&policy.meta, policy::targets(policy)));
    let claims = g.index("policy_claim_by_target", claims, |claim: &Claim, ()| [claim.target.clone()]);
    // The first of a group holds: the order of claims is that of precedence.
    let by_target = g.derive_group("policy_of_target", claims, |_, target, members| {
        members.first().map(|(claim, ())| (target.clone(), claim.seniority.object.clone()))
    });
    let of_fleet = g.derive("policy_of_fleet", by_target, |_, target, policy| {
        let is_gateway = target.object.kind() == Some(Kind::Gateway) && target.section.is_none();
        is_gateway.then(|| (gateway::fleet(&target.object), policy.clone()))
    });
    Policies { by_target, by_namespace, limits, of_fleet }
}
