//! [`Wanted`]: which objects are named, and by how many.

use std::collections::{BTreeMap, BTreeSet};

use api::{Kind, ObjectKey};
use hashbrown::HashMap;

/// Objects that others name.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Who names what; only those who name anything.
    by: HashMap<ObjectKey, Box<[ObjectKey]>>,
    /// How many name it.
    counts: BTreeMap<Kind, BTreeMap<ObjectKey, usize>>,
    /// What was not named, and is since the last [`Wanted::take_news`], or the other way round.
    news: Vec<ObjectKey>,
}

impl Wanted {
    /// From now on `by` names these.
    pub(crate) fn set(&mut self, by: &ObjectKey, names: Vec<ObjectKey>) {
        let before = self.by.remove(by).unwrap_or_default();
        if before.is_empty() && names.is_empty() {
            return;
        }
        for key in &names {
            if let Some(kind) = key.kind() {
                let count = self.counts.entry(kind).or_default().entry(key.clone()).or_insert(0);
                *count += 1;
                if *count == 1 {
                    self.news.push(key.clone());
                }
            }
        }
        for key in &before {
            self.release(key);
        }
        if !names.is_empty() {
            self.by.insert(by.clone(), names.into());
        }
    }

    fn release(&mut self, key: &ObjectKey) {
        let Some(counts) = key.kind().and_then(|kind| self.counts.get_mut(&kind)) else { return };
        let Some(count) = counts.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
            self.news.push(key.clone());
        }
    }

    /// Whether anything names it.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        key.kind().and_then(|kind| self.counts.get(&kind)).is_some_and(|counts| counts.contains_key(key))
    }

    /// All that are named of a kind, by namespace and name.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &ObjectKey> {
        self.counts.get(&kind).into_iter().flat_map(BTreeMap::keys)
    }

    /// Whether [`Wanted::take_news`] has any.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// What has come and gone since the last call, each once. A key may be in it that came and went, or went and came.
    pub(crate) fn take_news(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.news).into_iter().collect()
    }
}
