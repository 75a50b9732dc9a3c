//! Our client against our server over a network that delays, cuts, halves and heals: afterwards the client holds exactly what the
//! fleet should have, and nothing has travelled twice.
//!
//! Our client speaks the aggregated protocols only. One that has a stream for each kind is several of it here, one for each kind, whose
//! streams share a connection while it holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::{Action, Client, ClientNode, Config, Event, Frames, LinkId, Offer, Presence, Saved, Variant, frame};
use super::server::{Connection, Server, body, change};
use crate::empty::stand_in;
use crate::resource::{Need, TypeUrl, Version};
use crate::snapshot::{Key, Look};
use crate::wire;

/// Kinds, whether the simulation asks for all of them, and their names.
const KINDS: [(TypeUrl, &[&str]); 5] = [
    (TypeUrl::Cluster, &["a", "b", "c"]),
    (TypeUrl::Endpoints, &["a", "b", "c"]),
    (TypeUrl::Listener, &["l", "m"]),
    (TypeUrl::Route, &["r", "s"]),
    (TypeUrl::Runtime, &["x", "y", "xdstp://authority/z", "xdstp://authority/w"]),
];

/// A collection that some of them are in.
const COLLECTION: &str = "xdstp://authority/*";

/// Whether a name is asked for.
fn covers(interest: &BTreeSet<&str>, name: &str) -> bool {
    let collected = name.starts_with("xdstp:") && interest.contains(COLLECTION);
    interest.contains("*") || interest.contains(name) || collected
}

/// What is due later than this after the turmoil does not count: refused listeners are tried again for ever.
const LONG_AFTER: Duration = Duration::from_secs(2_000);

/// When only that is left, and what was kept for connections that drain, time makes leaps: a timer may be late.
const SOON_AFTER: Duration = Duration::from_secs(60);
const LEAP: Duration = Duration::from_secs(200);

/// From this version on the client refuses.
const BAD: u32 = 90;

/// Streams in one life of the client are fewer, and those of each kind fewer than the other.
const LIFE: u64 = 1_000_000;
const OF_ONE: u64 = 100_000;

/// Which of the clients a stream belongs to, and its name as that one gave it.
fn local(link: LinkId) -> (usize, LinkId) {
    ((link.0 % LIFE / OF_ONE) as usize, LinkId(link.0 % OF_ONE))
}

/// One of the four variants of the protocol.
#[derive(Clone, Copy, Debug)]
struct Way {
    variant: Variant,
    aggregated: bool,
}

/// A stream as the network sees it.
struct Wire {
    server: usize,
    connection: Connection,
    /// What it is for; none: for all kinds.
    kind: Option<TypeUrl>,
    /// Each end believes that it is open.
    client: bool,
    established: bool,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    frames: Frames,
}

struct World {
    rng: fastrand::Rng,
    now: Duration,
    way: Way,
    /// One, or one for each kind.
    clients: Vec<Client>,
    /// To each server: the latest.
    connections: Vec<Connection>,
    /// How often the client's process has begun.
    life: u64,
    servers: Vec<Server>,
    /// Whether a server can be reached.
    reachable: Vec<bool>,
    wires: BTreeMap<LinkId, Wire>,
    wanted: BTreeMap<(TypeUrl, &'static str), u32>,
    interest: BTreeMap<TypeUrl, BTreeSet<&'static str>>,
    /// What the client was told to be in force.
    told: BTreeMap<(TypeUrl, Arc<str>), Bytes>,
    bad: bool,
    trace: String,
}

fn judge(offer: &Offer<'_>) -> Result<(), String> {
    let text = std::str::from_utf8(offer.body).map_err(|error| error.to_string())?;
    // a stand-in has no version
    let version: u32 = text.rsplit_once('@').and_then(|(_, version)| version.parse().ok()).unwrap_or(0);
    if version < BAD { Ok(()) } else { Err("it is bad".into()) }
}

impl World {
    fn new(seed: u64, way: Way) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let count = rng.usize(1..=2);
        let names = ["first", "second"].into_iter().take(count).map(Arc::from).collect();
        let mut config = Config::new(ClientNode { id: "agent".into(), ..ClientNode::default() }, names, seed);
        config.shared_versions = rng.bool();
        config.variant = way.variant;
        let spoken = match way.variant {
            Variant::Delta => wire::Variant::Delta,
            Variant::Sotw => wire::Variant::Sotw,
        };
        let mut world = Self {
            now: Duration::from_secs(1),
            way,
            clients: (0..if way.aggregated { 1 } else { KINDS.len() }).map(|_| Client::new(config.clone())).collect(),
            connections: vec![0; count],
            life: 0,
            servers: (0..count).map(|_| Server::new(spoken)).collect(),
            reachable: vec![true; count],
            wires: BTreeMap::new(),
            wanted: BTreeMap::new(),
            interest: BTreeMap::new(),
            told: BTreeMap::new(),
            bad: rng.bool(),
            trace: String::new(),
            rng,
        };
        for _ in 0..4 {
            world.edit();
            world.turn_interest();
        }
        (0..count).for_each(|server| world.publish(server));
        // often the second server is the one that is there at first
        world.reachable[0] = count == 1 || world.rng.bool();
        world.pump();
        world
    }

    fn note(&mut self, what: String) {
        let _ = writeln!(self.trace, "{:?} {what}", self.now);
    }

    /// One thing happens.
    fn step(&mut self) {
        match self.rng.u32(0..100) {
            0..12 => {
                (0..self.rng.usize(1..3)).for_each(|_| self.edit());
                let server = self.rng.usize(0..self.servers.len());
                self.publish(server);
            }
            12..18 => self.turn_interest(),
            18..62 => {
                if let Some(link) = self.any_wire() {
                    let most = if self.rng.bool() { usize::MAX } else { self.rng.usize(1..120) };
                    self.carry(link, most);
                }
            }
            62..72 => {
                if let Some(link) = self.any_wire() {
                    self.cut_somehow(link);
                }
            }
            72..76 => {
                let server = self.rng.usize(0..self.servers.len());
                self.reachable[server] = !self.reachable[server];
                self.note(format!("server {server} reachable: {}", self.reachable[server]));
            }
            76..82 => {
                let server = self.rng.usize(0..self.servers.len());
                if self.servers[server].up {
                    self.note(format!("server {server} dies"));
                    self.servers[server].die();
                    self.connections[server] += 1;
                } else {
                    self.note(format!("server {server} comes"));
                    self.servers[server].up = true;
                    if self.rng.bool() {
                        self.publish(server);
                    }
                }
            }
            82..85 => self.restart(),
            85..90 => {
                // a worse server that is ahead of the best one, or only thinks so
                let server = self.servers.len() - 1;
                self.edit();
                self.publish(server);
                self.pump();
                let its = self.wires.iter().filter(|(_, wire)| wire.server == server).map(|(link, _)| *link);
                for link in its.collect::<Vec<_>>() {
                    self.carry(link, usize::MAX);
                    self.pump();
                }
            }
            _ => {
                let most = [50, 500, 5_000, 20_000][self.rng.usize(0..4)];
                self.now += Duration::from_millis(self.rng.u64(1..most));
                self.clients.iter_mut().for_each(|client| client.pass_time(self.now));
            }
        }
        self.pump();
    }

    /// A stream breaks, or the connection that it shares with others.
    fn cut_somehow(&mut self, link: LinkId) {
        let ends = (self.rng.bool(), self.rng.bool());
        if self.way.aggregated || self.rng.bool() {
            self.cut(link, ends);
        } else {
            self.cut_connection(link, ends);
        }
    }

    /// The client that asks for a kind.
    fn client_of(&self, kind: &TypeUrl) -> usize {
        let own = || KINDS.iter().position(|(of, _)| of == kind).expect("a kind of the simulation");
        if self.way.aggregated { 0 } else { own() }
    }

    /// The publisher changes its mind about something.
    fn edit(&mut self) {
        let (kind, names) = &KINDS[self.rng.usize(0..KINDS.len())];
        let name = names[self.rng.usize(0..names.len())];
        let bad = self.bad && self.rng.u32(0..6) == 0;
        let version = if bad { BAD + self.rng.u32(0..2) } else { self.rng.u32(1..5) };
        if self.rng.u32(0..4) == 0 {
            self.wanted.remove(&(kind.clone(), name));
        } else {
            self.wanted.insert((kind.clone(), name), version);
        }
        self.note(format!("edit {kind:?} {name} {:?}", self.wanted.get(&(kind.clone(), name))));
    }

    /// A server learns what is wanted.
    fn publish(&mut self, server: usize) {
        if !self.servers[server].up {
            return;
        }
        let fleet = &mut self.servers[server].fleet;
        let mut changes = Vec::new();
        for (kind, name) in KINDS.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, *name))) {
            let wanted = self.wanted.get(&(kind.clone(), name)).copied();
            let known = fleet.snapshot().current(kind, name).filter(|_| !fleet.is_last_good());
            let has = known.map(|item| item.version());
            if has != wanted.map(|version| Version(version.into())) {
                changes.push(change(kind, name, wanted));
            }
        }
        fleet.publish(changes);
        self.note(format!("server {server} publishes"));
    }

    /// What a server has.
    fn content(&self, server: usize) -> BTreeMap<(TypeUrl, &'static str), u32> {
        let snapshot = self.servers[server].fleet.snapshot();
        let names = KINDS.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind.clone(), *name)));
        let version = |(kind, name): &(TypeUrl, &'static str)| Some(snapshot.current(kind, name)?.version().0 as u32);
        names.filter_map(|key| Some((key.clone(), version(&key)?))).collect()
    }

    /// The client asks for something else.
    fn turn_interest(&mut self) {
        let (kind, names) = &KINDS[self.rng.usize(0..KINDS.len())];
        let wild = matches!(kind, TypeUrl::Cluster | TypeUrl::Listener | TypeUrl::Runtime);
        let many = if *kind == TypeUrl::Runtime && self.rng.bool() { COLLECTION } else { "*" };
        let name = if wild && self.rng.bool() { many } else { names[self.rng.usize(0..names.len())] };
        let client = self.client_of(kind);
        let interest = self.interest.entry(kind.clone()).or_default();
        let asks = !interest.remove(name);
        if !asks {
            self.clients[client].unsubscribe(kind, [name]);
            self.told.retain(|(of, name), _| of != kind || covers(interest, name));
        }
        if asks || self.rng.u32(0..3) == 0 {
            interest.insert(name);
            self.clients[client].subscribe(kind, [name]);
        }
        let interest = interest.clone();
        self.note(format!("interest {kind:?} {interest:?}"));
    }

    /// The client's process ends and begins again, with what it saved.
    fn restart(&mut self) {
        self.note("the client restarts".into());
        for client in &mut self.clients {
            let saved = Saved::decode(&client.save(true)).expect("what was saved");
            let config = Config { seed: self.rng.u64(..), ..client.config().clone() };
            *client = Client::new(config);
            client.restore(saved, &mut judge);
        }
        self.told.clear();
        self.life += 1;
        self.wires.values_mut().for_each(|wire| wire.client = false);
        self.connections.iter_mut().for_each(|connection| *connection += 1);
        for (kind, names) in &self.interest {
            let client = self.client_of(kind);
            self.clients[client].subscribe(kind, names.iter().copied());
        }
    }

    fn any_wire(&mut self) -> Option<LinkId> {
        let at = self.rng.usize(0..self.wires.len().max(1));
        self.wires.keys().nth(at).copied()
    }

    /// Some bytes arrive, in both directions; or the stream opens, or cannot.
    fn carry(&mut self, link: LinkId, most: usize) {
        let Some(wire) = self.wires.get_mut(&link) else { return };
        let server = &mut self.servers[wire.server];
        if !wire.established {
            if !self.reachable[wire.server] || !server.up {
                if self.rng.bool() && wire.client {
                    wire.client = false;
                    let (client, local) = local(link);
                    self.clients[client].ended(local, "refused", self.now);
                }
                return;
            }
            wire.established = true;
            server.open(link, wire.connection, wire.kind.clone());
            if wire.client {
                let (client, local) = local(link);
                self.clients[client].connected(local, self.now);
            }
            return;
        }
        if !self.reachable[wire.server] {
            return;
        }
        let up: Vec<u8> = wire.up.drain(..most.min(wire.up.len())).collect();
        server.receive(link, &up, self.now);
        let down: Vec<u8> = wire.down.drain(..most.min(wire.down.len())).collect();
        wire.frames.push(&down);
        let mut messages: Vec<Bytes> = std::iter::from_fn(|| wire.frames.next_message().expect("a frame")).collect();
        if link.0 / LIFE != self.life {
            // a process that is no more hears nothing; a stream that was closed is the client's own business
            messages.clear();
        }
        for message in messages {
            let (client, local) = local(link);
            self.clients[client].received(local, message, self.now, &mut judge);
            self.hear_events();
        }
        let (up, down) = (up.len(), down.len());
        self.note(format!("{link:?} carries {up} up, {down} down"));
    }

    /// The stream breaks; each end may see it, now or later.
    fn cut(&mut self, link: LinkId, (client, server): (bool, bool)) {
        self.note(format!("{link:?} is cut: client {client}, server {server}"));
        let Some(wire) = self.wires.get_mut(&link) else { return };
        if client && wire.client {
            wire.client = false;
            let (client, local) = local(link);
            self.clients[client].ended(local, "cut", self.now);
        }
        if server {
            self.servers[wire.server].close(link, self.now);
        }
        let dead = !self.servers[wire.server].has(link);
        if !wire.client && dead {
            self.wires.remove(&link);
        }
    }

    /// The same with all streams of its connection.
    fn cut_connection(&mut self, link: LinkId, ends: (bool, bool)) {
        let Some(Wire { server, connection, .. }) = self.wires.get(&link) else { return };
        let (server, connection) = (*server, *connection);
        let same = |wire: &Wire| wire.server == server && wire.connection == connection;
        let links: Vec<LinkId> = self.wires.iter().filter(|(_, wire)| same(wire)).map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.cut(link, ends));
        self.connections[server] += u64::from(ends.0 && self.connections[server] == connection);
    }

    /// Everybody says what there is to say.
    fn pump(&mut self) {
        for client in 0..self.clients.len() {
            self.act(client);
        }
        for server in 0..self.servers.len() {
            for (link, bytes) in self.servers[server].speak(self.now) {
                if let Some(wire) = self.wires.get_mut(&link) {
                    wire.down.extend(bytes);
                }
            }
        }
        self.hear_events();
    }

    /// A client does what it has to do.
    fn act(&mut self, client: usize) {
        // each life of each client counts from 1
        let base = self.life * LIFE + client as u64 * OF_ONE;
        while let Some(action) = self.clients[client].next_action(self.now) {
            match action {
                Action::Connect { link, server } => {
                    let kind = (!self.way.aggregated).then(|| KINDS[client].0.clone());
                    let link = LinkId(base + link.0);
                    let connection = if self.way.aggregated { link.0 } else { self.connections[server] };
                    let (up, down, frames) = (VecDeque::new(), VecDeque::new(), Frames::default());
                    let wire = Wire { server, connection, kind, client: true, established: false, up, down, frames };
                    self.wires.insert(link, wire);
                }
                Action::Send { link, message } => {
                    let link = LinkId(base + link.0);
                    let wire = self.wires.get_mut(&link).filter(|wire| wire.client && wire.established);
                    wire.expect("an open stream").up.extend(frame(&message));
                }
                Action::Close { link } => {
                    if let Some(wire) = self.wires.get_mut(&LinkId(base + link.0)) {
                        wire.client = false;
                    }
                }
            }
        }
    }

    /// What the client tells is news.
    fn hear_events(&mut self) {
        for client in 0..self.clients.len() {
            self.hear_events_of(client);
        }
    }

    fn hear_events_of(&mut self, client: usize) {
        while let Some(event) = self.clients[client].next_event() {
            match event {
                Event::Changed { type_url, name } => {
                    let entry = self.clients[client].cache().get(&type_url, &name);
                    let held = entry.and_then(|entry| entry.held()).map(|held| held.body.clone());
                    // what came in between may have gone again
                    let Some(held) = held else { continue };
                    let before = self.told.insert((type_url.clone(), Arc::clone(&name)), held.clone());
                    assert!(
                        before.is_none_or(|before| before != held),
                        "{type_url:?} {name} is no news\n{}",
                        self.trace
                    );
                }
                Event::Gone { type_url, name, .. } => {
                    self.told.remove(&(type_url, name));
                }
                _ => {}
            }
        }
    }

    /// Everything works again, and everything that is on its way arrives.
    fn heal(&mut self) {
        self.note("heal".into());
        if self.servers[0].up && self.servers[0].fleet.stage() == crate::fleet::Stage::Published && self.rng.bool() {
            // the best server has had the last word already, and says nothing more
            self.wanted = self.content(0);
        }
        for server in 0..self.servers.len() {
            self.reachable[server] = true;
            self.servers[server].up = true;
            self.publish(server);
        }
        let end = self.now + LONG_AFTER;
        for round in 0.. {
            assert!(round < 3_000, "never quiet\n{}", self.trace);
            self.pump();
            let links: Vec<LinkId> = self.wires.keys().copied().collect();
            let mut moved = false;
            for link in links {
                let Some(wire) = self.wires.get(&link) else { continue };
                let half = wire.established && (!wire.client || !self.servers[wire.server].has(link));
                moved |= half || !wire.established || !wire.up.is_empty() || !wire.down.is_empty();
                if half || (!wire.established && !wire.client) {
                    self.cut(link, (true, true));
                } else {
                    self.carry(link, usize::MAX);
                }
            }
            if moved {
                continue;
            }
            let deadlines = self.servers.iter().filter_map(|server| server.next_deadline(self.now));
            let deadlines = deadlines.chain(self.clients.iter().filter_map(Client::next_deadline));
            let Some(next) = deadlines.min().filter(|at| *at < end) else { break };
            let soon = end - LONG_AFTER + SOON_AFTER;
            let least = if self.now < soon { Duration::from_millis(1) } else { LEAP };
            self.now = next.max(self.now + least);
            self.clients.iter_mut().for_each(|client| client.pass_time(self.now));
        }
    }

    fn check(&self) {
        let trace = &self.trace;
        let fleet = &self.servers[0].fleet;
        let own = self.way.variant == Variant::Delta;
        for (kind, interest) in &self.interest {
            let client = &self.clients[self.client_of(kind)];
            assert!(interest.is_empty() || client.in_use() == 0, "the best server is in use\n{trace}");
            let covered = |name: &str| covers(interest, name);
            for name in KINDS.iter().find(|(of, _)| of == kind).map_or(&[][..], |(_, names)| names) {
                let entry = client.cache().get(kind, name);
                let held = entry.and_then(|entry| entry.held());
                let target = fleet.snapshot().target(kind, name).filter(|_| covered(name));
                let told = self.told.get(&(kind.clone(), Arc::from(*name)));
                assert_eq!(told, held.map(|held| &held.body), "{kind:?} {name}: events tell what is held\n{trace}");
                let refused = fleet.snapshot().is_refused(&Key::Put(Need::new(kind.clone(), *name))) && covered(name);
                let current = fleet.snapshot().current(kind, name).map(|item| item.version().0);
                let bad = current.is_some_and(|version| version >= u128::from(BAD));
                assert!(!refused || bad, "{kind:?} {name} is refused, and good\n{trace}");
                match (held, target) {
                    (Some(held), Some(target)) => {
                        assert!(target.version().0 < u128::from(BAD), "{kind:?} {name} is bad\n{trace}");
                        // in the state of the world a version is of all that a response brings
                        let version = target.version().to_string();
                        assert!(!own || *held.version == version, "{kind:?} {name}: {held:?}\n{trace}");
                        assert_eq!(held.body, body(name, target.version().0 as u32), "{kind:?} {name}\n{trace}");
                    }
                    // a good version of an earlier time, which the fleet does not know
                    (Some(_), None) if refused => {}
                    // who asks for it still cannot be told that it is gone: what names it says so
                    (Some(_), None) if !own && !matches!(kind, TypeUrl::Cluster | TypeUrl::Listener) => {}
                    (Some(held), None) => {
                        let stand_in = stand_in(kind.clone(), &Arc::from(*name));
                        assert_eq!(&held.body, &stand_in.resource.body[0], "{kind:?} {name} is kept\n{trace}");
                        assert!(matches!(kind, TypeUrl::Endpoints | TypeUrl::Route), "{kind:?} {name}\n{trace}");
                    }
                    (None, Some(_)) => panic!("{kind:?} {name} is lost\n{trace}"),
                    (None, None) if interest.contains(name) && !refused => {
                        let presence = entry.map(|entry| &entry.presence);
                        // nor that what it refused is gone
                        let unspoken = !own && entry.is_some_and(|entry| entry.refusal.is_some());
                        let absent = matches!(presence, Some(Presence::Absent(_))) || unspoken;
                        assert!(absent, "{kind:?} {name} {presence:?}\n{trace}");
                    }
                    (None, None) => {}
                }
            }
        }
        let repeated: Vec<&String> = self.servers.iter().flat_map(|server| &server.repeated).collect();
        assert!(repeated.is_empty(), "told twice: {repeated:?}\n{trace}");
    }
}

/// One schedule.
fn run(seed: u64, way: Way) {
    let mut world = World::new(seed, way);
    let steps = world.rng.usize(1..60);
    (0..steps).for_each(|_| world.step());
    world.heal();
    world.check();
}

/// Schedules for each of the four variants, which run at the same time: 10,000 in all.
const SCHEDULES: u64 = 2_500;

/// Runs the schedules; the first that fails is named. `SCHEDULES=10000` runs so many others of each variant.
#[expect(clippy::disallowed_methods, reason = "how many schedules is the business of whoever runs this")]
fn run_all(variant: Variant, aggregated: bool) {
    let more: Option<u64> = std::env::var("SCHEDULES").ok().and_then(|number| number.parse().ok());
    let seeds = more.map_or(0..SCHEDULES, |more| SCHEDULES..SCHEDULES + more);
    for seed in seeds {
        let ended = std::panic::catch_unwind(|| run(seed, Way { variant, aggregated }));
        if let Err(cause) = ended {
            let text = cause.downcast_ref::<String>().map_or("?", String::as_str);
            panic!("schedule {seed}: {text}");
        }
    }
}

#[test]
fn after_any_turmoil_the_client_holds_what_the_fleet_has() {
    run_all(Variant::Delta, true);
}

#[test]
fn after_any_turmoil_the_client_of_the_state_of_the_world_holds_what_the_fleet_has() {
    run_all(Variant::Sotw, true);
}

#[test]
fn after_any_turmoil_the_client_with_a_stream_for_each_kind_holds_what_the_fleet_has() {
    run_all(Variant::Delta, false);
}

#[test]
fn after_any_turmoil_the_client_of_the_state_of_the_world_with_a_stream_for_each_kind_holds_what_the_fleet_has() {
    run_all(Variant::Sotw, false);
}
