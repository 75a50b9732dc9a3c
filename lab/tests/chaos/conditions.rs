//! What statuses say while something happens: nothing that was well may be unwell in between.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tests::wait;
use tokio_util::sync::CancellationToken;

use crate::inside::{client, enter};

/// What is true of something that is well.
const GOOD: [&str; 3] = ["Accepted", "Programmed", "ResolvedRefs"];

/// Listeners that tests take away.
const PASSING: &str = ", listener \"more-";

/// Kinds and their plurals.
const WATCHED: [(&str, &str); 2] = [("Gateway", "gateways"), ("HTTPRoute", "httproutes")];

/// Follows the statuses of a namespace until it is dropped.
pub(crate) struct Conditions {
    seen: Arc<Mutex<Seen>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// What objects said last, and what became worse.
struct Seen {
    began: Instant,
    /// By object: the value of each thing that it told.
    last: BTreeMap<String, BTreeMap<String, Told>>,
    worse: Vec<String>,
    /// How many watches have listed everything.
    listed: usize,
    /// The version of each object that was seen last.
    versions: BTreeMap<String, u64>,
}

/// A value, and how good it is.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    rank: i64,
    text: String,
}

impl Conditions {
    /// With the kubeconfig of the lab whose state folder this is. Waits until everything was seen once.
    pub(crate) fn follow(lab: &Path, kubeconfig: String, namespace: &'static str) -> Self {
        let seen = Seen {
            began: Instant::now(),
            last: BTreeMap::new(),
            worse: Vec::new(),
            listed: 0,
            versions: BTreeMap::new(),
        };
        let (seen, stop) = (Arc::new(Mutex::new(seen)), CancellationToken::new());
        let (noting, until, lab) = (Arc::clone(&seen), stop.clone(), lab.to_owned());
        let thread = std::thread::spawn(move || {
            enter(&lab);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let following = async {
                let client = client(&kubeconfig, None).await;
                let [gateways, routes] = WATCHED;
                tokio::join!(note(&client, namespace, gateways, &noting), note(&client, namespace, routes, &noting));
            };
            runtime.block_on(async {
                tokio::select! { () = following => {}, () = until.cancelled() => {} }
            });
        });
        let conditions = Self { seen, stop, thread: Some(thread) };
        wait::until("everything was seen once", || (conditions.seen().listed >= WATCHED.len()).then_some(())).unwrap();
        conditions
    }

    /// What became worse until these objects, each by kind and name, had these versions or later ones, in order.
    pub(crate) fn worse(&self, until: &BTreeMap<String, u64>) -> Vec<String> {
        let reached = |(name, version): (&String, &u64)| self.seen().versions.get(name) >= Some(version);
        wait::until("the last versions were seen", || until.iter().all(reached).then_some(())).unwrap();
        self.seen().worse.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Conditions {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

async fn note(client: &Client, namespace: &str, (kind, plural): (&str, &str), seen: &Mutex<Seen>) {
    let resource = ApiResource {
        group: "gateway.networking.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "gateway.networking.k8s.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut events = std::pin::pin!(watcher(objects, watcher::Config::default()));
    while let Some(event) = events.next().await {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |object: &DynamicObject| format!("{kind} {}", object.metadata.name.as_deref().unwrap_or_default());
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let (name, version) =
                    (name(&object), object.metadata.resource_version.as_deref().unwrap().parse().unwrap());
                seen.object(&name, &object.data["status"]);
                seen.versions.insert(name, version);
            }
            Ok(Event::Delete(object)) => drop(seen.last.remove(&name(&object))),
            Ok(Event::InitDone) => seen.listed += 1,
            Ok(Event::Init) => {}
            // while the server is away there are errors, and nothing is told
            Err(_) => {
                drop(seen);
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
        }
    }
}

impl Seen {
    fn object(&mut self, name: &str, status: &Value) {
        let now = told(name, status);
        let before = self.last.insert(name.to_owned(), now.clone()).unwrap_or_default();
        let at = self.began.elapsed().as_secs_f64();
        for (what, before) in before {
            let now = now.get(&what);
            if now.is_none() && what.contains(PASSING) {
                continue;
            }
            if now.is_none_or(|now| now.rank < before.rank) {
                let now = now.map_or("nothing", |now| &now.text);
                self.worse.push(format!("{at:.1} s: {what}: {} became {now}", before.text));
            }
        }
    }
}

/// Each thing that a status tells.
fn told(name: &str, status: &Value) -> BTreeMap<String, Told> {
    let count = |what: String, count: i64| (what, Told { rank: count, text: count.to_string() });
    let all = |list: &str| status[list].as_array().cloned().unwrap_or_default();
    let mut told: BTreeMap<_, _> = conditions(name, status).collect();
    for listener in all("listeners") {
        let name = format!("{name}, listener {}", listener["name"]);
        told.extend(conditions(&name, &listener));
        let routes = listener["attachedRoutes"].as_i64().unwrap_or_default();
        told.extend([count(format!("{name}: attachedRoutes"), routes)]);
    }
    for parent in all("parents") {
        told.extend(conditions(&format!("{name} of {}", parent["parentRef"]["name"]), &parent));
    }
    let addresses = all("addresses").len();
    told.extend([count(format!("{name}: addresses"), i64::try_from(addresses).unwrap())]);
    told
}

fn conditions(name: &str, of: &Value) -> impl Iterator<Item = (String, Told)> {
    let conditions = of["conditions"].as_array().cloned().unwrap_or_default().into_iter();
    let good = conditions.filter(|condition| GOOD.contains(&condition["type"].as_str().unwrap_or_default()));
    good.map(move |condition| {
        let rank = i64::from(condition["status"] == "True");
        let text = format!("{} {} {}", condition["status"], condition["reason"], condition["message"]);
        (format!("{name}: {}", condition["type"]), Told { rank, text })
    })
}
