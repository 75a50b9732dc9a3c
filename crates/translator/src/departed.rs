//! Clusters that are gone: what was said of them is forgotten, so that their routes wait for them again when they come back.

use std::collections::BTreeMap;

use engine::{Graph, Table};
use store::{ClusterState, FactKey};

use crate::output::ClusterTables;

/// For this many publications, words about a cluster that is gone are taken for late ones. They come within one or two.
const REMEMBERED: u64 = 64;

/// Clusters that went lately, with the publication in which they went.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    publications: u64,
    gone: BTreeMap<FactKey, u64>,
}

impl Departed {
    /// Forgets facts about clusters that went in the last tick, and about those that went before and are not back.
    pub(crate) fn forget(&mut self, graph: &mut Graph, clusters: ClusterTables, facts: Table<FactKey, ClusterState>) {
        self.publications += 1;
        for change in clusters.into_iter().flat_map(|table| graph.changes(table)) {
            let fact = FactKey { fleet: change.key.fleet.0.clone(), name: change.key.name.0.clone() };
            match change.new {
                None => drop(self.gone.insert(fact, self.publications)),
                Some(_) if self.gone.is_empty() => {}
                Some(_) => drop(self.gone.remove(&fact)),
            }
        }
        let oldest = self.publications.saturating_sub(REMEMBERED);
        self.gone.retain(|_, went| *went > oldest);
        for fact in self.gone.keys() {
            graph.remove(facts, fact);
        }
    }
}
