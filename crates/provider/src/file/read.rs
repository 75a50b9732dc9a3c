//! Reads and parses files, on all cores where there are many.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use api::Problem;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};

use crate::file::access::{Access, Denied, TooLarge};
use crate::file::catalog::Catalog;
use crate::file::document::{self, Known, Parsed};
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
    /// Reading it takes longer than others are to wait (`is_proven`), or it was not begun because too much went into others before.
    Costly { is_proven: bool },
}

/// A bound on the cost of reading.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace<'a> {
    /// As much as it takes: nothing is complete without it.
    Whole,
    /// Little: other files wait. What costly files have taken meanwhile counts for all of them.
    Quick(&'a Spent),
    /// As much as it takes, until this is true: the file is cancelled.
    Until(&'a AtomicBool),
}

/// The cost of the files of one turn so far.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// CPU time in microseconds that went into files that turned out to be costly.
    in_vain: AtomicU64,
    /// Bytes of all files.
    bytes: AtomicU64,
}

/// Larger files are costly: reading and comparing this many bytes takes some 10 ms. So are those beyond twice as many in one turn, unless they are small.
const QUICK_BYTES: u64 = 8 << 20;
const SMALL: u64 = 256 << 10;

/// The CPU time that parsing one file may take while others wait: so much, and some for each byte (objects as users write them take 10 ns), at most 20 ms.
pub(crate) const QUICK_TIME: Duration = Duration::from_millis(5);
const QUICK_TIME_A_BYTE: Duration = Duration::from_nanos(50);
const MAX_QUICK_TIME: Duration = Duration::from_millis(20);

/// So much may go into files that turn out to be costly before all others of one turn count as costly: 20 ms, and 50 ms are what an edit may wait.
const MAX_SPENT: u64 = 20_000;

impl Pace<'_> {
    /// Returns true if a file of this many bytes is to be begun.
    fn begins(self, bytes: u64) -> bool {
        match self {
            Self::Whole => true,
            Self::Quick(_) if bytes > QUICK_BYTES => false,
            Self::Quick(spent) => {
                let all = spent.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
                let is_small = bytes <= SMALL || all <= 2 * QUICK_BYTES;
                is_small && spent.in_vain.load(Ordering::Relaxed) <= MAX_SPENT
            }
            Self::Until(cancelled) => !cancelled.load(Ordering::Relaxed),
        }
    }

    /// Returns true if a file that was begun at this CPU time is to be read on.
    fn goes_on(self, began: Duration, bytes: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Quick(spent) => {
                let took = cpu_time().saturating_sub(began);
                let most = QUICK_TIME + QUICK_TIME_A_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
                let is_quick = took <= most.min(MAX_QUICK_TIME);
                if !is_quick {
                    spent.in_vain.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
                is_quick
            }
            Self::Until(cancelled) => !cancelled.load(Ordering::Relaxed),
        }
    }
}

/// Returns the CPU time of this thread: unlike the time of day it does not go on while others have the core.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Returns the CPU time of a thread of this process. None if it does not run yet, or the kernel has no clock for it.
pub(crate) fn cpu_time_of(thread: i32) -> Option<Duration> {
    // How the kernel numbers these clocks (clock_getres(2)): the thread, then 4 for a thread and 2 for what it was scheduled.
    let clock = (thread > 0).then(|| ClockId::from_raw(!thread << 3 | 6))?;
    clock_gettime(clock).ok().map(Duration::from)
}

/// Reads files; the outcomes are in the order of the files, whatever thread read them.
pub(crate) fn read_all(
    files: &[(Arc<Spot>, PathBuf)],
    catalog: &Catalog,
    (access, pace): (&Access, Pace<'_>),
) -> Vec<Outcome> {
    let one =
        |(spot, path): &(Arc<Spot>, PathBuf)| read_one(&spot.display, path, catalog.documents(spot), (access, pace));
    let chunks = files.len().div_ceil(FILES_AT_A_TIME);
    // Counting cores reads files of the kernel, 0.1 ms in all: nothing for the one file of an edit.
    let threads = if chunks > 1 { thread::available_parallelism().map_or(1, usize::from).min(chunks) } else { 1 };
    if threads == 1 {
        return files.iter().map(one).collect();
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
            done.push((from, chunk.iter().map(one).collect::<Vec<_>>()));
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

/// Reads one file, given its documents as they were.
pub(crate) fn read_one<K: Known>(
    file: &Arc<str>,
    path: &Path,
    old: &[K],
    (access, pace): (&Access, Pace<'_>),
) -> Outcome {
    let read = access.file(path).and_then(|(mut opened, about)| {
        let bytes = about.len();
        Ok(if pace.begins(bytes) { Ok(bounded(&mut opened, bytes)?) } else { Err(bytes > QUICK_BYTES) })
    });
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(is_proven)) => return Outcome::Costly { is_proven },
        Err(Denied::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Outcome::Gone,
        Err(Denied::Io(error)) => {
            let (is_ours, wants) = (error.kind() == io::ErrorKind::Other, wants(&error));
            let problem = report::denied(file, &Denied::Io(error));
            return if is_ours { Outcome::Trouble(problem) } else { Outcome::Unreadable { problem, wants } };
        }
        Err(denied) => return Outcome::Trouble(report::denied(file, &denied)),
    };
    match str::from_utf8(&bytes) {
        Ok(text) => {
            let began = cpu_time();
            let parsed = document::parse(file, text, old, &|| pace.goes_on(began, bytes.len()));
            parsed.map_or(Outcome::Costly { is_proven: true }, Outcome::Documents)
        }
        Err(error) => Outcome::Trouble(not_utf8(file, &bytes, error)),
    }
}

/// Whether an error says nothing of what was to be read, but that this process, or the machine, wants descriptors or memory.
pub(crate) fn wants(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(code, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM))
}

/// The content of a file; never waits for a pipe or device.
pub(crate) fn read_bytes(path: &Path, access: &Access) -> Result<Vec<u8>, Denied> {
    let (mut file, about) = access.file(path)?;
    Ok(bounded(&mut file, about.len())?)
}

/// Reads to the end, or to the bound.
pub(crate) fn bounded(file: &mut File, expected: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(expected.min(MAX_FILE)).unwrap_or(0) + 1);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(TooLarge(MAX_FILE >> 20)));
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
