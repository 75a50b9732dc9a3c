//! The processes that keep the namespaces of the lab. `keep` is the one to end: the first process in its process namespace dies with
//! it, and with that one the system ends everything in there; nobody then holds the network and the mounts, and they are gone too.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use anyhow::{Context as _, bail, ensure};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{Pid, setsid};

use crate::place::Place;
use crate::process::Process;

/// This program, even if its file was replaced meanwhile.
pub(crate) const SELF: &str = "/proc/self/exe";

/// Makes the namespaces and waits for the first process in them. Until whoever started it says a word on standard input, the lab ends with
/// that one, whatever ended it.
pub(crate) fn keep(place: &Place) -> anyhow::Result<ExitCode> {
    setsid().context("leaving the terminal")?;
    let abandoned = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&abandoned);
    // a process whose children will be in another namespace of processes can have no more threads
    let (tell_first, first) = mpsc::channel::<Process>();
    std::thread::spawn(move || {
        let Ok(first) = first.recv() else { return };
        if !std::io::stdin().read(&mut [0]).is_ok_and(|length| length > 0) {
            told.store(true, Ordering::Release);
            first.kill();
        }
    });
    let apart = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC;
    unshare(apart | CloneFlags::CLONE_NEWPID).context("making namespaces")?;
    let mut init = Command::new(SELF)
        .args(["--state".as_ref(), place.state().as_os_str(), "init".as_ref()])
        .stdin(Stdio::piped())
        .spawn()
        .context("starting the first process")?;
    let first = Process::find(init.id().try_into()?).context("the first process ended at once")?;
    let own = Process::find(std::process::id().try_into()?).context("no process of its own")?;
    std::fs::write(place.file(PROCESSES), format!("{}\n{}\n", own.to_words(), first.to_words()))?;
    tell_first.send(first)?;
    // `wait` would close the standard input of the first process, by which it sees that this one has ended
    let _held = init.stdin.take();
    let status = init.wait()?;
    if abandoned.load(Ordering::Acquire) {
        std::fs::remove_dir_all(place.state()).context("cleaning up")?;
    }
    bail!("the first process of the lab ended: {status}")
}

/// What the keeper writes: itself and the first process inside, as seen from outside.
pub(crate) const PROCESSES: &str = "processes";

/// The first process: starts the one that does the work, and takes the ends of all that were left behind.
pub(crate) fn init(place: &Place) -> anyhow::Result<ExitCode> {
    set_pdeathsig(Signal::SIGKILL).context("being bound to the keeper")?;
    // the keeper may have ended just before that
    let stdin = std::io::stdin();
    let mut input = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut input, PollTimeout::ZERO)?;
    let gone = input.iter().any(|input| input.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)));
    ensure!(!gone, "the keeper has ended");
    let none: Option<&str> = None;
    // nothing that is mounted here is seen outside, nor by the keeper
    unshare(CloneFlags::CLONE_NEWNS).context("making a namespace of mounts")?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("parting the mounts")?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).context("mounting /proc")?;
    let work = Command::new(SELF)
        .args(["--state".as_ref(), place.state().as_os_str(), "run".as_ref()])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .context("starting the work")?;
    let work = Pid::from_raw(work.id().try_into()?);
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid == work => bail!("the work ended with {code}"),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == work => bail!("the work was ended by {signal}"),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for processes"),
        }
    }
}
