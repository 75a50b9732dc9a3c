//! Envoys that run from a state folder: those that a Chancery which ends leaves behind, and their end without one.

use std::time::Duration;

use ir::FleetName;
use tokio::sync::{oneshot, watch};

use super::handover;
use super::process::Process;
use super::retired::Retired;
use super::run::{Ending, Order};
use super::supervise::replace::end_unfinished;
use super::{Layout, ProxyPaths, drain};

/// An Envoy that runs.
#[derive(Debug)]
pub struct LeftEnvoy {
    /// Its Gateway.
    pub fleet: FleetName,
    /// Its process number.
    pub pid: u32,
    /// The time that its connections have to end, where its Gateway sets one.
    pub drain_timeout: Option<Duration>,
    state: State,
    home: ProxyPaths,
}

#[derive(Debug)]
enum State {
    Serving(Process),
    Draining(Retired),
}

impl LeftEnvoy {
    /// Returns the Envoys that run from a state folder, sorted by Gateway. Only the process that holds the folder's lock may ask.
    #[must_use]
    pub fn find(layout: &Layout) -> Vec<Self> {
        let mut found = Vec::new();
        for fleet in layout.known() {
            let drain_timeout = layout.last_wanted(&fleet).and_then(|infra| infra.options.drain_timeout);
            for home in layout.earlier_paths(&fleet).into_iter().chain([layout.paths(&fleet)]) {
                let retired = Retired::earlier(&home);
                let leaving = retired.iter().map(|retired| retired.process.pid).collect();
                end_unfinished(&home, &leaving);
                let serving = Process::adopt(&home, &leaving).inspect_err(
                    |error| tracing::warn!(gateway = fleet.as_str(), %error, "cannot find out which envoy runs"),
                );
                let all = retired.into_iter().map(|retired| (retired.process.pid, State::Draining(retired)));
                let all = all.chain(serving.ok().flatten().map(|process| (process.pid, State::Serving(process))));
                found.extend(all.map(|(pid, state)| {
                    let (fleet, home) = (fleet.clone(), home.clone());
                    Self { fleet, pid, drain_timeout, state, home }
                }));
            }
        }
        found
    }

    /// Returns true if it takes no new connections any more, as an earlier Chancery began to end it.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining(_))
    }

    /// Drains and ends it. Its Gateway's folder stays for the next Chancery: other clients have the token in it. Returns false if it could
    /// not be ended.
    pub async fn end(self, bound: Duration) -> bool {
        let mut retired = match self.state {
            State::Serving(process) => Retired::new(process, &self.home),
            State::Draining(retired) => retired,
        };
        let order = Order { infra: None, certain: true, datagrams: std::sync::Arc::default(), ending: Ending::Drain };
        let ((closed, _), (_no_hurry, room), (_no_change, orders)) =
            (oneshot::channel(), oneshot::channel(), watch::channel(order));
        let bound = self.drain_timeout.unwrap_or(bound);
        drain::end(&mut retired, bound, (closed, room), orders).await;
        let is_gone = super::process::start_time(self.pid).is_none();
        if is_gone {
            retired.forget();
            handover::forget(&self.home);
        }
        is_gone
    }
}
