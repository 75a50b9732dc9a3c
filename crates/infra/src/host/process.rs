//! A process that runs apart from us: started in its own process group, watched by a descriptor, found again after a restart.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::handover::Lineage;
use super::launch::Launch;
use super::layout::{BOOTSTRAP, write_whole};
use super::orphan;
use super::readable::readable;
use super::{Error, ProxyPaths};

/// An Envoy. Dropping this value leaves it running.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// The digest of the [`Launch`] that it was started with; `None` if unknown.
    pub(crate) identity: Option<String>,
    /// Signals through a descriptor reach this very process, never a later one with the same number.
    descriptor: AsyncFd<OwnedFd>,
    /// Where we are its parent: to be waited for, or it would stay as a zombie.
    child: Option<Child>,
}

/// Stands in a record for the digest of a [`Launch`] that is not known.
const UNKNOWN: &str = "unknown";

/// The file `envoy.pid` (or `draining.<pid>`): who runs. A number alone is not enough, numbers are used again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    /// When the process started, in clock ticks since boot: field 22 of `/proc/<pid>/stat` (proc(5)).
    pub(crate) started: u64,
    /// The digest of its [`Launch`].
    pub(crate) identity: String,
}

impl Process {
    /// Starts Envoy and records it. Its output goes to files and not to us, so that it goes on when we are gone; its own
    /// process group keeps a terminal's Ctrl-C from it.
    pub(crate) async fn start(launch: &Launch, lineage: Option<Lineage>, paths: &ProxyPaths) -> Result<Self, Error> {
        let append = |path: &Path| {
            let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            opened.map_err(Error::file("open", path))
        };
        if launch.orphan && lineage.is_some() {
            let output = (append(&paths.output)?, append(&paths.log)?);
            let pid = orphan(launch, lineage, &paths.sockets, output).await?;
            return Ok(Self::watch(pid, Some(launch.identity.clone()))?.recorded(paths));
        }
        let mut child = Command::new(&launch.program)
            .args(&launch.args)
            .args(Lineage::arguments(lineage))
            .current_dir(&paths.sockets)
            .stdin(Stdio::null())
            .stdout(append(&paths.output)?)
            .stderr(append(&paths.log)?)
            .process_group(0)
            .spawn()
            .map_err(|reason| Error::Start { path: launch.program.clone(), reason })?;
        // A child that nobody has waited for has its number.
        let pid = child.id().unwrap_or_default();
        let mut process = match Self::watch(pid, Some(launch.identity.clone())) {
            Ok(process) => process,
            Err(error) => {
                let _gone = child.start_kill();
                return Err(error);
            }
        };
        process.child = Some(child);
        Ok(process.recorded(paths))
    }

    fn recorded(self, paths: &ProxyPaths) -> Self {
        if let Err(error) = self.record().write(&paths.record) {
            let pid = self.pid;
            tracing::warn!(pid, %error, "the record of this envoy is written later; until then a later chancery knows it by its arguments");
        }
        self
    }

    /// The Envoy of these files that runs already: the recorded one, or one that was started by a process which died before
    /// it could record it. None of those that are `leaving`.
    pub(crate) fn adopt(paths: &ProxyPaths, leaving: &BTreeSet<u32>) -> Result<Option<Self>, Error> {
        if let Some(record) = Record::read(&paths.record).filter(|record| !leaving.contains(&record.pid))
            && let Some(process) = Self::of(record, paths)?
        {
            return Ok(Some(process));
        }
        match search(&paths.bootstrap, leaving).first().copied() {
            Some(pid) => Self::running(pid, (None, Known::Nothing), paths),
            None => Ok(None),
        }
    }

    /// The process of a record, if it still runs and is this proxy's.
    pub(crate) fn of(record: Record, paths: &ProxyPaths) -> Result<Option<Self>, Error> {
        if record.started == 0 || start_time(record.pid) != Some(record.started) {
            return Ok(None);
        }
        let identity = Some(record.identity).filter(|identity| identity != UNKNOWN);
        Self::running(record.pid, (identity, Known::Recorded), paths)
    }

    fn running(
        pid: u32,
        (identity, known): (Option<String>, Known),
        paths: &ProxyPaths,
    ) -> Result<Option<Self>, Error> {
        if !runs_from(pid, &paths.bootstrap, known) {
            return Ok(None);
        }
        let process = Self::watch(pid, identity)?;
        // Between the look and the descriptor the process may have ended and its number been given away.
        Ok(runs_from(pid, &paths.bootstrap, known).then_some(process))
    }

    /// Compares what runs with what would be started, for a process whose record could not be written (a full disk): the program's file,
    /// the arguments that a running Envoy cannot change, and the bootstrap, which is written right before a start and not again.
    pub(crate) fn is_started_as(&self, launch: &Launch, paths: &ProxyPaths) -> bool {
        let Ok(line) = std::fs::read(format!("/proc/{}/cmdline", self.pid)) else { return false };
        let mut words = line.strip_suffix(&[0]).unwrap_or(&line).split(|byte| *byte == 0);
        let program = words.next() == Some(launch.program.as_os_str().as_bytes());
        let count = words.clone().count() >= launch.args.len();
        let same = words.zip(&launch.args).take(launch.fixed).all(|(word, arg)| word == arg.as_bytes());
        let bootstrap = std::fs::read(&paths.bootstrap).is_ok_and(|text| text == launch.bootstrap.as_bytes());
        program && count && same && bootstrap && self.runs(&launch.program)
    }

    /// Returns true if it runs this file.
    pub(crate) fn runs(&self, program: &Path) -> bool {
        let file = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let runs = file(Path::new(&format!("/proc/{}/exe", self.pid)));
        runs.is_some() && runs == file(program)
    }

    /// What is written down of it.
    pub(crate) fn record(&self) -> Record {
        let identity = self.identity.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        Record { pid: self.pid, started: start_time(self.pid).unwrap_or_default(), identity }
    }

    /// Watches a process of any kind.
    pub(crate) fn watch(pid: u32, identity: Option<String>) -> Result<Self, Error> {
        let failed = |reason: std::io::Error| Error::Watch { pid, reason };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        let descriptor = pidfd_open(number, PidfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        let descriptor = readable(descriptor).map_err(failed)?;
        Ok(Self { pid, identity, descriptor, child: None })
    }

    /// Waits for its end; how it ended is known only of our own child. May be called again, also after the end.
    pub(crate) async fn ended(&mut self) -> String {
        match &mut self.child {
            Some(child) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            None => {
                // Readable for ever once the process is gone (pidfd_open(2)), so the readiness is not cleared.
                let _ready = self.descriptor.readable().await;
                // As the first process of a container we are the parent of orphans: nothing else reaps them.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                match waitid(WaitId::PidFd(self.descriptor.get_ref().as_fd()), options) {
                    Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => format!("exit status: {code}"),
                        (None, Some(signal)) => format!("signal: {signal}"),
                        (None, None) => "how is unknown".to_owned(),
                    },
                    _ => "how is unknown: it has another parent".to_owned(),
                }
            }
        }
    }

    /// Sends a signal; one that is gone already is fine.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(self.descriptor.get_ref(), signal) {
            tracing::debug!(pid = self.pid, %error, "signal not delivered");
        }
    }
}

/// Until the first of two short processes has said the number of the second.
const ORPHANED: Duration = Duration::from_secs(10);

/// Starts Envoy with init as its parent, and returns its number: see [`mod@orphan`].
async fn orphan(
    launch: &Launch,
    lineage: Option<Lineage>,
    folder: &Path,
    (output, log): (File, File),
) -> Result<u32, Error> {
    let failed = |reason: std::io::Error| Error::Start { path: launch.program.clone(), reason };
    let child = Command::new(orphan::OWN)
        .args([orphan::VERB, orphan::FIRST])
        .arg(&launch.program)
        .args(&launch.args)
        .args(Lineage::arguments(lineage))
        .current_dir(folder)
        .stdin(output)
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let said = timeout(ORPHANED, child.wait_with_output()).await;
    let said = said.map_err(|_late| failed(ErrorKind::TimedOut.into()))?.map_err(failed)?;
    let pid = std::str::from_utf8(&said.stdout).ok().and_then(|words| words.trim().parse().ok());
    pid.ok_or_else(|| failed(std::io::Error::other(format!("its starter ended ({})", said.status))))
}

impl Record {
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut words = text.split_whitespace();
        let record = Self {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            identity: words.next()?.to_owned(),
        };
        words.next().is_none().then_some(record)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_whole(path, format!("{} {} {}\n", self.pid, self.started, self.identity).as_bytes())
    }
}

/// When a living process started; `None` if there is none or it is a zombie.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A process of this user whose arguments hold `-c bootstrap.json` and that was started in the folder of that very file, or, by an earlier version, with the
/// file's whole path: in a container with a file system of its own the same path can be another file.
fn runs_from(pid: u32, bootstrap: &Path, known: Known) -> bool {
    let ours =
        || std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|p| p.uid() == rustix::process::geteuid().as_raw());
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let mut args = line.split(|byte| *byte == 0);
    if args.clone().skip(1).take(2).eq([orphan::VERB, orphan::FIRST].map(str::as_bytes)) {
        // It ends at once, and the second step becomes the Envoy.
        return false;
    }
    args.by_ref().find(|arg| *arg == b"-c");
    let Some(named) = args.next() else { return false };
    let is_whole = named == bootstrap.as_os_str().as_bytes();
    let is_below =
        || named == BOOTSTRAP.as_bytes() && bootstrap.parent().is_some_and(|folder| is_in(pid, folder, known));
    (is_whole || is_below()) && ours() && sees(pid, bootstrap)
}

/// Knowledge of a process before its folder is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// A record has its number and when it started.
    Recorded,
    /// Nothing.
    Nothing,
}

/// Returns true if a process was started in this folder, which may be gone or another one by now. Of a program that has rights of its own (`setcap`) the kernel does
/// not show us the folder: then its record counts.
fn is_in(pid: u32, folder: &Path, known: Known) -> bool {
    match std::fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(found) => {
            let found = found.as_os_str().as_bytes();
            let found = Path::new(OsStr::from_bytes(found.strip_suffix(GONE).unwrap_or(found)));
            found == folder || std::fs::canonicalize(folder).is_ok_and(|folder| found == folder)
        }
        Err(error) => error.kind() == ErrorKind::PermissionDenied && known == Known::Recorded,
    }
}

/// Follows the name of a folder that was removed (proc(5), `/proc/pid/cwd`).
const GONE: &[u8] = b" (deleted)";

/// Whether a process finds the same file, or as little, under this path. Of a program that has rights of its own (`setcap`) the kernel
/// does not tell us: then the path counts.
fn sees(pid: u32, path: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    let mut theirs = PathBuf::from(format!("/proc/{pid}/root"));
    theirs.extend(path.components().filter(|part| *part != Component::RootDir));
    match identity(&theirs) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => true,
        theirs => theirs.ok() == identity(path).ok(),
    }
}

/// Returns the processes of a bootstrap but some, the one that started first before the others. Looks through all: a few milliseconds, once per start of a proxy.
pub(crate) fn search(bootstrap: &Path, but: &BTreeSet<u32>) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let numbers = numbers.filter(|pid| !but.contains(pid));
    // A process that has been forked and not yet become Envoy has our arguments, not these.
    let numbers = numbers.filter(|pid| runs_from(*pid, bootstrap, Known::Nothing));
    let mut found: Vec<_> = numbers.filter_map(|pid| Some((start_time(pid)?, pid))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

#[cfg(test)]
mod tests;
