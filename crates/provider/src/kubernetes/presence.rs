//! [`Presence`]: notices that a Pod is gone. A token that is bound to a Pod ends with it, and so do the streams that it opened.
//!
//! Only tracked Pods matter. Each namespace that has some is watched, metadata only: a Pod that the watch has shown and shows no more is gone at once. A Pod
//! that it has not shown is looked up in the API server, within [`PresenceTiming::look`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use hashbrown::{HashMap, HashSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams, PartialObjectMeta, WatchEvent, WatchParams};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::kubernetes::call::causes;

#[cfg(test)]
mod tests;

/// Pods that are tracked at most: as many as tokens are remembered (`xds`), some 200 bytes each, so 3.2 MB. The end of a further one is noticed when its token
/// is reviewed again.
const MOST: usize = 16_384;

/// Namespaces that are watched one by one, each over a connection of its own; with Pods in more, the Pods of all namespaces are watched together.
const ONE_BY_ONE: usize = 32;

/// Pods that are looked for at the same time: at 5 ms each 6,400 in a second.
const AT_ONCE: usize = 32;

/// Objects in a page of a list: 1,000 of 2 KB are 2 MB.
const PAGE: u32 = 1000;

/// Duration of a watch that is requested, in seconds; and the silence after which one is taken for dead.
const WATCH: u32 = 240;
const SILENCE: Duration = Duration::from_secs(270);

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

/// Becomes `true` once a Pod is gone. The Pod is tracked until this is dropped.
pub type Gone = Arc<watch::Sender<bool>>;

/// See the module. A clone is the same.
#[derive(Clone, Default)]
pub struct Presence(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// A further Pod is tracked.
    added: Notify,
}

#[derive(Default)]
struct State {
    /// By the uid.
    tracked: HashMap<Arc<str>, Tracked>,
    /// Uids of the Pods that watches show, by the namespace that is watched; empty is all of them.
    shown: BTreeMap<Arc<str>, HashSet<Arc<str>>>,
}

struct Tracked {
    pod: PodId,
    gone: Weak<watch::Sender<bool>>,
    since: Instant,
}

impl Presence {
    /// Tracks a Pod that was there a moment ago, until the result is dropped.
    #[must_use]
    pub fn track(&self, pod: &PodId) -> Gone {
        let mut state = self.state();
        if let Some(known) = state.tracked.get(&pod.uid).and_then(|tracked| tracked.gone.upgrade()) {
            return known;
        }
        let gone: Gone = Arc::new(watch::Sender::new(false));
        if state.tracked.len() >= MOST {
            state.tracked.retain(|_, tracked| tracked.gone.strong_count() > 0);
        }
        if state.tracked.len() < MOST {
            let tracked = Tracked { pod: pod.clone(), gone: Arc::downgrade(&gone), since: Instant::now() };
            state.tracked.insert(Arc::clone(&pod.uid), tracked);
            self.0.added.notify_one();
        }
        gone
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
        let shown = |namespace: &str, uid: &str| state.shown.get(namespace).is_some_and(|shown| shown.contains(uid));
        let is_shown = |pod: &PodId| shown(&pod.namespace, &pod.uid) || shown("", &pod.uid);
        let old = state.tracked.values().filter(|tracked| tracked.since <= before);
        old.map(|tracked| &tracked.pod).filter(|pod| !is_shown(pod)).cloned().collect()
    }

    /// Notes that a Pod is gone.
    fn end(&self, uid: &str) {
        let tracked = self.state().tracked.remove(uid);
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
            if is_gone(&client, &pod).await {
                presence.end(&pod.uid);
            }
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

/// Returns true if the API server has no such Pod. One that cannot be looked up counts as there.
async fn is_gone(client: &Client, pod: &PodId) -> bool {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    // The right is to list; to get a single object is another right.
    let this = ListParams::default().fields(&format!("metadata.name={}", pod.name));
    match pods.list_metadata(&this).await {
        Ok(found) => !found.items.iter().any(|found| found.metadata.uid.as_deref() == Some(&*pod.uid)),
        Err(error) => {
            debug!(error = causes(&error), "it cannot be said whether a Pod is there");
            false
        }
    }
}

/// Lists and watches the Pods of a namespace, or of all, for ever.
async fn watch_pods(presence: Presence, client: Client, namespace: Arc<str>, tempo: PresenceTiming) {
    let pods: Api<Pod> = match &*namespace {
        "" => Api::all(client),
        name => Api::namespaced(client, name),
    };
    let (mut trouble, mut pause) = (None, tempo.retry);
    loop {
        match list_and_watch(&presence, &pods, &namespace, &mut trouble).await {
            Ok(()) => pause = tempo.retry,
            Err(error) => {
                let words = causes(&error);
                if trouble.as_ref() != Some(&words) {
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

async fn list_and_watch(
    presence: &Presence,
    pods: &Api<Pod>,
    namespace: &Arc<str>,
    trouble: &mut Option<String>,
) -> Result<(), kube::Error> {
    let began = Instant::now();
    let (mut uids, mut next, mut version) = (HashSet::new(), None::<String>, String::new());
    loop {
        let page = ListParams { limit: Some(PAGE), continue_token: next.take(), ..ListParams::default() };
        let page = pods.list_metadata(&page).await?;
        uids.extend(page.items.iter().filter_map(uid));
        version = page.metadata.resource_version.unwrap_or(version);
        next = page.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() {
            break;
        }
    }
    presence.listed(namespace, uids, began).iter().for_each(|uid| presence.end(uid));
    *trouble = None;
    let how = WatchParams::default().timeout(WATCH);
    let mut events = pods.watch_metadata(&how, &version).await?.boxed();
    loop {
        match timeout(SILENCE, events.try_next()).await.unwrap_or(Ok(None))? {
            None | Some(WatchEvent::Error(_)) => return Ok(()),
            Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) => {
                uid(&pod).into_iter().for_each(|uid| presence.shows(namespace, uid));
            }
            Some(WatchEvent::Deleted(pod)) => {
                uid(&pod).into_iter().for_each(|uid| presence.hides(namespace, &uid));
            }
            Some(WatchEvent::Bookmark(_)) => {}
        }
    }
}

fn uid(pod: &PartialObjectMeta<Pod>) -> Option<Arc<str>> {
    pod.metadata.uid.as_deref().map(Arc::from)
}
