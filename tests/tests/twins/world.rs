//! Everything that the twins share: backends, certificates, ports, and two Chanceries, one with real Envoys and one that only tells.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tests::running::Running;
use tests::wait::DEADLINE;
use tokio::sync::watch;

use super::certificates::Certificates;
use super::echo::{self, Seen};
use super::expectation::Expectation;
use super::told::Told;
use super::twin::{Ports, SHARED, Twin, Words};

/// Backends: some answer over TLS too, `guarded` only clients with a certificate of `a`.
const BACKENDS: [&str; 5] = ["v1", "v2", "v3", "v4", "guarded"];

/// Between two looks at the same fact.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// See the module. All ends with it.
pub(crate) struct World {
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    ports: Ports,
    served: Process,
    told: Process,
}

/// A twin with all its objects in full.
pub(crate) struct Ready {
    pub(crate) name: String,
    namespace: String,
    has_proxies: bool,
    steps: Vec<ReadyStep>,
}

struct ReadyStep {
    objects: Vec<(String, String)>,
    gone: Vec<String>,
    expect: Vec<String>,
}

struct Process {
    running: Running,
    statuses: watch::Receiver<Value>,
}

impl World {
    /// Starts it with all objects of all twins, as they are before their first step.
    pub(crate) async fn start(twins: Vec<Twin>) -> (Self, Vec<Ready>) {
        let certificates = Arc::new(Certificates::make());
        let seen = Arc::default();
        let mut ports = Ports::default();
        for name in BACKENDS {
            let at = echo::start(name, &seen, &certificates).await;
            for (word, port) in [("plain", at.plain), ("tls", at.tls), ("udp", at.udp)] {
                ports.set(SHARED, &format!("{name}.{word}"), port);
            }
        }
        let ready = prepare(twins, &certificates, &mut ports);
        let (served, told) = (Process::prepare(&[]), Process::prepare(&["--no-envoy"]));
        for twin in &ready {
            let text = text(&twin.steps.first().map(objects).unwrap_or_default());
            let file = format!("{}.yaml", twin.namespace);
            let is_shared = twin.namespace == SHARED;
            for process in [(&served, true), (&told, false)] {
                if is_shared || twin.has_proxies == process.1 {
                    process.0.running.write(&file, &text).unwrap();
                }
            }
        }
        let (served, told) = tokio::join!(served.start(), told.start());
        (Self { certificates, seen, ports, served, told }, ready)
    }

    /// Does a twin's steps, and looks after each whether all is as it should be: each line until it holds, then all of them at once
    /// but those that ask many times as it is.
    pub(crate) async fn play(&self, twin: &Ready) -> Result<(), String> {
        let process = if twin.has_proxies { &self.served } else { &self.told };
        let mut now = BTreeMap::new();
        for (number, step) in twin.steps.iter().enumerate() {
            now.extend(objects(step));
            step.gone.iter().for_each(|key| assert!(now.remove(key).is_some(), "{}: there is no {key}", twin.name));
            if number > 0 {
                process.running.write(&format!("{}.yaml", twin.namespace), &text(&now)).unwrap();
            }
            for line in &step.expect {
                let mut last = String::new();
                let waiting = self.until(twin, process, line, &mut last);
                let in_time = tokio::time::timeout(DEADLINE, waiting).await;
                in_time.map_err(|_| format!("step {number}: {line}\n    {last}"))?;
            }
            for line in step.expect.iter().filter(|line| !Expectation::is_many(line)) {
                let now = self.check(twin, process, line).await;
                now.map_err(|wrong| format!("step {number}, after it held: {line}\n    {wrong}"))?;
            }
        }
        Ok(())
    }

    /// Waits until a line holds, and keeps what was wrong the last time.
    async fn until(&self, twin: &Ready, process: &Process, line: &str, last: &mut String) {
        let mut statuses = process.statuses.clone();
        loop {
            statuses.mark_unchanged();
            match self.check(twin, process, line).await {
                Ok(()) => return,
                Err(wrong) => *last = wrong,
            }
            if Told::read(line).is_none() || statuses.changed().await.is_err() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    async fn check(&self, twin: &Ready, process: &Process, line: &str) -> Result<(), String> {
        if let Some(told) = Told::read(line) {
            return told.check(&process.statuses.borrow(), &twin.namespace);
        }
        Expectation::read(line, |word| self.ports.get(&twin.namespace, word)).check(self).await
    }
}

impl Process {
    fn prepare(more: &[&str]) -> Self {
        let running = Running::prepare().unwrap();
        let file = status_file(&running);
        let running = running.with(&["--status-file", file.to_str().unwrap()]).with(more);
        Self { running, statuses: watch::channel(Value::Null).1 }
    }

    async fn start(mut self) -> Self {
        self.running.begin().unwrap();
        let started = tokio::task::spawn_blocking(move || {
            self.running.until_ready().unwrap();
            self
        });
        let mut process = started.await.unwrap();
        let (tell, statuses) = watch::channel(Value::Null);
        process.statuses = statuses;
        tokio::spawn(follow(status_file(&process.running), tell));
        process
    }
}

fn status_file(running: &Running) -> PathBuf {
    running.conf().with_file_name("status.json")
}

/// Hands on what the file says whenever it is another one, for as long as anybody listens.
async fn follow(file: PathBuf, tell: watch::Sender<Value>) {
    let mut last = None;
    while !tell.is_closed() {
        // It is renamed into its place, so that another file is another one.
        let now = std::fs::metadata(&file).ok().map(|file| (file.ino(), file.modified().ok()));
        if now != last
            && let Ok(statuses) = serde_json::from_slice(&std::fs::read(&file).unwrap_or_default())
        {
            tell.send_replace(statuses);
            last = now;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The objects in full; those that twins share have the listeners of all of them.
fn prepare(mut twins: Vec<Twin>, certificates: &Certificates, ports: &mut Ports) -> Vec<Ready> {
    // Their words hold for all others.
    twins.sort_by_key(|twin| twin.namespace() != SHARED);
    let mut listeners: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut ready: Vec<Ready> = twins
        .into_iter()
        .map(|twin| {
            let namespace = twin.namespace();
            let mut words = Words { namespace: &namespace, certificates, ports };
            for (gateway, own) in &twin.listeners {
                let own = words.object("Gateway x", &serde_json::json!({ "listeners": own }));
                let own = own["spec"]["listeners"].as_array().unwrap().clone();
                listeners.entry(format!("Gateway {gateway}")).or_default().extend(own);
            }
            let mut services = twin.services();
            let mut full = |objects: Vec<(String, Value)>| {
                let whole = |(key, short): (String, Value)| {
                    let text = words.object(&key, &short).to_string();
                    (key, text)
                };
                objects.into_iter().map(whole).collect()
            };
            let steps = twin.steps.into_iter().map(|mut step| {
                step.objects.append(&mut services);
                ReadyStep { objects: full(step.objects), gone: step.gone, expect: step.expect }
            });
            let steps = steps.collect();
            Ready { name: twin.name, has_proxies: twin.has_proxies, steps, namespace }
        })
        .collect();
    let shared = ready.iter_mut().filter(|twin| twin.namespace == SHARED).flat_map(|twin| &mut twin.steps);
    for (key, text) in shared.flat_map(|step| &mut step.objects) {
        let Some(more) = listeners.remove(key) else { continue };
        let mut gateway: Value = serde_json::from_str(text).unwrap();
        gateway["spec"]["listeners"].as_array_mut().unwrap().extend(more);
        *text = gateway.to_string();
    }
    assert!(listeners.is_empty(), "{listeners:?} of no shared Gateway");
    ready
}

fn objects(step: &ReadyStep) -> BTreeMap<String, String> {
    step.objects.iter().cloned().collect()
}

fn text(objects: &BTreeMap<String, String>) -> String {
    objects.values().map(String::as_str).collect::<Vec<_>>().join("\n---\n")
}
