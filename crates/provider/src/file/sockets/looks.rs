//! The threads that look at paths: one, and one more for each place that does not answer.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use store::SocketTarget;

use super::Shared;
use crate::file::access::{Denied, is_special};
use crate::file::resolve::{Found, MAX_LINKS, MAX_NAMES, resolve};

/// A name that has not been looked up for so long is on a file system that does not answer; on one that does it takes microseconds.
const UNANSWERED_AFTER: Duration = Duration::from_secs(2);

/// Threads at most. With so many places that do not answer nothing further is looked at: what is waiting is refused.
const MAX_THREADS: usize = 16;

/// A path on a file system that does not answer costs as much as this many names: it is looked at again after 5 seconds.
const UNANSWERED_NAMES: usize = 5 * super::NAMES_A_SECOND;

/// The refusal of a path on a file system that does not answer.
pub(super) const UNANSWERED: &str =
    "could not be looked up: a file system on its way does not answer; it is looked at again, check its mounts";

/// The refusal of a path that made its look panic.
const PANICKED: &str = "could not be looked up because of a bug in Chancery: please report it, with the path";

/// Niceness of the threads (nice(2)): what is served comes first.
const NICENESS: i32 = 10;

/// The outcome of a look at a path.
pub(super) struct Look {
    pub(super) target: SocketTarget,
    /// No `Backend` may lead there.
    pub(super) is_refused: bool,
    /// Names that were looked up.
    pub(super) names: usize,
}

/// The threads.
#[derive(Default)]
pub(super) struct Looks {
    running: BTreeMap<u64, Running>,
    next: u64,
}

struct Running {
    /// The name that is being looked up, by its path.
    place: PathBuf,
    since: Instant,
    /// It does not answer: another thread goes on with other paths.
    is_unanswered: bool,
}

impl Looks {
    /// Returns true if a further thread may start.
    pub(super) fn has_place(&self) -> bool {
        !self.is_running() && self.running.len() < MAX_THREADS
    }

    /// Number of threads.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.running.len()
    }

    /// Returns true if a thread works, other than those that wait for an answer.
    pub(super) fn is_running(&self) -> bool {
        self.running.values().any(|one| !one.is_unanswered)
    }

    /// The time that the name takes so far that is being looked up.
    pub(super) fn age(&self, now: Instant) -> Duration {
        let ages = self.running.values().filter(|one| !one.is_unanswered);
        ages.map(|one| now.saturating_duration_since(one.since)).max().unwrap_or_default()
    }

    /// Notes which names are not answered in time.
    pub(super) fn note_unanswered(&mut self, now: Instant) {
        for one in self.running.values_mut() {
            one.is_unanswered |= now.saturating_duration_since(one.since) >= UNANSWERED_AFTER;
        }
    }

    /// A thread is about to look up this name. Fails if another one waits there for an answer already.
    fn begin(&mut self, number: u64, next: &Path) -> Result<(), Denied> {
        let waits = |one: &Running| one.is_unanswered && next.starts_with(&one.place);
        if self.running.iter().any(|(other, one)| *other != number && waits(one)) {
            return Err(Denied::Io(io::ErrorKind::TimedOut.into()));
        }
        if let Some(own) = self.running.get_mut(&number) {
            (own.place, own.since) = (next.to_owned(), Instant::now());
        }
        Ok(())
    }
}

/// Starts a thread that looks at what is in line, to its end. Where none is to be had the next look tries again.
pub(super) fn start(shared: &Arc<Shared>, looks: &mut Looks) {
    looks.next += 1;
    let number = looks.next;
    let shared = Arc::clone(shared);
    let work = move || {
        // Where that is refused it is as nice as others.
        let _nice = rustix::process::setpriority_process(None, NICENESS);
        work_off(&shared, number);
    };
    // It is not joined: a file system that never answers holds up no other path.
    if thread::Builder::new().name("socket paths".to_owned()).spawn(work).is_ok() {
        looks.running.insert(number, Running { place: PathBuf::new(), since: Instant::now(), is_unanswered: false });
    }
}

fn work_off(shared: &Shared, number: u64) {
    let mut state = shared.state();
    while let Some(path) = state.next() {
        drop(state);
        let begin = &mut |next: &Path| {
            shared.state().looks.begin(number, next)?;
            #[cfg(test)]
            shared.stall(next);
            Ok(())
        };
        // A look that panics costs this path only: it works on texts of its own, so it leaves nothing behind.
        let look = catch_unwind(AssertUnwindSafe(|| look(&path, &shared.refuses, begin))).unwrap_or_else(|_| Look {
            target: Err(PANICKED.into()),
            is_refused: false,
            names: UNANSWERED_NAMES,
        });
        state = shared.state();
        if state.note(&path, look, Instant::now()) && state.is_started {
            shared.late.notify_one();
        }
        shared.looked.notify_all();
        // Another one went on meanwhile.
        if state.looks.running.get(&number).is_none_or(|own| own.is_unanswered) {
            break;
        }
    }
    state.looks.running.remove(&number);
    shared.looked.notify_all();
}

/// Looks where a path leads. A path that is not absolute stays as it is: the translator refuses it.
pub(super) fn look(
    path: &str,
    refuses: &dyn Fn(&str) -> bool,
    begin: &mut dyn FnMut(&Path) -> Result<(), Denied>,
) -> Look {
    if !path.starts_with('/') {
        return Look { target: Ok(path.into()), is_refused: true, names: 1 };
    }
    // Nothing is followed there, and whatever is there is refused.
    let resolution = resolve(Path::new("/"), Path::new(path), &mut |next| match is_special(next) {
        true => Err(Denied::Special),
        false => begin(next),
    });
    // What is no text has replacements, so that it is below no folder that an operator named.
    let text: Arc<str> = resolution.real.to_string_lossy().as_ref().into();
    let target: SocketTarget = match resolution.found {
        Found::Circle | Found::Long => Err(format!(
            "has more than {MAX_LINKS} links or {MAX_NAMES} names on its way, more than are followed; name the socket itself"
        )
        .into()),
        Found::Stopped(Denied::Io(_)) => Err(UNANSWERED.into()),
        Found::Stopped(_) | Found::File | Found::Directory | Found::Missing { .. } | Found::Failed(_) => Ok(text),
    };
    let is_refused = target.as_deref().is_ok_and(refuses);
    let names =
        if matches!(resolution.found, Found::Stopped(Denied::Io(_))) { UNANSWERED_NAMES } else { resolution.names };
    Look { target, is_refused, names }
}
