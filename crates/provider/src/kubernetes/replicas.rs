//! What replicas tell the one that leads, through objects of the API server: each has a `ConfigMap`, and who leads reads those of all.
//!
//! It is little: a replica writes when something has changed that the leader cannot see itself, and every ten seconds to say that it
//! is still there. One that has said nothing for half a minute, by the leader's own clock, counts as gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use xxhash_rust::xxh3::xxh3_128;

use crate::kubernetes::call::causes;

use budget::WriteBudget;
pub use budget::WriteLimits;

mod budget;
#[cfg(test)]
mod tests;

/// Texts by name, which is one line.
pub type Said = BTreeMap<String, String>;

/// What each replica says.
pub type Heard = BTreeMap<Arc<str>, Arc<Said>>;

/// The label of what replicas say; its value is the name of their lease, which tells installations of one namespace apart.
const LABEL: &str = "chancery.io/replica-of";

/// Where it says who; and how often it has said something.
const REPLICA: &str = "chancery.io/replica-name";
const TIMES: &str = "chancery.io/times";

/// What an object may hold, in bytes; etcd takes 1.5 MB. With some 200 bytes for a fleet it is what 4,500 Gateways need. Where all need more, the largest are
/// shortened to [`share`].
const MOST: usize = 900_000;

/// A key, and the end of a name's line.
const AROUND: usize = 33;

/// How long a watch is asked to last, in seconds; and when one that says nothing, not even that it ends, is taken for dead.
const WATCH: u32 = 60;
const SILENCE: Duration = Duration::from_secs(75);

/// Who takes part.
#[derive(Clone)]
pub struct Exchange {
    /// The API server.
    pub client: Client,
    /// The namespace of the replicas.
    pub namespace: Arc<str>,
    /// The name of the lease that one of them holds: what only those share who belong together.
    pub lease: Arc<str>,
    /// This replica: what its object is called by, so that a restart finds it again.
    pub replica: Arc<str>,
    /// The Pod with which its object goes: its name and its uid.
    pub pod: Option<(String, String)>,
    /// How long to wait for what.
    pub tempo: Tempo,
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tempo {
    /// So long changes are gathered.
    pub gather: Duration,
    /// Who has nothing to say says that it is there.
    pub renew: Duration,
    /// Who has said nothing for so long is gone.
    pub gone: Duration,
    /// After a failure.
    pub retry: Duration,
    /// How long an answer may take.
    pub answer: Duration,
    /// Bounds of what is written in a time.
    pub writes: WriteLimits,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(50),
            renew: Duration::from_secs(10),
            gone: Duration::from_secs(30),
            retry: Duration::from_secs(1),
            answer: Duration::from_secs(10),
            writes: WriteLimits::default(),
        }
    }
}

impl Exchange {
    fn objects(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn name(&self) -> String {
        format!("{}-says", self.replica)
    }

    fn object(&self, said: &Said, times: u64) -> ConfigMap {
        let owner = |(name, uid): &(String, String)| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: name.clone(),
            uid: uid.clone(),
            ..OwnerReference::default()
        };
        let annotations = [(REPLICA.to_owned(), self.replica.to_string()), (TIMES.to_owned(), times.to_string())];
        let labels = [
            ("app.kubernetes.io/managed-by".to_owned(), "chancery".to_owned()),
            (LABEL.to_owned(), self.lease.to_string()),
        ];
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name()),
                labels: Some(labels.into()),
                annotations: Some(annotations.into()),
                owner_references: self.pod.as_ref().map(|pod| vec![owner(pod)]),
                ..ObjectMeta::default()
            },
            data: Some(data(said)),
            ..ConfigMap::default()
        }
    }

    async fn write(&self, said: &Said, times: u64) -> Result<(), String> {
        let (objects, name, object) = (self.objects(), self.name(), self.object(said, times));
        let how = PatchParams::apply("chancery-replica").force();
        let written = timeout(self.tempo.answer, objects.patch(&name, &how, &Patch::Apply(&object))).await;
        written.map_err(|_| "no answer in time".to_owned())?.map(drop).map_err(|error| causes(&error))
    }

    /// Takes back what was said: who leads says nothing.
    async fn take_back(&self) {
        let (objects, name) = (self.objects(), self.name());
        let _goes_with_the_pod = timeout(self.tempo.answer, objects.delete(&name, &DeleteParams::default())).await;
    }
}

/// The data of an object. Its keys have no room for every name: they tell names apart, and names stand before their texts.
fn data(said: &Said) -> BTreeMap<String, String> {
    said.iter().map(|(name, text)| (format!("{:032x}", xxh3_128(name.as_bytes())), format!("{name}\n{text}"))).collect()
}

/// What stands in the data of an object.
fn said(data: BTreeMap<String, String>) -> Said {
    let pairs = data.values().filter_map(|value| value.split_once('\n'));
    pairs.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Returns the bytes of a name and its text in an object.
fn size(name: &str, text: &str) -> usize {
    AROUND + name.len() + text.len()
}

/// Returns the most bytes that the name and the text of a fleet may have, so that those of all fit into an object: what smaller ones leave is shared by the larger ones.
#[must_use]
pub fn share<'a>(said: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let mut sizes: Vec<usize> = said.map(|(name, text)| size(name, text)).collect();
    sizes.sort_unstable();
    let (mut room, mut rest) = (MOST, sizes.len());
    for size in sizes {
        let share = room / rest.max(1);
        if size > share {
            return share.saturating_sub(AROUND);
        }
        room -= size;
        rest -= 1;
    }
    MOST
}

/// Returns what fits, the smallest texts first, and its size: a large one takes no room of another.
fn bounded(said: &Said) -> (Said, usize) {
    let mut by_size: Vec<(usize, &String, &String)> =
        said.iter().map(|(name, text)| (size(name, text), name, text)).collect();
    by_size.sort_unstable();
    let (mut fitting, mut all) = (Said::new(), 0);
    for (size, name, text) in by_size {
        if all + size > MOST {
            break;
        }
        all += size;
        fitting.insert(name.clone(), text.clone());
    }
    (fitting, all)
}

/// Says what there is to say, while another replica leads, until `stop`.
pub async fn tell(
    exchange: Exchange,
    mut said: watch::Receiver<Arc<Said>>,
    mut leading: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    let (mut times, mut trouble, mut omitted) = (0, None, 0);
    let mut budget = WriteBudget::new(exchange.tempo.writes, Instant::now());
    loop {
        if *leading.borrow_and_update() {
            exchange.take_back().await;
            tokio::select! {
                () = stop.cancelled() => return,
                changed = leading.wait_for(|leads| !leads) => if changed.is_err() { return },
            }
        }
        let size = bounded(&said.borrow()).1;
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(budget.wait(size, Instant::now())) => {}
            changed = leading.changed() => if changed.is_err() { return } else { continue },
        }
        times += 1;
        let now = Arc::clone(&said.borrow_and_update());
        let (fitting, size) = bounded(&now);
        warn_of_omitted(now.len() - fitting.len(), &mut omitted);
        budget.take(size, Instant::now());
        let pause = match exchange.write(&fitting, times).await {
            Ok(()) => {
                trouble = None;
                exchange.tempo.renew
            }
            Err(words) => {
                if trouble.as_ref() != Some(&words) {
                    warn!("the replica that leads is not told of the proxies that are connected here: {words}");
                }
                trouble = Some(words);
                exchange.tempo.retry
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
            changed = leading.changed() => if changed.is_err() { return },
            changed = said.changed(), if trouble.is_none() => {
                if changed.is_err() {
                    return;
                }
                sleep(exchange.tempo.gather).await;
            }
        }
    }
}

/// Warns where fleets are left out, once for each number of them.
fn warn_of_omitted(now: usize, before: &mut usize) {
    if std::mem::replace(before, now) < now {
        warn!(
            gateways = now,
            "the replica that leads does not learn what the proxies of these Gateways use, because the object of this replica has no room for it: their statuses may be late; \
             reduce the number of Gateways or of replicas"
        );
    }
}

/// Hears what the others say, while this replica leads, until `stop`.
pub async fn hear(
    exchange: Exchange,
    heard: watch::Sender<Arc<Heard>>,
    mut leading: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            leads = leading.wait_for(|leads| *leads) => if leads.is_err() { return },
        }
        let mut ear = Ear { exchange: &exchange, heard: &heard, known: BTreeMap::new() };
        tokio::select! {
            () = stop.cancelled() => return,
            leads = leading.wait_for(|leads| !*leads) => if leads.is_err() { return },
            () = ear.listen() => {}
        }
        heard.send_replace(Arc::default());
    }
}

/// Who listens.
struct Ear<'a> {
    exchange: &'a Exchange,
    heard: &'a watch::Sender<Arc<Heard>>,
    /// What each says, and until when that counts.
    known: BTreeMap<Arc<str>, (Arc<Said>, Instant)>,
}

impl Ear<'_> {
    /// For ever.
    async fn listen(&mut self) {
        loop {
            if let Err(error) = self.follow().await {
                debug!(error = causes(&error), "what replicas say cannot be watched");
                sleep(self.exchange.tempo.retry).await;
            }
        }
    }

    /// Lists and watches as long as that goes.
    async fn follow(&mut self) -> Result<(), kube::Error> {
        let labels = format!("{LABEL}={}", self.exchange.lease);
        let objects = self.exchange.objects();
        let list = objects.list(&ListParams::default().labels(&labels)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let there: Vec<Arc<str>> = list.items.iter().filter_map(replica).collect();
        self.known.retain(|replica, _| there.contains(replica));
        list.items.into_iter().for_each(|object| self.note(object));
        self.tell();
        let how = WatchParams::default().labels(&labels).timeout(WATCH);
        let mut events = objects.watch(&how, &version).await?.boxed();
        loop {
            let next_gone = self.known.values().map(|(_, until)| *until).min();
            tokio::select! {
                event = timeout(SILENCE, events.try_next()) => match event.unwrap_or(Ok(None))? {
                    None | Some(WatchEvent::Error(_)) => return Ok(()),
                    Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => self.note(object),
                    Some(WatchEvent::Deleted(object)) => {
                        replica(&object).and_then(|replica| self.known.remove(&replica));
                    }
                    Some(WatchEvent::Bookmark(_)) => {}
                },
                () = sleep_until(next_gone.unwrap_or_else(Instant::now)), if next_gone.is_some() => {}
            }
            let now = Instant::now();
            self.known.retain(|_, (_, until)| now < *until);
            self.tell();
        }
    }

    fn note(&mut self, object: ConfigMap) {
        let Some(replica) = replica(&object).filter(|replica| *replica != self.exchange.replica) else { return };
        let said = said(object.data.unwrap_or_default());
        let until = Instant::now() + self.exchange.tempo.gone;
        match self.known.get_mut(&replica) {
            Some((known, counts)) if **known == said => *counts = until,
            _ => drop(self.known.insert(replica, (Arc::new(said), until))),
        }
    }

    fn tell(&self) {
        let now: Heard =
            self.known.iter().map(|(replica, (said, _))| (Arc::clone(replica), Arc::clone(said))).collect();
        let same = |old: &Heard| {
            let alike =
                |(a, one): (&Arc<str>, &Arc<Said>), (b, two): (&Arc<str>, &Arc<Said>)| a == b && Arc::ptr_eq(one, two);
            old.len() == now.len() && old.iter().zip(&now).all(|(one, two)| alike(one, two))
        };
        self.heard.send_if_modified(|old| {
            let changed = !same(old);
            if changed {
                *old = Arc::new(now.clone());
            }
            changed
        });
    }
}

/// Whose an object is.
fn replica(object: &ConfigMap) -> Option<Arc<str>> {
    object.metadata.annotations.as_ref()?.get(REPLICA).map(|name| name.as_str().into())
}
