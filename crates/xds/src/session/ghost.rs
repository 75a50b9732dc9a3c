//! Clusters that were refused without a word: their refusal is withheld because of themselves (R2, R11a).
//!
//! Envoy withholds CDS answers while a cluster warms, and a cluster that it rejects late counts as warming for ever. If such a
//! cluster comes while another warms, its refusal never arrives. The signs: Envoy acknowledges everything else, and no cluster is
//! left that could still get ready. Then what was not answered is taken back, which opens the gate, and goes again one by one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Session;
use super::channel::{Channel, Flight};
use super::clusters::Cure;
use crate::fleet::Fleet;
use crate::resource::TypeUrl;
use crate::snapshot::{Item, Look};

/// How long an answer is awaited before it is taken for withheld: well above the 2 to 16 ms that ordinary clusters need. Sooner would take
/// back what merely is slow. Only what gets no answer at all waits for this: in SotW the last answer tells of those before it
/// (`Channel::answered_along`).
const WITHHELD: Duration = Duration::from_secs(5);

/// The same while Envoy has not asked for any endpoints since it was sent clusters: on a first start it needs seconds for many of them. That it
/// has asked before says nothing: clusters of its bootstrap may have endpoints from here.
const WITHHELD_AT_START: Duration = Duration::from_secs(30);

/// Of so many clusters that wait for their answers together each as many more are awaited that long again: Envoy needs 7 s for 10,000 that come at once.
const MANY: usize = 1_000;

/// How often a version is taken back like this before it counts as refused.
const CHANCES: u8 = 2;

impl Session {
    /// Takes back what holds the gate shut. Only Envoy has a gate: another client that does not answer has its own reasons, and
    /// goes on with the clusters that it was sent. Nor does it say anything of a gate that Envoy answers nothing at all.
    pub(super) fn lay_ghosts(&mut self, fleet: &mut Fleet, now: Duration) {
        if !self.has_gate() || self.is_silent() {
            return;
        }
        let patience = self.patience_with_answers();
        let due = |flight: &&Flight| flight.is_trusted() && now >= flight.at + patience;
        let Some(clusters) = self.channels.get(&TypeUrl::Cluster) else { return };
        let flights = clusters.flights.iter().filter(due);
        let items: Vec<Arc<Item>> = flights.flat_map(|flight| flight.puts.iter().cloned()).collect();
        if items.is_empty() {
            return;
        }
        let others = self.clusters.cold.iter().any(|(_, cold)| cold.nonce.is_some() && cold.may_warm());
        let mut cure = Cure::default();
        let mut again = Vec::new();
        for item in items.into_iter().filter(|item| self.is_unproven(item)) {
            match self.clusters.cold.get(item.name()) {
                Some(cold) if cold.nonce.is_some() && !cold.may_warm() && (cold.asks || !others) => {
                    cure.removed.push(Arc::clone(item.name()));
                }
                Some(_) => continue,
                None if others => continue,
                None if !self.is(&TypeUrl::Cluster, |clusters| clusters.holds(item.name())) => {
                    cure.removed.push(Arc::clone(item.name()));
                }
                None => cure.puts.extend(self.see(fleet).accepted(&TypeUrl::Cluster, item.name()).cloned()),
            }
            again.push(item);
        }
        if !again.is_empty() {
            for flight in
                self.channel(&TypeUrl::Cluster).flights.iter_mut().filter(|flight| now >= flight.at + patience)
            {
                flight.doubted = true;
            }
            self.take_back(fleet, cure, again, now);
        }
    }

    /// Whether the client withholds answers about clusters: on a stream of its own Envoy does not (measured).
    fn has_gate(&self) -> bool {
        self.envoy && self.aggregated
    }

    /// What the client may hold as ghosts is to be known to the next life of the process too: what it refused, and what it has not answered
    /// for long. Called with each message and each look; what is merely dropped among many that have no answer is told with the next change.
    pub(super) fn tell_ghosts(&mut self, fleet: &mut Fleet) {
        if std::mem::replace(&mut self.clusters.ghosts_told, true) {
            #[cfg(any(test, fuzzing))]
            assert!(fleet.knows_ghosts(self.client, &self.node.id, &self.ghosts()), "a change was not told");
            return;
        }
        fleet.haunt(self.client, &self.node.id, self.ghosts());
    }

    fn ghosts(&self) -> BTreeSet<Arc<str>> {
        let flights = self.channels.get(&TypeUrl::Cluster).into_iter().flat_map(|clusters| &clusters.flights);
        let silent = flights.filter(|flight| flight.overdue).flat_map(Flight::names);
        self.clusters.uncured.iter().chain(silent).cloned().collect()
    }

    /// Whether the version was sent last and nothing proves that the client took it.
    pub(super) fn is_unproven(&self, item: &Item) -> bool {
        let version = Some(item.version().mark());
        let unproven = |clusters: &Channel| {
            clusters.known.get(item.name()).is_some_and(|known| known.sent == version && known.acked != version)
        };
        self.is(&TypeUrl::Cluster, unproven)
    }

    fn take_back(&mut self, fleet: &mut Fleet, mut cure: Cure, again: Vec<Arc<Item>>, now: Duration) {
        cure.removed.sort_unstable();
        cure.removed.dedup();
        cure.puts.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        cure.puts.dedup_by(|a, b| a.name() == b.name());
        // what was not answered will not be missed: the gate lets go of all its answers when it opens
        let clusters = self.channel(&TypeUrl::Cluster);
        for name in again.iter().map(|item| item.name()) {
            clusters.release(name);
        }
        for name in &cure.removed {
            self.clusters.cold.remove(name);
        }
        if !cure.puts.is_empty() || !cure.removed.is_empty() {
            self.clusters.cures.push(cure);
        }
        let mut groups = self.groups;
        for item in again {
            // what is gone is not tried again
            if self.see(fleet).current(&TypeUrl::Cluster, item.name()).is_none() {
                self.channel(&TypeUrl::Cluster).dirty.insert(Arc::clone(item.name()));
            } else if self.is_out_of_chances(&item) {
                self.refuse(fleet, &item, "it neither became ready nor was refused", now);
            } else {
                self.channel(&TypeUrl::Cluster).suspect(&[Arc::clone(&item)], &mut groups);
            }
            self.note_cold(fleet, item.name(), now);
        }
        self.groups = groups;
    }

    fn is_out_of_chances(&mut self, item: &Item) -> bool {
        let entry = self.clusters.haunted.entry(Arc::clone(item.name())).or_insert((item.version(), 0));
        if entry.0 != item.version() {
            *entry = (item.version(), 0);
        }
        entry.1 += 1;
        entry.1 > CHANCES
    }

    /// When the answer of a CDS response counts as withheld.
    pub(super) fn withheld_at(&self) -> Option<Duration> {
        if !self.has_gate() {
            return None;
        }
        let patience = self.patience_with_answers();
        let clusters = self.channels.get(&TypeUrl::Cluster)?;
        clusters.flights.iter().filter(|flight| flight.is_trusted()).map(|flight| flight.at + patience).min()
    }

    fn patience_with_answers(&self) -> Duration {
        let few =
            if self.clusters.endpoints_asked || self.configured || self.resumed { WITHHELD } else { WITHHELD_AT_START };
        let flights = self.channels.get(&TypeUrl::Cluster).into_iter().flat_map(|clusters| &clusters.flights);
        let waiting: usize = flights.map(|flight| flight.puts.len()).sum();
        few * u32::try_from(1 + waiting / MANY).unwrap_or(u32::MAX)
    }
}
