//! The server, its clients and what is between them, as what may happen to them: publications, deliveries both ways, broken streams, a
//! server that begins again from what was saved, and time, in any order.
//!
//! The clients are models of Envoy ([`super::envoy`]), each in one variant of the protocol. One may be picky: it refuses versions that the
//! others take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::GRACE;
use super::envoy::{Envoy, is_disliked};
use super::link::Link;
use super::rig::{Way, changes, kind, short, show};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::resource::Need;
use crate::saved::SavedFleet;
use crate::snapshot::{Item, Key, Look};
use crate::streams::Streams;
use crate::wire::{StreamId, Variant};

/// What may happen. Who reads, is read or breaks is said by place among those that can.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The publisher does these things to its resources and publishes the difference.
    Publish(Vec<Edit>),
    /// Clients read some responses, each on this one of the streams that have something.
    ToClient(usize, usize),
    /// The server reads some requests in the same way.
    ToServer(usize, usize),
    /// The connection of a client breaks.
    Break(usize),
    /// One stream of several breaks.
    Cut(usize),
    /// Some time passes in which nothing arrives.
    Pass(u64),
    /// Everything arrives for some time.
    Calm(u64),
    /// On each client the clusters that take their time are ready.
    Warm,
    /// What is to be saved is.
    Save,
    /// The server begins again with what was saved; all is if it ended in an orderly way.
    Restart(bool),
}

#[derive(Clone, Debug)]
pub(super) enum Edit {
    Cluster(u8, u8),
    NoCluster(u8),
    Endpoints(u8, u8),
    /// Which route configuration or host, its version, and the clusters that it names as bits.
    Route(u8, u8, u8),
    NoHost(u8),
    Listener(u8, u8, u8),
    NoListener(u8),
    Secret(u8, u8),
}

/// A refused listener is tried again for ever: this is when the story ends. Everything else is over in a minute.
const LONG_AFTER: Duration = Duration::from_secs(600);

/// Who does not read or is not read for as long as this may be told of routes before their clusters are ready: nobody else waits for it.
const LATE: u64 = 500;

/// The last takes its time to warm.
const CLUSTERS: [&str; 5] = ["a", "b", "c", "plain", "slow"];
const ROUTES: [&str; 5] = ["r", "s", "v", "v/x", "v/y"];
const HOSTS: [&str; 2] = ["v/x", "v/y"];
const LISTENERS: [&str; 2] = ["l", "m"];
const SECRETS: [&str; 2] = ["k", "t"];

/// What the publisher wants: complete and consistent at each publication.
#[derive(Clone, Default)]
struct Wanted {
    clusters: BTreeMap<&'static str, (u8, u8)>,
    routes: BTreeMap<&'static str, (u8, u8)>,
    listeners: BTreeMap<&'static str, (u8, u8)>,
    secrets: BTreeMap<&'static str, u8>,
}

impl Wanted {
    fn start() -> Self {
        let mut wanted = Self { ..Self::default() };
        wanted.clusters.insert("a", (1, 1));
        for route in ROUTES {
            wanted.routes.insert(route, (1, 1));
        }
        wanted.listeners.insert("l", (1, 0));
        wanted.secrets = [("k", 1), ("t", 1)].into();
        wanted
    }

    fn edit(&mut self, edit: &Edit) {
        let pick = |from: &[&'static str], index: u8| from[usize::from(index) % from.len()];
        match *edit {
            Edit::Cluster(name, version) => {
                self.clusters.entry(pick(&CLUSTERS, name)).or_insert((1, 1)).0 = version;
            }
            Edit::NoCluster(name) => {
                self.clusters.remove(pick(&CLUSTERS, name));
            }
            Edit::Endpoints(name, version) => {
                if let Some(cluster) = self.clusters.get_mut(pick(&CLUSTERS, name)) {
                    cluster.1 = version;
                }
            }
            Edit::Route(name, version, bits) => {
                self.routes.insert(pick(&ROUTES, name), (version, bits));
            }
            Edit::NoHost(name) => {
                self.routes.remove(pick(&HOSTS, name));
            }
            Edit::Listener(name, version, parts) => {
                self.listeners.insert(pick(&LISTENERS, name), (version, parts));
            }
            Edit::NoListener(name) => {
                self.listeners.remove(pick(&LISTENERS, name));
            }
            Edit::Secret(name, version) => {
                self.secrets.insert(pick(&SECRETS, name), version);
            }
        }
    }

    /// All resources in the short form, by kind and name. A version is that of the content: it says what the resource needs too.
    fn resources(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut put = |name: String, text: String| all.insert(name.clone(), format!("{name}@{text}"));
        for (name, (version, endpoints)) in &self.clusters {
            let apart = if name.starts_with("slow") { " !apart" } else { "" };
            put(format!("cds {name}"), format!("{version}{apart}"));
            if !name.starts_with("plain") {
                put(format!("eds {name}"), endpoints.to_string());
            }
        }
        for (name, (version, bits)) in &self.routes {
            let mut named: BTreeSet<&str> = BTreeSet::new();
            for (bit, cluster) in CLUSTERS.iter().enumerate() {
                if bits & (1 << bit) != 0 && self.clusters.contains_key(cluster) {
                    named.insert(cluster);
                }
            }
            let mask: u32 = CLUSTERS.iter().enumerate().map(|(bit, c)| u32::from(named.contains(c)) << bit).sum();
            let version = 1000 * (mask + 1) + 100 + u32::from(*version);
            let version = if version % 100 >= 80 { version % 100 } else { version };
            let short = if name.contains('/') { "vhds" } else { "rds" };
            put(format!("{short} {name}"), format!("{version} -> {}", named.into_iter().collect::<Vec<_>>().join(",")));
        }
        for (name, (version, parts)) in &self.listeners {
            let route = ["r", "s", "v"][usize::from(parts % 3)];
            let secret = if parts & 4 != 0 { ", sds:k" } else { "" };
            let version =
                if *version >= 80 { u32::from(*version) } else { 100 * u32::from(parts % 8) + u32::from(*version) };
            put(format!("lds {name}"), format!("{version} -> {route}{secret}"));
        }
        for (name, version) in &self.secrets {
            put(format!("sds {name}"), version.to_string());
        }
        all
    }
}

/// A client and what is between it and the server.
struct Peer {
    node: Arc<Node>,
    /// The server's end; none before it hears of the client.
    streams: Option<Streams>,
    link: Link,
    envoy: Envoy,
    /// It was late since it last had everything.
    late: bool,
    /// Milliseconds that passed while it was starting and had not said or done everything.
    waited: u64,
}

impl Peer {
    fn new(number: usize, way: Way, picky: bool) -> Self {
        let node = Arc::new(Node { id: format!("n{number}").into(), user_agent: "envoy".into(), ..Node::default() });
        Self { node, streams: None, link: Link::new(way, picky), envoy: Envoy::of(way, picky), late: false, waited: 0 }
    }

    /// A client that has nothing.
    fn start(&mut self) {
        let Link { way, picky, .. } = self.link;
        (self.envoy, self.link) = (Envoy::of(way, picky), Link::new(way, picky));
        self.envoy.first_start();
        self.link.collect(&mut self.envoy);
    }

    /// The connection has broken, and the client comes again.
    fn come_again(&mut self) {
        let envoy = &mut self.envoy;
        if envoy.has("cds").is_empty() && envoy.unfinished().is_empty() && envoy.has("lds").is_empty() {
            return self.start();
        }
        self.link.reconnect();
        envoy.reconnect();
        self.link.collect(envoy);
    }

    /// The server sees that the client is gone.
    fn leave(&mut self, fleet: &mut Fleet) {
        self.streams.take().into_iter().for_each(|streams| streams.leave(fleet));
    }

    /// Its channels, for people.
    fn shown(&self) -> String {
        let channels = self.streams.iter().flat_map(|streams| &streams.session().channels);
        let channels = channels.map(|(kind, channel)| {
            let (dirty, waiting, blocked) = (&channel.dirty, channel.waiting, channel.blocked);
            let flying = channel.is_flying();
            format!("\n{kind:?}: dirty {dirty:?}, {waiting} waiting, {blocked} blocked, flying: {flying}")
        });
        let unfinished = self.envoy.unfinished();
        format!("\n{}: {:?}{}\nunfinished: {unfinished:?}", self.node.id, self.link.way, channels.collect::<String>())
    }
}

/// See the module.
pub(super) struct World {
    fleet: Fleet,
    peers: Vec<Peer>,
    wanted: Wanted,
    /// The publisher has told the server what it wants.
    published: bool,
    file: Vec<u8>,
    now: Duration,
    trace: Vec<String>,
    /// Whether no bad versions are about: else routes that were waited for too long may name clusters that do not exist.
    strict: bool,
}

impl World {
    /// With clients of these variants, some of them picky.
    pub(super) fn new(ways: &[(Way, bool)], strict: bool) -> Self {
        Self::of(Wanted::start(), ways, strict)
    }

    fn of(wanted: Wanted, ways: &[(Way, bool)], strict: bool) -> Self {
        let mut fleet = Fleet::new("f".into());
        fleet.keep(true);
        let all: Vec<String> = wanted.resources().into_values().collect();
        fleet.publish(changes(&all.join(";")));
        let (now, file, trace) = (Duration::from_secs(1), Vec::new(), Vec::new());
        let mut peers: Vec<Peer> =
            ways.iter().enumerate().map(|(number, (way, picky))| Peer::new(number, *way, *picky)).collect();
        peers.iter_mut().for_each(Peer::start);
        Self { fleet, peers, wanted, published: true, file, now, trace, strict }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Publish(edits) => {
                let mut wanted = self.wanted.clone();
                edits.iter().for_each(|edit| wanted.edit(edit));
                self.want(wanted);
            }
            Step::ToClient(count, which) => (0..*count).for_each(|_| self.deliver(*which)),
            Step::ToServer(count, which) => (0..*count).for_each(|_| self.hear(*which)),
            Step::Break(which) => self.reconnect(*which),
            Step::Cut(which) => self.cut(*which),
            Step::Pass(millis) => self.pass(*millis),
            Step::Calm(millis) => {
                let end = self.now + Duration::from_millis(*millis);
                self.quiet(end);
                self.now = end.max(self.now);
                self.advance();
            }
            Step::Warm => _ = self.warm(),
            Step::Save => self.save(),
            Step::Restart(orderly) => self.restart(*orderly),
        }
        self.check_routes();
    }

    /// Nobody is told of routes to clusters that are not ready, unless who tells nothing for long.
    fn check_routes(&self) {
        for peer in self.peers.iter().filter(|peer| self.strict && !peer.late) {
            assert_eq!(peer.envoy.broken_routes(), Vec::<String>::new(), "{}: {}", peer.node.id, self.tail());
        }
    }

    fn reconnect(&mut self, which: usize) {
        let at = which % self.peers.len();
        let Self { peers, fleet, trace, .. } = self;
        trace.push(format!("BREAK n{at}"));
        peers[at].leave(fleet);
        peers[at].come_again();
        self.advance();
    }

    /// A stream breaks and is opened again.
    fn cut(&mut self, which: usize) {
        let (at, which) = (which % self.peers.len(), which / self.peers.len());
        let Self { peers, fleet, trace, now, .. } = self;
        let peer = &mut peers[at];
        let open = peer.envoy.streams();
        if open.is_empty() {
            return self.reconnect(at);
        }
        let stream = open[which % open.len()];
        trace.push(format!("CUT n{at} {stream}"));
        if let Some((number, streams)) = peer.link.cut(stream).zip(peer.streams.as_mut()) {
            streams.close(fleet, number, *now);
            if streams.any().is_none() {
                peer.leave(fleet);
            }
        }
        peer.envoy.reopen(stream);
        peer.link.collect(&mut peer.envoy);
        self.advance();
    }

    fn pass(&mut self, millis: u64) {
        for peer in &mut self.peers {
            if !peer.link.is_busy() && !peer.envoy.has_slow() {
                peer.waited = 0;
                continue;
            }
            // the listeners of one that starts do not wait longer than this in all
            let starts = peer.streams.iter().any(|streams| streams.session().starts());
            peer.waited = if starts { peer.waited + millis } else { 0 };
            peer.late |= millis > LATE || Duration::from_millis(peer.waited) >= GRACE;
        }
        self.trace.push(format!("PASS {millis}"));
        self.now += Duration::from_millis(millis);
        self.advance();
    }

    /// Whether there were clusters that took their time.
    fn warm(&mut self) -> bool {
        let mut some = false;
        for peer in &mut self.peers {
            if peer.envoy.warm_slow() {
                self.trace.push(format!("WARM {}", peer.node.id));
                peer.link.collect(&mut peer.envoy);
                some = true;
            }
        }
        some
    }

    fn save(&mut self) {
        let Some(unsaved) = self.fleet.take_unsaved(&"f".into()) else { return };
        if unsaved.is_whole() {
            self.file.clear();
        }
        unsaved.parts().for_each(|part| self.file.extend(part));
    }

    fn restart(&mut self, orderly: bool) {
        self.trace.push(format!("RESTART orderly: {orderly}"));
        if orderly {
            self.peers.iter_mut().for_each(|peer| peer.leave(&mut self.fleet));
            self.save();
        }
        // of what went just before the server ended a SotW client may have routes still, and it loses it with the first response
        let lost = self.fleet.has_unsaved();
        let loses = |peer: &Peer| (lost || peer.link.is_busy()) && peer.link.way.variant == Variant::Sotw;
        self.peers.iter_mut().for_each(|peer| peer.late |= loses(peer));
        self.fleet = Fleet::new("f".into());
        self.fleet.keep(true);
        if !self.file.is_empty() {
            self.fleet.restore(SavedFleet::read(&Bytes::from(self.file.clone())).expect("what was written"));
        }
        self.published = false;
        for peer in &mut self.peers {
            peer.streams = None;
            // what was not saved, or not answered yet, and is not said nobody knows
            if (lost || peer.link.is_busy()) && !orderly && peer.envoy.conceals() {
                peer.start();
            } else {
                peer.come_again();
            }
        }
    }

    fn want(&mut self, wanted: Wanted) {
        let before = std::mem::replace(&mut self.wanted, wanted).resources();
        let after = self.wanted.resources();
        // a server that has begun again is told everything
        let before = if std::mem::replace(&mut self.published, true) { before } else { BTreeMap::new() };
        let put = after.iter().filter(|(name, text)| before.get(*name) != Some(text)).map(|(_, text)| text.clone());
        let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("-{name}"));
        let text: Vec<String> = put.chain(gone).collect();
        self.trace.push(format!("PUBLISH {}", text.join("; ")));
        self.fleet.publish(changes(&text.join(";")));
        self.advance();
    }

    fn advance(&mut self) {
        // what one is told may concern another
        loop {
            let seq = self.fleet.seq();
            for (at, peer) in self.peers.iter_mut().enumerate() {
                let Some(streams) = &mut peer.streams else { continue };
                streams.advance(&mut self.fleet, self.now, |_| {});
                peer.link.sent(streams, |response| {
                    let (stream, nonce) = (response.stream, response.nonce);
                    self.trace.push(format!("  server to n{at} on {stream}: {} #{nonce}", show(response)));
                });
            }
            if self.fleet.seq() == seq {
                break;
            }
        }
    }

    /// A stream by its place among these of all clients.
    fn pick(&self, which: usize, of: impl Fn(&Link) -> Vec<StreamId>) -> Option<(usize, StreamId)> {
        let each = |(at, peer): (usize, &Peer)| of(&peer.link).into_iter().map(move |stream| (at, stream)).collect();
        let all: Vec<(usize, StreamId)> =
            self.peers.iter().enumerate().flat_map(|each_of| -> Vec<_> { each(each_of) }).collect();
        all.get(which.checked_rem(all.len())?).copied()
    }

    fn deliver(&mut self, which: usize) {
        let Some((at, stream)) = self.pick(which, Link::down) else { return };
        let Peer { link, envoy, .. } = &mut self.peers[at];
        let response = link.deliver(stream, envoy).expect("it was there");
        self.trace.push(format!("  n{at} has {} #{}", show(&response), response.nonce));
        self.check_routes();
    }

    fn hear(&mut self, which: usize) {
        let Some((at, stream)) = self.pick(which, Link::up) else { return };
        let Self { peers, fleet, trace, now, .. } = self;
        let Peer { node, streams, link, .. } = &mut peers[at];
        let way = link.way;
        let streams = streams.get_or_insert_with(|| Streams::new(fleet, Arc::clone(node), way.variant, way.aggregated));
        let said = link.hear(stream, streams, fleet, *now).expect("it was there");
        trace.push(format!("  n{at} on {stream}: {said}"));
        if streams.any().is_none() {
            peers[at].leave(fleet);
        }
        self.advance();
    }

    /// The end of the story so far.
    fn tail(&self) -> String {
        let story = self.trace[self.trace.len().saturating_sub(300)..].join("\n");
        story + &self.peers.iter().map(Peer::shown).collect::<String>()
    }

    /// Everything goes: then no more is kept for a client than for one that never found anything.
    pub(super) fn clear(&mut self) {
        self.want(Wanted::default());
        self.quiet(self.now + LONG_AFTER * 4);
        let ways: Vec<(Way, bool)> = self.peers.iter().map(|peer| (peer.link.way, peer.link.picky)).collect();
        let mut new = Self::of(Wanted::default(), &ways, self.strict);
        new.quiet(LONG_AFTER);
        for (peer, new) in self.peers.iter().zip(&new.peers) {
            let kept = |peer: &Peer| peer.streams.iter().flat_map(|streams| streams.session().kept()).collect();
            let (kept, least): (Vec<_>, Vec<_>) = (kept(peer), kept(new));
            let more: Vec<_> = kept.iter().zip(&least).filter(|(kept, least)| kept.1 > least.1).collect();
            assert!(more.is_empty(), "{}: {more:?}\n{}", peer.node.id, self.tail());
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        let streams = self.peers.iter().filter_map(|peer| peer.streams.as_ref());
        streams.filter_map(|streams| streams.session().next_deadline(&self.fleet, self.now)).min()
    }

    /// Lets everything happen that is on its way, and that is due before this time.
    fn quiet(&mut self, end: Duration) {
        for round in 0.. {
            assert!(round < 20_000, "never quiet:\n{}", self.tail());
            if self.pick(0, Link::down).is_some() {
                self.deliver(round);
            } else if self.pick(0, Link::up).is_some() {
                self.hear(round);
            } else if self.warm() {
                // and what follows from it
            } else if let Some(at) = self.next_deadline().filter(|at| *at < end) {
                assert!(at > self.now, "a deadline that has passed:\n{}", self.tail());
                self.trace.push(format!("AT {at:?}"));
                self.now = at;
                self.advance();
            } else {
                break;
            }
        }
        for peer in &mut self.peers {
            peer.late &= !self.published || !peer.envoy.broken_routes().is_empty();
        }
    }

    /// Lets everything happen that is on its way; then nothing may be left to do.
    pub(super) fn finish(&mut self) {
        if !self.published {
            self.want(self.wanted.clone());
        }
        self.quiet(self.now + LONG_AFTER);
        self.peers.iter().for_each(|peer| self.check(peer));
    }

    /// Whether this client refuses what the others may take under this name.
    fn dislikes(&self, peer: &Peer, short: &str, name: &str) -> bool {
        let see = self.fleet.snapshot().view(peer.link.way.variant);
        let items = [see.current(&kind(short), name), see.target(&kind(short), name)];
        peer.link.picky && items.into_iter().flatten().any(|item| is_disliked(item))
    }

    fn check(&self, peer: &Peer) {
        let (trace, envoy, snapshot) = (self.tail(), &peer.envoy, self.fleet.snapshot());
        // a refused cluster of which no good bytes are known stays a ghost rather than being taken away from those who use it
        let is_lost = |name: &str| {
            let cluster = kind("cds");
            let unknown = snapshot.current(&cluster, name).is_some() && snapshot.target(&cluster, name).is_none();
            unknown || self.dislikes(peer, "cds", name)
        };
        // nothing tells what asks for no endpoints from a ghost while another may be getting ready
        let is_hidden = envoy.is_ghost("plain") && snapshot.current(&kind("cds"), "slow").is_some();
        let is_lost = |name: &str| is_lost(name) || is_hidden && name == "plain";
        if !CLUSTERS.into_iter().any(is_lost) {
            assert_eq!(envoy.unfinished(), Vec::<String>::new(), "{}: {trace}", peer.node.id);
        }
        // with bad resources about, a route may have waited in vain for a cluster that the client refuses
        let refused =
            |route: &String| is_lost(route.rsplit(' ').next().unwrap_or_default()) || self.is_old(peer, route);
        let broken: Vec<String> =
            envoy.broken_routes().into_iter().filter(|route| self.strict || !refused(route)).collect();
        assert_eq!(broken, Vec::<String>::new(), "{}: {trace}", peer.node.id);
        // who keeps a route that others have no more keeps the clusters that it may name
        let stays_behind = ["lds", "rds", "vhds"]
            .into_iter()
            .any(|short| snapshot.targets(&kind(short)).any(|item| self.dislikes(peer, short, item.name())));
        let left = |name: &str| stays_behind && snapshot.current(&kind("cds"), name).is_none();
        self.compare(peer, "cds", |name| !(left(name) || is_hidden && name == "plain"));
        // a listener is held back while the fleet has no good version of its routes
        let missing = snapshot.missing();
        let listeners: Vec<_> = snapshot.targets(&kind("lds")).cloned().collect();
        // for what was refused, which was told
        let needs = listeners.iter().flat_map(|item| item.resource.needs()).filter(|need| missing.contains(need));
        needs.for_each(|need| assert!(snapshot.is_refused(&Key::Put(need.clone())), "{need:?} is missing: {trace}"));
        self.compare(peer, "lds", |name| {
            let listener = listeners.iter().find(|item| &**item.name() == name);
            // and one that is refused may be on trial again just now
            let tried = |version: u128| (80..100).contains(&version);
            // nor is one kept whose only routes this client refuses
            let disliked = |need: &Need| self.dislikes(peer, short(&need.type_url), &need.name);
            listener.is_none_or(|item| {
                let mut needs = item.resource.needs();
                !tried(item.version().0) && !needs.any(|need| missing.contains(need) || disliked(need))
            })
        });
        let routes = envoy.has("rds");
        self.compare(peer, "rds", |name| routes.contains_key(name));
        let good =
            |parent: &str| snapshot.target(&kind("rds"), parent).is_some() && !self.dislikes(peer, "rds", parent);
        self.compare(peer, "vhds", |name| {
            let whole = peer.link.way.variant == Variant::Sotw;
            !whole && name.split('/').next().is_some_and(|parent| routes.contains_key(parent) && good(parent))
        });
        let clusters = envoy.has("cds");
        // of a cluster that stays for what may still name it the endpoints may not have been saved: then it keeps those that it has
        let unsaved = |name: &str| {
            snapshot.target(&kind("cds"), name).is_some() && snapshot.current(&kind("eds"), name).is_none()
        };
        self.compare(peer, "eds", |name| clusters.contains_key(name) && !unsaved(name) && !left(name));
        let secrets = envoy.has("sds");
        self.compare(peer, "sds", |name| secrets.contains_key(name));
    }

    /// Whether this route is of an earlier life of the server, which knows of no good version of it.
    fn is_old(&self, peer: &Peer, route: &str) -> bool {
        let name = route.split('@').next().unwrap_or_default();
        let kind = kind(if name.contains('/') { "vhds" } else { "rds" });
        let current = self.fleet.snapshot().view(peer.link.way.variant).current(&kind, name);
        current.is_some_and(|item| self.fleet.snapshot().is_refused(&item.key()))
    }

    fn compare(&self, peer: &Peer, short: &str, concerns: impl Fn(&str) -> bool) {
        let kind = kind(short);
        let see = self.fleet.snapshot().view(peer.link.way.variant);
        let concerns = |name: &str| concerns(name) && !self.dislikes(peer, short, name);
        let targets = self.fleet.snapshot().targets(&kind).filter(|item| concerns(item.name()));
        let targets = targets.filter_map(|item| see.target(&kind, item.name()));
        let expect: BTreeMap<String, u128> = targets.map(|item| (item.name().to_string(), item.version().0)).collect();
        let mut has = peer.envoy.has(short);
        // of a refused resource it may keep a good version of an earlier stream, which the fleet never saw accepted
        let refused = |item: &Arc<Item>| self.fleet.snapshot().is_refused(&item.key());
        let kept = |name: &String| see.current(&kind, name).is_some_and(refused);
        has.retain(|name, _| expect.contains_key(name) || (concerns(name) && !kept(name)));
        assert_eq!(has, expect, "{}: {short}\n{}", peer.node.id, self.tail());
        // What a client has of what is published is what is saved. (Next to what is refused it may have what it never acknowledges.)
        for (name, version) in expect.iter().filter(|_| self.strict) {
            let Some(entry) = self.fleet.snapshot().entry(&kind, name) else { continue };
            let is_published = entry.current().version().0 == *version && !refused(entry.current());
            let accepted = entry.accepted().map(|item| item.version().0);
            assert!(
                !is_published || accepted == Some(*version),
                "{}: {short} {name} is not saved\n{}",
                peer.node.id,
                self.tail()
            );
        }
    }
}
