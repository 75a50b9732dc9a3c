//! What proxies say, written into the store as facts.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use api::{Problem, Severity};
use engine::{Graph, Table, Value};
use infra::host::HostFact;
use infra::kubernetes::PodsFact;
use ir::{ClusterName, FleetName};
use store::{ClusterState, FactKey, ListenerState, ProxyFacts, SecretRefusal, Tables};
use tracing::{debug, info, warn};
use translator::{InFleet, Outputs};
use xds::{Change, Event, FleetUpdate, MOST_OBJECTIONS, Node, Objection, TypeUrl, Version};

use super::holding::{Passed, Readiness};
use super::workloads::is_workload;
use super::{Core, replicas};

/// So many Gateways that there are not are named.
const MOST_STRANGERS: usize = 16;

/// What is known of the clusters of Gateways. Nobody waits for those of workloads here.
struct Known<'a> {
    graph: &'a Graph,
    tables: Tables,
    outputs: Outputs,
    /// Gateways that came with the last tick: what is left of facts is of proxies that had another of the same name. Its first publication is whole,
    /// as without its listeners these would be taken for gone.
    came: BTreeSet<&'a str>,
    /// Secrets that came with the last tick.
    secrets: BTreeSet<(&'a str, &'a str)>,
}

impl Readiness for Known<'_> {
    fn is_live(&self, fleet: &Arc<str>) -> bool {
        let is_known = !is_workload(fleet) && !self.came.contains(&**fleet);
        is_known && self.graph.get(self.tables.fleet_live, fleet).is_some()
    }

    fn is_awaited(&self, fleet: &Arc<str>, cluster: &Arc<str>) -> bool {
        let key = InFleet { fleet: FleetName(Arc::clone(fleet)), name: ClusterName(Arc::clone(cluster)) };
        let fact = FactKey { fleet: Arc::clone(fleet), name: Arc::clone(cluster) };
        self.outputs.cluster(self.graph, &key).is_some() && self.graph.get(self.tables.cluster_state, &fact).is_none()
    }

    fn is_new_secret(&self, fleet: &Arc<str>, secret: &Arc<str>) -> bool {
        self.secrets.contains(&(&**fleet, &**secret))
    }
}

impl Core {
    /// Notes what the xDS server saw; true if a tick is due.
    pub(super) fn note_event(&mut self, event: Event) -> bool {
        let event = match self.note_of_workload(event) {
            Ok(due) => return due,
            Err(event) => event,
        };
        let of_patched = match self.note_of_patched(&event) {
            ControlFlow::Break(due) => return due,
            ControlFlow::Continue(due) => due,
        };
        if let Event::Refused { fleet, type_url: TypeUrl::Cluster | TypeUrl::Endpoints, name, .. } = &event
            && !self.has_cluster(fleet, name)
        {
            return of_patched;
        }
        let also = self.replicas.note(&event);
        let due = self.note_own(event) || of_patched;
        // What others say of it counts as well.
        also.iter().fold(due, |due, (fleet, named)| self.settle_fact(fleet, named) | due)
    }

    fn note_own(&mut self, event: Event) -> bool {
        match event {
            Event::Connected { fleet, node, connected } => {
                self.note_coming("connected", &fleet, &node, connected);
                self.note_successor(&fleet, connected)
            }
            Event::Gone { fleet, node, connected } => {
                self.note_coming("is gone", &fleet, &node, connected);
                self.note_departed(&fleet, connected)
            }
            Event::Namesakes { fleet, node } => {
                if self.lines.takes_warning(&fleet, Instant::now()) {
                    warn!(
                        gateway = %fleet,
                        node = %node.shown(),
                        "several proxies have one node id: give each its own, for example with --service-node"
                    );
                }
                false
            }
            Event::Live { fleet } => {
                self.fleet_is_live(&fleet);
                true
            }
            Event::ClusterWarm { fleet, name } => self.set_cluster(FactKey { fleet, name }, ClusterState::Warm),
            Event::Stalled { fleet, name, nodes, was_warm } => {
                self.note_stalled(FactKey { fleet, name }, &nodes, was_warm)
            }
            Event::Accepted { fleet, type_url, name, version, .. } => {
                self.accepted(&type_url, FactKey { fleet, name }, version)
            }
            Event::Refused { fleet, type_url, name, text, version, has_previous } => {
                self.metrics.refused += 1;
                let key = FactKey { fleet, name };
                // What is tried again and refused again is no news. To people it is told as a problem, at its place.
                if self.refusal(&type_url, &key).is_none_or(|known| known != text) {
                    debug!(gateway = %key.fleet, r#type = %type_url, name = %key.name, %text, "a proxy refused a resource");
                }
                if type_url == TypeUrl::Secret {
                    return self.refused_secret(key, version, SecretRefusal { words: text, has_previous });
                }
                self.refused(&type_url, key, version, text)
            }
            Event::Load { fleet, cluster, load } => {
                self.note_load(FactKey { fleet, name: cluster }, load.as_deref());
                // nothing follows from it for proxies or statuses
                false
            }
            Event::Misreported { fleet, node, text } => {
                if self.lines.takes_warning(&fleet, Instant::now()) {
                    warn!(gateway = %fleet, node = %node.shown(), "a proxy's load reports hold {text}; the possible part counts");
                }
                self.metrics.misreports += 1;
                false
            }
            Event::Disputed { fleet, type_url, name, by } => self.note_dispute(fleet, &type_url, &name, &by),
        }
    }

    /// A cluster does not become ready on these proxies. One that starts takes nothing from those that have it ready.
    fn note_stalled(&mut self, key: FactKey, nodes: &[Arc<str>], was_warm: bool) -> bool {
        let FactKey { fleet, name } = &key;
        let is_said = self.lines.takes_warning(fleet, Instant::now());
        if nodes.is_empty() {
            if is_said {
                info!(gateway = %fleet, cluster = %name, "no proxy waits for the cluster any more");
            }
            return false;
        }
        let nodes = nodes.join(", ");
        if was_warm {
            if is_said {
                warn!(gateway = %fleet, cluster = %name, %nodes, "a cluster does not become ready on some proxies; only their routes to it wait");
            }
            return false;
        }
        if is_said {
            warn!(gateway = %fleet, cluster = %name, %nodes, "a cluster does not become ready; only routes to it wait");
        }
        self.set_cluster(key, ClusterState::Stalled)
    }

    /// A proxy of this fleet came or went; so many are connected now.
    pub(super) fn note_coming(&mut self, what: &str, fleet: &Arc<str>, node: &Node, connected: usize) {
        if self.lines.takes_coming(Instant::now()) {
            info!(gateway = %fleet, node = %node.shown(), connected, "a proxy {what}");
        }
        self.metrics.connected(Arc::clone(fleet), connected);
        self.note_stranger(fleet);
    }

    /// Makes known that a proxy is of a Gateway that there is not.
    fn note_stranger(&mut self, fleet: &Arc<str>) {
        if self.ready.load(Ordering::Acquire) && (self.strangers.contains(fleet) || !self.is_known(fleet)) {
            self.note_strangers();
        }
    }

    /// There is, or was a moment ago, such a Gateway.
    fn is_known(&self, fleet: &Arc<str>) -> bool {
        let (graph, tables) = (self.translator.graph(), self.translator.stored().tables());
        let name = FleetName(Arc::clone(fleet));
        let wanted =
            graph.get(self.outputs.infra, &name).is_some() || graph.get(self.outputs.workloads, &name).is_some();
        wanted || graph.get(tables.proxies, fleet).is_some()
    }

    /// Makes known which proxies are of a Gateway that there is not: they wait, and nobody else would say so.
    pub(super) fn note_strangers(&mut self) {
        // In a cluster an account says whose a proxy is, and one whose Gateway is gone is on its way out.
        if self.board.is_some() {
            return;
        }
        // Where proxies say themselves which workloads there are, none of these is a stranger.
        let is_said = |fleet: &str| self.said_labels.is_some() && is_workload(fleet);
        let strangers = self.metrics.fleets().filter(|fleet| !self.is_known(fleet) && !is_said(fleet));
        let strangers: BTreeSet<Arc<str>> = strangers.take(MOST_STRANGERS).cloned().collect();
        if strangers == self.strangers {
            return;
        }
        let told = strangers.iter().map(|fleet| {
            let who = if fleet.contains('/') {
                ""
            } else {
                " (the node's cluster of a Gateway's proxy is NAMESPACE/NAME, the node's id of a workload's NAME.NAMESPACE)"
            };
            let text = format!(
                "{fleet}: a proxy is connected, and there is no such Gateway: it has nothing until there is one{who}"
            );
            Problem::unbound(Severity::Warning, text)
        });
        let changes =
            vec![store::Change::Problems { origin: "proxies of no Gateway".into(), problems: told.collect() }];
        self.strangers = strangers.clone();
        let (store, graph) = self.translator.store();
        store.apply(graph, store::Batch { source: store::Source::File, changes, listed: false });
        self.tell_awaited();
    }

    /// Some proxies refuse what others may take; none any more if nobody is named.
    fn note_dispute(&mut self, fleet: Arc<str>, type_url: &TypeUrl, name: &str, by: &[Objection]) -> bool {
        let (store, graph) = self.translator.store();
        let (disputes, key) = (store.tables().disputes, FactKey::of_kind(fleet, replicas::kind(type_url), name));
        if by.is_empty() {
            return graph.remove(disputes, &key);
        }
        let text = objections(by);
        debug!(gateway = %key.fleet, r#type = %type_url, %name, %text, "a proxy refused what others may take");
        self.metrics.refused += 1;
        set_fact(graph, disputes, key, text)
    }

    /// Keeps back what has to wait for clusters, and gives what was waiting for them. Who waited in vain does so for nothing that comes later either,
    /// else a route that names another one with each edit would wait for ever. True if there is such a cluster.
    pub(super) fn hold(&mut self, updates: Vec<FleetUpdate>) -> (Vec<FleetUpdate>, bool) {
        let (graph, outputs) = (self.translator.graph(), self.outputs);
        let came = graph.changes(outputs.infra).filter(|change| change.old.is_none());
        let came = came.map(|change| change.key.as_str()).collect();
        let secrets = graph.changes(outputs.secrets).filter(|change| change.old.is_none());
        let secrets = secrets.map(|change| (change.key.fleet.as_str(), change.key.name.as_str())).collect();
        let known = Known { graph, tables: self.translator.stored().tables(), outputs, came, secrets };
        let revoked = graph.changes(known.tables.reference_grants).any(|change| change.old.is_some());
        let Passed { updates, late } = self.holding.pass(updates, &known, (revoked, Instant::now()));
        let set = |(fleet, name)| self.set_cluster(FactKey { fleet, name }, ClusterState::Stalled);
        let any = late.into_iter().map(set).fold(false, |any, news| any | news);
        (updates, any)
    }

    /// Notes of which listeners proxies have another version than the one that waits: what they said is not about that. True if that is news.
    pub(super) fn note_outdated_listeners(&mut self) -> bool {
        let other = self.holding.listeners().filter_map(|(fleet, name, version)| {
            let key = FactKey::new(Arc::clone(fleet), Arc::clone(name));
            (self.listeners.get(&key).copied() != version).then_some(key)
        });
        let now: BTreeSet<FactKey> = other.collect();
        let (store, graph) = self.translator.store();
        let table = store.tables().outdated_listeners;
        if now.is_empty() && graph.is_empty(table) {
            return false;
        }
        let over: Vec<FactKey> =
            graph.iter(table).map(|(key, ())| key).filter(|key| !now.contains(key)).cloned().collect();
        let mut news = !over.is_empty();
        for key in over {
            graph.remove(table, &key);
        }
        for key in now {
            news |= set_fact(graph, table, key, ());
        }
        news
    }

    /// Drops what was said of listeners of which another version is about to be published, and of whatever is gone. True if there
    /// was anything.
    pub(super) fn outdate_facts(&mut self, updates: &[FleetUpdate]) -> bool {
        let mut outdated = false;
        for FleetUpdate { fleet, changes } in updates {
            if is_workload(fleet) {
                outdated |= changes.iter().fold(false, |all, change| self.outdate_raw(fleet, change) | all);
                // Other replicas may have been faster.
                outdated |= self.settle_workload(fleet);
                continue;
            }
            for change in changes {
                outdated |= match change {
                    Change::Put(resource) if resource.type_url == TypeUrl::Listener => {
                        let key = FactKey::new(Arc::clone(fleet), Arc::clone(&resource.name));
                        let before = self.listeners.insert(key.clone(), resource.version);
                        let other = before != Some(resource.version);
                        let outdated = other && self.forget_fact(&TypeUrl::Listener, &key);
                        // Other replicas may have been faster.
                        outdated | (other && self.replicas.hears() && self.settle_listener(&key))
                    }
                    Change::Put(resource) if resource.type_url == TypeUrl::Secret => {
                        let key = FactKey::new(Arc::clone(fleet), Arc::clone(&resource.name));
                        let before = self.secrets.insert(key.clone(), resource.version);
                        // What lacks a secret that was refused tries its new content.
                        before != Some(resource.version) && self.forget_fact(&TypeUrl::Secret, &key)
                    }
                    Change::Put(resource) => {
                        // Of another version it is not known yet.
                        let is_routes = [TypeUrl::Route, TypeUrl::VirtualHost, TypeUrl::ExtensionConfig]
                            .contains(&resource.type_url);
                        let key = || FactKey::new(Arc::clone(fleet), Arc::clone(&resource.name));
                        is_routes && self.forget_fact(&resource.type_url, &key())
                    }
                    Change::Remove { type_url, name } => {
                        let key = FactKey::new(Arc::clone(fleet), Arc::clone(name));
                        match type_url {
                            TypeUrl::Listener => drop(self.listeners.remove(&key)),
                            TypeUrl::Secret => drop(self.secrets.remove(&key)),
                            _ => {}
                        }
                        self.replicas.forget(fleet, type_url, name);
                        self.forget_fact(type_url, &key)
                    }
                };
            }
        }
        outdated
    }

    /// True if there was one. (Clusters' are the translator's business.)
    fn forget_fact(&mut self, type_url: &TypeUrl, key: &FactKey) -> bool {
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        match type_url {
            TypeUrl::Listener => graph.remove(tables.listener_state, key),
            TypeUrl::Secret => graph.remove(tables.secret_refusals, key),
            TypeUrl::Route | TypeUrl::VirtualHost | TypeUrl::ExtensionConfig => {
                graph.remove(tables.route_refusals, key)
            }
            _ => false,
        }
    }

    /// The first proxy of a fleet has everything: from now on routes wait for their clusters.
    fn fleet_is_live(&mut self, fleet: &Arc<str>) {
        let is_said = self.lines.takes_coming(Instant::now());
        if is_said && self.lacks_a_listener(fleet) {
            info!(gateway = %fleet, "the first complete configuration is answered, and not all of it is accepted");
        } else if is_said {
            info!(gateway = %fleet, "the first complete configuration is acknowledged");
        }
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

    /// Whether a proxy has refused one of the listeners that were published last.
    fn lacks_a_listener(&self, fleet: &Arc<str>) -> bool {
        let first = FactKey { fleet: Arc::clone(fleet), name: "".into() };
        let mut of_fleet = self.listeners.range(first..).map(|(key, _)| key).take_while(|key| key.fleet == *fleet);
        of_fleet.any(|key| self.refusal(&TypeUrl::Listener, key).is_some())
    }

    /// Of one that is gone it is late, and means nothing should it come back.
    pub(super) fn set_cluster(&mut self, key: FactKey, state: ClusterState) -> bool {
        if !self.has_cluster(&key.fleet, &key.name) {
            return false;
        }
        let (store, graph) = self.translator.store();
        set_fact(graph, store.tables().cluster_state, key, state)
    }

    fn has_cluster(&self, fleet: &Arc<str>, name: &Arc<str>) -> bool {
        let key = InFleet { fleet: FleetName(Arc::clone(fleet)), name: ClusterName(Arc::clone(name)) };
        self.outputs.cluster(self.translator.graph(), &key).is_some()
    }

    /// True if that is news.
    fn accepted(&mut self, type_url: &TypeUrl, key: FactKey, version: Version) -> bool {
        match type_url {
            TypeUrl::Listener if self.listeners.get(&key) != Some(&version) => false,
            TypeUrl::Secret if self.secrets.get(&key) != Some(&version) => false,
            TypeUrl::Listener => {
                debug!(gateway = %key.fleet, listener = %key.name, "a listener is active");
                let (store, graph) = self.translator.store();
                set_fact(graph, store.tables().listener_state, key, ListenerState::Accepted)
            }
            _ => self.forget_fact(type_url, &key),
        }
    }

    /// What a proxy said when it refused this, as far as that still holds.
    fn refusal(&self, type_url: &TypeUrl, key: &FactKey) -> Option<Arc<str>> {
        let (tables, graph) = (self.translator.stored().tables(), self.translator.graph());
        match type_url {
            TypeUrl::Listener => match graph.get(tables.listener_state, key)? {
                ListenerState::Refused(text) => Some(Arc::clone(text)),
                ListenerState::Accepted => None,
            },
            _ => None,
        }
    }

    /// True if that is news: of a listener that was published anew, or a secret that is gone, it is not.
    fn refused(&mut self, type_url: &TypeUrl, key: FactKey, version: Version, text: Arc<str>) -> bool {
        if [TypeUrl::Cluster, TypeUrl::Endpoints].contains(type_url) {
            return self.set_cluster(key, ClusterState::Refused(text));
        }
        let (store, graph) = self.translator.store();
        let tables = store.tables();
        match type_url {
            TypeUrl::Listener if self.listeners.get(&key) != Some(&version) => return false,
            TypeUrl::Listener => graph.set(tables.listener_state, key, ListenerState::Refused(text)),
            _ => graph.set(tables.route_refusals, key, text),
        }
        true
    }

    /// Notes that a secret was refused; true if that is a change. A refusal of earlier content comes too late.
    fn refused_secret(&mut self, key: FactKey, version: Version, refusal: SecretRefusal) -> bool {
        if self.secrets.get(&key) != Some(&version) {
            return false;
        }
        let (store, graph) = self.translator.store();
        set_fact(graph, store.tables().secret_refusals, key, refusal)
    }

    /// Notes what the supervisor of proxies saw; true if a tick is due.
    pub(super) fn note_proxy(&mut self, fact: HostFact) -> bool {
        let HostFact { fleet: FleetName(fleet), state } = fact;
        let (store, graph) = self.translator.store();
        match state {
            Some(state) => {
                if let Some(pid) = state.pid {
                    self.metrics.envoy(&fleet, pid);
                }
                let words = |address| format!("no interface of this machine has the address {address}").into();
                let missing = state.missing_addresses.into_iter();
                let facts = ProxyFacts {
                    ready: state.ready,
                    addresses: state.addresses,
                    missing_addresses: missing.map(|address| (address, words(address))).collect(),
                    refused_ports: state.refused_ports,
                    refused_udp_ports: state.refused_udp_ports,
                    problem: state.problem,
                    ..ProxyFacts::default()
                };
                graph.set(store.tables().proxies, fleet, Arc::new(facts));
            }
            None => {
                self.metrics.envoy_gone(&fleet);
                store.forget_fleet(graph, &fleet);
                self.left.remove(&fleet);
            }
        }
        true
    }
}

impl Core {
    /// Notes what whoever keeps proxies in a cluster saw; true if a tick is due.
    pub(super) fn note_pods(&mut self, fact: PodsFact) -> bool {
        let PodsFact { fleet: FleetName(fleet), state } = fact;
        let (store, graph) = self.translator.store();
        match state {
            Some(state) => {
                let faults = state.faults.into_iter();
                let facts = ProxyFacts {
                    ready: state.ready,
                    addresses: state.addresses,
                    hostnames: state.hostnames,
                    cluster_addresses: state.cluster_addresses,
                    missing_addresses: state.missing_addresses,
                    unassigned: state.unassigned,
                    awaited: state.awaited,
                    problem: state.problem,
                    faults: faults.map(|fault| (fault.path, fault.text)).collect(),
                    ..ProxyFacts::default()
                };
                graph.set(store.tables().proxies, fleet, Arc::new(facts));
            }
            None => {
                store.forget_fleet(graph, &fleet);
                self.left.remove(&fleet);
            }
        }
        true
    }
}

/// Who says what against a resource.
pub(super) fn objections(by: &[Objection]) -> Arc<str> {
    let more = if by.len() == MOST_OBJECTIONS { "; perhaps others too" } else { "" };
    let said: Vec<String> = by.iter().map(|Objection { node, text }| format!("{text} (proxy {node})")).collect();
    format!("{}{more}", said.join("; ")).into()
}

/// Writes a fact; whether it is news.
pub(super) fn set_fact<V: Value>(graph: &mut Graph, table: Table<FactKey, V>, key: FactKey, value: V) -> bool {
    let news = graph.get(table, &key) != Some(&value);
    if news {
        graph.set(table, key, value);
    }
    news
}
