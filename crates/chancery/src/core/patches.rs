//! What becomes of patches of generated resources, and what proxies say to these: a resource that is refused with patches is tried with fewer.

use std::sync::Arc;

use ir::FleetName;
use store::FactKey;
use tracing::debug;
use translator::InFleet;
use xds::{Event, TypeUrl};

use super::facts::set_fact;
use super::{Core, replicas};
use crate::publish::{Mark, ResourceKey, named};

/// So many refusals of one resource are remembered: as many edits of policies that were refused, and more policies than anybody has.
const MOST_REFUSALS: usize = 128;

impl Core {
    /// Notes what proxies say of a resource with patches. Whether a tick is due, if nothing else has to know of the event: without the patches the
    /// resource may be good, and whoever wrote the rest of it is not to blame.
    pub(super) fn note_of_patched(&mut self, event: &Event) -> Option<bool> {
        match event {
            Event::Refused { fleet, type_url, name, version, text } => {
                let key = patched(fleet, type_url, name)?;
                let mark = self.publisher.mark_of(&key, *version)?;
                self.note_patched_refusal(fact(fleet, type_url, name), mark, text)
            }
            Event::Accepted { fleet, type_url, name, version, .. } => {
                let mark = self.publisher.mark_of(&patched(fleet, type_url, name)?, *version)?;
                self.note_patched_acceptance(fact(fleet, type_url, name), mark);
                None
            }
            Event::ClusterWarm { fleet, name } => {
                let mark = self.publisher.current_mark(&patched(fleet, &TypeUrl::Cluster, name)?)?;
                self.note_patched_acceptance(fact(fleet, &TypeUrl::Cluster, name), mark);
                None
            }
            _ => None,
        }
    }

    /// What is accepted is no longer to be found out.
    fn note_patched_acceptance(&mut self, fact: FactKey, mark: Mark) {
        let Some(known) = self.known_refusals(&fact) else { return };
        match mark {
            Mark::None if known.without => drop(self.refusals.remove(&fact)),
            Mark::Of(mark) => {
                self.note_acceptance(&fact, mark);
                return;
            }
            Mark::Old | Mark::None => return,
        }
        self.tell_refusals(&fact);
    }

    fn note_patched_refusal(&mut self, fact: FactKey, mark: Mark, text: &Arc<str>) -> Option<bool> {
        match mark {
            // What is published now gets an answer of its own.
            Mark::Old => Some(false),
            Mark::None => {
                // None of the patches that were refused is in it: they may not be to blame.
                if self.known_refusals(&fact).is_some_and(|known| !known.words.is_empty()) {
                    self.refusals.entry(fact.clone()).or_default().without = true;
                    self.tell_refusals(&fact);
                }
                None
            }
            Mark::Of(mark) => {
                debug!(gateway = %fact.fleet, resource = %fact.name, %text, "a proxy refused a resource with patches");
                self.metrics.refused += 1;
                Some(self.note_refusal(fact, mark, text, MOST_REFUSALS))
            }
        }
    }

    /// Writes what became of patches; true if that is news.
    pub(super) fn note_patches(&mut self) -> bool {
        let mut news = false;
        for (key, states) in self.publisher.take_told() {
            if states.is_none() {
                self.forget_refusals(&key);
            }
            let (store, graph) = self.translator.store();
            let table = store.tables().patch_states;
            news |= match states {
                Some(states) => set_fact(graph, table, key, states),
                None => graph.remove(table, &key),
            };
        }
        news
    }
}

fn patched(fleet: &Arc<str>, type_url: &TypeUrl, name: &Arc<str>) -> Option<ResourceKey> {
    Some(InFleet { fleet: FleetName(Arc::clone(fleet)), name: named(type_url, name)? })
}

fn fact(fleet: &Arc<str>, type_url: &TypeUrl, name: &str) -> FactKey {
    FactKey::of_kind(Arc::clone(fleet), replicas::kind(type_url), name)
}
