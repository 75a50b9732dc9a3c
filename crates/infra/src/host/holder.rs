//! The process that has a state folder: found by its lock, asked to end, and waited for.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Signal;

use super::process::Process;
use super::{Error, StateLock};

/// The kernel's list of locks (proc(5)): `1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF`.
const LOCKS: &str = "/proc/locks";

/// A running Chancery.
#[derive(Debug)]
pub struct Holder {
    /// Its process number.
    pub pid: u32,
    process: Process,
}

impl Holder {
    /// Takes the lock of a state folder, or finds the process that has it. The number in the file alone is not enough: it may be that of a
    /// process in another container, or an old one. The kernel has to name the same.
    ///
    /// # Errors
    /// [`Error::Locked`] if the process cannot be found; others as for [`StateLock::acquire`].
    pub fn find(state: &Path) -> Result<Result<StateLock, Self>, Error> {
        let (path, pid) = match StateLock::acquire(state) {
            Ok(lock) => return Ok(Ok(lock)),
            Err(Error::Locked { path, pid: Some(pid) }) => (path, pid),
            Err(error) => return Err(error),
        };
        let process = Process::watch(pid, None)?;
        // After the descriptor is there: the number cannot become another's any more.
        if !holds(pid, &path.join("lock")) {
            return Err(Error::Locked { path, pid: None });
        }
        Ok(Err(Self { pid, process }))
    }

    /// Asks it to end and to leave its Envoys running.
    pub fn ask_to_leave(&self) {
        self.process.signal(Signal::USR1);
    }

    /// Waits for its end.
    pub async fn ended(&mut self) {
        let _how = self.process.ended().await;
    }
}

/// Returns true if the kernel says that a process has this file locked. Devices are not compared: of some file systems stat(2) says another.
fn holds(pid: u32, lock: &Path) -> bool {
    let Ok(inode) = std::fs::metadata(lock).map(|file| file.ino()) else { return false };
    let locks = std::fs::read_to_string(LOCKS).unwrap_or_default();
    locks.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next();
        let (holder, file) = (words.nth(2), words.next());
        let number = file.and_then(|file| file.rsplit_once(':')?.1.parse().ok());
        kind == Some("FLOCK") && holder.and_then(|word| word.parse().ok()) == Some(pid) && number == Some(inode)
    })
}
