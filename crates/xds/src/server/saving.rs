//! What clients have acknowledged, handed to whoever keeps files, and handed back at the next start.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;

use super::{Cell, Server, locked};
use crate::fleet::Fleet;
use crate::saved::{SavedFleet, Unsaved};

/// See the module.
#[derive(Default)]
pub(super) struct Saving {
    /// Set if something is to be saved: whether secrets are.
    secrets: OnceLock<bool>,
    /// Fleets that are no more and had something saved.
    gone: Mutex<BTreeSet<Arc<str>>>,
    news: Notify,
}

impl Saving {
    /// A fleet that is new here.
    pub(super) fn begin(&self, mut fleet: Fleet) -> Fleet {
        if let Some(secrets) = self.secrets.get() {
            fleet.keep(*secrets);
        }
        fleet
    }

    /// Something is to be saved.
    pub(super) fn wake(&self) {
        self.news.notify_one();
    }

    /// A fleet is no more.
    pub(super) fn forget(&self, fleet: &Arc<str>) {
        locked(&self.gone).insert(Arc::clone(fleet));
        self.wake();
    }
}

impl Server {
    /// From now on it is noted what clients acknowledge; to be called before anything else. What of it is to be saved comes from
    /// [`Self::take_unsaved`]. Secrets are only if that is wanted.
    pub fn keep(&self, secrets: bool) {
        let _told_before = self.0.saving.secrets.set(secrets);
    }

    /// What was saved of a fleet. Until something is published for the fleet, its clients are given what they have nothing of, and nothing
    /// is taken from them or denied to them. Whatever is not in the first publication goes then.
    pub fn restore(&self, saved: SavedFleet) {
        let fleet = Arc::clone(saved.fleet());
        self.0.with_fleet(&fleet, |fleet| fleet.restore(saved));
    }

    /// Fleets of which only the last good is known are no more: everything that there is has been published.
    pub fn forget_unpublished(&self) {
        for (name, cell) in self.fleets() {
            self.0.with(&cell, Fleet::withdraw_last_good);
            self.0.drop_if_idle(&name, &cell);
        }
    }

    /// Waits until there is something to save.
    pub async fn unsaved(&self) {
        self.0.saving.news.notified().await;
    }

    /// What is to be saved, of each fleet all that changed since this was last called. It counts as saved.
    #[must_use]
    pub fn take_unsaved(&self) -> Vec<Unsaved> {
        let fleets = self.fleets();
        let gone = std::mem::take(&mut *locked(&self.0.saving.gone));
        let gone = gone.into_iter().map(Unsaved::gone);
        let unsaved = fleets.iter().filter_map(|(name, cell)| locked(&cell.fleet).take_unsaved(name));
        gone.chain(unsaved).collect()
    }

    /// All fleets that there are now.
    fn fleets(&self) -> Vec<(Arc<str>, Arc<Cell>)> {
        locked(&self.0.fleets).iter().map(|(name, cell)| (Arc::clone(name), Arc::clone(cell))).collect()
    }

    /// What is saved of a fleet is lost, or takes too much room: everything is to be saved again.
    pub fn save_again(&self, fleet: &Arc<str>) {
        let cell = locked(&self.0.fleets).get(fleet).cloned();
        if let Some(cell) = cell {
            self.0.with(&cell, Fleet::save_again);
        }
    }
}
