//! The last good configuration on disk: of each Gateway what its proxies have acknowledged, one journal each in a folder of the state
//! folder. The next process serves it before any source has answered.
//!
//! Files are written apart from everything else, at most once in [`BATCH`]: whoever is served waits for no disk. What changed is added to
//! a file and flushed; a file that has grown to twice what it holds is written anew beside the old one and renamed. What could not be
//! written is written when it can be, all of it.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::{FieldPath, Problem, Severity};
use engine::Graph;
use store::{Batch, Change, Source, Store};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use xds::Server;
use xds::saved::{SavedFleet, Unsaved};

/// How long changes are collected: what a process that dies may not have written. A power cut loses no more, as each write is flushed.
pub(crate) const BATCH: Duration = Duration::from_secs(1);

/// How long until it is tried again when nothing can be written, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A file may grow by this whatever it holds: a thousand changes of some hundred bytes.
const SLACK: u64 = 1 << 20;

/// So many Gateways are named to people at once.
const NAMED: usize = 3;

/// The files. They are used by one process at a time: the one that has the lock of the state folder.
pub(crate) struct LastGood {
    folder: PathBuf,
    /// Of the files that hold what the server takes for saved.
    sizes: BTreeMap<Arc<str>, Size>,
    /// Fleets that could not be written.
    failing: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy)]
struct Size {
    length: u64,
    /// Of the file when it held nothing twice.
    fresh: u64,
}

/// What is there at the start.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) fleets: Vec<SavedFleet>,
    pub(crate) problems: Vec<Problem>,
    /// Files that hold secrets, and shall not.
    unwanted: Vec<Arc<str>>,
}

impl LastGood {
    /// Reads the files of a state folder. What cannot be used is set aside.
    pub(crate) fn open(state: &Path, secrets: bool) -> (Self, Found) {
        let mut all = Self { folder: state.join("last-good"), sizes: BTreeMap::new(), failing: BTreeSet::new() };
        let mut found = Found::default();
        match file::list(&all.folder) {
            Ok(paths) => paths.iter().for_each(|path| all.read(path, secrets, &mut found)),
            Err(reason) => found.problems.push(problem(format!("{}: {reason}", all.folder.display()))),
        }
        (all, found)
    }

    fn read(&mut self, path: &Path, secrets: bool, found: &mut Found) {
        let mut saved = match file::read(path) {
            Ok(saved) => saved,
            Err(reason) => return found.problems.push(set_aside(path, &reason)),
        };
        if saved.is_empty() {
            let _again_at_the_next_start = file::remove(&self.folder, saved.fleet());
            return;
        }
        let fresh = saved.size() as u64;
        self.sizes.insert(Arc::clone(saved.fleet()), Size { length: saved.intact() as u64, fresh });
        if !secrets && saved.drop_secrets() {
            found.unwanted.push(Arc::clone(saved.fleet()));
        }
        found.fleets.push(saved);
    }

    /// Writes what is to be saved. Gives those fleets of which everything is to be saved anew, and whether that is because something
    /// could not be written.
    pub(crate) fn write(&mut self, unsaved: &[Unsaved]) -> (Vec<Arc<str>>, bool) {
        let was_failing = !self.failing.is_empty();
        let mut again = Vec::new();
        for one in unsaved {
            let fleet = one.fleet();
            match self.write_one(one) {
                Ok(()) => drop(self.failing.remove(fleet)),
                Err(reason) => {
                    if self.failing.is_empty() && !was_failing {
                        let folder = self.folder.display();
                        warn!("the last good configuration cannot be saved in {folder}: {reason}; it is tried again");
                    }
                    self.failing.insert(Arc::clone(fleet));
                    self.sizes.remove(fleet);
                    again.push(Arc::clone(fleet));
                }
            }
            if self.sizes.get(fleet).is_some_and(|size| size.length > 2 * size.fresh + SLACK) {
                again.push(Arc::clone(fleet));
            }
        }
        if was_failing && self.failing.is_empty() {
            info!("the last good configuration is saved again");
        }
        (again, !self.failing.is_empty())
    }

    fn write_one(&mut self, unsaved: &Unsaved) -> io::Result<()> {
        let fleet = unsaved.fleet();
        if unsaved.is_gone() {
            self.sizes.remove(fleet);
            return file::remove(&self.folder, fleet);
        }
        if unsaved.is_whole() {
            let length = file::replace(&self.folder, fleet, unsaved.parts())?;
            self.sizes.insert(Arc::clone(fleet), Size { length, fresh: length });
            return Ok(());
        }
        let size = self.sizes.get_mut(fleet).ok_or_else(|| io::Error::other("the file is not as it was left"))?;
        size.length = file::append(&self.folder, fleet, size.length, unsaved.parts())?;
        Ok(())
    }
}

/// Hands what was saved to the server; from now on what clients acknowledge is noted. Gives the fleets.
pub(crate) fn restore(server: &Server, found: Found, secrets: bool) -> BTreeSet<Arc<str>> {
    server.keep(secrets);
    let mut fleets = BTreeSet::new();
    for saved in found.fleets {
        fleets.insert(Arc::clone(saved.fleet()));
        server.restore(saved);
    }
    // those are removed from the files at once
    found.unwanted.iter().for_each(|fleet| server.save_again(fleet));
    fleets
}

/// Makes known what could not be used. It stays for the life of the process.
pub(crate) fn note_set_aside(store: &mut Store, graph: &mut Graph, problems: Vec<Problem>) {
    note(store, graph, "last good, set aside", problems);
}

/// Makes known that these Gateways are served from what was saved; none any more.
pub(crate) fn note_in_use(store: &mut Store, graph: &mut Graph, fleets: &BTreeSet<Arc<str>>) {
    let named: Vec<&str> = fleets.iter().take(NAMED).map(|fleet| &**fleet).collect();
    let more = if fleets.len() > NAMED { format!(" and {} more", fleets.len() - NAMED) } else { String::new() };
    let text =
        format!("{}{more}: served from the last good configuration until every source was read", named.join(", "));
    let told = Problem { severity: Severity::Note, ..problem(text) };
    note(store, graph, "last good", if fleets.is_empty() { Vec::new() } else { vec![told] });
}

fn note(store: &mut Store, graph: &mut Graph, origin: &str, problems: Vec<Problem>) {
    let changes = vec![Change::Problems { origin: origin.into(), problems }];
    store.apply(graph, Batch { source: Source::File, changes, listed: false });
}

/// Keeps the files, until `stop` and what is to be saved by then. `end` goes with it.
pub(crate) async fn keep(
    server: Server,
    mut files: LastGood,
    stop: CancellationToken,
    end: oneshot::Sender<Infallible>,
) -> anyhow::Result<()> {
    let _until_the_end = end;
    let mut pause = BATCH;
    while !stop.is_cancelled() {
        tokio::select! {
            () = server.unsaved() => tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            },
            () = stop.cancelled() => {}
        }
        let of = server.clone();
        let written = tokio::task::spawn_blocking(move || {
            let outcome = files.write(&of.take_unsaved());
            (files, outcome)
        });
        let (again, failed);
        (files, (again, failed)) = written.await?;
        again.iter().for_each(|fleet| server.save_again(fleet));
        pause = if failed { (2 * pause).min(LONGEST_PAUSE) } else { BATCH };
    }
    Ok(())
}

fn set_aside(path: &Path, reason: &str) -> Problem {
    let path_shown = path.display();
    problem(match file::set_aside(path) {
        Ok(aside) => format!(
            "{path_shown}: {reason}; it was set aside as {} and nothing of it is served; proxies keep what they have. \
             Remove it once it is of no more use",
            aside.display()
        ),
        Err(error) => format!("{path_shown}: {reason}; nothing of it is served, and it cannot be set aside: {error}"),
    })
}

fn problem(text: String) -> Problem {
    let (object, path, severity, text) = (None, FieldPath::default(), Severity::Warning, text.into());
    Problem { object, path, severity, text, place: None, snippet: None, refers_to: None, earlier: false }
}
