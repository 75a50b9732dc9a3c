//! [`Ages`]: since when each object is known, so that no newcomer takes what an older object has.
//!
//! Of two objects that claim one port, host name, match or target the older one has it. In a cluster the API server says how old an object is. A file says
//! whatever its author writes, so here an object is as old as its identity is known: the number of the change that first gave it. Of objects that came
//! with one change (all that there was at the first start, above all) the `creationTimestamp` that they had then decides, then the name.
//!
//! What is known outlives the process ([`journal`]). An identity that goes keeps its age for [`KEPT`], as files are moved, renamed and broken; at most
//! [`MAX_GONE`] such identities do.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use api::meta::FirstSeen;
use api::{Kind, ObjectKey};
use hashbrown::HashMap;

pub(crate) mod journal;

/// For how many seconds an identity that is gone keeps its age: a day. A rollback or a file that is repaired the next morning loses nothing.
pub(crate) const KEPT: i64 = 24 * 60 * 60;

/// Identities that are gone and keep their age, at most, at some 300 bytes each: 20 MB. Beyond, the namespace with the most of them loses its oldest:
/// a flood of one author takes nothing from others.
pub(crate) const MAX_GONE: usize = 1 << 16;

/// The longest identity that has an age, in bytes. Kubernetes allows half of it (a group, a kind, two names); a longer one is always the youngest.
const MAX_IDENTITY: usize = 1 << 10;

/// What is kept of one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: ObjectKey,
    pub(crate) first_seen: FirstSeen,
    /// Since when it is gone, in seconds since 1970.
    pub(crate) gone: Option<i64>,
}

/// Records to be written before the change that they belong to is handed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unsaved {
    /// In place of all that there was.
    All,
    /// In addition; the last one of an identity counts.
    Some(Vec<Record>),
}

/// The ages of all identities whose kinds have a precedence.
#[derive(Debug)]
pub(crate) struct Ages {
    /// Its order never reaches output.
    known: HashMap<ObjectKey, Entry>,
    gone: Gone,
    /// The number of the change that is being collected.
    change: NonZeroU32,
    /// That change brings an identity that was not known.
    has_new: bool,
    /// False while the objects of the start are collected if part of the record was lost: then a time that an author may have written does not count.
    trusts_times: bool,
    /// All that there was at the start has been collected: it is one change.
    is_started: bool,
    /// Identities to be saved since the last [`Self::close`].
    changed: Vec<ObjectKey>,
    /// In seconds since 1970.
    now: i64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    first_seen: FirstSeen,
    presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// An earlier process had it; this one has not seen it.
    Unseen,
    /// The change that is being collected brings it.
    Offered,
    There,
    /// With its number among those that are gone.
    Gone {
        since: i64,
        number: u64,
    },
}

impl Ages {
    /// Returns what earlier processes knew; `is_whole` is false if part of that was lost.
    pub(crate) fn new(records: Vec<Record>, is_whole: bool) -> Self {
        let known = HashMap::with_capacity(records.len());
        let (gone, change, changed) = (Gone::default(), NonZeroU32::MIN, Vec::new());
        let mut ages =
            Self { known, gone, change, has_new: false, trusts_times: is_whole, is_started: false, changed, now: 0 };
        // Numbered again, so that they grow with the changes of one process only.
        let numbers: BTreeSet<NonZeroU32> = records.iter().map(|record| record.first_seen.change).collect();
        let mut new = BTreeMap::new();
        for number in numbers {
            new.insert(number, ages.change);
            ages.change = ages.change.saturating_add(1);
        }
        let mut records: Vec<Record> = records.into_iter().filter(|record| has_age(&record.key)).collect();
        // Those that went first are forgotten first.
        records.sort_by_key(|record| record.gone);
        for Record { key, first_seen, gone } in records {
            let change = new.get(&first_seen.change).copied().unwrap_or(first_seen.change);
            ages.forget(&key);
            let presence = match gone {
                None => Presence::Unseen,
                Some(since) => Presence::Gone { since, number: ages.gone.insert(&key) },
            };
            ages.known.insert(key, Entry { first_seen: FirstSeen { change, ..first_seen }, presence });
        }
        ages
    }

    /// Sets the time, in seconds since 1970.
    pub(crate) fn set_time(&mut self, now: i64) {
        self.now = now;
    }

    /// Returns the age of an object that is offered, of which `created` says when it was made. None where age decides nothing.
    pub(crate) fn of(&mut self, key: &ObjectKey, created: u32) -> Option<FirstSeen> {
        if !has_age(key) {
            let is_too_long = key.kind().is_some_and(Kind::has_precedence);
            return is_too_long.then_some(FirstSeen { change: NonZeroU32::MAX, created: u32::MAX });
        }
        if let Some(entry) = self.known.get(key).filter(|entry| !self.is_over(entry)) {
            return Some(entry.first_seen);
        }
        self.forget(key);
        let first_seen = FirstSeen { change: self.change, created: if self.trusts_times { created } else { u32::MAX } };
        self.known.insert(key.clone(), Entry { first_seen, presence: Presence::Offered });
        Some(first_seen)
    }

    /// Notes whether an identity is there after the change that is being collected.
    pub(crate) fn note(&mut self, key: &ObjectKey, is_there: bool) {
        let Some(entry) = self.known.get_mut(key) else { return };
        match (entry.presence, is_there) {
            (Presence::There, true) | (Presence::Gone { .. } | Presence::Unseen, false) => return,
            (Presence::Offered, false) => return self.forget(key),
            (Presence::Unseen, true) => {
                entry.presence = Presence::There;
                return;
            }
            (Presence::Offered, true) => {
                entry.presence = Presence::There;
                self.has_new = true;
            }
            (Presence::Gone { number, .. }, true) => {
                self.gone.remove(key, number);
                entry.presence = Presence::There;
            }
            (Presence::There, false) => {
                entry.presence = Presence::Gone { since: self.now, number: self.gone.insert(key) };
            }
        }
        if self.is_started {
            self.changed.push(key.clone());
        }
    }

    /// Ends a change. All that comes until the first one that is `listed` is one.
    pub(crate) fn close(&mut self, listed: bool) -> Option<Unsaved> {
        if !self.is_started && !listed {
            return None;
        }
        if std::mem::take(&mut self.has_new) {
            self.change = self.change.saturating_add(1);
        }
        let unsaved = if std::mem::replace(&mut self.is_started, true) {
            let changed = std::mem::take(&mut self.changed);
            let records = changed.iter().filter_map(|key| self.record(key)).collect::<Vec<_>>();
            (!records.is_empty()).then_some(Unsaved::Some(records))
        } else {
            self.trusts_times = true;
            for (key, entry) in &mut self.known {
                if entry.presence == Presence::Unseen {
                    entry.presence = Presence::Gone { since: self.now, number: self.gone.insert(key) };
                }
            }
            (!self.known.is_empty()).then_some(Unsaved::All)
        };
        while self.gone.len > MAX_GONE
            && let Some(key) = self.gone.pop()
        {
            self.known.remove(&key);
        }
        unsaved
    }

    /// Returns all that is to be kept, the oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let kept = self.known.iter().filter(|(_, entry)| !self.is_over(entry)).map(|(key, _)| key);
        let mut records: Vec<Record> = kept.filter_map(|key| self.record(key)).collect();
        records.sort_by(|one, two| (one.first_seen, &one.key).cmp(&(two.first_seen, &two.key)));
        records
    }

    fn record(&self, key: &ObjectKey) -> Option<Record> {
        let Entry { first_seen, presence } = *self.known.get(key)?;
        let gone = match presence {
            Presence::Gone { since, .. } => Some(since),
            Presence::Unseen | Presence::Offered | Presence::There => None,
        };
        Some(Record { key: key.clone(), first_seen, gone })
    }

    fn is_over(&self, entry: &Entry) -> bool {
        matches!(entry.presence, Presence::Gone { since, .. } if self.now.saturating_sub(since) >= KEPT)
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(Entry { presence: Presence::Gone { number, .. }, .. }) = self.known.remove(key) {
            self.gone.remove(key, number);
        }
    }
}

/// Identities that are gone, by namespace, in the order in which they went.
#[derive(Debug, Default)]
struct Gone {
    /// Its order never reaches output.
    by_namespace: HashMap<Box<str>, BTreeMap<u64, ObjectKey>>,
    /// Namespaces by how many they have.
    sizes: BTreeSet<(usize, Box<str>)>,
    len: usize,
    next: u64,
}

impl Gone {
    fn insert(&mut self, key: &ObjectKey) -> u64 {
        let number = self.next;
        self.next += 1;
        self.change(key.namespace(), |keys| drop(keys.insert(number, key.clone())));
        number
    }

    fn remove(&mut self, key: &ObjectKey, number: u64) {
        self.change(key.namespace(), |keys| drop(keys.remove(&number)));
    }

    /// Takes out the oldest of the namespace that has the most.
    fn pop(&mut self) -> Option<ObjectKey> {
        let (_, namespace) = self.sizes.last()?.clone();
        let mut oldest = None;
        self.change(&namespace, |keys| oldest = keys.pop_first());
        oldest.map(|(_, key)| key)
    }

    fn change(&mut self, namespace: &str, change: impl FnOnce(&mut BTreeMap<u64, ObjectKey>)) {
        let keys = self.by_namespace.entry_ref(namespace).or_default();
        let before = keys.len();
        change(keys);
        let after = keys.len();
        if after == 0 {
            self.by_namespace.remove(namespace);
        }
        self.len = self.len - before + after;
        self.sizes.remove(&(before, namespace.into()));
        if after > 0 {
            self.sizes.insert((after, namespace.into()));
        }
    }
}

fn has_age(key: &ObjectKey) -> bool {
    key.kind().is_some_and(Kind::has_precedence) && key.namespace().len() + key.name().len() <= MAX_IDENTITY
}

#[cfg(test)]
mod tests;
