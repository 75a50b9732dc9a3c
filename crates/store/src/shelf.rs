//! Precedence: of each identity, who is in force and who is kept aside.

use std::collections::BTreeMap;

use api::{Object, ObjectKey, Place, Problem, Severity};

use crate::batch::{Origin, Source};
use crate::in_force::InForce;

/// Objects that a stronger source keeps out of force: identity, then source in the order of precedence.
///
/// It holds only identities that more than one source gives, so it is small.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    held: BTreeMap<ObjectKey, BTreeMap<Source, Held>>,
}

/// An object kept aside.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) object: Object,
    pub(crate) origin: Origin,
    warning: Problem,
}

impl Shelf {
    /// Keeps the object of a weaker source aside; true if that is any news, and then [`Shelf::warn`] has to follow.
    pub(crate) fn hold(&mut self, key: &ObjectKey, source: Source, object: Object, origin: Origin) -> bool {
        let sources = self.held.entry(key.clone()).or_default();
        if sources.get(&source).is_some_and(|old| old.object == object && old.origin == origin) {
            return false;
        }
        let warning = Problem::of(key, "", Severity::Warning, "");
        sources.insert(source, Held { object, origin, warning });
        true
    }

    /// Lets the object of a source go; true if it was held.
    pub(crate) fn drop_from(&mut self, key: &ObjectKey, source: Source) -> bool {
        let Some(sources) = self.held.get_mut(key) else { return false };
        let found = sources.remove(&source).is_some();
        if sources.is_empty() {
            self.held.remove(key);
        }
        found
    }

    /// Takes the strongest of those kept aside.
    pub(crate) fn take_strongest(&mut self, key: &ObjectKey) -> Option<(Source, Held)> {
        let sources = self.held.get_mut(key)?;
        let heir = sources.pop_first();
        if sources.is_empty() {
            self.held.remove(key);
        }
        heir
    }

    /// Words the warnings of an identity anew, after whoever is in force changed.
    pub(crate) fn warn(&mut self, key: &ObjectKey, winner: &InForce) {
        for (source, held) in self.held.get_mut(key).into_iter().flatten() {
            held.warning = warning(key, winner, *source, &held.origin);
        }
    }

    /// One warning per object kept aside.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.held.values().flat_map(BTreeMap::values).map(|held| &held.warning)
    }

    /// The sources that have an object of this identity kept aside.
    pub(crate) fn sources<'a>(&'a self, key: &ObjectKey) -> impl Iterator<Item = (Source, &'a Origin)> + use<'a> {
        self.held.get(key).into_iter().flatten().map(|(source, held)| (*source, &held.origin))
    }
}

fn warning(key: &ObjectKey, winner: &InForce, source: Source, origin: &Origin) -> Problem {
    let text = format!(
        "comes from {} ({}) and from {source} ({origin}): the first is in force, the second has no effect until it goes; \
         remove one of them",
        winner.source, winner.origin
    );
    let place = (origin.line > 0).then(|| Place { file: origin.file.clone(), line: origin.line, column: 1 });
    Problem { place, ..Problem::of(key, "", Severity::Warning, text) }
}
