//! What is known of the clusters on one client beyond what the [`super::channel`] knows of any kind: which are not ready for requests
//! ([`super::warm`]), and which may never be, and hold back what Envoy has to say about all ([`super::ghost`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cold::ColdClusters;
use crate::resource::Version;
use crate::snapshot::Item;

/// See the module. Nothing of it outlives the stream that the clusters went out on.
#[derive(Default)]
pub(super) struct Clusters {
    /// Some were sent since the client asked for them.
    pub(super) spoken_of: bool,
    /// Not ready for requests on this client.
    pub(super) cold: ColdClusters,
    /// By the endpoint set that they use, where that has another name.
    pub(super) sharers: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// On their way, and only the CDS acknowledgement proves anything (R3).
    pub(super) without_witness: BTreeSet<Arc<str>>,
    /// May be ghosts: refused, or sent on an earlier stream and not answered.
    pub(super) uncured: BTreeSet<Arc<str>>,
    /// What is to be sent to lay them.
    pub(super) cures: Vec<Cure>,
    /// Taken back because nothing was heard of them: the version, and how often.
    pub(super) haunted: BTreeMap<Arc<str>, (Version, u8)>,
}

/// What undoes a refused CDS response (R11a): the last good clusters and the names of those that were new.
#[derive(Default)]
pub(super) struct Cure {
    pub(super) puts: Vec<Arc<Item>>,
    pub(super) removed: Vec<Arc<str>>,
}
