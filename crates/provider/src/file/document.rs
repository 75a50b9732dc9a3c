//! [`Document`]: what is remembered of one YAML document, and how a file's text becomes documents.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use api::reference::ParentRef;
use api::{Decoded, Object, ObjectKey, Problem, RouteObject, Severity};
use hashbrown::{HashMap, HashSet};
use store::identity;

use crate::file::offer::Standing;
use crate::file::past::Dud;
use crate::file::report;

/// One document of a file: the hash of its text instead of the text, and what came of it: 80 bytes.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    hash: u128,
    /// Line of the file on which it starts, from 1.
    pub(crate) line: u32,
    /// Problems of it that are not kept, because its file has too many.
    pub(crate) left_out: u32,
    /// What it gives, and what it keeps of what it gave before it could not be understood.
    pub(crate) objects: Given,
    pub(crate) problems: Box<[Problem]>,
    /// Of each object that it keeps, in their order, the hash of the text that gave it.
    sources: Box<[u128]>,
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

impl DerefMut for Given {
    fn deref_mut(&mut self) -> &mut Self::Target {
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
    New { document: Document, lost: Lost, text: Box<str> },
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
    /// Returns the objects that it gives and keeps, without remnants: they are the best that is known, and no form that could be kept.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().map(|(object, _)| object).filter(|object| !object.is_remnant())
    }

    /// The identities of these.
    pub(crate) fn identities(&self) -> impl Iterator<Item = ObjectKey> {
        self.forms().map(|object| identity(object.key()))
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

    /// Keeps further objects of before, each with the hash of the text that gave it.
    pub(crate) fn keep(&mut self, objects: Vec<(Object, u128)>) {
        // In place of a remnant that says no more.
        let is_covered = |one: &Object| one.is_remnant() && objects.iter().any(|(earlier, _)| earlier.covers(one));
        let own: Vec<_> = self.objects.iter().filter(|(object, _)| !is_covered(object)).cloned().collect();
        let sources = objects.iter().map(|(_, source)| *source);
        self.sources = self.sources.iter().copied().chain(sources).collect();
        let kept = objects.into_iter().map(|(object, _)| (object, Standing::Kept));
        self.objects = own.into_iter().chain(kept).collect();
    }

    /// Returns the forms that it gives and keeps, each with the hash of the text that gave it.
    pub(crate) fn sourced(&self) -> impl Iterator<Item = (&Object, u128)> {
        let mut kept = self.sources.iter().copied();
        let with = self.objects.iter().map(move |(object, standing)| match standing {
            Standing::Kept => (object, kept.next().unwrap_or(self.hash)),
            Standing::Written | Standing::Last => (object, self.hash),
        });
        with.filter(|(object, _)| !object.is_remnant())
    }

    /// Returns true if it may have held this object, which it does not give: it says so, or does not say what it holds.
    pub(crate) fn may_have_lost(&self, key: &ObjectKey) -> bool {
        let Lost { named, all } = lost(&[], &self.problems);
        all || named.contains(key)
    }

    /// Returns a document of an earlier process: its forms, but for those that a document before it gave.
    pub(crate) fn of_earlier(mut self, seen: &mut HashSet<ObjectKey>) -> Self {
        let is_first = |(object, _): &&(Object, Standing)| !object.is_remnant() && seen.insert(identity(object.key()));
        self.objects = self.objects.iter().filter(is_first).cloned().collect::<Vec<_>>().into_iter().collect();
        (self.problems, self.left_out) = (Box::default(), 0);
        self
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

/// A document as it was, known by the hash of its text.
pub(crate) trait Known {
    /// See [`Document::hash`].
    fn hash(&self) -> u128;
}

impl Known for Document {
    fn hash(&self) -> u128 {
        self.hash
    }
}

impl Known for u128 {
    fn hash(&self) -> u128 {
        *self
    }
}

/// Splits a text and parses the documents whose text is not among the old ones. None once `goes_on` says no, between two documents.
pub(crate) fn parse<K: Known>(
    file: &Arc<str>,
    text: &str,
    old: &[K],
    goes_on: &dyn Fn() -> bool,
) -> Option<Vec<Parsed>> {
    parse_with(file, text, (old, goes_on), api::read)
}

/// The same with another reader.
pub(crate) fn parse_with<K: Known>(
    file: &Arc<str>,
    text: &str,
    (old, goes_on): (&[K], &dyn Fn() -> bool),
    read: impl Fn(&api::yaml::Document<'_>, &Arc<str>) -> Decoded,
) -> Option<Vec<Parsed>> {
    let new: Vec<api::yaml::Document<'_>> = api::yaml::documents(text).collect();
    // As a rule all but a few are the same at both ends.
    let is_same = |(old, new): &(&K, &api::yaml::Document<'_>)| old.hash() == new.hash;
    let prefix = old.iter().zip(&new).take_while(is_same).count();
    let most = old.len().min(new.len()) - prefix;
    let suffix = old.iter().rev().zip(new.iter().rev()).take(most).take_while(is_same).count();
    // Between them documents may have moved.
    let mut moved: HashMap<u128, VecDeque<usize>> = HashMap::new();
    for (index, document) in old.iter().enumerate().take(old.len() - suffix).skip(prefix) {
        moved.entry(document.hash()).or_default().push_back(index);
    }
    let mut so_far = SoFar { text, parents: Arc::default(), shows_text: None, problems: 0 };
    let parse_one = |(at, document): (usize, &api::yaml::Document<'_>)| {
        let known = if at < prefix {
            Some(at)
        } else if at >= new.len() - suffix {
            Some(at + old.len() - new.len())
        } else {
            moved.get_mut(&document.hash).and_then(VecDeque::pop_front)
        };
        let parsed = match known {
            Some(index) => Parsed::Same { index, line: document.line },
            None if goes_on() => decode(file, document, &mut so_far, &read),
            None => return None,
        };
        Some(parsed)
    };
    new.iter().enumerate().map(parse_one).collect()
}

/// State that the documents of one file share while they are parsed.
struct SoFar<'t> {
    text: &'t str,
    /// The parents of the route before.
    parents: Arc<[ParentRef]>,
    /// True if problems show text, once that was asked.
    shows_text: Option<bool>,
    /// Problems that are kept so far.
    problems: usize,
}

impl SoFar<'_> {
    fn shows_text(&mut self) -> bool {
        let text = self.text;
        *self.shows_text.get_or_insert_with(|| names_object(text))
    }

    /// Leaves out what is more than a file may have, but for the first error of each object: it says what is lost. Gives how many were left out, if the
    /// problems are others now.
    fn bound(&mut self, problems: &mut Vec<Problem>) -> Option<u32> {
        let before = problems.len();
        let is_too_much = before > 0 && self.problems + before > report::MAX_PROBLEMS;
        if is_too_much {
            let mut noted: HashSet<Option<ObjectKey>> = HashSet::new();
            problems.retain(|problem| problem.severity == Severity::Error && noted.insert(problem.object.clone()));
            problems.iter_mut().for_each(|problem| (problem.snippet, problem.text) = (None, Box::default()));
        }
        self.problems += problems.len();
        is_too_much.then(|| u32::try_from(before - problems.len()).unwrap_or(u32::MAX))
    }
}

fn decode(
    file: &Arc<str>,
    document: &api::yaml::Document<'_>,
    so_far: &mut SoFar<'_>,
    read: impl Fn(&api::yaml::Document<'_>, &Arc<str>) -> Decoded,
) -> Parsed {
    // A reader that panics costs this document only. It works on the text alone, so it leaves nothing behind.
    let mut decoded = catch_unwind(AssertUnwindSafe(|| read(document, file))).unwrap_or_else(|_| {
        let text = "this document could not be read because of a bug in Chancery: please report it, with the document";
        Decoded { objects: Vec::new(), problems: vec![report::at(file, document.line, 1, text)] }
    });
    decoded.objects.iter_mut().for_each(|object| share_parents(object, &mut so_far.parents));
    if decoded.objects.iter().all(Object::is_remnant) && !decoded.problems.is_empty() && !so_far.shows_text() {
        decoded.problems.iter_mut().for_each(conceal);
    }
    let lost = lost(&decoded.objects, &decoded.problems);
    let objects = decoded.objects.into_iter().map(|object| (object, Standing::Written)).collect();
    let left_out = so_far.bound(&mut decoded.problems);
    // Read again with the next version of the file: its problems may be among those that are shown then.
    let hash = if left_out.is_some() { document.hash ^ 1 } else { document.hash };
    let (left_out, problems) = (left_out.unwrap_or_default(), decoded.problems.into());
    let text = document.text.into();
    let document = Document { hash, line: document.line, left_out, objects, problems, sources: Box::default() };
    Parsed::New { document, lost, text }
}

/// Returns true if a file has anything that was meant as an object: some `kind` and some `apiVersion`. A file with neither may be any file of this machine, a
/// link or a copy of it, and nothing of its text is shown to those who may see problems.
fn names_object(text: &str) -> bool {
    ["kind", "apiVersion"].iter().all(|field| has_field(text, field))
}

/// Returns true if a field of this name is written somewhere, with or without quotes.
fn has_field(text: &str, name: &str) -> bool {
    memchr::memmem::find_iter(text.as_bytes(), name).any(|at| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + name.len()..).unwrap_or_default();
        let after = after.strip_prefix(['"', '\'']).unwrap_or(after).trim_start_matches(' ');
        before.is_none_or(|before| before.is_whitespace() || "\"'{,-?\u{feff}".contains(before))
            && after.starts_with(':')
    })
}

/// Removes the user's text from a problem. A message that repeats such text has it in quotes.
fn conceal(problem: &mut Problem) {
    problem.snippet = None;
    if problem.text.contains(['"', '\'', '`']) {
        problem.text = "not YAML; its text is not shown, as nothing in this file says its apiVersion and kind".into();
    }
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
    let forms = || objects.iter().filter(|object| !object.is_remnant());
    let given: HashSet<ObjectKey> = forms().map(|object| identity(object.key())).collect();
    let mut named: Vec<ObjectKey> = Vec::new();
    let keys = errors().filter_map(|problem| problem.object.as_ref());
    for key in keys.filter(|key| key.kind().is_some() && !nameless.contains(key)) {
        let key = identity(key);
        // Problems of one object follow each other.
        if named.last() != Some(&key) && !given.contains(&key) {
            named.push(key);
        }
    }
    let all = forms().next().is_none() && named.is_empty();
    Lost { named, all }
}
