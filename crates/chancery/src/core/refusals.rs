//! What proxies refused of a resource that several make: patches of a generated one, or objects that hold parts of one. They do not say whose part they
//! mean, so it is tried with fewer, and each answer is noted under the mark of what was in it. Other proxies than those that refused something may take it:
//! where people start them, it is tried once more when the first comes, or as many are gone as there are. In a cluster they are all alike, and what one
//! replica tried again others would not know of.

use std::sync::Arc;

use store::{FactKey, Refusals};

use super::Core;
use super::facts::set_fact;

impl Core {
    /// What all proxies refused of a resource.
    pub(super) fn known_refusals(&self, fact: &FactKey) -> Option<&Arc<Refusals>> {
        self.translator.graph().get(self.translator.stored().tables().refusals, fact)
    }

    /// Notes that proxies refuse what has this mark; true if that is news. Of the last `most` refusals that were noted all are forgotten together, so that
    /// what was refused long ago is tried once more.
    pub(super) fn note_refusal(&mut self, fact: FactKey, mark: u64, words: &Arc<str>, most: usize) -> bool {
        let refusals = self.refusals.entry(fact.clone()).or_default();
        if refusals.words.len() >= most {
            *refusals = Refusals::default();
        }
        refusals.words.insert(mark, Arc::clone(words));
        self.tell_refusals(&fact)
    }

    /// Notes that proxies take what has this mark; true if that is news. As long as they refuse nothing, nobody asks what they take.
    pub(super) fn note_acceptance(&mut self, fact: &FactKey, mark: u64) -> bool {
        if self.known_refusals(fact).is_none_or(|known| known.accepted.contains(&mark)) {
            return false;
        }
        self.refusals.entry(fact.clone()).or_default().accepted.insert(mark);
        self.tell_refusals(fact)
    }

    /// Forgets what proxies here refused; true if that is news.
    pub(super) fn forget_refusals(&mut self, fact: &FactKey) -> bool {
        self.refusals.remove(fact);
        self.tell_refusals(fact)
    }

    /// Notes that a proxy of a Gateway has come; true if what earlier ones refused is tried again.
    pub(super) fn note_successor(&mut self, fleet: &Arc<str>, connected: usize) -> bool {
        connected == 1 && self.replicas.are_none() && self.try_again(fleet)
    }

    /// Notes that a proxy of a Gateway is gone; the same. That is once for as many as there are.
    pub(super) fn note_departed(&mut self, fleet: &Arc<str>, connected: usize) -> bool {
        if connected == 0 || !self.replicas.are_none() || !self.is_refused_something(fleet) {
            self.gone.remove(fleet);
            return false;
        }
        let gone = self.gone.entry(Arc::clone(fleet)).or_default();
        *gone += 1;
        *gone >= connected && self.try_again(fleet)
    }

    fn is_refused_something(&self, fleet: &Arc<str>) -> bool {
        self.translator.has_refused_forms(fleet) || self.refusals.keys().any(|fact| fact.fleet == *fleet)
    }

    fn try_again(&mut self, fleet: &Arc<str>) -> bool {
        self.gone.remove(fleet);
        let facts: Vec<FactKey> = self.refusals.keys().filter(|fact| fact.fleet == *fleet).cloned().collect();
        let forgotten = facts.iter().fold(false, |news, fact| self.forget_refusals(fact) | news);
        self.translator.forget_refused_forms(fleet) | forgotten
    }

    /// Tells others what proxies here refused; true if with what others say of it that is news.
    pub(super) fn tell_refusals(&mut self, fact: &FactKey) -> bool {
        self.replicas.note_refusals(fact, self.refusals.get(fact));
        self.settle_refusals(fact)
    }

    /// Writes what all proxies refused; true if that is news.
    pub(super) fn settle_refusals(&mut self, fact: &FactKey) -> bool {
        let mut refusals = self.refusals.get(fact).cloned().unwrap_or_default();
        self.replicas.add_refusals(fact, &mut refusals);
        let (store, graph) = self.translator.store();
        let table = store.tables().refusals;
        if refusals == Refusals::default() {
            return graph.remove(table, fact);
        }
        set_fact(graph, table, fact.clone(), Arc::new(refusals))
    }
}
