//! The file of the state folder that keeps [`Ages`] over a restart: a line for each record, with its own checksum, the last one of an identity counts.
//!
//! Lines are added before the change that they belong to is handed on, so that nothing is served whose age a killed process would lose. A thread
//! flushes them: an edit waits for no disk. A file that has grown to twice what it holds is written again next to the old one and renamed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::num::NonZeroU32;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::meta::FirstSeen;
use api::{ObjectKey, Problem, Severity, Timestamp};
use rustix::fs::OFlags;
use store::Change;
use xxhash_rust::xxh3::xxh3_64;

use super::{Ages, Record, Unsaved};

/// The first line: what the file is, and the version of its lines.
const HEADER: &str = "chancery ages 1";

/// The largest file that is read. A line has some 150 bytes, and a file grows to twice what it holds: three million objects.
const LARGEST: u64 = 1 << 30;

/// A file may grow by this whatever it holds: some 7,000 changes.
const SLACK: u64 = 1 << 20;

/// How long until writing is tried again after a failure, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Where ages are kept, and the clock of the process.
#[derive(Debug, Clone)]
pub struct AgeFile {
    /// The file, in a folder that belongs to the user of this process.
    pub path: PathBuf,
    /// The time, which says when an identity that is gone is forgotten.
    pub clock: fn() -> Timestamp,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Journal {
    /// None: ages end with the process.
    place: Option<AgeFile>,
    /// Its length, and that when it held nothing twice; none if it is not known what it holds.
    size: Option<(u64, u64)>,
    /// Lines that were damaged.
    damaged: usize,
    failure: Option<Failure>,
    /// What is wrong was reported, as it is now.
    is_reported: bool,
    flusher: Flusher,
}

#[derive(Debug)]
struct Failure {
    reason: String,
    pause: Duration,
    until: Instant,
}

impl Journal {
    /// Opens the file, which need not be there, and reads what it holds.
    ///
    /// # Errors
    ///
    /// Nothing of it can be used. Without it a newcomer could take what is served, so the reason says what to do.
    pub(crate) fn open(place: Option<AgeFile>) -> Result<(Self, Ages), String> {
        let read = match &place {
            Some(place) => read(&place.path).map_err(|reason| {
                format!(
                    "{}: {reason}. It says which objects are older, and without it a new one could take ports, host names and matches of others. \
                     Restore it; or remove it, and all objects count as first seen at the next start (older by creationTimestamp, then by name)",
                    place.path.display()
                )
            })?,
            None => Stored::default(),
        };
        let ages = Ages::new(read.records, read.damaged == 0);
        let (damaged, flusher) = (read.damaged, Flusher::default());
        Ok((Self { place, size: None, damaged, failure: None, is_reported: damaged == 0, flusher }, ages))
    }

    /// Returns the time in seconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.place.as_ref().map_or(0, |place| (place.clock)().0)
    }

    /// Returns when writing is to be tried again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.until)
    }

    /// Ends a change: what it brings is written now. Returns what is wrong, if that is another thing than before.
    pub(crate) fn save(&mut self, ages: &mut Ages, listed: bool) -> Option<Change> {
        let unsaved = ages.close(listed);
        let place = self.place.clone()?;
        let is_due = self.failure.as_ref().is_some_and(|failure| failure.until <= Instant::now());
        let written = match unsaved {
            None if !is_due => return None,
            // Tried again when it is due, all of it.
            Some(_) if self.failure.is_some() && !is_due => return None,
            Some(Unsaved::Some(records)) if !self.is_large() => {
                self.append(&place.path, &records).or_else(|_| self.replace(&place.path, ages))
            }
            _ => self.replace(&place.path, ages),
        };
        match written {
            Ok(()) => self.is_reported &= self.failure.take().is_none(),
            Err(error) => self.fail(&error),
        }
        (!std::mem::replace(&mut self.is_reported, true)).then(|| self.report(&place.path))
    }

    fn is_large(&self) -> bool {
        self.size.is_none_or(|(length, fresh)| length > 2 * fresh + SLACK)
    }

    fn append(&mut self, path: &Path, records: &[Record]) -> io::Result<()> {
        let Some((length, fresh)) = self.size.take().filter(|_| !self.flusher.has_failed()) else {
            return Err(io::Error::other("it is not known what it holds"));
        };
        let mut file = options().append(true).open(path)?;
        if file.metadata()?.len() != length {
            return Err(io::Error::other("another program has changed it"));
        }
        let lines: String = records.iter().map(line).collect();
        file.write_all(lines.as_bytes())?;
        self.size = Some((length + lines.len() as u64, fresh));
        self.flusher.flush(file)
    }

    fn replace(&mut self, path: &Path, ages: &Ages) -> io::Result<()> {
        self.size = None;
        let beside = path.with_extension("new");
        let _left_by_a_write_that_failed = std::fs::remove_file(&beside);
        let mut text = sealed(HEADER);
        ages.records().iter().for_each(|record| text.push_str(&line(record)));
        let written = options().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        if let Err(error) = written.and_then(|()| std::fs::rename(&beside, path)) {
            let _was_not_made = std::fs::remove_file(&beside);
            return Err(error);
        }
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.flusher.has_failed.store(false, Ordering::Relaxed);
        self.size = Some((text.len() as u64, text.len() as u64));
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        let reason = error.to_string();
        let [first, longest] = PAUSES;
        let before = self.failure.take();
        self.is_reported &= before.as_ref().is_some_and(|before| before.reason == reason);
        let pause = before.map_or(first, |before| (2 * before.pause).min(longest));
        self.failure = Some(Failure { reason, pause, until: Instant::now() + pause });
    }

    fn report(&self, path: &Path) -> Change {
        let (file, [_, longest]) = (path.display(), PAUSES);
        let damaged = (self.damaged > 0).then(|| {
            format!(
                "{file}: {} of its lines were damaged; the objects that they were about count as first seen at this start: they are younger than all \
                 others, and their creationTimestamp does not count. Look for ports, host names and matches that two objects claim",
                self.damaged
            )
        });
        let failure = self.failure.as_ref().map(|failure| {
            format!(
                "{file}: cannot be written: {}; after a restart objects that came since count as the youngest, first seen then. Let the user of this \
                 process write there, and make room; it is tried again every {} s at least",
                failure.reason,
                longest.as_secs()
            )
        });
        Change::Problems {
            origin: path.to_string_lossy().into(),
            problems: damaged.into_iter().chain(failure).map(warning).collect(),
        }
    }
}

pub(in crate::file) fn warning(text: String) -> Problem {
    Problem::unbound(Severity::Warning, text)
}

/// What a file holds.
#[derive(Debug, Default)]
struct Stored {
    records: Vec<Record>,
    damaged: usize,
}

fn read(path: &Path) -> Result<Stored, String> {
    let words = |error: io::Error| format!("cannot be read: {error}");
    let Some((mut file, length)) = open_own(path, options().read(true))? else { return Ok(Stored::default()) };
    if length > LARGEST {
        return Err(format!("{length} bytes are more than are read"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(words)?;
    parse(&bytes)
}

/// Reads every line that is intact. One that ends without a newline was being written when its process ended: what it was about was never served.
fn parse(bytes: &[u8]) -> Result<Stored, String> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut stored = Stored::default();
    let mut latest: hashbrown::HashMap<ObjectKey, usize> = hashbrown::HashMap::new();
    let (mut is_ours, mut lines) = (false, 0);
    for (at, line) in bytes.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n').enumerate() {
        lines += 1;
        let text = opened(line);
        if at == 0 && text == Some(HEADER) {
            is_ours = true;
        } else if let Some(record) = text.and_then(record) {
            match latest.get(&record.key).and_then(|at| stored.records.get_mut(*at)) {
                Some(earlier) => *earlier = record,
                None => {
                    latest.insert(record.key.clone(), stored.records.len());
                    stored.records.push(record);
                }
            }
        } else {
            stored.damaged += 1;
        }
    }
    match is_ours || !stored.records.is_empty() {
        true => Ok(stored),
        false => Err(format!("none of its {lines} lines is intact")),
    }
}

/// A line as it is written.
type Row<'t> = (&'t str, &'t str, &'t str, &'t str, NonZeroU32, u32, Option<i64>);

fn line(record: &Record) -> String {
    let Record { key, first_seen: FirstSeen { change, created }, gone } = record;
    let row: Row<'_> = (key.group(), key.kind_name(), key.namespace(), key.name(), *change, *created, *gone);
    // Texts and numbers always become JSON, in one line.
    sealed(&serde_json::to_string(&row).unwrap_or_default())
}

fn record(text: &str) -> Option<Record> {
    type Owned = (String, String, String, String, NonZeroU32, u32, Option<i64>);
    let (group, kind, namespace, name, change, created, gone): Owned = serde_json::from_str(text).ok()?;
    let key = ObjectKey::new(&group, &kind, &namespace, &name);
    Some(Record { key, first_seen: FirstSeen { change, created }, gone })
}

/// A text with its checksum in front.
pub(in crate::file) fn sealed(text: &str) -> String {
    format!("{:016x} {text}\n", xxh3_64(text.as_bytes()))
}

pub(in crate::file) fn opened(line: &[u8]) -> Option<&str> {
    let (sum, text) = str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    (u64::from_str_radix(sum, 16).ok()? == xxh3_64(text.as_bytes())).then_some(text)
}

/// Opens a file that no other user can have written, and returns its length with it. None if there is none.
pub(in crate::file) fn open_own(path: &Path, options: &OpenOptions) -> Result<Option<(File, u64)>, String> {
    let words = |error: io::Error| format!("cannot be read: {error}");
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(words)?,
    };
    let metadata = file.metadata().map_err(words)?;
    if !metadata.is_file() {
        return Err("not a file".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err("others than the user of this process can write it".to_owned());
    }
    Ok(Some((file, metadata.len())))
}

/// No link is followed, and a pipe has no other end to wait for.
pub(in crate::file) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

/// A thread that flushes what was added. It starts with the first write.
#[derive(Debug, Default)]
pub(in crate::file) struct Flusher {
    has_failed: Arc<AtomicBool>,
    /// Has room for one, which is flushed with all that was written by then.
    files: Option<SyncSender<File>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(in crate::file) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    pub(in crate::file) fn flush(&mut self, file: File) -> io::Result<()> {
        let files = match &self.files {
            Some(files) => files,
            None => {
                let (files, receiver) = sync_channel::<File>(1);
                let has_failed = Arc::clone(&self.has_failed);
                let flush = move || {
                    for file in receiver {
                        has_failed.fetch_or(file.sync_data().is_err(), Ordering::Relaxed);
                    }
                };
                self.thread = Some(thread::Builder::new().name("ages of objects".to_owned()).spawn(flush)?);
                self.files.insert(files)
            }
        };
        let _one_that_waits_does_it = files.try_send(file);
        Ok(())
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.files = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!(?panic, "the thread that flushes the ages of objects broke");
        }
    }
}
