//! What leaves the graph: handles of tables, and readers where one kind of output is spread over several of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::status::{
    BackendStatus, EnvoyProxyStatus, GatewayClassStatus, GatewayStatus, ListenerSetStatus, PolicyStatus, RawStatus,
    RouteStatus, Status,
};
use api::{ObjectKey, Problem};
use engine::{Change, Graph, Index, Key, Table, Value};
use ir::raw::RawOutput;
use ir::{
    Cluster, ClusterName, EndpointSetName, Endpoints, FleetName, Infra, Listener, ListenerName, PatchSet, RawName,
    RouteConfiguration, RouteConfigurationName, RoutePiece, Runtime, Secret, SecretName, TcpProxy, VirtualHost,
};

use crate::PieceKey;
use crate::backend::SecretUse;
use crate::digest::Digest;
use crate::gating::Effective;
use crate::graph::{ComposedRows, EndpointSets, PROBLEM_TABLES, RawBySet, RouteOutcomes, SharedSet};
use crate::key::{AttachmentKey, InFleet, ProblemKey, StreamKey, VirtualHostKey};
use crate::raw::{Read, Selected};
use crate::secret::Parsed;
use crate::status::rejected::Rejection;
use crate::virtual_host::separate_name;

/// Virtual hosts: those that routes bring with them, those of listeners, and those for requests that belong to other chains.
pub(crate) type HostTables = [Table<VirtualHostKey, Arc<VirtualHost>>; 3];

/// The same by their route configuration.
pub(crate) type HostIndexes = [Index<InFleet<RouteConfigurationName>, VirtualHostKey, Arc<VirtualHost>>; 3];

/// Clusters: those that routes send to, those of listeners that take datagrams, and those that only Gateways use by themselves: of whom listeners ask, and
/// of who gets spans. One that a route begins or ceases to use moves between the first and the last.
pub(crate) type ClusterTables = [Table<InFleet<ClusterName>, Arc<Cluster>>; 3];

/// Clusters by the set of endpoints that they read.
pub(crate) type ReaderIndex = Index<EndpointSetName, InFleet<ClusterName>, Arc<Cluster>>;

/// Handles of everything that leaves the graph.
#[derive(Clone, Copy, Debug)]
pub struct Outputs {
    /// Bound ports.
    pub listeners: Table<InFleet<ListenerName>, Arc<Listener>>,
    /// Route configurations, with their hosts inside where these are few.
    pub route_configurations: Table<InFleet<RouteConfigurationName>, Arc<RouteConfiguration>>,
    /// The pieces inside [`VirtualHost::pieces`] are as a rule these very `Arc`s. A host that is equal to that of before keeps the pieces of
    /// then, and the one that answers 421 has its own.
    pub route_pieces: Table<PieceKey, Arc<RoutePiece>>,
    /// Clusters that something in their fleet names.
    pub(crate) clusters: ClusterTables,
    /// Certificates and bundles.
    pub secrets: Table<InFleet<SecretName>, Arc<Secret>>,
    /// Secrets that are used, for [`crate::Translator::remember_served`].
    pub(crate) pairs: Table<SecretUse, Arc<Parsed>>,
    /// Values that proxies look up while they run.
    pub runtimes: Table<FleetName, Arc<Runtime>>,
    /// Proxies that there shall be.
    pub infra: Table<FleetName, Arc<Infra>>,
    /// In a cluster, proxies that stay as they are if they are there, because nothing is known of what they shall be.
    pub held: [Table<FleetName, Arc<Infra>>; 2],
    /// Classes of ours.
    pub gateway_class_statuses: Table<ObjectKey, Arc<GatewayClassStatus>>,
    /// Gateways of ours.
    pub gateway_statuses: Table<ObjectKey, Arc<GatewayStatus>>,
    /// `ListenerSet`s of Gateways that are ours.
    pub listener_set_statuses: Table<ObjectKey, Arc<ListenerSetStatus>>,
    /// Every route, for [`Outputs::route_status`].
    pub route_statuses: Table<ObjectKey, Digest>,
    pub(crate) route_outcomes: RouteOutcomes,
    /// `BackendTrafficPolicy` objects.
    pub policy_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// `BackendTLSPolicy` objects.
    pub tls_policy_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// `Backend` objects, named by routes or not.
    pub backend_statuses: Table<ObjectKey, Arc<BackendStatus>>,
    /// `XBackend` objects that routes name, or that Gateways use by themselves.
    pub x_backend_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// Policies of which no field is built.
    pub unbuilt_policy_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// `XBackendTrafficPolicy` objects.
    pub backend_policy_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// `XTelemetryPolicy` objects.
    pub telemetry_policy_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// `EnvoyProxy` objects that a class or Gateway of ours names.
    pub envoy_proxy_statuses: Table<ObjectKey, Arc<EnvoyProxyStatus>>,
    /// `EnvoyPatchPolicy` objects.
    pub patch_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// What users change of generated resources.
    pub patches: Table<InFleet<RawName>, Arc<PatchSet>>,
    /// Objects that hold a resource of Envoy's.
    pub raw_statuses: Table<ObjectKey, Arc<RawStatus>>,
    /// What workloads get.
    pub raw: Table<InFleet<RawName>, Arc<RawOutput>>,
    /// Fleets of workloads.
    pub workloads: Table<FleetName, ObjectKey>,
    /// Objects that cannot be used as they are, of all these kinds, for [`Outputs::with_rejection`].
    pub rejections: Table<ObjectKey, Arc<Rejection>>,
    /// Routes as fleets get them, for [`crate::Translator::remember_served`].
    pub effective: Table<AttachmentKey, Effective>,
    /// Those of which a proxy refused the form that is wanted: few, if any.
    pub(crate) refused_forms: Index<(), AttachmentKey, Effective>,
    /// Where connections go that are passed on: those that routes bring with them, and those of listeners. A name is in one of the two.
    pub(crate) streams: [Table<StreamKey, Arc<TcpProxy>>; 2],
    /// Hosts that routes bring with them, and those that listeners have. A host is in one of the two.
    pub(crate) hosts: HostTables,
    pub(crate) hosts_by_configuration: HostIndexes,
    pub(crate) clusters_by_set: [ReaderIndex; 3],
    pub(crate) raw_by_set: RawBySet,
    pub(crate) raw_composed: ComposedRows,
    pub(crate) raw_readings: Table<ObjectKey, Arc<Read>>,
    pub(crate) raw_selected: Table<Selected, ()>,
    pub(crate) endpoint_sets: EndpointSets,
    /// Sets that are made of those of several backends, by weight.
    pub(crate) shared_sets: Table<EndpointSetName, Arc<SharedSet>>,
    /// By kind of finding.
    pub(crate) findings: [Table<ProblemKey, Arc<Problem>>; PROBLEM_TABLES],
}

impl Outputs {
    /// All virtual hosts, in no order.
    pub fn virtual_hosts<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = (&'g VirtualHostKey, &'g Arc<VirtualHost>)> + use<'g> {
        all(graph, self.hosts)
    }

    /// Virtual hosts that the last tick changed, in no order, each once.
    pub fn virtual_host_changes<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = Change<'g, VirtualHostKey, Arc<VirtualHost>>> + use<'g> {
        changes(graph, self.hosts)
    }

    /// Where connections go that are passed on, in no order.
    pub fn streams<'g>(&self, graph: &'g Graph) -> impl Iterator<Item = (&'g StreamKey, &'g Arc<TcpProxy>)> + use<'g> {
        all(graph, self.streams)
    }

    /// What the last tick changed of that, in no order, each once.
    pub fn stream_changes<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = Change<'g, StreamKey, Arc<TcpProxy>>> + use<'g> {
        changes(graph, self.streams)
    }

    /// The virtual hosts of a chain, for the moment in which it turns from inline to separate or back.
    pub fn hosts_of<'g>(
        &self,
        graph: &'g Graph,
        configuration: &InFleet<RouteConfigurationName>,
    ) -> impl Iterator<Item = (&'g VirtualHostKey, &'g Arc<VirtualHost>)> + use<'g> {
        self.hosts_by_configuration.map(|index| graph.members(index, configuration)).into_iter().flatten()
    }

    /// The status of an object that may not be usable as it is: of what it was before, while that is in force, else that of the rejection.
    #[must_use]
    pub fn with_rejection(&self, graph: &Graph, key: &ObjectKey, usable: Option<Status>) -> Option<Status> {
        match graph.get(self.rejections, key) {
            Some(rejection) => rejection.status(usable),
            None => usable,
        }
    }

    /// Whether the hosts of a chain travel one by one.
    #[must_use]
    pub fn has_separate_hosts(&self, graph: &Graph, chain: &InFleet<RouteConfigurationName>) -> bool {
        let key = InFleet { fleet: chain.fleet.clone(), name: separate_name(&chain.name) };
        graph.get(self.route_configurations, &key).is_some()
    }

    /// The clusters that read a set of endpoints, in order.
    pub fn readers_of<'g>(
        &self,
        graph: &'g Graph,
        set: &EndpointSetName,
    ) -> impl Iterator<Item = &'g InFleet<ClusterName>> + use<'g> {
        let all = self.clusters_by_set.map(|index| graph.members(index, set));
        all.into_iter().flatten().map(|(cluster, _)| cluster)
    }

    /// What workloads get that has a set of endpoints, in order.
    pub fn raw_with<'g>(
        &self,
        graph: &'g Graph,
        set: &EndpointSetName,
    ) -> impl Iterator<Item = (&'g InFleet<RawName>, &'g Arc<RawOutput>)> + use<'g> {
        graph.members(self.raw_by_set, set).into_iter()
    }

    /// All clusters, in no order.
    pub fn clusters<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = (&'g InFleet<ClusterName>, &'g Arc<Cluster>)> + use<'g> {
        all(graph, self.clusters)
    }

    /// How many clusters there are.
    pub fn cluster_count(&self, graph: &Graph) -> usize {
        self.clusters.iter().map(|table| graph.len(*table)).sum()
    }

    /// One cluster.
    pub fn cluster<'g>(&self, graph: &'g Graph, key: &InFleet<ClusterName>) -> Option<&'g Arc<Cluster>> {
        self.clusters.iter().find_map(|table| graph.get(*table, key))
    }

    /// Clusters that the last tick changed, in no order, each once.
    pub fn cluster_changes<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = Change<'g, InFleet<ClusterName>, Arc<Cluster>>> + use<'g> {
        changes(graph, self.clusters)
    }

    /// The clusters of a fleet, in no order. Looks at those of all fleets: for rare moments.
    pub fn clusters_of<'g>(
        &self,
        graph: &'g Graph,
        fleet: &FleetName,
    ) -> impl Iterator<Item = &'g ClusterName> + use<'g> {
        let fleet = fleet.clone();
        let of_fleet = self.clusters(graph).map(|(key, _)| key).filter(move |key| key.fleet == fleet);
        of_fleet.map(|key| &key.name)
    }

    /// The endpoint sets of all backends, used or not, in no order.
    pub fn endpoints<'g>(&self, graph: &'g Graph) -> impl Iterator<Item = (&'g EndpointSetName, Endpoints)> + use<'g> {
        let sets = self.endpoint_sets;
        let backends = all(graph, sets.rows).map(move |(name, set)| (name, sets.make(graph, name, set)));
        let shared = self.shared_sets;
        backends.chain(graph.iter(shared).map(move |(name, set)| (name, sets.share(graph, name, set))))
    }

    /// One endpoint set.
    pub fn endpoint_set(&self, graph: &Graph, name: &EndpointSetName) -> Option<Endpoints> {
        let set = self.endpoint_sets.rows.iter().find_map(|table| graph.get(*table, name));
        let made = set.map(|set| self.endpoint_sets.make(graph, name, set));
        made.or_else(|| Some(self.endpoint_sets.share(graph, name, graph.get(self.shared_sets, name)?)))
    }

    /// Endpoint sets that the last tick changed, in no order, each once.
    pub fn endpoint_changes<'g>(&self, graph: &'g Graph) -> impl Iterator<Item = &'g EndpointSetName> + use<'g> {
        let shared = graph.changes(self.shared_sets).map(|change| change.key);
        changes(graph, self.endpoint_sets.rows).map(|change| change.key).chain(shared)
    }

    /// Sets of listeners that take datagrams which the last tick changed, as they are now; none: gone. In no order, each once.
    pub fn shared_set_changes<'g>(
        &self,
        graph: &'g Graph,
    ) -> impl Iterator<Item = (&'g EndpointSetName, Option<Endpoints>)> + use<'g> {
        let sets = self.endpoint_sets;
        graph
            .changes(self.shared_sets)
            .map(move |change| (change.key, change.new.map(|set| sets.share(graph, change.key, set))))
    }

    /// The status of a route; no parent is listed that is not ours.
    pub fn route_status(&self, graph: &Graph, route: &ObjectKey) -> Option<RouteStatus> {
        self.route_outcomes.status(graph, route)
    }

    /// Everything that is wrong with objects, in no order.
    pub fn problems<'g>(&self, graph: &'g Graph) -> impl Iterator<Item = (&'g ProblemKey, &'g Arc<Problem>)> + use<'g> {
        all(graph, self.findings)
    }

    /// Whether the last tick changed any of the problems.
    #[must_use]
    pub fn problems_changed(&self, graph: &Graph) -> bool {
        self.findings.iter().any(|table| graph.changes(*table).next().is_some())
    }
}

fn all<'g, K: Key, V: Value, const N: usize>(
    graph: &'g Graph,
    tables: [Table<K, V>; N],
) -> impl Iterator<Item = (&'g K, &'g V)> + use<'g, K, V, N> {
    tables.into_iter().flat_map(|table| graph.iter(table))
}

/// A row that moves from one table to another is one change: the departure is told together with the arrival.
pub(crate) fn changes<'g, K: Key, V: Value, const N: usize>(
    graph: &'g Graph,
    tables: [Table<K, V>; N],
) -> impl Iterator<Item = Change<'g, K, V>> + use<'g, K, V, N> {
    let all = move || tables.into_iter().flat_map(move |table| graph.changes(table));
    let departures = all().filter(|change| change.new.is_none());
    let mut gone: BTreeMap<&K, Change<'g, K, V>> = departures.map(|change| (change.key, change)).collect();
    let mut here: Vec<Change<'g, K, V>> = all().filter(|change| change.new.is_some()).collect();
    for change in here.iter_mut().filter(|change| change.old.is_none()) {
        change.old = gone.remove(change.key).and_then(|departure| departure.old);
    }
    here.retain(|change| change.old != change.new);
    gone.into_values().chain(here)
}
