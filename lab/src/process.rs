//! Processes as they are seen from another one: by number and start, for numbers are used again.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// In ticks since the machine started.
    started: u64,
}

impl Process {
    /// The one that has this number now, unless it has ended and only nobody has asked for its exit code.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // the name in parentheses may hold anything; state is the first field behind it, the start the 20th (proc_pid_stat(5))
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let started = fields.nth(18)?.parse().ok()?;
        (!ended).then_some(Self { pid: Pid::from_raw(pid), started })
    }

    pub(crate) fn lives(self) -> bool {
        Self::find(self.pid.as_raw()) == Some(self)
    }

    /// Ends it at once, if it is still there.
    pub(crate) fn kill(self) {
        if self.lives() {
            let _ended = kill(self.pid, Signal::SIGKILL);
        }
    }

    /// As two words of text, and back.
    pub(crate) fn to_words(self) -> String {
        format!("{} {}", self.pid, self.started)
    }

    pub(crate) fn from_words(text: &str) -> Option<Self> {
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Self { pid: Pid::from_raw(pid.parse().ok()?), started: started.parse().ok()? })
    }
}

/// The exit code as shells give it: 128 and the signal for a process that a signal ended.
pub(crate) fn exit_code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
