//! [`watch`]: the thread that follows changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, PipeWriter};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::{ObjectKey, Problem};
use hashbrown::HashSet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use store::{Batch, Change, Source};

use crate::file::access::Links;
use crate::file::ages::journal::Journal;
use crate::file::background::{Background, Done, Running};
use crate::file::catalog::Catalog;
use crate::file::document::{self, Document, Lost, Parsed};
use crate::file::events::{Agenda, Created, Look, created, remove_under};
use crate::file::guard::{self, Scan};
use crate::file::held::{Held, REMOVED};
use crate::file::past::{Duds, Past};
use crate::file::read::{Outcome, Pace, Spent, read_all};
use crate::file::shares::Shares;
use crate::file::spot::Spot;
use crate::file::texts::LastTexts;
use crate::file::tree::{Survey, Tree, Trouble};
use crate::file::unread::Unread;
use crate::file::watches::Watches;
use crate::file::{EMPTY_GRACE, Error, Sink, VANISH_GRACE, current_directory, report};

/// Files that are read and handed on together at the start: whoever receives them works while the next are read, and no more
/// than these are in memory twice. Later everything that changed at one time is one batch, because it may belong together.
const FILES_AT_START: usize = 128;

/// How often what cannot be read is tried again. Most of it comes back with an event; a mount does not, nor what happens in a directory that
/// may not be watched, nor descriptors that were wanting.
const RETRY: Duration = Duration::from_secs(1);

/// Places that are looked at, at some 0.1 ms each, before events are taken out of the kernel's queue: 16,384 in 25 ms are more than one writer makes.
const LOOKS: usize = 1 << 8;

/// Places that are tried again at a time, at some 10 µs each: 10 ms. An author can have any number of files that cannot be read.
const MAX_RETRIES: usize = 1 << 10;

/// A thread that follows files. Dropping it tells the thread to end, and does not wait: the thread may be in the sink,
/// waiting for whoever drops this to receive.
#[derive(Debug)]
pub struct Watcher {
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// Closing it ends the thread.
    stop: Option<PipeWriter>,
}

/// Reads directories and files, and follows their changes on a thread of its own.
///
/// What is there at first comes in as many batches as it takes, of which the last is `listed`; each later one holds what a
/// change came to. A root that does not exist, cannot be read, or vanishes, is a problem, and is read when it comes (back).
/// No batch is `listed` before every root, and every file that was found, was read once or went: what a file gives that nobody could read
/// yet is not gone. Nor, after a `past` that served, while something is broken that may have given something then.
///
/// # Errors
///
/// inotify is not to be had, the current directory cannot be read, no thread can be started, or nothing of the ages of objects can be read.
pub fn watch((roots, links): (&[PathBuf], Links), past: Past, sink: impl Sink) -> Result<Watcher, Error> {
    watch_within(Shares::watched(), (roots, links), past, sink)
}

/// The same with these shares of directories.
pub(crate) fn watch_within(
    shares: Shares,
    (roots, links): (&[PathBuf], Links),
    past: Past,
    sink: impl Sink,
) -> Result<Watcher, Error> {
    let current = current_directory(roots)?;
    let watches = Watches::new().map_err(|error| Error::Inotify(error.into()))?;
    let tree = Tree::new((roots, links), &current, (watches, shares));
    let (stopped, stop) = io::pipe().map_err(Error::Thread)?;
    let (journal, ages) = Journal::open(past.ages.clone()).map_err(Error::Ages)?;
    let follower = Follower {
        tree,
        catalog: Catalog::with_ages(ages),
        journal,
        agenda: Agenda::default(),
        vanished: BTreeMap::new(),
        to_read: BTreeMap::new(),
        unread: Unread::default(),
        texts: LastTexts::open(past.texts.clone()),
        duds: Duds::read(past),
        awaited: BTreeSet::new(),
        tried: None,
        background: Background::new().map_err(Error::Thread)?,
        held: Held::default(),
        stopped,
        listed: false,
    };
    let builder = thread::Builder::new().name("file provider".to_owned());
    let thread = builder.spawn(move || follower.run(sink)).map_err(Error::Thread)?;
    Ok(Watcher { thread: Some(thread), stop: Some(stop) })
}

impl Watcher {
    /// Waits until the thread ends by itself: because the sink said so, or because of an error.
    ///
    /// # Errors
    ///
    /// What ended the thread.
    pub fn join(mut self) -> Result<(), Error> {
        self.wait()
    }

    /// Ends the thread.
    ///
    /// # Errors
    ///
    /// What ended the thread before.
    pub fn stop(mut self) -> Result<(), Error> {
        self.stop = None;
        self.wait()
    }

    fn wait(&mut self) -> Result<(), Error> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(panic)) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Err(Error::Panic(text.unwrap_or_default()))
            }
        }
    }
}

struct Follower {
    tree: Tree,
    catalog: Catalog,
    journal: Journal,
    agenda: Agenda,
    /// Files that vanished, and when that is believed.
    vanished: BTreeMap<Arc<Spot>, Instant>,
    to_read: BTreeMap<Arc<Spot>, PathBuf>,
    /// What was never read of what there was at the start.
    unread: Unread,
    /// The texts of what files gave before.
    texts: LastTexts,
    duds: Duds,
    /// What could not be read when it was looked at last, and may be another time.
    awaited: BTreeSet<Arc<Spot>>,
    /// The last of these that was tried again, if there are more.
    tried: Option<Arc<Spot>>,
    background: Background,
    /// Files that open something and were written after a costly one that may guard it.
    held: Held,
    stopped: PipeReader,
    /// Everything that there was at the start has been handed on.
    listed: bool,
}

impl Follower {
    fn run(mut self, mut sink: impl Sink) -> Result<(), Error> {
        self.unread.extend(self.tree.roots());
        for root in self.tree.roots() {
            self.agenda.looks.insert(root, Look::Survey);
        }
        loop {
            self.note_time();
            if self.work_off(&mut sink)?.is_break() {
                return Ok(());
            }
            self.expire();
            self.release_unused();
            let mut changes = self.catalog.commit();
            let listed = self.unread.is_empty();
            if listed && (self.catalog.take_duds_changed() || !self.listed) {
                // Before anything of it counts.
                let Self { duds, catalog, tree, .. } = &mut self;
                duds.record(catalog.all_duds().map(|(spot, dud)| (tree.path(spot), dud)));
            }
            changes.extend(self.save_texts(listed));
            changes.extend(self.save_ages(listed));
            if !changes.is_empty() || listed && !self.listed {
                self.listed = listed;
                if sink(Batch { source: Source::File, changes, listed }).is_break() {
                    return Ok(());
                }
            }
            self.background.begin(&self.catalog, self.tree.access()).map_err(Error::Thread)?;
            if self.wait()? {
                return Ok(());
            }
            self.note_events()?;
            self.note_costly();
            self.release_held();
            self.try_again();
        }
    }

    /// Writes how old the objects of a change are, before it counts. Returns what is wrong with that, if it is another thing than before.
    fn save_ages(&mut self, listed: bool) -> Option<Change> {
        let Self { catalog, journal, .. } = self;
        journal.save(catalog.ages()?, listed)
    }

    /// Writes the texts of what files give, before it counts. Returns what is wrong with that, if it is another thing than before.
    fn save_texts(&mut self, listed: bool) -> Option<Change> {
        let Self { catalog, texts, tree, .. } = self;
        for (spot, new) in catalog.take_unsaved() {
            texts.note((&tree.path(&spot), spot.folder()), catalog.documents(&spot), &new);
        }
        texts.save(listed)
    }

    /// Takes in what an earlier process knew of a broken file, as the version of it that there was before.
    fn restore(&mut self, spot: &Arc<Spot>) {
        if self.listed || !self.catalog.documents(spot).is_empty() {
            return;
        }
        let (mut seen, old) = (HashSet::new(), &[] as &[Document]);
        let mut documents = Vec::new();
        for text in self.texts.texts(&self.tree.path(spot)) {
            for parsed in document::parse(&spot.display, &text, old, &|| true).unwrap_or_default() {
                if let Parsed::New { document, .. } = parsed {
                    let document = document.of_earlier(&mut seen);
                    documents.push(Parsed::New { document, lost: Lost::default(), text: Box::default() });
                }
            }
        }
        if !documents.is_empty() {
            self.catalog.restore(spot, documents);
        }
    }

    /// The same of a place that cannot be read, and of all files below it.
    fn restore_below(&mut self, top: &Arc<Spot>) {
        let path = self.tree.path(top);
        for file in if self.listed { Vec::new() } else { self.texts.files_below(&path) } {
            let names = file.strip_prefix(&path).unwrap_or(Path::new(""));
            let spot = names.iter().fold(top.clone(), |spot, name| spot.join(name));
            self.restore(&spot);
        }
    }

    /// Ends the wait for broken files whose objects were not kept and are of no use to others. Only once nothing else is waited for it is known what is.
    fn release_unused(&mut self) {
        if self.listed || self.unread.is_empty() || !self.unread.all().all(|spot| self.catalog.is_held(spot)) {
            return;
        }
        for spot in self.unread.all().cloned().collect::<Vec<_>>() {
            let withheld = self.texts.withheld(&self.tree.path(&spot));
            let is_loss = |key: &ObjectKey| self.catalog.may_have_lost(&spot, key, false) && self.catalog.is_used(key);
            if withheld.is_some_and(|withheld| !withheld.iter().any(is_loss)) {
                if self.catalog.is_troubled(&spot) {
                    // What follows from its trouble is another thing now.
                    self.agenda.add(spot.clone(), Look::Survey);
                }
                self.hold(&spot, false);
            }
        }
    }

    fn note_time(&mut self) {
        let now = self.journal.now();
        if let Some(ages) = self.catalog.ages() {
            ages.set_time(now);
        }
    }

    /// Takes in a costly file that was read meanwhile, unless it changed again: then it is looked at again.
    fn note_costly(&mut self) {
        if let Some((done, running)) = self.background.take_done() {
            if self.agenda.is_changing(&done.spot) && !running.guards {
                self.await_writer(&done.spot);
            } else if done.is_of(self.catalog.documents(&done.spot)) {
                self.note_done(done, &running);
            } else {
                self.agenda.add(done.spot, Look::Read);
            }
        }
    }

    /// Takes in a costly file, unless another one was written before it that may guard what it opens: then it is read again after that. It keeps its number
    /// meanwhile, as others may wait for it.
    fn note_done(&mut self, done: Done, &Running { number, guards, .. }: &Running) {
        let Done { spot, outcome, .. } = done;
        let opens = |parsed: &Vec<Parsed>| guard::opens(self.catalog.documents(&spot), parsed);
        let is_held = matches!(&outcome, Outcome::Documents(parsed) if opens(parsed));
        if is_held && self.background.first_guard(&spot, number.saturating_sub(1)).is_some() {
            let path = self.tree.path(&spot);
            return self.background.park(spot, path, (number, guards));
        }
        self.end_hold(&spot);
        self.note(spot, outcome);
    }

    /// Looks again at files for which nothing is waited for any more.
    fn release_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        for (spot, is_removal) in self.held.release(&mut self.background) {
            match self.vanished.get_mut(&spot) {
                Some(time) if is_removal => *time = Instant::now(),
                _ => self.agenda.add(spot, Look::Read),
            }
        }
    }

    /// Holds back a version of a file that was written after one that may guard what it opens, up to this number. Returns true if it waits.
    fn is_held(&mut self, spot: &Arc<Spot>, version: u128, until: u64) -> bool {
        let until = self.held.until(spot, version).unwrap_or(until);
        let Some(guard) = self.background.first_guard(spot, until) else {
            self.end_hold(spot);
            return false;
        };
        self.catalog.set_note(spot, Some(report::waits(&spot.display, &guard.display)));
        self.held.add(spot, version, until);
        true
    }

    /// Forgets that a file waited.
    fn end_hold(&mut self, spot: &Arc<Spot>) {
        self.catalog.set_note(spot, None);
        self.held.remove(spot);
    }

    /// Waits for events, or for the time at which a vanished file is believed to be gone or something is tried again, and not at all while there is
    /// something to look at; true: the thread shall end.
    fn wait(&self) -> Result<bool, Error> {
        let Some(inotify) = self.tree.watches.inotify() else { return Ok(true) };
        let now = Instant::now();
        let times = self.vanished.values().min().copied().into_iter().chain(self.unread.next_end());
        let times = times.chain(self.journal.retry_at());
        let waits = times.map(|time| time.saturating_duration_since(now)).chain(self.agenda.rest());
        // While files are held back the time counts that the costly ones take.
        let is_retried = !self.awaited.is_empty() || !self.held.is_empty() || self.tree.wants_watches();
        let next = waits.chain(is_retried.then_some(RETRY)).min();
        // Rounded up, so that it has passed when the wait is over.
        let millis = next.map(|wait| u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX));
        let timeout = match self.agenda.looks.is_empty() && !self.tree.has_again() {
            true => millis.map_or(PollTimeout::NONE, PollTimeout::from),
            false => PollTimeout::ZERO,
        };
        let fds = [inotify.as_fd(), self.stopped.as_fd(), self.background.wakes().as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Error::Inotify(error.into())),
        }
        // A closed pipe shows as POLLHUP.
        Ok(fds.get(1).and_then(PollFd::any).unwrap_or(false))
    }

    /// Takes events out of the kernel's queue, which overflows while nothing does that.
    fn take_events(&mut self) -> Result<(), Error> {
        for event in self.tree.watches.events().map_err(|error| Error::Inotify(error.into()))? {
            self.agenda.note(event);
        }
        Ok(())
    }

    fn note_events(&mut self) -> Result<(), Error> {
        self.take_events()?;
        self.agenda.spread(&mut self.tree, Instant::now());
        Ok(())
    }

    /// Puts on the agenda what can be read by now, but for what somebody is about to write, and what has been waited for long enough.
    fn try_again(&mut self) {
        let after = |spot: &&Arc<Spot>| self.tried.as_ref().is_none_or(|tried| *spot > tried);
        let next: Vec<Arc<Spot>> = self.awaited.iter().filter(after).take(MAX_RETRIES).cloned().collect();
        self.tried = next.last().cloned().filter(|_| next.len() == MAX_RETRIES);
        for spot in &next {
            let path = self.tree.path(spot);
            if !self.agenda.is_changing(spot)
                && created(&path, self.tree.access()) != Created::Empty
                && self.tree.access().is_readable(&path)
            {
                self.agenda.add(spot.clone(), Look::Survey);
            }
        }
        if self.tree.wants_watches() {
            for spot in self.tree.watch_again() {
                self.agenda.add(spot, Look::Survey);
            }
        }
        for spot in self.tree.take_again() {
            self.agenda.add(spot, Look::Survey);
        }
        for spot in self.unread.overdue() {
            self.agenda.add(spot.clone(), Look::Read);
        }
    }

    /// Looks at every place on the agenda, then reads the files. What happens meanwhile is for the next time, so that
    /// somebody who writes all the time delays nobody.
    fn work_off(&mut self, sink: &mut impl Sink) -> Result<ControlFlow<()>, Error> {
        let mut count = 0_usize;
        while let Some((spot, look)) = self.agenda.next() {
            self.look(&spot, look);
            count += 1;
            if count.is_multiple_of(LOOKS) {
                self.take_events()?;
            }
        }
        if count >= LOOKS {
            // For the next time.
            self.agenda.spread(&mut self.tree, Instant::now());
        }
        let mut files: Vec<(Arc<Spot>, PathBuf)> = std::mem::take(&mut self.to_read).into_iter().collect();
        while !self.listed && files.len() > FILES_AT_START {
            let rest = files.split_off(FILES_AT_START);
            self.read(std::mem::replace(&mut files, rest))?;
            let mut changes = self.catalog.commit();
            changes.extend(self.save_texts(false));
            if sink(Batch { source: Source::File, changes, listed: false }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.read(files)?;
        Ok(ControlFlow::Continue(()))
    }

    fn look(&mut self, spot: &Arc<Spot>, look: Look) {
        let path = self.tree.path(spot);
        match look {
            Look::Again if self.catalog.is_troubled(spot) => self.survey(spot),
            Look::Again => {}
            // A file that was created also went, if it is not there.
            Look::Gone | Look::Empty | Look::Created if !self.tree.access().is_there(&path) => {
                if self.is_known(spot) || created(&path, self.tree.access()) != Created::Nothing {
                    self.survey(spot);
                }
            }
            // There again, which is another event.
            Look::Gone => {}
            Look::Empty => self.await_writer(spot),
            Look::Created if created(&path, self.tree.access()) == Created::Empty => self.await_writer(spot),
            Look::Created => self.survey(spot),
            // A root that came to be: now it is known where it is.
            Look::Read if spot.is_root() && !self.tree.is_placed(spot) => self.survey(spot),
            Look::Read => drop(self.to_read.insert(spot.clone(), path)),
            Look::Survey => self.survey(spot),
        }
    }

    fn is_known(&self, spot: &Spot) -> bool {
        self.catalog.contains(spot) || self.tree.contains(spot) || self.unread.contains(spot)
    }

    /// Looks at a place as if for the first time.
    fn survey(&mut self, top: &Arc<Spot>) {
        self.agenda.done_below(top, top.is_root() || self.tree.contains(top));
        let pending = self.to_read.range(top.clone()..).map(|(spot, _)| spot).take_while(|spot| spot.is_under(top));
        for spot in pending.cloned().collect::<Vec<_>>() {
            self.to_read.remove(&spot);
        }
        let Survey { files, troubles, .. } = self.tree.survey(top);
        self.background.cancel_below(top, |spot| files.binary_search_by(|(found, _)| (**found).cmp(spot)).is_ok());
        let kept: Vec<&Arc<Spot>> =
            troubles.iter().filter(|trouble| trouble.keeps).map(|trouble| &trouble.spot).collect();
        remove_under(&mut self.awaited, top);
        // No look is needed for room: it comes with what goes.
        let tried = troubles.iter().filter(|trouble| trouble.keeps && !trouble.is_beyond);
        self.awaited.extend(tried.map(|trouble| trouble.spot.clone()));
        if top.is_root() && !kept.contains(&top) && files.iter().all(|(spot, _)| spot != top) {
            self.unread.remove(top);
        }
        let known: BTreeSet<Arc<Spot>> =
            self.catalog.under(top).into_iter().chain(self.unread.under(top).cloned()).collect();
        for spot in known {
            let is_kept = kept.iter().any(|top| spot.is_under(top));
            let is_found = files.binary_search_by(|(found, _)| found.cmp(&spot)).is_ok();
            if !is_kept && !is_found {
                self.vanish(&spot, VANISH_GRACE);
            }
        }
        for trouble in troubles.iter().filter(|trouble| trouble.keeps) {
            self.restore_below(&trouble.spot);
        }
        if !self.listed {
            // Those that could not be read for want of descriptors among them.
            let is_awaited = |trouble: &&Trouble| trouble.wants || trouble.keeps && self.is_loss(&trouble.spot, true);
            let awaited: Vec<_> = troubles.iter().filter(is_awaited).map(|trouble| &trouble.spot).collect();
            self.unread.extend(files.iter().map(|(spot, _)| spot).chain(awaited).cloned());
        }
        for trouble in troubles {
            let problem = match trouble.keeps {
                true => self.told(&trouble.spot, trouble.problem, trouble.wants || trouble.spot.is_root()),
                false => trouble.problem,
            };
            self.catalog.trouble(&trouble.spot, problem);
            if trouble.keeps && !trouble.wants && self.texts.withheld(&self.tree.path(&trouble.spot)).is_some() {
                let is_held = self.is_loss(&trouble.spot, true);
                self.catalog.hold(&trouble.spot, is_held);
            }
        }
        self.to_read.extend(files);
    }

    /// Whether the start has to wait for a place, of which the whole is a dud or only what the catalog knows.
    fn is_loss(&self, spot: &Arc<Spot>, whole: bool) -> bool {
        if self.listed {
            return false;
        }
        if !self.duds.has_served() {
            return false;
        }
        let path = self.tree.path(spot);
        if let Some(withheld) = self.texts.withheld(&path) {
            return withheld.iter().any(|key| self.catalog.may_have_lost(spot, key, whole));
        }
        let whole = (whole && (self.catalog.is_held(spot) || !self.catalog.gives(spot))).then_some(None);
        let mut duds = self.catalog.duds(spot).into_iter().chain(whole);
        duds.any(|dud| self.duds.is_loss(&path, dud))
    }

    /// The problem of a place that cannot be read, with what follows from it.
    fn told(&self, spot: &Arc<Spot>, problem: Problem, waits: bool) -> Problem {
        if !waits && self.is_loss(spot, true) {
            report::held(problem)
        } else if waits && self.unread.under(spot).next().is_some() {
            report::awaited(problem)
        } else if self.catalog.gives(spot) {
            report::kept(problem)
        } else {
            problem
        }
    }

    /// Reads what has to be read. What was touched at the same time may be half of one version and half of the next: it
    /// is left for the look that those events ask for, now or when they are complete.
    fn read(&mut self, files: Vec<(Arc<Spot>, PathBuf)>) -> Result<(), Error> {
        let (costly, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(spot, _)| self.listed && self.background.is_costly(spot));
        let mut scan = Scan::new();
        for (spot, path) in costly {
            let guards = scan.may_guard(&path, self.tree.access());
            self.background.add(spot, path, (true, guards));
        }
        if files.is_empty() {
            return Ok(());
        }
        let spent = Spent::default();
        let pace = if self.listed { Pace::Quick(&spent) } else { Pace::Whole };
        let outcomes = read_all(&files, &self.catalog, (self.tree.access(), pace));
        self.note_events()?;
        let is_costly = |outcome: &Outcome| matches!(outcome, Outcome::Costly { .. });
        let all = files.into_iter().zip(outcomes);
        let (costly, others): (Vec<_>, Vec<_>) = all.partition(|(_, outcome)| is_costly(outcome));
        for ((spot, path), outcome) in costly {
            let is_proven = matches!(outcome, Outcome::Costly { is_proven: true });
            let guards = scan.may_guard(&path, self.tree.access());
            self.background.add(spot, path, (is_proven, guards));
        }
        for ((spot, _), outcome) in others {
            self.background.cancel(&spot);
            if self.agenda.is_changing(&spot) && !self.unread.must_count(&spot) {
                self.await_writer(&spot);
                continue;
            }
            self.note_unless_held(spot, outcome, self.background.last_number());
        }
        Ok(())
    }

    /// Takes in what came of reading a file, unless it has to wait for files up to this number.
    fn note_unless_held(&mut self, spot: Arc<Spot>, outcome: Outcome, until: u64) {
        if let Outcome::Documents(parsed) = &outcome {
            let old = self.catalog.documents(&spot);
            let (opens, version) = (guard::opens(old, parsed), guard::version(old, parsed));
            if opens && self.is_held(&spot, version, until) {
                return self.revive(&spot);
            }
        }
        self.end_hold(&spot);
        self.note(spot, outcome);
    }

    /// Takes in what came of reading a file.
    fn note(&mut self, spot: Arc<Spot>, outcome: Outcome) {
        self.awaited.remove(&spot);
        match outcome {
            // It went since; if it was a link, it may lead to nothing now.
            Outcome::Gone => {
                if self.unread.must_count(&spot) {
                    self.unread.remove(&spot);
                }
                self.agenda.add(spot, Look::Survey);
            }
            Outcome::Trouble(problem) => {
                self.trouble(&spot, problem, false);
            }
            // It was cancelled: a later look has another outcome.
            Outcome::Costly { .. } => {}
            Outcome::Unreadable { problem, wants } => {
                self.awaited.insert(spot.clone());
                self.trouble(&spot, problem, wants || spot.is_root());
            }
            // Whoever writes in place empties the file first, and the kernel says so only afterwards.
            Outcome::Documents(parsed) if parsed.is_empty() => {
                if self.unread.must_count(&spot) {
                    self.unread.remove(&spot);
                }
                // The time runs from the last sign of life.
                self.vanished.remove(&spot);
                self.vanish(&spot, EMPTY_GRACE);
                if !self.catalog.contains(&spot) {
                    self.catalog.put(&spot, parsed);
                }
            }
            Outcome::Documents(parsed) => {
                self.vanished.remove(&spot);
                if parsed.iter().filter_map(Parsed::lost).any(|lost| *lost != Lost::default()) {
                    self.restore(&spot);
                }
                self.catalog.put(&spot, parsed);
                self.hold(&spot, self.is_loss(&spot, false));
            }
        }
    }

    /// A file that cannot be read. The start waits for it if that may pass, else only if something may be lost with it.
    fn trouble(&mut self, spot: &Arc<Spot>, problem: Problem, waits: bool) {
        self.restore(spot);
        let is_held = self.is_loss(spot, true);
        let problem = self.told(spot, problem, waits);
        self.revive(spot);
        self.catalog.trouble(spot, problem);
        if waits {
            self.unread.wait(spot);
        } else {
            self.hold(spot, is_held);
        }
    }

    /// Whether the start waits for a file until it is mended.
    fn hold(&mut self, spot: &Arc<Spot>, is_held: bool) {
        self.catalog.hold(spot, is_held);
        if is_held {
            self.unread.wait(spot);
        } else {
            self.unread.remove(spot);
        }
    }

    fn vanish(&mut self, spot: &Arc<Spot>, grace: Duration) {
        self.catalog.relieve(spot);
        if (self.catalog.contains(spot) || self.unread.contains(spot)) && !self.vanished.contains_key(spot) {
            self.catalog.vanish(spot);
            self.vanished.insert(spot.clone(), Instant::now() + grace);
        }
    }

    /// Its closing will be an event.
    fn await_writer(&mut self, spot: &Arc<Spot>) {
        self.unread.must_count(spot);
        self.revive(spot);
    }

    fn revive(&mut self, spot: &Arc<Spot>) {
        if self.vanished.remove(spot).is_some() {
            self.catalog.revive(spot);
        }
    }

    /// Files that did not come back in time are gone.
    fn expire(&mut self) {
        let now = Instant::now();
        let due: Vec<_> =
            self.vanished.iter().filter(|(_, time)| **time <= now).map(|(spot, _)| spot.clone()).collect();
        for spot in due {
            if self.agenda.is_changing(&spot) {
                self.revive(&spot);
            } else if self.agenda.is_resting(&spot) {
                // It may be there again, as an event says that waits.
                self.vanished.insert(spot, now + RETRY);
            } else if guard::guards(self.catalog.documents(&spot))
                && self.is_held(&spot, REMOVED, self.background.last_number())
            {
                // It is released before.
                self.vanished.insert(spot, now + RETRY);
            } else {
                self.end_hold(&spot);
                self.vanished.remove(&spot);
                self.background.cancel(&spot);
                self.catalog.remove(&spot);
                self.unread.remove(&spot);
            }
        }
    }
}
