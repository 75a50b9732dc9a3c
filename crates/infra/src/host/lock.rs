//! The lock of a state folder: one Chancery works in it at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::Error;
use super::process::start_time;

/// How long a lock is waited for whose holder is gone.
const INHERITED: Duration = Duration::from_secs(1);

/// Held as long as this value lives. The kernel lets go of it when the process ends in whatever way, so that a lock is
/// never stale; the file stays, with the number of its last holder.
#[derive(Debug)]
pub struct StateLock {
    dir: PathBuf,
    file: File,
}

impl StateLock {
    /// Takes the lock of the state folder `dir`, which is made (mode 0700) if it is not there. A process that was killed while it started
    /// another may leave the lock to that one for some milliseconds: that is waited for.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process (or another value in this one) holds it; [`Error::File`] if the folder or the
    /// file cannot be used.
    pub fn acquire(dir: &Path) -> Result<Self, Error> {
        let until = Instant::now() + INHERITED;
        loop {
            match Self::try_acquire(dir) {
                Err(Error::Locked { pid: Some(pid), .. }) if start_time(pid).is_none() && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
    }

    fn try_acquire(dir: &Path) -> Result<Self, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file("make", dir))?;
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // what a link leads to is somebody's, and is not to be overwritten
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(Error::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked { path: dir.to_owned(), pid: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", &path)(error)),
        }
        file.set_len(0)
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
            .map_err(Error::file("write", &path))?;
        Ok(Self { dir: dir.to_owned(), file })
    }

    /// Takes the lock again if its file is not in the folder any more, as when somebody deleted the folder: another process would
    /// find nothing there that keeps it out.
    ///
    /// # Errors
    /// As for [`Self::acquire`]; [`Error::Locked`] means that another process was faster, and that this one has to end.
    pub fn renew(&mut self) -> Result<(), Error> {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let path = self.dir.join("lock");
        let ours = self.file.metadata().map(identity).map_err(Error::file("read", &path))?;
        if std::fs::metadata(&path).map(identity).is_ok_and(|there| there == ours) {
            return Ok(());
        }
        *self = Self::try_acquire(&self.dir)?;
        Ok(())
    }
}

/// The process that the file names. It may have none yet: its holder locks first and writes then.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests;
