//! [`LastTexts`]: the texts that files gave objects with, kept over a restart, so that a file that is broken then keeps what it gave.
//!
//! Of each file the documents that give something are kept, and those that gave what a broken document keeps now. At the next start they are taken in as
//! the earlier version of a file that is broken then. Documents with private keys are not kept, but the identities of their objects are: the start waits
//! for such a file if it may have lost one of these, and something refers to it. A file that is not named gave nothing, and holds up nothing.
//!
//! What is new is written before the change is published, so that a killed process leaves no older version of what is served. Where that fails the record
//! is removed: without one nothing is known of what files gave, and the next start waits for each that is broken.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use api::{Kind, Object, ObjectKey};
use hashbrown::HashMap;
use journal::{FileRow, StoredTexts};
use memchr::memmem;
use store::{Change, identity};

use crate::file::ages::journal::{Flusher, warning};
use crate::file::document::{Document, Known as _};
use crate::file::spot::Folder;

mod journal;

/// Bytes that are kept of the files of one folder, which has one author: the largest file, or 160,000 routes. Of files beyond it is not known what they
/// gave.
const MAX_FOLDER: u64 = 256 << 20;

/// The record may grow by this whatever it holds: some thousand edits.
const SLACK: u64 = 4 << 20;

/// Bytes of a line next to those of its text and path.
const LINE: u64 = 100;

/// The mark of a private key in PEM.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY";

/// Where texts are kept.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// The file, in a folder that belongs to the user of this process.
    pub path: PathBuf,
    /// Documents with private keys are kept too.
    pub secrets: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LastTexts {
    /// None: nothing is kept.
    place: Option<TextFile>,
    file: Option<File>,
    /// An earlier process left a whole record.
    is_known: bool,
    /// The file has its name: what it holds is whole.
    is_named: bool,
    files: BTreeMap<PathBuf, KeptFile>,
    /// Bytes that are kept of each folder.
    folders: HashMap<Folder, u64>,
    /// Its length, and bytes of it that count.
    size: (u64, u64),
    /// What is to be written.
    unwritten: Vec<u8>,
    problem: Option<String>,
    is_reported: bool,
    flusher: Flusher,
}

/// The text of a document that a file gives now.
#[derive(Debug)]
pub(crate) struct NewText {
    hash: u128,
    text: Box<str>,
    is_private: bool,
}

impl NewText {
    /// Returns the text of a document, if that gives something.
    pub(crate) fn of(document: &Document, text: Box<str>) -> Option<Self> {
        let mut forms = document.forms().peekable();
        forms.peek()?;
        let is_private = forms.any(is_private) || memmem::find(text.as_bytes(), PRIVATE_KEY).is_some();
        Some(Self { hash: document.hash(), text, is_private })
    }
}

/// What is kept of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KeptFile {
    texts: Vec<KeptText>,
    /// Objects whose texts are not kept.
    withheld: Vec<ObjectKey>,
    /// It is not known what the file gave.
    is_unknown: bool,
    /// This process has seen the file.
    is_seen: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeptText {
    hash: u128,
    offset: u64,
    length: u64,
    sum: u64,
}

impl KeptFile {
    fn bytes(&self) -> u64 {
        self.texts.iter().map(|text| text.length).sum()
    }

    /// Bytes of its lines in the record.
    fn size(&self, path: &Path) -> u64 {
        let lines = self.texts.len() as u64 + 1;
        self.bytes() + lines * (LINE + path.as_os_str().len() as u64) + self.withheld.len() as u64 * LINE
    }
}

impl LastTexts {
    /// Opens the record of an earlier process, or begins one.
    pub(crate) fn open(place: Option<TextFile>) -> Self {
        let mut texts = Self {
            place,
            file: None,
            is_known: false,
            is_named: false,
            files: BTreeMap::new(),
            folders: HashMap::new(),
            size: (0, 0),
            unwritten: Vec::new(),
            problem: None,
            is_reported: true,
            flusher: Flusher::default(),
        };
        let Some(place) = texts.place.clone() else { return texts };
        match journal::read(&place) {
            Ok(Some(StoredTexts { file, files, length })) => {
                texts.size.1 = files.iter().map(|(path, kept)| kept.size(path)).sum();
                (texts.is_known, texts.is_named) = (true, true);
                (texts.file, texts.files, texts.size.0) = (Some(file), files, length);
            }
            Ok(None) => texts.begin(),
            Err(reason) => {
                let text = format!(
                    "{}: {reason}; it is not known what files gave before, so this start waits for each file that is broken. A new record is begun",
                    place.path.display()
                );
                (texts.problem, texts.is_reported) = (Some(text), false);
                texts.begin();
            }
        }
        texts
    }

    /// Begins a record, which gets its name once all files have been read.
    fn begin(&mut self) {
        let Some(place) = &self.place else { return };
        match journal::create(place) {
            Ok((file, length)) => (self.file, self.size) = (Some(file), (length, length)),
            Err(error) => self.fail(&error),
        }
    }

    /// Returns the objects that a place gave before and whose texts are not kept, its own and those of all files below it. None if that is not known.
    pub(crate) fn withheld(&self, path: &Path) -> Option<Vec<ObjectKey>> {
        let mut withheld = Vec::new();
        for (_, kept) in self.below(path) {
            if kept.is_unknown {
                return None;
            }
            withheld.extend_from_slice(&kept.withheld);
        }
        self.is_known.then_some(withheld)
    }

    /// Returns the files at and below a place of which something is kept.
    pub(crate) fn files_below(&self, path: &Path) -> Vec<PathBuf> {
        self.below(path).map(|(path, _)| path.clone()).collect()
    }

    fn below(&self, top: &Path) -> impl Iterator<Item = (&PathBuf, &KeptFile)> {
        self.files.range(top.to_owned()..).take_while(move |(path, _)| path.starts_with(top))
    }

    /// Returns the texts of a file, of an earlier process too. If one of them is damaged, it is not known what the file gave.
    pub(crate) fn texts(&mut self, path: &Path) -> Vec<String> {
        let (Some(kept), Some(file)) = (self.files.get_mut(path), &self.file) else { return Vec::new() };
        kept.is_seen = true;
        let read = kept.texts.iter().map(|text| journal::read_text(file, text)).collect::<Option<Vec<String>>>();
        kept.is_unknown |= read.is_none();
        read.unwrap_or_default()
    }

    /// Returns true if nothing is kept.
    pub(crate) fn is_off(&self) -> bool {
        self.file.is_none()
    }

    /// Notes what a file gives, with the texts of its documents that are new.
    pub(crate) fn note(&mut self, (path, folder): (&Path, Folder), documents: &[Document], new: &[NewText]) {
        if self.is_off() {
            return;
        }
        let before = self.files.get(path).cloned().unwrap_or_default();
        let mut kept = self.version(&before, documents, new);
        let bytes = self.folders.entry(folder).or_default();
        *bytes = bytes.saturating_sub(if before.is_seen { before.bytes() } else { 0 });
        if *bytes + kept.bytes() > MAX_FOLDER {
            if !before.is_unknown {
                tracing::warn!(file = %path.display(), "files of its folder are too large to be kept: if this one is broken at a restart, all edits wait; split the folder");
            }
            kept = KeptFile { is_unknown: true, is_seen: true, ..KeptFile::default() };
        }
        *bytes += kept.bytes();
        self.size.1 = self.size.1.saturating_sub(before.size(path));
        let is_same = KeptFile { is_seen: true, ..before } == kept;
        let gives = kept.is_unknown || !kept.texts.is_empty() || !kept.withheld.is_empty();
        if !is_same {
            self.write_rows(path, &mut kept, new);
        }
        if gives {
            self.size.1 += kept.size(path);
            self.files.insert(path.to_owned(), kept);
        } else {
            self.files.remove(path);
        }
    }

    /// Returns what is to be kept of a file. Texts that are new have no place yet.
    fn version(&self, before: &KeptFile, documents: &[Document], new: &[NewText]) -> KeptFile {
        let secrets = self.place.as_ref().is_some_and(|place| place.secrets);
        let mut known: HashMap<u128, KeptText> = before.texts.iter().map(|text| (text.hash, *text)).collect();
        for NewText { hash, text, .. } in new.iter().filter(|new| secrets || !new.is_private) {
            let length = text.len() as u64;
            known.entry(*hash).or_insert(KeptText { hash: *hash, offset: 0, length, sum: 0 });
        }
        let mut kept = KeptFile { is_seen: true, ..KeptFile::default() };
        let mut earlier = Vec::new();
        for document in documents {
            for (object, source) in document.sourced() {
                match known.remove(&source) {
                    Some(text) if source == document.hash() => kept.texts.push(text),
                    Some(text) => earlier.push(text),
                    None if kept.texts.iter().chain(&earlier).any(|text| text.hash == source) => {}
                    None => kept.withheld.push(identity(object.key())),
                }
            }
        }
        // What is written counts before what a broken document keeps.
        kept.texts.append(&mut earlier);
        kept
    }

    fn write_rows(&mut self, path: &Path, kept: &mut KeptFile, new: &[NewText]) {
        let new: HashMap<u128, &str> = new.iter().map(|new| (new.hash, &*new.text)).collect();
        for text in kept.texts.iter_mut().filter(|text| text.offset == 0) {
            if let Some(content) = new.get(&text.hash) {
                let at = self.size.0 + self.unwritten.len() as u64;
                *text = journal::push_text(&mut self.unwritten, at, (path, text.hash, content));
            }
        }
        let hashes = (!kept.is_unknown).then(|| kept.texts.iter().map(|text| text.hash).collect());
        FileRow { path, hashes, withheld: &kept.withheld }.push(&mut self.unwritten);
    }

    /// Writes what was noted. Once all that there was at the start has been `read`, the record is whole, and files that were not found are forgotten.
    pub(crate) fn save(&mut self, read: bool) -> Option<Change> {
        if self.file.is_some() {
            let is_first = read && (self.is_known || !self.is_named);
            let saved = self.write(read, is_first);
            if let Err(error) = saved {
                self.fail(&error);
            }
        }
        let place = self.place.as_ref()?;
        let problems = self.problem.iter().map(|problem| warning(problem.clone())).collect();
        (!std::mem::replace(&mut self.is_reported, true))
            .then(|| Change::Problems { origin: place.path.to_string_lossy().into(), problems })
    }

    fn write(&mut self, read: bool, is_first: bool) -> io::Result<()> {
        if is_first {
            let unseen = self.files.iter().filter(|(_, kept)| !kept.is_seen).map(|(path, _)| path.clone());
            for path in unseen.collect::<Vec<_>>() {
                self.files.remove(&path);
                FileRow { path: &path, hashes: Some(Vec::new()), withheld: &[] }.push(&mut self.unwritten);
            }
            self.is_known = false;
        }
        let (Some(file), Some(place)) = (&mut self.file, &self.place) else { return Ok(()) };
        if !self.unwritten.is_empty() {
            if self.flusher.has_failed() {
                return Err(io::Error::other("the disk failed"));
            }
            journal::append(file, self.size.0, &self.unwritten)?;
            self.size.0 += self.unwritten.len() as u64;
            self.unwritten = Vec::new();
            self.flusher.flush(file.try_clone()?)?;
        }
        if read && !self.is_named {
            journal::give_name(file, &place.path)?;
            self.is_named = true;
        } else if self.is_named && self.size.0 > 2 * self.size.1 + SLACK {
            let (new, length) = journal::rewrite(place, file, &mut self.files)?;
            *file = new;
            self.size = (length, length);
        }
        Ok(())
    }

    /// Keeps nothing any more: of what cannot be written whole nothing is to be believed.
    fn fail(&mut self, error: &io::Error) {
        let Some(place) = &self.place else { return };
        let removed = journal::remove(&place.path);
        let text = format!(
            "{}: cannot be written: {error}; {}. Let the user of this process write there, make room, and start Chancery again",
            place.path.display(),
            match removed {
                Ok(()) =>
                    "it was removed. After a restart a file that is broken then holds up all edits until it is repaired or removed",
                Err(_) =>
                    "it cannot be removed either. Remove it: after a restart a file that is broken then gives what it gave at an earlier time",
            }
        );
        (self.problem, self.is_reported) = (Some(text), false);
        (self.file, self.unwritten) = (None, Vec::new());
        self.files.clear();
    }
}

/// Returns true for objects that may hold private keys.
fn is_private(object: &Object) -> bool {
    matches!(object, Object::Raw(..)) || matches!(object.kind(), Kind::Secret | Kind::EnvoyPatchPolicy)
}
