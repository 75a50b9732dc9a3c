//! The resources of one fleet: what is current, what was last accepted, what changed since when, and who needs whom.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::names::canonical;
use crate::needs::Needs;
use crate::resource::{Change, Need, Resource, TypeUrl};

mod departed;
mod entry;
mod inlines;
mod names;
mod saving;

#[cfg(test)]
mod tests;

pub(crate) use departed::Departed;
use departed::Departures;
pub(crate) use entry::{Entry, Item, Key, Look};
use inlines::Inlines;
pub(crate) use inlines::View;
use names::Names;
use saving::Ledger;

/// Entries that the log of changes keeps at least. A client that is further behind compares everything, so this only has to
/// cover bursts: 4,096 entries of 40 bytes are 160 KB per fleet. The log is not longer than this or the number of resources,
/// whichever is more, while nothing is being published: beyond that comparing everything is the cheaper way.
const LOG_AT_LEAST: usize = 4096;

/// Of so many resources one has a place in the log for longer than the update that it came with, if that is more than
/// [`LOG_AT_LEAST`]: who is further behind compares at most so many times as much as has changed.
const LOG_SHARE: usize = 8;

/// See the module.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// What was put.
    kinds: BTreeMap<TypeUrl, Names<Entry>>,
    /// What was put together from it.
    inlines: Inlines,
    /// (number, what changed), oldest first, without gaps.
    log: VecDeque<(u64, Key)>,
    /// The log holds all that came after this change: a publication is being taken over.
    holds: Option<u64>,
    seq: u64,
    count: usize,
    needs: Needs,
    /// Needed, but without a target.
    missing: BTreeSet<Need>,
    departed: Departures,
    /// What is to be saved.
    ledger: Ledger,
}

impl Snapshot {
    /// The number of the latest change.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// There is no resource.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What is kept under this.
    pub(crate) fn at(&self, key: &Key) -> Option<&Entry> {
        match key {
            Key::Put(Need { type_url, name }) => self.entry(type_url, name),
            Key::Inlined(name) => self.inlines.get(name),
        }
    }

    /// All targets of a kind in order of their names.
    pub(crate) fn targets(&self, type_url: &TypeUrl) -> impl Iterator<Item = &Arc<Item>> {
        self.kinds.get(type_url).into_iter().flat_map(Names::values).filter_map(Entry::target)
    }

    /// The members of a collection in order of their names.
    pub(crate) fn members_of(&self, type_url: &TypeUrl, collection: &str) -> impl Iterator<Item = &Arc<Item>> {
        self.kinds.get(type_url).into_iter().flat_map(|kind| kind.members(collection)).filter_map(Entry::target)
    }

    /// The virtual hosts of a route configuration.
    pub(crate) fn hosts_of<'a>(&'a self, route_configuration: &'a str) -> impl Iterator<Item = &'a Arc<Item>> {
        let prefix: Arc<str> = format!("{route_configuration}/").into();
        let hosts = self.kinds.get(&TypeUrl::VirtualHost).map(|hosts| hosts.range(Arc::clone(&prefix)..));
        let inside = hosts.into_iter().flatten().take_while(move |(name, _)| name.starts_with(&*prefix));
        inside
            .filter(move |(name, _)| crate::resource::route_configuration_of(name) == Some(route_configuration))
            .filter_map(|(_, entry)| entry.target())
    }

    /// What is needed by something, but not there.
    pub(crate) fn missing(&self) -> &BTreeSet<Need> {
        &self.missing
    }

    /// Clusters that went lately, with their endpoint sets.
    pub(crate) fn departed(&self) -> impl Iterator<Item = &Departed> {
        self.departed.iter().filter(|departed| self.is_gone(departed))
    }

    /// An endpoint set that went lately with its cluster.
    pub(crate) fn departed_endpoints(&self, name: &str) -> Option<&Arc<Item>> {
        self.departed.of_set(name).find(|departed| self.is_gone(departed))?.endpoints.as_ref()
    }

    /// It has not come again.
    fn is_gone(&self, departed: &Departed) -> bool {
        self.entry(&TypeUrl::Cluster, departed.cluster.name()).is_none()
    }

    /// Forgets the clusters that went too long ago.
    pub(crate) fn forget_departed(&mut self, now: Duration) {
        self.departed.forget(now);
    }

    /// What changed after the change number `cursor`; none if that is too long ago to be known.
    pub(crate) fn changes_since(&self, cursor: u64) -> Option<impl Iterator<Item = &Key>> {
        let first = self.log.front().map_or(self.seq + 1, |(seq, _)| *seq);
        let skip = usize::try_from((cursor + 1).checked_sub(first)?).ok()?;
        Some(self.log.iter().skip(skip).map(|(_, change)| change))
    }

    /// Takes changes over: the new before the gone, so that what nothing needs any more goes at once.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        let before = self.count;
        let (puts, removals): (Vec<_>, Vec<_>) =
            latest(changes).into_values().partition(|c| matches!(c, Change::Put(_)));
        for change in puts.into_iter().chain(removals) {
            match change {
                Change::Put(resource) => self.put(resource, Box::default()),
                Change::Remove { type_url, name } => self.remove(Need { type_url, name }),
            }
        }
        self.sweep();
        self.inline_stale();
        if self.count > 2 * before {
            self.tables_mut().for_each(Names::compact);
        }
    }

    /// Until [`Self::trim`] the log holds all changes from now on: as many as the publication has, at 40 bytes. Gives the latest so far.
    pub(crate) fn hold_changes(&mut self) -> u64 {
        *self.holds.insert(self.seq)
    }

    /// Shortens the log to what is worth its memory, after whoever needs all of the latest changes has seen them.
    pub(crate) fn trim(&mut self) {
        self.holds = None;
        let limit = LOG_AT_LEAST.max(self.count / LOG_SHARE);
        self.log.drain(..self.log.len().saturating_sub(limit));
        if self.log.capacity() > 2 * limit {
            self.log.shrink_to(limit);
        }
    }

    /// A client has acknowledged (for a listener: uses) this item. True if it was not known before.
    pub(crate) fn accept(&mut self, item: &Arc<Item>) -> bool {
        if !item.parts.is_empty() {
            let before = self.at(&item.key()).and_then(Entry::accepted).map_or(0, |before| before.seq);
            if before < item.seq {
                item.parts_since(before).for_each(|part| {
                    self.accept(part);
                });
            }
        }
        let Some(entry) = self.entry_of(item) else { return false };
        // since it was sent it may have been put again to be tried again: the same version with a later number, and that is accepted
        let current = (entry.current.version() == item.version()).then(|| Arc::clone(&entry.current));
        let item = current.as_ref().unwrap_or(item);
        let newer = entry.accepted.as_ref().is_none_or(|accepted| accepted.seq < item.seq);
        let refused = entry.refused && Arc::ptr_eq(&entry.current, item);
        if !newer || refused || item.seq == 0 {
            return false;
        }
        let dropped = entry.older().cloned();
        let pinned = !Arc::ptr_eq(&entry.current, item);
        entry.accepted = Some(Arc::clone(item));
        entry.previous = None;
        if pinned {
            self.needs.add(&item.resource);
        }
        if let Some(dropped) = dropped {
            self.needs.drop(&dropped.resource);
        }
        self.ledger.note(&item.key(), self.count);
        self.sweep();
        self.inline_stale();
        true
    }

    /// If this was current before, nobody has it.
    pub(crate) fn disown(&mut self, item: &Item) {
        if let Some(entry) = self.entry_of(item) {
            entry.previous.take_if(|previous| previous.version() == item.version());
        }
    }

    /// All clients refuse this item, or cannot use it. True if the fleet stays on its accepted version because of that; false if
    /// there is a newer version already, or if this very version is the accepted one.
    pub(crate) fn refuse(&mut self, item: &Item) -> bool {
        let Some(entry) = self.entry_of(item) else { return false };
        let current = entry.current.version() == item.version();
        if !current || entry.refused || entry.accepted.as_ref().is_some_and(|a| a.version() == item.version()) {
            return false;
        }
        entry.refused = true;
        entry.reported = None;
        self.changed(item.key());
        self.inline_stale();
        true
    }

    /// Tries the current version of a name again, also with clients that refused it.
    pub(crate) fn forgive(&mut self, key: &Key) {
        self.put_again(key);
        self.inline_stale();
    }

    fn put_again(&mut self, key: &Key) {
        let seq = self.seq + 1;
        let Some(entry) = self.entry_mut(key) else { return };
        entry.refused = false;
        let Item { resource, parts, .. } = &*entry.current;
        let again = Arc::new(Item { resource: Arc::clone(resource), seq, parts: parts.clone() });
        if entry.accepted.as_ref().is_some_and(|accepted| Arc::ptr_eq(accepted, &entry.current)) {
            entry.accepted = Some(Arc::clone(&again));
        }
        entry.current = again;
        self.changed(key.clone());
    }

    /// The current version of a name is to be taken by those who have not refused it.
    pub(crate) fn offer(&mut self, key: &Key) {
        let Some(entry) = self.entry_mut(key) else { return };
        if std::mem::take(&mut entry.refused) {
            self.changed(key.clone());
            self.inline_stale();
        }
    }

    /// What was accepted under a name, and is not current, is to be looked at.
    pub(crate) fn show(&mut self, key: &Key) {
        self.changed(key.clone());
        self.inline_stale();
    }

    /// What was reported of a name is to be reported again once it is true again.
    pub(crate) fn forget_report(&mut self, key: &Key) {
        if let Some(entry) = self.entry_mut(key) {
            entry.reported = None;
        }
    }

    /// The current version was refused and nothing newer was put.
    pub(crate) fn is_refused(&self, key: &Key) -> bool {
        self.at(key).is_some_and(|entry| entry.refused)
    }

    /// Notes that this version of a name is reported. False if it was already, or stands in for a newer one that was refused.
    pub(crate) fn report(&mut self, item: &Item) -> bool {
        let Some(entry) = self.entry_of(item) else { return false };
        if entry.current.version() != item.version() {
            return false;
        }
        let mark = Some(item.version().mark());
        entry.was_reported = true;
        std::mem::replace(&mut entry.reported, mark) != mark
    }

    /// Whether some version of a name was reported as accepted (or warm) since there are clients.
    pub(crate) fn was_reported(&self, type_url: &TypeUrl, name: &str) -> bool {
        let entry = self.at(&Key::Put(Need::new(type_url.clone(), name)));
        entry.is_some_and(|entry| entry.was_reported)
    }

    /// Nothing counts as reported any more.
    pub(crate) fn forget_reports(&mut self) {
        let forget = |entry: &mut Entry| (entry.reported, entry.was_reported) = (None, false);
        self.tables_mut().flat_map(Names::values_mut).for_each(forget);
    }

    fn entry_of(&mut self, item: &Item) -> Option<&mut Entry> {
        self.entry_mut(&item.key())
    }

    fn entry_mut(&mut self, key: &Key) -> Option<&mut Entry> {
        self.table_mut(key)?.get_mut(key.name())
    }

    fn table_mut(&mut self, key: &Key) -> Option<&mut Names<Entry>> {
        match key {
            Key::Put(need) => self.kinds.get_mut(&need.type_url),
            Key::Inlined(_) => Some(self.inlines.table()),
        }
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut Names<Entry>> {
        self.kinds.values_mut().chain(std::iter::once(self.inlines.table()))
    }

    fn put(&mut self, resource: Arc<Resource>, parts: Box<[Arc<Item>]>) {
        let item = Arc::new(Item { resource: Arc::clone(&resource), seq: self.seq + 1, parts });
        let key = item.key();
        let Some(entry) = self.entry_mut(&key) else {
            self.needs.add(&resource);
            let table = match &key {
                Key::Put(need) => self.kinds.entry(need.type_url.clone()).or_default(),
                Key::Inlined(_) => self.inlines.table(),
            };
            table.insert(Arc::clone(key.name()), Entry::new(item));
            self.count += 1;
            return self.changed(key);
        };
        let same = entry.current.version() == resource.version;
        // It was to go, and had not gone yet: whoever published it takes what was reported of it for forgotten.
        let again = std::mem::take(&mut entry.leaving);
        if same && !again {
            return;
        }
        let kept = entry.accepted.as_ref().is_some_and(|accepted| Arc::ptr_eq(accepted, &entry.current));
        let old = std::mem::replace(&mut entry.current, item);
        entry.refused = false;
        // Also of a version that comes back before what was put in its place was in use: that it is in use is news again.
        entry.reported = None;
        entry.was_reported &= !again;
        if same {
            entry.adopt();
            if kept {
                entry.accepted = Some(Arc::clone(&entry.current));
            }
        } else {
            entry.previous = (!kept).then(|| Arc::clone(&old));
        }
        self.needs.add(&resource);
        if same || !kept {
            self.needs.drop(&old.resource);
        }
        self.changed(key);
    }

    fn remove(&mut self, need: Need) {
        let key = Key::Put(need.clone());
        if let Some(entry) = self.entry_mut(&key) {
            entry.leaving = true;
            self.needs.release(need);
        }
    }

    /// Removes what was to leave and is not needed any more.
    fn sweep(&mut self) {
        while let Some(need) = self.needs.next_released() {
            let leaving = self.entry(&need.type_url, &need.name).is_some_and(|entry| entry.leaving);
            if leaving && (!self.is_used(&need) || self.is_withdrawn(&need)) {
                self.take_away(&Key::Put(need));
            } else {
                self.note_missing(&need);
            }
        }
    }

    /// Something names it; an endpoint set is used by the cluster of its name without being told.
    fn is_used(&self, key: &Need) -> bool {
        let by_cluster = key.type_url == TypeUrl::Endpoints && self.entry(&TypeUrl::Cluster, &key.name).is_some();
        by_cluster || self.needs.is_needed(key)
    }

    /// A secret that is removed although what is published now names it: whoever took it away means it, and what names it waits. (One that only
    /// what was published before names stays until nobody has that any more.)
    fn is_withdrawn(&self, need: &Need) -> bool {
        let names_it = |entry: &Entry| entry.current.resource.needs().any(|named| *named == *need);
        need.type_url == TypeUrl::Secret && self.kinds.values().flat_map(|table| table.values()).any(names_it)
    }

    fn take_away(&mut self, key: &Key) {
        let Some(entry) = self.table_mut(key).and_then(|table| table.remove(key.name())) else { return };
        self.count -= 1;
        self.ledger.note(key, self.count);
        if let Some(older) = entry.older() {
            self.needs.drop(&older.resource);
        }
        self.needs.drop(&entry.current.resource);
        if *key.type_url() == TypeUrl::Cluster {
            let named = entry.current.resource.needs().find(|need| need.type_url == TypeUrl::Endpoints);
            let set = named.map_or(key.name(), |need| &need.name);
            let endpoints = self.target(&TypeUrl::Endpoints, set).cloned();
            if let Some(good) = entry.target() {
                self.departed.add(Arc::clone(good), endpoints);
            }
            self.needs.release(Need::new(TypeUrl::Endpoints, Arc::clone(key.name())));
        }
        self.changed(key.clone());
    }

    /// Numbers and logs a change.
    fn changed(&mut self, key: Key) {
        self.seq += 1;
        if let Key::Put(need) = &key {
            self.inlines.note(need);
            self.note_missing(need);
        }
        for need in self.needs.take_added() {
            self.note_missing(&need);
        }
        self.log.push_back((self.seq, key));
        while self.log.len() > LOG_AT_LEAST.max(self.count) {
            let held = self.log.front().is_some_and(|(seq, _)| self.holds.is_some_and(|holds| *seq > holds));
            if held {
                break;
            }
            self.log.pop_front();
        }
    }

    fn note_missing(&mut self, key: &Need) {
        if self.needs.is_needed(key) && self.target(&key.type_url, &key.name).is_none() {
            self.missing.insert(key.clone());
        } else {
            self.missing.remove(key);
        }
    }
}

impl<'a> Look<'a> for &'a Snapshot {
    fn entry(self, type_url: &TypeUrl, name: &str) -> Option<&'a Entry> {
        self.kinds.get(type_url)?.get(name)
    }
}

/// Of several changes of one name the last.
fn latest(changes: Vec<Change>) -> BTreeMap<Need, Change> {
    let key = |change: &Change| match change {
        Change::Put(resource) => Need::new(resource.type_url.clone(), Arc::clone(&resource.name)),
        Change::Remove { type_url, name } => Need::new(type_url.clone(), Arc::clone(name)),
    };
    let changes = changes.into_iter().map(named_in_order);
    changes.map(|change| (key(&change), change)).collect()
}

/// One order for the parameters of structured names.
fn named_in_order(change: Change) -> Change {
    match change {
        Change::Put(resource) if matches!(canonical(&resource.name), Cow::Owned(_)) => {
            let name = canonical(&resource.name).into();
            Change::Put(Arc::new(Resource { name, ..(*resource).clone() }))
        }
        Change::Remove { type_url, name } => Change::Remove { type_url, name: canonical(&name).into() },
        put => put,
    }
}
