//! One more command in a container: of a probe, a hook, a person.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use nix::sched::{CloneFlags, unshare};

use super::obey;
use crate::enter::{self, NAMESPACES};
use crate::process::exit_code;

/// Runs it as the container's own user, and gives its exit code.
pub(crate) fn run(spec: &Path, pid: i32, interactive: bool, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let spec = super::read(spec)?;
    let obedient = match interactive {
        true => None,
        false => Some(obey(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))),
    };
    // the root folder is the process's, unless a thread has one of its own
    unshare(CloneFlags::CLONE_FS)?;
    enter::join(pid, &NAMESPACES).context("the container's namespaces")?;
    std::env::set_current_dir(&spec.directory)?;
    spec.credentials.take()?;
    let (program, arguments) = command.split_first().context("no command")?;
    let input = if interactive { Stdio::inherit() } else { Stdio::null() };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(spec.environment)
        .stdin(input)
        .spawn()
        .with_context(|| format!("exec: {}", program.display()))?;
    if let Some(obedient) = obedient {
        // by the number that this process sees: it is not in the container's namespace itself
        obedient.send(child.id().try_into()?)?;
    }
    Ok(exit_code(child.wait()?).into())
}
