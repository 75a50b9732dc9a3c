//! What the passing of time means. All times are since the same arbitrary moment, and arguments.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Session;
use super::blockers::PATIENCE;
use super::channel::Channel;
use super::cold::Cold;
use crate::fleet::{Fleet, Stage};
use crate::resource::{Need, TypeUrl};

/// An ordinary cluster is ready after 2 to 16 ms, one with active health checks after their time-out, usually 1 s: what is not
/// ready after this time is not going to be soon.
pub const STALLED: Duration = Duration::from_secs(2);

/// The same on a first start: Envoy needs 17 s for 50,000 clusters.
const STALLED_AT_START: Duration = Duration::from_secs(30);

/// Longest time that the first listeners of a client wait for clusters apart: what resolves names answers in some milliseconds, in some hundred where it
/// asks others, and behind a second where a packet was lost. Routes to what is later than that answer 503 until it is ready; all others are served.
/// One such cluster adds this much to each start of a proxy.
pub(crate) const GRACE: Duration = Duration::from_millis(1_500);

/// How long clusters apart wait on a first start for Envoy to ask for listeners, which it does as soon as all clusters before them are ready.
/// An Envoy whose listeners stand in its bootstrap never asks.
const WITHOUT_LISTENERS: Duration = Duration::from_secs(1);

/// After this time a response that is not answered does not hold back newer versions any more. Envoy answers in milliseconds, or
/// never (an SDS response before it has asked for any secret; CDS while a cluster warms).
const UNANSWERED: Duration = Duration::from_secs(5);

/// A client that has not answered for this long does not keep up, and the fleet's facts do without it. CDS does not count. The same of one
/// that has not taken all that it was told, whatever it is.
pub(crate) const LAGGING: Duration = Duration::from_secs(2);

/// A listener that changes goes on for the connections that it has, with the routes that it had; each is told to close with its next
/// answer (`--drain-strategy immediate`). What these routes name stays for this long, in which a client that keeps a connection as a
/// rule uses it once.
const DRAINING: Duration = Duration::from_secs(60);

impl Session {
    /// What is due by now.
    pub(super) fn pass_time(&mut self, fleet: &mut Fleet, now: Duration) {
        self.retry = fleet.retry(now);
        self.tell_clusters_unasked(fleet, now);
        // before it is given up
        self.ignored = self.ignored.max(self.lags_since(now));
        for (type_url, channel) in &mut self.channels {
            channel.wake_kept(now);
            let limit = now.checked_sub(UNANSWERED);
            let given_up = limit.is_some_and(|limit| channel.give_up_before(limit));
            self.clusters.ghosts_told &= !(given_up && *type_url == TypeUrl::Cluster);
        }
        self.tell_ghosts(fleet);
        let lagging = self.lags_since(now).is_some();
        if lagging || self.is_silent() {
            self.uncount(fleet);
        }
        if !lagging {
            self.lay_ghosts(fleet, now);
        }
        // that the client is slow or silent, or that what a cluster needs is not saved, says nothing about the cluster
        let excused = lagging || self.is_silent() || self.behind || fleet.is_last_good();
        if let Some(limit) = now.checked_sub(self.patience_with_clusters()) {
            self.clusters.cold.edit_waiting(limit, |cold| match excused {
                true => cold.since = now,
                false => cold.stalled = true,
            });
        }
        if !excused {
            self.end_grace(now);
        }
    }

    /// The client has nothing yet, and serves nothing.
    pub(super) fn starts(&self) -> bool {
        !self.resumed && !self.configured
    }

    /// Returns true once clusters apart may go. On a first start Envoy asks for listeners only when all clusters are ready that it has by then: one
    /// that is slow would keep it from that, and is no hindrance afterwards.
    pub(super) fn has_begun_clusters(&mut self, now: Duration) -> bool {
        if !self.envoy || !self.starts() || self.is(&TypeUrl::Listener, |listeners| listeners.opened) {
            return true;
        }
        let since = *self.clusters.apart_since.get_or_insert(now);
        now >= since + WITHOUT_LISTENERS
    }

    /// The listeners of a client that starts have waited long enough for clusters that were sent and are not ready. While the client has not
    /// said a word of them, or has not answered something else, it is busy, and they may be ready soon: so long it may take as for any cluster.
    fn end_grace(&mut self, now: Duration) {
        let Some(first) = self.clusters.graced.first().map(|(since, _)| *since) else { return };
        let busy = self.oldest_unanswered().is_some();
        if now < first + if busy { PATIENCE } else { GRACE } {
            return;
        }
        let due = self.clusters.graced.iter().take_while(|(since, _)| now >= *since + GRACE);
        let is_over = |(since, name): &&(Duration, Arc<str>)| {
            now >= *since + PATIENCE || !busy && self.clusters.cold.get(name).is_none_or(|cold| self.has_come_to(&cold))
        };
        for over in due.filter(is_over).cloned().collect::<Vec<_>>() {
            self.clusters.graced.remove(&over);
            self.clusters.cold.edit(&over.1, |cold| cold.stalled |= cold.nonce.is_some());
        }
    }

    /// Whether the client has come to this cluster, as far as it can be known: it has its endpoints, and has asked for its secrets. Where it has
    /// names to resolve it asks for secrets only behind that.
    fn has_come_to(&self, cold: &Cold) -> bool {
        let mut secrets = cold.item.resource.needs().filter(|need| need.type_url == TypeUrl::Secret);
        let is_asked = |need: &Need| self.is(&TypeUrl::Secret, |secrets| secrets.subscribed(&need.name));
        let has_endpoints = || self.is(&TypeUrl::Endpoints, |sets| sets.holds(cold.item.name()));
        !cold.asks || cold.subscribed.is_some() && has_endpoints() && secrets.all(is_asked)
    }

    /// When that is to be looked at.
    fn grace_ends(&self, now: Duration) -> Option<Duration> {
        let graced = &self.clusters.graced;
        let last = graced.first().map(|(since, _)| *since + PATIENCE).filter(|at| *at > now);
        let later = now.checked_sub(GRACE).map_or(Duration::ZERO, |limit| limit + Duration::from_nanos(1));
        let next = graced.range((later, Arc::default())..).next().map(|(since, _)| *since + GRACE);
        next.into_iter().chain(last).min()
    }

    /// When clusters apart go though Envoy has not asked for listeners.
    fn apart_go_at(&self) -> Option<Duration> {
        let waits = self.starts() && !self.is(&TypeUrl::Listener, |listeners| listeners.opened);
        self.clusters.apart_since.filter(|_| waits).map(|since| since + WITHOUT_LISTENERS)
    }

    /// Nobody waits for this client any more.
    fn uncount(&mut self, fleet: &mut Fleet) {
        if std::mem::take(&mut self.counted) {
            fleet.uncount(self.client, |key| self.confirmed(key));
        }
    }

    /// The client does not take what it is told, and so is not looked at.
    pub(crate) fn fall_behind(&mut self, fleet: &mut Fleet) {
        self.behind = true;
        self.uncount(fleet);
    }

    /// It takes what it is told again.
    pub(crate) fn catch_up(&mut self, now: Duration) {
        self.behind = false;
        // what it has only now has had no time to get ready
        self.clusters.cold.edit_waiting(now, |cold| cold.since = now);
    }

    /// While a cluster warms Envoy withholds what it has to say about clusters, on a stream that begins meanwhile the request for them too
    /// (R13). If that one never gets ready, because its name does not resolve or it is a ghost of an earlier stream, that is for ever:
    /// it is told all that there is unasked, which it takes (measured).
    fn tell_clusters_unasked(&mut self, fleet: &mut Fleet, now: Duration) {
        if self.clusters_withheld().is_none_or(|at| now < at) {
            return;
        }
        let doubts = fleet.take_doubts(&self.node.id, &TypeUrl::Cluster);
        self.unasked = true;
        let clusters = self.channel(&TypeUrl::Cluster);
        (clusters.opened, clusters.wildcard, clusters.compare) = (true, true, true);
        self.inherit(fleet, &TypeUrl::Cluster, doubts);
        if self.repeats(&TypeUrl::Cluster) {
            // and with which version it came it has not said
            self.channel(&TypeUrl::Cluster).muted = Some(String::new());
            self.unmute(fleet);
        }
    }

    /// When a request for clusters that has not come counts as withheld.
    fn clusters_withheld(&self) -> Option<Duration> {
        let opened = |type_url| self.is(type_url, |channel| channel.opened);
        let resumes = self.envoy && self.aggregated && self.resumed;
        let withheld = resumes && opened(&TypeUrl::Endpoints) && !opened(&TypeUrl::Cluster);
        self.introduction_ends().filter(|_| withheld)
    }

    /// Tells the fleet which clusters do not get ready here.
    pub(super) fn tell_stalled(&mut self, fleet: &mut Fleet) {
        let speaks = self.takes_all(&TypeUrl::Cluster);
        let cold = &mut self.clusters.cold;
        if std::mem::replace(&mut cold.told, speaks) && speaks {
            return;
        }
        let stalled = cold.iter().filter(|(_, cold)| cold.stalled).map(|(name, _)| Arc::clone(name));
        let stalled: BTreeSet<Arc<str>> = if speaks { stalled.collect() } else { BTreeSet::new() };
        let before = std::mem::replace(&mut self.stalled, stalled);
        self.stalled.difference(&before).for_each(|name| fleet.stall(self.client, name));
        before.difference(&self.stalled).for_each(|name| fleet.unstall(self.client, name));
    }

    /// A listener that had connections is another one, or gone.
    pub(super) fn begin_drain(&mut self, now: Duration) {
        if self.configured || self.resumed {
            self.drains_until = Some(now + DRAINING);
        }
    }

    /// Until when what listeners named before may be in use. A change that is under way counts as begun now; what changed on an earlier
    /// stream of the client did so before this one began.
    pub(super) fn drain_ends(&self, now: Duration) -> Option<Duration> {
        let removes = |channel: &Channel| channel.flights.iter().any(|flight| !flight.removed.is_empty());
        let changes = self.activations.values().any(|activation| activation.changes);
        let under_way = (changes || self.is(&TypeUrl::Listener, removes)).then_some(now);
        let earlier = self.began.filter(|_| self.resumed);
        [self.drains_until, under_way.map(|at| at + DRAINING), earlier.map(|at| at + DRAINING)].into_iter().max()?
    }

    /// A new cluster whose parts the fleet lacks gets ready no sooner for waiting.
    pub(super) fn stall(&mut self, type_url: &TypeUrl, name: &Arc<str>) {
        if *type_url == TypeUrl::Cluster {
            self.clusters.cold.edit(name, |cold| cold.stalled = true);
        }
    }

    /// When [`Session::advance`] is to be called again even if nothing happens; none if that is not needed.
    pub(crate) fn next_deadline(&self, fleet: &Fleet, now: Duration) -> Option<Duration> {
        if fleet.stage() == Stage::Unknown {
            return None;
        }
        let patience = self.patience_with_clusters();
        let cold = self.clusters.cold.oldest().map(|since| since + patience);
        let waits = self.waits.values().map(|wait| wait.until);
        let awaited = self.channels.values().flat_map(|c| c.flights.iter().filter(|flight| !flight.overdue));
        let unanswered = awaited.map(|flight| flight.at + UNANSWERED);
        let lag = self.oldest_unanswered().filter(|_| self.counted).map(|at| at + LAGGING);
        let introduction = self.introduction_ends().filter(|end| self.resumed && *end > now);
        let introduction = introduction.filter(|_| self.channels.values().any(|channel| !channel.dirty.is_empty()));
        let withheld = self.withheld_at().filter(|at| *at > now);
        let drained = self.channels.values().filter_map(|channel| channel.kept.next(now)).min();
        let beats = self.channels.values().filter_map(|channel| channel.beats.next(now)).min();
        let held = self.channels.values().filter_map(|channel| channel.held_until()).filter(|until| *until > now);
        let rests = self.channels.values().filter_map(|channel| channel.paused_until).filter(|until| *until > now);
        cold.into_iter()
            .chain(introduction)
            .chain(rests)
            .chain(held)
            .chain(self.clusters_withheld().filter(|at| *at > now))
            .chain(self.grace_ends(now))
            .chain(self.apart_go_at().filter(|at| *at > now))
            .chain(self.parted_until.filter(|at| *at > now))
            .chain(drained)
            .chain(beats)
            .chain(withheld)
            .chain(self.retry)
            .chain(waits.filter(|at| *at > now))
            .chain(unanswered)
            .chain(lag)
            .min()
    }

    /// Whether the client has everything, and whether it keeps up.
    pub(super) fn judge_client(&mut self, fleet: &mut Fleet, now: Duration) {
        if self.counted || fleet.is_last_good() {
            return;
        }
        self.configured |= self.has_everything();
        let lagging = self.lags_since(now).is_some();
        if self.configured && !lagging && !self.is_silent() && !self.behind {
            self.counted = true;
            fleet.count(self.client);
        }
    }

    /// Whether the client has acknowledged all that it should have. Clusters that are known not to get ready do not count.
    fn has_everything(&self) -> bool {
        let done = || {
            self.channels.iter().all(|(type_url, channel)| {
                let stalled = |name: &Arc<str>| self.clusters.cold.get(name).is_some_and(|cold| cold.stalled);
                let withheld =
                    |item: &Arc<crate::snapshot::Item>| *type_url == TypeUrl::Cluster && stalled(item.name());
                let open = channel.flights.iter().filter(|flight| channel.is_awaited(flight));
                channel.dirty.len() == channel.blocked
                    && open.into_iter().all(|f| !f.puts.is_empty() && f.puts.iter().all(withheld))
            })
        };
        self.takes_all(&TypeUrl::Cluster)
            && self.takes_all(&TypeUrl::Listener)
            && done()
            && self.clusters.cures.is_empty()
            && self.activations.is_empty()
            && self.clusters.cold.is_settled()
    }

    /// Whether the client takes all that there is of a kind. What others make of some says nothing about the fleet.
    fn takes_all(&self, type_url: &TypeUrl) -> bool {
        self.is(type_url, |channel| channel.opened && channel.wildcard)
    }

    /// When the oldest response was sent that the client should have answered.
    fn oldest_unanswered(&self) -> Option<Duration> {
        let kinds = self.channels.iter().filter(|(type_url, channel)| **type_url != TypeUrl::Cluster && channel.opened);
        kinds.flat_map(|(_, c)| c.flights.iter().filter(|flight| c.is_awaited(flight))).map(|flight| flight.at).min()
    }

    /// Whether it has said nothing since it did not answer in time.
    pub(super) fn is_silent(&self) -> bool {
        self.ignored.is_some_and(|at| self.heard <= at)
    }

    /// The same, if it should have answered by now.
    fn lags_since(&self, now: Duration) -> Option<Duration> {
        self.oldest_unanswered().filter(|at| now >= *at + LAGGING)
    }

    fn patience_with_clusters(&self) -> Duration {
        if self.configured || self.resumed { STALLED } else { STALLED_AT_START }
    }
}
