//! What proxies say, written into the store as facts.

use std::sync::Arc;

use engine::{Graph, Table, Value};
use infra::host::HostFact;
use ir::FleetName;
use store::{ClusterState, FactKey, ListenerState};
use tracing::{debug, info, warn};
use xds::{Event, TypeUrl};

use super::Core;

impl Core {
    /// Notes what the xDS server saw; true if a tick is due.
    pub(super) fn note_event(&mut self, event: Event) -> bool {
        match event {
            Event::Connected { fleet, node } => {
                info!(%fleet, node = %node.id, "a proxy connected");
                self.metrics.connected(&fleet, 1);
                false
            }
            Event::Gone { fleet, node, connected } => {
                info!(%fleet, node = %node.id, connected, "a proxy is gone");
                self.metrics.connected(&fleet, -1);
                false
            }
            Event::Live { fleet } => {
                self.fleet_is_live(&fleet);
                true
            }
            Event::ClusterWarm { fleet, name } => self.set_cluster(FactKey { fleet, name }, ClusterState::Warm),
            Event::Stalled { fleet, name } => {
                warn!(%fleet, cluster = %name, "a cluster does not become ready; only routes to it wait");
                self.set_cluster(FactKey { fleet, name }, ClusterState::Stalled)
            }
            Event::Accepted { fleet, type_url, name, .. } => self.accepted(&type_url, FactKey { fleet, name }),
            Event::Refused { fleet, type_url, name, text, .. } => {
                warn!(%fleet, r#type = %type_url, %name, %text, "a proxy refused a resource");
                self.metrics.refused += 1;
                self.refused(&type_url, FactKey { fleet, name }, text);
                true
            }
        }
    }

    /// The first proxy of a fleet has everything: from now on routes wait for their clusters.
    fn fleet_is_live(&mut self, fleet: &Arc<str>) {
        info!(%fleet, "the first complete configuration is acknowledged");
        let name = FleetName(Arc::clone(fleet));
        let clusters: Vec<_> = self.outputs.clusters_of(self.translator.graph(), &name).cloned().collect();
        for cluster in clusters {
            let key = FactKey { fleet: Arc::clone(fleet), name: cluster.0 };
            let (store, graph) = self.translator.store();
            if graph.get(store.tables().cluster_state, &key).is_none() {
                graph.set(store.tables().cluster_state, key, ClusterState::Warm);
            }
        }
        let (store, graph) = self.translator.store();
        graph.set(store.tables().fleet_live, Arc::clone(fleet), ());
    }

    fn set_cluster(&mut self, key: FactKey, state: ClusterState) -> bool {
        let (store, graph) = self.translator.store();
        set_fact(graph, store.tables().cluster_state, key, state)
    }

    /// Nearly every acknowledgement says what is known already, so that no tick follows from it.
    fn accepted(&mut self, type_url: &TypeUrl, key: FactKey) -> bool {
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        match type_url {
            TypeUrl::Listener => {
                debug!(fleet = %key.fleet, listener = %key.name, "a listener is active");
                set_fact(graph, tables.listener_state, key, ListenerState::Accepted)
            }
            TypeUrl::Secret => graph.remove(tables.secret_refusals, &key),
            TypeUrl::Route | TypeUrl::VirtualHost => graph.remove(tables.route_refusals, &key),
            _ => false,
        }
    }

    fn refused(&mut self, type_url: &TypeUrl, key: FactKey, text: Arc<str>) {
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        match type_url {
            TypeUrl::Cluster | TypeUrl::Endpoints => graph.set(tables.cluster_state, key, ClusterState::Refused(text)),
            TypeUrl::Listener => graph.set(tables.listener_state, key, ListenerState::Refused(text)),
            TypeUrl::Secret => graph.set(tables.secret_refusals, key, text),
            _ => graph.set(tables.route_refusals, key, text),
        }
    }

    /// Notes what the supervisor of proxies saw; true if a tick is due.
    pub(super) fn note_proxy(&mut self, fact: HostFact) -> bool {
        let HostFact { fleet, facts } = fact;
        let (store, graph) = self.translator.store();
        match facts {
            Some(facts) => {
                let facts = store::ProxyFacts {
                    started: facts.started,
                    ready: facts.ready,
                    addresses: facts.addresses,
                    refused_ports: facts.refused_ports,
                    problem: facts.problem,
                };
                graph.set(store.tables().proxies, fleet.0, Arc::new(facts));
            }
            None => store.forget_fleet(graph, &fleet.0),
        }
        true
    }
}

/// Writes a fact; whether it is news.
fn set_fact<V: Value>(graph: &mut Graph, table: Table<FactKey, V>, key: FactKey, value: V) -> bool {
    let news = graph.get(table, &key) != Some(&value);
    if news {
        graph.set(table, key, value);
    }
    news
}
