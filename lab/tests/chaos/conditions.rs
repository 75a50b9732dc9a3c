//! What statuses say while something happens: nothing that was well may be unwell in between.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::inside::{client, enter};

/// What is true of something that is well.
const GOOD: [&str; 3] = ["Accepted", "Programmed", "ResolvedRefs"];

/// Follows the statuses of a namespace until it is dropped.
pub(crate) struct Conditions {
    seen: Arc<Mutex<Seen>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The last value of each thing that is told, and what became worse.
struct Seen {
    began: Instant,
    last: BTreeMap<String, Told>,
    worse: Vec<String>,
}

/// A value, and how good it is.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    rank: i64,
    text: String,
}

impl Conditions {
    /// With the kubeconfig of the lab whose state folder this is.
    pub(crate) fn follow(lab: &Path, kubeconfig: String, namespace: &'static str) -> Self {
        let seen = Seen { began: Instant::now(), last: BTreeMap::new(), worse: Vec::new() };
        let (seen, stop) = (Arc::new(Mutex::new(seen)), CancellationToken::new());
        let (noting, until, lab) = (Arc::clone(&seen), stop.clone(), lab.to_owned());
        let thread = std::thread::spawn(move || {
            enter(&lab);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let following = async {
                let client = client(&kubeconfig, None).await;
                tokio::join!(
                    note(&client, namespace, ("Gateway", "gateways"), &noting),
                    note(&client, namespace, ("HTTPRoute", "httproutes"), &noting)
                );
            };
            runtime.block_on(async {
                tokio::select! { () = following => {}, () = until.cancelled() => {} }
            });
        });
        Self { seen, stop, thread: Some(thread) }
    }

    /// What became worse so far, in order.
    pub(crate) fn worse(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).worse.clone()
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
        // while the server is away there are errors, and nothing is told
        if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
            let name = format!("{kind} {}", object.metadata.name.as_deref().unwrap_or_default());
            seen.lock().unwrap_or_else(PoisonError::into_inner).object(&name, &object.data["status"]);
        } else if event.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

impl Seen {
    fn object(&mut self, name: &str, status: &Value) {
        self.conditions(name, status);
        let all = |list: &str| status[list].as_array().cloned().unwrap_or_default();
        for listener in all("listeners") {
            let name = format!("{name}, listener {}", listener["name"]);
            self.conditions(&name, &listener);
            let routes = listener["attachedRoutes"].as_i64().unwrap_or_default();
            self.told(format!("{name}: attachedRoutes"), Told { rank: routes, text: routes.to_string() });
        }
        for parent in all("parents") {
            self.conditions(&format!("{name} of {}", parent["parentRef"]["name"]), &parent);
        }
        if name.starts_with("Gateway ") {
            let addresses = all("addresses").len();
            let rank = i64::try_from(addresses).unwrap();
            self.told(format!("{name}: addresses"), Told { rank, text: addresses.to_string() });
        }
    }

    fn conditions(&mut self, name: &str, of: &Value) {
        for condition in of["conditions"].as_array().into_iter().flatten() {
            let kind = condition["type"].as_str().unwrap_or_default();
            if GOOD.contains(&kind) {
                let rank = i64::from(condition["status"] == "True");
                let text = format!("{} {} {}", condition["status"], condition["reason"], condition["message"]);
                self.told(format!("{name}: {kind}"), Told { rank, text });
            }
        }
    }

    fn told(&mut self, what: String, now: Told) {
        let before = self.last.insert(what.clone(), now.clone());
        if let Some(before) = before.filter(|before| before.rank > now.rank) {
            let at = self.began.elapsed().as_secs_f64();
            self.worse.push(format!("{at:.1} s: {what}: {} became {}", before.text, now.text));
        }
    }
}
