//! How many resources need a resource: counted per shared slice of needs, so that a new version of a large resource costs its
//! changed pieces and not all its needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::resource::{Need, Resource, TypeUrl};

/// Counts of needs.
#[derive(Default)]
pub(crate) struct Needs {
    /// By the address of the slice, which the entry keeps alive.
    slices: HashMap<usize, (Arc<[Need]>, u32)>,
    counts: BTreeMap<TypeUrl, HashMap<Arc<str>, u32>>,
    /// Went from not needed to needed since they were last taken.
    added: Vec<Need>,
    /// Not needed any more, or to be looked at for another reason.
    released: Vec<Need>,
}

impl Needs {
    /// A resource that may be in use.
    pub(crate) fn add(&mut self, resource: &Resource) {
        for slice in &resource.needs {
            let (_, users) = self.slices.entry(address(slice)).or_insert_with(|| (Arc::clone(slice), 0));
            *users += 1;
            if *users > 1 {
                continue;
            }
            for need in slice.iter() {
                let names = self.counts.entry(need.type_url.clone()).or_default();
                let count = names.entry(Arc::clone(&need.name)).or_default();
                *count += 1;
                if *count == 1 {
                    self.added.push(need.clone());
                }
            }
        }
    }

    /// The resource is in use no more: the opposite of [`Self::add`].
    pub(crate) fn drop(&mut self, resource: &Resource) {
        for slice in &resource.needs {
            let Some((_, users)) = self.slices.get_mut(&address(slice)) else { continue };
            *users -= 1;
            if *users > 0 {
                continue;
            }
            self.slices.remove(&address(slice));
            for need in slice.iter() {
                let Some(names) = self.counts.get_mut(&need.type_url) else { continue };
                let Some(count) = names.get_mut(&need.name) else { continue };
                *count -= 1;
                if *count == 0 {
                    names.remove(&need.name);
                    self.released.push(need.clone());
                }
            }
        }
    }

    /// Something in use needs it.
    pub(crate) fn is_needed(&self, key: &Need) -> bool {
        self.counts.get(&key.type_url).is_some_and(|names| names.contains_key(&key.name))
    }

    /// Puts a name on the list of those to be looked at.
    pub(crate) fn release(&mut self, key: Need) {
        self.released.push(key);
    }

    /// The next name that may have lost its last user.
    pub(crate) fn next_released(&mut self) -> Option<Need> {
        self.released.pop()
    }

    /// Names that have become needed.
    pub(crate) fn take_added(&mut self) -> Vec<Need> {
        std::mem::take(&mut self.added)
    }
}

fn address(slice: &Arc<[Need]>) -> usize {
    Arc::as_ptr(slice).cast::<Need>().addr()
}
