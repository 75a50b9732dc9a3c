//! [`Catalog`]: what each file gives, and which of several equal identities is in force.
//!
//! It does no I/O. Files are put, troubled, withdrawn; [`Catalog::commit`] tells what came of it. The cost of an edit is
//! that of its file, and of the objects that other files give under the same identities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Kind, Object, ObjectKey, Problem, Severity};
use indexmap::IndexMap;
use store::{Change, Origin, identity};

use crate::file::ages::Ages;
use crate::file::document::{Document, Parsed};
use crate::file::merge;
use crate::file::offer::{Offer, Offers, Standing};
use crate::file::past::Dud;
use crate::file::report;
use crate::file::spot::Spot;
use crate::file::texts::NewText;

/// Of a document that nobody understands so many objects are told to stay, beside the first.
const MOST_TOLD: usize = 15;

/// Broken documents of a file that are remembered over a restart, at most. The next start waits for further ones, as for one that was never seen.
const MAX_DUDS: usize = 1 << 10;

/// Files at most of which a note is shown: enough to see what is going on. A checkout may be held back with all of its files.
const MAX_NOTES: usize = 16;

/// All files under the roots.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    files: BTreeMap<Arc<Spot>, FileState>,
    /// Who gives an identity.
    offers: Offers,
    /// Identities that were touched since the last commit, with what was in force then.
    touched: IndexMap<ObjectKey, Option<(Object, Origin)>>,
    /// Files whose problems may be others than at the last commit.
    to_report: BTreeSet<Arc<Spot>>,
    /// Files that the last commits reported problems of.
    reported: BTreeSet<Arc<Spot>>,
    /// What was broken and gave nothing at the last commit, and whether that is news.
    duds: BTreeMap<Arc<Spot>, Vec<Dud>>,
    duds_changed: bool,
    /// Files of which a later version waits, with the note that says so.
    notes: BTreeMap<Arc<Spot>, Problem>,
    /// The ages of objects; none where files are read once.
    ages: Option<Box<Ages>>,
    /// Files whose documents are others than [`LastTexts`] knows, with the texts of those that are new. Only where objects have ages.
    ///
    /// [`LastTexts`]: crate::file::texts::LastTexts
    unsaved: BTreeMap<Arc<Spot>, Vec<NewText>>,
}

/// What is known of one file, or of a directory that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    pub(crate) documents: Vec<Document>,
    /// Why the file as a whole could not be read lately; its documents are those of before.
    pub(crate) trouble: Option<Box<Problem>>,
    /// The file is not there, but may be about to come back.
    gone: bool,
    /// The start waits until it is mended: what it keeps may be something else than what was lost.
    held: bool,
}

impl Catalog {
    /// Returns a catalog whose objects have ages.
    pub(crate) fn with_ages(ages: Ages) -> Self {
        Self { ages: Some(Box::new(ages)), ..Self::default() }
    }

    /// The ages of objects; none where files are read once.
    pub(crate) fn ages(&mut self) -> Option<&mut Ages> {
        self.ages.as_deref_mut()
    }

    /// The documents of a file as it was read last.
    pub(crate) fn documents(&self, spot: &Spot) -> &[Document] {
        self.files.get(spot).map_or(&[], |state| &state.documents)
    }

    /// Whether a place, or anything below it, could not be read lately.
    pub(crate) fn is_troubled(&self, top: &Arc<Spot>) -> bool {
        let range = self.files.range(top.clone()..).take_while(|(spot, _)| spot.is_under(top));
        range.map(|(_, state)| state).any(|state| state.trouble.is_some())
    }

    /// Whether anything is known of a place itself.
    pub(crate) fn contains(&self, spot: &Spot) -> bool {
        self.files.contains_key(spot)
    }

    /// Whether a place, or anything below it, gives something, and is not about to go.
    pub(crate) fn gives(&self, top: &Arc<Spot>) -> bool {
        let range = self.files.range(top.clone()..).take_while(|(spot, _)| spot.is_under(top));
        range
            .map(|(_, state)| state)
            .any(|state| !state.gone && state.documents.iter().any(|document| !document.objects.is_empty()))
    }

    /// What is broken at a place and neither gives nor keeps anything.
    pub(crate) fn duds(&self, spot: &Arc<Spot>) -> Vec<Dud> {
        let Some(state) = self.files.get(spot).filter(|state| !state.gone) else { return Vec::new() };
        let whole = (state.trouble.is_some() && (state.held || !self.gives(spot))).then_some(None);
        let duds = state.documents.iter().filter_map(|document| document.dud(state.held));
        whole.into_iter().chain(duds).take(MAX_DUDS).collect()
    }

    /// Whether they are others at the last commit than when this was last asked.
    pub(crate) fn take_duds_changed(&mut self) -> bool {
        std::mem::take(&mut self.duds_changed)
    }

    /// All of them as of the last commit.
    pub(crate) fn all_duds(&self) -> impl Iterator<Item = (&Arc<Spot>, Dud)> {
        self.duds.iter().flat_map(|(spot, duds)| duds.iter().map(move |dud| (spot, *dud)))
    }

    /// Whether the start waits until this file is mended: its problems say so.
    pub(crate) fn hold(&mut self, spot: &Arc<Spot>, held: bool) {
        if let Some(state) = self.files.get_mut(spot).filter(|state| state.held != held) {
            state.held = held;
            self.to_report.insert(spot.clone());
        }
    }

    /// See [`Self::hold`].
    pub(crate) fn is_held(&self, spot: &Spot) -> bool {
        self.files.get(spot).is_some_and(|state| state.held)
    }

    /// Shows a note with the problems of a file, or none any more.
    pub(crate) fn set_note(&mut self, spot: &Arc<Spot>, note: Option<Problem>) {
        let is_changed = match note {
            Some(note) if self.notes.contains_key(spot) || self.notes.len() < MAX_NOTES => {
                self.notes.insert(spot.clone(), note.clone()).as_ref() != Some(&note)
            }
            Some(_) => false,
            None => self.notes.remove(spot).is_some(),
        };
        if is_changed {
            self.to_report.insert(spot.clone());
        }
    }

    /// Returns true if an object that a place gave before may be lost with what is broken there, `whole` or in part: no file gives it.
    pub(crate) fn may_have_lost(&self, spot: &Spot, key: &ObjectKey, whole: bool) -> bool {
        let state = self.files.get(spot);
        let is_whole = whole || state.is_some_and(|state| state.trouble.is_some());
        let mut documents = state.into_iter().flat_map(|state| &state.documents);
        self.offers.winner(key).is_none() && (is_whole || documents.any(|document| document.may_have_lost(key)))
    }

    /// Returns true if an object of another kind, or of one that names nothing, may use this one.
    pub(crate) fn is_used(&self, key: &ObjectKey) -> bool {
        let is_named_where_used = matches!(key.kind(), Some(Kind::Secret | Kind::ConfigMap | Kind::ClusterTrustBundle));
        let mut objects = self.files.values().flat_map(|state| &state.documents).flat_map(Document::forms);
        !is_named_where_used || objects.any(|object| object.references().contains(key))
    }

    /// Everything at or below a place.
    pub(crate) fn under(&self, top: &Arc<Spot>) -> Vec<Arc<Spot>> {
        let range = self.files.range(top.clone()..);
        range.map(|(spot, _)| spot).take_while(|spot| spot.is_under(top)).cloned().collect()
    }

    /// The file was read: these are its documents now.
    pub(crate) fn put(&mut self, spot: &Arc<Spot>, mut parsed: Vec<Parsed>) {
        self.note_texts(spot, &mut parsed);
        self.replace(spot, parsed);
    }

    /// Takes in what an earlier process knew of a file.
    pub(crate) fn restore(&mut self, spot: &Arc<Spot>, parsed: Vec<Parsed>) {
        self.replace(spot, parsed);
    }

    /// Takes the texts out: they are in memory only until they are saved.
    fn note_texts(&mut self, spot: &Arc<Spot>, parsed: &mut [Parsed]) {
        let texts = parsed.iter_mut().filter_map(|parsed| match parsed {
            Parsed::New { document, text, .. } => NewText::of(document, std::mem::take(text)),
            Parsed::Same { .. } => None,
        });
        if self.ages.is_some() {
            self.unsaved.entry(spot.clone()).or_default().extend(texts);
        }
    }

    /// Takes the files whose documents are others than before, but for those that the start waits for, with the texts of those that are new.
    pub(crate) fn take_unsaved(&mut self) -> Vec<(Arc<Spot>, Vec<NewText>)> {
        let unsaved = std::mem::take(&mut self.unsaved).into_iter();
        let (held, unsaved): (Vec<_>, Vec<_>) = unsaved.partition(|(spot, _)| self.is_held(spot));
        self.unsaved.extend(held);
        unsaved
    }

    fn replace(&mut self, spot: &Arc<Spot>, parsed: Vec<Parsed>) {
        self.revive(spot);
        let mut state = self.take(spot);
        state.trouble = None;
        let middle = merge::middle(&state.documents, &parsed);
        let old = state.documents.get(middle.old.clone()).unwrap_or_default();
        let mut new = merge::documents(&state.documents, parsed, &middle);
        for document in old {
            self.withdraw_document(spot, document);
        }
        new.iter_mut().for_each(|document| self.set_ages(document));
        for document in &new {
            self.offer_document(spot, document, false);
        }
        state.documents.splice(middle.old, new);
        state.documents.shrink_to_fit();
        self.give_back(spot, state);
    }

    /// The file, or the directory, cannot be read. What it last gave stays.
    pub(crate) fn trouble(&mut self, spot: &Arc<Spot>, problem: Problem) {
        if self.files.get(spot).is_some_and(|state| state.trouble.as_deref() == Some(&problem)) {
            // Tried again in vain.
            return;
        }
        let mut state = self.take(spot);
        state.trouble = Some(Box::new(problem));
        self.give_back(spot, state);
    }

    /// What was wrong with a file or directory as a whole is over; nothing remains of a place that gave nothing.
    pub(crate) fn relieve(&mut self, spot: &Arc<Spot>) {
        let Some(state) = self.files.get_mut(spot) else { return };
        state.trouble = None;
        if state.documents.is_empty() {
            self.remove(spot);
        } else {
            self.to_report.insert(spot.clone());
        }
    }

    /// The file vanished and may come back: what it gave stays, but yields to any other file that gives the same.
    pub(crate) fn vanish(&mut self, spot: &Arc<Spot>) {
        self.set_gone(spot, true);
    }

    /// The file that vanished is there again.
    pub(crate) fn revive(&mut self, spot: &Arc<Spot>) {
        self.set_gone(spot, false);
    }

    /// The file is gone, and what it gave with it. What is wrong with the place as a whole stays.
    pub(crate) fn remove(&mut self, spot: &Arc<Spot>) {
        let Some((spot, mut state)) = self.files.remove_entry(spot) else { return };
        for document in std::mem::take(&mut state.documents) {
            self.withdraw_document(&spot, &document);
        }
        if self.ages.is_some() {
            self.unsaved.entry(spot.clone()).or_default().clear();
        }
        self.to_report.insert(spot.clone());
        if state.trouble.is_some() {
            state.gone = false;
            self.files.insert(spot, state);
        }
    }

    /// What is different since the last commit, in the order in which it was touched.
    pub(crate) fn commit(&mut self) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.touched.len());
        for (key, before) in std::mem::take(&mut self.touched) {
            self.to_report.extend(self.offers.disputants(&key).cloned());
            let now = self.offers.effective(&key);
            if let Some(ages) = &mut self.ages {
                ages.note(&key, now.is_some());
            }
            match now {
                now if now == before => {}
                Some((object, origin)) => changes.push(Change::Apply(object, origin)),
                None if before.is_some() => changes.push(Change::Delete(key)),
                None => {}
            }
        }
        for spot in std::mem::take(&mut self.to_report) {
            self.note_duds(&spot);
            let mut problems = self.files.get(&spot).map_or_else(Vec::new, |state| self.problems(&spot, state));
            problems.extend(self.notes.get(&spot).cloned());
            let was_reported = if problems.is_empty() {
                self.reported.remove(&spot)
            } else {
                self.reported.insert(spot.clone());
                true
            };
            if was_reported {
                changes.push(Change::Problems { origin: spot.display.clone(), problems });
            }
        }
        changes
    }

    fn note_duds(&mut self, spot: &Arc<Spot>) {
        let duds = self.duds(spot);
        if self.duds.get(spot).map_or(&[][..], Vec::as_slice) == duds.as_slice() {
            return;
        }
        self.duds_changed = true;
        if duds.is_empty() {
            self.duds.remove(spot);
        } else {
            self.duds.insert(spot.clone(), duds);
        }
    }

    fn problems(&self, spot: &Arc<Spot>, state: &FileState) -> Vec<Problem> {
        let mut left_out = state.documents.iter().map(|document| document.left_out as usize).sum::<usize>();
        let mut problems: Vec<Problem> = state.trouble.as_deref().cloned().into_iter().collect();
        if problems.is_empty() {
            // Of a file that cannot be read any more nobody knows whether they still stand.
            for document in state.documents.iter().filter(|document| !document.problems.is_empty()) {
                match problems.len() < report::MAX_PROBLEMS {
                    true => problems.extend(self.told(spot, document, state.held)),
                    false => left_out += document.problems.len(),
                }
            }
        }
        if self.offers.any_disputed() && !state.gone {
            for document in &state.documents {
                let written = document.objects.iter().filter(|(_, standing)| *standing == Standing::Written);
                for (object, _) in written.filter(|(object, _)| !object.is_remnant()) {
                    let winner = self.offers.winner(&identity(object.key()));
                    if let Some(winner) = winner.filter(|winner| !winner.is(spot, object)) {
                        problems.push(report::duplicate(object, &winner.origin(), &spot.display, document.line));
                    }
                }
            }
        }
        report::bounded(problems, left_out, &spot.display)
    }

    /// What is wrong with a document; where an object of before stays in force because of it, that is said of the object.
    fn told(&self, spot: &Arc<Spot>, document: &Document, held: bool) -> Vec<Problem> {
        let is_kept = |object: &&Object| {
            let winner = self.offers.winner(&identity(object.key()));
            winner.is_some_and(|winner| winner.standing != Standing::Written && winner.is(spot, object))
        };
        let kept: Vec<&Object> = document.objects.iter().map(|(object, _)| object).filter(is_kept).collect();
        let (mut problems, mut also) = (document.problems.to_vec(), Vec::new());
        let whole = document.is_nameless();
        let mut tells_all = whole;
        for problem in problems.iter_mut().filter(|problem| problem.severity == Severity::Error) {
            let is_meant = |object: &&&Object| match &problem.object {
                Some(key) => identity(object.key()) == identity(key),
                None => true,
            };
            if held {
                *problem = report::held(problem.clone());
            } else if let Some(object) = kept.iter().find(is_meant).or(kept.first().filter(|_| whole)) {
                let stays = |object: &Object| {
                    let object = Some(object.key().clone());
                    report::kept(Problem { object, earlier: true, ..problem.clone() })
                };
                // Where nobody knows whose it is, everything stays: told of each with the first problem.
                let others = kept.iter().filter(|other| other.key() != object.key()).take(MOST_TOLD);
                if std::mem::take(&mut tells_all) {
                    also.extend(others.map(|other| stays(other)));
                }
                *problem = stays(object);
            }
        }
        problems.extend(also);
        problems
    }

    fn set_gone(&mut self, spot: &Arc<Spot>, gone: bool) {
        if self.files.get(spot).is_none_or(|state| state.gone == gone) {
            return;
        }
        let mut state = self.take(spot);
        state.gone = gone;
        for document in &state.documents {
            self.withdraw_document(spot, document);
        }
        for document in &state.documents {
            self.offer_document(spot, document, gone);
        }
        self.give_back(spot, state);
    }

    /// Takes the state of a file out, to be given back.
    fn take(&mut self, spot: &Arc<Spot>) -> FileState {
        self.files.get_mut(spot).map(std::mem::take).unwrap_or_default()
    }

    fn give_back(&mut self, spot: &Arc<Spot>, state: FileState) {
        self.files.insert(spot.clone(), state);
        self.to_report.insert(spot.clone());
    }

    /// Writes their ages on the objects of a document.
    fn set_ages(&mut self, document: &mut Document) {
        let Some(ages) = &mut self.ages else { return };
        for (object, _) in document.objects.iter_mut() {
            let meta = object.meta();
            let first_seen = ages.of(&identity(&meta.key), meta.created());
            if meta.first_seen != first_seen {
                object.meta_mut().first_seen = first_seen;
            }
        }
    }

    fn withdraw_document(&mut self, spot: &Arc<Spot>, document: &Document) {
        for (object, _) in document.objects.iter() {
            let key = identity(object.key());
            self.touch(&key);
            self.offers.withdraw(&key, spot, object);
        }
    }

    fn offer_document(&mut self, spot: &Arc<Spot>, document: &Document, gone: bool) {
        for (object, standing) in document.objects.iter() {
            let key = identity(object.key());
            self.touch(&key);
            let standing = if gone { Standing::Last } else { *standing };
            let offer = Offer { object: object.clone(), spot: spot.clone(), line: document.line, standing };
            self.offers.add(&key, offer);
        }
    }

    fn touch(&mut self, key: &ObjectKey) {
        if self.touched.contains_key(key) {
            return;
        }
        // Where several files give an identity, the problems of all of them name the one in force.
        self.to_report.extend(self.offers.disputants(key).cloned());
        let before = self.offers.effective(key);
        self.touched.insert(key.clone(), before);
    }
}
