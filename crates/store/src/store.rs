//! [`Store`]: applies what sources send.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Kind, Object, ObjectKey, Problem};
use engine::{Graph, Table, Value};

use crate::batch::{Batch, Change, Origin, Source};
use crate::fact::FactKey;
use crate::in_force::{AllInForce, InForce};
use crate::shelf::Shelf;
use crate::tables::Tables;

/// What all sources gave, with one object in force per identity.
#[derive(Debug)]
pub struct Store {
    tables: Tables,
    in_force: AllInForce,
    shelf: Shelf,
    /// Lists are sorted by place. The key's order is that of the places' files within a source.
    problems: BTreeMap<(Arc<str>, Source), Vec<Problem>>,
    revision: u64,
    /// Sets of sources, a bit each.
    expected: u8,
    listed: u8,
}

impl Store {
    /// Declares the input tables. They come first in a graph, so that everything else can read them.
    #[must_use]
    pub fn declare(graph: &mut Graph) -> Self {
        Self {
            tables: Tables::declare(graph),
            in_force: AllInForce::default(),
            shelf: Shelf::default(),
            problems: BTreeMap::new(),
            revision: 0,
            expected: 0,
            listed: 0,
        }
    }

    /// The handles of the input tables.
    #[must_use]
    pub fn tables(&self) -> Tables {
        self.tables
    }

    /// Brings a batch into the tables. The next tick sees all of it. An object equal to the present one is no change.
    pub fn apply(&mut self, graph: &mut Graph, batch: Batch) {
        let Batch { source, changes, listed } = batch;
        if self.is_empty() {
            self.make_room(graph, &changes);
        }
        for change in changes {
            match change {
                Change::Apply(object, origin) => self.apply_object(graph, source, object, origin),
                Change::Delete(key) => self.delete(graph, source, &identity(&key)),
                Change::Reject(key, Some(rejected)) => graph.set(self.tables.rejected, identity(&key), rejected),
                Change::Reject(key, None) => drop(graph.remove(self.tables.rejected, &identity(&key))),
                Change::SocketPath(path, Some(resolved)) => graph.set(self.tables.socket_paths, path, resolved),
                Change::SocketPath(path, None) => drop(graph.remove(self.tables.socket_paths, &path)),
                Change::Definitions(definitions) => graph.set(self.tables.definitions, (), definitions),
                Change::Problems { origin, problems } => self.replace_problems(source, origin, problems),
            }
        }
        if listed {
            self.listed |= source.bit();
        }
    }

    /// Registers a source: nothing is ready before it has listed once.
    pub fn expect(&mut self, source: Source) {
        self.expected |= source.bit();
    }

    /// Whether every registered source has listed all that it has at least once.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.expected & !self.listed == 0
    }

    /// Registered sources that have not listed yet, strongest first.
    pub fn awaited(&self) -> impl Iterator<Item = Source> {
        let missing = self.expected & !self.listed;
        Source::ALL.into_iter().filter(move |source| missing & source.bit() != 0)
    }

    /// What is wrong with what sources gave, sorted by place, then by the order of problems; those without a place
    /// come first. Sorts at each call.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let mut all: Vec<&Problem> = self.problems.values().flatten().chain(self.shelf.warnings()).collect();
        all.sort_by(|one, two| by_place(one, two));
        all.into_iter()
    }

    /// Changes whenever [`Store::problems`] does.
    #[must_use]
    pub fn problems_revision(&self) -> u64 {
        self.revision
    }

    /// Where the object in force is written.
    #[must_use]
    pub fn origin(&self, key: &ObjectKey) -> Option<Origin> {
        self.in_force.get(&identity(key)).map(|entry| entry.origin)
    }

    /// The source of the object in force.
    #[must_use]
    pub fn source(&self, key: &ObjectKey) -> Option<Source> {
        self.in_force.get(&identity(key)).map(|entry| entry.source)
    }

    /// Sources that give an object of this identity too, but weaker ones, strongest first.
    pub fn aside<'a>(&'a self, key: &ObjectKey) -> impl Iterator<Item = (Source, &'a Origin)> + use<'a> {
        self.shelf.sources(&identity(key))
    }

    /// Objects in force.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_force.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_force.len() == 0
    }

    /// Forgets every fact about a fleet, as when its last proxy is gone. Looks at all facts; a rare event.
    pub fn forget_fleet(&self, graph: &mut Graph, fleet: &str) {
        let tables = self.tables;
        graph.remove(tables.fleet_live, &Arc::from(fleet));
        graph.remove(tables.live_elsewhere, &Arc::from(fleet));
        graph.remove(tables.proxies, &Arc::from(fleet));
        forget_facts(graph, tables.cluster_state, fleet);
        forget_facts(graph, tables.listener_state, fleet);
        forget_facts(graph, tables.secret_refusals, fleet);
        forget_facts(graph, tables.route_refusals, fleet);
        forget_facts(graph, tables.disputes, fleet);
        forget_facts(graph, tables.refusals, fleet);
        forget_facts(graph, tables.loads, fleet);
    }

    /// Makes room for the first objects.
    fn make_room(&mut self, graph: &mut Graph, changes: &[Change]) {
        let mut counts = [0; Kind::ALL.len()];
        for change in changes {
            if let Change::Apply(object, _) = change
                && let Some(count) = counts.get_mut(object.kind() as usize)
            {
                *count += 1;
            }
        }
        self.in_force.make_room(counts.iter().sum());
        for (kind, count) in Kind::ALL.iter().zip(counts) {
            self.tables.make_room(graph, *kind, count);
        }
    }

    fn apply_object(&mut self, graph: &mut Graph, source: Source, object: Object, origin: Origin) {
        let key = identity(object.key());
        match self.in_force.get(&key) {
            Some(winner) if winner.source < source => {
                if self.shelf.hold(&key, source, object, origin) {
                    self.warn(&key, &winner);
                }
                return;
            }
            Some(present) if present.source == source => {
                self.tables.set(graph, key.clone(), object);
                if present.origin != origin {
                    let winner = InForce { origin, source };
                    self.in_force.set(key.clone(), winner.clone());
                    self.warn(&key, &winner);
                }
                return;
            }
            Some(weaker) => {
                let winner = InForce { origin, source };
                self.in_force.set(key.clone(), winner.clone());
                if let Some(old) = self.tables.get(graph, &key) {
                    self.shelf.hold(&key, weaker.source, old, weaker.origin);
                }
                self.shelf.drop_from(&key, source);
                self.revision += 1;
                self.shelf.warn(&key, &winner);
            }
            None => {
                self.in_force.set(key.clone(), InForce { origin, source });
            }
        }
        self.tables.set(graph, key, object);
    }

    fn delete(&mut self, graph: &mut Graph, source: Source, key: &ObjectKey) {
        if self.in_force.get(key).is_none_or(|present| present.source != source) {
            if self.shelf.drop_from(key, source) {
                self.revision += 1;
            }
            return;
        }
        let Some((heir, held)) = self.shelf.take_strongest(key) else {
            self.in_force.remove(key);
            self.tables.remove(graph, key);
            return;
        };
        let winner = InForce { origin: held.origin, source: heir };
        self.tables.set(graph, key.clone(), held.object);
        self.revision += 1;
        self.shelf.warn(key, &winner);
        self.in_force.set(key.clone(), winner);
    }

    fn warn(&mut self, key: &ObjectKey, winner: &InForce) {
        if self.shelf.sources(key).next().is_some() {
            self.revision += 1;
            self.shelf.warn(key, winner);
        }
    }

    fn replace_problems(&mut self, source: Source, origin: Arc<str>, mut problems: Vec<Problem>) {
        problems.sort_by(by_place);
        let place = (origin, source);
        if self.problems.get(&place).map_or(&[][..], Vec::as_slice) == problems.as_slice() {
            return;
        }
        self.revision += 1;
        if problems.is_empty() {
            self.problems.remove(&place);
        } else {
            self.problems.insert(place, problems);
        }
    }
}

/// The key under which an object counts. There is one static configuration, whatever name it has; every other object
/// is what its key says.
#[must_use]
pub fn identity(key: &ObjectKey) -> ObjectKey {
    match key.kind() {
        Some(Kind::EnvoyGateway) if !(key.namespace().is_empty() && key.name().is_empty()) => {
            ObjectKey::of(Kind::EnvoyGateway, "", "")
        }
        _ => key.clone(),
    }
}

fn by_place(one: &Problem, two: &Problem) -> std::cmp::Ordering {
    one.place.cmp(&two.place).then_with(|| one.cmp(two))
}

fn forget_facts<V: Value>(graph: &mut Graph, table: Table<FactKey, V>, fleet: &str) {
    let keys: Vec<FactKey> =
        graph.iter(table).map(|(key, _)| key).filter(|key| &*key.fleet == fleet).cloned().collect();
    for key in &keys {
        graph.remove(table, key);
    }
}

#[cfg(test)]
mod tests;
