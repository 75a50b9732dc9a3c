//! [`Presence`]: notices that a Pod is gone. A token that is bound to a Pod ends with it, and so do the streams that it opened.
//!
//! Only tracked Pods matter. Each namespace that has some is watched, metadata only: a Pod that the watch has shown and shows no more is gone at once. A Pod
//! that it has not shown is looked up in the API server: at once when it is tracked first, and again each [`PresenceTiming::look`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use hashbrown::{HashMap, HashSet};
use kube::Client;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::kubernetes::Pace;
use crate::kubernetes::call::{Caller, Failure};

use pods::{PodEvent, PodWatch};

mod pods;
#[cfg(test)]
mod tests;

/// Pods that are tracked at most: as many as tokens are remembered (`xds`), some 700 bytes each with labels of at most 63 characters, so 12 MB. A further one
/// counts as one that cannot be looked up.
const MOST: usize = 16_384;

/// Time for which a Pod that is gone is remembered: longer than the API server remembers the review of its token (10 s).
const REMEMBERED: Duration = Duration::from_secs(60);

/// Pods that are remembered as gone at most, the latest: 270 in a second for a minute, some 100 bytes each, so 1.6 MB. Of an earlier one the API server says
/// that it is not there.
const MOST_GONE: usize = 16_384;

/// Namespaces that are watched one by one, each over a connection of its own; with Pods in more, the Pods of all namespaces are watched together.
const ONE_BY_ONE: usize = 32;

/// Longest wait for the answer to a look.
const ANSWER: Duration = Duration::from_secs(5);

/// Pods that are looked for at the same time: at 5 ms each 6,400 in a second.
const AT_ONCE: usize = 32;

/// Times to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceTiming {
    /// Until a Pod that no watch has shown is looked up in the API server.
    pub look: Duration,
    /// After a failure; twice as long after each further one.
    pub retry: Duration,
    /// And no longer than this.
    pub retry_last: Duration,
}

impl Default for PresenceTiming {
    fn default() -> Self {
        Self { look: Duration::from_secs(8), retry: Duration::from_secs(1), retry_last: Duration::from_secs(60) }
    }
}

/// A Pod whose end is to be noticed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodId {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name, which another may have later.
    pub name: Arc<str>,
    /// `metadata.uid`, which no other has.
    pub uid: Arc<str>,
}

/// Facts of the API server about a Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its labels, of those that are kept.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Kind and name of the object that controls it.
    pub controller: Option<(Arc<str>, Arc<str>)>,
}

/// Becomes `true` once a Pod is gone. The Pod is tracked until this is dropped.
pub type Gone = Arc<watch::Sender<bool>>;

/// See the module. A clone is the same.
#[derive(Clone, Default)]
pub struct Presence(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Names of the labels that are kept of a Pod.
    kept: &'static [&'static str],
    /// A further Pod is tracked.
    added: Notify,
}

#[derive(Default)]
struct State {
    /// By the uid.
    tracked: HashMap<Arc<str>, Tracked>,
    /// Uids of the Pods that watches show, by the namespace that is watched; empty is all of them.
    shown: BTreeMap<Arc<str>, HashSet<Arc<str>>>,
    /// Uids of Pods that are gone, and the order in which they went.
    gone: HashSet<Arc<str>>,
    went: VecDeque<(Instant, Arc<str>)>,
}

impl State {
    fn is_shown(&self, pod: &PodId) -> bool {
        let by = |namespace: &str| self.shown.get(namespace).is_some_and(|shown| shown.contains(&pod.uid));
        by(&pod.namespace) || by("")
    }

    /// Remembers that a Pod is gone.
    fn remember(&mut self, uid: &str, now: Instant) {
        let is_old = |(at, _): &(Instant, Arc<str>)| now.duration_since(*at) >= REMEMBERED;
        while self.went.len() >= MOST_GONE || self.went.front().is_some_and(is_old) {
            let Some((_, uid)) = self.went.pop_front() else { break };
            self.gone.remove(&uid);
        }
        let uid: Arc<str> = uid.into();
        if self.gone.insert(Arc::clone(&uid)) {
            self.went.push_back((now, uid));
        }
    }
}

/// A list that is not complete: its beginning, and the uids of the Pods that it has shown.
type OpenList = (Instant, HashSet<Arc<str>>);

struct Tracked {
    pod: PodId,
    gone: Weak<watch::Sender<bool>>,
    since: Instant,
    /// Last facts of the API server; none before it sent any.
    facts: Option<PodFacts>,
    /// The last look at it failed.
    is_uncertain: bool,
}

impl Presence {
    /// Keeps these labels of Pods.
    #[must_use]
    pub fn new(kept: &'static [&'static str]) -> Self {
        Self(Arc::new(Inner { kept, ..Inner::default() }))
    }

    /// Tracks a Pod until the result is dropped. One that is known to be gone is gone at once.
    #[must_use]
    pub fn track(&self, pod: &PodId) -> Gone {
        let mut state = self.state();
        if state.gone.contains(&pod.uid) {
            return Arc::new(watch::Sender::new(true));
        }
        if let Some(known) = state.tracked.get(&pod.uid).and_then(|tracked| tracked.gone.upgrade()) {
            return known;
        }
        let gone: Gone = Arc::new(watch::Sender::new(false));
        if state.tracked.len() >= MOST {
            state.tracked.retain(|_, tracked| tracked.gone.strong_count() > 0);
        }
        if state.tracked.len() < MOST {
            let tracked = Tracked {
                pod: pod.clone(),
                gone: Arc::downgrade(&gone),
                since: Instant::now(),
                facts: None,
                is_uncertain: false,
            };
            state.tracked.insert(Arc::clone(&pod.uid), tracked);
            self.0.added.notify_one();
        }
        gone
    }

    /// Tracks a Pod, and looks for it in the API server if nothing is known of it yet.
    pub async fn find(&self, client: &Client, pod: &PodId) -> Gone {
        let gone = self.track(pod);
        if !*gone.borrow() && self.facts(&pod.uid).is_none() {
            self.look(client, pod).await;
        }
        gone
    }

    /// Returns the facts of a tracked Pod; none if the API server has not sent any.
    #[must_use]
    pub fn facts(&self, uid: &str) -> Option<PodFacts> {
        self.state().tracked.get(uid)?.facts.clone()
    }

    /// Returns true if the end of a Pod is not noticed here: no watch shows it, and it cannot be looked up.
    #[must_use]
    pub fn is_uncertain(&self, pod: &PodId) -> bool {
        let state = self.state();
        if state.gone.contains(&pod.uid) || state.is_shown(pod) {
            return false;
        }
        state.tracked.get(&pod.uid).is_none_or(|tracked| tracked.is_uncertain)
    }

    /// Notes what the API server says of a Pod: for tests of what follows from it.
    pub fn set_facts(&self, pod: &PodId, facts: PodFacts) {
        if let Some(tracked) = self.state().tracked.get_mut(&pod.uid) {
            tracked.facts = Some(facts);
        }
    }

    /// Looks for a Pod in the API server.
    async fn look(&self, client: &Client, pod: &PodId) {
        let pods = self.pods(client, &pod.namespace);
        // A server that does not answer must not keep other Pods from being looked for.
        let found = match timeout(ANSWER, pods.find(&pod.name)).await {
            Ok(Ok(found)) => found,
            Ok(Err(failure)) => return self.doubt(pod, &words(failure)),
            Err(_) => return self.doubt(pod, "no answer in time"),
        };
        match found.into_iter().find(|found| found.uid == pod.uid) {
            Some(found) => self.describe(&pod.uid, found.facts),
            None => self.end(&pod.uid),
        }
    }

    fn pods(&self, client: &Client, namespace: &str) -> PodWatch {
        PodWatch::new(Caller { client: client.clone(), pace: Pace::default() }, namespace, self.0.kept)
    }

    /// Notes that a Pod cannot be looked up.
    fn doubt(&self, pod: &PodId, why: &str) {
        let mut state = self.state();
        let Some(tracked) = state.tracked.get_mut(&pod.uid) else { return };
        if !std::mem::replace(&mut tracked.is_uncertain, true) {
            warn!(
                namespace = %pod.namespace,
                pod = %pod.name,
                "a Pod cannot be looked up: it counts as no proxy of a Gateway, and its token is reviewed every few seconds instead; \
                 grant list and watch on pods in its namespace: {why}"
            );
        }
    }

    /// Notes what the API server says of a Pod.
    fn describe(&self, uid: &str, facts: PodFacts) {
        if let Some(tracked) = self.state().tracked.get_mut(uid) {
            tracked.facts = Some(facts);
            tracked.is_uncertain = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets Pods that are tracked no more. Gives the namespaces of the others; an empty name alone where these are too many to be watched one by one.
    fn namespaces(&self) -> BTreeSet<Arc<str>> {
        let mut state = self.state();
        state.tracked.retain(|_, tracked| tracked.gone.strong_count() > 0);
        let all: BTreeSet<Arc<str>> =
            state.tracked.values().map(|tracked| Arc::clone(&tracked.pod.namespace)).collect();
        if all.len() > ONE_BY_ONE { BTreeSet::from(["".into()]) } else { all }
    }

    /// Tracked Pods that no watch shows and that were tracked before this.
    fn unseen(&self, before: Instant) -> Vec<PodId> {
        let state = self.state();
        let old = state.tracked.values().filter(|tracked| tracked.since <= before);
        old.map(|tracked| &tracked.pod).filter(|pod| !state.is_shown(pod)).cloned().collect()
    }

    /// Notes that a Pod is gone.
    fn end(&self, uid: &str) {
        let tracked = {
            let mut state = self.state();
            state.remember(uid, Instant::now());
            state.tracked.remove(uid)
        };
        if let Some(tracked) = tracked {
            debug!(namespace = %tracked.pod.namespace, pod = %tracked.pod.name, "a Pod is gone: its token is good no more");
            if let Some(gone) = tracked.gone.upgrade() {
                gone.send_replace(true);
            }
        }
    }

    /// Notes that a list which began at this time shows these Pods, and no others. Returns the tracked ones that are gone.
    fn listed(&self, namespace: &Arc<str>, uids: HashSet<Arc<str>>, began: Instant) -> Vec<Arc<str>> {
        let mut state = self.state();
        let is_of = |pod: &PodId| namespace.is_empty() || pod.namespace == *namespace;
        let old = state.tracked.values().filter(|tracked| tracked.since < began && is_of(&tracked.pod));
        let gone = old.map(|tracked| &tracked.pod.uid).filter(|uid| !uids.contains(*uid)).cloned().collect();
        state.shown.insert(Arc::clone(namespace), uids);
        gone
    }

    fn shows(&self, namespace: &Arc<str>, uid: Arc<str>) {
        if let Some(shown) = self.state().shown.get_mut(namespace) {
            shown.insert(uid);
        }
    }

    /// Takes an event of the watch of a namespace.
    fn take(&self, namespace: &Arc<str>, list: &mut Option<OpenList>, event: PodEvent) {
        match event {
            PodEvent::Begin => *list = Some((Instant::now(), HashSet::new())),
            PodEvent::Shown(pod) => {
                self.describe(&pod.uid, pod.facts);
                if let Some((_, uids)) = list {
                    uids.insert(pod.uid);
                } else {
                    self.shows(namespace, pod.uid);
                }
            }
            PodEvent::Deleted(pod) => {
                if let Some((_, uids)) = list {
                    uids.remove(&pod.uid);
                }
                self.hides(namespace, &pod.uid);
            }
            PodEvent::Listed => {
                if let Some((began, uids)) = list.take() {
                    self.listed(namespace, uids, began).iter().for_each(|uid| self.end(uid));
                }
            }
        }
    }

    fn hides(&self, namespace: &Arc<str>, uid: &str) {
        if let Some(shown) = self.state().shown.get_mut(namespace) {
            shown.remove(uid);
        }
        self.end(uid);
    }
}

/// Follows the Pods that are tracked until `stop`.
pub async fn follow(presence: Presence, client: Client, tempo: PresenceTiming, stop: CancellationToken) {
    let mut watches: BTreeMap<Arc<str>, tokio::task::AbortHandle> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = presence.namespaces();
        watches.retain(|namespace, task| {
            let stays = wanted.contains(namespace);
            if !stays {
                task.abort();
                presence.state().shown.remove(namespace);
            }
            stays
        });
        for namespace in wanted {
            let watching = |namespace| watch_pods(presence.clone(), client.clone(), namespace, tempo);
            watches.entry(Arc::clone(&namespace)).or_insert_with(|| tasks.spawn(watching(namespace)));
        }
        let unseen = Instant::now().checked_sub(tempo.look).map(|before| presence.unseen(before)).unwrap_or_default();
        let looking = futures::stream::iter(unseen).for_each_concurrent(AT_ONCE, async |pod| {
            presence.look(&client, &pod).await;
        });
        tokio::select! {
            () = looking => {}
            () = stop.cancelled() => break,
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = presence.0.added.notified() => {}
            () = sleep(tempo.look / 4) => {}
            Some(_aborted) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}

/// Lists and watches the Pods of a namespace, or of all, for ever.
async fn watch_pods(presence: Presence, client: Client, namespace: Arc<str>, tempo: PresenceTiming) {
    let mut pods = presence.pods(&client, &namespace);
    let (mut trouble, mut pause) = (None, tempo.retry);
    loop {
        let (began, mut list, mut is_well) = (Instant::now(), None, false);
        let mut emit = |event| {
            is_well |= matches!(event, PodEvent::Listed);
            presence.take(&namespace, &mut list, event);
        };
        match pods.next(&mut emit).await {
            Ok(()) => {
                pause = tempo.retry;
                // After a watch that ends at once the next one waits.
                sleep(tempo.retry.saturating_sub(began.elapsed())).await;
            }
            Err(failure) => {
                let words = words(failure);
                if is_well || trouble.as_ref() != Some(&words) {
                    warn!(%namespace, "Pods cannot be watched, so that the end of one is noticed late: {words}");
                }
                trouble = Some(words);
                // What is not watched is asked for one by one.
                presence.state().shown.remove(&namespace);
                sleep(pause).await;
                pause = (pause * 2).min(tempo.retry_last);
            }
        }
    }
}

/// The words of an API server.
fn words(failure: Failure) -> String {
    match failure {
        Failure::Away(text) | Failure::Busy(text) | Failure::Forbidden(text) | Failure::Invalid(text) => text,
        Failure::Missing | Failure::Gone | Failure::Conflict | Failure::Closed => {
            "the API server does not serve Pods".to_owned()
        }
    }
}
