//! [`Background`]: a thread that reads costly files, one after the other, while the follower goes on with all others.
//!
//! A file is costly if it is large or turned out to take long. Until it is read, what it gave before stays in effect. A file that changes again, or goes,
//! meanwhile is forgotten here: the latest version is the one that counts. No file overtakes for ever: see [`Line`].

use std::collections::BTreeSet;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use line::Line;
use rustix::process::{Pid, setpriority_process};

use crate::file::access::Access;
use crate::file::catalog::Catalog;
use crate::file::document::{Document, Known as _};
use crate::file::read::{Outcome, Pace, QUICK_TIME, cpu_time, cpu_time_of, read_one};
use crate::file::report;
use crate::file::spot::Spot;

mod guards;
mod line;

pub(crate) use guards::Waits;

/// Niceness of the thread (nice(2)): what is served comes first. While edits of other folders wait for a file it is read without: that is bounded.
const NICENESS: i32 = 10;

/// Largest number of files that are known to be costly. With one more all are forgotten, and found out again.
const MAX_KNOWN: usize = 1 << 12;

/// See the module. The thread starts with the first file.
#[derive(Debug)]
pub(crate) struct Background {
    /// Files that were costly when they were read last.
    costly: BTreeSet<Arc<Spot>>,
    /// Files that are to be read.
    line: Line,
    running: Option<Running>,
    worker: Option<Worker>,
    done: Receiver<Done>,
    results: SyncSender<Done>,
    /// Has a byte for each file that was read.
    wakes: PipeReader,
    wake: PipeWriter,
}

/// The file that is being read.
#[derive(Debug)]
pub(crate) struct Running {
    spot: Arc<Spot>,
    /// Its number in the line.
    pub(crate) number: u64,
    /// Others wait for it.
    pub(crate) guards: bool,
    cancelled: Arc<AtomicBool>,
    began: Instant,
    /// Time of the thread that is charged so far.
    charged: Duration,
}

#[derive(Debug)]
struct Worker {
    /// None once the thread is to end.
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Its number in the kernel, once it runs.
    id: Arc<AtomicI32>,
    /// It has [`NICENESS`], for ever: lowering it needs a right.
    is_nice: bool,
}

struct Job {
    spot: Arc<Spot>,
    path: PathBuf,
    access: Access,
    /// The documents of the file as it was.
    old: Vec<u128>,
    cancelled: Arc<AtomicBool>,
    is_urgent: bool,
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) spot: Arc<Spot>,
    pub(crate) outcome: Outcome,
    /// The documents that it was compared with.
    old: Vec<u128>,
    /// It took no longer than other files may.
    is_cheap: bool,
}

impl Done {
    /// Returns true if it was compared with these.
    pub(crate) fn is_of(&self, documents: &[Document]) -> bool {
        self.old.len() == documents.len()
            && self.old.iter().zip(documents).all(|(old, document)| *old == document.hash())
    }
}

impl Background {
    /// Returns one with nothing to read.
    pub(crate) fn new() -> io::Result<Self> {
        let (results, done) = sync_channel(1);
        let (wakes, wake) = io::pipe()?;
        let (costly, line) = (BTreeSet::new(), Line::default());
        Ok(Self { costly, line, running: None, worker: None, done, results, wakes, wake })
    }

    /// The descriptor that can be read when a file was.
    pub(crate) fn wakes(&self) -> &PipeReader {
        &self.wakes
    }

    /// Returns true if a file was costly when it was read last.
    pub(crate) fn is_costly(&self, spot: &Spot) -> bool {
        self.costly.contains(spot)
    }

    /// Puts a file in line, which was found to be costly or may be, and which may hold what `guards`. What is being read of an earlier version of it is
    /// forgotten, unless that guards: others wait for it, and would wait for ever if its author wrote it all the time. Where it waits still, the turn stays.
    pub(crate) fn add(&mut self, spot: Arc<Spot>, path: PathBuf, (is_costly, guards): (bool, bool)) {
        if is_costly {
            if self.costly.len() >= MAX_KNOWN {
                self.costly.clear();
            }
            self.costly.insert(spot.clone());
        }
        if self.running.as_ref().is_some_and(|running| !running.guards) {
            self.cancel_running(|running| *running == *spot);
        }
        self.line.add(spot, path, (is_costly, guards));
    }

    /// Puts a file back in line, with its number, until those before it are read that may hold what guards.
    pub(crate) fn park(&mut self, spot: Arc<Spot>, path: PathBuf, (number, guards): (u64, bool)) {
        self.line.park(spot, path, (number, guards));
    }

    /// The number of the last file that came.
    pub(crate) fn last_number(&self) -> u64 {
        self.line.last_number()
    }

    /// Returns the first file up to this number that may hold what guards, has not been read yet, and is waited for by another file.
    pub(crate) fn first_guard(&self, spot: &Spot, until: u64) -> Option<&Arc<Spot>> {
        self.line.guards.first(spot, until)
    }

    /// Takes the files for which nothing is waited for any more. Counts what was read so far: a folder is waited for within a bound.
    pub(crate) fn release(&mut self, waits: &mut Waits) -> Vec<Arc<Spot>> {
        self.charge();
        waits.release(&self.line.guards)
    }

    /// Counts the time that reading took since the last call.
    fn charge(&mut self) {
        let Some(running) = &mut self.running else { return };
        let id = self.worker.as_ref().map_or(0, |worker| worker.id.load(Ordering::Relaxed));
        // Where the kernel has no such clock the time of day is counted: a bound there is in any case.
        let time = cpu_time_of(id).unwrap_or_else(|| running.began.elapsed());
        let took = time.saturating_sub(running.charged);
        running.charged = time.max(running.charged);
        if self.line.guards.charge(&running.spot, took) {
            if let (Some(worker), Some(id)) = (&mut self.worker, Pid::from_raw(id)) {
                worker.is_nice = true;
                let _nice = setpriority_process(Some(id), NICENESS);
            }
            tracing::warn!(
                file = %running.spot.display,
                "costly files of its folder hold back edits of other folders for too long: these count before policies in them do; split the files"
            );
        }
    }

    /// Begins with the next file, if none is being read.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn begin(&mut self, catalog: &Catalog, access: &Access) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let Some((spot, line::Waiting { path, number, guards, .. })) = self.line.next() else { return Ok(()) };
        let is_urgent = guards && !self.line.guards.is_late(&spot);
        if self.worker.as_ref().is_none_or(|worker| worker.is_nice && is_urgent) {
            // It has nothing to do, so it ends at once.
            self.worker.take().map_or(Ok(()), Worker::end)?;
            self.worker = Some(Worker::start(self.results.clone(), self.wake.try_clone()?)?);
        }
        if let Some(worker) = &mut self.worker {
            worker.is_nice |= !is_urgent;
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        let id = self.worker.as_ref().map_or(0, |worker| worker.id.load(Ordering::Relaxed));
        let charged = cpu_time_of(id).unwrap_or_default();
        let (began, running) = (Instant::now(), cancelled.clone());
        self.running = Some(Running { spot: spot.clone(), number, guards, cancelled: running, began, charged });
        let old = catalog.documents(&spot).iter().map(Document::hash).collect();
        let job = Job { spot, path, access: access.clone(), old, cancelled, is_urgent };
        // It takes jobs until this is dropped.
        let _sent = self.worker.as_ref().and_then(|worker| worker.jobs.as_ref()).map(|jobs| jobs.send(job));
        Ok(())
    }

    /// Forgets what is to be read of a file.
    pub(crate) fn cancel(&mut self, spot: &Spot) {
        self.line.remove(spot);
        self.cancel_running(|running| *running == *spot);
    }

    /// Forgets what is to be read at and below a place, but of files that are there: these keep their turns.
    pub(crate) fn cancel_below(&mut self, top: &Arc<Spot>, is_there: impl Fn(&Spot) -> bool) {
        self.line.remove_below(top, &is_there);
        self.cancel_running(|running| running.is_under(top) && !is_there(running));
    }

    /// The file that was read, unless it was cancelled.
    pub(crate) fn take_done(&mut self) -> Option<(Done, Running)> {
        let done = self.done.try_recv().ok()?;
        // Its byte is written behind it.
        let _woken = self.wakes.read_exact(&mut [0]);
        self.charge();
        let running = self.running.take()?;
        self.line.finish(running.number, &running.spot);
        if running.cancelled.load(Ordering::Relaxed) {
            return None;
        }
        if done.is_cheap {
            self.costly.remove(&done.spot);
        }
        Some((done, running))
    }

    fn cancel_running(&mut self, is_meant: impl Fn(&Spot) -> bool) {
        if let Some(running) = self.running.as_ref().filter(|running| is_meant(&running.spot)) {
            running.cancelled.store(true, Ordering::Relaxed);
            self.line.finish(running.number, &running.spot);
        }
    }
}

impl Worker {
    fn start(results: SyncSender<Done>, mut wake: PipeWriter) -> io::Result<Self> {
        let (jobs, queue) = sync_channel::<Job>(1);
        let id = Arc::new(AtomicI32::new(0));
        let own = id.clone();
        let work = move || {
            own.store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
            for job in queue {
                let Job { spot, path, access, old, cancelled, is_urgent } = job;
                if !is_urgent {
                    // Where that is refused it is as nice as others.
                    let _nice = setpriority_process(None, NICENESS);
                }
                let began = cpu_time();
                let read = || read_one(&spot.display, &path, &old, (&access, Pace::Until(&cancelled)));
                // A reader that panics costs this file only: it works on a text of its own, so it leaves nothing behind.
                let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
                    let text = "cannot be read because of a bug in Chancery: please report it, with the file";
                    Outcome::Trouble(report::whole(&spot.display, text))
                });
                let is_cheap = cpu_time().saturating_sub(began) < QUICK_TIME;
                let done = Done { spot, outcome, old, is_cheap };
                if results.send(done).is_err() || wake.write_all(&[0]).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("costly files".to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), id, is_nice: false })
    }

    /// Waits until the thread ends, after the document that it is at.
    ///
    /// # Errors
    /// It broke.
    fn end(mut self) -> io::Result<()> {
        self.jobs = None;
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        ended.map_err(|_| io::Error::other("the thread that reads costly files broke"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.cancel_running(|_| true);
        if let Some(Err(error)) = self.worker.take().map(Worker::end) {
            tracing::error!(%error, "reading costly files ended");
        }
    }
}

#[cfg(test)]
mod tests;
