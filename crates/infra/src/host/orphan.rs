//! The start of an Envoy that has no parent among those that end with Chancery: an Envoy that can hand its sockets over asks the kernel for SIGTERM when its parent ends.
//!
//! A first process starts a second one, prints its number and ends. The second waits until it has another parent (init, or what reaps in its place), and becomes Envoy.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The file of the program that runs, also when an upgrade has put another at its path.
pub(crate) const OWN: &str = "/proc/self/exe";

/// The hidden verb of the binary that calls this, and its steps.
pub const VERB: &str = "orphan";
/// Starts the second process.
pub const FIRST: &str = "first";
/// Becomes the program.
pub const SECOND: &str = "second";

/// The first process ends right after its start of the second: it is looked at every millisecond, for 10 s at most.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 10_000;

/// Starts a program as an orphan and prints its number. Standard input is where its output goes.
///
/// # Errors
/// A process that cannot be started.
pub fn start(program: &OsStr, args: &[OsString]) -> std::io::Result<()> {
    let output = std::io::stdin().as_fd().try_clone_to_owned()?;
    let child = Command::new(OWN)
        .args([VERB, SECOND, &std::process::id().to_string()])
        .arg(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::from(output))
        .process_group(0)
        .spawn()?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", child.id())?;
    out.flush()
}

/// Becomes the program when the process `parent` is the parent no more. Returns only if that fails.
pub fn become_program(parent: u32, program: &OsStr, args: &[OsString]) -> std::io::Error {
    let has_parent = || std::os::unix::process::parent_id() == parent;
    for _ in 0..LOOKS {
        if !has_parent() {
            return Command::new(program).args(args).exec();
        }
        std::thread::sleep(LOOK);
    }
    std::io::ErrorKind::TimedOut.into()
}
