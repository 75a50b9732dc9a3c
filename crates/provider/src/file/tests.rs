//! Tests of the file provider, from outside: real directories, and what comes out of `load` and `watch`.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use api::ObjectKey;
use store::{Batch, Change};
use tempfile::TempDir;

use super::*;

mod ages;
mod broken;
mod costly;
mod floods;
mod following;
mod guards;
mod links;
mod loading;
mod past;
mod property;
mod shares;
mod starting;
mod texts;
mod ways;

/// How long a fact may take to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// A small object; `version` is a label of it.
fn namespace(name: &str, version: impl std::fmt::Display) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels:\n    version: \"{version}\"\n")
}

/// Several documents as one text.
fn join(documents: &[String]) -> String {
    documents.join("---\n")
}

fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// As editors do it: written beside, then renamed into place.
fn replace(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    let _ = fs::remove_file(folder.path().join(".new"));
    write(folder, ".new", text);
    fs::rename(folder.path().join(".new"), folder.path().join(name)).unwrap();
}

/// What is in force and what is wrong, in a form to compare: name → `version file:line`, and problem lines, with
/// file names relative to the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    objects: BTreeMap<String, String>,
    problems: BTreeMap<String, Vec<String>>,
}

impl State {
    fn apply(&mut self, batch: Batch, folder: &Path) {
        let short = |text: &str| {
            text.replace(&format!("{}/", folder.display()), "").replace(&folder.display().to_string(), ".")
        };
        for change in batch.changes {
            match change {
                Change::Apply(object, origin) => {
                    let version = object.meta().labels.get("version").unwrap_or("-").to_owned();
                    let place = short(&origin.to_string());
                    self.objects.insert(title(object.key()), format!("{version} {place}"));
                }
                Change::Reject(key, _) => panic!("files reject nothing: {key}"),
                Change::Definitions(_) => panic!("files have every kind"),
                Change::SocketPath(..) => panic!("the watcher looks at no sockets"),
                Change::Delete(key) => {
                    assert!(self.objects.remove(&title(&key)).is_some(), "deleted without being there: {key}");
                }
                Change::Problems { origin, problems } => {
                    let problems: Vec<String> = problems.iter().map(|problem| short(&problem.to_string())).collect();
                    if problems.is_empty() {
                        assert!(self.problems.remove(&short(&origin)).is_some(), "nothing was wrong at {origin}");
                    } else {
                        self.problems.insert(short(&origin), problems);
                    }
                }
            }
        }
    }

    fn of(folder: &Path, roots: &[PathBuf]) -> Self {
        let mut state = Self::default();
        state.apply(load(roots).into_batch(), folder);
        state
    }

    fn version(&self, name: &str) -> Option<&str> {
        self.objects.get(name)?.split(' ').next()
    }

    fn all_problems(&self) -> String {
        self.problems.values().flatten().cloned().collect::<Vec<_>>().join("\n")
    }
}

fn title(key: &ObjectKey) -> String {
    match key.kind_name() {
        "Namespace" => key.name().to_owned(),
        kind => format!("{kind} {}", key.name()),
    }
}

/// A watched folder and the state that its batches add up to.
struct Watched {
    folder: PathBuf,
    state: State,
    batches: Receiver<Batch>,
    watcher: Watcher,
    /// The last batch was `listed`.
    listed: bool,
}

impl Watched {
    fn folder(folder: &TempDir) -> Self {
        Self::roots(folder, &[folder.path().to_owned()])
    }

    /// Returns when the first listing is there.
    fn roots(folder: &TempDir, roots: &[PathBuf]) -> Self {
        let mut watched = Self::begin(folder, roots);
        assert!(watched.next(DEADLINE).expect("the first listing"), "the first batch is the complete listing");
        watched
    }

    /// The same where all links are followed.
    fn following_links(folder: &TempDir, roots: &[PathBuf]) -> Self {
        let mut watched = Self::with_links(Links::Everywhere, Past::default(), folder, roots);
        assert!(watched.next(DEADLINE).expect("the first listing"), "the first batch is the complete listing");
        watched
    }

    /// Nothing is taken in yet.
    fn begin(folder: &TempDir, roots: &[PathBuf]) -> Self {
        Self::after(Past::default(), folder, roots)
    }

    /// The same after an earlier process.
    fn after(past: Past, folder: &TempDir, roots: &[PathBuf]) -> Self {
        Self::with_links(Links::WithinRoots, past, folder, roots)
    }

    /// The same where these links are followed.
    fn with_links(links: Links, past: Past, folder: &TempDir, roots: &[PathBuf]) -> Self {
        let (sender, batches) = sync_channel(4);
        let sink = move |batch| match sender.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let watcher = watch((roots, links), past, sink).unwrap();
        Self { folder: folder.path().to_owned(), state: State::default(), batches, watcher, listed: false }
    }

    /// Takes in one batch; whether it was `listed`, none if none came in time.
    fn next(&mut self, wait: Duration) -> Option<bool> {
        match self.batches.recv_timeout(wait) {
            Ok(batch) => {
                self.listed = batch.listed;
                self.state.apply(batch, &self.folder);
                Some(self.listed)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the watcher ended"),
        }
    }

    /// Takes in batches until something is true. Every state on the way has to hold `always`.
    #[track_caller]
    fn until_while(&mut self, what: impl Fn(&State) -> bool, always: impl Fn(&State) -> bool) {
        let end = Instant::now() + DEADLINE;
        assert!(always(&self.state), "{:#?}", self.state);
        while !what(&self.state) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.next(left).is_some(), "it did not come true: {:#?}", self.state);
            assert!(always(&self.state), "{:#?}", self.state);
        }
    }

    #[track_caller]
    fn until(&mut self, what: impl Fn(&State) -> bool) {
        self.until_while(what, |_| true);
    }

    #[track_caller]
    fn until_version(&mut self, name: &str, version: &str) {
        self.until(|state| state.version(name) == Some(version));
    }

    /// Everything that happened before is taken in once a later file is (inotify keeps the order).
    #[track_caller]
    fn settle(&mut self, folder: &TempDir) {
        write(folder, "zzz-settled.yaml", namespace("settled", "1"));
        self.until(|state| state.version("settled").is_some());
    }
}
