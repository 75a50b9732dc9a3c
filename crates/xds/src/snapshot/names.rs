//! A map by name, for many look-ups and few changes: a stream looks each of its names up some ten times while it begins, which in a
//! tree of thousands of names is ten comparisons of text each, most of what a storm of clients costs.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::ops::RangeBounds;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::names::collection_of;

#[cfg(test)]
mod tests;

/// See the module.
pub(super) struct Names<V> {
    by_name: HashMap<Arc<str>, V>,
    /// The names, in order.
    order: BTreeSet<Arc<str>>,
    /// By collection: the names of its members, in order.
    members: HashMap<String, BTreeSet<Arc<str>>>,
}

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), order: BTreeSet::new(), members: HashMap::new() }
    }
}

impl<V> Names<V> {
    pub(super) fn get(&self, name: &str) -> Option<&V> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.by_name.get_mut(name)
    }

    pub(super) fn insert(&mut self, name: Arc<str>, value: V) {
        self.order.insert(Arc::clone(&name));
        if let Some(collection) = collection_of(&name) {
            self.members.entry(collection).or_default().insert(Arc::clone(&name));
        }
        self.by_name.insert(name, value);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<V> {
        self.order.remove(name);
        if let Some(collection) = collection_of(name)
            && let Some(members) = self.members.get_mut(&collection)
        {
            members.remove(name);
            if members.is_empty() {
                self.members.remove(&collection);
            }
        }
        let removed = self.by_name.remove(name);
        if self.by_name.len() < self.by_name.capacity() / 4 {
            self.by_name.shrink_to_fit();
        }
        removed
    }

    /// All values in order of their names.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.order.iter().filter_map(|name| self.by_name.get(name))
    }

    /// All values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.by_name.values_mut()
    }

    /// Each value in order of their names, which are in order already.
    pub(super) fn each_mut(&mut self, mut each: impl FnMut(&mut V)) {
        for name in &self.order {
            self.by_name.get_mut(name).into_iter().for_each(&mut each);
        }
    }

    /// The members of a collection, in order.
    pub(super) fn members(&self, collection: &str) -> impl Iterator<Item = &V> {
        let names = self.members.get(collection).into_iter().flatten();
        names.filter_map(|name| self.by_name.get(name))
    }

    /// Those of some names, in order.
    pub(super) fn range<T>(&self, names: impl RangeBounds<T>) -> impl Iterator<Item = (&Arc<str>, &V)>
    where
        T: Ord + ?Sized,
        Arc<str>: Borrow<T>,
    {
        self.order.range(names).filter_map(|name| Some((name, self.by_name.get(name)?)))
    }

    /// What was filled in order has nodes that are half empty.
    pub(super) fn compact(&mut self) {
        self.order = std::mem::take(&mut self.order).into_iter().collect();
        self.by_name.shrink_to_fit();
    }
}
