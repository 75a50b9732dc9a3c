//! What becomes of patches of generated resources, and what proxies say to these: a resource that is refused with patches is tried with fewer.

use std::ops::ControlFlow;
use std::sync::Arc;

use ir::FleetName;
use store::FactKey;
use tracing::debug;
use translator::InFleet;
use xds::{Event, TypeUrl, Version};

use super::facts::set_fact;
use super::{Core, replicas};
use crate::publish::{Mark, named};

/// So many refusals of one resource are remembered: as many edits of policies that were refused, and more policies than anybody has.
const MOST_REFUSALS: usize = 128;

impl Core {
    /// Notes what proxies say of a resource with patches, and whether a tick is due. Breaks if nothing else has to know of the event: without the
    /// patches the resource may be good, and whoever wrote the rest of it is not to blame.
    pub(super) fn note_of_patched(&mut self, event: &Event) -> ControlFlow<bool, bool> {
        let (fleet, type_url, name, version) = match event {
            Event::Refused { fleet, type_url, name, version, .. }
            | Event::Accepted { fleet, type_url, name, version, .. } => (fleet, type_url, name, Some(*version)),
            Event::ClusterWarm { fleet, name } => (fleet, &TypeUrl::Cluster, name, None),
            _ => return ControlFlow::Continue(false),
        };
        let Some(mark) = self.mark_of(fleet, type_url, name, version) else { return ControlFlow::Continue(false) };
        let fact = FactKey::of_kind(Arc::clone(fleet), replicas::kind(type_url), name);
        match event {
            Event::Refused { text, .. } => self.note_patched_refusal(fact, mark, text),
            _ => ControlFlow::Continue(self.note_patched_acceptance(fact, mark)),
        }
    }

    /// Which patches are in a version of a resource, or in what was published last.
    fn mark_of(&self, fleet: &Arc<str>, type_url: &TypeUrl, name: &Arc<str>, version: Option<Version>) -> Option<Mark> {
        let key = InFleet { fleet: FleetName(Arc::clone(fleet)), name: named(type_url, name)? };
        match version {
            Some(version) => self.publisher.mark_of(&key, version),
            None => self.publisher.current_mark(&key),
        }
    }

    /// What is accepted is no longer to be found out.
    fn note_patched_acceptance(&mut self, fact: FactKey, mark: Mark) -> bool {
        let Some(known) = self.known_refusals(&fact) else { return false };
        match mark {
            Mark::None if known.without => self.forget_refusals(&fact),
            Mark::Of(mark) => self.note_acceptance(&fact, mark),
            Mark::Old | Mark::None => false,
        }
    }

    fn note_patched_refusal(&mut self, fact: FactKey, mark: Mark, text: &Arc<str>) -> ControlFlow<bool, bool> {
        match mark {
            // What is published now gets an answer of its own.
            Mark::Old => ControlFlow::Break(false),
            Mark::None => {
                // None of the patches that were refused is in it: they may not be to blame.
                let is_open = self.known_refusals(&fact).is_some_and(|known| !known.words.is_empty());
                if is_open {
                    self.refusals.entry(fact.clone()).or_default().without = true;
                }
                ControlFlow::Continue(is_open && self.tell_refusals(&fact))
            }
            Mark::Of(mark) => {
                debug!(gateway = %fact.fleet, resource = %fact.name, %text, "a proxy refused a resource with patches");
                self.metrics.refused += 1;
                ControlFlow::Break(self.note_refusal(fact, mark, text, MOST_REFUSALS))
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
