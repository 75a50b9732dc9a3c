//! Probes: what is asked of a container again and again, and when the answers count.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use tokio::time::{Instant, sleep_until, timeout};

use super::handler::{self, Action};
use super::runtime::Joint;

/// A probe of a container that runs.
pub(crate) struct Prober {
    action: Action,
    joint: Joint,
    period: Duration,
    timeout: Duration,
    next: Instant,
    counter: Counter,
}

/// Equal answers in a row, of which some are needed.
#[derive(Debug, PartialEq, Eq)]
struct Counter {
    last: Option<bool>,
    row: i32,
    success: i32,
    failure: i32,
}

impl Counter {
    /// Counts an answer; gives it if enough came in a row.
    fn count(&mut self, good: bool) -> Option<bool> {
        self.row = if self.last == Some(good) { self.row.saturating_add(1) } else { 1 };
        self.last = Some(good);
        let needed = if good { self.success } else { self.failure };
        (self.row >= needed).then_some(good)
    }
}

impl Prober {
    /// Of a container that was started just now. The figures are as the API reference has them.
    pub(crate) fn new(probe: &Probe, action: Action, joint: Joint) -> Self {
        let seconds = |value: Option<i32>, default: u64| {
            let value = value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
            Duration::from_secs(value.unwrap_or(default))
        };
        let counter = Counter {
            last: None,
            row: 0,
            success: probe.success_threshold.unwrap_or(1),
            failure: probe.failure_threshold.unwrap_or(3),
        };
        Self {
            action,
            joint,
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            next: Instant::now() + seconds(probe.initial_delay_seconds, 0),
            counter,
        }
    }

    /// Asks until an answer counts, and gives it; `failed` is told of each bad one.
    pub(crate) async fn verdict(&mut self, failed: impl Fn(String)) -> bool {
        loop {
            sleep_until(self.next).await;
            self.next = Instant::now() + self.period;
            let answer = timeout(self.timeout, handler::run(&self.action, &self.joint)).await;
            let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", self.timeout.as_secs())));
            let good = answer.is_ok();
            if let Err(why) = answer {
                failed(why);
            }
            if let Some(verdict) = self.counter.count(good) {
                return verdict;
            }
        }
    }
}

#[cfg(test)]
mod tests;
