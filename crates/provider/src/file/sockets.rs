//! Paths of Unix sockets that `Backend`s name, each with its target after links: Envoy follows them, and what a path says is not
//! where it leads.
//!
//! Authors choose the paths, so looking at one may cost much, or never end: a thread of its own does it (`looks`), and no lock is held meanwhile. A path
//! that has not been looked up is refused until it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::{Object, ObjectKey};
use store::{Batch, Change, SocketTarget, Source};
use tokio::sync::Notify;

use holds::Holds;
use looks::{Look, Looks};

mod holds;
mod looks;
#[cfg(test)]
mod tests;

/// Time that a batch waits for the paths in it that are new. A path takes 10 µs as a rule, and 0.5 ms at most where its file system answers. What
/// is not known by then is reported by the next look.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// The same at the start, of which all is to be known before anything is served: for so long in all, and for one name.
const LOOK_AT_START: Duration = Duration::from_secs(2);
const NAME_AT_START: Duration = Duration::from_millis(200);

/// The same where files are read once and nothing is served: an answer that is late is a wrong report.
const LOOK_ONCE: Duration = Duration::from_secs(10);

/// Time that a look waits for its paths; the rest is for the next one. The end of the process waits for it.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Names that one look, once a second, looks up: 2 µs each, so 20 ms. Those that wait longest come first.
const NAMES_A_LOOK: usize = 10_000;

/// A path waits a second for the next look, and one with many names a multiple of that: once for each time that it has this many names.
const NAMES_A_SECOND: usize = 16;

/// A path that could not be looked up again for so long is refused.
const OLDEST: Duration = Duration::from_secs(10);

/// Says of a target that no `Backend` may lead there.
type Refuses = dyn Fn(&str) -> bool + Send + Sync;

/// The paths that the `Backend`s of one source name. Clones are the same.
#[derive(Clone)]
pub struct SocketPaths(Arc<Shared>);

/// Action of a test before a name is looked up.
#[cfg(test)]
type Stall = Arc<dyn Fn(&std::path::Path) + Send + Sync>;

struct Shared {
    refuses: Box<Refuses>,
    /// Time that the first batches wait for their new paths, in all and for one name.
    at_start: (Duration, Duration),
    state: Mutex<State>,
    /// A path was looked at.
    looked: Condvar,
    /// A path was looked at for the first time, and its batch did not wait for it.
    late: Notify,
    /// Called for each name that is looked up: a test waits in it as for a file system that does not answer.
    #[cfg(test)]
    stall: Mutex<Option<Stall>>,
}

#[derive(Default)]
struct State {
    of: BTreeMap<ObjectKey, Vec<Arc<str>>>,
    paths: BTreeMap<Arc<str>, Known>,
    /// Paths to look at.
    queue: VecDeque<Arc<str>>,
    looks: Looks,
    holds: Holds,
    /// Reported since the last look. It is reported once more then: two batches may overtake each other on their way.
    again: BTreeSet<Arc<str>>,
    is_started: bool,
}

struct Known {
    /// Number of `Backend`s that name it.
    users: usize,
    target: Option<SocketTarget>,
    reported: Option<SocketTarget>,
    /// Time of the next look.
    due: Instant,
    /// Names of the last look.
    names: usize,
    /// Time since which it is to be looked at.
    queued: Option<Instant>,
}

impl Default for SocketPaths {
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl fmt::Debug for SocketPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketPaths").finish_non_exhaustive()
    }
}

impl SocketPaths {
    /// Returns no paths yet. A path that led to a target that `refuses` names is held as refused for a while after that.
    pub fn new(refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::waiting(Box::new(refuses), (LOOK_AT_START, NAME_AT_START))
    }

    /// Returns no paths yet, where files are read once.
    pub fn read_once() -> Self {
        Self::waiting(Box::new(|_| false), (LOOK_ONCE, LOOK_ONCE))
    }

    fn waiting(refuses: Box<Refuses>, at_start: (Duration, Duration)) -> Self {
        let (state, looked, late) = (Mutex::default(), Condvar::new(), Notify::new());
        Self(Arc::new(Shared {
            refuses,
            at_start,
            state,
            looked,
            late,
            #[cfg(test)]
            stall: Mutex::default(),
        }))
    }

    /// Adds to a batch where the paths of its `Backend`s lead, so that both are known at once.
    pub fn add(&self, batch: &mut Batch) {
        let mut state = self.0.state();
        let (mut named, mut removed) = (BTreeSet::new(), Vec::new());
        for change in &batch.changes {
            match change {
                Change::Apply(Object::Backend(backend), _) => {
                    let sockets = backend.spec.endpoints.iter().filter_map(|endpoint| endpoint.unix.as_ref());
                    let paths: Vec<Arc<str>> = sockets.map(|unix| Arc::from(&*unix.path)).collect();
                    named.extend(paths.iter().cloned());
                    state.replace(&backend.meta.key, paths, &mut removed);
                }
                Change::Delete(key) => state.replace(key, Vec::new(), &mut removed),
                _ => {}
            }
        }
        if !named.is_empty() {
            let (all, one) = if state.is_started { (FIRST_LOOK, FIRST_LOOK) } else { self.0.at_start };
            let is_known = |state: &State| named.iter().all(|path| state.is_known(path));
            state = self.0.wait(state, (all, one), is_known);
        }
        state.is_started |= batch.listed;
        // A path that one `Backend` no longer names and another one does is known.
        removed.retain(|path| !state.paths.contains_key(path));
        let paths: Vec<Arc<str>> = named.into_iter().filter(|path| state.paths.contains_key(path)).collect();
        batch.changes.extend(paths.into_iter().map(|path| state.report(path)));
        batch.changes.extend(removed.into_iter().map(|path| state.report(path)));
    }

    /// Looks where paths lead now: those that wait longest, within a bound of time. Gives those that lead elsewhere than before; none if there are none.
    pub fn look_again(&self) -> Option<Batch> {
        let mut state = self.0.state();
        state.queue_due(Instant::now());
        state =
            self.0.wait(state, (LOOK_AGAIN, LOOK_AGAIN), |state| state.queue.is_empty() && !state.looks.is_running());
        state.refuse_unanswered(Instant::now());
        let differs = |known: &Known| known.target.is_some() && known.target != known.reported;
        let changed = state.paths.iter().filter(|(_, known)| differs(known)).map(|(path, _)| path.clone());
        let changed: Vec<Arc<str>> = changed.collect();
        let again = std::mem::take(&mut state.again);
        let mut changes: Vec<Change> = changed.into_iter().map(|path| state.report(path)).collect();
        let twice: Vec<Arc<str>> = again.into_iter().filter(|path| !state.again.contains(path)).collect();
        changes.extend(twice.into_iter().map(|path| state.change(path)));
        (!changes.is_empty()).then_some(Batch { source: Source::File, changes, listed: false })
    }

    /// Waits until there is something to report before the time of the next look.
    pub async fn late(&self) {
        self.0.late.notified().await;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn stall(&self, next: &std::path::Path) {
        // The lock is free while it waits.
        let stall = self.stall.lock().unwrap().clone();
        if let Some(stall) = stall {
            stall(next);
        }
    }

    /// Waits until this is so, for so long in all, and for one name. The lock is free meanwhile.
    fn wait<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        (all, one): (Duration, Duration),
        is_so: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let begun = Instant::now();
        loop {
            state.looks.note_unanswered(Instant::now());
            if !state.queue.is_empty() && state.looks.has_place() {
                looks::start(self, &mut state.looks);
            }
            let now = Instant::now();
            let left = all.saturating_sub(now - begun).min(one.saturating_sub(state.looks.age(now)));
            if is_so(&state) || left.is_zero() || !state.looks.is_running() {
                return state;
            }
            state = self.looked.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn is_known(&self, path: &Arc<str>) -> bool {
        self.paths.get(path).is_none_or(|known| known.target.is_some())
    }

    /// A `Backend` names these paths now.
    fn replace(&mut self, key: &ObjectKey, paths: Vec<Arc<str>>, removed: &mut Vec<Arc<str>>) {
        let now = Instant::now();
        for path in &paths {
            let known = self.paths.entry(path.clone()).or_insert_with(|| {
                self.queue.push_back(path.clone());
                Known { users: 0, target: None, reported: None, due: now, names: 0, queued: Some(now) }
            });
            known.users += 1;
        }
        let before = if paths.is_empty() { self.of.remove(key) } else { self.of.insert(key.clone(), paths) };
        for path in before.unwrap_or_default() {
            let Some(known) = self.paths.get_mut(&path) else { continue };
            known.users -= 1;
            if known.users == 0 {
                self.paths.remove(&path);
                removed.push(path);
            }
        }
    }

    /// Puts what is to be looked at in line, those that wait longest first.
    fn queue_due(&mut self, now: Instant) {
        let due = self.paths.iter().filter(|(_, known)| known.due <= now && known.queued.is_none());
        let mut due: Vec<(Instant, Arc<str>)> = due.map(|(path, known)| (known.due, path.clone())).collect();
        due.sort_unstable();
        let mut names = 0;
        for (_, path) in due {
            let Some(known) = self.paths.get_mut(&path).filter(|_| names < NAMES_A_LOOK) else { break };
            names += known.names.max(1);
            known.queued = Some(now);
            self.queue.push_back(path);
        }
    }

    /// Takes the next path to look at.
    fn next(&mut self) -> Option<Arc<str>> {
        loop {
            let path = self.queue.pop_front()?;
            if self.paths.contains_key(&path) {
                return Some(path);
            }
        }
    }

    /// Takes in what a look at a path came to. Returns true if nothing was known of it.
    fn note(&mut self, path: &Arc<str>, look: Look, now: Instant) -> bool {
        let target = self.holds.judge(path, look.target, look.is_refused, now);
        let Some(known) = self.paths.get_mut(path) else { return false };
        let seconds = look.names.div_ceil(NAMES_A_SECOND).max(1);
        known.due = now + Duration::from_secs(1) * u32::try_from(seconds).unwrap_or(u32::MAX);
        (known.names, known.queued) = (look.names, None);
        known.target.replace(target).is_none()
    }

    /// Refuses paths that have been waiting for an answer for too long.
    fn refuse_unanswered(&mut self, now: Instant) {
        let waits = |known: &&mut Known| known.queued.is_some_and(|since| now.duration_since(since) >= OLDEST);
        for known in self.paths.values_mut().filter(waits) {
            known.target = Some(Err(looks::UNANSWERED.into()));
        }
    }

    fn report(&mut self, path: Arc<str>) -> Change {
        self.again.insert(path.clone());
        if let Some(known) = self.paths.get_mut(&path) {
            known.reported.clone_from(&known.target);
        }
        self.change(path)
    }

    fn change(&self, path: Arc<str>) -> Change {
        let unknown = || Err(Arc::from("has not been looked up yet"));
        let target = self.paths.get(&path).map(|known| known.reported.clone().unwrap_or_else(unknown));
        Change::SocketPath(path, target)
    }
}
