//! [`Watches`]: the tasks that list and watch, by what they are about.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::kubernetes::call::{Caller, Failure};
use crate::kubernetes::catalog::Listing;
use crate::kubernetes::target::{Resource, Target};
use crate::kubernetes::watch::{self, Id, Message, Outbox};

/// All that run.
pub(crate) struct Watches {
    caller: Caller,
    sender: mpsc::Sender<Message>,
    pub(crate) tasks: JoinSet<()>,
    all: BTreeMap<Id, Watch>,
    by_target: BTreeMap<Target, Id>,
    /// Those that only list: for what a watch that runs already has dropped until now.
    lookups: BTreeMap<Target, Id>,
    next: Id,
}

/// One of them.
pub(crate) struct Watch {
    pub(crate) target: Target,
    /// Only its list is wanted.
    pub(crate) once: bool,
    /// The list that began last.
    pub(crate) listing: Option<Listing>,
    /// Whether that is on its way.
    pub(crate) lists: bool,
    /// Whether a list was complete.
    pub(crate) listed: bool,
    /// What went wrong last, until it is over.
    pub(crate) trouble: Option<Failure>,
    task: AbortHandle,
}

impl Watch {
    /// Whether all there is is known. Of a single object it is enough to know that we may not; whole kinds are waited for.
    pub(crate) fn is_settled(&self) -> bool {
        let known = match self.trouble {
            Some(Failure::Missing) => true,
            Some(Failure::Forbidden(_)) => self.target.name.is_some(),
            _ => false,
        };
        self.listed || known || self.target.resource == Resource::Definitions
    }
}

impl Watches {
    pub(crate) fn new(caller: Caller, sender: mpsc::Sender<Message>) -> Self {
        let (all, by_target, lookups) = Default::default();
        Self { caller, sender, tasks: JoinSet::new(), all, by_target, lookups, next: 0 }
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Watch> {
        self.all.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Watch> {
        self.all.values()
    }

    /// Whether a target is watched and its list has begun: what was dropped of that does not come again.
    pub(crate) fn has_begun(&self, target: &Target) -> bool {
        let id = self.by_target.get(target);
        id.and_then(|id| self.all.get(id)).is_some_and(|watch| watch.listing.is_some())
    }

    /// The targets in a namespace that are watched, and whose lists have begun.
    pub(crate) fn begun_in(&self, namespace: &str) -> impl Iterator<Item = &Target> {
        let is_in = move |target: &&Target| target.namespace.as_deref() == Some(namespace);
        self.by_target.keys().filter(is_in).filter(|target| self.has_begun(target))
    }

    /// Whether lists are on their way that are no watch's own.
    pub(crate) fn are_looking(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// From now on these are watched, beside those whose successors have not listed yet. Gives what is watched no more.
    pub(crate) fn reconcile(&mut self, targets: &BTreeSet<Target>) -> Vec<Target> {
        for target in targets {
            if !self.by_target.contains_key(target) {
                let id = self.start(target.clone(), false);
                self.by_target.insert(target.clone(), id);
            }
        }
        let awaited: Vec<&Target> = targets.iter().filter(|target| !self.is_settled(target)).collect();
        let has_heirs = |old: &Target| awaited.iter().any(|heir| heir.overlaps(old));
        let mut old: Vec<Target> =
            self.by_target.keys().filter(|target| !targets.contains(target) && !has_heirs(target)).cloned().collect();
        old.retain(|target| self.by_target.remove(target).is_some_and(|id| self.stop(id)));
        old
    }

    /// Lists a target once, anew if that is on its way.
    pub(crate) fn look(&mut self, target: Target) {
        let id = self.start(target.clone(), true);
        if let Some(before) = self.lookups.insert(target, id) {
            self.stop(before);
        }
    }

    /// Forgets a look that is over.
    pub(crate) fn looked(&mut self, id: Id) {
        if let Some(watch) = self.all.remove(&id) {
            self.lookups.remove(&watch.target);
        }
    }

    /// What was being looked for at the time of a complete list may be older than the list: it is looked for again.
    pub(crate) fn look_again(&mut self, listed: &Target) {
        let late: Vec<Target> = self.lookups.keys().filter(|target| target.overlaps(listed)).cloned().collect();
        late.into_iter().for_each(|target| self.look(target));
    }

    /// Looks no more for these.
    pub(crate) fn stop_looking(&mut self, is_meant: impl Fn(&Target) -> bool) {
        let meant: Vec<Target> = self.lookups.keys().filter(|target| is_meant(target)).cloned().collect();
        for target in meant {
            if let Some(id) = self.lookups.remove(&target) {
                self.stop(id);
            }
        }
    }

    fn is_settled(&self, target: &Target) -> bool {
        let id = self.by_target.get(target);
        id.and_then(|id| self.all.get(id)).is_some_and(Watch::is_settled)
    }

    fn start(&mut self, target: Target, once: bool) -> Id {
        self.next += 1;
        let outbox = Outbox { watch: self.next, sender: self.sender.clone() };
        let task = self.tasks.spawn(watch::run(self.caller.clone(), target.clone(), once, outbox));
        let watch = Watch { target, once, listing: None, lists: false, listed: false, trouble: None, task };
        self.all.insert(self.next, watch);
        self.next
    }

    fn stop(&mut self, id: Id) -> bool {
        let watch = self.all.remove(&id);
        watch.is_some_and(|watch| {
            watch.task.abort();
            true
        })
    }
}
