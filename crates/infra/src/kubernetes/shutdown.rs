//! The end of a proxy in a Pod, seen from within: what runs may finish, and nothing new is lost on the way. Called by the Pod's `preStop` hook,
//! before Envoy gets its SIGTERM.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::host::{Error, admin};

/// How a proxy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// How long it goes on taking new connections while it says that it is not ready: until nobody sends any. kube-proxy learns within a
    /// second that the Pod is going, a load balancer when its next probes fail.
    pub min_drain: Duration,
    /// How long all of it may take.
    pub drain_timeout: Duration,
}

/// What there was to wait for at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing any more.
    Idle,
    /// Connections that did not end in time.
    Busy(u64),
}

/// How often Envoy is asked whether it is idle.
const ASK: Duration = Duration::from_millis(250);

/// How long an Envoy that just starts may take to answer. The first process of a container ignores a SIGTERM that it does not expect yet:
/// sent too early, it would cost the Pod's whole grace period.
const START: Duration = Duration::from_secs(10);

/// Drains the proxy whose admin socket this is: it says that it is not ready and asks clients to leave; then its listeners close; then what
/// runs has the rest of the time. Gives up when Envoy cannot be asked any more: it has ended.
///
/// # Errors
/// If Envoy does not answer within ten seconds.
pub async fn shutdown(socket: &Path, how: Shutdown) -> Result<Outcome, Error> {
    let began = Instant::now();
    let deadline = began + how.drain_timeout;
    fail_health_checks(socket, deadline.min(began + START)).await?;
    sleep_until(deadline.min(began + how.min_drain)).await;
    if admin::close_listeners(socket).await.is_err() {
        return Ok(Outcome::Idle);
    }
    loop {
        let Ok(busy) = admin::busy(socket).await else { return Ok(Outcome::Idle) };
        if busy.is_idle() {
            return Ok(Outcome::Idle);
        }
        if Instant::now() >= deadline {
            return Ok(Outcome::Busy(busy.connections));
        }
        sleep(ASK).await;
    }
}

async fn fail_health_checks(socket: &Path, deadline: Instant) -> Result<(), Error> {
    loop {
        match admin::fail_health_checks(socket).await {
            Err(_) if Instant::now() < deadline => sleep(ASK).await,
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests;
