//! The last good configuration on disk: of each Gateway what its proxies have acknowledged, one journal each in a folder of the state
//! folder. The next process serves it before any source has answered.
//!
//! Files are written apart from everything else, at most once in [`BATCH`]: whoever is served waits for no disk. What changed is added to
//! a file and flushed; a file that has grown to twice what it holds is written anew beside the old one and renamed, so that each change
//! costs what it is long, twice. What could not be written is written when it can be, all of it; until then a problem says so.

mod file;
mod sources;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::{Problem, Severity};
use engine::Graph;
use ir::FleetName;
use store::{Batch, Change, Source, Store};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use translator::{InFleet, Translator};
use xds::saved::{SavedFleet, Unsaved};
use xds::{Need, Resource, Server, TypeUrl};

use crate::core::{Input, is_workload};
use crate::publish::named;
use file::Files;

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
    secrets: bool,
    /// Of the files that hold what the server takes for saved.
    sizes: BTreeMap<Arc<str>, Size>,
    /// Fleets that are no more, and may have files still.
    leaving: BTreeSet<Arc<str>>,
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

/// What came of writing.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Written {
    /// Everything of these fleets is to be saved anew.
    again: Vec<Arc<str>>,
    /// Why something could not be written.
    failure: Option<String>,
}

impl LastGood {
    /// The same, of these sources: what is there of others is not used, and named.
    ///
    /// # Errors
    /// What is there of others can be neither set aside nor removed.
    pub(crate) fn open_of(sources: &str, state: &Path, secrets: bool) -> anyhow::Result<(Self, Found)> {
        let of_others = sources::bind(state, sources, secrets).with_context(|| {
            format!(
                "{}: what was saved of other sources can be neither set aside nor removed, or it cannot be noted that it is theirs; let the \
                 user of this process write there, or give another --state-dir. Envoys that run serve on",
                state.display()
            )
        })?;
        let (files, mut found) = Self::open(state, secrets);
        if let Some(text) = of_others {
            warn!("{text}");
            found.problems.push(problem(text));
        }
        Ok((files, found))
    }

    /// Reads the files of a state folder. What cannot be used is set aside; if it may hold secrets, and shall not, it goes.
    pub(crate) fn open(state: &Path, secrets: bool) -> (Self, Found) {
        let folder = state.join("last-good");
        let mut all = Self { folder, secrets, sizes: BTreeMap::new(), leaving: BTreeSet::new() };
        let mut found = Found::default();
        match file::list(&all.folder) {
            Ok(files) => all.read_all(&files, &mut found),
            Err(reason) => found.problems.push(problem(format!(
                "{}: {reason}; nothing of it is served, and proxies keep what they have. Let it be a folder that the user of this \
                 process can read, or remove it: a new one is made",
                all.folder.display()
            ))),
        }
        (all, found)
    }

    fn read_all(&mut self, files: &Files, found: &mut Found) {
        let exposed = !self.secrets && file::may_hold_secrets(&self.folder);
        let mut left = false;
        for path in &files.journals {
            if let Err(reason) = self.read(path, found) {
                let (removed, told) = if exposed { remove(path, &reason) } else { (true, set_aside(path, &reason)) };
                left |= !removed;
                found.problems.push(told);
            }
        }
        for path in files.aside.iter().filter(|_| exposed) {
            let (removed, told) = remove(path, "an earlier process set it aside");
            if removed {
                info!("removed {}, which may have held private keys", path.display());
            } else {
                left = true;
                found.problems.push(told);
            }
        }
        if exposed && !left && found.unwanted.is_empty() {
            let _again_at_the_next_start = file::expect_no_secrets(&self.folder);
        }
    }

    fn read(&mut self, path: &Path, found: &mut Found) -> Result<(), String> {
        let mut saved = file::read(path)?;
        if saved.is_empty() {
            self.leaving.insert(Arc::clone(saved.fleet()));
            return Ok(());
        }
        let fresh = saved.size() as u64;
        self.sizes.insert(Arc::clone(saved.fleet()), Size { length: saved.intact() as u64, fresh });
        if !self.secrets && saved.drop_secrets() {
            found.unwanted.push(Arc::clone(saved.fleet()));
        }
        found.fleets.push(saved);
        Ok(())
    }

    /// Writes what is to be saved, and what could not be removed earlier.
    pub(crate) fn write(&mut self, unsaved: &[Unsaved]) -> Written {
        let mut written = Written::default();
        for one in unsaved {
            let fleet = one.fleet();
            if let Err(reason) = self.write_one(one) {
                written.failure.get_or_insert(why(&reason));
                self.sizes.remove(fleet);
                written.again.push(Arc::clone(fleet));
            }
            if self.sizes.get(fleet).is_some_and(|size| size.length > 2 * size.fresh + SLACK) {
                written.again.push(Arc::clone(fleet));
            }
        }
        let folder = &self.folder;
        self.leaving.retain(|fleet| {
            let failed = file::remove(folder, fleet).err();
            failed.map(|reason| written.failure.get_or_insert(why(&reason))).is_some()
        });
        written
    }

    fn write_one(&mut self, unsaved: &Unsaved) -> io::Result<()> {
        let fleet = unsaved.fleet();
        if unsaved.is_gone() {
            self.sizes.remove(fleet);
            self.leaving.insert(Arc::clone(fleet));
            return Ok(());
        }
        self.leaving.remove(fleet);
        if self.secrets {
            file::expect_secrets(&self.folder)?;
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

/// Tells the translator what workloads had, as far as several objects may have made it: what of it they had from each is not taken away to find out
/// which of these a proxy refuses.
pub(crate) fn note_before(translator: &mut Translator, fleets: &[SavedFleet]) {
    for saved in fleets.iter().filter(|saved| is_workload(saved.fleet())) {
        let joint = |resource: &&Resource| [TypeUrl::Route, TypeUrl::Endpoints].contains(&resource.type_url);
        for resource in saved.resources().filter(joint) {
            let Some(name) = named(&resource.type_url, &resource.name) else { continue };
            let target = InFleet { fleet: FleetName(Arc::clone(saved.fleet())), name };
            translator.note_before(target, resource.body.concat().into());
        }
    }
}

/// What of these no proxy is given that starts now, as the keys it needs were not saved.
pub(crate) fn without_keys(fleets: &[SavedFleet]) -> Vec<String> {
    let of = |saved: &SavedFleet| {
        let kind = |need: &Need| if need.type_url == TypeUrl::Listener { "listener" } else { "cluster" };
        let named: Vec<String> =
            saved.without_secrets().map(|need| format!("{} {}", kind(need), need.name)).take(NAMED + 1).collect();
        let more = if named.len() > NAMED { " and more" } else { "" };
        let shown = named.get(..named.len().min(NAMED)).unwrap_or_default().join(", ");
        (!named.is_empty()).then(|| format!("{}: {shown}{more}", saved.fleet()))
    };
    fleets.iter().filter_map(of).collect()
}

/// Makes known what no proxy is given that starts now, until every source was read; nothing any more.
pub(crate) fn note_without_keys(store: &mut Store, graph: &mut Graph, lacking: &[String]) {
    let told = lacking.iter().take(NAMED).map(|one| {
        let text = format!(
            "{one}: needs a private key or certificate, which is not saved; a proxy that starts before every source was read has to do without, one that runs keeps it (--save-secrets saves keys too)"
        );
        Problem { severity: Severity::Note, ..problem(text) }
    });
    note(store, graph, "last good, without keys", told.collect());
}

fn note(store: &mut Store, graph: &mut Graph, origin: &str, problems: Vec<Problem>) {
    store.apply(graph, batch(origin, problems));
}

fn batch(origin: &str, problems: Vec<Problem>) -> Batch {
    let changes = vec![Change::Problems { origin: origin.into(), problems }];
    Batch { source: Source::File, changes, listed: false }
}

/// Keeps the files, until `stop` and what is to be saved by then. The core is told when nothing can be saved, and when it can be again.
/// `end` goes with it.
pub(crate) async fn keep(
    (server, mut files): (Server, LastGood),
    inputs: mpsc::Sender<Input>,
    stop: CancellationToken,
    end: oneshot::Sender<Infallible>,
) -> anyhow::Result<()> {
    let _until_the_end = end;
    let (mut pause, mut failure) = (BATCH, None);
    while !stop.is_cancelled() {
        let is_failing = failure.is_some();
        let due = async {
            if !is_failing {
                server.unsaved().await;
            }
            tokio::time::sleep(pause).await;
        };
        tokio::select! {
            () = due => {}
            () = stop.cancelled() => {}
        }
        let of = server.clone();
        let outcome = tokio::task::spawn_blocking(move || {
            let written = files.write(&of.take_unsaved());
            (files, written)
        });
        let written;
        (files, written) = outcome.await?;
        written.again.iter().for_each(|fleet| server.save_again(fleet));
        pause = if written.failure.is_some() { (2 * pause).min(LONGEST_PAUSE) } else { BATCH };
        if written.failure != failure {
            failure = written.failure;
            let told = failure.iter().map(|reason| problem(format!("{}: {reason}", files.folder.display())));
            let batch = batch("last good, not saved", told.collect());
            // what the last one says is heard by nobody else
            if inputs.send(Input::Batch(batch)).await.is_err() || stop.is_cancelled() {
                failure.iter().for_each(|reason| warn!("{}: {reason}", files.folder.display()));
            }
        }
    }
    Ok(())
}

/// Why nothing can be saved, and what to do.
fn why(reason: &io::Error) -> String {
    let remedy = match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => "make room there",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "let the user of this process write there"
        }
        _ => "mend that",
    };
    format!(
        "the last good configuration cannot be saved: {reason}; proxies are served as ever, but after a restart they would be \
         given what was saved before until the sources are read. {remedy}: it is tried again every {} s at least, and nothing is lost \
         meanwhile",
        LONGEST_PAUSE.as_secs()
    )
}

/// Removes what cannot be read and may hold secrets. Whether that could be done, and what is to be told.
fn remove(path: &Path, reason: &str) -> (bool, Problem) {
    let (shown, removed) = (path.display(), std::fs::remove_file(path));
    let told = match &removed {
        Ok(()) => format!(
            "{shown}: {reason}; it was removed, as it may have held private keys, which are not to be saved any more; nothing of it \
             is served, and proxies keep what they have"
        ),
        Err(error) => format!(
            "{shown}: {reason}; it may hold private keys, which are not to be saved any more, and cannot be removed: {error}. \
             Remove it"
        ),
    };
    (removed.is_ok(), problem(told))
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
    Problem::unbound(Severity::Warning, text)
}
