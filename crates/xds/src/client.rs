//! The xDS client: what it asks for, what it holds, and whom it asks. Driven by messages and the time, sans-io.
//!
//! # The life of a stream
//!
//! 1. [`Client::subscribe`] says what is wanted, kind by kind: names, or `*` for everything. It may change at any time.
//! 2. [`Client::next_action`] says what is to be done: connect to a server, send a message, close. Whoever does these things tells
//!    the client what came of them: [`Client::connected`], [`Client::received`], [`Client::ended`]. [`connect`] is such a one.
//! 3. The first message of each kind on a stream names what is wanted and what is held from before: nothing that has not changed
//!    travels again. The first of all says who the client is.
//! 4. A response is taken resource by resource. What the caller finds good is in force from then on, what it refuses is named in the
//!    answer with the reason, and the version before stays in force. [`Client::next_event`] tells what changed, [`Client::cache`]
//!    what is.
//! 5. What was asked for by its name and has not come after [`Config::resource_timeout`] does not exist.
//! 6. The stream ends: everything stays in force, the server is tried again after a pause, and if it cannot be reached, the next
//!    server is asked as well. The best server that answers is the one in use.
//!
//! Between two lives of the process [`Client::save`] and [`Client::restore`] carry what is held, so that it is in force again before
//! any server has answered.
//!
//! Reading order: `config`, `cache`, `stream`, `upstream`, this file; then `saved`, and beside them `load` for load reports.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::names::canonical;
use crate::resource::{Need, TypeUrl};

mod cache;
mod config;
pub mod connect;
mod deadlines;
mod frame;
pub mod load;
mod message;
mod saved;
mod stream;
mod upstream;

#[cfg(test)]
mod tests;

pub use cache::{Absence, Cache, Entry, Held, Presence, Refusal};
pub use config::{BackoffRange, ClientNode, Config, Variant};
pub use frame::{FrameError, Frames, LARGEST_RESPONSE, frame};
pub use saved::{Saved, SavedError};
pub use upstream::LinkId;

use cache::{Outcome, Reading, cut};
use deadlines::Deadlines;
use stream::Stream;
use upstream::{Link, Phase, Upstream};

/// A stream on which nothing has come after this time counts as answered: on a resumed one there may be nothing to say. The
/// connection has been asked whether it is alive by then ([`connect::PING`] and [`connect::PONG`] together are 20 s).
const PROVEN: Duration = Duration::from_secs(30);

/// Longest reason for the end of a stream that is told, in bytes: it may be the server's own words.
const LONGEST_ENDING: usize = 512;

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to a server and open the stream ([`Variant::path`]); then [`Client::connected`] or [`Client::ended`] is due.
    Connect {
        /// Names the stream from now on.
        link: LinkId,
        /// Which of [`Config::servers`].
        server: usize,
    },
    /// Send a message (without its frame).
    Send {
        /// The stream.
        link: LinkId,
        /// The message.
        message: Bytes,
    },
    /// End the stream or the attempt; nothing more is to be told of it, and nothing that is will count.
    Close {
        /// The stream.
        link: LinkId,
    },
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A resource is new or has another content.
    Changed {
        /// Its kind.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
    },
    /// A resource does not exist (any more).
    Gone {
        /// Its kind.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
        /// How that is known.
        absence: Absence,
    },
    /// A version was refused: [`Entry::refusal`] says why.
    Refused {
        /// Its kind.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
    },
    /// The server cannot give a resource: [`Entry::failure`] says why.
    Failed {
        /// Its kind.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
    },
    /// A server has answered and is the one in use.
    InUse {
        /// Which of [`Config::servers`].
        server: usize,
    },
    /// A stream has ended, or could not be opened.
    Lost {
        /// Which of [`Config::servers`].
        server: usize,
        /// Why.
        reason: String,
    },
}

impl Event {
    fn gone(key: &Need, absence: Absence) -> Self {
        Self::Gone { type_url: key.type_url.clone(), name: Arc::clone(&key.name), absence }
    }
}

/// A new version of a resource, to be found good or not.
pub struct Offer<'a> {
    /// Its kind.
    pub type_url: &'a TypeUrl,
    /// Its name.
    pub name: &'a str,
    /// As the server calls it.
    pub version: &'a str,
    /// The message, without the `Any` around it.
    pub body: &'a Bytes,
}

/// Says whether an offer is good, or why not. The reason is sent to the server: it must not repeat a secret.
pub type Judge<'a> = dyn FnMut(&Offer<'_>) -> Result<(), String> + 'a;

/// See the module.
pub struct Client {
    config: Config,
    node: Bytes,
    cache: Cache,
    upstreams: Vec<Upstream>,
    /// So many of the servers are talked to; the last of them is the one in use.
    wanted: usize,
    /// How often what is held has changed.
    changes: u64,
    /// What was asked for on the stream in use and has not come.
    awaited: Deadlines,
    /// From an earlier life, not asked for yet.
    saved: BTreeMap<TypeUrl, BTreeMap<Arc<str>, Held>>,
    links: u64,
    rng: fastrand::Rng,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
}

impl Client {
    /// A client that wants nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            node: config.encoded_node(),
            cache: Cache::default(),
            upstreams: config.servers.iter().map(|_| Upstream::new()).collect(),
            wanted: 1,
            changes: 0,
            awaited: Deadlines::default(),
            saved: BTreeMap::new(),
            links: 0,
            rng: fastrand::Rng::with_seed(config.seed),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            config,
        }
    }

    /// What is held.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// How this client was set up.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Asks for more: names of this kind, `*` for all there are. A name like `xdstp://authority/type/path/*` asks for all members of
    /// a collection. Names of this form are the same whatever the order of their context parameters; apart from that they are opaque.
    pub fn subscribe<N: Into<Arc<str>>>(&mut self, type_url: &TypeUrl, names: impl IntoIterator<Item = N>) {
        let names = names.into_iter().map(Into::into).map(|name: Arc<str>| match canonical(&name) {
            Cow::Owned(canonical) => canonical.into(),
            Cow::Borrowed(_) => name,
        });
        if !self.cache.ask(type_url, names) {
            return;
        }
        if let Some(mut saved) = self.saved.remove(type_url) {
            saved.retain(|name, held| {
                let restored = self.cache.restore(type_url, name, held.clone());
                if restored {
                    self.events.push_back(Event::Changed { type_url: type_url.clone(), name: Arc::clone(name) });
                }
                !restored
            });
            self.saved.insert(type_url.clone(), saved);
        }
        self.look_at(type_url);
    }

    /// Asks for less. What nothing asks for any more is forgotten, without an event.
    pub fn unsubscribe<'n>(&mut self, type_url: &TypeUrl, names: impl IntoIterator<Item = &'n str>) {
        let Some(kind) = self.cache.kinds.get_mut(type_url) else { return };
        for name in names.into_iter().filter_map(|name| kind.names.take(&*canonical(name))) {
            self.upstreams
                .iter_mut()
                .filter_map(Upstream::open)
                .for_each(|link| link.stream.drop_name(type_url, &name));
            self.awaited.cancel(&Need::new(type_url.clone(), name));
        }
        self.cache.forget_uncovered(type_url);
        self.look_at(type_url);
    }

    /// What is to be done next; none: nothing until something happens or [`Self::next_deadline`] has come.
    pub fn next_action(&mut self, now: Duration) -> Option<Action> {
        self.start(now);
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        let (in_use, until) = (self.in_use(), now + self.config.resource_timeout);
        for (at, upstream) in self.upstreams.iter_mut().enumerate() {
            let Some(link) = upstream.open() else { continue };
            let Some(said) = link.stream.next(&self.cache) else { continue };
            let kind = self.cache.kinds.get(&said.type_url).filter(|_| at == in_use);
            for name in said.asked.into_iter().filter(|name| kind.is_some_and(|kind| kind.is_awaited(name))) {
                self.awaited.set(Need::new(said.type_url.clone(), name), until);
            }
            return Some(Action::Send { link: link.id, message: said.message });
        }
        None
    }

    /// What has happened, in order.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::pass_time`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let upstreams = self.upstreams.iter().filter_map(Upstream::next);
        upstreams.chain(self.awaited.next()).chain(self.cache.lifetimes.next()).min()
    }

    /// Does what is due by now.
    pub fn pass_time(&mut self, now: Duration) {
        while let Some(event) = self.cache.expire(now) {
            self.changes += 1;
            self.events.push_back(event);
        }
        while let Some(key) = self.awaited.pop(now) {
            self.events.extend(self.cache.miss(&key));
        }
        for at in 0..self.upstreams.len() {
            let Some(upstream) = self.upstreams.get_mut(at) else { continue };
            match &upstream.phase {
                Phase::Waiting(until) if *until <= now => upstream.phase = Phase::Idle,
                Phase::Connecting(_, until) if *until <= now => {
                    self.hang_up(at);
                    self.lose(at, "it took too long to connect", now);
                }
                Phase::Open(link) if link.since + PROVEN <= now && !link.answered => {
                    self.answered(at, now);
                }
                _ => {}
            }
        }
        self.start(now);
    }

    /// The stream is open.
    pub fn connected(&mut self, id: LinkId, now: Duration) {
        let Some(at) = self.index(id) else { return };
        let versions_of = if self.config.shared_versions { None } else { self.config.servers.get(at).cloned() };
        let stream = Stream::new(self.config.variant, self.node.clone(), versions_of, &self.cache);
        let link = Link { id, stream, since: now, answered: false, told: self.changes };
        if let Some(upstream) = self.upstreams.get_mut(at).filter(|upstream| upstream.is_connecting()) {
            upstream.phase = Phase::Open(Box::new(link));
        }
    }

    /// A message has come (without its frame). `judge` is asked about each resource whose content is new.
    pub fn received(&mut self, id: LinkId, message: Bytes, now: Duration, judge: &mut Judge<'_>) {
        let Some(at) = self.index(id) else { return };
        let response = match message::decode(self.config.variant, message) {
            Ok(response) => response,
            Err(error) => {
                self.hang_up(at);
                return self.lose(at, &format!("the server sent what is no response: {error}"), now);
            }
        };
        let type_url = response.kind();
        let Some(link) = self.upstreams.get_mut(at).and_then(Upstream::open) else { return };
        let asked = link.stream.has_asked(&type_url);
        if !self.answered(at, now) || !asked {
            return;
        }
        let (version, nonce) = (response.version.clone(), response.nonce.clone());
        let named: Vec<Arc<str>> = response.arrivals.iter().map(|arrival| &arrival.name).cloned().collect();
        let told = named.iter().chain(&response.removed).chain(response.errors.iter().map(|failure| &failure.name));
        for name in told {
            self.awaited.cancel(&Need::new(type_url.clone(), Arc::clone(name)));
        }
        let source = self.config.servers.get(at).cloned().unwrap_or_default();
        let reading = Reading { variant: self.config.variant, source, ttl: self.config.ttl, now };
        let Outcome { events, refused, misled } = self.cache.take(response, reading, judge);
        self.changes += 1;
        self.events.extend(events);
        let Some(link) = self.upstreams.get_mut(at).and_then(Upstream::open) else { return };
        link.told = self.changes;
        if refused.is_none()
            && link.stream.is_anew(&type_url)
            && let Some(kind) = self.cache.kinds.get_mut(&type_url)
        {
            kind.is_whole();
        }
        link.stream.answer(&type_url, nonce, version, refused);
        if misled {
            self.hang_up(at);
            self.lose(at, "a resource lives on that has expired here: it is asked for anew", now);
        }
    }

    /// The stream has ended or could not be opened.
    pub fn ended(&mut self, id: LinkId, reason: &str, now: Duration) {
        if let Some(at) = self.index(id) {
            self.lose(at, reason, now);
        }
    }

    /// What is held, as bytes for [`Saved::decode`]: the same bytes for the same content. Kinds that are secrets are in it only if
    /// `secrets` says so; other kinds can hold a key too if the server puts one inline.
    #[must_use]
    pub fn save(&self, secrets: bool) -> Bytes {
        Saved::of(&self.cache, secrets).encode_all()
    }

    /// Takes over what was saved, as far as `judge` finds it good. It is in force as soon as it is asked for: to be called before
    /// [`Self::subscribe`].
    pub fn restore(&mut self, saved: Saved, judge: &mut Judge<'_>) {
        for kind in saved.kinds {
            let type_url = TypeUrl::from(kind.type_url.as_str());
            let (mut good, mut all) = (BTreeMap::new(), true);
            for resource in kind.resources {
                let (name, held) = resource.held();
                let offer = Offer { type_url: &type_url, name: &name, version: &held.version, body: &held.body };
                match judge(&offer) {
                    Ok(()) => drop(good.insert(name, held)),
                    Err(_) => all = false,
                }
            }
            let into = self.cache.kinds.entry(type_url.clone()).or_default();
            (into.version, into.source, into.lossy) = (kind.version, kind.source.into(), !all);
            into.patterns = kind.patterns.into_iter().map(Arc::from).collect();
            self.saved.insert(type_url, good);
        }
    }

    /// The server that is in use, or is to be: the last of those that are talked to.
    fn in_use(&self) -> usize {
        self.wanted - 1
    }

    /// Which server this stream belongs to; none if the stream is none of the present ones.
    fn index(&self, id: LinkId) -> Option<usize> {
        self.upstreams.iter().position(|upstream| upstream.link() == Some(id))
    }

    fn look_at(&mut self, type_url: &TypeUrl) {
        self.upstreams.iter_mut().filter_map(Upstream::open).for_each(|link| link.stream.look_at(type_url));
    }

    /// Connects to those that are wanted and neither talked to nor waited for. Without anything to ask for there is nothing to say.
    fn start(&mut self, now: Duration) {
        if self.cache.kinds.values().all(|kind| kind.names.is_empty()) {
            return;
        }
        for (server, upstream) in self.upstreams.iter_mut().enumerate().take(self.wanted) {
            if matches!(upstream.phase, Phase::Idle) {
                self.links += 1;
                let link = LinkId(self.links);
                upstream.phase = Phase::Connecting(link, now + self.config.connect_timeout);
                self.actions.push_back(Action::Connect { link, server });
            }
        }
    }

    /// A server has answered: it is the one in use, and worse ones are let go. False if its stream had to be ended for that: other
    /// streams have brought news since it was told what is held, and it would take that for what is held now.
    fn answered(&mut self, at: usize, now: Duration) -> bool {
        let takes_over = at < self.in_use();
        let Some(link) = self.upstreams.get_mut(at).and_then(Upstream::open) else { return false };
        let outdated = takes_over && link.told != self.changes;
        let news = !link.answered && !outdated;
        link.answered = true;
        if news {
            self.events.push_back(Event::InUse { server: at });
        }
        if let Some(upstream) = self.upstreams.get_mut(at) {
            upstream.reset_backoff();
        }
        if takes_over {
            self.wanted = at + 1;
            (at + 1..self.upstreams.len()).for_each(|worse| self.close(worse));
            self.await_all(now);
        }
        if outdated {
            self.close(at);
            self.start(now);
        }
        !outdated
    }

    /// From now on what has not come is awaited from the server in use.
    fn await_all(&mut self, now: Duration) {
        self.awaited.clear();
        for (type_url, kind) in &self.cache.kinds {
            for name in kind.names.iter().filter(|name| kind.is_awaited(name)) {
                let key = Need::new(type_url.clone(), Arc::clone(name));
                self.awaited.set(key, now + self.config.resource_timeout);
            }
        }
    }

    /// Has a stream or an attempt ended.
    fn hang_up(&mut self, at: usize) {
        if let Some(link) = self.upstreams.get(at).and_then(Upstream::link) {
            self.actions.push_back(Action::Close { link });
        }
    }

    /// Lets go of a server.
    fn close(&mut self, at: usize) {
        self.hang_up(at);
        if let Some(upstream) = self.upstreams.get_mut(at) {
            upstream.phase = Phase::Idle;
            upstream.reset_backoff();
        }
    }

    /// A stream has ended by itself: it is tried again after a pause, and if nothing had come on it, the next server is asked too.
    fn lose(&mut self, at: usize, reason: &str, now: Duration) {
        let in_use = self.in_use();
        let Some(upstream) = self.upstreams.get_mut(at) else { return };
        let answered = upstream.open().is_some_and(|link| link.answered);
        upstream.phase = Phase::Waiting(now + upstream.pause(self.config.backoff, &mut self.rng));
        if at == in_use {
            // it is the stream's end that keeps it from coming
            self.awaited.clear();
            if !answered {
                self.wanted = (self.wanted + 1).min(self.upstreams.len()).max(1);
            }
        }
        self.events.push_back(Event::Lost { server: at, reason: cut(reason.to_owned(), LONGEST_ENDING) });
    }
}
