//! What there is to report on in a fleet: clusters, localities in them, endpoints in those; each a row with the sum of what all say.
//!
//! A row is found by its parent and the bytes by which clients name it, so that names are read once and not with each report. One
//! place in two encodings is two rows; they are added up when they are told.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};

use super::numbers::{Numbers, Tally};
use super::{ClusterLoad, Load, Locality, LocalityLoad, Rate};

/// What the reports of one fleet may hold. Who reaches them keeps nothing from another fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Reporters at a time, those included whose stream has ended and whose last report still counts: of 16,384 connections and their
    /// predecessors.
    pub(super) reporters: usize,
    /// Rows and metrics of all reports together: 10,000 proxies that report on 400 clusters with three localities each, at 48 bytes
    /// 800 MB.
    pub(super) parts: usize,
    /// Rows: 10,000 clusters with three localities and 40 endpoints each, and a fifth more. Each has some 250 bytes beside its name:
    /// 130 MB.
    pub(super) rows: usize,
    /// Bytes of their names as clients write them, 256 each. They are kept again as people write them: 256 MiB.
    pub(super) name_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { reporters: MOST_REPORTERS, parts: 16 << 20, rows: 512 << 10, name_bytes: 128 << 20 }
    }
}

/// See [`Bounds::reporters`].
pub(super) const MOST_REPORTERS: usize = 32_768;

/// The number of a row.
pub(super) type RowId = u32;

/// The parent of clusters.
pub(super) const TOP: RowId = RowId::MAX;

/// What a row is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Nothing: the row is free.
    #[default]
    Free,
    Cluster(Arc<str>),
    Locality(Locality),
    Endpoint(Arc<str>),
}

#[derive(Default)]
pub(super) struct Row {
    key: Key,
    /// The row of its cluster: itself, if it is one.
    cluster: RowId,
    place: Place,
    children: Vec<RowId>,
    /// Which of its parent's children it is.
    index: usize,
    sum: Numbers,
    /// Reporters that have it in their last report.
    users: u32,
    /// So many of them when it was told.
    told: u32,
    /// Of a cluster: requests issued since there is a report.
    requests: u64,
    /// Of a cluster: it is among those to be told.
    marked: bool,
    /// In the report of this serial number it has this place.
    pub(super) staged: (u64, usize),
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Key {
    parent: RowId,
    name: Arc<[u8]>,
}

#[derive(Hash)]
struct Named<'a> {
    parent: RowId,
    name: &'a [u8],
}

impl Equivalent<Key> for Named<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.parent == key.parent && *self.name == *key.name
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    free: Vec<RowId>,
    index: HashMap<Key, RowId>,
    pub(super) bounds: Bounds,
    name_bytes: usize,
    /// Clusters of which there is something to tell.
    marked: Vec<Arc<str>>,
}

impl Rows {
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Whether there is something to tell.
    pub(super) fn is_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    pub(super) fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        self.rows.get_mut(id as usize)
    }

    pub(super) fn find(&self, parent: RowId, name: &[u8]) -> Option<RowId> {
        self.index.get(&Named { parent, name }).copied()
    }

    /// Whether this is the row of this name.
    pub(super) fn is(&self, id: RowId, parent: RowId, name: &[u8]) -> bool {
        self.rows.get(id as usize).is_some_and(|row| row.key.parent == parent && *row.key.name == *name)
    }

    /// The row's tallies by name.
    pub(super) fn tallies(&self, id: RowId) -> &[Tally] {
        self.rows.get(id as usize).map_or(&[], |row| row.sum.tallies())
    }

    /// A new row, of which nobody says anything yet; none if there are as many as there may be.
    pub(super) fn insert(&mut self, parent: RowId, name: &[u8], place: Place) -> Option<RowId> {
        if self.index.len() >= self.bounds.rows || self.name_bytes + name.len() > self.bounds.name_bytes {
            return None;
        }
        self.name_bytes += name.len();
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let id = RowId::try_from(self.rows.len()).ok().filter(|id| *id != TOP)?;
                self.rows.push(Row::default());
                id
            }
        };
        let (cluster, index) = match self.get_mut(parent) {
            Some(parent) => {
                parent.children.push(id);
                (parent.cluster, parent.children.len() - 1)
            }
            None => (id, 0),
        };
        let key = Key { parent, name: name.into() };
        self.index.insert(key.clone(), id);
        *self.get_mut(id)? = Row { key, cluster, place, index, ..Row::default() };
        Some(id)
    }

    /// So many requests were issued to a cluster.
    pub(super) fn count(&mut self, cluster: RowId, requests: u64) {
        if requests > 0
            && let Some(row) = self.get_mut(cluster)
        {
            row.requests = row.requests.saturating_add(requests);
            self.mark(cluster);
        }
    }

    /// A reporter says this.
    pub(super) fn add(&mut self, id: RowId, numbers: &Numbers) {
        let Some(row) = self.get_mut(id) else { return };
        row.users += 1;
        let cluster = row.cluster;
        if !numbers.is_zero() {
            row.sum.add(numbers);
            self.mark(cluster);
        }
    }

    /// A reporter says something else.
    pub(super) fn replace(&mut self, id: RowId, before: &Numbers, numbers: &Numbers) {
        if before == numbers {
            return;
        }
        let Some(row) = self.get_mut(id) else { return };
        row.sum.add(numbers);
        row.sum.subtract(before);
        let cluster = row.cluster;
        self.mark(cluster);
    }

    /// A reporter does not say this any more.
    pub(super) fn subtract(&mut self, id: RowId, numbers: &Numbers) {
        let Some(row) = self.get_mut(id) else { return };
        row.users = row.users.saturating_sub(1);
        let cluster = row.cluster;
        if !numbers.is_zero() {
            row.sum.subtract(numbers);
            self.mark(cluster);
        }
    }

    /// What a change came to: the row is gone if nobody says anything of it any more. Parents come after their children.
    pub(super) fn settle(&mut self, id: RowId) {
        let Some(row) = self.get_mut(id) else { return };
        if matches!(row.place, Place::Free) {
            return;
        }
        let (cluster, unused) = (row.cluster, row.users == 0);
        if row.users != row.told {
            row.told = row.users;
            self.mark(cluster);
        }
        if unused {
            self.remove(id);
        }
    }

    /// Removes rows of which nobody says anything, in the order in which they came: with a report that was then not read to its end.
    pub(super) fn take_back(&mut self, new: &[RowId]) {
        new.iter().rev().for_each(|id| self.remove(*id));
    }

    fn remove(&mut self, id: RowId) {
        let Some(row) = self.get_mut(id).map(std::mem::take) else { return };
        self.index.remove(&row.key);
        self.name_bytes -= row.key.name.len();
        self.free.push(id);
        // a parent that went before has none any more
        let Some(parent) = self.get_mut(row.key.parent).filter(|parent| parent.children.get(row.index) == Some(&id))
        else {
            return;
        };
        parent.children.swap_remove(row.index);
        let moved = parent.children.get(row.index).copied();
        if let Some(moved) = moved.and_then(|child| self.get_mut(child)) {
            moved.index = row.index;
        }
    }

    fn mark(&mut self, cluster: RowId) {
        let Some(row) = self.get_mut(cluster) else { return };
        if let (Place::Cluster(name), false) = (&row.place, row.marked) {
            let name = Arc::clone(name);
            row.marked = true;
            self.marked.push(name);
        }
    }

    /// What there is to tell, by cluster; none of those of which nobody says anything any more.
    pub(super) fn take_marked(&mut self) -> Vec<(Arc<str>, Option<Arc<ClusterLoad>>)> {
        let mut marked = std::mem::take(&mut self.marked);
        marked.sort_unstable();
        marked.dedup();
        let told = marked.into_iter().map(|name| {
            let id = self.find(TOP, name.as_bytes());
            if let Some(row) = id.and_then(|id| self.get_mut(id)) {
                row.marked = false;
            }
            let load = id.and_then(|id| self.rows.get(id as usize)).map(|row| Arc::new(self.cluster(row)));
            (name, load)
        });
        told.collect()
    }

    fn cluster(&self, row: &Row) -> ClusterLoad {
        let localities = self.places(&[row]).into_iter().filter_map(|(place, rows)| {
            let Place::Locality(locality) = place else { return None };
            let endpoints = self.places(&rows).into_iter().filter_map(|(place, rows)| {
                let Place::Endpoint(address) = place else { return None };
                Some((Arc::clone(address), sum(&rows)))
            });
            Some((locality.clone(), LocalityLoad { load: sum(&rows), endpoints: endpoints.collect() }))
        });
        let [dropped, ..] = row.sum.rates.map(Rate);
        ClusterLoad {
            reporters: row.users,
            requests: row.requests,
            dropped,
            dropped_by: row.sum.tallied().collect(),
            localities: localities.collect(),
        }
    }

    /// The places below these rows, sorted, each with its rows: one for every way in which clients write it down.
    fn places<'a>(&'a self, rows: &[&'a Row]) -> Vec<(&'a Place, Vec<&'a Row>)> {
        let children = rows.iter().flat_map(|row| &row.children).filter_map(|id| self.rows.get(*id as usize));
        let mut children: Vec<&Row> = children.collect();
        children.sort_unstable_by(|one, other| one.place.cmp(&other.place));
        let chunks = children.chunk_by(|one, other| one.place == other.place);
        chunks.filter_map(|rows| Some((&rows.first()?.place, rows.to_vec()))).collect()
    }
}

fn sum(rows: &[&Row]) -> Load {
    match rows {
        [row] => row.sum.load(),
        rows => {
            let mut sum = Numbers::default();
            rows.iter().for_each(|row| sum.add(&row.sum));
            sum.load()
        }
    }
}
