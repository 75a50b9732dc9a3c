//! Which routes a proxy means when it refuses a route configuration or virtual host, and what is served in their place.
//!
//! A refusal names a resource, and a resource holds many routes. Guilty is what was published last of those in it: the form that
//! each of these routes had before is served again, and the refusal is kept under the name of the form, so that the next edit of
//! the route is tried anew.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use engine::Graph;
use ir::{FleetName, RouteConfigurationName, TcpProxy, VirtualHost};
use store::{FactKey, Tables};

use crate::gating::{Effective, form_name};
use crate::graph::Own;
use crate::http_route::AttachedRoute;
use crate::key::{AttachmentKey, InFleet, route_name, route_named};
use crate::output::Outputs;
use crate::virtual_host::chain_of;

/// Changes of routes that can still be blamed. A refusal follows its publication within seconds; a form is about 1 KB and a light one
/// 4 KB at most, so this is 16 MB at most, and one form of each route that is heavier: less than the routes themselves.
const REMEMBERED: usize = 4_096;

/// Heaviest form, in route entries of 512 bytes, of which several are remembered for one route.
const LIGHT: u32 = 8;

/// A published change of a route.
struct Published {
    key: AttachmentKey,
    /// None: the route was new.
    before: Option<Arc<AttachedRoute>>,
    revision: u64,
    /// The form before is not a light one.
    is_heavy: bool,
}

/// The last changes, and refusals that nobody could be blamed for.
#[derive(Default)]
pub(crate) struct Blame {
    recent: VecDeque<Published>,
    revision: u64,
    /// Of fleets whose changes wait to be published, all at once: that of the first of them.
    waiting: BTreeMap<FleetName, u64>,
    unclear: BTreeSet<FactKey>,
}

impl Blame {
    /// Notes what was published of routes (key, form before), or waits to be, in the fleets that wait: what changes several times meanwhile is published
    /// once.
    pub(crate) fn published(
        &mut self,
        changes: impl Iterator<Item = (AttachmentKey, Option<Arc<AttachedRoute>>)>,
        waits: &impl Fn(&FleetName) -> bool,
    ) {
        self.revision += 1;
        for (key, before) in changes.take(REMEMBERED) {
            let revision = match self.waiting.get(&key.fleet) {
                Some(first) => *first,
                None if waits(&key.fleet) => *self.waiting.entry(key.fleet.clone()).or_insert(self.revision),
                None => self.revision,
            };
            let is_known = |other: &Published| other.revision == revision && other.key == key;
            if revision == self.revision || !self.recent.iter().any(is_known) {
                let is_heavy = before.as_ref().is_some_and(|form| form.weight() > LIGHT);
                self.recent.push_back(Published { key, before, revision, is_heavy });
            }
        }
        self.waiting.retain(|fleet, _| waits(fleet));
        let surplus = self.recent.len().saturating_sub(REMEMBERED);
        self.recent.drain(..surplus);
    }

    /// Forgets heavy forms that came before the present one of these routes, or of which the route is gone: only the last change of a route is ever
    /// blamed. Called before the changes are noted.
    pub(crate) fn outdated(&mut self, changed: &BTreeSet<&AttachmentKey>, gone: &BTreeSet<&AttachmentKey>) {
        let waiting = &self.waiting;
        self.recent.retain(|one| {
            let is_waiting = || waiting.get(&one.key.fleet) == Some(&one.revision);
            !one.is_heavy || !(gone.contains(&one.key) || (changed.contains(&one.key) && !is_waiting()))
        });
    }

    /// Any form that is remembered is heavy.
    pub(crate) fn has_heavy(&self) -> bool {
        self.recent.iter().any(|one| one.is_heavy)
    }

    /// Turns refusals of resources into refusals of forms of routes. One that fits no recent change stays as it is, and becomes a
    /// Problem of the Gateway, until whoever wrote it takes it away.
    pub(crate) fn judge(&mut self, graph: &mut Graph, tables: Tables, own: Own, outputs: Outputs) {
        if graph.is_empty(tables.route_refusals) {
            self.unclear.clear();
            return;
        }
        // What was refused there was published before what waits: whether it still holds is seen when that is out.
        let waits = |fact: &FactKey| self.waiting.keys().any(|fleet| *fleet.0 == *fact.fleet);
        let resources = graph.iter(tables.route_refusals).filter(|(fact, _)| is_resource(fact) && !waits(fact));
        let resources: Vec<_> = resources.map(|(fact, words)| (fact.clone(), words.clone())).collect();
        self.unclear.retain(|fact| resources.iter().any(|(other, _)| other == fact));
        for (fact, words) in resources {
            if self.unclear.contains(&fact) {
                continue;
            }
            let guilty = self.guilty(graph, outputs, &fact, &words);
            if guilty.is_empty() && exists(graph, outputs, &fact) {
                self.unclear.insert(fact);
                continue;
            }
            graph.remove(tables.route_refusals, &fact);
            for (key, form, before) in guilty {
                match before {
                    Some(before) => graph.set(own.fallback, key, before),
                    None => drop(graph.remove(own.fallback, &key)),
                }
                graph.set(
                    tables.route_refusals,
                    FactKey { fleet: fact.fleet.clone(), name: form.into() },
                    words.clone(),
                );
            }
        }
    }

    /// Forgets refusals of forms that nobody wants any more.
    pub(crate) fn forget(&self, graph: &mut Graph, tables: Tables, own: Own, outputs: Outputs) {
        if graph.is_empty(tables.route_refusals) {
            return;
        }
        let held: BTreeSet<FactKey> = graph
            .members(outputs.refused_forms, &())
            .into_iter()
            .map(|(key, effective)| FactKey::new(key.fleet.0.clone(), form_name(&key.route, &effective.desired)))
            .collect();
        let facts = graph.iter(tables.route_refusals).map(|(fact, _)| fact);
        let stale: Vec<_> = facts.filter(|fact| !is_resource(fact) && !held.contains(fact)).cloned().collect();
        for fact in stale {
            graph.remove(tables.route_refusals, &fact);
        }
        let kept = |key: &AttachmentKey| graph.get(outputs.effective, key).is_some_and(|it| it.refusal.is_some());
        let over: Vec<_> = graph.iter(own.fallback).map(|(key, _)| key).filter(|key| !kept(key)).cloned().collect();
        for key in over {
            graph.remove(own.fallback, &key);
        }
    }

    /// Routes of the resource that changed last: key, name of the refused form, form before. Where several changed together, the
    /// proxy's words may say which.
    fn guilty(
        &self,
        graph: &Graph,
        outputs: Outputs,
        fact: &FactKey,
        words: &str,
    ) -> Vec<(AttachmentKey, String, Option<Arc<AttachedRoute>>)> {
        let names = routes_in(graph, outputs, fact);
        let inside = |key: &AttachmentKey| *key.fleet.0 == *fact.fleet && names.contains(&route_name(&key.route));
        let recent = self.recent.iter().filter(|published| inside(&published.key)).filter_map(|published| {
            let effective = graph.get(outputs.effective, &published.key)?;
            let suspect = Suspect { key: &published.key, effective, before: published.before.as_ref() };
            effective.refusal.is_none().then_some((published.revision, suspect))
        });
        let recent: Vec<(u64, Suspect<'_>)> = recent.collect();
        let last = recent.iter().map(|(revision, _)| *revision).max();
        let of_last = recent.into_iter().filter(|(revision, _)| Some(*revision) == last).map(|(_, suspect)| suspect);
        let of_last: Vec<Suspect<'_>> = of_last.collect();
        // At a start more is published at once than is remembered: all of it was new.
        let all = || {
            let rows = graph.iter(outputs.effective).filter(|(key, it)| it.refusal.is_none() && inside(key));
            rows.map(|(key, effective)| Suspect { key, effective, before: None }).collect()
        };
        let named = [named(of_last.clone(), words), named(all(), words)].into_iter().find(|named| !named.is_empty());
        let guilty = named.unwrap_or_else(|| with_expressions(of_last, words));
        guilty.iter().map(Suspect::verdict).collect()
    }
}

/// A route that may be what a proxy refused.
#[derive(Clone, Copy)]
struct Suspect<'g> {
    key: &'g AttachmentKey,
    effective: &'g Effective,
    before: Option<&'g Arc<AttachedRoute>>,
}

impl Suspect<'_> {
    /// Key, name of the refused form, form before.
    fn verdict(&self) -> (AttachmentKey, String, Option<Arc<AttachedRoute>>) {
        (self.key.clone(), form_name(&self.key.route, &self.effective.desired), self.before.cloned())
    }
}

/// Those with the longest regular expression that is in the proxy's words: a shorter one may be part of it.
fn named<'g>(suspects: Vec<Suspect<'g>>, words: &str) -> Vec<Suspect<'g>> {
    let longest = |suspect: &Suspect<'_>| {
        let quoted = suspect.effective.desired.expressions().filter(|text| words.contains(text));
        quoted.map(str::len).max().unwrap_or(0)
    };
    let most = suspects.iter().map(longest).max().unwrap_or(0);
    suspects.into_iter().filter(|suspect| most > 0 && longest(suspect) == most).collect()
}

/// Those with regular expressions, if the words are about one.
fn with_expressions<'g>(suspects: Vec<Suspect<'g>>, words: &str) -> Vec<Suspect<'g>> {
    let has = |suspect: &Suspect<'_>| suspect.effective.desired.expressions().next().is_some();
    let about = words.contains("regex") && suspects.iter().any(has);
    suspects.into_iter().filter(|suspect| !about || has(suspect)).collect()
}

/// A resource, and not a form of a route: forms have a hash behind.
pub(crate) fn is_resource(fact: &FactKey) -> bool {
    !fact.name.contains('~')
}

/// The forms of routes that proxies of a fleet refused.
pub(crate) fn forms<'a>(graph: &'a Graph, tables: Tables, fleet: &'a str) -> impl Iterator<Item = &'a FactKey> {
    let facts = graph.iter(tables.route_refusals).map(|(fact, _)| fact);
    facts.filter(move |fact| *fact.fleet == *fleet && !is_resource(fact))
}

/// Whether the resource is still there: late words about one that is gone mean nothing.
fn exists(graph: &Graph, outputs: Outputs, fact: &FactKey) -> bool {
    let (fleet, name) = (FleetName(fact.fleet.clone()), RouteConfigurationName(fact.name.clone()));
    graph.get(outputs.route_configurations, &InFleet { fleet, name }).is_some()
        || streams(graph, outputs, fact).next().is_some()
        || outputs.virtual_hosts(graph).any(|(key, _)| *key.fleet.0 == *fact.fleet && key.name.as_str() == &*fact.name)
}

/// [`route_name`] of every route in a virtual host or route configuration, or of the one that passes connections on.
fn routes_in(graph: &Graph, outputs: Outputs, fact: &FactKey) -> BTreeSet<String> {
    let hosts = outputs.virtual_hosts(graph).filter(|(key, _)| {
        let named = *key.name.0 == *fact.name || key.configuration.as_str() == chain_of(&fact.name);
        *key.fleet.0 == *fact.fleet && named
    });
    let streams = streams(graph, outputs, fact).map(|proxy| proxy.route.to_string());
    hosts.flat_map(|(_, host)| route_names(host)).chain(streams).collect()
}

/// What a fact says of connections that are passed on.
fn streams<'g>(graph: &'g Graph, outputs: Outputs, fact: &FactKey) -> impl Iterator<Item = &'g TcpProxy> {
    let named = outputs.streams(graph).filter(|(key, _)| *key.fleet().0 == *fact.fleet && *key.name.0 == *fact.name);
    named.map(|(_, proxy)| &**proxy)
}

fn route_names(host: &VirtualHost) -> impl Iterator<Item = String> {
    let routes = host.pieces.iter().flat_map(|piece| &piece.routes);
    routes.map(|route| route_named(&route.name))
}
