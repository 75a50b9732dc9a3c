//! What is known of the clusters on one client beyond what the [`super::channel`] knows of any kind: which are not ready for requests
//! ([`super::warm`]), and which may never be, and hold back what Envoy has to say about all ([`super::ghost`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::cold::ColdClusters;
use crate::resource::Version;
use crate::snapshot::Item;

/// See the module. Nothing of it outlives the stream that the clusters went out on.
#[derive(Default)]
pub(super) struct Clusters {
    /// Some were sent since the client asked for them.
    pub(super) spoken_of: bool,
    /// The client has asked for endpoints since.
    pub(super) endpoints_asked: bool,
    /// The client came with a cluster that was getting ready (R13), and none was acknowledged since.
    pub(super) came_warming: bool,
    /// Not ready for requests on this client.
    pub(super) cold: ColdClusters,
    /// Clusters by endpoint sets of other names than theirs.
    pub(super) sharers: Users,
    /// Clusters by the secret that they wait for, if they wait for nothing else.
    pub(super) without_secret: Users,
    /// On their way, and only the CDS acknowledgement proves anything (R3).
    pub(super) without_witness: BTreeSet<Arc<str>>,
    /// May be ghosts: refused, or sent on an earlier stream and not answered.
    pub(super) uncured: BTreeSet<Arc<str>>,
    /// The fleet knows of those, and of what has had no answer for long.
    pub(super) ghosts_told: bool,
    /// Clusters apart that went out during a first start and that listeners still wait for, by when they were sent.
    pub(super) graced: BTreeSet<(Duration, Arc<str>)>,
    /// Since when clusters apart wait for Envoy to ask for listeners.
    pub(super) apart_since: Option<Duration>,
    /// What is to be sent to lay them.
    pub(super) cures: Vec<Cure>,
    /// Taken back because nothing was heard of them: the version, and how often.
    pub(super) haunted: BTreeMap<Arc<str>, (Version, u8)>,
}

impl Clusters {
    /// The client has this version.
    pub(super) fn heard_of(&mut self, item: &Item) {
        if self.haunted.get(item.name()).is_some_and(|(version, _)| *version == item.version()) {
            self.haunted.remove(item.name());
        }
    }

    /// The client has let go of this cluster, or never had it.
    pub(super) fn forget(&mut self, name: &str) {
        self.cold.remove(name);
        self.sharers.forget(name);
        self.without_secret.forget(name);
        self.without_witness.remove(name);
    }
}

/// Which clusters use what other resources, in the version that was sent last.
#[derive(Default)]
pub(super) struct Users {
    by_part: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    by_cluster: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl Users {
    /// A cluster uses these, and no others.
    pub(super) fn note(&mut self, cluster: &Arc<str>, parts: Vec<Arc<str>>) {
        self.forget(cluster);
        for part in &parts {
            self.by_part.entry(Arc::clone(part)).or_default().insert(Arc::clone(cluster));
        }
        if !parts.is_empty() {
            self.by_cluster.insert(Arc::clone(cluster), parts);
        }
    }

    /// A cluster uses none.
    pub(super) fn forget(&mut self, cluster: &str) {
        for part in self.by_cluster.remove(cluster).unwrap_or_default() {
            let Some(clusters) = self.by_part.get_mut(&part) else { continue };
            clusters.remove(cluster);
            if clusters.is_empty() {
                self.by_part.remove(&part);
            }
        }
    }

    /// Those that use this one.
    pub(super) fn of(&self, part: &str) -> impl Iterator<Item = &Arc<str>> {
        self.by_part.get(part).into_iter().flatten()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.by_cluster.len()
    }
}

/// What undoes a refused CDS response (R11a): the last good clusters and the names of those that were new.
#[derive(Default)]
pub(super) struct Cure {
    pub(super) puts: Vec<Arc<Item>>,
    pub(super) removed: Vec<Arc<str>>,
}
