//! [`Catalog`]: what has been handed on of each object, and from an object that came to what changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Kind, Object, ObjectKey, Problem, Severity};
use hashbrown::HashMap;
use store::{Change, Origin};

use crate::kubernetes::loosely;
use crate::kubernetes::observed::Observed;
use crate::kubernetes::seen::Seen;
use crate::kubernetes::target::Target;

/// Where objects come from, for people.
pub(crate) const SOURCE: &str = "Kubernetes";

/// The number of a list: what a list does not have is what nobody told of since it began.
pub(crate) type Listing = u32;

/// All objects that are known, without the objects: those are the store's.
pub(crate) struct Catalog {
    /// Their order never reaches output.
    kinds: BTreeMap<Kind, HashMap<ObjectKey, Entry>>,
    listing: Listing,
    origin: Origin,
    observed: Observed,
    changes: Vec<Change>,
    /// While a list is on its way that is no watch's own: what was deleted meanwhile, and when.
    graves: Option<HashMap<ObjectKey, Option<u64>>>,
}

/// 24 bytes beside the key's 8.
#[derive(Debug)]
struct Entry {
    version: Option<u64>,
    /// Hash of what is kept.
    kept: u64,
    listing: Listing,
    /// Whether the store has an object of it: the first usable form gives one.
    given: bool,
    /// Whether something was said to be wrong with it.
    faulty: bool,
    /// Whether it was said that it cannot be used as it is.
    rejected: bool,
}

/// What became of an object that came.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing that anybody reads changed, or nothing of it can be used.
    Same,
    /// It is this now.
    Changed(Object),
}

impl Catalog {
    pub(crate) fn new(observed: Observed) -> Self {
        Self {
            kinds: BTreeMap::new(),
            listing: 0,
            origin: Origin { file: SOURCE.into(), line: 0 },
            observed,
            changes: Vec::new(),
            graves: None,
        }
    }

    /// Where is noted what there is.
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// What is to be handed on.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Begins a list.
    pub(crate) fn begin(&mut self) -> Listing {
        self.listing += 1;
        self.listing
    }

    /// Whether lists are on their way that are no watch's own. What they have may be older than what is known.
    pub(crate) fn keep_graves(&mut self, keep: bool) {
        if keep {
            self.graves.get_or_insert_default();
        } else {
            self.graves = None;
        }
    }

    /// Whether an object is no newer than what is known, as happens where two watches or a list beside a watch tell of the same.
    pub(crate) fn knows_better(&self, seen: &Seen) -> bool {
        let grave = self.graves.as_ref().and_then(|graves| graves.get(&seen.key)).copied().flatten();
        let known = self.entry(&seen.key).and_then(|entry| entry.version).or(grave);
        matches!((known, seen.version.number()), (Some(known), Some(version)) if version <= known)
    }

    /// An object came.
    pub(crate) fn apply(&mut self, seen: &Seen) -> Outcome {
        let Some(kind) = seen.key.kind() else { return Outcome::Same };
        self.observed.note(seen);
        let listing = self.listing;
        let version = seen.version.number();
        if let Some(entry) = self.kinds.entry(kind).or_default().get_mut(&seen.key) {
            entry.version = version;
            entry.listing = listing;
            if entry.kept == seen.kept {
                return Outcome::Same;
            }
        }
        let (object, problems) = read(kind, seen);
        let old = self.entry(&seen.key);
        let given = object.is_some() || old.is_some_and(|old| old.given);
        let (was_faulty, is_new) = (old.is_some_and(|old| old.faulty), old.is_none());
        let was_rejected = old.is_some_and(|old| old.rejected);
        let faulty = !problems.is_empty();
        let words = words(&problems);
        if faulty || was_faulty {
            self.changes.push(Change::Problems { origin: place(&seen.key), problems });
        }
        // A new key is that of the object, so that there is one of it.
        let key = object.as_ref().filter(|_| is_new).map_or(&seen.key, Object::key).clone();
        let rejected = object.is_none();
        if rejected || was_rejected {
            let why = rejected.then(|| Arc::new(loosely::rejected(seen, &words)));
            self.changes.push(Change::Reject(seen.key.clone(), why));
        }
        let entry = Entry { version, kept: seen.kept, listing, given, faulty, rejected };
        self.kinds.entry(kind).or_default().insert(key, entry);
        let Some(object) = object else { return Outcome::Same };
        self.changes.push(Change::Apply(object.clone(), self.origin.clone()));
        Outcome::Changed(object)
    }

    /// An object went, unless it came back since; whether it did go.
    pub(crate) fn delete(&mut self, seen: &Seen) -> bool {
        let version = seen.version.number();
        if let Some(graves) = &mut self.graves {
            graves.insert(seen.key.clone(), version);
        }
        let known = self.entry(&seen.key).and_then(|entry| entry.version);
        !matches!((known, version), (Some(known), Some(version)) if version < known) && self.forget(&seen.key)
    }

    /// An object counts no more; whether it was known.
    pub(crate) fn forget(&mut self, key: &ObjectKey) -> bool {
        let entries = key.kind().and_then(|kind| self.kinds.get_mut(&kind));
        let Some((key, entry)) = entries.and_then(|entries| entries.remove_entry(key)) else { return false };
        self.observed.forget(&key);
        if entry.faulty {
            self.changes.push(Change::Problems { origin: place(&key), problems: Vec::new() });
        }
        if entry.rejected {
            self.changes.push(Change::Reject(key.clone(), None));
        }
        if entry.given {
            self.changes.push(Change::Delete(key));
        }
        true
    }

    /// What a complete list did not have, nor anybody told of since it began.
    pub(crate) fn unlisted(&self, target: &Target, listing: Listing) -> Vec<ObjectKey> {
        self.find(target, |entry| entry.listing < listing)
    }

    /// All that a target covers.
    pub(crate) fn covered(&self, target: &Target) -> Vec<ObjectKey> {
        self.find(target, |_| true)
    }

    /// All of a namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Vec<ObjectKey> {
        let keys = self.kinds.values().flat_map(HashMap::keys);
        sorted(keys.filter(|key| key.namespace() == namespace).cloned().collect())
    }

    fn find(&self, target: &Target, is_meant: impl Fn(&Entry) -> bool) -> Vec<ObjectKey> {
        let Some(entries) = target.resource.kind().and_then(|kind| self.kinds.get(&kind)) else { return Vec::new() };
        if let Some(key) = target.key() {
            return entries
                .get_key_value(&key)
                .filter(|(_, entry)| is_meant(entry))
                .map(|(key, _)| key.clone())
                .into_iter()
                .collect();
        }
        let meant = entries.iter().filter(|(key, entry)| is_meant(entry) && target.covers(key));
        sorted(meant.map(|(key, _)| key.clone()).collect())
    }

    fn entry(&self, key: &ObjectKey) -> Option<&Entry> {
        self.kinds.get(&key.kind()?)?.get(key)
    }
}

/// The object, if it can be used, and what is wrong with it.
fn read(kind: Kind, seen: &Seen) -> (Option<Object>, Vec<Problem>) {
    // A policy that guards and cannot be read closes what it may be for.
    let unusable = |text: String| {
        let remnant = Object::unread(&seen.key, &text);
        (remnant, vec![Problem::of(&seen.key, "", Severity::Error, text)])
    };
    let Ok(text) = std::str::from_utf8(&seen.text) else { return unusable("this object is no text".to_owned()) };
    match api::json::read(kind, text) {
        Ok(decoded) => {
            let object = decoded.objects.into_iter().next().filter(|object| *object.key() == seen.key);
            let first = decoded.problems.first().map(|problem| problem.text.to_string());
            let object = object.or_else(|| Object::unread(&seen.key, &first?));
            (object, decoded.problems)
        }
        Err(error) => unusable(format!("this object cannot be read: {error}")),
    }
}

/// What is wrong with an object, in a sentence.
fn words(problems: &[Problem]) -> String {
    let errors = || problems.iter().filter(|problem| problem.severity == Severity::Error);
    let Some(first) = errors().next() else { return String::new() };
    let more = errors().count() - 1;
    let at = if first.path.is_empty() { String::new() } else { format!("{}: ", first.path) };
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    format!("{at}{}{more}", first.text)
}

/// Where the problems of an object belong.
fn place(key: &ObjectKey) -> Arc<str> {
    format!("{SOURCE} {key}").into()
}

fn sorted(mut keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
    keys.sort();
    keys
}
