//! The clients of a fleet, for those who want to look at each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use super::{Cell, locked};
use crate::facts::ClientId;
use crate::session::Session;

/// A client while its stream is open.
pub(super) struct Client(pub(super) Mutex<Option<Session>>);

/// See the module.
#[derive(Default)]
pub(super) struct Roster(Mutex<BTreeMap<ClientId, Weak<Client>>>);

impl Roster {
    /// The clients that there are now.
    pub(super) fn clients(&self) -> Vec<Arc<Client>> {
        locked(&self.0).values().filter_map(Weak::upgrade).collect()
    }
}

impl Client {
    /// A client came.
    pub(super) fn join(cell: &Cell, session: Session) -> Arc<Self> {
        let id = session.id();
        let client = Arc::new(Self(Mutex::new(Some(session))));
        locked(&cell.clients.0).insert(id, Arc::downgrade(&client));
        client
    }

    /// The client goes.
    pub(super) fn leave(&self, cell: &Cell) -> Option<Session> {
        let session = locked(&self.0).take()?;
        locked(&cell.clients.0).remove(&session.id());
        Some(session)
    }
}
