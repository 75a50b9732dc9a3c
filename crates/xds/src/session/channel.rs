//! What one client has said and been told about one kind of resource. Mechanics only: which resource goes when is decided by the
//! session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;

use super::blockers::PATIENCE;
use super::carriers::Carriers;
use super::known::{Known, KnownNames};
use crate::listing::Listing;
use crate::names::collection_of;
use crate::resource::Version;
use crate::snapshot::Item;
use crate::timed::Timed;
use crate::wire::{AGGREGATED, Nonce, StreamId};

/// Responses of one kind that are told apart while they are not acknowledged. CDS acknowledgements can be withheld for minutes
/// (R2); beyond this number the oldest two are kept as one, so that a client's unanswered responses cost at most this many
/// entries and each resource at most once. Four times [`SPLIT`]: responses that look for a guilty resource must not be kept as one.
const FLIGHTS: usize = 4 * SPLIT;

/// The groups that a refused response is split into. A response costs Envoy about 1 ms, so up to 64 resources go one by one at
/// once, and the guilty one of 10,000 is found in three rounds of at most 64 responses. No more than these are on their way.
const SPLIT: usize = 64;

/// Refusals in a row after which a client is given a rest, besides three for each resource that it knows.
const REFUSALS_AT_ONCE: u32 = 2 * SPLIT as u32;

/// The first rest: a refusal and its trial take some milliseconds, so that a storm costs less than a hundredth of a core.
const FIRST_REST: Duration = Duration::from_millis(500);

/// No rest is longer: whatever was published meanwhile waits for it.
const LONGEST_REST: Duration = Duration::from_secs(15);

/// A response, or several, not acknowledged yet.
pub(super) struct Flight {
    /// The stream that it went out on.
    pub(super) stream: StreamId,
    /// Nonces of the first and the last response in it.
    first: Nonce,
    pub(super) last: Nonce,
    /// When the last was sent.
    pub(super) at: Duration,
    /// Nothing waits for it any more.
    pub(super) overdue: bool,
    /// Takes a refused response back: those under suspicion stay so whatever the answer.
    pub(super) cure: bool,
    /// Was taken back without an answer.
    pub(super) doubted: bool,
    /// SotW: it repeats something else that nobody knows to be good.
    pub(super) crowded: bool,
    /// Shared with other clients of the fleet that are sent the same.
    pub(super) puts: Arc<[Arc<Item>]>,
    pub(super) removed: Vec<Arc<str>>,
}

impl Flight {
    /// Whether an answer to it is still to be expected.
    pub(super) fn is_trusted(&self) -> bool {
        !self.cure && !self.doubted && !self.puts.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.puts.iter().map(|item| item.name()).chain(&self.removed)
    }

    /// How many names are in it.
    fn size(&self) -> usize {
        self.puts.len() + self.removed.len()
    }

    /// Keeps only these names; whether any are left.
    fn keep(&mut self, which: impl Fn(&str) -> bool) -> bool {
        if !self.puts.iter().all(|item| which(item.name())) {
            self.puts = self.puts.iter().filter(|item| which(item.name())).cloned().collect();
        }
        self.removed.retain(|name| which(name));
        self.removed.shrink_to_fit();
        self.size() > 0
    }
}

/// How many names, and how long they are together.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) names: usize,
    pub(super) bytes: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Channel {
    /// The client has asked for this kind by itself.
    pub(super) opened: bool,
    /// Everything is to be compared with the fleet.
    pub(super) compare: bool,
    /// The first request is to be answered even if there is nothing (R6).
    pub(super) owes_first: bool,
    pub(super) wildcard: bool,
    /// SotW: the version that the client came with while nothing was published of which that could be the version. It has something, and
    /// any answer would take away what is not in it.
    pub(super) muted: Option<String>,
    /// SotW: the client came with a version of which nothing is known, and was not sent anything since. It has something, and the first
    /// response takes away what is not in it: all that there is has to be.
    pub(super) uncharted: bool,
    /// The same whatever it was sent since.
    pub(super) had_others: bool,
    /// Since when that response is held back.
    pub(super) held_since: Option<Duration>,
    /// SotW: a response was refused that left something out, which the client may have still.
    pub(super) unheard: bool,
    /// Some response of this stream was taken.
    pub(super) heard: bool,
    /// Where the kind has streams of its own: who asked for what.
    pub(super) carriers: Carriers,
    /// Names that the client said it had under which it had not asked for anything.
    pub(super) listed: Listed,
    pub(super) names: HashSet<Arc<str>>,
    /// Those of them that are collections.
    pub(super) collections: BTreeSet<Arc<str>>,
    pub(super) known: KnownNames,
    /// Names whose resource may differ from what the client has.
    pub(super) dirty: HashSet<Arc<str>>,
    /// Names that are gone and stay with the client until the time under which they stand.
    pub(super) kept: Timed,
    /// Names that need a heartbeat, and when.
    pub(super) beats: Timed,
    /// Names that are to be sent even if nothing changed (R9).
    pub(super) force: HashSet<Arc<str>>,
    /// Names out of refused responses that were not acknowledged since, with the group that they are sent in (R11).
    pub(super) suspects: BTreeMap<Arc<str>, u64>,
    /// Names that a response was refused with among others: they may have been taken all the same (R11).
    pub(super) unsure: BTreeSet<Arc<str>>,
    /// How many dirty names could not be sent the last time because they wait for something.
    pub(super) waiting: usize,
    /// How many dirty names could not be sent the last time because the fleet lacks what they need.
    pub(super) blocked: usize,
    pub(super) flights: VecDeque<Flight>,
    /// Responses that were refused since the last that was not, without a rest between them, and when the last was.
    refusals: u32,
    refused_at: Duration,
    /// So many of them are enough.
    enough: u32,
    /// Nothing new of this kind goes out before: the client refuses everything.
    pub(super) paused_until: Option<Duration>,
}

impl Channel {
    /// Whether the client has, or is about to have, something under this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|known| known.sent.is_some())
    }

    /// Until when a response that would take away what is not ready is held back.
    pub(super) fn held_until(&self) -> Option<Duration> {
        self.held_since.map(|since| since + PATIENCE)
    }

    /// Whether the client has acknowledged something under this name.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|known| known.acked.is_some())
    }

    /// How many names the client asks for, on all streams.
    pub(super) fn asked(&self) -> usize {
        self.names.len().max(self.carriers.names)
    }

    /// Whether the client has asked for this name.
    pub(super) fn subscribed(&self, name: &str) -> bool {
        self.names.contains(name) || self.is_swept_in(name)
    }

    /// Whether the client has asked for this name with others: for everything, or for a collection.
    pub(super) fn is_swept_in(&self, name: &str) -> bool {
        let collected = || collection_of(name).is_some_and(|collection| self.collections.contains(&*collection));
        self.wildcard || !self.collections.is_empty() && collected()
    }

    /// The client wants less: what nothing asks for any more it does not have.
    pub(super) fn forget_unsubscribed(&mut self) {
        let mut known = std::mem::take(&mut self.known);
        known.retain(|name| self.subscribed(name));
        self.known = known;
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.retain(|name, _| self.subscribed(name));
        self.suspects = suspects;
        let mut unsure = std::mem::take(&mut self.unsure);
        unsure.retain(|name| self.subscribed(name));
        self.unsure = unsure;
    }

    /// Nothing is to be done about this name.
    pub(super) fn settle(&mut self, name: &str) {
        self.dirty.remove(name);
        self.kept.release(name);
        self.beats.release(name);
        self.force.remove(name);
    }

    /// A name that is gone stays until then. It keeps the time that it was first given; false if that is over.
    pub(super) fn keep_until(&mut self, name: &Arc<str>, until: Option<Duration>, now: Duration) -> bool {
        let stays = self.kept.of(name).or(until).filter(|until| now < *until);
        if let Some(until) = stays {
            self.kept.set(until, name);
            self.dirty.remove(name);
        }
        stays.is_some()
    }

    /// Whether something is still to be said, or to be answered, about one of these names.
    pub(super) fn has_unsettled(&self, which: impl Fn(&str) -> bool) -> bool {
        let flying = |flight: &Flight| flight.names().any(|name| which(name)) && self.is_awaited(flight);
        self.dirty.iter().any(|name| which(name)) || self.flights.iter().any(flying)
    }

    /// These names are to be looked at again though their time is not over.
    pub(super) fn wake(&mut self, which: impl Fn(&str) -> bool) {
        self.dirty.extend(self.kept.names().filter(|name| which(name)).cloned());
    }

    /// Names whose time is over are to be looked at again.
    pub(super) fn wake_kept(&mut self, now: Duration) {
        self.dirty.extend(self.kept.due(now).cloned());
    }

    /// So many names are about to be asked for.
    pub(super) fn reserve(&mut self, names: usize) {
        for set in [&mut self.names, &mut self.dirty] {
            set.reserve(names.saturating_sub(set.len()));
        }
    }

    /// The names that are to be looked at, in order.
    pub(super) fn dirty_in_order(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self.dirty.iter().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Gives back what a burst of names took. A client is idle most of its life.
    pub(super) fn shrink(&mut self) {
        for names in [&mut self.dirty, &mut self.force] {
            if names.len() < names.capacity() / 4 {
                names.shrink_to_fit();
            }
        }
        self.known.shrink();
    }

    /// The client has let go of this name.
    pub(super) fn forget(&mut self, name: &str) {
        self.known.remove(name);
        self.settle(name);
        self.suspects.remove(name);
        self.unsure.remove(name);
    }

    /// This stream is to be told what there is under this name, whatever the client has.
    pub(super) fn owe(&mut self, stream: StreamId, name: &Arc<str>) {
        self.dirty.insert(Arc::clone(name));
        self.force.insert(Arc::clone(name));
        if stream != AGGREGATED {
            self.carriers.owe(stream, name);
            // what another stream has not answered yet is nothing to wait for
            self.known.edit(name, |known| known.flying = None);
        }
    }

    /// Whether the stream whose answers count for this name now has what the client has acknowledged and was sent last.
    pub(super) fn is_inherited(&self, name: &str) -> bool {
        let known = self.known.get(name).unwrap_or_default();
        known.acked == known.sent && self.carriers.is_up_to_date(name, self.wildcard)
    }

    /// Keeps few unanswered responses, and in them about as many names as the client has: an answer about what it has let go of says
    /// nothing. They are looked at only where they hold more than twice that.
    pub(super) fn bound_flights(&mut self) {
        let most = FLIGHTS + 2 * self.known.len().max(self.asked());
        let mut names: usize = self.flights.iter().map(Flight::size).sum();
        if names > most {
            let Self { flights, known, .. } = self;
            flights.retain_mut(|flight| flight.size() == 0 || flight.keep(|name| known.contains_key(name)));
            names = flights.iter().map(Flight::size).sum();
        }
        let aggregated = self.flights.front().is_some_and(|flight| flight.stream == AGGREGATED);
        while aggregated && self.flights.len() > 1 && (self.flights.len() >= FLIGHTS || names > most) {
            names -= self.merge_oldest();
        }
        // an answer on one stream says nothing about what went out on another
        let mut due = !aggregated && self.flights.len() >= FLIGHTS;
        while !aggregated && (std::mem::take(&mut due) || names > most) {
            let Some(flight) = self.flights.pop_front_if(|flight| flight.overdue) else { break };
            names -= flight.size();
        }
    }

    /// The client finds out by itself that these are gone.
    pub(super) fn unsaid(&mut self, removed: &[Arc<str>]) {
        for name in removed {
            self.settle(name);
            self.known.remove(name);
            self.unsure.remove(name);
        }
    }

    /// Notes a response that is being sent.
    pub(super) fn sent(
        &mut self,
        (stream, nonce): (StreamId, Nonce),
        (puts, listing): (&Arc<[Arc<Item>]>, Option<&Arc<Listing>>),
        removed: &[Arc<str>],
        at: Duration,
    ) {
        if let Some(listing) = listing.filter(|_| puts.len() >= self.known.listed()) {
            self.known.list(listing, nonce);
        }
        let puts_now = puts.iter().map(|item| (item.name(), Some(item.version().mark())));
        for (name, sent) in puts_now.chain(removed.iter().map(|name| (name, None))) {
            self.settle(name);
            let known = self.known.get(name).unwrap_or_default();
            self.known.insert(name, Known { sent, flying: Some(nonce), ..known });
        }
        self.shrink();
        self.bound_flights();
        let (puts, removed) = (Arc::clone(puts), removed.to_vec());
        self.flights.push_back(Flight {
            stream,
            first: nonce,
            last: nonce,
            at,
            overdue: false,
            cure: false,
            doubted: false,
            crowded: false,
            puts,
            removed,
        });
    }

    /// The flight that this answer is about: none if it is unknown, or not the last of several.
    pub(super) fn answered(&mut self, nonce: Nonce, refused: bool) -> Option<Flight> {
        let index = self.flights.partition_point(|flight| flight.last < nonce);
        let flight = self.flights.get(index).filter(|flight| flight.first <= nonce)?;
        if flight.last == nonce || refused { self.flights.remove(index) } else { None }
    }

    /// SotW: of several answers that Envoy withholds, the last is all that comes, with the words of the first that refuses (R2). What
    /// was sent before it is not answered any more. What took something back, or was not answered for long, proves nothing of what is under
    /// suspicion; after a refusal the latter stays, as it may have been refused before this.
    pub(super) fn answered_along(&mut self, answered: &mut Flight, refused: bool) {
        let earlier = |flight: &Flight| flight.last < answered.first && flight.stream == answered.stream;
        let (along, left) = std::mem::take(&mut self.flights)
            .into_iter()
            .partition(|flight| earlier(flight) && !(refused && flight.overdue));
        self.flights = left;
        let along: VecDeque<Flight> = along;
        for mut flight in along.into_iter().rev() {
            let named: HashSet<Arc<str>> = answered.names().cloned().collect();
            flight.keep(|name| !named.contains(name));
            if refused || !flight.overdue && !flight.cure && !flight.doubted {
                answered.puts = answered.puts.iter().chain(&*flight.puts).cloned().collect();
                answered.removed.append(&mut flight.removed);
            } else {
                flight.cure = true;
                self.land(&flight, true);
            }
        }
    }

    /// Each name of an answered flight is free again; `acked` says whether the client has what was sent.
    pub(super) fn land(&mut self, flight: &Flight, acked: bool) {
        self.heard |= acked;
        for item in &*flight.puts {
            let Some(mut known) = self.known.get(item.name()) else { continue };
            if acked {
                known.acked = Some(item.version().mark());
                self.unsure.remove(item.name());
                if known.flying.is_none() && known.sent.is_some() && known.sent != known.acked {
                    // it was taken back without an answer, and here that comes late
                    known.sent = known.acked;
                    self.dirty.insert(Arc::clone(item.name()));
                }
            } else if flight.puts.len() > 1 {
                self.unsure.insert(Arc::clone(item.name()));
            }
            if known.flying <= Some(flight.last) {
                known.flying = None;
                // of what was sent since, and need not be waited for, it says nothing
                if !acked && known.sent == Some(item.version().mark()) {
                    known.sent =
                        if self.unsure.contains(item.name()) { Some(Version::UNSURE.mark()) } else { known.acked };
                }
            }
            self.known.insert(item.name(), known);
            if acked && !flight.cure {
                self.suspects.remove(item.name());
            }
        }
        for name in &flight.removed {
            let over =
                self.known.get(name).is_some_and(|known| known.sent.is_none() && known.flying <= Some(flight.last));
            if over {
                self.known.remove(name);
            } else {
                self.known.edit(name, |known| {
                    if known.flying > Some(flight.last) || known.acked != known.sent {
                        // what it had before it let go of that it has no more, whatever becomes of what was sent since
                        known.acked = (!acked).then(|| Version::UNSURE.mark());
                    }
                });
            }
            if acked {
                self.unsure.remove(name);
            }
        }
    }

    /// Counts refusals in a row. To find the guilty ones each resource is refused with many, with some and by itself; whoever refuses more
    /// than that is not told anything new for a while, longer and longer.
    pub(super) fn count_refusal(&mut self, refused: bool, now: Duration) {
        let rest = self.paused_until.map_or(self.refused_at, |until| until.max(self.refused_at));
        let in_a_row = now < rest + FIRST_REST;
        self.refusals = if !refused {
            0
        } else if in_a_row {
            self.refusals.saturating_add(1)
        } else {
            1
        };
        self.refused_at = now;
        let names = u32::try_from(self.known.len() + self.suspects.len()).unwrap_or(u32::MAX / 4);
        let enough = REFUSALS_AT_ONCE.saturating_add(names.saturating_mul(3));
        self.enough = if self.refusals > 1 { self.enough.max(enough) } else { enough };
        let beyond = self.refusals.checked_sub(self.enough);
        self.paused_until = beyond.map(|beyond| now + FIRST_REST.saturating_mul(beyond.max(1)).min(LONGEST_REST));
    }

    /// This name need not wait for the answer to a response before `nonce`.
    pub(super) fn witness(&mut self, name: &str, nonce: Nonce) -> bool {
        let is_before = |known: &mut Known| known.flying.take_if(|flying| *flying < nonce).is_some();
        self.known.edit(name, is_before).unwrap_or_default()
    }

    /// Whether a response of this kind is to be waited for.
    pub(super) fn is_flying(&self) -> bool {
        self.flights.iter().any(|flight| self.is_awaited(flight))
    }

    /// How many more responses with resources under suspicion may go now.
    pub(super) fn room_for_trials(&self) -> usize {
        let trials = self.flights.iter().filter(|flight| self.is_awaited(flight) && self.is_trial(flight));
        SPLIT.saturating_sub(trials.count())
    }

    /// Whether the response holds resources under suspicion.
    pub(super) fn is_trial(&self, flight: &Flight) -> bool {
        !flight.cure && flight.puts.iter().any(|item| self.suspects.contains_key(item.name()))
    }

    /// Whether an answer is to be expected, whatever is known of its names by other ways.
    pub(super) fn has_unanswered(&self) -> bool {
        self.flights.iter().any(|flight| !flight.overdue)
    }

    /// Whether some name of the flight waits for its answer.
    pub(super) fn is_awaited(&self, flight: &Flight) -> bool {
        let awaited = |name: &Arc<str>| {
            self.known.get(name).is_some_and(|k| k.flying >= Some(flight.first) && k.flying <= Some(flight.last))
        };
        let empty = flight.puts.is_empty() && flight.removed.is_empty();
        !flight.overdue && (empty || flight.names().any(awaited))
    }

    /// Nothing waits any longer for flights that were sent before `limit`; whether that is new of some.
    pub(super) fn give_up_before(&mut self, limit: Duration) -> bool {
        let mut some = false;
        for flight in self.flights.iter_mut().filter(|flight| !flight.overdue && flight.at <= limit) {
            (flight.overdue, some) = (true, true);
            for name in flight.puts.iter().map(|item| item.name()).chain(&flight.removed) {
                self.known.edit(name, |known| known.flying.take_if(|flying| *flying <= flight.last));
            }
        }
        some
    }

    /// One of the kind's streams has ended: what went out on it is not answered any more, and may not have been heard.
    pub(super) fn end(&mut self, stream: StreamId) {
        self.carriers.forget(stream);
        let (ended, left): (VecDeque<Flight>, _) =
            std::mem::take(&mut self.flights).into_iter().partition(|flight| flight.stream == stream);
        self.flights = left;
        for flight in &ended {
            for name in flight.names() {
                let flew = self.known.edit(name, |known| known.flying.take_if(|flying| *flying <= flight.last));
                if flew.flatten().is_some() {
                    self.dirty.insert(Arc::clone(name));
                    if !self.is_inherited(name) {
                        self.force.insert(Arc::clone(name));
                    }
                }
            }
        }
    }

    /// What the client may have or not, and will not say so when it comes again.
    pub(super) fn doubts(&self, each_flight: bool) -> impl Iterator<Item = &Arc<str>> {
        let flights = self.flights.iter().filter(move |flight| each_flight || flight.puts.len() > 1);
        flights.flat_map(|flight| &*flight.puts).map(|item| item.name()).chain(&self.unsure)
    }

    /// Whatever was sent under this name last was taken back: the client has what it acknowledged.
    pub(super) fn release(&mut self, name: &str) {
        self.known.edit(name, |known| (known.flying, known.sent) = (None, known.acked));
    }

    /// The resources of a refused response are each under suspicion from now on; `groups` numbers groups over all time.
    pub(super) fn suspect(&mut self, items: &[Arc<Item>], groups: &mut u64) {
        let size = items.len().div_ceil(SPLIT).max(1);
        for chunk in items.chunks(size) {
            *groups += 1;
            for item in chunk {
                self.suspects.insert(Arc::clone(item.name()), *groups);
                self.dirty.insert(Arc::clone(item.name()));
            }
        }
    }

    /// Makes one flight of the two oldest. Of two versions of one name the later stays. By how many names there are fewer.
    fn merge_oldest(&mut self) -> usize {
        let (Some(old), Some(next)) = (self.flights.pop_front(), self.flights.front_mut()) else { return 0 };
        let before = old.size() + next.size();
        let newer: HashSet<Arc<str>> = next.names().cloned().collect();
        next.first = old.first;
        let older = old.puts.iter().filter(|item| !newer.contains(item.name()));
        next.puts = next.puts.iter().chain(older).cloned().collect();
        next.removed.extend(old.removed.into_iter().filter(|name| !newer.contains(name)));
        before - next.size()
    }
}
