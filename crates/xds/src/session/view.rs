//! What a client holds, for people to look at (CSDS). Only reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Session;
use super::channel::Channel;
use crate::fleet::Fleet;
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
        let of_channel = |channel: &Channel| {
            let flights: usize =
                channel.flights.iter().map(|flight| 1 + flight.puts.len() + flight.removed.len()).sum();
            let marks = [
                channel.dirty.len(),
                channel.force.len(),
                channel.suspects.len(),
                channel.unsure.len(),
                channel.carriers.owed(),
            ];
            channel.names.len() + channel.carriers.names + channel.known.len() + flights + marks.iter().sum::<usize>()
        };
        let own = [
            self.clusters.cold.len(),
            self.clusters.sharers.len(),
            self.clusters.without_witness.len(),
            self.waits.len(),
            self.lost_hosts.len(),
            self.asked.len(),
            self.activations.len(),
            self.clusters.cures.len(),
            self.clusters.haunted.len(),
            self.refused.len(),
            self.clusters.uncured.len(),
        ];
        self.channels.values().map(of_channel).sum::<usize>() + own.iter().sum::<usize>()
    }

    /// Everything that the client knows or asks for, sorted by kind and name.
    pub(crate) fn holdings(&self, fleet: &Fleet) -> Vec<Holding> {
        let mut all = Vec::new();
        for (type_url, channel) in &self.channels {
            let mut names: BTreeSet<&Arc<str>> = channel.known.keys().chain(&channel.names).collect();
            if channel.wildcard {
                names.extend(fleet.snapshot().targets(type_url).map(|item| item.name()));
            }
            names.remove(&Arc::from("*"));
            all.extend(names.into_iter().map(|name| self.holding(fleet, type_url, channel, name)));
        }
        all
    }

    fn holding(&self, fleet: &Fleet, type_url: &TypeUrl, channel: &Channel, name: &Arc<str>) -> Holding {
        let (snapshot, known) = (self.see(fleet), channel.known.get(name).copied().unwrap_or_default());
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
