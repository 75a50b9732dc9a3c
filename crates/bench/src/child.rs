//! Processes of this very binary, that do a part of a benchmark: told what to do by lines on their standard input, asked by CPU time and
//! memory from outside.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use crate::process;

/// A running process, which ends with this.
pub(crate) struct Child {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Child {
    /// Starts one with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::spawn(Self::command(arguments)?)
    }

    /// The command that starts one with these arguments.
    pub(crate) fn command(arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        Ok(command)
    }

    /// Starts it.
    pub(crate) fn spawn(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().context("a child has a standard output")?);
        Ok(Self { child, answers })
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("a child has a standard input")?;
        Ok(input.write_all(format!("{line}\n").as_bytes())?)
    }

    /// Sends a line and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> anyhow::Result<String> {
        self.tell(line)?;
        self.answer()
    }

    /// Waits for a line.
    pub(crate) fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        anyhow::ensure!(line.ends_with('\n'), "a child of the benchmark has ended");
        line.pop();
        Ok(line)
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(process::cpu_of(self.child.id())?.values().sum())
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        process::memory_of(self.child.id(), "VmRSS:")
    }

    /// The most that was resident so far, in bytes.
    pub(crate) fn peak(&self) -> anyhow::Result<u64> {
        process::memory_of(self.child.id(), "VmHWM:")
    }

    /// Ends it at once (SIGKILL).
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// As many open files as the system lets this process have: a crowd has a socket for each client.
pub(crate) fn raise_file_limit() -> anyhow::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}
