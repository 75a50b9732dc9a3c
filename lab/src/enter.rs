//! Commands inside the lab, and inside a container of it.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use nix::sched::{CloneFlags, setns};

use crate::keeper::SELF;
use crate::lifecycle::Running;
use crate::place::Place;
use crate::process::exit_code;

/// Namespaces of a process, by their names in `/proc/PID/ns`. The mounts come last: with them the other names are gone.
pub(crate) const NAMESPACES: [(&str, CloneFlags); 5] = [
    ("net", CloneFlags::CLONE_NEWNET),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("pid", CloneFlags::CLONE_NEWPID),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// Enters namespaces of a process; that of processes counts for children only.
pub(crate) fn join(pid: i32, wanted: &[(&str, CloneFlags)]) -> anyhow::Result<()> {
    let open = |(name, flag): &(&str, CloneFlags)| Ok((File::open(format!("/proc/{pid}/ns/{name}"))?, *flag));
    let files: Vec<_> = wanted.iter().map(open).collect::<std::io::Result<_>>().context("looking at its namespaces")?;
    for (file, flag) in files {
        setns(file.as_fd(), flag).with_context(|| format!("entering a namespace ({flag:?})"))?;
    }
    Ok(())
}

/// Enters the lab, with the working folder.
pub(crate) fn all(place: &Place) -> anyhow::Result<()> {
    let running = Running::expect(place)?;
    let here = std::env::current_dir()?;
    join(running.init.pid.as_raw(), &NAMESPACES)?;
    std::env::set_current_dir(here).context("the working folder")
}

/// A command in the lab that this process has entered, with its programs and KUBECONFIG; it ends when this process does.
pub(crate) fn command(place: &Place, program: PathBuf) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(place.programs()).chain(std::env::split_paths(&path));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    // a folder whose name cannot be part of PATH leaves it as it is
    command.envs(std::env::join_paths(paths).map(|paths| ("PATH", paths)));
    command.env("KUBECONFIG", place.inside("kubeconfig")).env("LAB_STATE", place.state());
    command
}

/// Runs a command inside.
pub(crate) fn exec(place: &Place, words: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, arguments) = words.split_first().context("no command")?;
    all(place)?;
    let status = command(place, program.into()).args(arguments).status().context("starting setpriv, of util-linux")?;
    Ok(exit_code(status).into())
}

/// A container of a pod.
pub(crate) struct Wanted {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// The first one unless given.
    pub(crate) container: Option<String>,
}

/// Runs a command in a container.
pub(crate) fn container(place: &Place, wanted: &Wanted, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let running = Running::expect(place)?;
    join(running.init.pid.as_raw(), &NAMESPACES)?;
    let pod = place.inside(&format!("names/{}_{}", wanted.namespace, wanted.pod));
    let mut containers: Vec<_> = std::fs::read_dir(pod.join("running"))
        .with_context(|| format!("no pod {} runs in namespace {}", wanted.pod, wanted.namespace))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    containers.sort();
    let name = wanted.container.as_ref().or(containers.first()).context("no container of this pod runs")?;
    let joint = std::fs::read_to_string(pod.join("running").join(name)).ok();
    let Some((pid, spec)) = joint.as_deref().and_then(|joint| joint.split_once(' ')) else {
        bail!("no container {name} runs: {}", containers.join(", "));
    };
    let shell = [OsString::from("/bin/sh")];
    // in the lab's own namespace of processes, where numbers are what the lab has written
    let status = Command::new(SELF)
        .args(["join", "--interactive", spec, pid, "--"])
        .args(if command.is_empty() { &shell } else { command })
        .status()?;
    Ok(exit_code(status).into())
}
