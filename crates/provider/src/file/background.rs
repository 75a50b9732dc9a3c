//! [`Background`]: a thread that reads costly files, one after the other, while the follower goes on with all others.
//!
//! A file is costly if it is large or turned out to take long. Until it is read, what it gave before stays in force. A file that changes again, or goes,
//! meanwhile is forgotten here: the latest version is the one that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::file::access::Access;
use crate::file::document::{Document, Known as _};
use crate::file::read::{Outcome, Pace, QUICK_TIME, cpu_time, read_one};
use crate::file::report;
use crate::file::spot::Spot;

/// How nice the thread is (nice(2)): what is served comes first.
const NICENESS: i32 = 10;

/// Files that are known to be costly at most: who writes more of them has the first ones found out anew.
const MAX_KNOWN: usize = 1 << 12;

/// See the module. The thread starts with the first file.
#[derive(Debug)]
pub(crate) struct Background {
    /// Files that were costly when they were read last.
    costly: BTreeSet<Arc<Spot>>,
    /// What is to be read, with the flag that cancels it.
    pending: BTreeMap<Arc<Spot>, (u64, Arc<AtomicBool>)>,
    next: u64,
    worker: Option<Worker>,
    done: Receiver<Done>,
    results: Sender<Done>,
    /// Has a byte for each file that was read.
    wakes: PipeReader,
    wake: PipeWriter,
}

#[derive(Debug)]
struct Worker {
    /// None once the thread is to end.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    number: u64,
    spot: Arc<Spot>,
    path: PathBuf,
    access: Access,
    /// The documents of the file as it was.
    old: Vec<u128>,
    cancelled: Arc<AtomicBool>,
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Done {
    number: u64,
    pub(crate) spot: Arc<Spot>,
    pub(crate) outcome: Outcome,
    /// The documents that it was compared with.
    old: Vec<u128>,
    /// It took no longer than other files may.
    is_cheap: bool,
}

impl Done {
    /// Whether it was compared with these.
    pub(crate) fn is_of(&self, documents: &[Document]) -> bool {
        self.old.len() == documents.len()
            && self.old.iter().zip(documents).all(|(old, document)| *old == document.hash())
    }
}

impl Background {
    /// Nothing to read.
    pub(crate) fn new() -> io::Result<Self> {
        let (results, done) = channel();
        let (wakes, wake) = io::pipe()?;
        Ok(Self {
            costly: BTreeSet::new(),
            pending: BTreeMap::new(),
            next: 0,
            worker: None,
            done,
            results,
            wakes,
            wake,
        })
    }

    /// The descriptor that can be read when a file was.
    pub(crate) fn wakes(&self) -> &PipeReader {
        &self.wakes
    }

    /// Whether a file was costly when it was read last.
    pub(crate) fn is_costly(&self, spot: &Spot) -> bool {
        self.costly.contains(spot)
    }

    /// Reads a file in place of an earlier version of it.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn read(
        &mut self,
        (spot, path): (Arc<Spot>, PathBuf),
        old: &[Document],
        access: &Access,
    ) -> io::Result<()> {
        self.cancel(&spot);
        if self.costly.len() >= MAX_KNOWN {
            self.costly.clear();
        }
        self.costly.insert(spot.clone());
        let (number, cancelled) = (self.next, Arc::new(AtomicBool::new(false)));
        self.next += 1;
        self.pending.insert(spot.clone(), (number, cancelled.clone()));
        let old = old.iter().map(Document::hash).collect();
        let job = Job { number, spot, path, access: access.clone(), old, cancelled };
        if self.worker.is_none() {
            self.worker = Some(Worker::start(self.results.clone(), self.wake.try_clone()?)?);
        }
        // It takes jobs until this is dropped.
        let _sent = self.worker.as_ref().and_then(|worker| worker.jobs.as_ref()).map(|jobs| jobs.send(job));
        Ok(())
    }

    /// Forgets what is to be read of a file.
    pub(crate) fn cancel(&mut self, spot: &Spot) {
        if let Some((_, cancelled)) = self.pending.remove(spot) {
            cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets what is to be read at and below a place.
    pub(crate) fn cancel_below(&mut self, top: &Arc<Spot>) {
        let below = self.pending.range(top.clone()..).map(|(spot, _)| spot).take_while(|spot| spot.is_under(top));
        for spot in below.cloned().collect::<Vec<_>>() {
            self.cancel(&spot);
        }
    }

    /// The files that were read since the last call, but those that were cancelled.
    pub(crate) fn take_done(&mut self) -> Vec<Done> {
        let done: Vec<Done> = self.done.try_iter().collect();
        if !done.is_empty() {
            // One byte for each, written behind it.
            let mut bytes = vec![0; done.len()];
            let _woken = self.wakes.read_exact(&mut bytes);
        }
        let mut counts = Vec::new();
        for one in done {
            let is_current = self.pending.get(&one.spot).is_some_and(|(number, _)| *number == one.number);
            if is_current {
                self.pending.remove(&one.spot);
                if one.is_cheap {
                    self.costly.remove(&one.spot);
                }
                counts.push(one);
            }
        }
        counts
    }
}

impl Worker {
    fn start(results: Sender<Done>, mut wake: PipeWriter) -> io::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let work = move || {
            // Where that is refused it is as nice as others.
            let _nice = rustix::process::setpriority_process(None, NICENESS);
            for job in queue {
                let Job { number, spot, path, access, old, cancelled } = job;
                if cancelled.load(Ordering::Relaxed) {
                    continue;
                }
                let began = cpu_time();
                let read = || read_one(&spot.display, &path, &old, (&access, Pace::Until(&cancelled)));
                // A reader that panics costs this file only: it works on a text of its own, so it leaves nothing behind.
                let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
                    let text = "cannot be read because of a bug in Chancery: please report it, with the file";
                    Outcome::Trouble(report::whole(&spot.display, text))
                });
                let is_cheap = cpu_time().saturating_sub(began) < QUICK_TIME;
                let done = Done { number, spot, outcome, old, is_cheap };
                if results.send(done).is_err() || wake.write_all(&[0]).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("costly files".to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for (_, cancelled) in self.pending.values() {
            cancelled.store(true, Ordering::Relaxed);
        }
        if let Some(mut worker) = self.worker.take() {
            worker.jobs = None;
            // It ends after the document that it is at.
            let _ended = worker.thread.take().map(JoinHandle::join);
        }
    }
}
