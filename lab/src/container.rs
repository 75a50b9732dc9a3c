//! A container: a process tree with namespaces of mounts and processes of its own, and those of its pod. `lab container` waits outside for
//! what `lab container-init` becomes inside. They speak over standard input, a socket: [`STARTED`] or [`FAILED`] and why come out of it, [`Word`]s go in,
//! and its end is the end of the container.

pub(crate) mod init;
pub(crate) mod join;
pub(crate) mod sandbox;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;

use anyhow::Context as _;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, setgid, setgroups, setuid};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use serde::{Deserialize, Serialize};

use crate::enter::{self, NAMESPACES};
use crate::keeper::SELF;
use crate::process::exit_code;

/// All that a container is made of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The process that holds the pod's namespaces.
    pub(crate) sandbox: i32,
    pub(crate) root: Root,
    /// In this order: a later one may lie inside an earlier one.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) credentials: Credentials,
    pub(crate) directory: PathBuf,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// All of its environment.
    pub(crate) environment: Vec<(String, String)>,
}

/// The root folder: what the machine has, with what is the container's own above it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Root {
    /// A folder with `upper`, `work` and `root`.
    pub(crate) folder: PathBuf,
    pub(crate) read_only: bool,
}

/// A file or folder of the machine that is seen in the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    /// In the container; made if it is missing.
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

/// Who the program is, and what it may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credentials {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) groups: Vec<u32>,
    /// Bits of capabilities(7): what root has, and what files can give to others.
    pub(crate) capabilities: u64,
    pub(crate) no_new_privileges: bool,
}

impl Credentials {
    /// Becomes it, for good. Only in a process with one thread.
    fn take(&self) -> anyhow::Result<()> {
        let kept = CapabilitySet::from_bits_retain(self.capabilities);
        for capability in CapabilitySet::all().iter() {
            // one that this machine does not have cannot be given either
            let _unknown = (!kept.contains(capability)).then(|| remove_capability_from_bounding_set(capability));
        }
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups).context("setting groups")?;
        setgid(Gid::from_raw(self.group)).context("setting the group")?;
        setuid(Uid::from_raw(self.user)).context("setting the user")?;
        if self.no_new_privileges {
            nix::sys::prctl::set_no_new_privs().context("giving up new privileges")?;
        }
        Ok(())
    }
}

/// What is said when the program runs, with the process of the container's first one as the lab numbers it.
pub(crate) const STARTED: &str = "started";

/// What is said, with the reason, when it could not be started.
pub(crate) const FAILED: &str = "failed";

/// What a container is told, a byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Terminate,
    Kill,
}

impl Word {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }
}

fn read(spec: &Path) -> anyhow::Result<Spec> {
    let text = std::fs::read(spec).with_context(|| format!("reading {}", spec.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Runs a container until its end.
pub(crate) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let spec = read(file)?;
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let obedient = obey(socket.try_clone()?);
    let shared: Vec<_> = NAMESPACES.into_iter().filter(|(name, _)| sandbox::SHARED.contains(name)).collect();
    enter::join(spec.sandbox, &shared).context("the pod's namespaces")?;
    unshare(CloneFlags::CLONE_NEWPID).context("making a namespace of processes")?;
    // its other end is closed by the start of the program, or tells why there is none
    let (mut told, tells) = std::io::pipe()?;
    let mut child = Command::new(SELF).arg("container-init").arg(file).stdin(tells).spawn()?;
    let mut failure = String::new();
    told.read_to_string(&mut failure)?;
    if failure.is_empty() {
        writeln!(socket, "{STARTED} {}", child.id())?;
    } else {
        writeln!(socket, "{FAILED} {}", failure.trim().replace('\n', " "))?;
    }
    obedient.send(child.id().try_into()?)?;
    Ok(exit_code(child.wait()?).into())
}

/// Has a thread tell a process, which is to be named, what this one is told. It has to be called while threads can still be made: before children
/// get another namespace of processes.
fn obey(socket: UnixStream) -> mpsc::Sender<i32> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok(pid) = told.recv() else { return };
        let mut words = BufReader::new(socket);
        loop {
            let word = words.fill_buf().ok().and_then(|buffer| buffer.first().copied());
            words.consume(1);
            let signal = if word == Some(Word::Terminate.byte()) { Signal::SIGTERM } else { Signal::SIGKILL };
            let _ended = kill(Pid::from_raw(pid), signal);
            if word.is_none() {
                return;
            }
        }
    });
    tell
}
