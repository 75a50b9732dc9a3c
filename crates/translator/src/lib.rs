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
//! | `route_budget` | how many route entries a route, and the routes of a namespace, may make |
//! | `reference` | whether one object may name another: the one place |
//! | `backend`, `secret`, `envoy_proxy`, `backend_tls_policy`, `backend_traffic_policy`, `x_backend_traffic_policy`, `session` | what references lead to |
//! | `x_telemetry_policy` | what Gateways record of requests, and who gets it |
//! | `closing` | targets that are closed, because policies guard them with fields which are not built |
//! | `blame` | which routes a proxy means when it refuses a virtual host |
//! | `envoy_patch_policy` | what users change of generated resources, and what became of it |
//! | `raw` | for which workloads a resource of Envoy's is that users wrote, and what several of one name come to |
//! | `explain` | which objects make what a workload gets, for people who ask |
//! | `gating` | which form of a route a fleet serves while clusters warm or were refused |
//! | `virtual_host` | how entries become virtual hosts and route configurations |
//! | `stream` | which route gets the connections of a server name that are passed on |
//! | `status` | what people are told, in the words of the Gateway API |
//! | `graph` | which table is computed from which |

mod backend;
mod backend_tls_policy;
mod backend_traffic_policy;
mod blame;
mod closing;
mod departed;
mod digest;
mod envoy_patch_policy;
mod envoy_proxy;
mod explain;
mod external_auth;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod gateway_class;
mod gating;
mod graph;
mod hostname;
mod http_route;
mod key;
mod listener;
mod listener_set;
mod lookup;
mod output;
mod raw;
mod reference;
mod regex;
mod route_budget;
mod secret;
mod session;
mod status;
mod stream;
mod virtual_host;
mod x_backend_traffic_policy;
mod x_telemetry_policy;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::{ObjectKey, Timestamp};
use engine::{Chunk, Graph, TickStats};
use ir::raw::{Powers, RawReading, ReadRaw};
use ir::{FleetName, RawName};
use store::{FactKey, Store};

use crate::backend::{SecretPart, SecretUse};
use crate::raw::trial;

pub use ir::ClosedAddresses;

pub use crate::backend::own::OwnPlaces;
pub use crate::digest::Digest;
pub use crate::explain::{Explanation, Given, GivenBy, LeftOut, Missing, explain};
pub use crate::gating::Effective;
pub use crate::http_route::{AttachedRoute, rule_names};
pub use crate::key::{AttachmentKey, InFleet, ProblemKey, StreamKey, VirtualHostKey};
pub use crate::output::Outputs;
pub use crate::raw::refusal;
pub use crate::regex::MAX_PROGRAM_SIZE;
pub use crate::route_budget::RouteBudget;
pub use crate::status::rejected::Rejection;
pub use crate::stream::DISCARD;
pub use crate::virtual_host::chain_of;

/// How the objects are meant.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Objects come from files and proxies run on this machine: loopback, `ExternalName` and `Backend` are allowed, a Gateway
    /// whose class is not there is ours, and a port belongs to one Gateway.
    pub file_mode: bool,
    /// There are no proxies: `Programmed` is Unknown.
    pub offline: bool,
    /// Treatment of policies that guard with fields which are not built; none: as the static configuration says, and
    /// else they are closed.
    pub unsupported_policies: Option<UnsupportedPolicies>,
    /// Powers of raw resources and patches over the proxy's machine, in addition to those of the static configuration.
    pub powers: Powers,
    /// Reads resources of Envoy's that users wrote. It is handed in, so that nothing here reads a message of Envoy's.
    pub read_raw: ReadRaw,
    /// Route entries that may be made.
    pub route_budget: RouteBudget,
}

/// Treatment of policies that guard with fields which are not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsupportedPolicies {
    /// Their targets are closed.
    Deny,
    /// Their targets are served as if the policy was not there.
    Allow,
}

impl Default for Options {
    /// A cluster with proxies, and nobody who reads resources of Envoy's: objects that hold one are empty.
    fn default() -> Self {
        Self {
            file_mode: false,
            offline: false,
            unsupported_policies: None,
            powers: Powers::default(),
            read_raw: |_, _, _| RawReading::default(),
            route_budget: RouteBudget::default(),
        }
    }
}

/// The name of a piece of routes: stable while its first entry is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceKey(pub(crate) Chunk<Arc<key::Bucket>, key::EntryKey>);

/// Objects in, configuration and statuses out.
pub struct Translator {
    graph: Graph,
    store: Store,
    own: graph::Own,
    outputs: Outputs,
    blame: blame::Blame,
}

impl Translator {
    /// An empty graph.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut graph = Graph::new();
        let store = Store::declare(&mut graph);
        let (own, outputs) = graph::declare(&mut graph, store.tables(), options);
        // The static configuration has a word on them, also before they are known.
        graph.set(own.places, (), Arc::default());
        Self { graph, store, own, outputs, blame: blame::Blame::default() }
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

    /// Names the places that no backend leads to: folders with the proxies' admin and xDS sockets, which hand out private keys, and
    /// addresses at which Chancery listens.
    pub fn set_own_places(&mut self, places: Arc<OwnPlaces>) {
        self.graph.set(self.own.places, (), places);
    }

    /// Brings everything that was written into force, in one step. A refusal of a route configuration or virtual host, written
    /// to the store's `route_refusals` under the name of the resource, is turned into refusals of the routes that it means.
    pub fn tick(&mut self) -> TickStats {
        self.blame.judge(&mut self.graph, self.store.tables(), self.own, self.outputs);
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

    /// [`Self::remember_served_but`], where no fleet waits.
    pub fn remember_served(&mut self) {
        self.remember_served_but(|_| false);
    }

    /// Notes that the changes of the last tick were published, or wait to be in these fleets: a route whose next form has to wait is served in this
    /// one. Call it after each publish and before [`Translator::settle`] and the next tick.
    pub fn remember_served_but(&mut self, waits: impl Fn(&FleetName) -> bool) {
        let changes: Vec<(AttachmentKey, Option<Effective>)> = self
            .graph
            .changes(self.outputs.effective)
            .map(|change| (change.key.clone(), change.new.cloned()))
            .collect();
        if !changes.is_empty() && self.blame.has_heavy() {
            let (mut changed, mut gone) = (BTreeSet::new(), BTreeSet::new());
            for (key, new) in &changes {
                match new {
                    None => drop(gone.insert(key)),
                    Some(effective) if effective.refusal.is_none() => drop(changed.insert(key)),
                    Some(_) => {}
                }
            }
            self.blame.outdated(&changed, &gone);
        }
        let (graph, served) = (&self.graph, self.own.served);
        let before = changes.iter().filter_map(|(key, new)| {
            // A form that takes the place of a refused one cannot itself be what is refused next.
            new.as_ref().filter(|effective| effective.refusal.is_none())?;
            Some((key.clone(), graph.get(served, key).cloned()))
        });
        self.blame.published(before, &waits);
        self.graph.make_room(self.own.served, changes.len());
        for (key, new) in changes {
            match new {
                Some(effective) => self.graph.set(self.own.served, key, effective.remembered().clone()),
                None => drop(self.graph.remove(self.own.served, &key)),
            }
        }
        self.remember_raw();
        self.remember_pairs();
        departed::forget(&mut self.graph, self.outputs.clusters, self.store.tables().cluster_state);
        self.blame.forget(&mut self.graph, self.store.tables(), self.own, self.outputs);
    }
}

impl Translator {
    /// Whether proxies of a fleet have refused a form of a route that is still wanted.
    #[must_use]
    pub fn has_refused_forms(&self, fleet: &str) -> bool {
        blame::forms(&self.graph, self.store.tables(), fleet).next().is_some()
    }

    /// Forgets which forms of routes they refused, so that these are published once more; true if there was one.
    pub fn forget_refused_forms(&mut self, fleet: &str) -> bool {
        let tables = self.store.tables();
        let forms: Vec<FactKey> = blame::forms(&self.graph, tables, fleet).cloned().collect();
        forms.iter().fold(false, |any, fact| self.graph.remove(tables.route_refusals, fact) | any)
    }

    /// Notes what proxies of a workload had accepted of a resource when this process began: the bytes of the message.
    pub fn note_before(&mut self, target: InFleet<RawName>, bytes: Arc<[u8]>) {
        self.graph.set(self.own.raw_before, target, bytes);
    }

    /// Notes that proxies use a resource of a workload as it was published last. Whether that may be news for what is published: where several
    /// objects make it, one of them may have been left out or waited for.
    pub fn note_accepted(&mut self, target: &InFleet<RawName>) -> bool {
        let accepted = self.own.raw_accepted;
        self.graph.remove(self.own.raw_before, target);
        let composed = self.graph.get(self.outputs.raw_composed, target).and_then(Option::as_ref);
        let Some(composed) = composed.filter(|composed| !composed.made_of.is_empty()) else {
            return self.graph.remove(accepted, target);
        };
        if self.graph.get(accepted, target).is_some_and(|known| **known == composed.made_of) {
            return false;
        }
        let made_of = Arc::new(composed.made_of.clone());
        self.graph.set(accepted, target.clone(), made_of);
        true
    }

    /// The mark of what several objects make of a resource of a workload, under which proxies' answers are noted (`refusals`); none where one object
    /// makes it.
    #[must_use]
    pub fn mark_of(&self, target: &InFleet<RawName>) -> Option<u64> {
        let composed = self.graph.get(self.outputs.raw_composed, target)?.as_ref()?;
        let made_of = composed.made_of.iter().map(|(object, resource)| (object, resource));
        (!composed.made_of.is_empty()).then(|| trial::mark(made_of))
    }

    /// Notes Secrets with a good pair: of one that is written in part the pair before stays.
    fn remember_pairs(&mut self) {
        let (served, pairs, objects) = (self.own.pairs_served, self.outputs.pairs, self.store.tables().secrets);
        let read = self.graph.changes(pairs).map(|change| &change.key.object);
        let keys: BTreeSet<ObjectKey> =
            self.graph.changes(objects).map(|change| change.key).chain(read).cloned().collect();
        for key in keys {
            let parsed = self.graph.get(pairs, &SecretUse::of(key.clone(), SecretPart::Certificate));
            let is = parsed.map(|parsed| (parsed.fault.is_some(), parsed.content.is_ok()));
            match (is, self.graph.get(objects, &key).cloned()) {
                (Some((true, _)), _) => {}
                (Some((_, true)), Some(object)) => self.graph.set(served, key, object),
                _ => drop(self.graph.remove(served, &key)),
            }
        }
    }

    /// Notes the usable forms of objects with a resource of Envoy's: of one that is edited by mistake the form before stays.
    fn remember_raw(&mut self) {
        let (served, readings, objects) = (self.own.raw_served, self.outputs.raw_readings, self.store.tables().raw);
        let read = self.graph.changes(readings).map(|change| change.key);
        let keys: BTreeSet<ObjectKey> =
            self.graph.changes(objects).map(|change| change.key).chain(read).cloned().collect();
        for key in keys {
            let is = self.graph.get(readings, &key).map(|read| (read.is_earlier, read.reading.errors.is_empty()));
            match (is, self.graph.get(objects, &key).cloned()) {
                (Some((true, _)), _) => {}
                (Some((_, true)), Some(object)) => self.graph.set(served, key, object),
                _ => drop(self.graph.remove(served, &key)),
            }
        }
        let gone = self.graph.changes(self.outputs.raw).filter(|change| change.new.is_none());
        for target in gone.map(|change| change.key.clone()).collect::<Vec<_>>() {
            self.graph.remove(self.own.raw_accepted, &target);
            self.graph.remove(self.own.raw_before, &target);
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
