//! What a client has been told, over all its streams: of each resource the last good version, and what is known about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::deadlines::Deadlines;
use super::message::{Arrival, Content, ResourceFailure, Response};
use super::{Event, Judge, Offer, Variant};
use crate::names::{EVERYTHING, collection_of, is_collection};
use crate::resource::{Need, TypeUrl};

/// Resources that are held at most: as many as a stream may ask our own server for. An entry without its content costs about 200
/// bytes, so this many are 52 MB.
pub(super) const MOST_RESOURCES: usize = 262_144;

/// Bytes of content that are held at most: 2 KB for each of [`MOST_RESOURCES`]; our own are below 1 KB on average.
pub(super) const MOST_BYTES: usize = 512 << 20;

/// Longest text of a refusal, in bytes: as long as Envoy's.
const LONGEST_REFUSAL: usize = 4096;

/// Longest reason of one refusal that is kept and sent, in bytes.
const LONGEST_REASON: usize = 512;

/// What is in force under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing has been heard of it yet.
    Unknown,
    /// It exists.
    Exists(Held),
    /// It does not exist.
    Absent(Absence),
}

/// How it is known that a resource does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The server said so.
    Removed,
    /// The server listed all there are of its kind (state of the world, listeners and clusters), and it was not among them.
    Unlisted,
    /// It was asked for and did not come in time ([`super::Config::resource_timeout`]).
    Timeout,
    /// Its time to live ran out.
    Expired,
}

/// The last good version of a resource.
#[derive(Clone, PartialEq, Eq)]
pub struct Held {
    /// As the server calls it; opaque.
    pub version: Arc<str>,
    /// The server that it came from last.
    pub source: Arc<str>,
    /// The message, without the `Any` around it.
    pub body: Bytes,
}

/// Bodies can hold private keys.
impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({}, {} bytes)", self.version, self.body.len())
    }
}

/// A version that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As the server calls it.
    pub version: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is in force.
    pub presence: Presence,
    /// A newer version, which was refused: the one before stays in force.
    pub refusal: Option<Refusal>,
    /// Why the server cannot give it now, in the server's words (`resource_errors`); what was held stays in force.
    pub failure: Option<Arc<str>>,
}

impl Entry {
    const UNKNOWN: Self = Self { presence: Presence::Unknown, refusal: None, failure: None };

    fn size(&self) -> usize {
        self.held().map_or(0, |held| held.body.len())
    }

    /// The version in force, if it exists.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        if let Presence::Exists(held) = &self.presence { Some(held) } else { None }
    }
}

/// One kind of resources.
#[derive(Default)]
pub(super) struct Kind {
    /// What is asked for; [`EVERYTHING`] is among the names.
    pub(super) names: BTreeSet<Arc<str>>,
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// State of the world: the version that was accepted last, and the server that it came from.
    pub(super) version: String,
    pub(super) source: Arc<str>,
    /// State of the world: the patterns that `version` covers.
    pub(super) patterns: BTreeSet<Arc<str>>,
    /// State of the world: less is held, or something else, than was accepted under `version`.
    pub(super) lossy: bool,
}

impl Kind {
    /// Whether this name is asked for, by itself, by the wildcard or as a member of an `xdstp` collection.
    pub(super) fn covers(&self, name: &str) -> bool {
        let collection = || collection_of(name).is_some_and(|collection| self.names.contains(&*collection));
        self.names.contains(name) || self.names.contains(EVERYTHING) || collection()
    }

    /// State of the world: all is held that was accepted under `version`.
    pub(super) fn is_whole(&mut self) {
        self.lossy = false;
        self.patterns = self.names.iter().filter(|name| is_pattern(name)).cloned().collect();
    }

    /// The entry of a name, counted if it is new.
    fn entry(&mut self, name: &Arc<str>, count: &mut usize) -> &mut Entry {
        self.entries.entry(Arc::clone(name)).or_insert_with(|| {
            *count += 1;
            Entry::UNKNOWN
        })
    }

    /// Whether anything is asked for whose absence a timer can tell.
    pub(super) fn is_awaited(&self, name: &str) -> bool {
        let unknown = self.entries.get(name).is_some_and(|entry| entry.presence == Presence::Unknown);
        unknown && self.names.contains(name) && !is_pattern(name)
    }
}

/// Whether a name stands for many.
pub(super) fn is_pattern(name: &str) -> bool {
    name == EVERYTHING || is_collection(name)
}

/// How a response is to be read.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) variant: Variant,
    /// The server that says it.
    pub(super) source: Arc<str>,
    /// Times to live count.
    pub(super) ttl: bool,
    pub(super) now: Duration,
}

/// What became of a response.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) events: Vec<Event>,
    /// Why parts of it are refused; none if all was taken.
    pub(super) refused: Option<String>,
    /// The server believes that the client holds what it does not: only a new stream sets that right.
    pub(super) misled: bool,
}

/// See the module.
#[derive(Default)]
pub struct Cache {
    pub(super) kinds: BTreeMap<TypeUrl, Kind>,
    pub(super) lifetimes: Deadlines,
    /// Entries of all kinds.
    count: usize,
    /// Of all bodies.
    bytes: usize,
}

impl Cache {
    /// What is known of a name that is asked for, by itself or by a wildcard. None: nothing, which under a wildcard alone tells
    /// nothing of its absence.
    #[must_use]
    pub fn get(&self, type_url: &TypeUrl, name: &str) -> Option<&Entry> {
        self.kinds.get(type_url)?.entries.get(name)
    }

    /// All names of a kind, in order.
    pub fn entries(&self, type_url: &TypeUrl) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.kinds.get(type_url).into_iter().flat_map(|kind| &kind.entries)
    }

    /// Takes a response in: what `judge` finds good is in force from now on.
    pub(super) fn take(&mut self, response: Response, reading: Reading, judge: &mut Judge<'_>) -> Outcome {
        let type_url = response.kind();
        let Some(kind) = self.kinds.get_mut(&type_url) else { return Outcome::default() };
        let twice = named_twice(&response);
        let Self { lifetimes, count, bytes, .. } = self;
        let whole = reading.variant == Variant::Sotw && type_url.is_complete();
        let mut turn = Turn { type_url: &type_url, kind, lifetimes, count, bytes, reading, events: Vec::new() };
        let mut outcome = Outcome::default();
        let (mut refusals, unnamed) = (Vec::new(), response.unnamed);
        let mut listed = BTreeSet::new();
        for arrival in response.arrivals {
            listed.insert(Arc::clone(&arrival.name));
            if !turn.kind.covers(&arrival.name) {
                continue;
            }
            let (name, version) = (Arc::clone(&arrival.name), arrival.version.clone());
            let taken = if twice.contains(&name) {
                Err("it is named twice in one response".to_owned())
            } else {
                turn.arrive(arrival, judge, &mut outcome.misled)
            };
            if let Err(reason) = taken {
                let reason = cut(reason, LONGEST_REASON);
                refusals.push(format!("{name}: {reason}"));
                turn.refuse(&name, version, reason);
            }
        }
        let removed = response.removed.into_iter().filter(|name| !twice.contains(name));
        removed.for_each(|name| turn.go(&name, Absence::Removed));
        if whole && unnamed.is_empty() {
            turn.go_unlisted(&listed);
        }
        response.errors.into_iter().for_each(|failure| turn.fail(failure));
        outcome.events = turn.events;
        outcome.refused = refusal(&refusals, unnamed);
        if outcome.refused.is_none() {
            (kind.version, kind.source) = (response.version, turn.reading.source);
            if whole {
                kind.is_whole();
            }
        } else {
            kind.lossy = true;
        }
        outcome
    }

    /// Names that were asked for are not any more: what is covered by nothing else is forgotten.
    pub(super) fn forget_uncovered(&mut self, type_url: &TypeUrl) {
        let Some(kind) = self.kinds.get_mut(type_url) else { return };
        let Kind { entries, .. } = kind;
        let mut entries = std::mem::take(entries);
        entries.retain(|name, entry| {
            let stays = kind.names.contains(name) || (entry.held().is_some() && kind.covers(name));
            if !stays {
                self.lifetimes.cancel(&Need::new(type_url.clone(), Arc::clone(name)));
                self.count -= 1;
                self.bytes -= entry.size();
            }
            stays
        });
        kind.entries = entries;
        let names = &kind.names;
        // what it covered is not held any more if it is asked for again
        kind.patterns.retain(|pattern| names.contains(pattern));
    }

    /// More names are asked for. Whether any is new.
    pub(super) fn ask(&mut self, type_url: &TypeUrl, names: impl IntoIterator<Item = Arc<str>>) -> bool {
        let kind = self.kinds.entry(type_url.clone()).or_default();
        let mut news = false;
        for name in names {
            if is_pattern(&name) {
                // more may belong to it than the accepted version brought
                kind.lossy |= !kind.patterns.contains(&name);
            } else {
                kind.entry(&name, &mut self.count);
            }
            news |= kind.names.insert(name);
        }
        news
    }

    /// Puts a resource in force that was held in an earlier life, if it is asked for and nothing is known of it.
    pub(super) fn restore(&mut self, type_url: &TypeUrl, name: &Arc<str>, held: Held) -> bool {
        let Some(kind) = self.kinds.get_mut(type_url).filter(|kind| kind.covers(name)) else { return false };
        let fits = self.count < MOST_RESOURCES && self.bytes + held.body.len() <= MOST_BYTES;
        let entry = kind.entries.get(name);
        let fresh = fits && entry.is_none_or(|entry| entry.presence == Presence::Unknown && entry.refusal.is_none());
        if fresh {
            self.bytes += held.body.len();
            kind.entry(name, &mut self.count).presence = Presence::Exists(held);
        } else {
            kind.lossy = true;
        }
        fresh
    }

    /// The time of a resource that was asked for and has not come is over.
    pub(super) fn miss(&mut self, key: &Need) -> Option<Event> {
        let kind = self.kinds.get_mut(&key.type_url).filter(|kind| kind.is_awaited(&key.name))?;
        kind.entries.get_mut(&key.name)?.presence = Presence::Absent(Absence::Timeout);
        Some(Event::gone(key, Absence::Timeout))
    }

    /// Takes away one resource whose time to live is over.
    pub(super) fn expire(&mut self, now: Duration) -> Option<Event> {
        let key = self.lifetimes.pop(now)?;
        let kind = self.kinds.get_mut(&key.type_url)?;
        kind.lossy = true;
        let Self { lifetimes, count, bytes, .. } = self;
        let type_url = &key.type_url;
        let reading = Reading { variant: Variant::Delta, source: Arc::default(), ttl: true, now };
        let mut turn = Turn { type_url, kind, lifetimes, count, bytes, reading, events: Vec::new() };
        turn.go(&key.name, Absence::Expired);
        Some(Event::gone(&key, Absence::Expired))
    }
}

/// One kind while something is done to it.
struct Turn<'a> {
    type_url: &'a TypeUrl,
    kind: &'a mut Kind,
    lifetimes: &'a mut Deadlines,
    count: &'a mut usize,
    bytes: &'a mut usize,
    reading: Reading,
    events: Vec<Event>,
}

impl Turn<'_> {
    fn arrive(&mut self, arrival: Arrival, judge: &mut Judge<'_>, misled: &mut bool) -> Result<(), String> {
        let Arrival { name, version, content, ttl } = arrival;
        let key = Need::new(self.type_url.clone(), Arc::clone(&name));
        let until = ttl.filter(|_| self.reading.ttl).map(|ttl| self.reading.now.saturating_add(ttl));
        let body = match content {
            Content::Broken(reason) => return Err(reason),
            Content::Heartbeat if !self.reading.ttl => {
                return Err("a heartbeat, which this client has not announced".into());
            }
            Content::Heartbeat => {
                match (self.kind.entries.get(&name).map(|entry| &entry.presence), until) {
                    (Some(Presence::Exists(_)), Some(until)) => self.lifetimes.set(key, until),
                    (None | Some(Presence::Absent(Absence::Expired)), _) => *misled = true,
                    _ => {}
                }
                return Ok(());
            }
            Content::Body(body) => body,
        };
        let held = self.kind.entries.get(&name).and_then(Entry::held);
        let same = held.is_some_and(|held| held.body == body);
        if !same {
            let less = held.map_or(0, |held| held.body.len());
            if !self.has_room(&name) || *self.bytes - less + body.len() > MOST_BYTES {
                return Err(format!("more than {MOST_RESOURCES} resources or {MOST_BYTES} bytes"));
            }
            judge(&Offer { type_url: self.type_url, name: &name, version: &version, body: &body })?;
            *self.bytes = *self.bytes - less + body.len();
        }
        match until {
            Some(until) => self.lifetimes.set(key.clone(), until),
            None => self.lifetimes.cancel(&key),
        }
        let entry = self.kind.entry(&name, self.count);
        // a copy: a slice would keep the whole response in memory for one resource of it
        let body = match &entry.presence {
            Presence::Exists(held) if same => held.body.clone(),
            _ => Bytes::copy_from_slice(&body),
        };
        let source = Arc::clone(&self.reading.source);
        let presence = Presence::Exists(Held { version: version.into(), source, body });
        *entry = Entry { presence, refusal: None, failure: None };
        if !same {
            self.events.push(Event::Changed { type_url: key.type_url, name: key.name });
        }
        Ok(())
    }

    /// Whether there can be an entry of this name.
    fn has_room(&self, name: &str) -> bool {
        *self.count < MOST_RESOURCES || self.kind.entries.contains_key(name)
    }

    fn refuse(&mut self, name: &Arc<str>, version: String, reason: String) {
        if !self.has_room(name) {
            return;
        }
        let entry = self.kind.entry(name, self.count);
        entry.refusal = Some(Refusal { version: version.into(), reason: reason.into() });
        self.events.push(Event::Refused { type_url: self.type_url.clone(), name: Arc::clone(name) });
    }

    /// It does not exist: named ones are remembered as such, others forgotten.
    fn go(&mut self, name: &Arc<str>, why: Absence) {
        let Some(entry) = self.kind.entries.get_mut(name) else { return };
        let key = Need::new(self.type_url.clone(), Arc::clone(name));
        self.lifetimes.cancel(&key);
        let new = !matches!(entry.presence, Presence::Absent(_));
        *self.bytes -= entry.size();
        *entry = Entry { presence: Presence::Absent(why), refusal: None, failure: None };
        if !self.kind.names.contains(name) {
            self.kind.entries.remove(name);
            *self.count -= 1;
        }
        if new {
            self.events.push(Event::gone(&key, why));
        }
    }

    /// Only what was there: what was asked for just now may be missing because the server did not know that yet.
    fn go_unlisted(&mut self, listed: &BTreeSet<Arc<str>>) {
        let there = self.kind.entries.iter().filter(|(_, entry)| entry.held().is_some());
        let gone: Vec<Arc<str>> = there.map(|(name, _)| name).filter(|name| !listed.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.go(name, Absence::Unlisted));
    }

    fn fail(&mut self, failure: ResourceFailure) {
        let ResourceFailure { name, not_found, text } = failure;
        if not_found {
            self.go(&name, Absence::Removed);
        } else if let Some(entry) = self.kind.entries.get_mut(&name) {
            entry.failure = Some(cut(text, LONGEST_REASON).into());
            self.events.push(Event::Failed { type_url: self.type_url.clone(), name });
        }
    }
}

/// The text of a refusal. If it names all that is refused, it does so in the words of Envoy: a server that reads those knows what is to
/// blame, and that the rest was taken.
fn refusal(named: &[String], unnamed: Vec<String>) -> Option<String> {
    let all = format!("Error adding/updating resource(s) {}", named.join(", "));
    if unnamed.is_empty() {
        let count = named.len();
        let first = || cut(format!("{count} resources are refused: {}", named.join(", ")), LONGEST_REFUSAL);
        return (count > 0).then(|| if all.len() <= LONGEST_REFUSAL { all } else { first() });
    }
    Some(cut(unnamed.iter().chain(named).map(String::as_str).collect::<Vec<_>>().join("; "), LONGEST_REFUSAL))
}

/// Names that a response has more than one thing to say about.
fn named_twice(response: &Response) -> BTreeSet<Arc<str>> {
    let mut seen = BTreeSet::new();
    let names = response.arrivals.iter().map(|arrival| &arrival.name).chain(&response.removed);
    names.filter(|name| !seen.insert(Arc::clone(name))).cloned().collect()
}

/// A text of at most so many bytes and in one line: it may be another's words, and may end up in a log.
pub(super) fn cut(text: String, most: usize) -> String {
    let mut text = if text.contains(char::is_control) { text.replace(char::is_control, " ") } else { text };
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
