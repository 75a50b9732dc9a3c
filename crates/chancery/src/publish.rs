//! From the graph's changes to bytes for the xDS server: each changed piece is encoded once, whoever reads it.

mod parting;
mod patches;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use engine::{Change as TableChange, Graph};
use envoy::{Encoded, EncodedHost, EncodedPiece, EncodedSet};
use hashbrown::{HashMap as UnorderedMap, HashSet as UnorderedSet};
use ir::{
    Cluster, ClusterName, EndpointSetName, FleetName, RawName, RouteConfiguration, RouteConfigurationName, RoutePiece,
    VirtualHost,
};
use translator::{InFleet, Outputs, VirtualHostKey};
use xds::{Change, FleetUpdate, Need, TypeUrl};

use self::parting::Parting;
use self::patches::Patched;
pub(crate) use self::patches::{Mark, ResourceKey, Told, named};

/// What has been published, as far as the next change needs it.
pub struct Publisher {
    outputs: Outputs,
    options: envoy::Options,
    /// Encodings by the address of what was encoded.
    pieces: Pieces,
    /// Narrow hosts inside route configurations, in the same way.
    hosts: UnorderedMap<usize, Host>,
    /// When the hosts are so many, those that nobody else holds go.
    sweep_at: usize,
    /// Chains whose hosts travel one by one.
    separate: BTreeSet<RouteConfigurationKey>,
    /// Endpoints that go from listeners that take datagrams.
    parting: Parting,
    /// What has patches.
    patched: Patched,
    told: Vec<Told>,
}

/// Hosts with at most this many pieces are kept: putting a wider one together from its pieces again costs as much as copying it.
const NARROW: usize = 8;

/// Pieces by address.
type Pieces = UnorderedMap<usize, Piece>;

/// A piece of routes: its bytes, and the clusters that it needs as a slice that every version of its virtual host shares.
struct Piece {
    /// Alive as long as this is, so that its address means nothing else.
    of: Arc<RoutePiece>,
    encoded: EncodedPiece,
    needs: Arc<[Need]>,
}

impl Piece {
    /// A piece, made from an earlier version where there is one.
    fn of(piece: &Arc<RoutePiece>, before: Option<Piece>) -> Self {
        let encoded = envoy::route_piece(piece, before.as_ref().map(|before| (&*before.of, &before.encoded)));
        let needs = match before {
            Some(before) if Arc::ptr_eq(&before.encoded.clusters, &encoded.clusters) => before.needs,
            _ => encoded.clusters.iter().map(|name| Need::new(TypeUrl::Cluster, Arc::clone(&name.0))).collect(),
        };
        Self { of: Arc::clone(piece), encoded, needs }
    }
}

/// A virtual host inside a route configuration, with what its pieces need.
struct Host {
    /// As with a piece.
    of: Arc<VirtualHost>,
    encoded: EncodedHost,
    needs: Vec<Arc<[Need]>>,
}

/// A resource that is put together from pieces, with what these need.
type Composed = (Encoded, Vec<Arc<[Need]>>);

/// Sets of endpoints that changed, or that clusters which changed read: encoded once for all of these.
type Sets = UnorderedMap<EndpointSetName, EncodedSet>;

/// A route configuration of a fleet.
type RouteConfigurationKey = InFleet<RouteConfigurationName>;

/// Changes by fleet, in the order in which they are handed on.
type Updates = BTreeMap<FleetName, Vec<Change>>;

impl Publisher {
    /// Nothing is published yet.
    pub fn new(outputs: Outputs, options: envoy::Options) -> Self {
        Self {
            outputs,
            options,
            pieces: Pieces::new(),
            hosts: UnorderedMap::new(),
            sweep_at: 0,
            separate: BTreeSet::new(),
            parting: Parting::default(),
            patched: Patched::default(),
            told: Vec::new(),
        }
    }

    /// When it wants to be asked again though nothing has changed.
    pub fn wakes(&self) -> Option<Instant> {
        self.parting.next()
    }

    /// Encodes what the last tick changed. Called once after every tick, before the graph settles.
    pub fn updates(&mut self, graph: &Graph, now: Instant) -> Vec<FleetUpdate> {
        let mut updates = Updates::new();
        self.encode_pieces(graph);
        self.secrets(graph, &mut updates);
        self.runtimes(graph, &mut updates);
        let over = self.part(graph, now);
        let mut sets = Sets::new();
        self.endpoints(graph, &over, &mut sets, &mut updates);
        self.clusters(graph, &mut sets, &mut updates);
        self.listeners(graph, &mut updates);
        self.streams(graph, &mut updates);
        self.routes(graph, &mut updates);
        self.raw(graph, &mut sets, &mut updates);
        self.patch(graph, &mut sets, &mut updates);
        updates.into_iter().map(|(fleet, changes)| FleetUpdate { fleet: fleet.0, changes }).collect()
    }

    fn encode_pieces(&mut self, graph: &Graph) {
        for change in graph.changes(self.outputs.route_pieces) {
            let old = change.old.and_then(|old| self.pieces.remove(&address(old)));
            if let Some(new) = change.new {
                self.pieces.insert(address(new), Piece::of(new, old));
            }
        }
    }

    fn secrets(&self, graph: &Graph, updates: &mut Updates) {
        for change in graph.changes(self.outputs.secrets) {
            let InFleet { fleet, name } = change.key;
            let put = change.new.map(|secret| envoy::secret(secret));
            push(updates, fleet, put, TypeUrl::Secret, &name.0);
        }
    }

    fn runtimes(&self, graph: &Graph, updates: &mut Updates) {
        for change in graph.changes(self.outputs.runtimes) {
            let put = change.new.map(|runtime| envoy::runtime(runtime));
            push(updates, change.key, put, TypeUrl::Runtime, &envoy::RUNTIME_LAYER.into());
        }
    }

    /// Notes what goes from sets, and gives those that are other than before for that alone.
    fn part(&mut self, graph: &Graph, now: Instant) -> Vec<EndpointSetName> {
        let mut changed = BTreeSet::new();
        for (name, set) in self.outputs.shared_set_changes(graph) {
            self.parting.note(name, set, now);
            changed.insert(name);
        }
        let mut over = self.parting.over(now);
        over.retain(|name| !changed.contains(name));
        over
    }

    /// Sets that changed, and these, for the clusters that read them; clusters that changed themselves bring theirs along.
    fn endpoints(&self, graph: &Graph, more: &[EndpointSetName], sets: &mut Sets, updates: &mut Updates) {
        let changed: UnorderedSet<_> = self.outputs.cluster_changes(graph).map(|change| change.key).collect();
        for set in self.outputs.endpoint_changes(graph).chain(more) {
            for reader in self.outputs.readers_of(graph, set).filter(|reader| !changed.contains(reader)) {
                let assignment = self.assignment(graph, sets, (&reader.name, set));
                push(updates, &reader.fleet, Some(assignment), TypeUrl::Endpoints, &reader.name.0);
            }
        }
    }

    fn clusters(&self, graph: &Graph, sets: &mut Sets, updates: &mut Updates) {
        for change in self.outputs.cluster_changes(graph) {
            let InFleet { fleet, name } = change.key;
            push(updates, fleet, change.new.map(|cluster| envoy::cluster(cluster)), TypeUrl::Cluster, &name.0);
            if change.new.is_some_and(|cluster| cluster.endpoints.set().is_none()) {
                set_apart(updates, fleet);
            }
            let set_of =
                |cluster: Option<&'_ Arc<Cluster>>| cluster.and_then(|cluster| cluster.endpoints.set().cloned());
            if let Some(set) = set_of(change.new) {
                let assignment = self.assignment(graph, sets, (name, &set));
                push(updates, fleet, Some(assignment), TypeUrl::Endpoints, &name.0);
            } else if set_of(change.old).is_some() {
                push(updates, fleet, None, TypeUrl::Endpoints, &name.0);
            }
        }
    }

    /// The endpoints of a cluster.
    fn assignment(&self, graph: &Graph, sets: &mut Sets, (cluster, set): (&ClusterName, &EndpointSetName)) -> Encoded {
        let make = || self.endpoint_set(graph, set);
        let shared = self.outputs.readers_of(graph, set).nth(1).is_some();
        if !shared {
            return envoy::own_load_assignment(cluster, &make());
        }
        let encoded = sets.entry(set.clone()).or_insert_with(|| envoy::endpoint_set(&make())).clone();
        envoy::load_assignment(cluster, encoded)
    }

    fn listeners(&self, graph: &Graph, updates: &mut Updates) {
        for change in graph.changes(self.outputs.listeners) {
            let InFleet { fleet, name } = change.key;
            let put = change.new.map(|listener| envoy::listener(listener, &self.options));
            push(updates, fleet, put, TypeUrl::Listener, &name.0);
        }
    }

    /// Where connections go that are passed on.
    fn streams(&self, graph: &Graph, updates: &mut Updates) {
        for change in self.outputs.stream_changes(graph) {
            let put = change.new.map(|proxy| envoy::tcp_proxy(proxy, &self.options));
            push(updates, change.key.fleet(), put, TypeUrl::ExtensionConfig, &change.key.name().0);
        }
    }

    /// What users wrote for workloads: what changed, and what has endpoints of a Service that changed. A resource that many have in common is put
    /// together once.
    fn raw(&self, graph: &Graph, sets: &mut Sets, updates: &mut Updates) {
        let changed: UnorderedSet<_> = graph.changes(self.outputs.raw).map(|change| change.key).collect();
        let by_set = self.outputs.endpoint_changes(graph).flat_map(|set| self.outputs.raw_with(graph, set));
        let moved = by_set.filter(|(key, _)| !changed.contains(key)).map(|(key, output)| (key, Some(output)));
        let all = graph.changes(self.outputs.raw).map(|change| (change.key, change.new)).chain(moved);
        let mut encoded: UnorderedMap<usize, Encoded> = UnorderedMap::new();
        for (InFleet { fleet, name: RawName { message, name } }, output) in all {
            let Some(url) = envoy::type_url::of(message) else { continue };
            let put = output.map(|output| {
                let make = || {
                    let set = output.resource.endpoints.as_ref();
                    let set = set.map(|set| {
                        &*sets.entry(set.clone()).or_insert_with(|| envoy::endpoint_set(&self.endpoint_set(graph, set)))
                    });
                    envoy::raw(output, set)
                };
                encoded.entry(address(output)).or_insert_with(make).clone()
            });
            push(updates, fleet, put, TypeUrl::from(url), name);
            if output.is_some_and(|output| output.resource.slow) {
                set_apart(updates, fleet);
            }
        }
    }

    /// A set that is not there is empty, so that a cluster can warm.
    fn endpoint_set(&self, graph: &Graph, set: &EndpointSetName) -> ir::Endpoints {
        let empty = || ir::Endpoints { name: set.clone(), localities: Vec::new() };
        let mut made = self.outputs.endpoint_set(graph, set).unwrap_or_else(empty);
        self.parting.add_to(&mut made);
        made
    }

    /// Route configurations and, for those with separate hosts, their hosts.
    fn routes(&mut self, graph: &Graph, updates: &mut Updates) {
        let hosts: Vec<_> = self.outputs.virtual_host_changes(graph).collect();
        for old in hosts.iter().filter_map(|change| change.old) {
            self.hosts.remove(&address(old));
        }
        let turned = self.configurations(graph, updates);
        self.separate_hosts(&hosts, &turned, updates);
        self.sweep();
    }

    /// Where a host moves from one table to another, the equal one in its configuration is known by an address that is not told.
    fn sweep(&mut self) {
        if self.hosts.len() > self.sweep_at {
            self.hosts.retain(|_, host| Arc::strong_count(&host.of) > 1);
            self.sweep_at = self.hosts.len() * 2;
        }
    }

    /// Route configurations. Gives the chains whose hosts begin or end to travel one by one: all of these come or go.
    fn configurations(&mut self, graph: &Graph, updates: &mut Updates) -> BTreeSet<RouteConfigurationKey> {
        let mut turned = BTreeSet::new();
        for change in graph.changes(self.outputs.route_configurations) {
            let InFleet { fleet, name } = change.key;
            let put = change.new.map(|configuration| self.configuration(configuration));
            push_composed(updates, fleet, put, TypeUrl::Route, &name.0);
            let chain = InFleet { fleet: fleet.clone(), name: translator::chain_of(name.as_str()).into() };
            // A chain that turns has two changes, in any order: one configuration goes, another comes. What there is now counts.
            let separate = self.outputs.has_separate_hosts(graph, &chain);
            if separate == self.separate.contains(&chain) {
                continue;
            }
            if separate {
                self.separate.insert(chain.clone())
            } else {
                self.separate.remove(&chain)
            };
            for (host_key, host) in self.outputs.hosts_of(graph, &chain) {
                self.hosts.remove(&address(host));
                let put = separate.then(|| self.host(host));
                push_composed(updates, fleet, put, TypeUrl::VirtualHost, &host_key.name.0);
            }
            turned.insert(chain);
        }
        turned
    }

    /// Hosts that changed and travel, or travelled, one by one.
    fn separate_hosts(
        &self,
        hosts: &[TableChange<'_, VirtualHostKey, Arc<VirtualHost>>],
        turned: &BTreeSet<RouteConfigurationKey>,
        updates: &mut Updates,
    ) {
        if self.separate.is_empty() && turned.is_empty() {
            return;
        }
        for change in hosts {
            let VirtualHostKey { fleet, configuration, name } = change.key;
            let key = InFleet { fleet: fleet.clone(), name: configuration.clone() };
            let separate = self.separate.contains(&key);
            let was = separate != turned.contains(&key);
            if separate || (was && change.new.is_none()) {
                let put = change.new.map(|host| self.host(host));
                push_composed(updates, fleet, put, TypeUrl::VirtualHost, &name.0);
            }
        }
    }

    fn configuration(&mut self, configuration: &RouteConfiguration) -> Composed {
        let inline = match &configuration.hosts {
            ir::route::Hosts::Inline(inline) => &inline[..],
            ir::route::Hosts::Separate => &[],
        };
        let Self { hosts: kept, pieces, .. } = self;
        let make = |host: &Arc<VirtualHost>| {
            let (encoded, needs) = compose(pieces, host, envoy::inline_host);
            Host { of: Arc::clone(host), encoded, needs }
        };
        for host in inline {
            // Most are kept, and not looked at: they are somewhere in memory.
            let at = address(host);
            if !kept.contains_key(&at) && host.pieces.len() <= NARROW {
                kept.insert(at, make(host));
            }
        }
        let (mut hosts, mut needs) = (Vec::with_capacity(inline.len()), Vec::with_capacity(inline.len()));
        for host in inline {
            if let Some(kept) = kept.get(&address(host)) {
                hosts.push(Cow::Borrowed(&kept.encoded));
                needs.extend_from_slice(&kept.needs);
            } else {
                let made = make(host);
                hosts.push(Cow::Owned(made.encoded));
                needs.extend(made.needs);
            }
        }
        (envoy::route_configuration(configuration, hosts), needs)
    }

    fn host(&self, host: &VirtualHost) -> Composed {
        compose(&self.pieces, host, envoy::virtual_host)
    }
}

/// Puts a host together from its pieces, with what these need.
fn compose<T>(
    known: &Pieces,
    host: &VirtualHost,
    encode: impl FnOnce(&VirtualHost, &[&EncodedPiece]) -> T,
) -> (T, Vec<Arc<[Need]>>) {
    // The host that answers 421 has a piece of its own. So has one that is equal to that of before: it is kept, with pieces that were
    // replaced by equal ones.
    let unknown = host.pieces.iter().filter(|piece| !known.contains_key(&address(piece)));
    let made: Vec<Piece> = unknown.map(|piece| Piece::of(piece, None)).collect();
    let mut made = made.iter();
    let (mut pieces, mut needs) = (Vec::with_capacity(host.pieces.len()), Vec::with_capacity(host.pieces.len()));
    for piece in host.pieces.iter().filter_map(|piece| known.get(&address(piece)).or_else(|| made.next())) {
        pieces.push(&piece.encoded);
        if !piece.needs.is_empty() {
            needs.push(Arc::clone(&piece.needs));
        }
    }
    if !host.external_auth.is_empty() {
        let clusters = host.external_auth.iter().map(|auth| Need::new(TypeUrl::Cluster, Arc::clone(&auth.cluster.0)));
        needs.push(clusters.collect());
    }
    (encode(host, &pieces), needs)
}

fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// Adds one change: the resource, or its removal.
fn push(updates: &mut Updates, fleet: &FleetName, put: Option<Encoded>, type_url: TypeUrl, name: &Arc<str>) {
    let put = put.map(|mut encoded| {
        let mut own = std::mem::take(&mut encoded.needs);
        // That a cluster needs the endpoints of its name goes without saying.
        own.retain(|need| need.type_url != envoy::type_url::LOAD_ASSIGNMENT || need.name != *name);
        if own.is_empty() {
            return (encoded, Vec::new());
        }
        let needs = own.into_iter().map(|need| Need::new(TypeUrl::from(need.type_url), need.name));
        (encoded, vec![needs.collect()])
    });
    push_composed(updates, fleet, put, type_url, name);
}

/// What was pushed last may warm late.
fn set_apart(updates: &mut Updates, fleet: &FleetName) {
    if let Some(Change::Put(resource)) = updates.get_mut(fleet).and_then(|changes| changes.last_mut()) {
        Arc::make_mut(resource).apart = true;
    }
}

/// The same for what is put together from pieces.
fn push_composed(updates: &mut Updates, fleet: &FleetName, put: Option<Composed>, type_url: TypeUrl, name: &Arc<str>) {
    // A cluster that waits for secrets may warm late, and one that warms holds back the acknowledgement of all others.
    let secrets = |needs: &Vec<Arc<[Need]>>| {
        needs.iter().flat_map(|some| some.iter()).any(|need| need.type_url == TypeUrl::Secret)
    };
    let apart = type_url == TypeUrl::Cluster && put.as_ref().is_some_and(|(_, needs)| secrets(needs));
    let change = match put {
        Some((encoded, needs)) => Change::Put(Arc::new(xds::Resource {
            needs: needs.into(),
            apart,
            vhds: encoded.vhds,
            ..xds::Resource::new(type_url, encoded.name, xds::Version(encoded.version), encoded.body)
        })),
        None => Change::Remove { type_url, name: Arc::clone(name) },
    };
    match updates.get_mut(fleet) {
        Some(changes) => changes.push(change),
        None => drop(updates.insert(fleet.clone(), vec![change])),
    }
}

#[cfg(test)]
mod tests;
