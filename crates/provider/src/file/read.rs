//! Reads and parses files, on all cores where there are many.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use api::Problem;
use nix::errno::Errno;

use crate::file::catalog::Catalog;
use crate::file::document::{self, Parsed};
use crate::file::report;
use crate::file::spot::Spot;

/// A file may have so many bytes: 50,000 routes with Services and slices in one file are about 80 MB.
pub(crate) const MAX_FILE: u64 = 256 << 20;

/// Files that a thread takes at a time: few enough that all threads end together.
const FILES_AT_A_TIME: usize = 8;

/// What became of reading a file.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// There is no such file.
    Gone,
    /// It cannot be read, which may pass; soon, if it is for want of descriptors or memory.
    Unreadable { problem: Problem, wants: bool },
    /// It is there and is no text of ours, as a whole.
    Trouble(Problem),
    /// Its documents, none if it is empty.
    Documents(Vec<Parsed>),
}

/// Reads files; the outcomes are in the order of the files, whatever thread read them.
pub(crate) fn read_all(files: &[(Arc<Spot>, PathBuf)], catalog: &Catalog) -> Vec<Outcome> {
    let chunks = files.len().div_ceil(FILES_AT_A_TIME);
    // Counting cores reads files of the kernel, 0.1 ms in all: nothing for the one file of an edit.
    let threads = if chunks > 1 { thread::available_parallelism().map_or(1, usize::from).min(chunks) } else { 1 };
    if threads == 1 {
        return files.iter().map(|(spot, path)| read_one(spot, path, catalog)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let from = next.fetch_add(FILES_AT_A_TIME, Ordering::Relaxed);
            let Some(chunk) =
                files.get(from..files.len().min(from + FILES_AT_A_TIME)).filter(|chunk| !chunk.is_empty())
            else {
                return done;
            };
            done.push((from, chunk.iter().map(|(spot, path)| read_one(spot, path, catalog)).collect::<Vec<_>>()));
        }
    };
    let mut done: Vec<(usize, Vec<Outcome>)> = thread::scope(|scope| {
        // Where no more threads are to be had, fewer do it.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let own = work();
        let others = others.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        others.flatten().chain(own).collect()
    });
    done.sort_by_key(|(from, _)| *from);
    done.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
}

fn read_one(spot: &Spot, path: &Path, catalog: &Catalog) -> Outcome {
    let bytes = match read_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Outcome::Gone,
        Err(error) => {
            let problem = report::whole(&spot.display, format_args!("cannot be read: {error}"));
            let is_ours = error.kind() == io::ErrorKind::Other;
            return if is_ours {
                Outcome::Trouble(problem)
            } else {
                Outcome::Unreadable { problem, wants: wants(&error) }
            };
        }
    };
    match str::from_utf8(&bytes) {
        Ok(text) => Outcome::Documents(document::parse(&spot.display, text, catalog.documents(spot))),
        Err(error) => Outcome::Trouble(not_utf8(&spot.display, &bytes, error)),
    }
}

/// Whether an error says nothing of what was to be read, but that this process, or the machine, wants descriptors or memory.
pub(crate) fn wants(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM))
}

/// The content of a file; never waits for a pipe or device.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !about.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    bounded(&mut file, about.len())
}

/// Reads to the end, or to the bound.
pub(crate) fn bounded(file: &mut File, expected: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(expected.min(MAX_FILE)).unwrap_or(0) + 1);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("larger than {} MiB; split it into several files", MAX_FILE >> 20)));
    }
    Ok(bytes)
}

/// A problem at the first byte that is not UTF-8.
pub(crate) fn not_utf8(file: &Arc<str>, bytes: &[u8], error: std::str::Utf8Error) -> Problem {
    let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let line_start = good.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = String::from_utf8_lossy(good.get(line_start..).unwrap_or_default()).chars().count() + 1;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    report::at(file, number(line), number(column), "not UTF-8 from here on; save the file as UTF-8")
}
