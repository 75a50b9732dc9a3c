//! The clients of a fleet, for those who want to look at each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use super::locked;
use super::streams::SharedClient;
use crate::facts::ClientId;

/// See the module.
#[derive(Default)]
pub(super) struct Roster(Mutex<BTreeMap<ClientId, Weak<SharedClient>>>);

impl Roster {
    /// The clients that there are now.
    pub(super) fn clients(&self) -> Vec<Arc<SharedClient>> {
        locked(&self.0).values().filter_map(Weak::upgrade).collect()
    }

    /// A client came.
    pub(super) fn add(&self, id: ClientId, client: &Arc<SharedClient>) {
        locked(&self.0).insert(id, Arc::downgrade(client));
    }

    /// A client went.
    pub(super) fn remove(&self, id: ClientId) {
        locked(&self.0).remove(&id);
    }
}
