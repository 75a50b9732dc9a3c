//! A crowd of clients in a process of its own, so that what they cost is told apart from what the server costs.

mod h2;
mod run;
mod wire;

use std::time::{Duration, Instant};

pub(crate) use run::run;
use serde_json::Value;

use crate::child::Child;
use crate::process::DEADLINE;

/// The first word of the process's command line.
pub(crate) const VERB: &str = "--crowd";

/// A running crowd.
pub(crate) struct Crowd {
    pub(crate) child: Child,
    clients: usize,
}

/// What a crowd says of itself.
pub(crate) struct Status(Value);

impl Status {
    /// The figure of this name; 0 if there is none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or_default()
    }
}

impl Crowd {
    /// So many clients that subscribe to so many endpoint sets of the server at this address; 0: to all that they hear of.
    pub(crate) fn start(address: &str, clients: usize, sets: usize) -> anyhow::Result<Self> {
        let child = Child::start(&[VERB, address, &clients.to_string(), &sets.to_string()])?;
        Ok(Self { child, clients })
    }

    /// Says something to them.
    pub(crate) fn tell(&mut self, command: &str) -> anyhow::Result<Status> {
        Ok(Status(serde_json::from_str(&self.child.ask(command)?)?))
    }

    /// Waits until all of them have everything.
    pub(crate) fn wait_synced(&mut self) -> anyhow::Result<Status> {
        let clients = self.clients as u64;
        self.wait_for("synced", |status| status.get("synced") == clients)
    }

    /// Waits until all of them have seen this event.
    pub(crate) fn wait_seen(&mut self, event: u32) -> anyhow::Result<Status> {
        self.wait_for("up to date", |status| status.get("latest") >= event.into())
    }

    /// Waits until this is true of them.
    pub(crate) fn wait_for(&mut self, what: &str, is_true: impl Fn(&Status) -> bool) -> anyhow::Result<Status> {
        let began = Instant::now();
        loop {
            let status = self.tell("status")?;
            if is_true(&status) {
                return Ok(status);
            }
            anyhow::ensure!(began.elapsed() < DEADLINE, "the clients are not {what} in time: {}", status.0);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
