//! The resources of one fleet: what is current, what was last accepted, what changed since when, and who needs whom.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::inline::{INLINE, inlined};
use crate::names::{canonical, collection_of, stem};
use crate::needs::Needs;
use crate::resource::{Change, Mark, Need, Resource, TypeUrl, Version, route_configuration_of};
use crate::wire::Variant;

mod names;
mod saving;

#[cfg(test)]
mod tests;

use names::Names;
use saving::Ledger;

/// Entries that the log of changes keeps at least. A client that is further behind compares everything, so this only has to
/// cover bursts: 4,096 entries of 40 bytes are 160 KB per fleet. The log is never longer than this or the number of resources,
/// whichever is more: beyond that comparing everything is the cheaper way.
const LOG_AT_LEAST: usize = 4096;

/// A SotW client that comes again does not say what it has, only that it is something else than what it should have. What went in this
/// time stays with it until its routes do without: it comes again within the 1 s of our bootstrap's back-off, with time for a restart.
const DEPARTED_FOR: Duration = Duration::from_secs(60);

/// So many of them are kept: 4,096 clusters of some 300 bytes are 1 MB.
const MOST_DEPARTED: usize = 4096;

/// Of so many resources one has a place in the log for longer than the update that it came with, if that is more than
/// [`LOG_AT_LEAST`]: who is further behind compares at most so many times as much as has changed.
const LOG_SHARE: usize = 8;

/// A resource as it was put.
pub(crate) struct Item {
    /// The resource.
    pub(crate) resource: Arc<Resource>,
    /// When it was put: a later item of a name has a higher number.
    pub(crate) seq: u64,
    /// A route configuration with the hosts of VHDS inside: what it was made from, the route configuration first.
    pub(crate) parts: Box<[Arc<Self>]>,
}

impl Item {
    pub(crate) fn new(resource: Arc<Resource>, seq: u64) -> Arc<Self> {
        Arc::new(Self { resource, seq, parts: Box::default() })
    }

    /// Under which a snapshot keeps it.
    pub(crate) fn key(&self) -> Need {
        let kind = if self.parts.is_empty() { &self.resource.type_url } else { &*INLINE };
        Need::new(kind.clone(), Arc::clone(&self.resource.name))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.resource.name
    }

    pub(crate) fn version(&self) -> Version {
        self.resource.version
    }
}

/// One name of one kind.
struct Entry {
    current: Arc<Item>,
    /// The newest version that a client has acknowledged.
    accepted: Option<Arc<Item>>,
    /// What was current before, if it was not accepted by the time it was replaced: a client may still say that it has it.
    previous: Option<Arc<Item>>,
    /// `current` was refused: the fleet stays on `accepted`.
    refused: bool,
    /// Removed by the publisher, but something that may still be in use needs it.
    leaving: bool,
    /// The version that was last reported as accepted (or warm) to the outside.
    reported: Option<Mark>,
    /// What is saved.
    saved: Option<Arc<Item>>,
}

impl Entry {
    /// What clients should have.
    fn target(&self) -> Option<&Arc<Item>> {
        if self.refused { self.accepted.as_ref() } else { Some(&self.current) }
    }

    /// The accepted version, if it is another one than the current.
    fn older(&self) -> Option<&Arc<Item>> {
        self.accepted.as_ref().filter(|accepted| !Arc::ptr_eq(accepted, &self.current))
    }
}

/// A cluster that went.
pub(crate) struct Departed {
    pub(crate) cluster: Arc<Item>,
    pub(crate) endpoints: Option<Arc<Item>>,
    /// When, if anybody has looked since.
    at: Option<Duration>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Snapshot {
    kinds: BTreeMap<TypeUrl, Names<Entry>>,
    /// (number, what changed), oldest first, without gaps.
    log: VecDeque<(u64, Need)>,
    seq: u64,
    count: usize,
    needs: Needs,
    /// Needed, but without a target.
    missing: BTreeSet<Need>,
    /// Clusters that went lately, oldest first.
    departed: VecDeque<Departed>,
    /// Some client needs route configurations with the hosts of VHDS inside ([`crate::inline`]).
    inlines: bool,
    /// Those to be put together anew.
    stale: BTreeSet<Arc<str>>,
    /// What is to be saved.
    ledger: Ledger,
}

/// What clients of one variant see of a snapshot.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    snapshot: &'a Snapshot,
    variant: Variant,
}

impl<'a> View<'a> {
    /// What clients should have under this name.
    pub(crate) fn target(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.snapshot.target(self.kind(type_url, name), name)
    }

    /// The version that was put last, refused or not.
    pub(crate) fn current(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.snapshot.current(self.kind(type_url, name), name)
    }

    /// The newest version of a name that a client has acknowledged.
    pub(crate) fn accepted(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.snapshot.entry(self.kind(type_url, name), name)?.accepted.as_ref()
    }

    /// What was current before, if nobody had acknowledged it.
    pub(crate) fn previous(self, type_url: &TypeUrl, name: &str) -> Option<&'a Arc<Item>> {
        self.snapshot.entry(self.kind(type_url, name), name)?.previous.as_ref()
    }

    /// The virtual hosts of a route configuration that travel by themselves.
    pub(crate) fn hosts_of(self, route_configuration: &'a str) -> impl Iterator<Item = &'a Arc<Item>> {
        let delta = self.variant == Variant::Delta;
        delta.then(|| self.snapshot.hosts_of(route_configuration)).into_iter().flatten()
    }

    /// Under which kind the snapshot keeps it.
    fn kind<'k>(self, type_url: &'k TypeUrl, name: &str) -> &'k TypeUrl {
        let inline = self.variant == Variant::Sotw && *type_url == TypeUrl::Route;
        if inline && self.snapshot.entry(&INLINE, name).is_some() { &INLINE } else { type_url }
    }
}

impl Snapshot {
    /// What clients of this variant see.
    pub(crate) fn view(&self, variant: Variant) -> View<'_> {
        View { snapshot: self, variant }
    }

    /// The number of the latest change.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// There is no resource.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What clients should have under this name.
    pub(crate) fn target(&self, type_url: &TypeUrl, name: &str) -> Option<&Arc<Item>> {
        self.entry(type_url, name)?.target()
    }

    /// The version that was put last, refused or not.
    pub(crate) fn current(&self, type_url: &TypeUrl, name: &str) -> Option<&Arc<Item>> {
        Some(&self.entry(type_url, name)?.current)
    }

    /// All targets of a kind in order of their names.
    pub(crate) fn targets(&self, type_url: &TypeUrl) -> impl Iterator<Item = &Arc<Item>> {
        self.kinds.get(type_url).into_iter().flat_map(Names::values).filter_map(Entry::target)
    }

    /// The members of a collection.
    pub(crate) fn members_of<'a>(
        &'a self,
        type_url: &TypeUrl,
        collection: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Item>> {
        let stem: Arc<str> = stem(collection).into();
        let from = self.kinds.get(type_url).map(|kind| kind.range(Arc::clone(&stem)..));
        let near = from.into_iter().flatten().take_while(move |(name, _)| name.starts_with(&*stem));
        let inside = near.filter(move |(name, _)| collection_of(name).as_deref() == Some(collection));
        inside.filter_map(|(_, entry)| entry.target())
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

    /// The newest version of a name that a client has acknowledged.
    pub(crate) fn accepted(&self, type_url: &TypeUrl, name: &str) -> Option<&Arc<Item>> {
        self.entry(type_url, name)?.accepted.as_ref()
    }

    /// What is needed by something, but not there.
    pub(crate) fn missing(&self) -> &BTreeSet<Need> {
        &self.missing
    }

    /// Clusters that went lately, with their endpoint sets.
    pub(crate) fn departed(&self) -> impl Iterator<Item = &Departed> {
        self.departed.iter().filter(|departed| self.entry(&TypeUrl::Cluster, departed.cluster.name()).is_none())
    }

    /// An endpoint set that went lately with its cluster.
    pub(crate) fn departed_endpoints(&self, name: &str) -> Option<&Arc<Item>> {
        self.departed().filter_map(|departed| departed.endpoints.as_ref()).find(|set| **set.name() == *name)
    }

    /// Forgets the clusters that went too long ago.
    pub(crate) fn forget_departed(&mut self, now: Duration) {
        self.departed.retain_mut(|departed| now < *departed.at.get_or_insert(now) + DEPARTED_FOR);
    }

    /// What changed after the change number `cursor`; none if that is too long ago to be known.
    pub(crate) fn changes_since(&self, cursor: u64) -> Option<impl Iterator<Item = &Need>> {
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
                Change::Remove { type_url, name } => self.remove(&Need { type_url, name }),
            }
        }
        self.sweep();
        self.inline_stale();
        if self.count > 2 * before {
            self.kinds.values_mut().for_each(Names::compact);
        }
    }

    /// Shortens the log to what is worth its memory, after whoever needs all of the latest changes has seen them.
    pub(crate) fn trim(&mut self) {
        let limit = LOG_AT_LEAST.max(self.count / LOG_SHARE);
        self.log.drain(..self.log.len().saturating_sub(limit));
        if self.log.capacity() > 2 * limit {
            self.log.shrink_to(limit);
        }
    }

    /// A client has acknowledged (for a listener: uses) this item. True if it was not known before.
    pub(crate) fn accept(&mut self, item: &Arc<Item>) -> bool {
        item.parts.iter().for_each(|part| {
            self.accept(part);
        });
        let Some(entry) = self.entry_of(item) else { return false };
        // what was tried again since it was sent is the same
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
        self.ledger.note(item.key(), self.count);
        self.sweep();
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
    pub(crate) fn forgive(&mut self, key: &Need) {
        let seq = self.seq + 1;
        let Some(entry) = self.entry_mut(&key.type_url, &key.name) else { return };
        entry.refused = false;
        let Item { resource, parts, .. } = &*entry.current;
        let again = Arc::new(Item { resource: Arc::clone(resource), seq, parts: parts.clone() });
        if entry.accepted.as_ref().is_some_and(|accepted| Arc::ptr_eq(accepted, &entry.current)) {
            entry.accepted = Some(Arc::clone(&again));
        }
        entry.current = again;
        self.changed(key.clone());
        self.inline_stale();
    }

    /// What was reported of a name is to be reported again once it is true again.
    pub(crate) fn forget_report(&mut self, key: &Need) {
        if let Some(entry) = self.entry_mut(&key.type_url, &key.name) {
            entry.reported = None;
        }
    }

    /// The current version was refused and nothing newer was put.
    pub(crate) fn is_refused(&self, key: &Need) -> bool {
        self.entry(&key.type_url, &key.name).is_some_and(|entry| entry.refused)
    }

    /// Notes that this version of a name is reported. False if it was already, or stands in for a newer one that was refused.
    pub(crate) fn report(&mut self, item: &Item) -> bool {
        let Some(entry) = self.entry_of(item) else { return false };
        if entry.current.version() != item.version() {
            return false;
        }
        let mark = Some(item.version().mark());
        std::mem::replace(&mut entry.reported, mark) != mark
    }

    /// Nothing counts as reported any more.
    pub(crate) fn forget_reports(&mut self) {
        self.kinds.values_mut().flat_map(Names::values_mut).for_each(|entry| entry.reported = None);
    }

    /// Whether some client needs route configurations with the hosts of VHDS inside.
    pub(crate) fn set_inlines(&mut self, needed: bool) {
        if std::mem::replace(&mut self.inlines, needed) == needed {
            return;
        }
        if needed {
            self.stale.extend(self.targets(&TypeUrl::Route).map(|route| Arc::clone(route.name())).collect::<Vec<_>>());
            return self.inline_stale();
        }
        let inlined = self.kinds.get(&INLINE).into_iter().flat_map(Names::values);
        let gone: Vec<Arc<str>> = inlined.map(|entry| Arc::clone(entry.current.name())).collect();
        gone.into_iter().for_each(|name| self.take_away(&Need::new(INLINE.clone(), name)));
        self.stale.clear();
        self.sweep();
    }

    /// Puts route configurations together of which a part has changed.
    fn inline_stale(&mut self) {
        while let Some(name) = self.stale.pop_first() {
            let route = self.target(&TypeUrl::Route, &name).cloned();
            let hosts: Vec<Arc<Item>> = self.hosts_of(&name).cloned().collect();
            if let Some((route, whole)) = route.and_then(|route| Some((inlined(&route.resource, &hosts)?, route))) {
                let parts = std::iter::once(whole).chain(hosts).collect();
                self.put(Arc::new(route), parts);
            } else {
                self.take_away(&Need::new(INLINE.clone(), name));
            }
            self.sweep();
        }
    }

    fn entry(&self, type_url: &TypeUrl, name: &str) -> Option<&Entry> {
        self.kinds.get(type_url)?.get(name)
    }

    fn entry_of(&mut self, item: &Item) -> Option<&mut Entry> {
        let Need { type_url, name } = item.key();
        self.entry_mut(&type_url, &name)
    }

    fn entry_mut(&mut self, type_url: &TypeUrl, name: &str) -> Option<&mut Entry> {
        self.kinds.get_mut(type_url)?.get_mut(name)
    }

    fn put(&mut self, resource: Arc<Resource>, parts: Box<[Arc<Item>]>) {
        let item = Arc::new(Item { resource: Arc::clone(&resource), seq: self.seq + 1, parts });
        let key = item.key();
        let Some(entry) = self.entry_mut(&key.type_url, &key.name) else {
            self.needs.add(&resource);
            let entry = Entry {
                current: item,
                accepted: None,
                previous: None,
                refused: false,
                leaving: false,
                reported: None,
                saved: None,
            };
            self.kinds.entry(key.type_url.clone()).or_default().insert(Arc::clone(&key.name), entry);
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
        if same {
            entry.reported = None;
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

    fn remove(&mut self, key: &Need) {
        if let Some(entry) = self.entry_mut(&key.type_url, &key.name) {
            entry.leaving = true;
            self.needs.release(key.clone());
        }
    }

    /// Removes what was to leave and is not needed any more.
    fn sweep(&mut self) {
        while let Some(key) = self.needs.next_released() {
            let leaving = self.entry(&key.type_url, &key.name).is_some_and(|entry| entry.leaving);
            if leaving && !self.is_used(&key) {
                self.take_away(&key);
            } else {
                self.note_missing(&key);
            }
        }
    }

    /// Something names it; an endpoint set is used by the cluster of its name without being told.
    fn is_used(&self, key: &Need) -> bool {
        let by_cluster = key.type_url == TypeUrl::Endpoints && self.entry(&TypeUrl::Cluster, &key.name).is_some();
        by_cluster || self.needs.is_needed(key)
    }

    fn take_away(&mut self, key: &Need) {
        let Some(entry) = self.kinds.get_mut(&key.type_url).and_then(|kind| kind.remove(&key.name)) else { return };
        self.count -= 1;
        self.ledger.note(key.clone(), self.count);
        if let Some(older) = entry.older() {
            self.needs.drop(&older.resource);
        }
        self.needs.drop(&entry.current.resource);
        if key.type_url == TypeUrl::Cluster {
            self.departed.drain(..(self.departed.len() + 1).saturating_sub(MOST_DEPARTED));
            let named = entry.current.resource.needs().find(|need| need.type_url == TypeUrl::Endpoints);
            let set = named.map_or(&key.name, |need| &need.name);
            let endpoints = self.target(&TypeUrl::Endpoints, set).cloned();
            let good = entry.target().cloned();
            self.departed.extend(good.map(|cluster| Departed { cluster, endpoints, at: None }));
            self.needs.release(Need::new(TypeUrl::Endpoints, Arc::clone(&key.name)));
        }
        self.changed(key.clone());
    }

    /// Numbers and logs a change.
    fn changed(&mut self, key: Need) {
        self.seq += 1;
        if self.inlines {
            self.stale.extend(match key.type_url {
                TypeUrl::Route => Some(Arc::clone(&key.name)),
                TypeUrl::VirtualHost => route_configuration_of(&key.name).map(Arc::from),
                _ => None,
            });
        }
        self.note_missing(&key);
        for need in self.needs.take_added() {
            self.note_missing(&need);
        }
        self.log.push_back((self.seq, key));
        while self.log.len() > LOG_AT_LEAST.max(self.count) {
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
