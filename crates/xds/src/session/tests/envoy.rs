//! A model of Envoy 1.40 as a client, as measured: the CDS gate, warming, ghosts, refusals that apply half, VHDS, resumed streams.
//!
//! What a resource means follows from its name and version: a cluster `slow…` warms when [`Envoy::warm_slow`] says so, `plain…` has no endpoint set; a route
//! configuration `v…` asks for its hosts. Versions 90 to 99 are refused when they are applied, 80 to 89 before anything of their
//! response is; a cluster refused with 95 to 99 stays behind as a ghost. One that is picky refuses those that end with 70 to 79 too, with 78
//! so that a ghost stays.
//!
//! Where there is not one stream for all kinds, nothing is withheld, and each version of a cluster, each route configuration and each
//! secret is asked for on a stream of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::rig::{Way, answer, kind, request, short};
use crate::resource::{Resource, TypeUrl, Version, route_configuration_of};
use crate::snapshot::Item;
use crate::wire::{Request, Response, StreamId, Variant};

type Name = Arc<str>;

/// What Envoy has under a name.
#[derive(Clone)]
struct Held {
    resource: Arc<Resource>,
    /// What it would say that it has, on the next stream.
    listed: Version,
}

/// What a stream is for that is not for all kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Purpose {
    kind: TypeUrl,
    /// All of the kind if none.
    name: Option<Name>,
    /// The version of a cluster that asks for its endpoints warms.
    warms: bool,
}

impl Purpose {
    fn all(kind: TypeUrl) -> Self {
        Self { kind, name: None, warms: false }
    }

    fn one(kind: &TypeUrl, name: &Name) -> Self {
        Self { kind: kind.clone(), name: Some(Arc::clone(name)), warms: false }
    }

    /// The endpoints of a version of a cluster.
    fn set(name: &Name, warms: bool) -> Self {
        Self { warms, ..Self::one(&TypeUrl::Endpoints, name) }
    }
}

/// What the client does.
pub(super) enum Deed {
    /// It says something on a stream.
    Say(Request),
    /// It ends a stream.
    End(StreamId),
}

#[derive(Default)]
pub(super) struct Envoy {
    way: Way,
    picky: bool,
    /// Those that are not for all kinds.
    streams: BTreeMap<Purpose, StreamId>,
    latest: StreamId,
    clusters: BTreeMap<Name, Held>,
    warming: BTreeMap<Name, Held>,
    ghosts: BTreeSet<Name>,
    listeners: BTreeMap<Name, Held>,
    warming_listeners: BTreeMap<Name, Held>,
    routes: BTreeMap<Name, Held>,
    hosts: BTreeMap<Name, Held>,
    secrets: BTreeMap<Name, Held>,
    sets: BTreeMap<Name, Held>,
    asked: BTreeMap<TypeUrl, BTreeSet<Name>>,
    initialized: bool,
    hosts_asked: bool,
    clusters_due: bool,
    /// Route configurations that need not wait for hosts any more, be it that those were refused.
    hosted: BTreeSet<Name>,
    /// Route configurations that were refused.
    answered: BTreeSet<Name>,
    withheld: VecDeque<Request>,
    /// What it does next.
    pub(super) out: VecDeque<Deed>,
}

fn is_bad(picky: bool, resource: &Resource) -> bool {
    (90..100).contains(&resource.version.0) || picky && dislikes(resource.version)
}

/// Whether a picky client refuses this version.
pub(super) fn dislikes(version: Version) -> bool {
    version.0 < 100_000 && (70..80).contains(&(version.0 % 100))
}

/// The same of a resource, or of one that it is made from.
pub(super) fn is_disliked(item: &Item) -> bool {
    dislikes(item.version()) || item.parts.iter().any(|part| dislikes(part.version()))
}

fn is_rotten(resource: &Resource) -> bool {
    (80..90).contains(&resource.version.0)
}

fn needs(resource: &Resource, kind: &TypeUrl) -> BTreeSet<Name> {
    resource.needs().filter(|need| need.type_url == *kind).map(|need| Arc::clone(&need.name)).collect()
}

impl Envoy {
    pub(super) fn of(way: Way, picky: bool) -> Self {
        Self { way, picky, ..Self::default() }
    }

    /// State of the world: hosts stand inside their route configurations, and are not asked for.
    fn knows_vhds(&self) -> bool {
        self.way.variant == Variant::Delta
    }

    /// A new process opens its first stream.
    pub(super) fn first_start(&mut self) {
        self.say(Purpose::all(TypeUrl::Cluster), request("cds", &[], &[]));
    }

    fn say(&mut self, purpose: Purpose, request: Request) {
        let stream = self.stream(purpose);
        self.out.push_back(Deed::Say(Request { stream, ..request }));
    }

    /// The stream for this, a new one if there is none.
    fn stream(&mut self, purpose: Purpose) -> StreamId {
        if self.way.aggregated {
            return 0;
        }
        let Self { streams, latest, .. } = self;
        *streams.entry(purpose).or_insert_with(|| {
            *latest += 1;
            *latest
        })
    }

    fn end(&mut self, purpose: &Purpose) {
        self.out.extend(self.streams.remove(purpose).map(Deed::End));
    }

    /// Its streams, where one is not for all kinds.
    pub(super) fn streams(&self) -> Vec<StreamId> {
        self.streams.values().copied().collect()
    }

    /// A stream that broke is opened again.
    pub(super) fn reopen(&mut self, stream: StreamId) {
        let purpose = self.streams.iter().find(|(_, its)| **its == stream).map(|(purpose, _)| purpose.clone());
        let purpose = purpose.expect("it was open");
        let held = match purpose.kind {
            TypeUrl::Cluster => return self.open_clusters(),
            TypeUrl::Listener => return self.open_listeners(),
            TypeUrl::Endpoints => &self.sets,
            TypeUrl::Route => &self.routes,
            TypeUrl::VirtualHost => &self.hosts,
            _ => &self.secrets,
        };
        let names: Vec<&str> = purpose.name.iter().map(|name| &**name).collect();
        let held =
            held.iter().filter(|(name, _)| !purpose.warms && purpose.name.as_ref().is_none_or(|one| one == *name));
        let message = Self::with_versions(short(&purpose.kind), &names, held);
        self.say(purpose, message);
    }

    /// The connection broke and there is a new one.
    pub(super) fn reconnect(&mut self) {
        self.out.clear();
        self.withheld.clear();
        if !self.way.aggregated {
            return self.streams().into_iter().for_each(|stream| self.reopen(stream));
        }
        self.hosts_asked = false;
        self.clusters_due = !self.warming.is_empty();
        if !self.clusters_due {
            self.open_clusters();
        }
        self.open("eds", &TypeUrl::Endpoints, &self.sets.clone());
        if self.initialized {
            self.open_listeners();
            self.open("rds", &TypeUrl::Route, &self.routes.clone());
            self.open("sds", &TypeUrl::Secret, &self.secrets.clone());
            self.ask_for_hosts();
        }
    }

    fn open_clusters(&mut self) {
        let message = Self::with_versions("cds", &[], self.warming.iter().chain(&self.clusters));
        self.say(Purpose::all(TypeUrl::Cluster), message);
    }

    fn open_listeners(&mut self) {
        let message = Self::with_versions("lds", &[], self.warming_listeners.iter().chain(&self.listeners));
        self.say(Purpose::all(TypeUrl::Listener), message);
    }

    fn open(&mut self, short: &str, kind: &TypeUrl, held: &BTreeMap<Name, Held>) {
        let names: Vec<Name> = self.asked.get(kind).into_iter().flatten().cloned().collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            let message = Self::with_versions(short, &names, held.iter());
            self.say(Purpose::all(kind.clone()), message);
        }
    }

    fn with_versions<'a>(short: &str, names: &[&str], held: impl Iterator<Item = (&'a Name, &'a Held)>) -> Request {
        let known = held.filter(|(_, held)| held.listed != Version(0));
        let mut versions: BTreeMap<String, Option<Version>> = BTreeMap::new();
        for (name, held) in known {
            versions.entry(name.to_string()).or_insert(Some(held.listed));
        }
        let listed = versions.into_iter().map(|(name, version)| (name.into(), version));
        Request { initial_versions: listed.collect(), ..request(short, names, &[]) }
    }

    /// A response comes in.
    pub(super) fn receive(&mut self, response: &Response) {
        let purpose = self.streams.iter().find(|(_, stream)| **stream == response.stream).map(|(of, _)| of.clone());
        if let Some(name) = purpose.as_ref().and_then(|purpose| purpose.name.as_ref()) {
            let names: Vec<&Name> = response.puts.iter().map(|item| item.name()).chain(&response.removed).collect();
            assert!(names.iter().all(|one| *one == name), "on a stream for {name}: {names:?}");
        }
        let rotten = response.puts.iter().any(|item| is_rotten(&item.resource));
        let error = match response.type_url {
            _ if rotten && response.type_url != TypeUrl::VirtualHost => {
                Some("Proto constraint validation failed".to_owned())
            }
            TypeUrl::Cluster => self.take_clusters(response),
            TypeUrl::Endpoints => self.take_sets(response, purpose.is_some_and(|purpose| !purpose.warms)),
            TypeUrl::Listener => self.take_listeners(response),
            TypeUrl::Route => self.take_routes(response),
            TypeUrl::VirtualHost => self.take_hosts(response),
            _ => self.take_secrets(response),
        };
        if error.is_some() && response.type_url == TypeUrl::Route {
            self.answered.extend(response.puts.iter().map(|item| Arc::clone(item.name())));
        }
        let reply = Request { stream: response.stream, ..answer(response, error.as_deref()) };
        if response.type_url == TypeUrl::Cluster && self.is_gate_closed(response) {
            self.withheld.push_back(reply);
        } else {
            self.out.push_back(Deed::Say(reply));
        }
        self.settle();
    }

    /// The CDS gate: neither ACK nor NACK while a cluster warms. A ghost closes it from the next response on. It is in the way of one
    /// stream for all kinds only.
    fn is_gate_closed(&self, response: &Response) -> bool {
        if !self.way.aggregated {
            return false;
        }
        let older_ghost = self.ghosts.iter().any(|ghost| response.puts.iter().all(|item| item.name() != ghost));
        !self.warming.is_empty() || older_ghost
    }

    fn take_clusters(&mut self, response: &Response) -> Option<String> {
        let picky = self.picky;
        let mut refused = Vec::new();
        for item in &*response.puts {
            let (name, resource) = (Arc::clone(item.name()), Arc::clone(&item.resource));
            if is_bad(picky, &resource) {
                refused.push(name.to_string());
                if (95..100).contains(&resource.version.0) || resource.version.0 % 100 == 78 {
                    self.ghosts.insert(name);
                }
                continue;
            }
            let active = self.clusters.get(&name);
            let same = active.is_some_and(|active| active.resource.version == resource.version);
            if same && !self.warming.contains_key(&name) && !self.ghosts.contains(&name) {
                continue;
            }
            let warming = self.warming.get(&name);
            if !self.way.aggregated && warming.is_some_and(|warming| warming.resource.version == resource.version) {
                continue;
            }
            let new = active.is_none() && warming.is_none();
            self.warming.insert(Arc::clone(&name), Held { listed: resource.version, resource });
            if !name.starts_with("plain") && !self.way.aggregated {
                self.end(&Purpose::set(&name, true));
                self.say(Purpose::set(&name, true), request("eds", &[&name], &[]));
            } else if new && !name.starts_with("plain") {
                self.ask("eds", &TypeUrl::Endpoints, &name);
            }
            if name.starts_with("plain") {
                self.ghosts.remove(&name);
                self.warm(&name);
            }
        }
        for name in &response.removed {
            self.clusters.remove(name);
            self.warming.remove(name);
            self.ghosts.remove(name);
            self.let_go("eds", &TypeUrl::Endpoints, name);
            self.end(&Purpose::set(name, true));
            self.sets.remove(name);
        }
        let error =
            (!refused.is_empty()).then(|| format!("Error adding/updating cluster(s) {}: no", refused.join(": no, ")));
        for item in response.puts.iter().filter(|_| error.is_none()) {
            for held in [&mut self.clusters, &mut self.warming].into_iter().filter_map(|held| held.get_mut(item.name()))
            {
                held.listed = if held.resource.version == item.version() { item.version() } else { held.listed };
            }
        }
        if error.is_some() {
            // it does not note the versions of a response that it refuses
            for item in response.puts.iter().filter(|item| !is_bad(picky, &item.resource)) {
                let old = self.clusters.get(item.name()).map_or(Version(0), |held| held.listed);
                if let Some(held) = self.warming.get_mut(item.name()) {
                    held.listed = old;
                }
            }
        }
        error
    }

    /// Clusters that take their time are ready; whether there were any.
    pub(super) fn warm_slow(&mut self) -> bool {
        let slow: Vec<Name> = self.warming.keys().filter(|name| self.is_slow(name)).cloned().collect();
        slow.iter().for_each(|name| self.warm_with_set(name));
        if !slow.is_empty() {
            self.settle();
        }
        !slow.is_empty()
    }

    /// Whether a cluster warms that takes its time, and has all that it needs.
    fn is_slow(&self, name: &Name) -> bool {
        name.starts_with("slow") && self.sets.contains_key(name)
    }

    /// Whether there are such clusters.
    pub(super) fn has_slow(&self) -> bool {
        self.warming.keys().any(|name| self.is_slow(name))
    }

    fn warm_with_set(&mut self, name: &Name) {
        self.ghosts.remove(name);
        self.warm(name);
        if let Some(stream) = self.streams.remove(&Purpose::set(name, true)) {
            self.end(&Purpose::set(name, false));
            self.streams.insert(Purpose::set(name, false), stream);
        }
    }

    fn warm(&mut self, name: &Name) {
        if let Some(held) = self.warming.remove(name) {
            self.clusters.insert(Arc::clone(name), held);
        }
    }

    /// Endpoint sets come, where one stream is not for all kinds perhaps for the version of a cluster that is `active`.
    fn take_sets(&mut self, response: &Response, active: bool) -> Option<String> {
        let picky = self.picky;
        let bad = response.puts.iter().any(|item| is_bad(picky, &item.resource));
        for item in response.puts.iter().filter(|item| !is_bad(picky, &item.resource)) {
            let name = item.name();
            if self.way.aggregated && !self.asked.get(&TypeUrl::Endpoints).is_some_and(|asked| asked.contains(name)) {
                continue;
            }
            let listed = if bad { self.sets.get(name).map_or(Version(0), |held| held.listed) } else { item.version() };
            self.sets.insert(Arc::clone(name), Held { resource: Arc::clone(&item.resource), listed });
            if !active && !name.starts_with("slow") {
                self.warm_with_set(name);
            }
        }
        if self.clusters_due {
            self.clusters_due = false;
            // SotW: a request that waits is one with the answer to what came meanwhile
            if self.knows_vhds() || self.withheld.is_empty() {
                self.open_clusters();
            }
        }
        bad.then(|| "malformed IP address".to_owned())
    }

    fn take_listeners(&mut self, response: &Response) -> Option<String> {
        let picky = self.picky;
        let mut refused = Vec::new();
        for item in &*response.puts {
            if is_bad(picky, &item.resource) {
                refused.push(item.name().to_string());
                continue;
            }
            let held = Held { resource: Arc::clone(&item.resource), listed: item.version() };
            self.warming_listeners.insert(Arc::clone(item.name()), held);
        }
        for name in &response.removed {
            self.listeners.remove(name);
            self.warming_listeners.remove(name);
        }
        (!refused.is_empty()).then(|| {
            for item in response.puts.iter().filter(|item| !is_bad(picky, &item.resource)) {
                let old = self.listeners.get(item.name()).map_or(Version(0), |held| held.listed);
                if let Some(held) = self.warming_listeners.get_mut(item.name()) {
                    held.listed = old;
                }
            }
            format!("Error adding/updating listener(s) {}: no", refused.join(": no, "))
        })
    }

    fn take_routes(&mut self, response: &Response) -> Option<String> {
        let picky = self.picky;
        let bad = response.puts.iter().any(|item| is_bad(picky, &item.resource));
        for item in response.puts.iter() {
            let name = item.name();
            if is_bad(picky, &item.resource) {
                // the first failure stops the rest
                break;
            }
            if !self.asked.get(&TypeUrl::Route).is_some_and(|asked| asked.contains(name)) {
                continue;
            }
            let listed =
                if bad { self.routes.get(name).map_or(Version(0), |held| held.listed) } else { item.version() };
            self.routes.insert(Arc::clone(name), Held { resource: Arc::clone(&item.resource), listed });
        }
        self.ask_for_hosts();
        bad.then(|| "missing ]: [".to_owned())
    }

    fn ask_for_hosts(&mut self) {
        if self.knows_vhds() && !self.hosts_asked && self.routes.keys().any(|name| name.starts_with('v')) {
            self.hosts_asked = true;
            let message = Self::with_versions("vhds", &[], self.hosts.iter());
            self.say(Purpose::all(TypeUrl::VirtualHost), message);
        }
    }

    fn take_hosts(&mut self, response: &Response) -> Option<String> {
        let picky = self.picky;
        let names = response.puts.iter().map(|item| item.name()).chain(&response.removed);
        let parents = names.filter_map(|name| route_configuration_of(name));
        self.hosted.extend(parents.map(Name::from));
        if response.puts.iter().any(|item| is_bad(picky, &item.resource) || is_rotten(&item.resource)) {
            return Some("Only unique values for domains are permitted".to_owned());
        }
        for item in &*response.puts {
            let parent = route_configuration_of(item.name()).unwrap_or_default();
            if self.routes.contains_key(parent) {
                let held = Held { resource: Arc::clone(&item.resource), listed: item.version() };
                self.hosts.insert(Arc::clone(item.name()), held);
            }
        }
        for name in &response.removed {
            self.hosts.remove(name);
        }
        None
    }

    fn take_secrets(&mut self, response: &Response) -> Option<String> {
        let picky = self.picky;
        let bad = response.puts.iter().any(|item| is_bad(picky, &item.resource));
        for item in response.puts.iter().filter(|_| !bad) {
            if self.asked.get(&TypeUrl::Secret).is_some_and(|asked| asked.contains(item.name())) {
                let held = Held { resource: Arc::clone(&item.resource), listed: item.version() };
                self.secrets.insert(Arc::clone(item.name()), held);
            }
        }
        bad.then(|| "KEY_VALUES_MISMATCH".to_owned())
    }

    /// What follows from a change: subscriptions, warm listeners, withheld answers.
    fn settle(&mut self) {
        if self.warming.is_empty() && self.ghosts.is_empty() {
            self.out.extend(self.withheld.drain(..).map(Deed::Say));
        }
        if !self.initialized && self.warming.is_empty() {
            self.initialized = true;
            self.say(Purpose::all(TypeUrl::Listener), request("lds", &[], &[]));
        }
        for (short, kind) in [("rds", TypeUrl::Route), ("sds", TypeUrl::Secret)] {
            let users = self.listeners.values().chain(self.warming_listeners.values());
            let wanted: BTreeSet<Name> = users.flat_map(|held| needs(&held.resource, &kind)).collect();
            let asked = self.asked.get(&kind).cloned().unwrap_or_default();
            for name in asked.difference(&wanted) {
                self.let_go(short, &kind, name);
                self.routes.retain(|route, _| kind != TypeUrl::Route || route != name);
                self.hosts.retain(|host, _| kind != TypeUrl::Route || route_configuration_of(host) != Some(name));
                self.secrets.retain(|secret, _| kind != TypeUrl::Secret || secret != name);
            }
            for name in wanted.difference(&asked) {
                self.ask(short, &kind, name);
            }
        }
        let ready = |held: &Held| {
            let routed = needs(&held.resource, &TypeUrl::Route).iter().all(|name| self.has_route(name));
            routed && needs(&held.resource, &TypeUrl::Secret).iter().all(|name| self.secrets.contains_key(name))
        };
        let active: Vec<Name> =
            self.warming_listeners.iter().filter(|(_, h)| ready(h)).map(|(n, _)| Arc::clone(n)).collect();
        for name in &active {
            let held = self.warming_listeners.remove(name).expect("it was there");
            self.listeners.insert(Arc::clone(name), held);
        }
        if !active.is_empty() {
            self.settle();
        }
    }

    fn has_route(&self, name: &Name) -> bool {
        // a refusal ends the waiting too: the listener then answers 404
        self.answered.contains(name)
            || self.routes.contains_key(name)
                && (!self.knows_vhds() || !name.starts_with('v') || self.hosted.contains(name))
    }

    fn ask(&mut self, short: &str, kind: &TypeUrl, name: &Name) {
        if self.asked.entry(kind.clone()).or_default().insert(Arc::clone(name)) {
            let purpose = if self.way.aggregated { Purpose::all(kind.clone()) } else { Purpose::one(kind, name) };
            self.say(purpose, request(short, &[name], &[]));
        }
    }

    fn let_go(&mut self, short: &str, kind: &TypeUrl, name: &Name) {
        let asked = self.asked.entry(kind.clone()).or_default().remove(name);
        if !self.way.aggregated {
            self.end(&Purpose::one(kind, name));
            if *kind == TypeUrl::Route && name.starts_with('v') {
                // it asks for its hosts by itself
                self.end(&Purpose::all(TypeUrl::VirtualHost));
                self.hosts_asked = false;
                self.hosted.remove(name);
            }
        } else if asked {
            self.say(Purpose::all(kind.clone()), request(short, &[], &[name]));
        }
    }

    /// Whether it has something that it will not say it has when it comes again: a ghost, or part of a response that it refused.
    pub(super) fn conceals(&self) -> bool {
        let all = [&self.clusters, &self.warming, &self.listeners, &self.warming_listeners, &self.routes, &self.hosts];
        !self.ghosts.is_empty() || all.into_iter().flat_map(BTreeMap::values).any(|held| held.listed == Version(0))
    }

    /// Under each name of a kind the version that it was told last; none where it was refused and is stuck.
    pub(super) fn holds(&self, kind: &TypeUrl) -> BTreeMap<Name, Option<Version>> {
        let (active, warming) = match kind {
            TypeUrl::Cluster => (&self.clusters, &self.warming),
            _ => (&self.listeners, &self.warming_listeners),
        };
        let held = active.iter().chain(warming).map(|(name, held)| (Arc::clone(name), Some(held.resource.version)));
        let mut held: BTreeMap<_, _> = held.collect();
        if *kind == TypeUrl::Cluster {
            held.extend(self.ghosts.iter().map(|name| (Arc::clone(name), None)));
        }
        held
    }

    /// Whether its answer to this response is no refusal.
    pub(super) fn has_accepted(&self, response: &Response) -> bool {
        let nonce = response.nonce.to_string();
        let said = self.out.iter().filter_map(|deed| if let Deed::Say(request) = deed { Some(request) } else { None });
        said.chain(&self.withheld).any(|answer| answer.nonce == nonce && answer.error.is_none())
    }

    /// What it really has of a kind: name and version of what is in effect.
    pub(super) fn has(&self, short: &str) -> BTreeMap<String, u128> {
        let held = match kind(short) {
            TypeUrl::Cluster => &self.clusters,
            TypeUrl::Listener => &self.listeners,
            TypeUrl::Route => &self.routes,
            TypeUrl::VirtualHost => &self.hosts,
            TypeUrl::Endpoints => &self.sets,
            _ => &self.secrets,
        };
        held.iter().map(|(name, held)| (name.to_string(), held.resource.version.0)).collect()
    }

    /// Whether a cluster that was refused late counts as getting ready for ever.
    pub(super) fn is_ghost(&self, cluster: &str) -> bool {
        self.ghosts.contains(cluster)
    }

    /// What is not in effect yet, and what it keeps back.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let clusters = self.warming.keys().map(|name| format!("cluster {name} warms"));
        let ghosts = self.ghosts.iter().map(|name| format!("cluster {name} is a ghost"));
        let listeners = self.warming_listeners.keys().map(|name| format!("listener {name} warms"));
        let withheld = self.withheld.iter().map(|_| "a withheld answer".to_owned());
        clusters.chain(ghosts).chain(listeners).chain(withheld).collect()
    }

    /// Routes in effect that name a cluster that is not active.
    pub(super) fn broken_routes(&self) -> Vec<String> {
        let used: BTreeSet<Name> =
            self.listeners.values().flat_map(|held| needs(&held.resource, &TypeUrl::Route)).collect();
        let routes = self.routes.iter().filter(|(name, _)| used.contains(*name));
        let hosts =
            self.hosts.iter().filter(|(name, _)| route_configuration_of(name).is_some_and(|r| used.contains(r)));
        let mut broken = Vec::new();
        for (name, held) in routes.chain(hosts) {
            for cluster in needs(&held.resource, &TypeUrl::Cluster) {
                if !self.clusters.contains_key(&cluster) {
                    broken.push(format!("{name}@{} -> {cluster}", held.resource.version.0));
                }
            }
        }
        broken
    }
}
