//! What of a fleet's resources is to be saved: of each name what a client has acknowledged last, told once for all changes of it since it
//! was last asked for, so that what waits for a slow disk is bounded by what there is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::names::Names;
use super::{Entry, Item, Key, Snapshot};
use crate::resource::{Change, Need, Resource, TypeUrl};
use crate::saved::Edit;

/// Names that may wait beyond those that there are: each went since. Beyond, all is saved anew. At 150 bytes with a name of 100 these are
/// 0.6 MB.
const GONE: usize = 4096;

/// Names of which something else is to be saved than is.
#[derive(Default)]
pub(super) struct Ledger {
    /// Whether anything is saved, and whether secrets are.
    keeps: Option<bool>,
    names: BTreeSet<Need>,
    /// Everything is to be saved.
    whole: bool,
    /// Something is, then.
    stirred: bool,
}

impl Ledger {
    /// A name has another accepted version, or is gone; there are `count` names.
    pub(super) fn note(&mut self, key: &Key, count: usize) {
        // what is put together from others is put together again
        let Key::Put(name) = key else { return };
        if !self.saves(&name.type_url) {
            return;
        }
        self.stirred = true;
        if !self.whole {
            self.names.insert(name.clone());
            self.whole = self.names.len() > count + GONE;
        }
        if self.whole {
            self.names.clear();
        }
    }

    /// Whether resources of this kind are saved.
    fn saves(&self, type_url: &TypeUrl) -> bool {
        self.keeps.is_some_and(|secrets| secrets || *type_url != TypeUrl::Secret)
    }
}

impl Entry {
    /// The current version is the saved one, published anew: later ones are compared with its pieces.
    pub(super) fn adopt(&mut self) {
        if let Some(saved) = &mut self.saved
            && saved.version() == self.current.version()
            && has_same_pieces(&saved.resource, &self.current.resource)
        {
            *saved = Arc::clone(&self.current);
        }
    }

    /// What is to be saved of it now. Gives what is saved.
    fn save(&mut self, item: &Arc<Item>) -> Option<Arc<Item>> {
        self.saved.replace(Arc::clone(item))
    }
}

impl Snapshot {
    /// From now on it is noted what is to be saved: everything, at first.
    pub(crate) fn keep(&mut self, secrets: bool) {
        self.ledger = Ledger { keeps: Some(secrets), names: BTreeSet::new(), whole: true, stirred: false };
    }

    /// Puts what was saved in place of nothing. It counts as accepted.
    pub(crate) fn restore(&mut self, resources: impl Iterator<Item = Arc<Resource>>) {
        self.apply(resources.map(Change::Put).collect());
        for entry in self.tables_mut().flat_map(Names::values_mut) {
            entry.accepted = Some(Arc::clone(&entry.current));
            entry.saved = Some(Arc::clone(&entry.current));
        }
        self.trim();
        (self.ledger.whole, self.ledger.stirred) = (false, false);
    }

    /// What there is goes with the next changes, as far as they do not bring it again.
    pub(crate) fn supersede(&mut self) {
        for (type_url, kind) in &mut self.kinds {
            for entry in kind.values_mut() {
                entry.leaving = true;
                self.needs.release(Need::new(type_url.clone(), Arc::clone(entry.current.name())));
            }
        }
        // these come and go with what they are put together from
        self.inlines.table().values_mut().for_each(|entry| entry.leaving = true);
    }

    /// What is saved is lost: everything is to be saved again.
    pub(crate) fn save_again(&mut self) {
        (self.ledger.whole, self.ledger.stirred) = (true, true);
        self.ledger.names.clear();
    }

    /// There is something to save.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.ledger.stirred
    }

    /// What is to be saved, and whether that is everything. It counts as saved.
    pub(crate) fn take_unsaved(&mut self) -> (bool, Vec<Edit>) {
        self.ledger.stirred = false;
        if std::mem::take(&mut self.ledger.whole) {
            return (true, self.save_all());
        }
        let names = std::mem::take(&mut self.ledger.names);
        (false, names.into_iter().filter_map(|name| self.save(name)).collect())
    }

    fn save_all(&mut self) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (_, kind) in self.kinds.iter_mut().filter(|(type_url, _)| self.ledger.saves(type_url)) {
            kind.each_mut(|entry| {
                let Some(item) = entry.accepted.clone() else { return };
                entry.save(&item);
                edits.push(Edit::Put { resource: Arc::clone(&item.resource), base: None });
            });
        }
        edits
    }

    fn save(&mut self, name: Need) -> Option<Edit> {
        let entry = self.kinds.get_mut(&name.type_url).and_then(|kind| kind.get_mut(&name.name));
        // one that went and came again is saved once it is acknowledged
        let accepted = entry.and_then(|entry| Some((entry.accepted.clone()?, entry)));
        let Some((item, entry)) = accepted else { return Some(Edit::Remove(name)) };
        if entry.saved.as_ref().is_some_and(|saved| saved.version() == item.version()) {
            return None;
        }
        let base = entry.save(&item).map(|saved| Arc::clone(&saved.resource));
        Some(Edit::Put { resource: Arc::clone(&item.resource), base })
    }
}

/// Whether two resources of one version are divided in the same way.
fn has_same_pieces(one: &Resource, other: &Resource) -> bool {
    let bodies = one.body.iter().map(bytes::Bytes::len).eq(other.body.iter().map(bytes::Bytes::len));
    bodies && one.needs.iter().map(|slice| slice.len()).eq(other.needs.iter().map(|slice| slice.len()))
}
