//! [`Document`]: what is remembered of one YAML document, and how a file's text becomes documents.

use std::collections::VecDeque;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use api::reference::ParentRef;
use api::{Decoded, Object, ObjectKey, Problem, RouteObject, Severity};
use hashbrown::{HashMap, HashSet};
use store::identity;

use crate::file::offer::Standing;
use crate::file::past::Dud;
use crate::file::report;

/// One document of a file: the hash of its text instead of the text, and what came of it: 64 bytes.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    hash: u128,
    /// Line of the file on which it starts, from 1.
    pub(crate) line: u32,
    /// What it gives, and what it keeps of what it gave before it could not be understood.
    pub(crate) objects: Given,
    pub(crate) problems: Box<[Problem]>,
}

/// The objects of a document: nearly always one, and then without an allocation.
#[derive(Debug, Clone)]
pub(crate) enum Given {
    One([(Object, Standing); 1]),
    Other(Box<[(Object, Standing)]>),
}

impl Deref for Given {
    type Target = [(Object, Standing)];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(one) => one,
            Self::Other(other) => other,
        }
    }
}

impl FromIterator<(Object, Standing)> for Given {
    fn from_iter<I: IntoIterator<Item = (Object, Standing)>>(objects: I) -> Self {
        let mut objects = objects.into_iter();
        match (objects.next(), objects.next()) {
            (Some(one), None) => Self::One([one]),
            (first, second) => Self::Other(first.into_iter().chain(second).chain(objects).collect()),
        }
    }
}

/// A document of a file just read, beside the file as it was.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Its text is that of the old document with this index; now on this line.
    Same { index: usize, line: u32 },
    /// It was parsed.
    New { document: Document, lost: Lost },
}

/// What could not be understood of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Objects that say who they are, and are otherwise too wrong to be used.
    pub(crate) named: Vec<ObjectKey>,
    /// Nothing of it, not even whose it is.
    pub(crate) all: bool,
}

impl Parsed {
    pub(crate) fn lost(&self) -> Option<&Lost> {
        match self {
            Self::New { lost, .. } => Some(lost),
            Self::Same { .. } => None,
        }
    }
}

impl Document {
    /// The identities of what it gives, and of what it keeps.
    pub(crate) fn identities(&self) -> impl Iterator<Item = ObjectKey> {
        self.objects.iter().map(|(object, _)| identity(object.key()))
    }

    /// Whether it does not say whose it is.
    pub(crate) fn is_nameless(&self) -> bool {
        lost(&[], &self.problems).all
    }

    /// Its dud, if part of it is neither given nor kept: nobody knows what that would be. What it keeps may be `of_another`.
    pub(crate) fn dud(&self, of_another: bool) -> Option<Dud> {
        if self.problems.is_empty() {
            return None;
        }
        let counts = |(_, standing): &&(Object, Standing)| !of_another || *standing == Standing::Written;
        let given: Vec<Object> = self.objects.iter().filter(counts).map(|(object, _)| object.clone()).collect();
        (lost(&given, &self.problems) != Lost::default()).then_some(Some(self.hash))
    }

    /// Keeps further objects of before.
    pub(crate) fn keep(&mut self, objects: Vec<Object>) {
        let own = self.objects.iter().cloned();
        self.objects = own.chain(objects.into_iter().map(|object| (object, Standing::Last))).collect();
    }

    /// The same document on another line.
    pub(crate) fn moved_to(&self, line: u32) -> Self {
        let mut document = self.clone();
        for place in document.problems.iter_mut().filter_map(|problem| problem.place.as_mut()) {
            place.line = place.line.saturating_sub(self.line).saturating_add(line);
        }
        document.line = line;
        document
    }
}

/// Splits a text and parses the documents whose text is not among the old ones.
pub(crate) fn parse(file: &Arc<str>, text: &str, old: &[Document]) -> Vec<Parsed> {
    parse_with(file, text, old, api::read)
}

/// The same with another reader.
pub(crate) fn parse_with(
    file: &Arc<str>,
    text: &str,
    old: &[Document],
    read: impl Fn(&api::yaml::Document<'_>, &Arc<str>) -> Decoded,
) -> Vec<Parsed> {
    let new: Vec<api::yaml::Document<'_>> = api::yaml::documents(text).collect();
    // As a rule all but a few are the same at both ends.
    let is_same = |(old, new): &(&Document, &api::yaml::Document<'_>)| old.hash == new.hash;
    let prefix = old.iter().zip(&new).take_while(is_same).count();
    let most = old.len().min(new.len()) - prefix;
    let suffix = old.iter().rev().zip(new.iter().rev()).take(most).take_while(is_same).count();
    // Between them documents may have moved.
    let mut moved: HashMap<u128, VecDeque<usize>> = HashMap::new();
    for (index, document) in old.iter().enumerate().take(old.len() - suffix).skip(prefix) {
        moved.entry(document.hash).or_default().push_back(index);
    }
    let mut parents = Arc::default();
    let parse_one = |(at, document): (usize, &api::yaml::Document<'_>)| {
        let known = if at < prefix {
            Some(at)
        } else if at >= new.len() - suffix {
            Some(at + old.len() - new.len())
        } else {
            moved.get_mut(&document.hash).and_then(VecDeque::pop_front)
        };
        match known {
            Some(index) => Parsed::Same { index, line: document.line },
            None => decode(file, document, &mut parents, &read),
        }
    };
    new.iter().enumerate().map(parse_one).collect()
}

fn decode(
    file: &Arc<str>,
    document: &api::yaml::Document<'_>,
    parents: &mut Arc<[ParentRef]>,
    read: impl Fn(&api::yaml::Document<'_>, &Arc<str>) -> Decoded,
) -> Parsed {
    // A reader that panics costs this document only. It works on the text alone, so it leaves nothing behind.
    let mut decoded = catch_unwind(AssertUnwindSafe(|| read(document, file))).unwrap_or_else(|_| {
        let text = "this document could not be read because of a bug in Chancery: please report it, with the document";
        Decoded { objects: Vec::new(), problems: vec![report::at(file, document.line, 1, text)] }
    });
    decoded.objects.iter_mut().for_each(|object| share_parents(object, parents));
    let lost = lost(&decoded.objects, &decoded.problems);
    let objects = decoded.objects.into_iter().map(|object| (object, Standing::Written)).collect();
    let document = Document { hash: document.hash, line: document.line, objects, problems: decoded.problems.into() };
    Parsed::New { document, lost }
}

/// The routes of a file mostly attach to the same Gateway: they have one list of parents.
fn share_parents(object: &mut Object, parents: &mut Arc<[ParentRef]>) {
    let Some(own) = RouteObject::parent_refs_mut(object) else { return };
    if own == parents {
        *own = Arc::clone(parents);
    } else {
        *parents = Arc::clone(own);
    }
}

fn lost(objects: &[Object], problems: &[Problem]) -> Lost {
    let errors = || problems.iter().filter(|problem| problem.severity == Severity::Error);
    if errors().next().is_none() {
        return Lost::default();
    }
    // Whose name or namespace is wrong does not say who it is.
    let of_name = errors().filter(|problem| problem.path.starts_with("metadata.name"));
    let nameless: HashSet<&ObjectKey> = of_name.filter_map(|problem| problem.object.as_ref()).collect();
    let given: HashSet<ObjectKey> = objects.iter().map(|object| identity(object.key())).collect();
    let mut named: Vec<ObjectKey> = Vec::new();
    let keys = errors().filter_map(|problem| problem.object.as_ref());
    for key in keys.filter(|key| key.kind().is_some() && !nameless.contains(key)) {
        let key = identity(key);
        // Problems of one object follow each other.
        if named.last() != Some(&key) && !given.contains(&key) {
            named.push(key);
        }
    }
    let all = objects.is_empty() && named.is_empty();
    Lost { named, all }
}
