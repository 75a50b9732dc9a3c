//! Tables of routes: outcomes, forms, entries, buckets, virtual hosts, route configurations.

use std::sync::Arc;

use api::{Kind, ObjectKey, Problem, RouteObject};
use engine::{Chunk, Cx, Graph, Index, Table};
use ir::route::MaybeFilters;
use ir::{ClusterName, Route, RouteConfiguration, RoutePiece, TcpProxy, VirtualHost};
use store::{ClusterState, FactKey, Tables};

use super::budget::{self, Draft};
use super::overlap;
use super::{Backends, Base, Closings, Gateways, Policies};
use crate::PieceKey;
use crate::backend_traffic_policy::PolicyTarget;
use crate::closing::Closing;
use crate::gating::{self, Effective};
use crate::hostname::Hostname;
use crate::http_route::{self, AttachedRoute, RouteOutcome};
use crate::key::{
    Age, AttachmentKey, Bucket, EntryKey, InFleet, ListenerKey, ProblemKey, StreamKey, VirtualHostKey, route_name,
};
use crate::listener::ChainKey;
use crate::lookup::{GateTables, PieceTables, Reader, RouteTables, StreamTables};
use crate::output::{HostIndexes, HostTables};
use crate::route_budget::{Admission, RouteBudget};
use crate::stream::{self, Datagrams};
use crate::virtual_host;

mod shadow;

/// What is known of routes.
#[derive(Clone, Copy)]
pub(crate) struct Routes {
    pub(crate) outcomes: Table<ObjectKey, Arc<RouteOutcome>>,
    pub(crate) effective: Table<AttachmentKey, Effective>,
    /// Those of which a proxy refused the form that is wanted: few, if any.
    pub(crate) refused: Index<(), AttachmentKey, Effective>,
    /// How many routes a listener has.
    pub(crate) attached: Table<ListenerKey, usize>,
    pub(crate) pieces: PieceTable,
    pub(crate) hosts: HostTables,
    pub(crate) hosts_of: HostIndexes,
    pub(crate) configurations: Table<ChainKey, Arc<RouteConfiguration>>,
    pub(crate) streams: Streams,
    /// Notices at routes whose requests go to a more specific listener of a set.
    pub(crate) shadowed: [Table<ProblemKey, Arc<Problem>>; 2],
    /// What is said of routes whose matches older ones of other namespaces have.
    pub(crate) overlaps: Table<ProblemKey, Arc<Problem>>,
}

/// Routes that one piece has on average: one change costs one piece, and little more on a host of 50,000
/// routes (the benchmark `graph` has the figures).
const PIECE: usize = 128;

pub(super) fn routes(
    g: &mut Graph,
    base: &Base,
    gateways: Gateways,
    backends: Backends,
    (policies, closings): (Policies, Closings),
) -> Routes {
    let Base { inputs, grants, refused_secrets, namespaces, own, .. } = *base;
    let tables = RouteTables { inputs, grants, namespaces, gateways, backends, policies };
    let outcomes = outcomes(g, tables, base.options.route_budget);
    let refusals = refusals(g, inputs.route_refusals);
    let refused_clusters = refused_clusters(g, inputs);
    let effective = g.derive("route_form", outcomes, move |cx, key, outcome| {
        let mut rows = Vec::with_capacity(outcome.attached.len());
        for desired in &outcome.attached {
            let attachment = AttachmentKey { fleet: desired.fleet.clone(), route: key.clone() };
            let key = &attachment;
            let tables = GateTables { inputs, grants, backends, own, refusals, refused_clusters, refused_secrets, key };
            let effective = gating::decide(&mut Reader { cx: &mut *cx, tables }, desired);
            rows.push((attachment, effective));
        }
        rows
    });
    let refused = g.index("refused_form", effective, |_: &AttachmentKey, effective: &Effective| {
        effective.refusal.is_some().then_some(())
    });
    let attached = attached(g, effective);
    // What policies close is closed in the form that is served, whatever that waits for.
    let entries = g.derive("route_entry", effective, move |cx, key, effective| {
        let closing = closings.of(cx, &key.route);
        entries(key, &effective.form, closing.map(|closing| &**closing))
    });
    let by_bucket = by_bucket(g, entries);
    let (pieces, buckets, overlaps) = pieces(g, (entries, by_bucket), inputs.cluster_state);
    let streams = streams(g, gateways, entries, move |cx, route| datagram_policy(cx, inputs.routes, policies, route));
    let hosts = hosts(g, gateways, buckets);
    let by_chain = |key: &VirtualHostKey, _: &Arc<VirtualHost>| {
        [ChainKey { fleet: key.fleet.clone(), name: key.configuration.clone() }]
    };
    let [own, of_listeners, of_chains] = hosts;
    let hosts_of = [
        g.index("own_host_by_configuration", own, by_chain),
        g.index("listener_host_by_configuration", of_listeners, by_chain),
        g.index("host_of_chain_by_configuration", of_chains, by_chain),
    ];
    let configurations = g.derive("route_configuration", gateways.chains, move |cx, key, _| {
        let count: usize = hosts_of.iter().map(|index| cx.count(*index, key)).sum();
        let all = || hosts_of.iter().flat_map(|index| cx.members(*index, key).values().cloned()).collect();
        let configuration = virtual_host::configuration(key, count, all);
        let name = configuration.name.clone();
        [(ChainKey { fleet: key.fleet.clone(), name }, Arc::new(configuration))]
    });
    let shadowed = shadow::problems(g, gateways, effective, [by_bucket, streams.by_bucket]);
    Routes {
        outcomes,
        effective,
        refused,
        attached,
        pieces,
        hosts,
        hosts_of,
        configurations,
        streams,
        shadowed,
        overlaps,
    }
}

/// Refusals by proxies, by the route that they are about, and by its namespace.
fn refusals(g: &mut Graph, refusals: Table<FactKey, Arc<str>>) -> Index<FactKey, FactKey, Arc<str>> {
    g.index("refusal_by_route", refusals, |fact: &FactKey, _| {
        let route = fact.name.split_once('~').map(|(route, _)| route);
        let namespace = route.and_then(|route| route.rsplit('/').nth(1));
        let groups = [route, namespace].into_iter().flatten();
        groups.map(|group| FactKey::new(fact.fleet.clone(), group)).collect::<Vec<_>>()
    })
}

/// The number of routes that are attached to each listener.
fn attached(g: &mut Graph, effective: Table<AttachmentKey, Effective>) -> Table<ListenerKey, usize> {
    g.tally("route_by_listener", effective, |key: &AttachmentKey, effective: &Effective| {
        let counted = effective.desired.listeners.iter().filter(|listener| listener.counted);
        let key = |listener: Arc<str>| ListenerKey { fleet: key.fleet.clone(), listener };
        counted.map(|listener| key(listener.listener.clone())).collect::<Vec<_>>()
    })
}

/// Routes, of which those that are beyond the budget are attached nowhere.
fn outcomes(g: &mut Graph, tables: RouteTables, budget: RouteBudget) -> Table<ObjectKey, Arc<RouteOutcome>> {
    let routes = tables.inputs.routes;
    let small = Draft::SMALL.min(budget.route());
    let drafts = g.map("route_draft", routes, move |cx, key, route| {
        let (outcome, cost) = http_route::evaluate(&mut Reader { cx, tables }, key, route, &Admission::AtMost(small));
        let outcome = (cost.entries() <= small).then(|| Arc::new(outcome));
        // Where it is too large by itself it pays for nothing.
        let mut clusters = cost.clusters;
        let large = cost.gateways.iter().filter(|charge| charge.entries > budget.route());
        for charge in large {
            clusters.retain(|cluster| cluster.payer.fleet != charge.fleet);
        }
        Draft { age: Age::from(route.meta()), gateways: cost.gateways.into(), clusters: clusters.into(), outcome }
    });
    let budgets = budget::budgets(g, drafts, tables.backends, budget);
    g.derive("route", drafts, move |cx, key, draft| {
        let admission = budgets.admission(cx, key, draft);
        if let (Some(outcome), true) = (&draft.outcome, admission.excluded().is_empty()) {
            return Some((key.clone(), Arc::clone(outcome)));
        }
        let route = cx.get(routes, key)?;
        let (outcome, _) = http_route::evaluate(&mut Reader { cx, tables }, key, route, &admission);
        Some((key.clone(), Arc::new(outcome)))
    })
}

/// Entries of requests by listener and host name.
fn by_bucket(g: &mut Graph, entries: EntryTable) -> BucketIndex {
    g.index("entry_by_bucket", entries, |key: &EntryKey, _: &Arc<Route>| (!is_stream(key)).then(|| key.bucket.clone()))
}

/// Clusters that were refused, by fleet.
fn refused_clusters(g: &mut Graph, inputs: Tables) -> Index<Arc<str>, FactKey, ClusterState> {
    g.index("refused_cluster_by_fleet", inputs.cluster_state, |fact: &FactKey, state| {
        matches!(state, ClusterState::Refused(_)).then(|| fact.fleet.clone())
    })
}

type EntryTable = Table<EntryKey, Arc<Route>>;

/// Entries by listener and host name.
type BucketIndex = Index<Arc<Bucket>, EntryKey, Arc<Route>>;

type PieceTable = Table<PieceKey, Arc<RoutePiece>>;

/// Where connections go that are no HTTP.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    by_bucket: BucketIndex,
    /// Those that routes bring with them, and those of listeners' own host names.
    pub(crate) rows: [Table<StreamKey, Arc<TcpProxy>>; 2],
    pub(crate) by_listener: [Index<ListenerKey, StreamKey, Arc<TcpProxy>>; 2],
    /// What is said of routes that get nothing, as another one comes before them.
    pub(crate) behind: Table<ProblemKey, Arc<Problem>>,
    /// By the clusters of listeners that take datagrams: from where those come that go there.
    pub(crate) datagrams: Table<InFleet<ClusterName>, Datagrams>,
}

pub(super) fn is_stream(key: &EntryKey) -> bool {
    key.route.kind().is_some_and(Kind::is_stream_route)
}

/// The policy that says how datagrams of a route are sent: one of its rule, of which there is one, else one of the route.
fn datagram_policy(
    cx: &mut Cx<'_>,
    routes: Table<ObjectKey, RouteObject>,
    policies: Policies,
    route: &ObjectKey,
) -> Option<ObjectKey> {
    if !policies.any(cx, route.namespace()) {
        return None;
    }
    let section = cx.get(routes, route).and_then(|route| route.rule_names().first().map(|name| Arc::from(*name)));
    let target = |section| PolicyTarget { object: route.clone(), section };
    let of_rule = section.and_then(|section| policies.of(cx, &target(Some(section))));
    of_rule.or_else(|| policies.of(cx, &target(None)))
}

fn streams<P>(g: &mut Graph, gateways: Gateways, entries: EntryTable, policy: P) -> Streams
where
    P: Fn(&mut Cx<'_>, &ObjectKey) -> Option<ObjectKey> + Send + Sync + 'static,
{
    let places = gateways.stream_places;
    let by_bucket = g.index("stream_entry_by_bucket", entries, |key: &EntryKey, _: &Arc<Route>| {
        is_stream(key).then(|| key.bucket.clone())
    });
    let own = g.derive_group("own_stream", by_bucket, move |cx, bucket: &Arc<Bucket>, routes| {
        let place = cx.get(places, &bucket.listener)?;
        stream::own(place, &bucket.hostname, routes.values().next()?)
    });
    let datagrams = g.derive("datagram_shares", gateways.datagram_places, move |cx, listener, place| {
        let bucket = Arc::new(Bucket { listener: listener.clone(), hostname: Hostname::ANY });
        let first = cx.members(by_bucket, &bucket).iter().next().map(|(key, route)| (key.route.clone(), route.clone()));
        let datagrams = first
            .map(|(key, route)| Datagrams { shares: stream::shares(&route.action).into(), policy: policy(cx, &key) });
        let datagrams = datagrams.filter(|_| !place.is_closed).unwrap_or_default();
        [(InFleet { fleet: listener.fleet.clone(), name: place.cluster.clone() }, datagrams)]
    });
    let fixed = g.derive("listener_stream", places, move |cx, _, place| {
        stream::of_listener(&mut Reader { cx, tables: StreamTables { by_bucket } }, place)
    });
    let behind = g.derive_group("stream_behind", by_bucket, |_, bucket: &Arc<Bucket>, routes| {
        stream::behind(bucket, routes.keys().map(|key| &key.route))
    });
    let by_listener = |key: &StreamKey, _: &Arc<TcpProxy>| [key.listener.clone()];
    let by_listener =
        [g.index("own_stream_by_listener", own, by_listener), g.index("stream_by_listener", fixed, by_listener)];
    Streams { by_bucket, rows: [own, fixed], by_listener, datagrams, behind }
}

/// Entries in order of precedence, in pieces, by listener and host name; and the problems of those that are never reached.
fn pieces(
    g: &mut Graph,
    (entries, by_bucket): (EntryTable, BucketIndex),
    cluster_state: Table<FactKey, ClusterState>,
) -> (PieceTable, PieceTables, Table<ProblemKey, Arc<Problem>>) {
    let chunks = g.chunks("entry_by_piece", by_bucket, PIECE);
    let pieces = g.derive_group("route_piece", chunks, |_, chunk: &Chunk<_, _>, members| {
        let piece = RoutePiece { routes: members.values().cloned().collect() };
        [(PieceKey(chunk.clone()), Arc::new(piece))]
    });
    let by_bucket = g.index("piece_by_bucket", pieces, |key: &PieceKey, _: &Arc<RoutePiece>| [key.0.group.clone()]);
    let wide = g.distinct("wide_bucket", by_bucket, |_, bucket: &Arc<Bucket>| {
        bucket.hostname.is_wide().then(|| (bucket.clone(), ()))
    });
    let wide = g.tally("wide_bucket_by_listener", wide, |bucket: &Arc<Bucket>, ()| [bucket.listener.clone()]);
    let overlaps = overlap::problems(g, entries, chunks, by_bucket);
    (pieces, PieceTables { by_bucket, wide, cluster_state }, overlaps)
}

fn entries(key: &AttachmentKey, form: &AttachedRoute, closing: Option<&Closing>) -> Vec<(EntryKey, Arc<Route>)> {
    let mut rows = Vec::new();
    let base = route_name(&key.route);
    for attached in &form.listeners {
        let listener = ListenerKey { fleet: key.fleet.clone(), listener: attached.listener.clone() };
        for hostname in attached.hostnames.iter() {
            let bucket = Arc::new(Bucket { listener: listener.clone(), hostname: hostname.clone() });
            rows.extend(attached.entries.iter().map(|entry| {
                let (bucket, route) = (bucket.clone(), key.route.clone());
                let entry_key = EntryKey { bucket, rank: entry.rank, age: form.age, route, place: entry.place };
                let reason = closing.and_then(|closing| closing.reason(rule_of(&base, &entry.route.name)));
                (entry_key, reason.map_or_else(|| entry.route.clone(), |reason| closed(&entry.route, reason)))
            }));
        }
    }
    rows
}

/// The name of the rule that an entry of this name is of; `route` is that of its route.
fn rule_of<'e>(route: &str, entry: &'e str) -> Option<&'e str> {
    entry.strip_prefix(route)?.strip_prefix('/')
}

/// The same entry, which lets nothing pass.
fn closed(route: &Route, reason: Arc<str>) -> Arc<Route> {
    let (name, matches) = (route.name.clone(), route.matches.clone());
    let action = http_route::fail(&matches, reason);
    Arc::new(Route { name, matches, action, filters: MaybeFilters::default() })
}

/// Hosts that routes bring with them, those that listeners have, and those that chains have.
fn hosts(g: &mut Graph, gateways: Gateways, tables: PieceTables) -> HostTables {
    let places = gateways.places;
    let own = g.derive_group("own_host", tables.by_bucket, move |cx, bucket: &Arc<Bucket>, pieces| {
        let place = cx.get(places, &bucket.listener)?;
        virtual_host::own_host(&mut Reader { cx, tables }, bucket, place, pieces.values().cloned())
    });
    let of_listeners = g.derive("listener_host", places, move |cx, key, place| {
        [virtual_host::listener_host(&mut Reader { cx, tables }, key, place)]
    });
    let of_chains =
        g.derive("host_of_chain", gateways.chains, |_, key, chain| virtual_host::hosts_of_chain(key, chain));
    [own, of_listeners, of_chains]
}
