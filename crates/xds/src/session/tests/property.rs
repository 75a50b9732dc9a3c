//! After any history the client has exactly what its fleet should have, and on the way never a route to a cluster that is not
//! ready. The client is the model of Envoy, in each variant of the protocol; publications, deliveries both ways, broken streams and time
//! are in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::envoy::Envoy;
use super::link::Link;
use super::rig::{WAYS, Way, changes, kind, show};
use crate::event::Node;
use crate::fleet::Fleet;
use crate::session::Session;
use crate::snapshot::{Item, Look};
use crate::streams::Streams;
use crate::wire::Variant;

/// What may happen.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The publisher does these things to its resources and publishes the difference.
    Publish(Vec<Edit>),
    /// The client reads some responses, each on this one of the streams that have something.
    ToClient(usize, usize),
    /// The server reads some requests in the same way.
    ToServer(usize, usize),
    /// The connection breaks.
    Break,
    /// One stream of several breaks.
    Cut(usize),
    /// Some time passes.
    Pass(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Edit {
    Cluster(u8, u8),
    NoCluster(u8),
    Endpoints(u8, u8),
    /// Which route configuration or host, its version, and the clusters that it names as bits.
    Route(u8, u8, u8),
    Listener(u8, u8, u8),
    NoListener(u8),
    Secret(u8, u8),
}

/// A refused listener is tried again for ever: this is when the story ends. Everything else is over in a minute.
const LONG_AFTER: Duration = Duration::from_secs(600);

const CLUSTERS: [&str; 4] = ["a", "b", "c", "plain"];
const ROUTES: [&str; 5] = ["r", "s", "v", "v/x", "v/y"];
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
            put(format!("cds {name}"), version.to_string());
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

/// The server's end of a connection with an Envoy.
fn begin(fleet: &mut Fleet, way: Way) -> Streams {
    let node = Arc::new(Node { user_agent: "envoy".into(), ..Node::default() });
    Streams::new(fleet, node, way.variant, way.aggregated)
}

/// The server, the client and what is between them.
pub(super) struct World {
    fleet: Fleet,
    streams: Streams,
    link: Link,
    envoy: Envoy,
    wanted: Wanted,
    now: Duration,
    trace: Vec<String>,
    /// Whether bad versions are about: then routes that were waited for too long may name clusters that do not exist.
    strict: bool,
}

impl World {
    pub(super) fn new(way: Way, strict: bool) -> Self {
        Self::of(Wanted::start(), way, strict)
    }

    fn of(wanted: Wanted, way: Way, strict: bool) -> Self {
        let mut fleet = Fleet::new("f".into());
        fleet.keep(true);
        let all: Vec<String> = wanted.resources().into_values().collect();
        fleet.publish(changes(&all.join(";")));
        let streams = begin(&mut fleet, way);
        let (now, trace) = (Duration::from_secs(1), Vec::new());
        let (link, envoy) = (Link::new(way), Envoy::of(way));
        let mut world = Self { fleet, streams, link, envoy, wanted, now, trace, strict };
        world.start();
        world
    }

    /// A client that has nothing.
    fn start(&mut self) {
        let way = self.link.way;
        (self.envoy, self.link) = (Envoy::of(way), Link::new(way));
        self.envoy.first_start();
        self.link.collect(&mut self.envoy);
    }

    fn session(&self) -> &Session {
        self.streams.session()
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Publish(edits) => self.publish(edits),
            Step::ToClient(count, which) => (0..*count).for_each(|_| self.deliver(*which)),
            Step::ToServer(count, which) => (0..*count).for_each(|_| self.hear(*which)),
            Step::Break => self.reconnect(),
            Step::Cut(which) => self.cut(*which),
            Step::Pass(millis) => {
                self.now += Duration::from_millis(*millis);
                self.advance();
            }
        }
        if self.strict {
            assert_eq!(self.envoy.broken_routes(), Vec::<String>::new(), "{}", self.tail());
        }
    }

    fn reconnect(&mut self) {
        self.trace.push("BREAK".into());
        let new = begin(&mut self.fleet, self.link.way);
        std::mem::replace(&mut self.streams, new).leave(&mut self.fleet);
        if self.envoy.has("cds").is_empty() && self.envoy.unfinished().is_empty() && self.envoy.has("lds").is_empty() {
            return self.start();
        }
        self.link.reconnect();
        self.envoy.reconnect();
        self.link.collect(&mut self.envoy);
    }

    /// A stream breaks and is opened again.
    fn cut(&mut self, which: usize) {
        let open = self.envoy.streams();
        if open.is_empty() {
            return self.reconnect();
        }
        let stream = open[which % open.len()];
        self.trace.push(format!("CUT {stream}"));
        let known = self.link.cut(stream);
        known.iter().for_each(|number| self.streams.close(&mut self.fleet, *number, self.now));
        if self.streams.any().is_none() {
            let new = begin(&mut self.fleet, self.link.way);
            std::mem::replace(&mut self.streams, new).leave(&mut self.fleet);
        }
        self.envoy.reopen(stream);
        self.link.collect(&mut self.envoy);
        self.advance();
    }

    fn publish(&mut self, edits: &[Edit]) {
        let mut wanted = self.wanted.clone();
        edits.iter().for_each(|edit| wanted.edit(edit));
        self.want(wanted);
    }

    fn want(&mut self, wanted: Wanted) {
        let before = std::mem::replace(&mut self.wanted, wanted).resources();
        let after = self.wanted.resources();
        let put = after.iter().filter(|(name, text)| before.get(*name) != Some(text)).map(|(_, text)| text.clone());
        let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("-{name}"));
        let text: Vec<String> = put.chain(gone).collect();
        self.trace.push(format!("PUBLISH {}", text.join("; ")));
        self.fleet.publish(changes(&text.join(";")));
        self.advance();
    }

    fn advance(&mut self) {
        self.streams.advance(&mut self.fleet, self.now, |_| {});
        let Self { link, streams, trace, .. } = self;
        link.sent(streams, |response| {
            trace.push(format!("  server on {}: {} #{}", response.stream, show(response), response.nonce));
        });
    }

    fn deliver(&mut self, which: usize) {
        let down = self.link.down();
        if !down.is_empty() {
            let response = self.link.deliver(down[which % down.len()], &mut self.envoy).expect("it was there");
            self.trace.push(format!("  client has {} #{}", show(&response), response.nonce));
        }
    }

    fn hear(&mut self, which: usize) {
        let up = self.link.up();
        if !up.is_empty() {
            let stream = up[which % up.len()];
            let Self { link, streams, fleet, .. } = self;
            let said = link.hear(stream, streams, fleet, self.now).expect("it was there");
            self.trace.push(format!("  client on {stream}: {said}"));
            self.advance();
        }
    }

    /// The end of the story so far.
    fn tail(&self) -> String {
        let story = self.trace[self.trace.len().saturating_sub(300)..].join("\n");
        let channels = self.session().channels.iter().map(|(kind, channel)| {
            let (dirty, waiting, blocked) = (&channel.dirty, channel.waiting, channel.blocked);
            format!(
                "\n{kind:?}: dirty {dirty:?}, {waiting} waiting, {blocked} blocked, flying: {}",
                channel.is_flying()
            )
        });
        format!("{story}{}\nunfinished: {:?}", channels.collect::<String>(), self.envoy.unfinished())
    }

    /// Everything goes: then no more is kept for the client than for one that never found anything.
    pub(super) fn clear(&mut self) {
        self.want(Wanted::default());
        self.quiet(self.now + LONG_AFTER * 4);
        let mut new = Self::of(Wanted::default(), self.link.way, self.strict);
        new.quiet(LONG_AFTER);
        let (kept, least) = (self.session().kept(), new.session().kept());
        let more: Vec<_> = kept.iter().zip(&least).filter(|(kept, least)| kept.1 > least.1).collect();
        assert!(more.is_empty(), "{more:?}\n{}", self.tail());
    }

    /// Lets everything happen that is on its way, and that is due before this time.
    fn quiet(&mut self, end: Duration) {
        for round in 0.. {
            assert!(round < 10_000, "never quiet:\n{}", self.tail());
            if !self.link.down().is_empty() {
                self.step(&Step::ToClient(1, round));
            } else if !self.link.up().is_empty() {
                self.step(&Step::ToServer(1, round));
            } else if let Some(at) = self.session().next_deadline(&self.fleet, self.now).filter(|at| *at < end) {
                assert!(at > self.now, "a deadline that has passed:\n{}", self.tail());
                self.trace.push(format!("AT {at:?}"));
                self.now = at;
                self.advance();
            } else {
                break;
            }
        }
    }

    /// Lets everything happen that is on its way; then nothing may be left to do.
    pub(super) fn finish(&mut self) {
        self.quiet(LONG_AFTER);
        let trace = self.tail();
        // a refused cluster of which no good bytes are known stays a ghost rather than being taken away from those who use it
        let snapshot = self.fleet.snapshot();
        let is_lost = |name: &str| {
            snapshot.current(&kind("cds"), name).is_some() && snapshot.target(&kind("cds"), name).is_none()
        };
        let refused = CLUSTERS.into_iter().any(is_lost);
        if !refused {
            assert_eq!(self.envoy.unfinished(), Vec::<String>::new(), "{trace}");
        }
        // with bad resources about, a route may have waited in vain for a cluster that the client refuses
        let refused = |route: &String| {
            let cluster = route.rsplit(' ').next().unwrap_or_default();
            self.fleet.snapshot().target(&kind("cds"), cluster).is_none()
        };
        let broken: Vec<String> =
            self.envoy.broken_routes().into_iter().filter(|route| self.strict || !refused(route)).collect();
        assert_eq!(broken, Vec::<String>::new(), "{trace}");
        self.compare("cds", |_| true);
        // a listener is held back while the fleet has no good version of its routes
        let missing = self.fleet.snapshot().missing();
        let listeners: Vec<_> = self.fleet.snapshot().targets(&kind("lds")).cloned().collect();
        self.compare("lds", |name| {
            let listener = listeners.iter().find(|item| &**item.name() == name);
            // and one that is refused may be on trial again just now
            let tried = |version: u128| (80..100).contains(&version);
            listener.is_none_or(|item| {
                !tried(item.version().0) && !item.resource.needs().any(|need| missing.contains(need))
            })
        });
        let routes = self.envoy.has("rds");
        self.compare("rds", |name| routes.contains_key(name));
        let good = |parent: &str| self.fleet.snapshot().target(&kind("rds"), parent).is_some();
        self.compare("vhds", |name| {
            let whole = self.link.way.variant == Variant::Sotw;
            !whole && name.split('/').next().is_some_and(|parent| routes.contains_key(parent) && good(parent))
        });
        let clusters = self.envoy.has("cds");
        self.compare("eds", |name| clusters.contains_key(name));
        let secrets = self.envoy.has("sds");
        self.compare("sds", |name| secrets.contains_key(name));
    }

    fn compare(&self, short: &str, concerns: impl Fn(&str) -> bool) {
        let kind = kind(short);
        let see = self.fleet.snapshot().view(self.link.way.variant);
        let targets = self.fleet.snapshot().targets(&kind).filter(|item| concerns(item.name()));
        let targets = targets.filter_map(|item| see.target(&kind, item.name()));
        let expect: BTreeMap<String, u128> = targets.map(|item| (item.name().to_string(), item.version().0)).collect();
        let mut has = self.envoy.has(short);
        // of a refused resource it may keep a good version of an earlier stream, which the fleet never saw accepted
        let refused = |item: &Arc<Item>| self.fleet.snapshot().is_refused(&item.key());
        let kept = |name: &String| see.current(&kind, name).is_some_and(refused);
        has.retain(|name, _| expect.contains_key(name) || (concerns(name) && !kept(name)));
        assert_eq!(has, expect, "{short}\n{}", self.tail());
    }
}

fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(WAYS.to_vec())
}

fn version(bad: bool) -> BoxedStrategy<u8> {
    if bad {
        prop_oneof![6 => 1u8..4, 1 => Just(90u8), 1 => Just(95u8), 1 => Just(80u8)].boxed()
    } else {
        (1u8..4).boxed()
    }
}

fn edit(bad: bool) -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0u8..4, version(bad)).prop_map(|(name, version)| Edit::Cluster(name, version)),
        2 => (0u8..4).prop_map(Edit::NoCluster),
        2 => (0u8..4, 1u8..4).prop_map(|(name, version)| Edit::Endpoints(name, version)),
        6 => (0u8..5, version(bad), 0u8..16).prop_map(|(name, version, bits)| Edit::Route(name, version, bits)),
        3 => (0u8..2, version(bad), 0u8..8).prop_map(|(name, version, parts)| Edit::Listener(name, version, parts)),
        1 => (0u8..2).prop_map(Edit::NoListener),
        1 => (0u8..2, 1u8..4).prop_map(|(name, version)| Edit::Secret(name, version)),
    ]
}

fn step(bad: bool) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(edit(bad), 1..4).prop_map(Step::Publish),
        8 => (1usize..5, 0usize..16).prop_map(|(count, which)| Step::ToClient(count, which)),
        8 => (1usize..5, 0usize..16).prop_map(|(count, which)| Step::ToServer(count, which)),
        1 => Just(Step::Break),
        1 => (0usize..16).prop_map(Step::Cut),
        1 => (1u64..500).prop_map(Step::Pass),
    ]
}

/// The same histories each time; `HISTORIES=100000` tries as many others.
#[expect(clippy::disallowed_methods, reason = "how many histories is the business of whoever runs this")]
fn histories() -> ProptestConfig {
    let more = std::env::var("HISTORIES").ok().and_then(|number| number.parse().ok());
    let rng_seed = if more.is_some() { RngSeed::Random } else { RngSeed::Fixed(16) };
    ProptestConfig { cases: more.unwrap_or(600), failure_persistence: None, rng_seed, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn any_history_of_good_resources_ends_with_exactly_them_and_breaks_no_route(
        way in way(), steps in prop::collection::vec(step(false), 1..60),
    ) {
        let mut world = World::new(way, true);
        steps.iter().for_each(|step| world.step(step));
        world.finish();
        world.clear();
    }

    #[test]
    fn any_history_with_bad_resources_ends_with_the_last_accepted_ones(
        way in way(), steps in prop::collection::vec(step(true), 1..60),
    ) {
        let mut world = World::new(way, false);
        steps.iter().for_each(|step| world.step(step));
        world.finish();
        world.clear();
    }
}
