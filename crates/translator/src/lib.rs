//! From objects to what proxies get: the graph of pure transforms, and its public face.
//!
//! [`Translator`] owns the store's tables and everything computed from them. Write with [`Translator::store`], commit with
//! [`Translator::tick`], read what changed through the handles in [`Outputs`], publish it, and say so with
//! [`Translator::remember_served`]. Nothing here waits, reads a clock, or talks to anybody.
//!
//! | module | decides |
//! |---|---|
//! | `gateway_class`, `gateway`, `listener` | what is ours; listeners, conflicts, chains, certificates |
//! | `http_route` | attachment, matches, filters, backends: route entries per listener |
//! | `reference` | whether one object may name another: the one place |
//! | `backend`, `secret`, `envoy_proxy`, `backend_traffic_policy` | what references lead to |
//! | `gating` | which form of a route a fleet serves while clusters warm or were refused |
//! | `virtual_host` | how entries become virtual hosts and route configurations |
//! | `status` | what people are told, in the words of the Gateway API |
//! | `graph` | which table is computed from which |

mod backend;
mod backend_traffic_policy;
mod envoy_proxy;
mod gateway;
mod gateway_class;
mod gating;
mod graph;
mod hostname;
mod http_route;
mod key;
mod listener;
mod lookup;
mod reference;
mod regex;
mod secret;
mod status;
mod virtual_host;

use std::fmt;
use std::sync::Arc;

use api::status::{GatewayClassStatus, GatewayStatus, PolicyStatus, RouteStatus};
use api::{ObjectKey, Problem, Timestamp};
use engine::{Chunk, Graph, Index, Table, TickStats};
use ir::{
    Cluster, EndpointSetName, Endpoints, FleetName, Infra, Listener, ListenerName, RouteConfiguration,
    RouteConfigurationName, RoutePiece, Secret, SecretName, VirtualHost,
};
use store::Store;

pub use crate::gating::Effective;
pub use crate::graph::PROBLEM_TABLES;
pub use crate::http_route::AttachedRoute;
pub use crate::key::{AttachmentKey, BackendKey, ClusterKey, ClusterTarget, InFleet, ProblemKey, VirtualHostKey};
pub use crate::regex::MAX_PROGRAM_SIZE;

/// How the objects are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Objects come from files and proxies run on this machine: loopback, `ExternalName` and `Backend` are allowed, a Gateway
    /// whose class is not there is ours, and a port belongs to one Gateway.
    pub file_mode: bool,
    /// There are no proxies: `Programmed` is Unknown.
    pub offline: bool,
}

/// The name of a piece of routes: stable while its first entry is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceKey(pub(crate) Chunk<Arc<key::Bucket>, key::EntryKey>);

/// Virtual hosts by their route configuration.
pub type HostIndex = Index<InFleet<RouteConfigurationName>, VirtualHostKey, Arc<VirtualHost>>;

/// Handles of everything that leaves the graph.
#[derive(Clone, Copy, Debug)]
pub struct Outputs {
    /// Bound ports.
    pub listeners: Table<InFleet<ListenerName>, Arc<Listener>>,
    /// Route configurations, with their hosts inside where these are few.
    pub route_configurations: Table<InFleet<RouteConfigurationName>, Arc<RouteConfiguration>>,
    /// All virtual hosts: those that routes bring with them, and those that listeners have. A host is in one of the two; when it
    /// moves between them, one table says that it went and the other that it came.
    pub virtual_hosts: [Table<VirtualHostKey, Arc<VirtualHost>>; 2],
    /// The same by route configuration, for the moment in which one turns from inline to separate.
    pub hosts_of: [HostIndex; 2],
    /// The pieces inside [`VirtualHost::pieces`] are these very `Arc`s.
    pub route_pieces: Table<PieceKey, Arc<RoutePiece>>,
    /// Clusters that something in their fleet names; the value has the name.
    pub clusters: Table<ClusterKey, Arc<Cluster>>,
    /// Endpoint sets of all backends: ports of Services, then `Backend` objects. Names are unique over both.
    pub endpoints: [Table<EndpointSetName, Arc<Endpoints>>; 2],
    /// Certificates and bundles.
    pub secrets: Table<InFleet<SecretName>, Arc<Secret>>,
    /// Proxies that there shall be.
    pub infra: Table<FleetName, Arc<Infra>>,
    /// Classes of ours.
    pub gateway_class_statuses: Table<ObjectKey, Arc<GatewayClassStatus>>,
    /// Gateways of ours.
    pub gateway_statuses: Table<ObjectKey, Arc<GatewayStatus>>,
    /// Routes; no parent is listed that is not ours.
    pub route_statuses: Table<ObjectKey, Arc<RouteStatus>>,
    /// `BackendTrafficPolicy` objects.
    pub policy_statuses: Table<ObjectKey, Arc<PolicyStatus>>,
    /// What is wrong with objects, by kind of finding; keys are unique over all of them.
    pub problems: [Table<ProblemKey, Arc<Problem>>; PROBLEM_TABLES],
    /// Routes as fleets get them, for [`Translator::remember_served`].
    pub effective: Table<AttachmentKey, Arc<Effective>>,
}

/// Objects in, configuration and statuses out.
pub struct Translator {
    graph: Graph,
    store: Store,
    own: graph::Own,
    outputs: Outputs,
}

impl Translator {
    /// An empty graph.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut graph = Graph::new();
        let store = Store::declare(&mut graph);
        let (own, outputs) = graph::declare(&mut graph, store.tables(), options);
        Self { graph, store, own, outputs }
    }

    /// The inputs: objects through [`Store::apply`], facts through the handles of [`Store::tables`].
    pub fn store(&mut self) -> (&mut Store, &mut Graph) {
        (&mut self.store, &mut self.graph)
    }

    /// The store, to look at.
    #[must_use]
    pub fn stored(&self) -> &Store {
        &self.store
    }

    /// Tells the time, which is used for the expiry of certificates only and so is cut to the hour.
    pub fn set_time(&mut self, Timestamp(seconds): Timestamp) {
        self.graph.set(self.own.clock, (), Timestamp(seconds - seconds.rem_euclid(3_600)));
    }

    /// Brings everything that was written into force, in one step.
    pub fn tick(&mut self) -> TickStats {
        self.graph.tick()
    }

    /// The handles of the outputs.
    #[must_use]
    pub fn outputs(&self) -> Outputs {
        self.outputs
    }

    /// The graph: changes of the last tick, rows, costs.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Frees what the last tick replaced. After publishing, when there is time.
    pub fn settle(&mut self) {
        self.graph.settle();
    }

    /// Notes that the changes of the last tick were published: a route whose next form has to wait is served in this one.
    /// Call it after each publish and before [`Translator::settle`] and the next tick.
    pub fn remember_served(&mut self) {
        let changes: Vec<_> = self
            .graph
            .changes(self.outputs.effective)
            .map(|change| (change.key.clone(), change.new.map(|effective| effective.form.clone())))
            .collect();
        for (key, form) in changes {
            match form {
                Some(form) => self.graph.set(self.own.served, key, form),
                None => drop(self.graph.remove(self.own.served, &key)),
            }
        }
    }
}

impl fmt::Debug for Translator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translator").field("size", &self.graph.size()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
