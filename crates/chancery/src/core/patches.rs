//! What becomes of patches of generated resources, and what proxies say to these: a resource that is refused with patches is tried with fewer.

use std::sync::Arc;

use ir::FleetName;
use store::{FactKey, PatchRefusals};
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
            Mark::None if known.without => drop(self.patch_refusals.remove(&fact)),
            Mark::Of(mark) if !known.accepted.contains(&mark) => {
                self.patch_refusals.entry(fact.clone()).or_default().accepted.insert(mark);
            }
            Mark::Old | Mark::None | Mark::Of(_) => return,
        }
        self.tell_patched(&fact);
    }

    fn note_patched_refusal(&mut self, fact: FactKey, mark: Mark, text: &Arc<str>) -> Option<bool> {
        match mark {
            // What is published now gets an answer of its own.
            Mark::Old => return Some(false),
            Mark::None => {
                // None of the patches that were refused is in it: they may not be to blame.
                if self.known_refusals(&fact).is_some_and(|known| !known.words.is_empty()) {
                    self.patch_refusals.entry(fact.clone()).or_default().without = true;
                    self.tell_patched(&fact);
                }
                return None;
            }
            Mark::Of(mark) => {
                let refusals = self.patch_refusals.entry(fact.clone()).or_default();
                // What was refused long ago is tried once more.
                if refusals.words.len() >= MOST_REFUSALS {
                    *refusals = PatchRefusals::default();
                }
                refusals.words.insert(mark, Arc::clone(text));
            }
        }
        debug!(gateway = %fact.fleet, resource = %fact.name, %text, "a proxy refused a resource with patches");
        self.metrics.refused += 1;
        Some(self.tell_patched(&fact))
    }

    /// What all proxies made of a resource with patches.
    fn known_refusals(&self, fact: &FactKey) -> Option<&Arc<PatchRefusals>> {
        self.translator.graph().get(self.translator.stored().tables().patch_refusals, fact)
    }

    /// Tells others what proxies here made of a resource with patches; true if with what others say of it that is news.
    fn tell_patched(&mut self, fact: &FactKey) -> bool {
        self.replicas.note_patched(fact, self.patch_refusals.get(fact));
        self.settle_patched(fact)
    }

    /// Writes what all proxies made of a resource with patches; true if that is news.
    pub(super) fn settle_patched(&mut self, fact: &FactKey) -> bool {
        let mut refusals = self.patch_refusals.get(fact).cloned().unwrap_or_default();
        self.replicas.add_patched(fact, &mut refusals);
        let (store, graph) = self.translator.store();
        let table = store.tables().patch_refusals;
        if refusals == PatchRefusals::default() {
            return graph.remove(table, fact);
        }
        set_fact(graph, table, fact.clone(), Arc::new(refusals))
    }

    /// Writes what became of patches; true if that is news.
    pub(super) fn note_patches(&mut self) -> bool {
        let mut news = false;
        for (key, states) in self.publisher.take_told() {
            let (store, graph) = self.translator.store();
            let tables = store.tables();
            news |= match states {
                Some(states) => set_fact(graph, tables.patch_states, key, states),
                None => {
                    self.patch_refusals.remove(&key);
                    self.replicas.note_patched(&key, None);
                    graph.remove(tables.patch_refusals, &key);
                    graph.remove(tables.patch_states, &key)
                }
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
