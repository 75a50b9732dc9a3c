//! Clusters that are gone: what was said of them is forgotten, so that their routes wait for them again when they come back.

use engine::{Graph, Table};
use store::{ClusterState, FactKey};

use crate::output::{ClusterTables, changes};

/// Forgets facts about clusters that went in the last tick. What is said of them later is late, and nobody writes it down.
pub(crate) fn forget(graph: &mut Graph, clusters: ClusterTables, facts: Table<FactKey, ClusterState>) {
    let gone = changes(graph, clusters).filter(|change| change.new.is_none());
    let gone: Vec<_> = gone.map(|change| FactKey::new(change.key.fleet.0.clone(), change.key.name.0.clone())).collect();
    for fact in gone {
        graph.remove(facts, &fact);
    }
}
