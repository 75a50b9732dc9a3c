//! From the graph's changes to bytes for the xDS server: each changed piece is encoded once, whoever reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Graph;
use envoy::{Encoded, EncodedPiece, EncodedSet};
use hashbrown::HashMap as UnorderedMap;
use ir::{ClusterName, EndpointSetName, EndpointSource, FleetName, RouteConfigurationName, RoutePiece};
use translator::{InFleet, Outputs, VirtualHostKey};
use xds::{Change, FleetUpdate, Need, TypeUrl};

/// What has been published, as far as the next change needs it.
pub struct Publisher {
    outputs: Outputs,
    options: envoy::Options,
    /// Encodings by the address of the piece, which the graph keeps alive until the tick after it changed.
    pieces: UnorderedMap<usize, Piece>,
    endpoint_sets: UnorderedMap<EndpointSetName, EncodedSet>,
    /// The clusters of each fleet.
    clusters: BTreeSet<(FleetName, ClusterName)>,
    /// Who reads a set of endpoints.
    readers: BTreeSet<(EndpointSetName, FleetName, ClusterName)>,
    /// Route configurations whose hosts travel one by one.
    separate: BTreeSet<RouteConfigurationKey>,
}

/// A piece of routes: its bytes, and the clusters that it needs as a slice that every version of its virtual host shares.
#[derive(Clone)]
struct Piece {
    encoded: EncodedPiece,
    needs: Arc<[Need]>,
}

impl Piece {
    fn of(piece: &RoutePiece) -> Self {
        let encoded = envoy::route_piece(piece);
        let needs = encoded.clusters.iter().map(|name| Need::new(TypeUrl::Cluster, Arc::clone(&name.0))).collect();
        Self { encoded, needs }
    }
}

/// A resource that is put together from pieces, with what these need.
type Composed = (Encoded, Vec<Arc<[Need]>>);

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
            pieces: UnorderedMap::new(),
            endpoint_sets: UnorderedMap::new(),
            clusters: BTreeSet::new(),
            readers: BTreeSet::new(),
            separate: BTreeSet::new(),
        }
    }

    /// Encodes what the last tick changed. Called once after every tick, before the graph settles.
    pub fn updates(&mut self, graph: &Graph) -> Vec<FleetUpdate> {
        let mut updates = Updates::new();
        self.encode_pieces(graph);
        self.secrets(graph, &mut updates);
        self.endpoints(graph, &mut updates);
        self.clusters(graph, &mut updates);
        self.listeners(graph, &mut updates);
        self.routes(graph, &mut updates);
        updates.into_iter().map(|(fleet, changes)| FleetUpdate { fleet: fleet.0, changes }).collect()
    }

    /// The clusters of a fleet.
    pub fn clusters_of(&self, fleet: &FleetName) -> impl Iterator<Item = &ClusterName> {
        let first = (fleet.clone(), ClusterName(Arc::from("")));
        self.clusters.range(first..).take_while(move |(of, _)| of == fleet).map(|(_, name)| name)
    }

    /// Who reads a set of endpoints.
    fn readers_of(&self, set: &EndpointSetName) -> impl Iterator<Item = (&FleetName, &ClusterName)> {
        let first = (set.clone(), FleetName(Arc::from("")), ClusterName(Arc::from("")));
        let readers = self.readers.range(first..).take_while(move |(read, _, _)| read == set);
        readers.map(|(_, fleet, cluster)| (fleet, cluster))
    }

    fn encode_pieces(&mut self, graph: &Graph) {
        for change in graph.changes(self.outputs.route_pieces) {
            if let Some(old) = change.old {
                self.pieces.remove(&address(old));
            }
        }
        for change in graph.changes(self.outputs.route_pieces) {
            if let Some(new) = change.new {
                self.pieces.insert(address(new), Piece::of(new));
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

    fn endpoints(&mut self, graph: &Graph, updates: &mut Updates) {
        for change in self.outputs.endpoint_changes(graph) {
            match change.new {
                Some(endpoints) => self.endpoint_sets.insert(change.key.clone(), envoy::endpoint_set(endpoints)),
                None => self.endpoint_sets.remove(change.key),
            };
            for (fleet, cluster) in self.readers_of(change.key) {
                let assignment = self.assignment(cluster, change.key);
                push(updates, fleet, Some(assignment), TypeUrl::Endpoints, &cluster.0);
            }
        }
    }

    fn clusters(&mut self, graph: &Graph, updates: &mut Updates) {
        for change in graph.changes(self.outputs.clusters) {
            let InFleet { fleet, name } = change.key;
            let (old, set) = (change.old.and_then(|old| discovered(old)), change.new.and_then(|new| discovered(new)));
            if let Some(old) = old.filter(|old| set != Some(*old)) {
                self.readers.remove(&(old.clone(), fleet.clone(), name.clone()));
            }
            match change.new {
                Some(_) => self.clusters.insert((fleet.clone(), name.clone())),
                None => self.clusters.remove(&(fleet.clone(), name.clone())),
            };
            push(updates, fleet, change.new.map(|cluster| envoy::cluster(cluster)), TypeUrl::Cluster, &name.0);
            if let Some(set) = set {
                self.readers.insert((set.clone(), fleet.clone(), name.clone()));
                push(updates, fleet, Some(self.assignment(name, set)), TypeUrl::Endpoints, &name.0);
            } else if old.is_some() {
                push(updates, fleet, None, TypeUrl::Endpoints, &name.0);
            }
        }
    }

    /// The endpoints of a cluster; a set that is not there is empty, so that the cluster can warm.
    fn assignment(&self, cluster: &ClusterName, set: &EndpointSetName) -> Encoded {
        match self.endpoint_sets.get(set) {
            Some(encoded) => envoy::load_assignment(cluster, encoded),
            None => {
                let empty = ir::Endpoints { name: set.clone(), localities: Vec::new() };
                envoy::load_assignment(cluster, &envoy::endpoint_set(&empty))
            }
        }
    }

    fn listeners(&self, graph: &Graph, updates: &mut Updates) {
        for change in graph.changes(self.outputs.listeners) {
            let InFleet { fleet, name } = change.key;
            let put = change.new.map(|listener| envoy::listener(listener, &self.options));
            push(updates, fleet, put, TypeUrl::Listener, &name.0);
        }
    }

    /// Route configurations and, for those with separate hosts, their hosts.
    fn routes(&mut self, graph: &Graph, updates: &mut Updates) {
        let before = self.separate.clone();
        for change in graph.changes(self.outputs.route_configurations) {
            let InFleet { fleet, name } = change.key;
            let put = change.new.map(|configuration| self.configuration(configuration));
            push_composed(updates, fleet, put, TypeUrl::Route, &name.0);
            let separate =
                change.new.is_some_and(|configuration| matches!(configuration.hosts, ir::route::Hosts::Separate));
            if separate {
                self.separate.insert(change.key.clone())
            } else {
                self.separate.remove(change.key)
            };
            if separate != before.contains(change.key) {
                self.all_hosts(graph, change.key, separate, updates);
            }
        }
        for change in self.outputs.virtual_host_changes(graph) {
            let VirtualHostKey { fleet, configuration, name } = change.key;
            let key = InFleet { fleet: fleet.clone(), name: configuration.clone() };
            if self.separate.contains(&key) || (before.contains(&key) && change.new.is_none()) {
                let put = change.new.map(|host| self.host(host));
                push_composed(updates, fleet, put, TypeUrl::VirtualHost, &name.0);
            }
        }
    }

    /// A configuration that begins or ends to have separate hosts: all of them come or go.
    fn all_hosts(&self, graph: &Graph, key: &RouteConfigurationKey, put: bool, updates: &mut Updates) {
        for (host_key, host) in self.outputs.hosts_of(graph, key) {
            push_composed(updates, &key.fleet, put.then(|| self.host(host)), TypeUrl::VirtualHost, &host_key.name.0);
        }
    }

    fn configuration(&self, configuration: &ir::RouteConfiguration) -> Composed {
        let (mut hosts, mut needs) = (Vec::new(), Vec::new());
        if let ir::route::Hosts::Inline(inline) = &configuration.hosts {
            for host in inline {
                let (encoded, of_host) = self.host(host);
                hosts.push(encoded);
                needs.extend(of_host);
            }
        }
        (envoy::route_configuration(configuration, &hosts.iter().collect::<Vec<_>>()), needs)
    }

    fn host(&self, host: &ir::VirtualHost) -> Composed {
        let pieces: Vec<Piece> = host.pieces.iter().map(|piece| self.piece(piece)).collect();
        let encoded: Vec<&EncodedPiece> = pieces.iter().map(|piece| &piece.encoded).collect();
        let needs = pieces.iter().map(|piece| Arc::clone(&piece.needs)).filter(|needs| !needs.is_empty()).collect();
        (envoy::virtual_host(host, &encoded), needs)
    }

    fn piece(&self, piece: &Arc<RoutePiece>) -> Piece {
        self.pieces.get(&address(piece)).cloned().unwrap_or_else(|| Piece::of(piece))
    }
}

/// The set that a cluster reads, if it is not told its endpoints otherwise.
fn discovered(cluster: &ir::Cluster) -> Option<&EndpointSetName> {
    match &cluster.endpoints {
        EndpointSource::Discovered(set) => Some(set),
        EndpointSource::Dns(_) => None,
    }
}

fn address(piece: &Arc<RoutePiece>) -> usize {
    Arc::as_ptr(piece).addr()
}

/// Adds one change: the resource, or its removal.
fn push(updates: &mut Updates, fleet: &FleetName, put: Option<Encoded>, type_url: TypeUrl, name: &Arc<str>) {
    let put = put.map(|mut encoded| {
        let own = std::mem::take(&mut encoded.needs).into_iter();
        let needs = own.map(|need| Need::new(TypeUrl::from(need.type_url), need.name));
        // That a cluster needs the endpoints of its name goes without saying.
        let needs: Arc<[Need]> =
            needs.filter(|need| need.type_url != TypeUrl::Endpoints || need.name != *name).collect();
        (encoded, if needs.is_empty() { Vec::new() } else { vec![needs] })
    });
    push_composed(updates, fleet, put, type_url, name);
}

/// The same for what is put together from pieces.
fn push_composed(updates: &mut Updates, fleet: &FleetName, put: Option<Composed>, type_url: TypeUrl, name: &Arc<str>) {
    let change = match put {
        Some((encoded, needs)) => Change::Put(Arc::new(xds::Resource {
            type_url,
            name: encoded.name,
            version: xds::Version(encoded.version),
            body: encoded.body.into(),
            needs: needs.into(),
            replaces: None,
            apart: false,
        })),
        None => Change::Remove { type_url, name: Arc::clone(name) },
    };
    updates.entry(fleet.clone()).or_default().push(change);
}
