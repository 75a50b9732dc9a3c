//! What a client holds, for people to look at (CSDS). Only reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Session;
use super::channel::Channel;
#[cfg(any(test, fuzzing))]
use super::{channel::Flight, sotw::SentItems};
use crate::fleet::Fleet;
use crate::names::EVERYTHING;
use crate::resource::{TypeUrl, Version};
use crate::snapshot::Look;

/// How a client stands to what its fleet has under a name now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has acknowledged it.
    Synced,
    /// It has not been sent it.
    NotSent,
    /// It was sent it and has not answered.
    Stale,
    /// It refuses it, in these words, which hold nothing secret (R12).
    Refused(Arc<str>),
}

/// One name that a client knows or asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: Arc<str>,
    /// What it has acknowledged last; none if that is nothing, or nothing that the fleet remembers.
    pub(crate) version: Option<Version>,
    pub(crate) standing: Standing,
}

impl Session {
    /// How many things are kept for the client.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn entries(&self) -> usize {
        self.kept().iter().map(|(_, count)| count).sum()
    }

    /// What they are.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kept(&self) -> Vec<(&'static str, usize)> {
        let of_all =
            |count: &dyn Fn(&Channel) -> usize| self.channels.values().map(|channel| count(channel)).sum::<usize>();
        let flight = |flight: &Flight| 1 + flight.puts.len() + flight.removed.len();
        vec![
            ("names", of_all(&|channel| channel.names.len() + channel.collections.len() + channel.carriers.names)),
            ("known", of_all(&|channel| channel.known.len())),
            ("flights", of_all(&|channel| channel.flights.iter().map(flight).sum())),
            ("dirty", of_all(&|channel| channel.dirty.len())),
            ("force", of_all(&|channel| channel.force.len())),
            ("suspects", of_all(&|channel| channel.suspects.len())),
            ("unsure", of_all(&|channel| channel.unsure.len())),
            ("owed", of_all(&|channel| channel.carriers.owed())),
            ("kept", of_all(&|channel| channel.kept.names().count())),
            ("beats", of_all(&|channel| channel.beats.names().count())),
            ("sent items", self.sent_items.values().map(SentItems::len).sum()),
            ("cold", self.clusters.cold.len()),
            ("sharers", self.clusters.sharers.len()),
            ("without secret", self.clusters.without_secret.len()),
            ("without witness", self.clusters.without_witness.len()),
            ("cures", self.clusters.cures.len()),
            ("haunted", self.clusters.haunted.len()),
            ("uncured", self.clusters.uncured.len()),
            ("waits", self.waits.len()),
            ("lost hosts", self.lost_hosts.len()),
            ("asked", self.asked.len()),
            ("activations", self.activations.len()),
            ("refused", self.refused.values().map(BTreeSet::len).sum()),
        ]
    }

    /// Everything that the client knows or asks for, sorted by kind and name.
    pub(crate) fn holdings(&self, fleet: &Fleet) -> Vec<Holding> {
        let mut all = Vec::new();
        self.visit_holdings(fleet, |holding| {
            all.push(holding);
            true
        });
        all
    }

    /// Shows the same one by one, for as long as `visit` returns true.
    pub(crate) fn visit_holdings(&self, fleet: &Fleet, mut visit: impl FnMut(Holding) -> bool) {
        for (type_url, channel) in &self.channels {
            let mut names: BTreeSet<&Arc<str>> = channel.known.keys().chain(&channel.names).collect();
            if channel.wildcard {
                names.extend(fleet.snapshot().targets(type_url).map(|item| item.name()));
            }
            names.remove(&Arc::from(EVERYTHING));
            if !names.into_iter().all(|name| visit(self.holding(fleet, type_url, channel, name))) {
                return;
            }
        }
    }

    fn holding(&self, fleet: &Fleet, type_url: &TypeUrl, channel: &Channel, name: &Arc<str>) -> Holding {
        let (snapshot, known) = (self.see(fleet), channel.known.get(name).unwrap_or_default());
        let current = snapshot.current(type_url, name);
        let remembered = [current, snapshot.accepted(type_url, name), snapshot.previous(type_url, name)];
        let version = |mark| remembered.iter().flatten().map(|item| item.version()).find(|v| Some(v.mark()) == mark);
        let standing = match current {
            None if known.flying.is_some() => Standing::Stale,
            None => Standing::NotSent,
            Some(current) => {
                let (key, mark) = (current.key(), Some(current.version().mark()));
                if known.acked == mark {
                    Standing::Synced
                } else if self.has_refused(current) || fleet.snapshot().is_refused(&key) {
                    Standing::Refused(fleet.objection(&key).unwrap_or_else(|| "refused".into()))
                } else if known.sent == mark {
                    Standing::Stale
                } else {
                    Standing::NotSent
                }
            }
        };
        Holding { type_url: type_url.clone(), name: Arc::clone(name), version: version(known.acked), standing }
    }
}
