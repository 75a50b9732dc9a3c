//! The lock of a state folder: one Chancery works in it at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::Error;

/// Held as long as this value lives. The kernel lets go of it when the process ends in whatever way, so that a lock is
/// never stale; the file stays, with the number of its last holder.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock of the state folder `dir`, which is made (mode 0700) if it is not there.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process (or another value in this one) holds it; [`Error::File`] if the folder or the
    /// file cannot be used.
    pub fn acquire(dir: &Path) -> Result<Self, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file("make", dir))?;
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
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
        Ok(Self { _file: file })
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
