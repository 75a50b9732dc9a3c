//! Which routes a proxy means when it refuses a route configuration or virtual host, and what is served in their place.
//!
//! A refusal names a resource, and a resource holds many routes. Guilty is what was published last of those in it: the form that
//! each of these routes had before is served again, and the refusal is kept under the name of the form, so that the next edit of
//! the route is tried anew.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use engine::Graph;
use ir::VirtualHost;
use store::{FactKey, Tables};

use crate::gating::{Effective, form_name};
use crate::graph::Own;
use crate::http_route::AttachedRoute;
use crate::key::AttachmentKey;
use crate::lookup::route_text;
use crate::output::Outputs;

/// Changes of routes that can still be blamed. A refusal follows its publication within seconds; a form is about 1 KB, so this is
/// 4 MB at most.
const REMEMBERED: usize = 4_096;

/// A published change of a route.
struct Published {
    key: AttachmentKey,
    /// None: the route was new.
    before: Option<Arc<AttachedRoute>>,
    revision: u64,
}

/// The last changes, and refusals that nobody could be blamed for.
#[derive(Default)]
pub(crate) struct Blame {
    recent: VecDeque<Published>,
    revision: u64,
    unclear: BTreeSet<FactKey>,
}

impl Blame {
    /// Notes what was published of routes: key, form before.
    pub(crate) fn published(&mut self, changes: impl Iterator<Item = (AttachmentKey, Option<Arc<AttachedRoute>>)>) {
        self.revision += 1;
        let revision = self.revision;
        self.recent.extend(changes.take(REMEMBERED).map(|(key, before)| Published { key, before, revision }));
        let surplus = self.recent.len().saturating_sub(REMEMBERED);
        self.recent.drain(..surplus);
    }

    /// Turns refusals of resources into refusals of forms of routes. One that fits no recent change stays as it is, and becomes a
    /// Problem of the Gateway.
    pub(crate) fn judge(&mut self, graph: &mut Graph, tables: Tables, own: Own, outputs: Outputs) {
        if graph.is_empty(tables.route_refusals) {
            self.unclear.clear();
            return;
        }
        let resources = graph.iter(tables.route_refusals).filter(|(fact, _)| is_resource(fact));
        let resources: Vec<_> = resources.map(|(fact, words)| (fact.clone(), words.clone())).collect();
        self.unclear.retain(|fact| resources.iter().any(|(other, _)| other == fact));
        for (fact, words) in resources {
            if self.unclear.contains(&fact) {
                continue;
            }
            let guilty = self.guilty(graph, outputs, &fact, &words);
            if guilty.is_empty() {
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
        let refused = graph.iter(outputs.effective).filter(|(_, effective)| effective.refusal.is_some());
        let held: BTreeSet<FactKey> = refused
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
        let candidates = self.recent.iter().filter(|published| {
            *published.key.fleet.0 == *fact.fleet && names.contains(&route_text(&published.key.route))
        });
        let usable: Vec<(&Published, &Effective)> = candidates
            .filter_map(|published| Some((published, &**graph.get(outputs.effective, &published.key)?)))
            .filter(|(_, effective)| effective.refusal.is_none())
            .collect();
        let Some(last) = usable.iter().map(|(published, _)| published.revision).max() else { return Vec::new() };
        let mut of_last: Vec<_> = usable.into_iter().filter(|(published, _)| published.revision == last).collect();
        let hints: [&dyn Fn(&Effective) -> bool; 2] =
            [&|effective| effective.desired.expressions().any(|text| words.contains(text)), &|effective| {
                words.contains("regex") && effective.desired.expressions().next().is_some()
            }];
        for hint in hints {
            if of_last.iter().any(|(_, effective)| hint(effective)) {
                of_last.retain(|(_, effective)| hint(effective));
                break;
            }
        }
        of_last
            .into_iter()
            .map(|(published, effective)| {
                let form = form_name(&published.key.route, &effective.desired);
                (published.key.clone(), form, published.before.clone())
            })
            .collect()
    }
}

/// A resource, and not a form of a route: forms have a hash behind.
pub(crate) fn is_resource(fact: &FactKey) -> bool {
    !fact.name.contains('~')
}

/// `<namespace>/<name>` of every route in a virtual host or route configuration.
fn routes_in(graph: &Graph, outputs: Outputs, fact: &FactKey) -> BTreeSet<String> {
    let hosts = outputs.virtual_hosts(graph).filter(|(key, _)| {
        *key.fleet.0 == *fact.fleet && [key.name.as_str(), key.configuration.as_str()].contains(&&*fact.name)
    });
    hosts.flat_map(|(_, host)| route_names(host)).collect()
}

fn route_names(host: &VirtualHost) -> impl Iterator<Item = String> {
    let routes = host.pieces.iter().flat_map(|piece| &piece.routes);
    routes.map(|route| route.name.splitn(3, '/').take(2).collect::<Vec<_>>().join("/"))
}
