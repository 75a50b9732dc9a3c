//! What the tasks of a pod know of its containers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;

/// A container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) state: State,
    /// The end of the run before.
    pub(crate) last: Option<Ended>,
    pub(crate) restarts: i32,
    /// Passed its startup probe, or has none.
    pub(crate) started: bool,
    pub(crate) ready: bool,
    pub(crate) id: String,
}

/// What a container is doing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    Waiting { reason: &'static str, message: String },
    Running { since: Timestamp },
    Ended(Ended),
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting { reason: "ContainerCreating", message: String::new() }
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub(crate) code: u8,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) began: Timestamp,
    pub(crate) finished: Timestamp,
    pub(crate) id: String,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    /// By name.
    pub(crate) containers: BTreeMap<String, Record>,
    /// The pod's namespaces and network are there.
    pub(crate) sandbox: bool,
    /// It was ended for a reason of its own: reason and message.
    pub(crate) failed: Option<(&'static str, String)>,
}

/// Facts that tell when they change.
pub(crate) struct Board {
    facts: Mutex<Facts>,
    changed: watch::Sender<()>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self { facts: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.send_replace(());
    }

    /// Changes what is known of a container.
    pub(crate) fn container(&self, name: &str, change: impl FnOnce(&mut Record)) {
        self.change(|facts| change(facts.containers.entry(name.to_owned()).or_default()));
    }

    pub(crate) fn facts(&self) -> Facts {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}
