//! A lab of a test's own, or one that tests share, and namespaces in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::Value;
use tempfile::TempDir;
use tests::wait;

/// A lab, until it is dropped.
pub(crate) struct Lab {
    folder: TempDir,
}

impl Lab {
    /// One that nobody else uses. Any program will do for Chancery's image.
    pub(crate) fn own() -> Self {
        Self::with(Path::new("/usr/bin/id"))
    }

    /// One whose pods of Chancery's image run this program.
    pub(crate) fn with(chancery: &Path) -> Self {
        let lab = Self { folder: tempfile::tempdir().unwrap() };
        let up = lab.command("up").arg("--chancery").arg(chancery).output().unwrap();
        assert!(up.status.success(), "lab up: {}", text(&up));
        lab
    }

    /// The one that tests share: the first starts it, the last ends it.
    pub(crate) fn shared() -> Arc<Self> {
        Self::shared_as(Self::own)
    }

    /// The same, of another make: one for all tests of a program.
    pub(crate) fn shared_as(make: impl FnOnce() -> Self) -> Arc<Self> {
        static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
        Self::shared_at(&SHARED, make)
    }

    /// The same, at a place of its own: beside that of all tests there can be one of other settings.
    pub(crate) fn shared_at(place: &Mutex<Weak<Self>>, make: impl FnOnce() -> Self) -> Arc<Self> {
        let mut shared = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lab) = shared.upgrade() {
            return lab;
        }
        let lab = Arc::new(make());
        *shared = Arc::downgrade(&lab);
        lab
    }

    /// The program, on a state folder.
    pub(crate) fn at(state: &Path, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
        command.arg("--state").arg(state).arg(verb).stdin(Stdio::null());
        command
    }

    pub(crate) fn command(&self, verb: &str) -> Command {
        Self::at(&self.state(), verb)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("lab")
    }

    /// Runs a verb that has to go well.
    pub(crate) fn verb(&self, words: &[&str]) -> String {
        let (verb, rest) = words.split_first().unwrap();
        let output = self.command(verb).args(rest).output().unwrap();
        assert!(output.status.success(), "lab {}: {}", words.join(" "), text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command inside; None if it fails.
    pub(crate) fn exec(&self, command: &[&str]) -> Option<String> {
        let output = self.command("exec").args(command).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let down = self.command("down").output().unwrap();
        assert!(down.status.success() || std::thread::panicking(), "lab down: {}", text(&down));
    }
}

/// What a program said.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A namespace of the cluster.
pub(crate) struct Namespace {
    pub(crate) lab: Arc<Lab>,
    pub(crate) name: &'static str,
}

impl Namespace {
    /// Makes it, in the lab that is shared.
    pub(crate) fn make(name: &'static str) -> Self {
        Self::make_in(Lab::shared(), name)
    }

    pub(crate) fn make_in(lab: Arc<Lab>, name: &'static str) -> Self {
        let namespace = Self { lab, name };
        namespace.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        wait::until("the ServiceAccount", || namespace.get("serviceaccount/default")).unwrap();
        namespace
    }

    fn kubectl(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command("exec");
        command.args(["kubectl", "--namespace", self.name]).args(words);
        command
    }

    /// Runs kubectl; None if it fails.
    pub(crate) fn try_run(&self, words: &[&str]) -> Option<String> {
        let output = self.kubectl(words).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs kubectl, which has to go well.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.kubectl(words).output().unwrap();
        assert!(output.status.success(), "kubectl {}: {}", words.join(" "), text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts kubectl, for what takes its time.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        self.kubectl(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Applies objects.
    pub(crate) fn apply(&self, yaml: &str) {
        let mut child =
            self.kubectl(&["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "kubectl apply: {}\n{yaml}", text(&output));
    }

    /// An object as it is now: `pod/web`.
    pub(crate) fn get(&self, object: &str) -> Option<Value> {
        serde_json::from_str(&self.try_run(&["get", object, "--output=json"])?).ok()
    }

    /// Waits until something of an object is found.
    pub(crate) fn until<T>(&self, what: &str, object: &str, find: impl Fn(&Value) -> Option<T>) -> T {
        let mut last = None;
        let found = wait::until(what, || {
            last = self.get(object);
            find(last.as_ref()?)
        });
        found.unwrap_or_else(|error| panic!("{error}: {object} is {last:#?}"))
    }

    /// Waits until a pod is in a phase.
    pub(crate) fn until_phase(&self, pod: &str, phase: &str) {
        let object = format!("pod/{pod}");
        self.until(phase, &object, |pod| (pod.pointer("/status/phase")? == phase).then_some(()));
    }

    /// Waits until a pod is ready.
    pub(crate) fn until_ready(&self, pod: &str) {
        self.until("readiness", &format!("pod/{pod}"), |pod| (condition(pod, "Ready")? == "True").then_some(()));
    }

    /// Waits until a pod has an event, and gives what it says.
    pub(crate) fn until_event(&self, pod: &str, reason: &str, contains: &str) {
        let selector = format!("involvedObject.name={pod},reason={reason}");
        let said = || {
            let events = self.try_run(&["get", "events", "--field-selector", &selector, "--output=json"])?;
            events.contains(contains).then_some(())
        };
        wait::until(&format!("the event {reason} with {contains}"), said).unwrap();
    }

    /// What a container wrote so far.
    pub(crate) fn logs(&self, pod: &str, words: &[&str]) -> String {
        self.try_run(&[&["logs", pod], words].concat()).unwrap_or_default()
    }

    /// Runs a command in a pod; None if it fails.
    pub(crate) fn enter(&self, pod: &str, command: &[&str]) -> Option<String> {
        let words = [&["--namespace", self.name, pod, "--"], command].concat();
        let output = self.lab.command("enter").args(words).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Makes a pod of one container that runs a script; what comes before `containers` and in the container is given, as YAML of one line each.
    pub(crate) fn shell(&self, pod: &str, script: &str, of_pod: &str, of_container: &str) {
        self.apply(&shell(pod, script, of_pod, of_container));
    }
}

/// A pod of one container that runs a script.
pub(crate) fn shell(pod: &str, script: &str, of_pod: &str, of_container: &str) -> String {
    let command = serde_json::to_string(&["sh", "-c", script]).unwrap();
    let more = |text: &str| if text.is_empty() { String::new() } else { format!(", {text}") };
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {pod}, labels: {{app: {pod}}}}}
spec: {{containers: [{{name: main, image: lab/machine, command: {command}{}}}]{}}}
",
        more(of_container),
        more(of_pod)
    )
}

/// The status of a pod's condition.
pub(crate) fn condition(pod: &Value, kind: &str) -> Option<String> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(found["status"].as_str()?.to_owned())
}

/// The first container's status.
pub(crate) fn main_status(pod: &Value) -> Option<&Value> {
    pod.pointer("/status/containerStatuses/0")
}
