//! Tests of the Kubernetes provider, from outside: a server that speaks HTTP, and what comes out of [`follow`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use store::Change;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::*;
use mock::Mock;

mod batches;
mod failing;
mod following;
mod kinds;
mod mock;
mod named;
mod property;
mod scopes;
mod starting;

/// How long a fact may take to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

const CONTROLLER: &str = "example.org/ours";

/// Everything at once where the default waits for seconds.
fn pace() -> Pace {
    Pace {
        retry_first: Duration::from_millis(2),
        retry_last: Duration::from_millis(20),
        look: Duration::from_millis(50),
        missing: Duration::from_millis(20),
        ..Pace::default()
    }
}

/// A server, and somebody who follows it.
struct World {
    mock: Mock,
    batches: mpsc::Receiver<Batch>,
    observed: Observed,
    state: State,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), Error>>,
}

/// What has been handed on: objects by name with their label `v`, and what is wrong.
#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, String>,
    problems: BTreeMap<String, Vec<String>>,
    rejected: BTreeMap<String, Arc<store::Rejected>>,
    /// Policies of which there is a remnant.
    remnants: BTreeSet<String>,
    listed: bool,
    /// How often objects were handed on.
    applied: usize,
    /// Objects of [`permit`], which count for nothing else.
    permitting: BTreeSet<String>,
}

impl State {
    fn apply(&mut self, batch: Batch) {
        assert_eq!(batch.source, store::Source::Kubernetes);
        assert!(batch.listed || !self.listed, "what was listed stays listed");
        self.listed = batch.listed;
        for change in batch.changes {
            match change {
                Change::Apply(object, origin) => {
                    assert_eq!(origin.to_string(), "Kubernetes");
                    let version = object.meta().labels.get("v").unwrap_or("-").to_owned();
                    if version == PERMITTING {
                        self.permitting.insert(object.key().to_string());
                        continue;
                    }
                    self.objects.insert(object.key().to_string(), version);
                    match object.is_remnant() {
                        true => self.remnants.insert(object.key().to_string()),
                        false => self.remnants.remove(&object.key().to_string()),
                    };
                    self.applied += 1;
                }
                Change::Delete(key) if self.permitting.remove(&key.to_string()) => {}
                Change::Delete(key) => {
                    assert!(self.objects.remove(&key.to_string()).is_some(), "deleted without being there: {key}");
                }
                Change::SocketPath(..) => panic!("a cluster has no sockets of this machine"),
                Change::Reject(key, Some(rejected)) => {
                    self.rejected.insert(key.to_string(), rejected);
                }
                Change::Reject(key, None) => {
                    assert!(self.rejected.remove(&key.to_string()).is_some(), "not rejected before: {key}");
                }
                Change::Definitions(_) => {}
                Change::Problems { origin, problems } if problems.is_empty() => {
                    assert!(self.problems.remove(&*origin).is_some(), "nothing was wrong at {origin}");
                }
                Change::Problems { origin, problems } => {
                    self.problems.insert(origin.to_string(), problems.iter().map(ToString::to_string).collect());
                }
            }
        }
    }

    fn has(&self, key: &str) -> bool {
        self.objects.contains_key(key)
    }

    /// Whether something with this text is wrong.
    fn says(&self, text: &str) -> bool {
        self.problems.values().flatten().any(|problem| problem.contains(text))
    }
}

impl World {
    /// Follows a server that is as `prepare` made it.
    async fn new(prepare: impl FnOnce(&Mock)) -> Self {
        Self::with(Scope::All, pace(), prepare).await
    }

    async fn with(scope: Scope, pace: Pace, prepare: impl FnOnce(&Mock)) -> Self {
        let mock = Mock::start().await;
        permit(&mock);
        prepare(&mock);
        let (sender, batches) = mpsc::channel(1);
        let (observed, stop) = (Observed::new(CONTROLLER), CancellationToken::new());
        let options = Options { client: mock.client(), scope, observed: observed.clone(), pace };
        let sink = move |batch| {
            let sender = sender.clone();
            async move {
                match sender.send(batch).await {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            }
        };
        let task = tokio::spawn(follow(options, sink, stop.clone()));
        Self { mock, batches, observed, state: State::default(), stop, task }
    }

    /// Waits until something holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds(&self.state) {
            match timeout_at(deadline, self.batches.recv()).await {
                Ok(Some(batch)) => self.state.apply(batch),
                Ok(None) => panic!("it ended while waiting until {what}: {:?}", self.task),
                Err(_) => panic!("it never was so that {what}: {:#?}\n{:#?}", self.state, self.mock.last_requests()),
            }
        }
    }

    async fn listed(&mut self) {
        self.until("all is listed", |state| state.listed).await;
    }

    /// Waits until everything that happened until now was handed on.
    async fn settled(&mut self) {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let mark = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        self.mock.put(Kind::Service, service("marks", "mark", &mark));
        self.mock.put(Kind::HttpRoute, route("marks", "mark", &mark));
        for name in ["Service marks/mark", "HTTPRoute marks/mark"] {
            self.until("the mark is there", |state| state.objects.get(name) == Some(&mark)).await;
        }
    }

    /// Waits for something that the server is asked.
    async fn asked(&mut self, part: &str, times: usize) {
        let deadline = Instant::now() + DEADLINE;
        while self.mock.asked(part) < times {
            assert!(Instant::now() < deadline, "never asked for {part}: {:#?}", self.mock.last_requests());
            // Nothing tells of requests; what comes meanwhile is taken, so that nobody waits for us.
            let soon = Instant::now() + Duration::from_millis(2);
            if let Ok(Some(batch)) = timeout_at(soon, self.batches.recv()).await {
                self.state.apply(batch);
            }
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// An object without a spec; `version` is its label `v`.
fn object(namespace: &str, name: &str, version: &str) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name, "labels": { "v": version } } })
}

/// A namespace with one label more.
fn namespace(name: &str, label: (&str, &str)) -> Value {
    json!({ "metadata": { "name": name, "labels": { label.0: label.1 } } })
}

fn class(name: &str, version: &str) -> Value {
    let mut class = json!({ "metadata": { "name": name, "labels": { "v": version } } });
    class["spec"] = json!({ "controllerName": CONTROLLER });
    class
}

fn service(namespace: &str, name: &str, version: &str) -> Value {
    let mut service = object(namespace, name, version);
    service["spec"] = json!({ "ports": [{ "port": 80 }] });
    service
}

fn route(namespace: &str, name: &str, version: &str) -> Value {
    let mut route = object(namespace, name, version);
    route["spec"] = json!({ "rules": [{ "backendRefs": [{ "name": "b", "port": 80 }] }] });
    route
}

/// The version of objects of [`permit`].
const PERMITTING: &str = "permitting";

/// Makes the class one of this controller, and lets its Gateways name Secrets elsewhere.
fn permit(mock: &Mock) {
    mock.put(Kind::GatewayClass, class("ours", PERMITTING));
    for namespace in ["certs", "one", "two"] {
        mock.put(Kind::ReferenceGrant, grant(namespace, PERMITTING));
    }
}

/// Lets Gateways of `infra` and `always` name Secrets of this namespace.
fn grant(namespace: &str, version: &str) -> Value {
    let mut grant = object(namespace, "permit", version);
    let from = ["infra", "always"]
        .map(|namespace| json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": namespace }));
    grant["spec"] = json!({ "from": from, "to": [{ "group": "", "kind": "Secret" }] });
    grant
}

/// A Gateway that names these Secrets, each as `namespace/name`.
fn gateway(name: &str, secrets: &[&str]) -> Value {
    let references: Vec<Value> = secrets
        .iter()
        .filter_map(|secret| secret.split_once('/'))
        .map(|(namespace, name)| json!({ "namespace": namespace, "name": name }))
        .collect();
    let mut listeners = vec![json!({ "name": "plain", "port": 80, "protocol": "HTTP" })];
    for (index, references) in references.chunks(60).enumerate() {
        let tls = json!({ "certificateRefs": references });
        listeners.push(json!({ "name": format!("l{index}"), "port": 443 + index, "protocol": "HTTPS", "tls": tls }));
    }
    let mut gateway = object("infra", name, "1");
    gateway["spec"] = json!({ "gatewayClassName": "ours", "listeners": listeners });
    gateway
}

fn secret(namespace: &str, name: &str, version: &str) -> Value {
    let mut secret = object(namespace, name, version);
    secret["data"] = json!({ "k": "eA==" });
    secret
}
