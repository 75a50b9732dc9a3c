//! Clients that give themselves one id (`node.id`), though each is to have its own: replicas that start from one static bootstrap.
//!
//! What such a client leaves behind is not known to be its own when one of them comes again. A client that comes again before the end of its
//! last stream is known is there twice for a while too, and only one of the two has anything to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::facts::ClientId;

/// So long what a client said on its last stream may be on its way still after it came again.
const ECHO: Duration = Duration::from_secs(5);

/// Those of one id.
#[derive(Default)]
struct One {
    clients: BTreeSet<ClientId>,
    /// How many of them were there at once since there was none.
    most: usize,
    /// When one of them spoke first since the last of them came.
    since: Option<Duration>,
    told: bool,
}

/// See the module. All clients of a fleet.
#[derive(Default)]
pub(super) struct Namesakes {
    ids: BTreeMap<Arc<str>, One>,
    /// How many ids several have.
    several: usize,
}

impl Namesakes {
    /// A client comes. Whether there are more of its id at once than there were, and several.
    pub(super) fn come(&mut self, id: &Arc<str>, client: ClientId) -> bool {
        let one = self.ids.entry(Arc::clone(id)).or_default();
        one.clients.insert(client);
        let before = one.most;
        one.most = before.max(one.clients.len());
        one.since = None;
        self.several += usize::from(one.clients.len() == 2);
        one.most > before.max(1)
    }

    /// A client goes.
    pub(super) fn go(&mut self, id: &str, client: ClientId) {
        let Some(one) = self.ids.get_mut(id) else { return };
        if one.clients.remove(&client) {
            self.several -= usize::from(one.clients.len() == 1);
        }
        if one.clients.is_empty() {
            self.ids.remove(id);
        }
    }

    /// How many clients may be of this id, those included that went while another stayed.
    pub(super) fn most(&self, id: &str) -> usize {
        self.ids.get(id).map_or(0, |one| one.most)
    }

    /// A client says something. Whether that shows, for the first time, that there are several of its id.
    pub(super) fn hear(&mut self, id: &str, client: ClientId, now: Duration) -> bool {
        if self.several == 0 {
            return false;
        }
        let Some(one) = self.ids.get_mut(id).filter(|one| one.clients.len() > 1 && !one.told) else { return false };
        let since = *one.since.get_or_insert(now);
        one.told = one.clients.last() != Some(&client) && now >= since + ECHO;
        one.told
    }
}
